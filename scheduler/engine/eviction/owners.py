"""Who was evicted lately: a successor that lands badly again is not evicted at once, nor in a loop."""

from dataclasses import dataclass

from scheduler.model.pod import Pod


@dataclass(slots=True)
class _Record:
    began: float
    """When the first of this round was evicted; pods that were placed before are its siblings."""
    last: float
    rounds: int
    wall: str = ""
    """Of a round that an earlier process began: its RFC 3339 time by the server's clock, `began` is not ours then."""


class Owners:
    """Rounds of evictions by owner. The first of a round is free, the next round waits, twice as long each time."""

    def __init__(self, backoff: float, most: float) -> None:
        self._backoff, self._most = backoff, most
        self._records: dict[str, _Record] = {}

    def evicted(self, pod: Pod, placed_at: float, now: float) -> None:
        """One of the owner's pods is being evicted."""
        record = self._records.get(owner_key(pod))
        if record is None or now - record.last > 2 * self._most:
            self._records[owner_key(pod)] = _Record(now, now, 1)
        elif _succeeds(record, pod, placed_at):
            self._records[owner_key(pod)] = _Record(now, now, record.rounds + 1)
        else:
            record.last = now

    def restore(self, owner: str, ago: float, wall: str, now: float) -> None:
        """An eviction that an earlier process began `ago` seconds ago, at `wall` by the server's clock."""
        record = self._records.get(owner)
        if record is None:
            self._records[owner] = _Record(now, now - ago, 1, wall)
        else:
            record.last = max(record.last, now - ago)
            record.wall = min(record.wall, wall)

    def wait(self, pod: Pod, placed_at: float, now: float) -> float:
        """Seconds for which a pod is spared because it succeeds one that was evicted; 0: it is not."""
        record = self._records.get(owner_key(pod))
        if record is None or not _succeeds(record, pod, placed_at):
            return 0.0
        backoff = min(self._backoff * 2.0 ** min(record.rounds - 1, 32), self._most)
        return max(record.last + backoff - now, 0.0)

    def forget(self, now: float) -> None:
        """Drop what has no effect any more."""
        for owner in [key for key, record in self._records.items() if now - record.last > 2 * self._most]:
            del self._records[owner]


def owner_key(pod: Pod) -> str:
    """The controller's UID; a bare pod's own name, for who comes back under it."""
    return pod.owner[2] if pod.owner is not None else pod.key


def _succeeds(record: _Record, pod: Pod, placed_at: float) -> bool:
    """Whether a pod came after the round began."""
    return pod.created >= record.wall[:19] if record.wall else placed_at > record.began
