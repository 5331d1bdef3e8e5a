"""Pods that have their node and wait for a Permit plugin's word.

Mirrors kube-scheduler `framework/runtime/waiting_pods_map.go`. Plugins reach them through `Held.waiting`.
"""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field

from scheduler.framework.durations import text
from scheduler.model.pod import Pod

LONGEST_HOLD = 900.0
"""Seconds that a Permit plugin may make a pod wait at most (maxTimeout)."""
_SETTLED_AT_ONCE = 64
"""Pods that go on, or turn back, in one turn."""


@dataclass(frozen=True, slots=True)
class Hold:
    """Permit's answer: not yet. Unless `WaitingPod.allow` is called within `seconds`, the pod is rejected."""

    seconds: float


@dataclass(slots=True, eq=False)
class WaitingPod:
    """A pod that has its node and waits."""

    pod: Pod
    node: str
    pending: dict[str, tuple[float, float]]
    """Plugin that has not allowed the pod yet → (engine time at which it is rejected, seconds it may wait)."""
    since: float
    """Engine time."""
    _settled: "deque[WaitingPod]" = field(repr=False)
    rejected: tuple[str, str] | None = None
    """(plugin, message) once it was rejected."""

    def allow(self, plugin: str) -> None:
        """On behalf of this plugin, let the pod go on; it goes once all that wait have said so."""
        if self.pending.pop(plugin, None) is not None:
            self._settled.append(self)

    def reject(self, plugin: str, message: str) -> None:
        """Keep the pod from its node. The first rejection counts; none does once all have allowed the pod."""
        if self.rejected is None and self.pending:
            self.rejected = (plugin, message)
            self._settled.append(self)

    def earliest(self) -> tuple[float, str]:
        """(engine time, plugin) of the next rejection for lack of a word."""
        return min((deadline, plugin) for plugin, (deadline, _) in self.pending.items())

    def expire(self, plugin: str) -> None:
        """The plugin has not said a word in time."""
        _, seconds = self.pending[plugin]
        self.reject(plugin, f"rejected due to timeout after waiting {text(seconds)} at plugin {plugin}")


class WaitingPods:
    """All of them, of all profiles, in the order in which they began to wait."""

    def __init__(self) -> None:
        self.pods: dict[str, WaitingPod] = {}
        """By UID."""
        self.waits: list[tuple[str, float]] = []
        """(status, seconds) of those that wait no longer, for who counts them and empties this."""
        self._settled: deque[WaitingPod] = deque()

    def __iter__(self) -> Iterator[WaitingPod]:
        return iter(tuple(self.pods.values()))

    def __len__(self) -> int:
        return len(self.pods)

    def get(self, uid: str) -> WaitingPod | None:
        """A waiting pod by UID."""
        return self.pods.get(uid)

    def add(self, pod: Pod, node: str, holds: dict[str, float], now: float) -> WaitingPod:
        """A pod begins to wait for these plugins, for so many seconds each."""
        pending = {plugin: (now + seconds, seconds) for plugin, seconds in holds.items()}
        waiting = self.pods[pod.uid] = WaitingPod(pod, node, pending, now, self._settled)
        return waiting

    def remove(self, uid: str, result: str, now: float) -> None:
        """The pod waits no longer, if it did; `result`: what came of it, as a status."""
        waiting = self.pods.pop(uid, None)
        if waiting is not None:
            self.waits.append((result, now - waiting.since))

    @property
    def spoken(self) -> bool:
        """Whether a plugin has spoken for pods that `settled` did not come to yet."""
        return bool(self._settled and self.pods)

    def settled(self) -> Iterator[WaitingPod]:
        """Pods for which a plugin has spoken since they were last asked for; those that are gone are left out.

        Only some of them, if there are many.
        """
        left = _SETTLED_AT_ONCE
        while self._settled and left:
            waiting = self._settled.popleft()
            if self.pods.get(waiting.pod.uid) is waiting:
                left -= 1
                yield waiting
