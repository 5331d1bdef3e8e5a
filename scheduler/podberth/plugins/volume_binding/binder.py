"""Volumes for a pod's claims: which could serve them where; assumed, written, watched until bound, or given back.

For all nodes at once. Upstream: plugins/volumebinding/binder.go (FindPodVolumes, findMatchingVolumes,
checkVolumeProvisions, hasEnoughCapacity, AssumePodVolumes, RevertAssumedPodVolumes, bindAPIUpdate, checkBindings) and
component-helpers storage/volume (FindMatchingVolume, GetBindVolumeToClaim). Where upstream takes the first of several
equal volumes from a map, the first by name is taken here.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from msgspec import Struct, field
from msgspec.structs import replace

from podberth.cache.cluster import Cluster
from podberth.cache.column import ABSENT, Bools, Column, Ints
from podberth.cache.nodes import Nodes
from podberth.cache.volumes import Storage
from podberth.framework.binding import AssumedPod, ObjectKey, Patch
from podberth.model.pod import Pod
from podberth.model.selectors import Requirement
from podberth.model.storage import (
    WAIT_FOR_FIRST_CONSUMER,
    ClaimRef,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
)
from podberth.plugins.node_affinity import matches, matches_all

NONE = -1
_A_LOOK = 5
"""Steps of a look at one volume, or at one capacity that a driver publishes: there may be one for each node."""


class MatchingError(Exception):
    """An error that ends the attempt, as in upstream, rather than reject a node."""


class Claims(Struct):
    """A pod's claims by what is to be done about them."""

    bound: list[PersistentVolumeClaim] = field(default_factory=list)
    waiting: list[PersistentVolumeClaim] = field(default_factory=list)
    """Unbound, of a class that waits for the pod's node."""
    immediate: list[PersistentVolumeClaim] = field(default_factory=list)
    """Unbound, and not ours to bind."""


class StaticBinding(Struct):
    """The volume, of those that are there, that a claim would get on each row."""

    claim: PersistentVolumeClaim
    volumes: list[PersistentVolume]
    chosen: Ints
    """By row the index of the volume in `volumes`; NONE: the claim gets none of them."""
    numbers: Ints
    """By row the number of that volume in `Found.numbers`, by which a later claim of the pod knows that it is taken."""

    def on(self, row: int) -> PersistentVolume | None:
        chosen = int(self.chosen[row])
        return None if chosen == NONE else self.volumes[chosen]


class DynamicProvision(Struct):
    """A claim whose volume would be made on some rows. `room`: the capacity found for it there, NONE: not looked at."""

    claim: PersistentVolumeClaim
    rows: Bools
    room: Ints


class Found(Struct):
    """The volumes that would serve the pod on each row, and the rows that can't for each of four reasons."""

    unreachable: Bools
    """A bound volume's node affinity does not match."""
    lost: Bools
    """A bound claim's volume does not exist."""
    unmatched: Bools
    """An unbound claim finds neither a volume nor a class that provisions here."""
    full: Bools
    """Not enough room for a volume that is to be made."""
    claims: Claims
    static_bindings: list[StaticBinding] = field(default_factory=list)
    numbers: dict[str, int] = field(default_factory=dict)
    """Volumes by name: the number under which one claim's volume is known to the next."""
    dynamic_provisions: list[DynamicProvision] = field(default_factory=list)


def claims_of(pod: Pod, cluster: Cluster) -> Claims:
    """Sort a pod's claims, as they are assumed to be (GetPodVolumeClaims). Raises MatchingError.

    One that is missing is left out: PreFilter has rejected the pod then. One that the pod names twice gets one volume;
    upstream looks for two.
    """
    storage = cluster.storage
    found = Claims()
    for name in dict.fromkeys(used.claim(pod.name) for used in pod.shape.volumes.claims):
        claim = storage.claims.get((pod.namespace, name))
        if claim is None:
            continue
        if claim.bound:
            found.bound.append(claim)
        elif _waits(claim, storage.classes.get(claim.storage_class)):
            found.waiting.append(claim)
        else:
            found.immediate.append(claim)
    return found


def _waits(claim: PersistentVolumeClaim, storage_class: StorageClass | None) -> bool:
    if not claim.storage_class or storage_class is None:
        return False
    if storage_class.binding_mode is None:
        raise MatchingError(f'VolumeBindingMode not set for StorageClass "{claim.storage_class}"')
    return storage_class.binding_mode == WAIT_FOR_FIRST_CONSUMER and not claim.volume_name


def find(pod: Pod, cluster: Cluster) -> Found:
    """Return what would serve a pod's claims on each row. Raises MatchingError."""
    claims = claims_of(pod, cluster)
    unreachable, lost, unmatched, full = np.zeros((4, cluster.nodes.rows), dtype=np.bool_)
    found = Found(unreachable, lost, unmatched, full, claims)
    _check_bound(claims.bound, cluster, found)
    if claims.waiting:
        permitted = _selected_rows(claims.waiting, cluster.nodes)
        found.unmatched |= ~permitted
        to_provision = [(claim, permitted) for claim in claims.waiting if claim.selected_node is not None]
        to_match = [claim for claim in claims.waiting if claim.selected_node is None]
        for claim in sorted(to_match, key=lambda claim: claim.requested or 0):
            binding = _choose(claim, permitted, found, cluster)
            found.static_bindings.append(binding)
            to_provision.append((claim, permitted & (binding.chosen == NONE)))
        _provision(to_provision, cluster, found)
    return found


def _selected_rows(claims: Iterable[PersistentVolumeClaim], nodes: Nodes) -> Bools:
    """bool[rows]: the one node that claims were given already (selected-node), no row if they differ, all without."""
    only = {nodes.live_row(claim.selected_node) for claim in claims if claim.selected_node is not None}
    permitted: Bools = np.full(nodes.rows, not only)
    if len(only) == 1:
        row = only.pop()
        if row is not None:
            permitted[row] = True
    return permitted


def _check_bound(claims: Iterable[PersistentVolumeClaim], cluster: Cluster, found: Found) -> None:
    """The first claim that fails on a row says why (checkBoundClaims)."""
    left = np.ones(cluster.nodes.rows, dtype=np.bool_)
    for claim in claims:
        volume = cluster.storage.volumes.get(claim.volume_name)
        if volume is None:
            found.lost |= left
            return
        reached = reached_by(volume, cluster)
        if reached is not None:
            found.unreachable |= left & ~reached
            left &= reached


def reached_by(volume: PersistentVolume, cluster: Cluster) -> Bools | None:
    """Nodes that reach a bound volume, by its CSI driver's terms where that has taken over; None: all do."""
    nodes = cluster.nodes
    reached = None if volume.affinity is None else matches(volume.affinity, nodes, by_name=False)
    translated = volume.translated
    if translated is None:
        return reached
    migrated = cluster.storage.attached.migrated(translated.plugin) & nodes.alive[: nodes.rows]
    if translated.problem is not None:
        # Upstream fails the whole attempt when it comes to such a node.
        return ~migrated if reached is None else reached & ~migrated
    if not migrated.any():
        return reached
    everywhere = np.ones(nodes.rows, dtype=np.bool_)
    moved = volume.translated_affinity
    reached_by_driver = everywhere if moved is None else matches(moved, nodes, by_name=False)
    return np.where(migrated, reached_by_driver, everywhere if reached is None else reached)


def _choose(claim: PersistentVolumeClaim, rows: Bools, found: Found, cluster: Cluster) -> StaticBinding:
    """The smallest volume that serves a claim on each row, or the one that is meant for it (FindMatchingVolume)."""
    if claim.problem is not None:
        raise MatchingError(f"error creating internal label selector for claim: {claim}: {claim.problem}")
    nodes = cluster.nodes
    of_class = cluster.storage.volumes_of_class(claim.storage_class)
    cluster.search_steps.taken += _A_LOOK * len(of_class)
    meant = sorted((v for v in of_class if v.is_for(claim) and may_serve(v, claim)), key=_size)
    # Where the volume that is meant for the claim can't be reached, no other one that is there will do.
    volumes = meant[:1] or sorted((v for v in of_class if free_for(v, claim) and may_serve(v, claim)), key=_size)
    nothing = len(volumes)
    numbers = np.array([found.numbers.setdefault(v.name, len(found.numbers)) for v in volumes] + [NONE], dtype=np.int64)
    chosen = np.full(nodes.rows, nothing, dtype=np.int64)
    by_label: dict[str, dict[str, list[int]]] = {}
    for index, volume in enumerate(volumes):
        terms = volume.affinity.terms if volume.affinity is not None else ()
        label = _single_label(terms[0].labels) if len(terms) == 1 else None
        if label is not None:
            by_label.setdefault(label[0], {}).setdefault(label[1], []).append(index)
            continue
        here = rows & (chosen == nothing)
        if here.any():
            here &= ~_taken(np.full(nodes.rows, numbers[index]), found.static_bindings)
            chosen[here & _reaches(volume, nodes)] = index
    for key, by_value in by_label.items():
        best = _by_label(nodes.label(key), by_value, numbers, rows, found.static_bindings)
        np.minimum(chosen, best, out=chosen)
    chosen[~rows | (chosen == nothing)] = NONE
    return StaticBinding(claim, volumes, chosen, numbers[chosen])


def _size(volume: PersistentVolume) -> tuple[int, str]:
    return volume.capacity, volume.name


def _single_label(requirements: Sequence[Requirement]) -> tuple[str, str] | None:
    """(key, value) where nodes must have one label, as for local disks: there may be a volume for every node."""
    if len(requirements) != 1:
        return None
    (requirement,) = requirements
    if requirement.operator != "In" or len(requirement.values) != 1:
        return None
    (value,) = requirement.values
    return requirement.key, value


def _by_row(column: Column[str], by_value: Mapping[str, int], otherwise: int, rows: int) -> Ints:
    """int64[rows]: the number given for each row's value of a label; `otherwise` where none is given."""
    # The last slot is read by rows without the label.
    by_code = np.full(len(column.values) + 1, otherwise, dtype=np.int64)
    for value, number in by_value.items():
        code = column.code_of(value)
        if code != ABSENT:
            by_code[code] = number
    return by_code[column.codes[:rows]]


def _by_label(
    column: Column[str], by_value: dict[str, list[int]], numbers: Ints, rows: Bools, earlier: Sequence[StaticBinding]
) -> Ints:
    """The first volume by row among those reached by one label."""
    nothing = len(numbers) - 1
    best = np.full(len(rows), nothing, dtype=np.int64)
    left = rows.copy()
    for turn in range(max(map(len, by_value.values()))):
        of_turn = {value: indices[turn] for value, indices in by_value.items() if turn < len(indices)}
        here = _by_row(column, of_turn, nothing, len(rows))
        left &= here != nothing
        gets = left & ~_taken(numbers[here], earlier)
        best[gets] = here[gets]
        left &= ~gets
        if not left.any():
            break
    return best


def _reaches(volume: PersistentVolume, nodes: Nodes) -> Bools:
    if volume.affinity is None:
        return np.ones(nodes.rows, dtype=np.bool_)
    return matches(volume.affinity, nodes, by_name=False)


def _taken(volumes: Ints, earlier: Iterable[StaticBinding]) -> Bools:
    """Rows where an earlier claim of the pod gets the volume whose number is given."""
    taken = np.zeros(len(volumes), dtype=np.bool_)
    for binding in earlier:
        taken |= binding.numbers == volumes
    return taken


def may_serve(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """Return whether a volume is large enough for a claim, of its mode, and no other claim's."""
    return (
        (volume.claim is None or volume.is_for(claim))
        and volume.capacity >= (claim.requested or 0)
        and volume.volume_mode == claim.volume_mode
        and volume.attributes_class == claim.attributes_class
        and not volume.terminating
    )


def free_for(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """Return whether a volume is nobody's and available, and has the labels and access modes that a claim asks for."""
    return (
        volume.claim is None
        and volume.available
        and (claim.selector is None or claim.selector.matches(volume.labels))
        and all(mode in volume.access_modes for mode in claim.access_modes)
    )


def _provision(wanted: Iterable[tuple[PersistentVolumeClaim, Bools]], cluster: Cluster, found: Found) -> None:
    """Make volumes for claims on the rows that need it; the first claim that fails on a row says why."""
    left = np.ones(cluster.nodes.rows, dtype=np.bool_)
    for claim, where in wanted:
        rows = where & left
        if rows.any():
            storage_class = cluster.storage.classes[claim.storage_class]
            allowed = allowed_nodes(storage_class, cluster.nodes)
            room, enough = _room(claim, storage_class, cluster)
            found.unmatched |= rows & ~allowed
            found.full |= rows & allowed & ~enough
            left &= ~rows | (allowed & enough)
            found.dynamic_provisions.append(DynamicProvision(claim, rows, room))


def allowed_nodes(storage_class: StorageClass, nodes: Nodes) -> Bools:
    """Nodes for which a class makes volumes."""
    if not storage_class.provisions:
        return np.zeros(nodes.rows, dtype=np.bool_)
    if storage_class.topologies is None:
        return np.ones(nodes.rows, dtype=np.bool_)
    allowed = np.zeros(nodes.rows, dtype=np.bool_)
    for term in storage_class.topologies:
        allowed |= matches_all(term, nodes)
    return allowed


def _room(claim: PersistentVolumeClaim, storage_class: StorageClass, cluster: Cluster) -> tuple[Ints, Bools]:
    """(capacity found for a claim by row, where there is enough); all nodes do unless the driver publishes capacity."""
    nodes = cluster.nodes
    driver = cluster.storage.drivers.get(storage_class.provisioner)
    if claim.requested is None or driver is None or not driver.storage_capacity:
        return np.full(nodes.rows, NONE, dtype=np.int64), np.ones(nodes.rows, dtype=np.bool_)
    published = cluster.storage.capacities(storage_class.name)
    cluster.search_steps.taken += _A_LOOK * len(published)
    large = [capacity for capacity in published if capacity.limit is not None and capacity.limit >= claim.size]
    large.sort(key=lambda capacity: capacity.key)
    first = np.full(nodes.rows, len(large), dtype=np.int64)
    by_label: dict[str, dict[str, int]] = {}
    for index, capacity in enumerate(large):
        if capacity.topology is None:
            continue
        requirements = capacity.topology.requirements
        label = _single_label(requirements)
        if label is not None:
            by_label.setdefault(label[0], {}).setdefault(label[1], index)
        else:
            np.minimum(first, index, out=first, where=matches_all(requirements, nodes))
    for key, by_value in by_label.items():
        np.minimum(first, _by_row(nodes.label(key), by_value, len(large), nodes.rows), out=first)
    room = np.array([*(capacity.capacity for capacity in large), NONE], dtype=np.int64)
    return room[first], first < len(large)


VOLUME = "PersistentVolume"
CLAIM = "PersistentVolumeClaim"
_SELECTED_NODE = "volume.kubernetes.io/selected-node"
_BOUND_BY_CONTROLLER = "pv.kubernetes.io/bound-by-controller"


class AssumedVolumes(Struct):
    """A pod's volumes on its node. `volumes`: (volume with its claimRef, claim); `claims`: to be provisioned."""

    volumes: list[tuple[PersistentVolume, PersistentVolumeClaim]] = field(default_factory=list)
    claims: list[PersistentVolumeClaim] = field(default_factory=list)
    writes: tuple[Patch, ...] = ()
    asked: bool = False
    """The writes were asked for."""

    def __bool__(self) -> bool:
        return bool(self.volumes or self.claims)

    def __str__(self) -> str:
        """Return which volume each claim gets, for people."""
        there = [f"the claim {claim.name} gets the volume {volume.name}" for volume, claim in self.volumes]
        made = [
            f"a volume of the class {claim.storage_class} is to be made for the claim {claim.name}"
            for claim in self.claims
        ]
        return ", ".join(there + made)

    def objects(self) -> frozenset[ObjectKey]:
        """Everything whose change may complete the binding."""
        keys = [volume_key(volume.name) for volume, _ in self.volumes]
        keys += [claim_key(claim) for _, claim in self.volumes]
        keys += [claim_key(claim) for claim in self.claims]
        return frozenset(keys)


def volume_key(name: str) -> ObjectKey:
    """The name under which a volume's changes are watched."""
    return VOLUME, "", name


def claim_key(claim: PersistentVolumeClaim) -> ObjectKey:
    """The name under which a claim's changes are watched."""
    return CLAIM, claim.namespace, claim.name


def assume(found: Found, cluster: Cluster, row: int) -> AssumedVolumes:
    """Assume the volumes that were found for a row, so that the next decision sees them as taken.

    `found` has the API's latest versions: it is found anew after every change.
    """
    storage = cluster.storage
    taken = AssumedVolumes()
    node = cluster.nodes.names[row] or ""
    writes: list[Patch] = []
    for binding in found.static_bindings:
        volume = binding.on(row)
        if volume is not None:
            bound = _bound(volume, binding.claim)
            storage.assume_volume(bound)
            taken.volumes.append((bound, binding.claim))
            writes.extend(_volume_patch(storage.volumes.stored(volume.name), bound, binding.claim))
    for provision in found.dynamic_provisions:
        if provision.rows[row]:
            claim = replace(provision.claim, selected_node=node)
            storage.assume_claim(claim)
            taken.claims.append(claim)
            writes.extend(_claim_patch(storage.claims.stored(claim.key), claim))
    taken.writes = tuple(writes)
    return taken


def restore(taken: AssumedVolumes, written: Mapping[ObjectKey, str], storage: Storage) -> None:
    """Show the API's versions again; what was written stays assumed until the API shows it."""
    for volume, _ in taken.volumes:
        if volume_key(volume.name) not in written:
            storage.restore_volume(volume)
    for claim in taken.claims:
        if claim_key(claim) not in written:
            storage.restore_claim(claim)


def still_unbound(assumed: AssumedPod, cluster: Cluster) -> frozenset[ObjectKey]:
    """The objects that are still waited for; none when every claim is bound.

    Raises MatchingError when they can't be bound any more.
    """
    taken: AssumedVolumes = assumed.reserved
    if cluster.nodes.live_row(assumed.node) is None:
        raise MatchingError(f'failed to get node "{assumed.node}": node "{assumed.node}" not found')
    checks = [_check_volume(volume, claim, assumed, cluster) for volume, claim in taken.volumes]
    checks += [_check_claim(claim, assumed, cluster) for claim in taken.claims]
    wanted: set[ObjectKey] = set()
    for check in checks:
        # Lazy: as upstream, nothing is looked at after the first object that has to be waited for.
        wanted.update(check)
        if wanted:
            return frozenset((*wanted, *taken.objects(), ("Node", "", assumed.node)))
    return frozenset()


def _check_volume(
    taken: PersistentVolume, claim: PersistentVolumeClaim, assumed: AssumedPod, cluster: Cluster
) -> Iterator[ObjectKey]:
    storage = cluster.storage
    volume, found = storage.volumes.stored(taken.name), storage.claims.stored(claim.key)
    if volume is None:
        raise MatchingError(f'failed to check binding: persistentvolumes "{taken.name}" not found')
    if found is None:
        raise MatchingError(f'failed to check binding: persistentvolumeclaims "{claim}" not found')
    if _older(volume.resource_version, assumed.written.get(volume_key(volume.name))):
        yield volume_key(volume.name)
        return
    _check_reached(volume, assumed, cluster)
    if volume.claim is None or not volume.claim.uid:
        raise MatchingError(f'ClaimRef got reset for pv "{volume.name}"')
    if not found.bound:
        yield claim_key(found)


def _check_claim(taken: PersistentVolumeClaim, assumed: AssumedPod, cluster: Cluster) -> Iterator[ObjectKey]:
    storage = cluster.storage
    claim = storage.claims.stored(taken.key)
    if claim is None:
        raise MatchingError(f'failed to check provisioning pvc: persistentvolumeclaims "{taken}" not found')
    if _older(claim.resource_version, assumed.written.get(claim_key(claim))):
        yield claim_key(claim)
        return
    if not claim.annotated:
        raise MatchingError(f'selectedNode annotation reset for PVC "{claim.name}"')
    if claim.selected_node != assumed.node:
        # This is how a provisioner says that it can't make the volume for this node.
        raise MatchingError(f'provisioning failed for PVC "{claim.name}"')
    if claim.volume_name:
        volume = storage.volumes.stored(claim.volume_name)
        if volume is None:
            yield volume_key(claim.volume_name)
            return
        _check_reached(volume, assumed, cluster)
    if not claim.bound:
        yield claim_key(claim)


def _check_reached(volume: PersistentVolume, assumed: AssumedPod, cluster: Cluster) -> None:
    reached = reached_by(volume, cluster)
    if reached is not None and not reached[assumed.row]:
        text = f'pv "{volume.name}" node affinity doesn\'t match node "{assumed.node}": no matching NodeSelectorTerms'
        raise MatchingError(text)


def _older(stored: str, written: str | None) -> bool:
    """Return whether the watch has not shown yet what we wrote (CompareResourceVersion).

    An object that somebody has written by hand has no version: nothing that was written shows on it.
    """
    if written is None or not written.isdigit() or (stored and not stored.isdigit()):
        return False
    return int(stored or 0) < int(written)


def _bound(volume: PersistentVolume, claim: PersistentVolumeClaim) -> PersistentVolume:
    ref = ClaimRef(claim.namespace, claim.name, claim.uid)
    return replace(volume, claim=ref, bound_by_controller=volume.bound_by_controller or not volume.is_for(claim))


def _volume_patch(
    stored: PersistentVolume | None, bound: PersistentVolume, claim: PersistentVolumeClaim
) -> Iterator[Patch]:
    """Yield what makes the API's volume the one that is assumed."""
    if stored is None or (stored.claim == bound.claim and stored.bound_by_controller == bound.bound_by_controller):
        return
    change: dict[str, Any] = {
        "spec": {
            "claimRef": {
                "apiVersion": "v1",
                "kind": CLAIM,
                "namespace": claim.namespace,
                "name": claim.name,
                "uid": claim.uid,
                "resourceVersion": claim.resource_version,
            }
        }
    }
    if bound.bound_by_controller and not stored.bound_by_controller:
        change["metadata"] = {"annotations": {_BOUND_BY_CONTROLLER: "yes"}}
    yield Patch(volume_key(bound.name), bound.uid, bound.resource_version, change)


def _claim_patch(stored: PersistentVolumeClaim | None, claim: PersistentVolumeClaim) -> Iterator[Patch]:
    if stored is not None and stored.selected_node != claim.selected_node:
        change = {"metadata": {"annotations": {_SELECTED_NODE: claim.selected_node}}}
        yield Patch(claim_key(claim), claim.uid, claim.resource_version, change)
