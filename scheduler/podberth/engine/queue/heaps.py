"""Waiting pods in an order. When a pod leaves, its entry becomes stale, and is dropped when it comes up.

Stale entries never outnumber the live ones by much, however often pods are added, updated and deleted.
"""

import heapq
from collections.abc import Mapping
from typing import Any

from podberth.engine.queue.queued import QueuedPod

_FEW = 1024


class Heap:
    """Entries (order, ticket, UID). An entry is live while the pod waits with that ticket."""

    __slots__ = ("_entries", "_most", "_pods")

    def __init__(self, pods: Mapping[str, QueuedPod]) -> None:
        """`pods`: all that wait, by UID."""
        self._pods = pods
        self._entries: list[tuple[Any, int, str]] = []
        self._most = _FEW

    def __len__(self) -> int:
        """Return how many entries there are, stale ones included."""
        return len(self._entries)

    def push(self, order: Any, queued: QueuedPod) -> None:
        """A pod waits here from now on, with the ticket that it has."""
        heapq.heappush(self._entries, (order, queued.ticket, queued.pod.uid))
        if len(self._entries) > self._most:
            pods = self._pods
            live = [e for e in self._entries if (found := pods.get(e[2])) is not None and found.ticket == e[1]]
            if 2 * len(live) < len(self._entries):
                heapq.heapify(live)
                self._entries = live
            self._most = 2 * len(self._entries) + _FEW

    def pop(self) -> QueuedPod | None:
        """The first pod; None when there is none."""
        while self._entries:
            _, ticket, uid = heapq.heappop(self._entries)
            queued = self._pods.get(uid)
            if queued is not None and queued.ticket == ticket:
                return queued
        return None

    def pop_due(self, now: float) -> QueuedPod | None:
        """The first pod if its time has come."""
        while self._entries and self._entries[0][0] <= now:
            queued = self._live(heapq.heappop(self._entries))
            if queued is not None:
                return queued
        return None

    def peek(self) -> QueuedPod | None:
        """The first pod, which stays."""
        while self._entries:
            queued = self._live(self._entries[0])
            if queued is not None:
                return queued
            heapq.heappop(self._entries)
        return None

    def first(self) -> Any:
        """The order of the first pod; None when there is none."""
        return None if self.peek() is None else self._entries[0][0]

    def clear(self) -> None:
        """Forget all entries."""
        self._entries.clear()

    def _live(self, entry: tuple[Any, int, str]) -> QueuedPod | None:
        queued = self._pods.get(entry[2])
        return queued if queued is not None and queued.ticket == entry[1] else None
