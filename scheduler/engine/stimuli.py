"""What can happen to the engine."""

from typing import Any

from msgspec import Struct

from scheduler.framework.extenders import Question, Verdict, VictimsVerdict
from scheduler.framework.reservation import Call, Versions
from scheduler.model.kinds import Modelled
from scheduler.model.pod import Pod


class Put(Struct, frozen=True):
    """An object was added or updated."""

    thing: Modelled
    added: bool = False
    """Whether it was not there before; for those who count."""


class Gone(Struct, frozen=True):
    """An object was deleted."""

    kind: str
    namespace: str
    name: str
    uid: str


class Bound(Struct, frozen=True):
    """The API accepted our Binding."""

    uid: str


class BindFailed(Struct, frozen=True):
    """The API refused our Binding, or never answered. `status`: HTTP status, 0 without an answer."""

    uid: str
    status: int
    message: str


class Prepared(Struct, frozen=True):
    """The API accepted what a PreBind plugin had written."""

    uid: str
    written: Versions


class NotPrepared(Struct, frozen=True):
    """The API refused one of these writes; `written` are those that came before it. `status`: as in BindFailed."""

    uid: str
    status: int
    message: str
    written: Versions


class Answered(Struct, frozen=True):
    """A plugin's coroutine has ended."""

    call: Call
    answer: Any


class NotAnswered(Struct, frozen=True):
    """A plugin's coroutine raised, or did not end in time."""

    call: Call
    message: str


class Consulted(Struct, frozen=True):
    """What extenders said."""

    question: Question
    verdict: Verdict | VictimsVerdict


class NotConsulted(Struct, frozen=True):
    """An extender that must not fail did."""

    question: Question
    message: str


class Unwritten(Struct, frozen=True):
    """The condition of a failed attempt could not be written; it has to be said again next time."""

    uid: str


class VictimStays(Struct, frozen=True):
    """A victim could not be removed."""

    victim: Pod


class Cycle(Struct, frozen=True):
    """Schedule the next pod of the active queue."""


class Broke(Struct, frozen=True):
    """The last Cycle raised: a fault of ours. Its pod is tried again later, and the loop goes on."""

    message: str


class Tick(Struct, frozen=True):
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
