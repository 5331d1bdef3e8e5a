"""The binding cycle of a pod as a table: every state, everything that can happen in it, and what follows.

`podberth.engine.binding_cycle` goes by it, docs/reference/binding-cycle.md is made from it.
"""

from collections.abc import Iterable
from enum import StrEnum
from typing import NamedTuple


class State(StrEnum):
    """The state of a pod that was assumed. In states in which plugins are asked, nothing else can happen meanwhile."""

    RESERVING = "Reserving"
    GROUP_DECIDING = "Reserved[group]"
    PERMITTING = "Permitting"
    PERMIT_CALLING = "Permitting[calling]"
    WAITING_ON_PERMIT = "WaitingOnPermit"
    PRE_BINDING = "PreBinding"
    PRE_BIND_WRITING = "PreBinding[writing]"
    PRE_BIND_WAITING = "PreBinding[waiting]"
    PRE_BIND_CALLING = "PreBinding[calling]"
    PRE_BIND_LEAVING = "PreBinding[leaving]"
    GROUP_GATHERING = "PreBound[group]"
    BINDING = "Binding"
    BIND_CALLING = "Binding[calling]"
    BIND_POSTING = "Binding[posting]"
    BOUND = "Bound"
    REVERTED = "Reverted"


class Event(StrEnum):
    """Something that can happen to it; the first nine are answers of the plugins that are asked."""

    SUCCESS = "all plugins of the point let it go on"
    REJECTED = "a plugin rejects it"
    HELD = "Permit plugins hold it"
    WRITES = "a PreBind plugin wants objects written"
    WAITS = "a PreBind plugin waits for objects to change"
    CALLS = "a plugin is a coroutine"
    POSTS = "a Bind plugin wants the Binding posted"
    DONE = "a Bind plugin has bound it"
    ERROR = "a plugin fails, or answers what is no answer"
    STANDS_BY = "it waits for other pods of its group"
    GROUP_ON = "enough pods of its group have come as far"
    GROUP_BACK = "its group gives back what it holds"
    ALLOWED = "all plugins that held it allow it"
    PARTLY_ALLOWED = "one of several plugins that hold it allows it"
    WRITTEN = "the objects are written"
    WRITE_FAILED = "the API refuses a write"
    CALL_ENDED = "the coroutine returns"
    CALL_FAILED = "the coroutine raises, or does not end in time"
    OBJECT_CHANGED = "an object changes"
    TIME_OVER = "the plugin's time is over"
    PREEMPTED = "a pod of higher priority needs its room"
    UPDATED = "the pod is updated"
    TERMINATING = "the pod is being deleted"
    GONE = "the pod is gone"
    PLACED = "the API shows the pod on a node"
    BOUND = "the API accepts the Binding"
    BIND_FAILED = "the API refuses the Binding, or does not answer"
    BIND_CONFLICT = "the API knows no such pod, or has bound it (404, 409), or its namespace is being deleted"
    WITHDRAWN = "the Binding was not sent"
    UNFIT = "its node has changed, and takes it no longer"
    BROKE = "the scheduling cycle raised, which is a fault of Berth"


class Action(StrEnum):
    """Something that is done about it."""

    ASK = "ask the plugins of the next state"
    HOLD = "the pod waits for these plugins"
    STAND_BY = "the pod waits for the others"
    EXTEND = "the pod waits for the other plugins"
    WRITE = "write the objects"
    WAIT = "the pod waits for the objects"
    CALL = "run the coroutine"
    POST = "post the Binding"
    FINISH = "tell the PostBind plugins"
    PARK = "unreserve and forget; Unschedulable, the pod waits for an event that may help"
    RETRY = "unreserve and forget; the pod waits out its backoff"
    RETRY_QUIETLY = "unreserve and forget; the pod waits out its backoff, without condition and event"
    FORGET = "unreserve and forget"
    GIVE_BACK = "unreserve and forget; the pod's group is tried again, or waits"
    UNRESERVE = "unreserve; the room is given back with the pod, or is where the API shows it"
    LEAVE = "the room is given back with the pod; unreserve once it is known what was written"
    WITHDRAW = "do not send the Binding, if there is still time"
    UPDATE = "go on with the pod as it is now"
    REPORT = "name the plugin in the log if it failed"
    IGNORE = "nothing"


class Outcome(NamedTuple):
    """The consequence of an event in a state."""

    action: Action
    next: State
    because: str = ""
    """The reason for which nothing is done, or nothing else."""


ASKING = (State.RESERVING, State.PERMITTING, State.PRE_BINDING, State.BINDING)
"""Plugins are being asked: the pod only stays in such a state if Berth itself breaks meanwhile."""
CALLING = (State.PERMIT_CALLING, State.PRE_BIND_CALLING, State.BIND_CALLING)
MAY_BE_BOUND = (State.BIND_CALLING, State.BIND_POSTING)
ENDS = (State.BOUND, State.REVERTED)
LIVE = tuple(state for state in State if state not in ENDS)
ANSWERS = tuple(Event)[: tuple(Event).index(Event.ERROR) + 1]

Row = dict[State, tuple[Action, State]]


def _to(action: Action, target: State, states: Iterable[State] = LIVE, but: Iterable[State] = ()) -> Row:
    """Return a row in which the same follows from each of these states."""
    return {state: (action, target) for state in states if state not in but}


_IN_GROUP = (State.RESERVING, State.GROUP_DECIDING)
_UNDER_WAY = (State.PRE_BIND_WRITING, State.PRE_BIND_LEAVING, *MAY_BE_BOUND)
_STAYING = tuple(state for state in LIVE if state is not State.PRE_BIND_LEAVING)
_ROWS: dict[Event, tuple[Row, str]] = {
    Event.SUCCESS: (
        {
            State.RESERVING: (Action.ASK, State.PERMITTING),
            State.PERMITTING: (Action.ASK, State.PRE_BINDING),
            State.PRE_BINDING: (Action.ASK, State.BINDING),
            State.BINDING: (Action.RETRY, State.REVERTED),  # a pod that every Bind plugin skips is an error
        },
        "",
    ),
    Event.REJECTED: (
        _to(Action.PARK, State.REVERTED, (State.RESERVING, State.PERMITTING, State.WAITING_ON_PERMIT))
        | _to(Action.RETRY, State.REVERTED, (State.PRE_BINDING, State.BINDING)),
        "",
    ),
    Event.STANDS_BY: (
        {
            State.PERMITTING: (Action.STAND_BY, State.GROUP_DECIDING),
            State.BINDING: (Action.STAND_BY, State.GROUP_GATHERING),
        },
        "it has not come so far, or is further already",
    ),
    Event.GROUP_ON: (
        {
            State.GROUP_DECIDING: (Action.ASK, State.PERMITTING),
            State.GROUP_GATHERING: (Action.ASK, State.BINDING),
        },
        "it does not wait for its group",
    ),
    Event.GROUP_BACK: (
        _to(Action.GIVE_BACK, State.REVERTED, _IN_GROUP),
        "its group was tried before",
    ),
    Event.HELD: ({State.PERMITTING: (Action.HOLD, State.WAITING_ON_PERMIT)}, ""),
    Event.WRITES: ({State.PRE_BINDING: (Action.WRITE, State.PRE_BIND_WRITING)}, ""),
    Event.WAITS: ({State.PRE_BINDING: (Action.WAIT, State.PRE_BIND_WAITING)}, ""),
    Event.CALLS: (
        {
            State.PERMITTING: (Action.CALL, State.PERMIT_CALLING),
            State.PRE_BINDING: (Action.CALL, State.PRE_BIND_CALLING),
            State.BINDING: (Action.CALL, State.BIND_CALLING),
        },
        "",
    ),
    Event.POSTS: ({State.BINDING: (Action.POST, State.BIND_POSTING)}, ""),
    Event.DONE: ({State.BINDING: (Action.FINISH, State.BOUND)}, ""),
    Event.ERROR: (_to(Action.RETRY, State.REVERTED, ASKING), ""),
    Event.ALLOWED: ({State.WAITING_ON_PERMIT: (Action.ASK, State.PRE_BINDING)}, "no plugin holds it"),
    Event.PARTLY_ALLOWED: ({State.WAITING_ON_PERMIT: (Action.EXTEND, State.WAITING_ON_PERMIT)}, "no plugin holds it"),
    Event.WRITTEN: (
        {
            State.PRE_BIND_WRITING: (Action.ASK, State.PRE_BINDING),
            State.PRE_BIND_LEAVING: (Action.UNRESERVE, State.REVERTED),
        },
        "nothing is being written",
    ),
    Event.WRITE_FAILED: (
        {
            State.PRE_BIND_WRITING: (Action.RETRY, State.REVERTED),
            State.PRE_BIND_LEAVING: (Action.UNRESERVE, State.REVERTED),
        },
        "nothing is being written",
    ),
    Event.CALL_ENDED: (
        {
            State.PERMIT_CALLING: (Action.ASK, State.PERMITTING),
            State.PRE_BIND_CALLING: (Action.ASK, State.PRE_BINDING),
            State.BIND_CALLING: (Action.ASK, State.BINDING),
            State.BOUND: (Action.REPORT, State.BOUND),
        },
        "no coroutine runs",
    ),
    Event.CALL_FAILED: (
        _to(Action.RETRY, State.REVERTED, CALLING) | _to(Action.REPORT, State.BOUND, (State.BOUND,)),
        "no coroutine runs",
    ),
    Event.OBJECT_CHANGED: (
        {State.PRE_BIND_WAITING: (Action.ASK, State.PRE_BINDING)},
        "it waits for no object that has changed",
    ),
    Event.TIME_OVER: (
        {
            State.WAITING_ON_PERMIT: (Action.PARK, State.REVERTED),
            State.GROUP_GATHERING: (Action.PARK, State.REVERTED),
            State.PRE_BIND_WAITING: (Action.RETRY, State.REVERTED),
        },
        "no plugin has a time to keep",
    ),
    Event.PREEMPTED: (
        _to(Action.RETRY, State.REVERTED, but=_UNDER_WAY)
        | _to(Action.GIVE_BACK, State.REVERTED, (State.GROUP_DECIDING,)),
        "what is under way can't be taken back; the pod is deleted like one that is bound",
    ),
    Event.UPDATED: ({state: (Action.UPDATE, state) for state in _STAYING}, "the pod is gone"),
    Event.TERMINATING: (
        _to(Action.FORGET, State.REVERTED, but=_UNDER_WAY)
        | {state: (Action.UPDATE, state) for state in _UNDER_WAY if state in _STAYING},
        "the pod is gone",
    ),
    Event.GONE: (
        _to(Action.UNRESERVE, State.REVERTED, _STAYING, but=(State.PRE_BIND_WRITING,))
        | {State.PRE_BIND_WRITING: (Action.LEAVE, State.PRE_BIND_LEAVING)},
        "it is known to be gone",
    ),
    Event.PLACED: (
        _to(Action.UNRESERVE, State.REVERTED, _STAYING, but=(State.PRE_BIND_WRITING, *MAY_BE_BOUND))
        | {State.PRE_BIND_WRITING: (Action.LEAVE, State.PRE_BIND_LEAVING)},
        "our own Binding may be why",
    ),
    Event.UNFIT: (
        _to(Action.RETRY_QUIETLY, State.REVERTED, but=_UNDER_WAY)
        | _to(Action.GIVE_BACK, State.REVERTED, (State.GROUP_DECIDING,))
        | {State.BIND_POSTING: (Action.WITHDRAW, State.BIND_POSTING)},
        "what is under way can't be taken back; the pod is looked at again once its objects are written",
    ),
    Event.BOUND: ({State.BIND_POSTING: (Action.FINISH, State.BOUND)}, "no Binding was posted"),
    Event.BIND_FAILED: ({State.BIND_POSTING: (Action.RETRY, State.REVERTED)}, "no Binding was posted"),
    Event.BIND_CONFLICT: ({State.BIND_POSTING: (Action.RETRY_QUIETLY, State.REVERTED)}, "no Binding was posted"),
    Event.WITHDRAWN: ({State.BIND_POSTING: (Action.RETRY_QUIETLY, State.REVERTED)}, "no Binding was posted"),
    Event.BROKE: (
        _to(Action.RETRY, State.REVERTED, _STAYING) | _to(Action.GIVE_BACK, State.REVERTED, (State.GROUP_DECIDING,)),
        "the pod is gone",
    ),
}
"""Event → what follows from it in which states, and why nothing follows in the others."""


def _outcome(state: State, event: Event) -> Outcome:
    row, otherwise = _ROWS[event]
    if state in row:
        return Outcome(*row[state])
    if state in ENDS:
        return Outcome(Action.IGNORE, state, "its binding cycle is over")
    if event not in ANSWERS:
        return Outcome(Action.IGNORE, state, otherwise)
    if state in ASKING:
        return Outcome(Action.RETRY, State.REVERTED, "no plugin may answer so at this point: it fails")
    return Outcome(Action.IGNORE, state, "no plugin is being asked")


TABLE = {state: {event: _outcome(state, event) for event in Event} for state in State}
