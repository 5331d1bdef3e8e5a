"""Turns of costly pods, and of pods whose namespace has caused much work: they are tried between the other pods.

Each namespace has a lane of its own, and the lanes take turns, one slice each. While other pods are active, these get
`SHARE` times the steps of a slice before the next slice of a lane. If no other pods are active, one slice follows the
other. So a tenant's thousand costly pods delay that tenant's pods, and no others.

Pods of other namespaces need more than turns: the core that an API server decides on may be this one. While such pods
come, costly work rests after each turn for `REST` times as long as the turn took, if its shell tells how long that was.
"""

from collections.abc import Mapping

from scheduler.engine.heaps import Heap
from scheduler.engine.queued import QueuedPod

SHARE = 3
ORDINARY = 250
"""An attempt of an ordinary pod counts for at least this many steps."""
FREE = 1_000
"""Steps of each attempt for which no namespace is charged."""
NO_NODE = 500
"""Steps charged for an attempt that found no node, beyond the free ones; one more per `ROWS_PER_STEP` rows."""
ROWS_PER_STEP = 4
NOMINATED_PER_STEP = 4
"""A pod of a group is decided beside so many nominated pods in one more step."""
IN_DEBT = 5_000
"""If a namespace has more charged steps than this, its pods wait in its lane."""
REPAID = 100_000
"""Charged steps that are forgotten each second: a namespace may cause this much work without waiting in a lane."""
REST = 2
"""Costly work rests so many times as long as its last turn took, while pods of other namespaces come."""
LONGEST_REST = 0.05
LATELY = 1.0
"""Seconds for which a pod that was popped counts as coming."""
_MOST_DEBT = 2_000_000
_NAMESPACES = 1024
_BEGUN_EVERY = 8
"""In a lane, pods that were not tried yet come before those that have begun, but for one turn in so many."""


class _Lane:
    """The costly pods of one namespace."""

    __slots__ = ("begun", "fresh", "turns")

    def __init__(self, pods: Mapping[str, QueuedPod]) -> None:
        self.fresh = Heap(pods)
        """Pods without a slice so far, those that were never tried first."""
        self.begun = Heap(pods)
        """Pods that have had slices, the one with most slices first, so that its results are still kept."""
        self.turns = 0

    def pop(self) -> QueuedPod | None:
        self.turns += 1
        first, second = self.fresh, self.begun
        if self.turns % _BEGUN_EVERY == 0:
            first, second = second, first
        return first.pop() or second.pop()


class Turns:
    """The lanes, and the steps with which each namespace is charged."""

    def __init__(self, pods: Mapping[str, QueuedPod]) -> None:
        """`pods`: all that wait, by UID."""
        self._pods = pods
        self.lanes: dict[str, _Lane] = {}
        """In the order of their turns."""
        self.charges: dict[str, tuple[float, float]] = {}
        """Namespace → (steps, engine time)."""
        self._most_charges = _NAMESPACES
        """When there are so many, those that are paid are forgotten."""
        self.taken = 0
        """Turns that costly work has had: slices of attempts, questions about pending events, indexing of terms."""
        self.owed = 0
        """Steps that other pods get before the next slice of a lane."""
        self.rests_until = 0.0
        """Engine time until which there is no turn of costly work."""
        self._whose = ""
        """The namespace that had the last turn; none if it was for several."""
        self._came: tuple[str, float] = ("", -LATELY)
        """The namespace of the last pod that waited in no lane and was charged with nothing, and when it was popped."""
        self._came_before: tuple[str, float] = ("", -LATELY)
        """As `_came`, for the last such pod of another namespace than that one."""

    @property
    def idle(self) -> bool:
        """Whether there are neither lanes nor charges: then no pod has to wait for its turn."""
        return not self.lanes and not self.charges

    @property
    def due(self) -> bool:
        """Whether a pod waits in a lane, and the other pods have had their share."""
        return self.owed <= 0 and bool(self.lanes)

    def entries(self) -> int:
        """How much is kept here, for tests of what a tenant can make grow."""
        lanes = sum(len(lane.fresh) + len(lane.begun) for lane in self.lanes.values())
        return lanes + len(self.lanes) + len(self.charges)

    def put(self, queued: QueuedPod) -> None:
        """A pod waits in its namespace's lane from now on."""
        lane = self.lanes.get(queued.pod.namespace)
        if lane is None:
            lane = self.lanes[queued.pod.namespace] = _Lane(self._pods)
        if queued.cost is None:
            lane.fresh.push((queued.attempts > 0, queued.key), queued)
        else:
            lane.begun.push((-queued.cost.slices, queued.key), queued)

    def pop(self) -> QueuedPod | None:
        """The pod whose turn it is; its lane moves behind the others."""
        while self.lanes:
            namespace, lane = next(iter(self.lanes.items()))
            del self.lanes[namespace]
            queued = lane.pop()
            if queued is not None:
                if lane.fresh or lane.begun:
                    self.lanes[namespace] = lane
                self.take(namespace)
                self.owed = SHARE * ORDINARY
                return queued
        return None

    def take(self, namespace: str = "") -> None:
        """A turn of costly work begins, for this namespace if it is for one."""
        self.taken += 1
        self._whose = namespace

    def comes(self, namespace: str, now: float) -> None:
        """A pod is tried that did not wait in a lane."""
        if namespace in self.charges:
            return
        if namespace != self._came[0]:
            self._came_before = self._came
        self._came = namespace, now

    def rest(self, seconds: float, now: float) -> None:
        """The last turn of costly work took so long: there is no other one for a while, if pods of others come."""
        if any(now - at < LATELY and namespace != self._whose for namespace, at in (self._came, self._came_before)):
            self.rests_until = now + min(REST * seconds, LONGEST_REST)

    def account(self, namespace: str, steps: int, now: float) -> None:
        """An attempt for a pod of this namespace took this many steps: charge those beyond the free ones."""
        if steps <= FREE:
            return
        if len(self.charges) >= self._most_charges:
            self.charges = {name: debt for name, debt in self.charges.items() if self.debt(name, now)}
            self._most_charges = max(_NAMESPACES, 2 * len(self.charges))
        self.charges[namespace] = (min(self.debt(namespace, now) + steps - FREE, _MOST_DEBT), now)

    def debt(self, namespace: str, now: float) -> float:
        """The steps with which a namespace is charged now."""
        steps, since = self.charges.get(namespace, (0.0, now))
        return max(steps - (now - since) * REPAID, 0.0)

    def seconds_in_debt(self, namespace: str, now: float) -> float:
        """How long a namespace's pods have to wait in its lane if it causes no more work; 0.0: they need not."""
        return max(self.debt(namespace, now) - IN_DEBT, 0.0) / REPAID

    def debts(self, now: float) -> dict[str, float]:
        """All debts, by namespace."""
        return {name: debt for name in self.charges if (debt := self.debt(name, now))}

    def in_debt(self, namespace: str, now: float) -> bool:
        """Whether a namespace's pods wait in its lane."""
        if namespace not in self.charges:
            return False
        debt = self.debt(namespace, now)
        if not debt:
            del self.charges[namespace]
        return debt > IN_DEBT
