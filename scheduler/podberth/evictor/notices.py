"""Tells the operator of broken promises, in turns: some pods a second, each namespace in its turn.

A mistaken relabelling holds the pods of half a cluster at once. Each of them is told of, and neither the API server
nor what the evictor writes for the few that may go has to wait behind thousands of Events.
"""

from collections import deque

from podberth.evictor.followed import Broken, Gate
from podberth.evictor.gates import Bucket
from podberth.evictor.messages import Instruction, RecordPodEvent
from podberth.evictor.observed import CONFLICT

RATE, BURST = 10.0, 50
"""Pods reported per second, and at once. A pod takes two Events at most."""
_TOLD_AGAIN_SECONDS = 60.0
"""Seconds: a gate that stays closed for at most this much beyond the reported time is not reported again."""
_BROKEN = "PromiseBroken"


def event_once(broken: Broken, kind: str, reason: str, note: str) -> list[Instruction]:
    """Return an Event about the pod, unless one of this reason was posted already."""
    if reason in broken.told:
        return []
    broken.told.add(reason)
    return [RecordPodEvent(broken.followed.pod, kind, reason, note)]


def broken_events(broken: Broken) -> list[Instruction]:
    """Return the Event about the requirements that its node does not meet."""
    note = f"node {broken.followed.node} is no longer what the pod asks for: {broken.breach}"
    if broken.reason == CONFLICT:
        note = broken.breach
    if broken.closed_gate is not None and broken.closed_gate.gate is Gate.BREAKER:
        note += f"; it stays for now: {broken.closed_gate.why}"
    return event_once(broken, "Warning", _BROKEN, note)


def has_news(broken: Broken) -> bool:
    """Return whether `gate_events` would report anything new."""
    return broken.closed_gate is not None and broken.confirmed and (_BROKEN not in broken.told or _gate_is_news(broken))


def gate_events(broken: Broken) -> list[Instruction]:
    """Return the Events about the requirements that its node does not meet, and about the gate that holds the pod,
    unless posted before.
    """
    done, shut = broken_events(broken), broken.closed_gate
    if shut is None or not _gate_is_news(broken):
        return done
    broken.told_until[shut.gate] = broken.due
    note = f"stays on node {broken.followed.node} for now: {shut.why}"
    return [*done, RecordPodEvent(broken.followed.pod, "Normal", "EvictionHeld", note, broken.due)]


def _gate_is_news(broken: Broken) -> bool:
    # The breaker tells of itself. When it is one's turn among many nobody knows, so that is told once.
    gate = None if broken.closed_gate is None else broken.closed_gate.gate
    told = None if gate is None else broken.told_until.get(gate)
    if gate in (None, Gate.BREAKER):
        return False
    return told is None or (gate is Gate.OWNER and broken.due >= told + _TOLD_AGAIN_SECONDS)


class Notices:
    """A queue of UIDs of the pods to report, limited in rate."""

    def __init__(self, now: float) -> None:
        self._bucket = Bucket(RATE, BURST, now)
        self._queues: dict[str, deque[str]] = {}
        self._queued: set[str] = set()

    def put(self, namespace: str, uid: str) -> None:
        """Queue a pod with something to report; it is reported once, however often it is put here meanwhile."""
        if uid not in self._queued:
            self._queued.add(uid)
            self._queues.setdefault(namespace, deque()).append(uid)

    def take(self, now: float) -> str | None:
        """Return the next pod to report; None when there is none, or the rate is used up."""
        if not self._queued or self._bucket.wait(now):
            return None
        self._bucket.take()
        namespace, queue = next(iter(self._queues.items()))
        del self._queues[namespace]
        uid = queue.popleft()
        self._queued.discard(uid)
        if queue:
            self._queues[namespace] = queue
        return uid

    def next(self, now: float) -> float | None:
        """Return the engine time at which `take` returns a pod; None: there is none."""
        return now + self._bucket.wait(now) if self._queued else None
