"""Claims of pods that went before they were bound: if nobody else uses such a claim, its devices are free again.

When a pod is not bound, it is taken out of its claims, and they keep their devices for its next attempt. If the pod
goes then, the claim controller has no reservation to end, and frees nothing. Nor does kube-scheduler. If the allocation
was refused and nobody has changed the claim, no event tells that it has nothing, so it is written once more.
"""

from scheduler.engine.instructions import UnreserveWrite
from scheduler.engine.outbox import Outbox
from scheduler.model.devices import ClaimKey, ResourceClaim
from scheduler.model.pod import Pod
from scheduler.plugins.dynamic_resources.reservation import freed, moved_on
from scheduler.state.cluster import Cluster


class LeftClaims:
    """The claims that such pods named, until the watch shows who uses them, or that they have no devices."""

    def __init__(self, cluster: Cluster, outbox: Outbox) -> None:
        self._cluster = cluster
        self._outbox = outbox
        self._left: dict[ClaimKey, Pod] = {}

    def __len__(self) -> int:
        return len(self._left)

    def left_by(self, pod: Pod) -> None:
        """A pod is gone, or is being deleted, and was not bound."""
        for one in pod.shape.claims:
            claim = None if one.claim is None else self._cluster.devices.claims.get((pod.namespace, one.claim))
            if claim is not None:
                self._left[claim.key] = pod
                self.look(claim)

    def look(self, claim: ResourceClaim) -> None:
        """This is how the API shows a claim now."""
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

    def gone(self, key: ClaimKey) -> None:
        """A claim was deleted."""
        self._left.pop(key, None)
