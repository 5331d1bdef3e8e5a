"""Claims of pods that went before they were bound: if nobody else uses such a claim, its devices are free again.

When a pod is not bound, it is taken out of its claims, and they keep their devices for its next attempt. If the pod
goes then, the claim controller has no reservation to end, and frees nothing. Nor does kube-scheduler. If the allocation
was refused and nobody has changed the claim, no event tells that it has nothing, so it is written once more.
"""

from collections.abc import Iterable
from heapq import nlargest

from podberth.cache.cluster import Cluster
from podberth.engine.instructions import Outbox, UnreserveWrite
from podberth.engine.observers import Observer
from podberth.engine.queue.queued import Place, QueuedPod
from podberth.engine.stimuli import Gone
from podberth.framework.binding import Patch
from podberth.model.devices import CLAIM, ClaimKey, ResourceClaim
from podberth.model.kinds import Modelled
from podberth.model.pod import Pod
from podberth.plugins.dynamic_resources.reservation import freed, moved_on

MOST_BEGUN = 256
"""The number of claims that are written at once when another leader begins: those that were changed last."""


class OrphanedClaims(Observer):
    """The claims that such pods named, until the watch shows who uses them, or that they have no devices."""

    def __init__(self, cluster: Cluster, outbox: Outbox) -> None:
        self._cluster = cluster
        self._outbox = outbox
        self._left: dict[ClaimKey, Pod] = {}

    def __len__(self) -> int:
        return len(self._left)

    def left_unbound(self, pod: Pod, now: float) -> None:
        """Look at the claims that the pod named."""
        for one in pod.shape.claims:
            claim = None if one.claim is None else self._cluster.devices.claims.get((pod.namespace, one.claim))
            if claim is not None:
                self._left[claim.key] = pod
                self._look(claim)

    def put(self, thing: Modelled, now: float) -> None:
        """Look at a claim as the API shows it now."""
        if isinstance(thing, ResourceClaim) and self._left:
            self._look(thing)

    def gone(self, gone: Gone, now: float) -> None:
        """Forget a claim that was deleted."""
        if gone.kind == CLAIM:
            self._left.pop((gone.namespace, gone.name), None)

    def _look(self, claim: ResourceClaim) -> None:
        pod = self._left.get(claim.key)
        if pod is None:
            return
        devices = self._cluster.devices
        if claim.uid in devices.in_flight:
            if devices.is_refused(claim.uid) and not devices.users.uids(claim.uid):
                self._outbox.add(UnreserveWrite(pod, (moved_on(claim),)))
            return
        if claim.allocation is None or claim.terminating or any(uid != pod.uid for uid in claim.reserved_for):
            del self._left[claim.key]
        elif not claim.reserved_for and not devices.users.uids(claim.uid):
            self._outbox.add(UnreserveWrite(pod, (freed(claim),)))

    def takes_over(self, waiting: Iterable[QueuedPod]) -> list[Patch]:
        """Return other versions of claims that an earlier leader may be giving devices to, and no waiting pod names.

        Their pods may have gone, so that nobody tries them. What that leader has sent is refused then (decision 20).
        """
        devices = self._cluster.devices
        if not devices.begun:
            return []
        tried = {
            (queued.pod.namespace, one.claim)
            for queued in waiting
            if queued.place is not Place.GATED
            for one in queued.pod.shape.claims
        }
        left = [devices.claims[key] for key in devices.begun if key not in tried]
        newest = nlargest(MOST_BEGUN, left, key=_version)
        devices.users.overtaken.update(claim.uid for claim in newest)
        return list(map(moved_on, newest))


def _version(claim: ResourceClaim) -> int:
    return int(claim.resource_version) if claim.resource_version.isdigit() else 0
