"""Pods on their way from a decision to the API's word that they are bound.

Mirrors the bookkeeping of kube-scheduler's binding cycle (`schedule_one.go`, bindingCycle), which is a goroutine there.
"""

import heapq
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum, auto

from scheduler.engine.queued import QueuedPod
from scheduler.framework.decision import Decision
from scheduler.framework.reservation import Call, ObjectKey, Reservation, Wait


class Stage(Enum):
    """What the pod waits for."""

    WRITING = auto()
    """An answer to what a PreBind plugin had written."""
    WAITING = auto()
    """Changes that a PreBind plugin looks for."""
    HELD = auto()
    """A Permit plugin's word."""
    CALLING = auto()
    """The end of a plugin's coroutine."""
    BINDING = auto()
    """An answer to its Binding."""


_TIMED = (Stage.WAITING, Stage.HELD)
_FEW = 1024


@dataclass(slots=True)
class Flight:
    """One pod on its way."""

    queued: QueuedPod
    node: str
    decision: Decision
    reservation: Reservation
    first_seen: float
    stage: Stage = Stage.BINDING
    wait: Wait | None = None
    plugin: str = ""
    """Whose PreBind the deadline is for."""
    deadline: float = 0.0
    announced: bool = False
    """The API was told which node the pod is about to be bound to."""
    on: frozenset[ObjectKey] = field(default=frozenset())
    call: Call | None = None
    """The coroutine under way."""

    @property
    def binding(self) -> bool:
        """Whether a Binding may be on its way to the API, or there already."""
        return self.stage is Stage.BINDING or (self.call is not None and self.call.point == "bind")


class InFlight:
    """All of them by UID, by what they wait for, and by when they give up."""

    def __init__(self) -> None:
        self._flights: dict[str, Flight] = {}
        self._waiting: dict[ObjectKey | None, dict[str, None]] = {}
        self._deadlines: list[tuple[float, str]] = []
        self._idle = 0

    def __len__(self) -> int:
        return len(self._flights)

    @property
    def writing(self) -> int:
        """How many writes have no answer yet; pods that wait for changes or for plugins are left out."""
        return len(self._flights) - self._idle

    def get(self, uid: str) -> Flight | None:
        """A pod on its way."""
        return self._flights.get(uid)

    def add(self, flight: Flight) -> None:
        """A pod sets out."""
        self._flights[flight.queued.pod.uid] = flight

    def pop(self, uid: str) -> Flight | None:
        """A pod has arrived, or turns back."""
        flight = self._flights.pop(uid, None)
        if flight is not None:
            self._wake(uid, flight)
        return flight

    def write(self, flight: Flight) -> None:
        """The pod now waits for an answer."""
        self._wake(flight.queued.pod.uid, flight)
        flight.stage = Stage.WRITING

    def bind(self, flight: Flight) -> None:
        """The pod now waits for the answer to its Binding."""
        self._wake(flight.queued.pod.uid, flight)
        flight.stage = Stage.BINDING

    def idle(self, flight: Flight, wait: Wait, plugin: str, now: float) -> None:
        """The pod now waits for changes. The time it has runs from the first such waiting for a plugin on."""
        uid = flight.queued.pod.uid
        if flight.plugin != plugin:
            flight.plugin = plugin
            flight.deadline = now + wait.seconds
        flight.wait = wait
        if flight.stage is Stage.WAITING and flight.on == wait.on:
            return
        self._wake(uid, flight)
        flight.stage, flight.on = Stage.WAITING, wait.on
        self._expires(flight, uid)
        for key in wait.on or (None,):
            self._waiting.setdefault(key, {})[uid] = None
        self._idle += 1

    def hold(self, flight: Flight, deadline: float) -> None:
        """The pod now waits for a Permit plugin's word, until then."""
        uid = flight.queued.pod.uid
        self._wake(uid, flight)
        flight.stage, flight.deadline = Stage.HELD, deadline
        self._expires(flight, uid)
        self._idle += 1

    def calling(self, flight: Flight, call: Call) -> None:
        """The pod now waits for a plugin's coroutine."""
        self._wake(flight.queued.pod.uid, flight)
        flight.stage, flight.call = Stage.CALLING, call
        self._idle += 1

    def concerned(self, key: ObjectKey) -> list[Flight]:
        """Those that a change of this object may help."""
        uids = (*self._waiting.get(key, ()), *self._waiting.get(None, ()))
        return [self._flights[uid] for uid in uids]

    def due(self, now: float) -> Iterator[Flight]:
        """Those whose time is over."""
        while self._deadlines and self._deadlines[0][0] <= now:
            deadline, uid = heapq.heappop(self._deadlines)
            flight = self._flights.get(uid)
            if flight is not None and flight.stage in _TIMED and flight.deadline == deadline:
                yield flight

    def next_due(self) -> float | None:
        """Engine time at which somebody's time is over."""
        while self._deadlines:
            deadline, uid = self._deadlines[0]
            flight = self._flights.get(uid)
            if flight is not None and flight.stage in _TIMED and flight.deadline == deadline:
                return deadline
            heapq.heappop(self._deadlines)
        return None

    def _expires(self, flight: Flight, uid: str) -> None:
        heapq.heappush(self._deadlines, (flight.deadline, uid))
        if len(self._deadlines) > 4 * len(self._flights) + _FEW:
            # Of pods that went on, or went: the longest deadline is a quarter of an hour.
            self._deadlines = sorted({(f.deadline, uid) for uid, f in self._flights.items() if f.stage in _TIMED})

    def _wake(self, uid: str, flight: Flight) -> None:
        if flight.stage in (Stage.WRITING, Stage.BINDING):
            return
        if flight.stage is Stage.WAITING:
            for key in flight.on or (None,):
                uids = self._waiting[key]
                del uids[uid]
                if not uids:
                    del self._waiting[key]
        flight.stage, flight.call = Stage.WRITING, None
        self._idle -= 1
