"""Pods that a kubelet refused: their room on the node was gone, though the scheduler thought that it was there.

The kubelet says so by the phase Failed and a reason. The watch of pods leaves out those that have ended, so such a pod
is seen as deleted: its room is free again at once, and whoever made it makes another.
"""

from collections import Counter
from collections.abc import Callable, Collection

import msgspec
import structlog

from podberth.kube.objects import MALFORMED

log = structlog.get_logger("scheduler")

OTHERS = "other"
REASONS = frozenset(
    (
        "OutOfcpu",
        "OutOfmemory",
        "OutOfpods",
        "OutOfephemeral-storage",
        "NodeAffinity",
        "NodePorts",
        "TopologyAffinityError",
        "UnexpectedAdmissionError",
    )
)
"""What kubelets say of pods that they do not admit (pkg/kubelet/lifecycle/predicate.go, cm/admission)."""


class _Meta(msgspec.Struct):
    name: str = ""
    namespace: str = ""


class _Spec(msgspec.Struct, rename="camel"):
    node_name: str = ""
    scheduler_name: str = ""


class _Status(msgspec.Struct):
    phase: str = ""
    reason: str = ""
    message: str = ""


class _Ended(msgspec.Struct):
    metadata: _Meta
    spec: _Spec
    status: _Status = msgspec.field(default_factory=_Status)


_ended = msgspec.json.Decoder(_Ended)


class Refusals:
    """Counts them by the kubelet's reason. `ours`: the profiles, other schedulers' pods are not counted."""

    def __init__(self, ours: Callable[[], Collection[str]]) -> None:
        self.counted: Counter[str] = Counter()
        self._ours = ours

    def see(self, raw: msgspec.Raw) -> None:
        """A pod has ended or was deleted; as it was at last."""
        text = bytes(raw)
        if b'"Failed"' not in text:
            return
        try:
            pod = _ended.decode(text)
        except MALFORMED:
            return  # it is gone, whatever it was: the cache has heard of that by its metadata
        status = pod.status
        refused = status.reason in REASONS or status.reason.startswith("OutOf")
        if status.phase != "Failed" or not refused or pod.spec.scheduler_name not in self._ours():
            return
        self.counted[status.reason if status.reason in REASONS else OTHERS] += 1
        log.warning(
            "refused by the kubelet",
            pod=f"{pod.metadata.namespace}/{pod.metadata.name}",
            profile=pod.spec.scheduler_name,
            node=pod.spec.node_name,
            reason=status.reason,
            error=status.message[:300],
        )
