"""One pod's binding cycle: its record, the event that an answer of its plugins is, and the message of its failure."""

from typing import Any

from msgspec import Struct

from podberth.engine.binding_table import Event, State
from podberth.engine.instructions import SCHEDULER_ERROR, UNSCHEDULABLE
from podberth.engine.queue.queued import QueuedPod
from podberth.engine.stimuli import BindFailed, BindWithdrawn, CallFailed, PreBindWriteFailed
from podberth.framework.binding import BindResult, Call, Wait
from podberth.framework.binding_plugins import BindingPlugins, Holds, PointAnswer, Refusal
from podberth.framework.decision import Decision
from podberth.framework.status import PluginError, printable
from podberth.model.pod_group import GroupKey

_POST, _POSTS = BindResult.POST, Event.POSTS
_EVENTS = {type(None): Event.SUCCESS, Refusal: Event.REJECTED, Holds: Event.HELD, Call: Event.CALLS}


class BindingCycle(Struct):
    """One pod between the decision for its node and the end of its attempt."""

    queued: QueuedPod
    node: str
    decision: Decision
    plugins: BindingPlugins
    first_seen: float
    assumed_at: float
    state: State = State.RESERVING
    call: Call | None = None
    """The coroutine under way."""
    wait: Wait | None = None
    """What a PreBind plugin waits for."""
    waits: str = ""
    """The name of that plugin, since its last write."""
    deadline: float = 0.0
    gathers_on: float = 0.0
    """For how many seconds after its deadline it waits on for its group: at the deadline it only says that it waits."""
    noted: bool = False
    """The pod's story says that it was assumed."""
    group: GroupKey | None = None
    """The pod group with which it is bound."""
    stop: State | None = None
    """Before the plugins of this state are asked, the other pods of its group have to come as far."""
    refused: "Refusal | PluginError | None" = None
    """Why a Reserve plugin kept it from its node, for the group that is being tried."""
    leaves: bool = False
    """The pod is gone."""
    nominated: bool = False
    """status.nominatedNodeName was asked to be set to this node."""

    def failure(self, cause: Any) -> tuple[str, str]:
        """(reason, message) of the condition, for what ended the attempt."""
        match cause:
            case Refusal():
                return UNSCHEDULABLE, printable(cause.reason.text)
            case PreBindWriteFailed() | CallFailed() | BindFailed():
                return SCHEDULER_ERROR, str(self.plugins.error(cause.message))
            case BindWithdrawn():
                return SCHEDULER_ERROR, cause.message
            case PluginError() | str():
                return SCHEDULER_ERROR, str(cause)
        return SCHEDULER_ERROR, ""


def event_of(said: PointAnswer | PluginError) -> Event:
    """The event in the table for an answer of the plugins."""
    if said is _POST:
        return _POSTS
    if isinstance(said, Wait):
        return Event.WRITES if said.writes else Event.WAITS
    return Event.DONE if said is BindResult.DONE else _EVENTS.get(type(said), Event.ERROR)
