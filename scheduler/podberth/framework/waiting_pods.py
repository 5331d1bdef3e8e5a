"""Pods that are assumed on a node and wait for Permit plugins to allow them.

Mirrors kube-scheduler `framework/runtime/waiting_pods_map.go`. Plugins reach them by `AssumedPod.waiting_pods`.
"""

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from podberth.framework.durations import text
from podberth.model.pod import Pod

_AT_ONCE = 64
"""How many pods that plugins have allowed or rejected go on, or back to the queue, in one turn."""


@dataclass(slots=True, eq=False)
class WaitingPod:
    """A pod that is assumed on its node and waits for Permit plugins."""

    pod: Pod
    node: str
    pending: dict[str, tuple[float, float]]
    """Plugin that has not allowed the pod yet → (engine time at which it is rejected, seconds it may wait)."""
    since: float
    """Engine time."""
    _spoken_for: "deque[WaitingPod]" = field(repr=False)
    rejected: tuple[str, str] | None = None
    """(plugin, message) once it was rejected."""

    def allow(self, plugin: str) -> None:
        """This plugin allows the pod. The pod goes on once all plugins that made it wait have allowed it."""
        if self.pending.pop(plugin, None) is not None:
            self._spoken_for.append(self)

    def reject(self, plugin: str, message: str) -> None:
        """Reject the pod. The first rejection counts; once all plugins have allowed the pod, none does."""
        if self.rejected is None and self.pending:
            self.rejected = (plugin, message)
            self._spoken_for.append(self)

    def earliest(self) -> tuple[float, str]:
        """(engine time, plugin) of the next timeout."""
        return min((deadline, plugin) for plugin, (deadline, _) in self.pending.items())

    def timed_out(self) -> tuple[str, str] | None:
        """(plugin, message) of the plugin whose time is over; None: the pod was rejected, or all have allowed it."""
        if self.rejected is not None or not self.pending:
            return None
        plugin = self.earliest()[1]
        return plugin, timeout_text(self.pending[plugin][1], plugin)


class WaitingPods:
    """The waiting pods of all profiles, in the order in which they began to wait."""

    def __init__(self) -> None:
        self._pods: dict[str, WaitingPod] = {}
        self.spoken_for: deque[WaitingPod] = deque()
        """Pods that a plugin has allowed or rejected, and that `settled` has not returned yet."""

    def __iter__(self) -> Iterator[WaitingPod]:
        return iter(tuple(self._pods.values()))

    def __len__(self) -> int:
        return len(self._pods)

    def get(self, uid: str) -> WaitingPod | None:
        return self._pods.get(uid)

    def add(self, pod: Pod, node: str, holds: Mapping[str, float], now: float) -> WaitingPod:
        """A pod begins to wait for these plugins, for so many seconds each."""
        pending = {plugin: (now + seconds, seconds) for plugin, seconds in holds.items()}
        waiting = self._pods[pod.uid] = WaitingPod(pod, node, pending, now, self.spoken_for)
        return waiting

    def remove(self, uid: str) -> WaitingPod:
        """A pod waits no longer."""
        return self._pods.pop(uid)

    def settled(self) -> Iterator[WaitingPod]:
        """Pods that a plugin has allowed or rejected since the last call, without those that are gone.

        If there are many, the others follow with the next calls.
        """
        left = _AT_ONCE
        while self.spoken_for and left:
            waiting = self.spoken_for.popleft()
            if self._pods.get(waiting.pod.uid) is waiting:
                left -= 1
                yield waiting


def timeout_text(seconds: float, plugin: str) -> str:
    """Return what is said of a pod for which a plugin has waited in vain."""
    return f"rejected due to timeout after waiting {text(seconds)} at plugin {plugin}"
