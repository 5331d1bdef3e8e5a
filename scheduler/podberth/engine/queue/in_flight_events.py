"""Events that happen while pods are being tried: one that may help such a pod must not pass it by.

Mirrors kube-scheduler `backend/queue/active_queue.go` (inFlightEvents), which keeps all events since the oldest attempt
under way. Here the latest event of each kind is kept.
"""

from typing import NamedTuple

from podberth.framework.events import ClusterEvent


class _Latest(NamedTuple):
    """The latest event of one kind."""

    event: ClusterEvent
    number: int
    real: int
    """The number of the latest one that was not caused by an attempt of ours which gave something back."""


class InFlightEvents:
    """Numbers events, and says whether one has happened since."""

    def __init__(self) -> None:
        self.number = 0
        """The number of the latest event."""
        self._latest: dict[int, _Latest] = {}
        """Keyed by the kind's identity: hashing a Flag takes longer than everything else that happens here."""

    def __len__(self) -> int:
        return len(self._latest)

    def add(self, event: ClusterEvent, *, real: bool) -> None:
        """An event has happened. `real`: it was not caused by an attempt of ours which gave something back."""
        self.number += 1
        known = self._latest.get(id(event))
        last = self.number if real else 0 if known is None else known.real
        self._latest[id(event)] = _Latest(event, self.number, last)

    def since(self, number: int, kinds: ClusterEvent) -> tuple[bool, bool]:
        """(whether an event of these kinds has happened since then, whether a real one has)."""
        latest = [one for one in self._latest.values() if one.number > number and one.event & kinds]
        return bool(latest), any(one.real > number for one in latest)
