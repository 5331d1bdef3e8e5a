"""Upstream: plugins/volumerestrictions."""

from collections.abc import Collection, Iterable

import numpy as np

from podberth.cache.cluster import Cluster
from podberth.framework.events import ClusterEvent
from podberth.framework.interface import NO_POINTS, PODS_ELSEWHERE, PODS_HERE, SKIPPABLE, VOLUMES, OtherObject, Plugin
from podberth.framework.status import Reject, Rejections, Unresolvable, Unschedulable
from podberth.model.pod import Pod
from podberth.model.shape import PodShape
from podberth.model.storage import READ_WRITE_ONCE_POD, PersistentVolumeClaim
from podberth.model.volumes import NO_VOLUMES


class VolumeRestrictions(Plugin):
    """Keep a pod off nodes where its inline disks are in use, and off all while its ReadWriteOncePod claim is."""

    name = "VolumeRestrictions"
    depends_on = PODS_HERE | PODS_ELSEWHERE | VOLUMES
    events = ClusterEvent.NODE_ADDED | ClusterEvent.POD_GONE | ClusterEvent.CLAIM_ADDED
    no_disk = Unschedulable("node(s) had no available disk")
    claim_in_use = Unschedulable(
        "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use "
        "by another pod"
    )

    def skips(self, shape: PodShape) -> Collection[str]:
        """Skip everything for pods without volumes."""
        return SKIPPABLE if shape.volumes is NO_VOLUMES else NO_POINTS

    def pre_filter(self, pod: Pod, cluster: Cluster) -> Reject | None:
        """Reject a pod whose claim does not exist: its access modes have to be known."""
        claims = cluster.storage.claims
        for used in pod.shape.volumes.claims:
            if not used.ephemeral and claims.stored((pod.namespace, used.name)) is None:
                return Reject(Unresolvable(f'persistentvolumeclaim "{used.name}" not found'))
        return None

    def filter(self, pod: Pod, cluster: Cluster) -> Rejections:
        """Reject nodes where a disk is taken, then all nodes while a claim for one pod only has another user."""
        volumes = pod.shape.volumes
        if volumes is NO_VOLUMES:
            return ()
        storage = cluster.storage
        exclusive = exclusive_claims(pod, cluster)
        users = sum(storage.in_use((pod.namespace, claim)) for claim in exclusive)
        if not volumes.restricted and not users:
            return ()
        taken = storage.conflicts(volumes.disks)
        found = [(self.no_disk, taken)]
        # Upstream corrects the number of users by claim name alone, and counts a claim with several users once.
        if users + sum(storage.supposed_users(claim) for claim in exclusive) > 0:
            found.append((self.claim_in_use, np.logical_not(taken)))
        return found

    def looks_elsewhere(self, pod: Pod, cluster: Cluster, others: Iterable[Pod]) -> bool:
        """A claim for one pod only is taken or free for all nodes at once."""
        exclusive = exclusive_claims(pod, cluster)
        return bool(exclusive) and any(exclusive & _claims(other) for other in others)

    def pod_hint(self, pod: Pod, event: ClusterEvent, other: Pod) -> bool:
        """A pod that went and used a disk or a claim that this one wants."""
        mine, theirs = pod.shape.volumes, other.shape.volumes
        if pod.namespace == other.namespace and _claims(pod) & _claims(other):
            return True
        used = {disk.key: disk for disk in theirs.disks}
        return any(disk.key in used and (disk.exclusive or used[disk.key].exclusive) for disk in mine.disks)

    def object_hint(self, pod: Pod, event: ClusterEvent, old: OtherObject, new: OtherObject) -> bool:
        """A claim that the pod names was created."""
        return isinstance(new, PersistentVolumeClaim) and new.namespace == pod.namespace and new.name in _claims(pod)


def _claims(pod: Pod) -> frozenset[str]:
    """The names of the claims that a pod names itself."""
    return frozenset(used.name for used in pod.shape.volumes.claims if not used.ephemeral)


def exclusive_claims(pod: Pod, cluster: Cluster) -> set[str]:
    """The claims of a pod that only one pod may use."""
    found = set()
    for used in pod.shape.volumes.claims:
        if not used.ephemeral:
            claim = cluster.storage.claims.stored((pod.namespace, used.name))
            if claim is not None and READ_WRITE_ONCE_POD in claim.access_modes:
                found.add(used.name)
    return found
