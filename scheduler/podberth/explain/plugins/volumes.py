"""Explainers of the volume plugins: which claim or volume keeps a pod from a node, or from all, and what would help."""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import NamedTuple

from msgspec.structs import replace

from podberth.cache.cluster import Cluster
from podberth.cache.nodes import HOSTNAME
from podberth.cache.volumes import Storage
from podberth.explain.changes import Fix, FreeClaim, MovePod
from podberth.explain.plugins.node_affinity import missed_requirements
from podberth.explain.spelling import similar
from podberth.framework.explaining import Detail, Explainer, Inquiry, domain
from podberth.framework.status import Reason
from podberth.model.pod import Pod
from podberth.model.quantity import show
from podberth.model.selectors import NodeSelector, Requirement
from podberth.model.storage import (
    READ_WRITE_ONCE_POD,
    WAIT_FOR_FIRST_CONSUMER,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
)
from podberth.model.volumes import ClaimVolume
from podberth.plugins.node_volume_limits import NodeVolumeLimits
from podberth.plugins.volume_binding.binder import Found, allowed_nodes, free_for, may_serve, reached_by
from podberth.plugins.volume_binding.plugin import VolumeBinding
from podberth.plugins.volume_restrictions import VolumeRestrictions, exclusive_claims
from podberth.plugins.volume_zone import TODAY, Topology, VolumeZone, topologies_of, volumes_of, within

_CLAIMS = 8
_HOLDERS = 2
"""The largest number of pods that are offered to be deleted for one claim."""


class Fault(NamedTuple):
    """A fault of a claim."""

    claim: str
    text: str


class ClaimsExplainer(Explainer):
    """Says what is wrong with the claims of a pod that PreFilter of a volume plugin has rejected for them."""

    def explain_pod(self, inquiry: Inquiry, reason: Reason) -> Detail:
        """Return every claim of the pod that can't be used, with what is wrong with it."""
        faults = _faults(inquiry)
        text = "; ".join(fault.text for fault in faults)
        return text, {"claims": [{"claim": fault.claim, "problem": fault.text} for fault in faults]}


def where_volumes_are(inquiry: Inquiry) -> dict[str, str]:
    """Return the labels that a new node needs to reach the pod's volumes, as far as one can give it them."""
    storage, pod = inquiry.cluster.storage, inquiry.pod
    found: dict[str, str] = {}
    for used in pod.shape.volumes.claims:
        claim = storage.claims.stored((pod.namespace, used.claim(pod.name)))
        volume = None if claim is None else storage.volumes.stored(claim.volume_name)
        if volume is None:
            continue
        found |= {TODAY.get(label, label): min(values) for label, values in topologies_of(volume)}
        for affinity in (volume.affinity, volume.translated_affinity):
            for requirement in affinity.terms[0].labels if affinity is not None and affinity.terms else ():
                if requirement.operator == "In" and requirement.values and requirement.key != HOSTNAME:
                    found[requirement.key] = min(requirement.values)
    return found


def users_of(inquiry: Inquiry, claim: str) -> list[tuple[Pod, str]]:
    """Return the placed pods that use a claim of the pod's namespace, and their nodes."""

    def find() -> dict[str, list[tuple[Pod, str]]]:
        found: dict[str, list[tuple[Pod, str]]] = {}
        names = inquiry.cluster.nodes.names
        for placement in inquiry.cluster.placements():
            pod = placement.pod
            if pod.namespace == inquiry.pod.namespace:
                for used in pod.shape.volumes.claims:
                    found.setdefault(used.claim(pod.name), []).append((pod, names[placement.row] or ""))
        return found

    users = inquiry.once("users of claims", find).get(claim, [])
    return sorted(users, key=lambda user: (user[0].priority, user[0].key))


def _faults(inquiry: Inquiry) -> list[Fault]:
    def find() -> list[Fault]:
        found = []
        for used in inquiry.pod.shape.volumes.claims:
            fault = _fault(inquiry, used)
            if fault is not None:
                found.append(fault)
            if len(found) == _CLAIMS:
                break
        return found

    return inquiry.once("faults of claims", find)


def _fault(inquiry: Inquiry, used: ClaimVolume) -> Fault | None:
    pod, storage = inquiry.pod, inquiry.cluster.storage
    name = used.claim(pod.name)
    claim = storage.claims.stored((pod.namespace, name))
    if claim is None:
        return _missing(inquiry, used, name)
    said = f"the claim {name} of this pod"
    if claim.terminating:
        return _leaving(inquiry, claim, said)
    if used.ephemeral and claim.owner != pod.uid:
        return Fault(name, f"{said} was made for another pod: delete it, and another one is made")
    gone = claim.volume_name and storage.volumes.stored(claim.volume_name) is None
    if claim.lost or gone:
        return Fault(name, f"{said} is bound to the volume {claim.volume_name}, which does not exist")
    return None if claim.volume_name else _unbound(storage, claim, said)


def _missing(inquiry: Inquiry, used: ClaimVolume, name: str) -> Fault:
    if used.ephemeral:
        return Fault(name, f"the claim {name} of this pod is not made yet: the ephemeral volume controller makes it")
    near = similar(name, (c.name for c in inquiry.cluster.storage.claims if c.namespace == inquiry.pod.namespace))
    return Fault(name, f"the claim {name} of this pod does not exist{f'; did you mean {near[0]}?' if near else ''}")


def _leaving(inquiry: Inquiry, claim: PersistentVolumeClaim, said: str) -> Fault:
    users = users_of(inquiry, claim.name)
    held = f", and is held by {', '.join(pod.key for pod, _ in users[:3])} until then" if users else ""
    return Fault(claim.name, f"{said} is being deleted{held}")


def _unbound(storage: Storage, claim: PersistentVolumeClaim, said: str) -> Fault | None:
    of = storage.classes.get(claim.storage_class)
    if not claim.storage_class:
        return Fault(claim.name, f"{said} has no volume and names no storage class")
    if of is None:
        near = similar(claim.storage_class, storage.classes)
        meant = f"; did you mean {near[0]}?" if near else ""
        return Fault(claim.name, f"{said} names the storage class {claim.storage_class}, which does not exist{meant}")
    if of.binding_mode == WAIT_FOR_FIRST_CONSUMER:
        return None
    if of.provisions:
        who = f"{of.provisioner} has to make it before the pod is scheduled (class {of.name})"
        return Fault(claim.name, f"{said} has no volume yet: {who}")
    text = f"{said} has no volume yet, and nobody makes one: a volume of the class {of.name} must be bound to it first"
    return Fault(claim.name, text)


class VolumeBindingExplainer(ClaimsExplainer):
    """Says of a node that VolumeBinding rejects: which claim, which volume, and what would help."""

    plugin: VolumeBinding

    def explain(self, inquiry: Inquiry, row: int, reason: Reason) -> Detail:
        """Return the claim and the volume, and what keeps the two or the node apart."""
        found = self.plugin.find(inquiry.pod, inquiry.cluster)
        match reason:
            case self.plugin.unreachable:
                return _say_unreachable(inquiry, row, found)
            case self.plugin.unmatched:
                return _say_unmatched(inquiry, row, found)
            case self.plugin.full:
                return _say_full(inquiry, row, found)
        return _say_lost(inquiry, found)


def _say_unreachable(inquiry: Inquiry, row: int, found: Found) -> Detail:
    """Return the bound volumes that the node does not reach, and which nodes do."""
    node = inquiry.node(row)
    parts, data = [], []
    for claim, volume in _unreached(inquiry, row, found):
        text, numbers = missed_requirements(
            node, (), _affinity(volume, row, inquiry.cluster), f"claim {claim.name} has the volume {volume.name}: "
        )
        parts.append(text)
        data.append({"claim": claim.name, "volume": volume.name, **numbers})
    return "; ".join(parts), {"claims": data}


def _say_lost(inquiry: Inquiry, found: Found) -> Detail:
    """Return the bound claims whose volume is gone."""
    gone = [c for c in found.claims.bound if inquiry.cluster.storage.volumes.get(c.volume_name) is None]
    text = "; ".join(f"claim {c.name} is bound to the volume {c.volume_name}, which does not exist" for c in gone)
    return text, {"claims": [{"claim": c.name, "volume": c.volume_name} for c in gone]}


def _say_unmatched(inquiry: Inquiry, row: int, found: Found) -> Detail:
    """Return the claims for which there is no volume here and none is made, and why."""
    parts, data = [], []
    for claim in _unmatched(inquiry, row, found):
        parts.append(f"claim {claim.name}: {_why_unmatched(inquiry, row, claim)}")
        data.append({"claim": claim.name, "storageClass": claim.storage_class, "selectedNode": claim.selected_node})
    return "; ".join(parts), {"claims": data}


def _reusable(inquiry: Inquiry, row: int, claim: PersistentVolumeClaim) -> str:
    """Return a volume that would serve the claim here if its own, which is gone, were forgotten; empty: none would."""
    for volume in inquiry.cluster.storage.volumes_of_class(claim.storage_class):
        if volume.released and not volume.is_for(claim) and not volume.terminating:
            free = replace(volume, claim=None, bound_by_controller=False, released=False, available=True)
            reached = inquiry.once(("reached", volume.name), partial(reached_by, volume, inquiry.cluster))
            if may_serve(free, claim) and free_for(free, claim) and (reached is None or reached[row]):
                return volume.name
    return ""


def _say_full(inquiry: Inquiry, row: int, found: Found) -> Detail:
    """Return the capacity that a driver has published for the node, and the amounts that the claims ask for."""
    parts, data = [], []
    needed = free = 0
    for claim, most in _full(inquiry, row, found):
        asked = claim.size
        text = f"at most {show('memory', most)}" if most else "none"
        parts.append(
            f"claim {claim.name} asks for {show('memory', asked)}: of the storage class {claim.storage_class} "
            f"there is {text} here"
        )
        data.append({"claim": claim.name, "asked": asked, "room": most})
        if asked - most > needed - free:
            needed, free = asked, most
    return "; ".join(parts), {"claims": data, "needed": needed, "free": free}


def _unreached(inquiry: Inquiry, row: int, found: Found) -> Iterator[tuple[PersistentVolumeClaim, PersistentVolume]]:
    for claim in found.claims.bound:
        volume = inquiry.cluster.storage.volumes.get(claim.volume_name)
        if volume is None:
            continue
        reached = inquiry.once(("reached", volume.name), partial(reached_by, volume, inquiry.cluster))
        if reached is not None and not reached[row]:
            yield claim, volume


def _affinity(volume: PersistentVolume, row: int, cluster: Cluster) -> NodeSelector | None:
    """Return the terms by which a node reaches a volume: those of a CSI driver that has taken over there, else its
    own.
    """
    moved = volume.translated
    by_driver = moved is not None and cluster.storage.attached.migrated(moved.plugin)[row]
    return volume.translated_affinity if by_driver else volume.affinity


def _unmatched(inquiry: Inquiry, row: int, found: Found) -> Iterator[PersistentVolumeClaim]:
    storage = inquiry.cluster.storage
    chosen = {binding.claim.key for binding in found.static_bindings if binding.on(row) is not None}
    for claim in found.claims.waiting:
        wanted = storage.classes.get(claim.storage_class)
        elsewhere = claim.selected_node not in (None, inquiry.node(row).name)
        if claim.key in chosen or wanted is None:
            continue
        allowed = inquiry.once(("allowed", wanted.name), partial(allowed_nodes, wanted, inquiry.cluster.nodes))
        if elsewhere or not allowed[row]:
            yield claim


def _why_unmatched(inquiry: Inquiry, row: int, claim: PersistentVolumeClaim) -> str:
    storage = inquiry.cluster.storage
    if claim.selected_node not in (None, inquiry.node(row).name):
        return f"its volume is to be made for the node {claim.selected_node}"
    wanted = storage.classes[claim.storage_class]
    if wanted.provisions:
        return f"the storage class {wanted.name} makes volumes only in {_where(wanted)}"
    there = _volumes(storage, claim, _reusable(inquiry, row, claim))
    return f"no volume of the storage class {wanted.name} reaches the node ({there}), and it makes none"


def _where(wanted: StorageClass) -> str:
    terms = [" and ".join(_domains(requirement) for requirement in term) for term in wanted.topologies or () if term]
    return " or ".join(terms) or "no place at all"


def _domains(requirement: Requirement) -> str:
    return " or ".join(domain(requirement.key, value) for value in sorted(requirement.values))


def _volumes(storage: Storage, claim: PersistentVolumeClaim, again: str) -> str:
    """Return the number of volumes of the claim's class, and what keeps them from serving it.

    `again`: a Released one that would serve it; empty: none would.
    """
    of_class, asked = storage.volumes_of_class(claim.storage_class), claim.requested or 0
    if not of_class:
        return "there is none"
    released = sum(volume.released and not volume.is_for(claim) for volume in of_class)
    usable = f": {again} can be used again without its spec.claimRef" if again else ""
    taken = sum(one.claim is not None and not one.is_for(claim) and not one.released for one in of_class)
    small = sum(volume.claim is None and volume.capacity < asked for volume in of_class)
    fit = sum(may_serve(volume, claim) and (volume.is_for(claim) or free_for(volume, claim)) for volume in of_class)
    reserved = [one for one in of_class if one.claim is None and one.capacity >= asked]
    away = sum(not one.released and (not one.available or one.terminating) for one in reserved)
    counts = [
        (taken, "taken"),
        (released, f"Released{usable}"),
        (small, f"smaller than {show('memory', claim.size)}"),
        (fit, "elsewhere"),
        (away, "not Available"),
    ]
    rest = len(of_class) - released - taken - small - fit - away
    return f"{len(of_class)} in all: " + ", ".join(
        f"{number} {what}" for number, what in (*counts, (rest, "of other modes or labels")) if number > 0
    )


def _full(inquiry: Inquiry, row: int, found: Found) -> Iterator[tuple[PersistentVolumeClaim, int]]:
    """Yield claims for which a driver has not enough room here, and how much it has for a volume."""
    cluster = inquiry.cluster
    for provision in found.dynamic_provisions:
        claim, storage = provision.claim, cluster.storage
        wanted = storage.classes.get(claim.storage_class)
        driver = None if wanted is None else storage.drivers.get(wanted.provisioner)
        if not provision.rows[row] or wanted is None or driver is None or not driver.storage_capacity:
            continue
        labels = inquiry.node(row).labels
        room = [
            capacity.limit or 0
            for capacity in storage.capacities(wanted.name)
            if capacity.topology is not None and capacity.topology.matches(labels)
        ]
        most = max(room, default=0)
        if most < claim.size:
            yield claim, most


class VolumeRestrictionsExplainer(ClaimsExplainer):
    """Says of a node that VolumeRestrictions rejects: who uses the claim or the disk."""

    plugin: VolumeRestrictions

    def explain(self, inquiry: Inquiry, row: int, reason: Reason) -> Detail:
        """Return the holders of the claim, or of the disk, and their nodes."""
        if reason != self.plugin.claim_in_use:
            held = _disk_holders(inquiry, row)
            text = "; ".join(f"the disk {disk} is used by {pod.key} here" for pod, disk in held)
            return text, {"disks": [{"disk": disk, "pod": pod.key} for pod, disk in held]}
        users = [
            (claim, user)
            for claim in sorted(exclusive_claims(inquiry.pod, inquiry.cluster))
            for user in users_of(inquiry, claim)
        ]
        text = "; ".join(
            f"claim {claim} may be used by one pod only ({READ_WRITE_ONCE_POD}): {pod.key} on {node} holds it"
            for claim, (pod, node) in users
        )
        return text, {"claims": [{"claim": claim, "pod": pod.key, "node": node} for claim, (pod, node) in users]}

    def fixes(self, inquiry: Inquiry, row: int, reasons: Sequence[Reason]) -> list[Fix]:
        """Return the deletion of the pods that hold the claim or the disk."""
        free: dict[str, MovePod] = {}
        if self.plugin.no_disk in reasons:
            node = inquiry.node(row).name
            free |= {pod.key: MovePod(pod.key, node) for pod, _ in _disk_holders(inquiry, row)}
        if self.plugin.claim_in_use in reasons:
            for claim in sorted(exclusive_claims(inquiry.pod, inquiry.cluster)):
                users = users_of(inquiry, claim)
                free |= {pod.key: FreeClaim(pod.key, node, claim) for pod, node in users}
        return [tuple(free.values())] if len(free) <= _HOLDERS else []


def _disk_holders(inquiry: Inquiry, row: int) -> list[tuple[Pod, str]]:
    """Return the pods on a node that use a disk of the pod so that it can't be shared, and the disk."""
    found = []
    for pod in inquiry.cluster.pods_on(row):
        theirs = {disk.key: disk for disk in pod.shape.volumes.disks}
        for disk in inquiry.pod.shape.volumes.disks:
            other = theirs.get(disk.key)
            if other is not None and (disk.exclusive or other.exclusive):
                found.append((pod, " ".join(disk.key)))
    return found


class VolumeZoneExplainer(ClaimsExplainer):
    """Says of a node that VolumeZone rejects: where the volumes are, and where the node is."""

    plugin: VolumeZone

    def explain(self, inquiry: Inquiry, row: int, reason: Reason) -> Detail:
        """Return the places of the volumes of each claim, and of the node."""
        labels, storage, pod = inquiry.node(row).labels, inquiry.cluster.storage, inquiry.pod
        claims = (storage.claims.stored((pod.namespace, used.name)) for used in pod.shape.volumes.claims)
        claim_of = {claim.volume_name: claim.name for claim in claims if claim is not None}
        parts, data = [], []
        for volume, topologies in self._elsewhere(inquiry, row):
            claim = claim_of[volume.name]
            for label, values in topologies:
                key = label if label in labels else TODAY.get(label, label)  # as `within` looks
                where = " or ".join(domain(key, value) for value in sorted(values))
                has = labels.get(key)
                here = f"is in {domain(key, has)}" if has else f"has no label {key}"
                parts.append(f"claim {claim} has the volume {volume.name} in {where}: the node {here}")
                data.append({"claim": claim, "volume": volume.name, "key": key, "values": sorted(values), "has": has})
        return "; ".join(parts), {"volumes": data}

    def _elsewhere(self, inquiry: Inquiry, row: int) -> list[tuple[PersistentVolume, list[Topology]]]:
        """Return the bound volumes that are not where the node is."""
        found = []
        nodes = inquiry.cluster.nodes
        volumes, _ = volumes_of(inquiry.pod, inquiry.cluster)
        for volume in volumes:
            missed = [
                topology
                for topology in topologies_of(volume)
                if not inquiry.once(topology, partial(within, topology, nodes))[row]
            ]
            if missed:
                found.append((volume, missed))
        return found


_MOVES = 4
"""The number of pods whose move is offered; the first one that helps is shown."""


class NodeVolumeLimitsExplainer(Explainer):
    """Says of a node that NodeVolumeLimits rejects: how many volumes are attached there."""

    plugin: NodeVolumeLimits

    def explain(self, inquiry: Inquiry, row: int, reason: Reason) -> Detail:
        """Return how many volumes of a driver are attached, of how many, and how many more the pod brings."""
        if reason != self.plugin.too_many:
            return reason.text, {}
        short = list(self._short(inquiry, row))
        text = "; ".join(
            f"{s.attached} of {s.limit} volumes of {s.driver} are attached, the pod needs {s.more} more" for s in short
        )
        worst = max(short, key=lambda s: s.attached + s.more - s.limit)
        numbers = {"needed": worst.more, "free": worst.limit - worst.attached}
        return text, {"drivers": [s._asdict() for s in short], **numbers}

    def fixes(self, inquiry: Inquiry, row: int, reasons: Sequence[Reason]) -> list[Fix]:
        """Have a pod go whose volumes make enough room: one of those that matter least."""
        if list(reasons) != [self.plugin.too_many]:
            return []
        short = list(self._short(inquiry, row))
        attached = inquiry.cluster.storage.attached
        known = bool(attached.with_csi_node()[row])
        pods = inquiry.cluster.pods_on(row)
        volumes = {pod.uid: attached.of_pod(pod, with_csi_node=known) for pod in pods}
        users = [volume for found in volumes.values() for volume in found]
        leaving = []
        for pod in inquiry.movable(row):
            own = [driver for volume, driver in volumes[pod.uid].items() if users.count(volume) == 1]
            if all(own.count(s.driver) >= s.attached + s.more - s.limit for s in short):
                leaving.append(pod)
        leaving.sort(key=lambda pod: (not pod.terminating, pod.priority, len(volumes[pod.uid])))
        return [(MovePod(pod.key, inquiry.node(row).name),) for pod in leaving[:_MOVES]]

    def _short(self, inquiry: Inquiry, row: int) -> "Iterator[_Short]":
        """Yield drivers of which the pod brings more volumes than the node can attach."""
        attached = inquiry.cluster.storage.attached
        wanted = inquiry.once("volumes to attach", lambda: self.plugin.wanted(inquiry.pod, inquiry.cluster))
        for driver, its_volumes in wanted.with_csi_node.items():
            limit = int(attached.limits(driver)[row])
            count = int(attached.counts(driver)[row])
            more = sum(row not in attached.holders(volume) for volume in its_volumes)
            if limit >= 0 and more and count + more > limit:
                yield _Short(driver, count, limit, more)


class _Short(NamedTuple):
    """A driver of which a node can't attach as many volumes as a pod needs."""

    driver: str
    attached: int
    limit: int
    more: int
