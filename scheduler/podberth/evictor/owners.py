"""Whose pods were evicted lately: a successor that lands badly again is not evicted at once, nor in a loop.

A pod succeeds evicted ones when it was created after the first of them was asked to go. That goes by the server's
clock alone, so the leader, the next one, `--dry-run` and `explain` come to the same answer from the same Events.
"""

from dataclasses import dataclass, replace

from podberth.evictor.messages import Restored, Turn
from podberth.model.pod import Pod

_ANSWER_SECONDS = 5.0
"""How long to wait before looking again whether the API has answered an eviction."""
_UNSURE_SECONDS = 300.0
"""No request is under way for so long: a pod that goes later goes for another reason."""


@dataclass(slots=True)
class _Record:
    """The latest round of one owner. No eviction of it took place later than `last` (engine time)."""

    began: str
    """When the first of this round was asked to go (RFC 3339); pods created before are its siblings."""
    last: float
    round: int
    spared: float


@dataclass(frozen=True, slots=True)
class _Asking:
    """A pod was asked to go `at` (engine time). `begins`: it succeeds others, so the owner's next round begins."""

    at: float
    begins: bool


@dataclass(frozen=True, slots=True)
class Spared:
    """Why a pod is left alone for some `seconds`. `turn`: the eviction it succeeds; None: one without an answer."""

    seconds: float
    turn: Turn | None


class Owners:
    """Rounds of evictions by owner. The first of a round is free, the next round waits, twice as long each time."""

    def __init__(self, backoff: float, most: float) -> None:
        self._backoff, self._most = backoff, most
        self._records: dict[str, _Record] = {}
        self._asking: dict[str, dict[str, _Asking]] = {}
        """Owner → pods that were asked to go, by UID: the API has not answered yet."""
        self._unsure: dict[str, tuple[Turn, float]] = {}
        """Pods that may yet turn out to be evicted, and since when: nobody knows, but if they go now, that is why."""

    def turn(self, pod: Pod) -> Turn:
        """Return which round it would be part of, were it evicted now."""
        owner = owner_key(pod)
        record = self._records.get(owner)
        number = 1 if record is None else record.round + _succeeds(record, pod)
        return Turn(owner, number, self._spacing(number))

    def asked(self, pod: Pod, now: float) -> None:
        """The API is asked to evict it."""
        owner = owner_key(pod)
        record = self._records.get(owner)
        begins = record is not None and _succeeds(record, pod)
        self._asking.setdefault(owner, {})[pod.uid] = _Asking(now, begins)

    def answered(self, pod: Pod, turn: Turn, now: float, *, evicted: bool | None, stays: bool) -> bool:
        """The API has answered; whether the pod counts as evicted.

        `evicted` None: nobody knows. `stays`: the pod is there, and not on its way out.
        """
        asking = self._asking[turn.owner]
        del asking[pod.uid]
        if not asking:
            del self._asking[turn.owner]
        before, _ = self._unsure.pop(pod.uid, (None, now))
        may_be = before is not None or (evicted is None and turn.asked_at != "")
        turn = turn if before is None else _earlier(turn, before)
        if evicted or (may_be and not stays):
            self._happened(turn, now)
            return True
        if may_be:
            self._unsure[pod.uid] = (turn, now)
        return False

    def lost(self, uid: str, now: float) -> Turn | None:
        """A pod is gone, or on its way out: the eviction that this counts as, if it may be one."""
        turn, _ = self._unsure.pop(uid, (None, now))
        if turn is not None:
            self._happened(turn, now)
        return turn

    def restore(self, restored: Restored, now: float, *, there: bool) -> bool:
        """An eviction of an earlier process; `there`: its pod still is. Whether it is only now known to have happened.

        When nobody wrote down that it took place and the pod is gone, it took place at any time up to now.
        """
        if restored.ago is not None:
            self._happened(restored.turn, now - restored.ago)
        elif there:
            self._unsure[restored.pod.uid] = (restored.turn, now)
        else:
            self._happened(restored.turn, now)
            return True
        return False

    def spared(self, pod: Pod, now: float, placed_at: float | None = None) -> Spared | None:
        """Return whether a pod is left alone for a while, because it succeeds one that was evicted.

        `placed_at` (engine time) matters while an eviction has no answer yet: then its time is not known. While the
        first pod of a next round is asked to go, the owner's other pods wait, also those that succeed nobody: requests
        overtake one another, and the first pod would then go right after an eviction that it has to keep away from.
        """
        owner = owner_key(pod)
        record = self._records.get(owner)
        succeeds = record is not None and _succeeds(record, pod)
        others = [one for uid, one in self._asking.get(owner, {}).items() if uid != pod.uid]
        unsettled = any(one.begins or (placed_at is not None and one.at < placed_at) for one in others)
        if others and (succeeds or unsettled):
            return Spared(_ANSWER_SECONDS, None)
        if record is None or not succeeds:
            return None
        left = record.last + record.spared - now
        return Spared(left, Turn(owner, record.round, record.spared, record.began)) if left > 0 else None

    def forget(self, now: float) -> None:
        """Drop what has no effect any more."""
        for owner in [key for key, record in self._records.items() if now - record.last > 2 * self._most]:
            del self._records[owner]
        for uid in [uid for uid, (_, since) in self._unsure.items() if now - since > _UNSURE_SECONDS]:
            del self._unsure[uid]

    def _happened(self, turn: Turn, now: float) -> None:
        record = self._records.get(turn.owner)
        if record is None or turn.round > record.round:
            last = now if record is None else max(now, record.last)
            spared = turn.spared or self._spacing(turn.round)
            self._records[turn.owner] = _Record(turn.asked_at, last, turn.round, spared)
            return
        record.last = max(record.last, now)
        if turn.round == record.round:
            record.began = min(record.began, turn.asked_at)

    def _spacing(self, number: int) -> float:
        return min(self._backoff * 2.0 ** min(number - 1, 32), self._most)


def owner_key(pod: Pod) -> str:
    """Namespace and the controller's UID; a bare pod's own name, for who comes back under it.

    With the namespace, for anybody may write Events in their own, and must not speak for others' pods.
    """
    return f"{pod.namespace}/{pod.owner[2] if pod.owner is not None else pod.name}"


def _succeeds(record: _Record, pod: Pod) -> bool:
    """Return whether a pod was created once the round had begun, as far as whole seconds tell."""
    return pod.created >= record.began[:19]


def _earlier(turn: Turn, before: Turn) -> Turn:
    """The same eviction, asked for when it was first."""
    return replace(turn, asked_at=min(turn.asked_at or before.asked_at, before.asked_at))
