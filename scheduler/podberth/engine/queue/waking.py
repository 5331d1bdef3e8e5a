"""Wakes many pods, some at a time, so that the event loop can do other things in between."""

import heapq
from collections.abc import Callable, Iterable, Iterator

from msgspec import Struct

from podberth.engine.queue.places import Cause
from podberth.engine.queue.queued import Place, QueuedPod
from podberth.engine.queue.unschedulable import EqualPods


class _Set(Struct):
    """Pods that are being woken together."""

    pods: Iterator[QueuedPod]
    equals: EqualPods | None
    """The set that is woken; None: these very pods."""
    cause: Cause
    real: bool

    def has(self, queued: QueuedPod) -> bool:
        """Return whether a pod still waits where it did when the set began."""
        if self.equals is None:
            return queued.place is Place.UNSCHEDULABLE and queued.equals is not None
        return queued.equals is self.equals


class Waking:
    """The sets that are under way, those of higher priority first."""

    def __init__(self, wake: Callable[[QueuedPod, float, Cause], None], waits_on: Callable[[QueuedPod], bool]) -> None:
        """`wake` moves one pod out of where it waits; `waits_on` has it wait on, if to try it would be of no use."""
        self._wake = wake
        self.waits_on = waits_on
        self.under_way: list[tuple[int, int, _Set]] = []
        """A heap of (-priority, number, set)."""
        self._number = 0

    @property
    def priority(self) -> int:
        """The highest priority of pods that are being woken."""
        return -self.under_way[0][0]

    def begin(self, equals: EqualPods, cause: Cause, *, real: bool) -> None:
        """Wake a set. `real`: as in `wake`."""
        self._begin(equals.pod.priority, _Set(iter(list(equals.pods.values())), equals, cause, real))

    def begin_with(self, pods: Iterable[QueuedPod], cause: Cause) -> None:
        """Wake those of these pods that wait for an event; each may be tried once before its backoff is over."""
        pods = list(pods)
        self._begin(max(queued.pod.priority for queued in pods), _Set(iter(pods), None, cause, real=True))

    def _begin(self, priority: int, set: _Set) -> None:
        self._number += 1
        heapq.heappush(self.under_way, (-priority, self._number, set))

    def go_on(self, now: float, most: int) -> None:
        """Go through so many pods at most."""
        while most and self.under_way:
            set = self.under_way[0][2]
            for queued in set.pods:
                if not set.has(queued):
                    continue  # it has gone, or was woken, meanwhile
                if not self.waits_on(queued):
                    (queued.entry or queued).early |= set.real
                    self._wake(queued, now, set.cause)
                most -= 1
                if not most:
                    return
            heapq.heappop(self.under_way)
