"""What can happen to the engine."""

from dataclasses import dataclass
from typing import Any

from scheduler.framework.extenders import Question, Verdict, VictimsVerdict
from scheduler.framework.reservation import Call, Versions
from scheduler.model.kinds import Modelled
from scheduler.model.pod import Pod


@dataclass(frozen=True, slots=True)
class Put:
    """An object was added or updated."""

    thing: Modelled
    added: bool = False
    """Whether it was not there before; for those who count."""


@dataclass(frozen=True, slots=True)
class Gone:
    """An object was deleted."""

    kind: str
    namespace: str
    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class Bound:
    """The API accepted our Binding."""

    uid: str


@dataclass(frozen=True, slots=True)
class BindFailed:
    """The API refused our Binding, or never answered. `status`: HTTP status, 0 without an answer."""

    uid: str
    status: int
    message: str


@dataclass(frozen=True, slots=True)
class Prepared:
    """The API accepted what a PreBind plugin had written."""

    uid: str
    written: Versions


@dataclass(frozen=True, slots=True)
class NotPrepared:
    """The API refused one of these writes; `written` are those that came before it. `status`: as in BindFailed."""

    uid: str
    status: int
    message: str
    written: Versions


@dataclass(frozen=True, slots=True)
class Answered:
    """A plugin's coroutine has ended."""

    call: Call
    answer: Any


@dataclass(frozen=True, slots=True)
class NotAnswered:
    """A plugin's coroutine raised, or did not end in time."""

    call: Call
    message: str


@dataclass(frozen=True, slots=True)
class Consulted:
    """What extenders said."""

    question: Question
    verdict: Verdict | VictimsVerdict


@dataclass(frozen=True, slots=True)
class NotConsulted:
    """An extender that must not fail did."""

    question: Question
    message: str


@dataclass(frozen=True, slots=True)
class Unwritten:
    """The condition of a failed attempt could not be written; it has to be said again next time."""

    uid: str


@dataclass(frozen=True, slots=True)
class VictimStays:
    """A victim could not be removed."""

    victim: Pod


@dataclass(frozen=True, slots=True)
class Cycle:
    """Schedule the next pod of the active queue."""


@dataclass(frozen=True, slots=True)
class Broke:
    """The last Cycle raised: a fault of ours. Its pod is tried again later, and the loop goes on."""

    message: str


@dataclass(frozen=True, slots=True)
class Tick:
    """Time has passed: end backoffs, flush pods that waited too long."""


Stimulus = (
    Put
    | Gone
    | Bound
    | BindFailed
    | Prepared
    | NotPrepared
    | Answered
    | NotAnswered
    | Consulted
    | NotConsulted
    | Unwritten
    | VictimStays
    | Cycle
    | Broke
    | Tick
)
