"""Volumes and claims that a pod takes: assumed, written, watched until bound, or given back.

Upstream: plugins/volumebinding/binder.go (AssumePodVolumes, RevertAssumedPodVolumes, bindAPIUpdate, checkBindings)
and component-helpers storage/volume (GetBindVolumeToClaim).
"""

from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from podberth.cache.cluster import Cluster
from podberth.cache.volumes import OutOfSyncError, Storage
from podberth.framework.binding import AssumedPod, ObjectKey, Patch
from podberth.model.storage import ClaimRef, PersistentVolume, PersistentVolumeClaim
from podberth.plugins.volume_binding.matching import Found, MatchingError, reached_by

VOLUME = "PersistentVolume"
CLAIM = "PersistentVolumeClaim"
_SELECTED_NODE = "volume.kubernetes.io/selected-node"
_BOUND_BY_CONTROLLER = "pv.kubernetes.io/bound-by-controller"


class AssumedVolumes(Struct):
    """What a pod is to get on its node. `volumes`: (volume with its claimRef, claim); `claims`: to be provisioned."""

    volumes: list[tuple[PersistentVolume, PersistentVolumeClaim]] = field(default_factory=list)
    claims: list[PersistentVolumeClaim] = field(default_factory=list)
    writes: tuple[Patch, ...] = ()
    asked: bool = False
    """The writes were asked for."""

    def __bool__(self) -> bool:
        return bool(self.volumes or self.claims)

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

    Raises OutOfSyncError when an object is not what it was chosen as; then nothing is assumed.
    """
    storage = cluster.storage
    taken = AssumedVolumes()
    node = cluster.nodes.names[row] or ""
    writes: list[Patch] = []
    try:
        for choice in found.choices:
            volume = choice.on(row)
            if volume is not None:
                bound = _bound(volume, choice.claim)
                storage.assume_volume(bound)
                taken.volumes.append((bound, choice.claim))
                writes.extend(_volume_patch(storage.volumes.stored(volume.name), bound, choice.claim))
        for provision in found.provisions:
            if provision.rows[row]:
                claim = replace(provision.claim, selected_node=node)
                storage.assume_claim(claim)
                taken.claims.append(claim)
                writes.extend(_claim_patch(storage.claims.stored(claim.key), claim))
    except OutOfSyncError:
        restore(taken, {}, storage)
        raise
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
        # Upstream looks no further than the first that has to be waited for.
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
    """Return whether the watch has not shown yet what we wrote (CompareResourceVersion)."""
    return written is not None and written.isdigit() and stored.isdigit() and int(stored) < int(written)


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
