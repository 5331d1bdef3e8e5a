"""The engine is told what happens: the kinds of stimuli."""

from typing import Any, ClassVar

from msgspec import Struct

from podberth.engine.binding_table import Event
from podberth.framework.binding import Call, ObjectKey, Versions, Write
from podberth.framework.extenders import NodesAnswer, Question, VictimsAnswer
from podberth.model.kinds import Modelled
from podberth.model.namespaced import SelectingObject
from podberth.model.pod import Pod
from podberth.model.pod_group import PodGroup


class Put(Struct, frozen=True):
    """An object was added or updated."""

    thing: Modelled
    added: bool = False
    """True if it was not there before; only the meter reads this."""


class Gone(Struct, frozen=True):
    """An object was deleted."""

    kind: str
    namespace: str
    name: str
    uid: str


EventObject = Modelled | Gone
"""The object that an event is about, as it is now or, if it was deleted, as it was."""


class Follows(Struct, frozen=True):
    """The PodGroups of an API group are followed from now on, or (not `followed`) the API server has none any more."""

    api: str
    followed: bool


class Compared(Struct, frozen=True):
    """After this process began to lead, what is known of claims was compared with a list, and repaired.

    Or that took too long, and nobody waits for it any more.
    """


class OfBindingCycle(Struct, frozen=True):
    """The answer to an instruction of a pod's binding cycle."""

    event: ClassVar[Event]
    """The event in the table of the binding cycle."""
    uid: str


class Bound(OfBindingCycle, frozen=True):
    """The pod is bound to our node, by our Binding or by another process that chose the same node."""

    event = Event.BOUND


class BindFailed(OfBindingCycle, frozen=True):
    """Our Binding came to nothing: it was refused, never left, can't be stored any more, or failed by a fault of ours.

    `status`: HTTP status, 0 without an answer.
    `quietly`: the pod is gone, going, or bound by somebody else, and there is nothing to tell.
    """

    event = Event.BIND_FAILED
    status: int
    message: str
    quietly: bool = False


class BindWithdrawn(OfBindingCycle, frozen=True):
    """The Binding was not sent, since its node takes the pod no longer."""

    event = Event.WITHDRAWN
    message: str


class PreBindWritten(OfBindingCycle, frozen=True):
    """The API accepted what a PreBind plugin had written."""

    event = Event.WRITTEN
    written: Versions


class PreBindWriteFailed(OfBindingCycle, frozen=True):
    """The API refused one of these writes; `written` are those that came before it. `status`: as in BindFailed."""

    event = Event.WRITE_FAILED
    status: int
    message: str
    written: Versions


class CallEnded(OfBindingCycle, frozen=True):
    """A plugin's coroutine has returned."""

    event = Event.CALL_ENDED
    call: Call
    answer: Any


class CallFailed(OfBindingCycle, frozen=True):
    """A plugin's coroutine raised, or did not end in time."""

    event = Event.CALL_FAILED
    call: Call
    message: str


class ExtendersAnswered(Struct, frozen=True):
    """The extenders' answer."""

    question: Question
    answer: NodesAnswer | VictimsAnswer


class ExtendersFailed(Struct, frozen=True):
    """An extender failed that is not ignorable."""

    question: Question
    message: str


class Unwritten(Struct, frozen=True):
    """The condition of a failed attempt could not be written; the next failure has to write it again."""

    uid: str


class PostFilterWriteFailed(Struct, frozen=True):
    """The API refused what a PostFilter plugin had written for a pod or its group: no watch tells of it.

    `writes`: those that were not carried out.
    """

    uid: str
    writes: tuple[Write, ...]


class TakingOut(Struct, frozen=True):
    """The writes that take a pod, which gives back what it holds, out of its claims are being sent."""

    uid: str


class TakenOut(Struct, frozen=True):
    """We know what became of such writes (`TakingOut`). `written`: what was stored, with the new resourceVersions."""

    uid: str
    written: Versions


class VictimStays(Struct, frozen=True):
    """A victim could not be removed."""

    victim: Pod


class Refreshed(Struct, frozen=True):
    """A source of a plugin has another value."""

    profile: str
    plugin: str


class Cycle(Struct, frozen=True):
    """Schedule the next pod of the active queue."""


class Broke(Struct, frozen=True):
    """The last Cycle, or answer of extenders, raised, which is a fault of Berth. Its pod is tried again later, and the
    loop goes on.
    """

    message: str


class Tick(Struct, frozen=True):
    """Time has passed: end backoffs, flush pods that waited too long."""


Stimulus = (
    Put
    | Gone
    | Follows
    | Compared
    | OfBindingCycle
    | ExtendersAnswered
    | ExtendersFailed
    | Unwritten
    | PostFilterWriteFailed
    | TakingOut
    | TakenOut
    | VictimStays
    | Refreshed
    | Cycle
    | Broke
    | Tick
)


def key_of(thing: Modelled) -> ObjectKey:
    """Return the key under which a pod may wait for a change of an object."""
    kind = thing.kind if isinstance(thing, (SelectingObject, PodGroup)) else type(thing).__name__
    return kind, thing.namespace, thing.name


def named(about: EventObject) -> str:
    """Return how a pod's story calls the object that an event was about: "Node n4", "Pod default/web"."""
    kind, namespace, name = (about.kind, about.namespace, about.name) if isinstance(about, Gone) else key_of(about)
    return f"{kind} {namespace}/{name}" if namespace else f"{kind} {name}"
