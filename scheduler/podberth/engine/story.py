"""A pod's story: the kinds of its entries, and how they are told to people and programs.

An entry holds facts: names, texts and numbers, never a pod, a node or a decision, as a story must not keep those in
memory. So no entry can be part of a reference cycle (`gc=False`). `told` makes plain data of a story, each entry with
one sentence that says what happened: this is what `/debug/story` answers and what `berth story -o json` prints. Field
names are stable; fields may be added. Times are engine seconds here; a shell, which has a clock, adds calendar times.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct, field

from podberth.engine.queue.queued import Place
from podberth.framework.decision import Trace, points

API_VERSION = "podberth.dev/v1alpha1"
KIND = "Story"
LONGEST_TEXT = 512
"""The number of characters of a message that are kept."""
MOST_NAMED = 8
"""An entry names so many victims or objects; of the others, only the number is kept."""


def _tag(name: str) -> str:
    return name[0].lower() + name[1:]


class _Entry(Struct, frozen=True, gc=False, tag=_tag, rename="camel"):
    """Something that happened to a pod."""

    at: float
    """Engine time."""


class Queued(_Entry, frozen=True):
    """The pod entered a queue."""

    queue: str
    event: str
    """The event that moved it, under its name in kube-scheduler's metrics."""
    object: str
    """The object of the event: "Node n4". Empty: the pod itself, or none."""
    plugins: frozenset[str]
    """The plugins that had rejected the pod."""
    until: float = 0.0
    """The end of its backoff; 0: it does not back off."""
    reason: str = ""
    """The reason for which a PreEnqueue plugin gates it."""


class ExtendersAsked(_Entry, frozen=True):
    """The attempt waits for HTTP extenders."""

    attempt: int
    about: str
    """Nodes, or victims."""
    extenders: tuple[str, ...]


class Assumed(_Entry, frozen=True):
    """An attempt found a node: from now on the pod counts there, and Reserve plugins are asked."""

    attempt: int
    node: str
    evaluated_nodes: int
    feasible_nodes: int
    score: int | None
    """The node's total; None if it was the only feasible node, or if scores were not kept."""
    trace: Trace | None


class Failed(_Entry, frozen=True):
    """An attempt found no node (reason Unschedulable) or broke (SchedulerError)."""

    attempt: int
    reason: str
    message: str
    plugins: frozenset[str]
    trace: Trace | None


class Nominated(_Entry, frozen=True):
    """The pod is nominated for a node, and pods of lower priority have to leave it."""

    node: str
    victims: tuple[str, ...]
    """The first of them, as namespace/name."""
    victims_in_all: int


class NominationCleared(_Entry, frozen=True):
    """The pod is not nominated any more."""

    why: str


class ChosenAsVictim(_Entry, frozen=True):
    """The pod has to make room for one of higher priority."""

    node: str
    preemptor: str


class WaitsOnPermit(_Entry, frozen=True):
    """Permit plugins make the pod wait, each for so many seconds at most."""

    node: str
    seconds: Mapping[str, float]


class PluginCalled(_Entry, frozen=True):
    """A plugin does its own I/O for the pod, and the pod waits for it."""

    plugin: str
    point: str


class PreBindWrites(_Entry, frozen=True):
    """A PreBind plugin has objects written before the pod can be bound."""

    plugin: str
    objects: tuple[str, ...]
    note: str = ""
    """A text of the plugin about them."""


class PreBindWaits(_Entry, frozen=True):
    """A PreBind plugin waits for objects to change, for so many seconds at most."""

    plugin: str
    seconds: float


class BindingPosted(_Entry, frozen=True):
    """The Binding is posted after the pod had to wait. Otherwise it has no entry: it is posted with the assumption."""

    node: str


class BindFailed(_Entry, frozen=True):
    """The API server refused the Binding (`status`: of its answer), or never answered (0)."""

    status: int
    message: str


class Reverted(_Entry, frozen=True):
    """The pod is not assumed any more, and what was reserved for it is given back. The next entry says why."""

    node: str


class Bound(_Entry, frozen=True):
    """The pod is bound."""

    node: str
    by: str
    """"berth", a Bind plugin's name, or "others"."""


class Left(_Entry, frozen=True):
    """The scheduler has nothing more to do for the pod: deleted, finished, terminating, or its profile is gone."""

    why: str


Entry = (
    Queued
    | ExtendersAsked
    | Assumed
    | Failed
    | Nominated
    | NominationCleared
    | ChosenAsVictim
    | WaitsOnPermit
    | PluginCalled
    | PreBindWrites
    | PreBindWaits
    | BindingPosted
    | BindFailed
    | Reverted
    | Bound
    | Left
)


def cut(text: str) -> str:
    """Return a message, cut to the length that is kept."""
    return text if len(text) <= LONGEST_TEXT else f"{text[: LONGEST_TEXT - 1]}…"


class PodNamed(Struct, rename="camel", frozen=True):
    """The pod that a story is about."""

    namespace: str
    name: str
    uid: str
    scheduler_name: str


class Told(Struct, rename="camel"):
    """One entry: what happened to the pod, and when."""

    kind: str
    seconds: float
    """Since the first entry."""
    text: str
    details: dict[str, Any]
    """The fields of its class: apart from those that all have, so that none can take the place of another."""
    time: str = ""
    """The same moment by the calendar."""


class Timeline(Struct, rename="camel", kw_only=True):
    """One pod's story, the oldest entry first.

    `state`: where the pod stands after the last entry. `leftOut` entries came after the first `leftOutAfter` ones, and
    were not kept. `others`: UIDs of other pods that had the same name.
    """

    api_version: str = field(default=API_VERSION)
    kind: str = field(default=KIND)
    pod: PodNamed
    state: str
    leads: bool = True
    """True if the replica that answers is the one that schedules."""
    leader: str = ""
    """The identity of the leader; empty without an election, or while there is no leader."""
    leads_since: str = ""
    """The time at which the replica that answers took over from another leader, if the pod is older; else empty."""
    told_at: str = ""
    since: float
    """Engine time of the first entry."""
    left_out: int
    left_out_after: int
    others: tuple[str, ...] = ()
    entries: list[Told]


def told(pod: PodNamed, kept: Sequence[Entry], left_out: int, left_out_after: int, others: tuple[str, ...]) -> Timeline:
    """Return a story as plain data. The last three arguments: as of `Timeline`."""
    since = kept[0].at if kept else 0.0
    return Timeline(
        pod=pod,
        state=_state(kept),
        since=since,
        left_out=left_out,
        left_out_after=left_out_after,
        others=others,
        entries=[_entry(entry, since) for entry in kept],
    )


def _entry(entry: Entry, since: float) -> Told:
    details: dict[str, Any] = msgspec.to_builtins(entry, order="deterministic")
    kind, at = details.pop("type"), details.pop("at")
    if "trace" in details:
        trace: Trace | None = details.pop("trace")
        details["points"] = [
            {"point": point, "status": status, "seconds": round(seconds, 9)} for point, status, seconds in points(trace)
        ]
    if "until" in details:
        until = details.pop("until")
        details["backoffSeconds"] = round(until - at, 6) if until else 0.0
    return Told(kind, round(at - since, 6), text_of(entry), details)


def text_of(entry: Entry) -> str:
    """Return what happened, in one sentence."""
    match entry:
        case Queued():
            return _queued(entry)
        case ExtendersAsked(_, attempt, about, extenders):
            return f"attempt {attempt}: waits for what extenders say about {about}: {', '.join(extenders)}"
        case Assumed(_, attempt, node, evaluated, feasible, score, trace):
            took = _duration(trace)
            scored = "" if score is None else f", score {score:,}"
            nodes = f"{_several(evaluated, 'node')} evaluated, {feasible:,} feasible{scored}"
            return f"attempt {attempt}: assumed on {node}{took} ({nodes})"
        case Failed(_, attempt, "Unschedulable", message, _, trace):
            return f"attempt {attempt}: unschedulable{_duration(trace)}: {message}"
        case Failed(_, attempt, _, message, _, trace):
            return f"attempt {attempt}: failed{_duration(trace)}: {message}"
        case Nominated(_, node, victims, in_all):
            more = f" and {in_all - len(victims):,} more" if in_all > len(victims) else ""
            pods = f"{_several(in_all, 'pod')} of lower priority" + (" has" if in_all == 1 else " have")
            return f"nominated for {node}: {pods} to leave it: {', '.join(victims)}{more}"
        case NominationCleared(_, why):
            return f"nominated no longer: {why}"
        case ChosenAsVictim(_, node, preemptor):
            return f"chosen as a victim: has to leave {node} for {preemptor}"
        case WaitsOnPermit(_, node, seconds):
            plugins = ", ".join(f"{plugin} (at most {limit:g} s)" for plugin, limit in seconds.items())
            return f"waits on permit for {node}: {plugins}"
        case PluginCalled(_, plugin, point):
            return f"{point}: {plugin} is at work for the pod"
        case PreBindWrites(_, plugin, objects, note):
            return f"PreBind: {plugin} has {', '.join(objects)} written{': ' if note else ''}{note}"
        case PreBindWaits(_, plugin, seconds):
            return f"PreBind: {plugin} waits for a change, at most {seconds:g} s"
        case BindingPosted(_, node):
            return f"Binding to {node} posted"
        case BindFailed(_, status, message):
            answer = f"answered {status}" if status else "did not answer"
            return f"Binding failed: the API server {answer}: {message}"
        case Reverted(_, node):
            return f"turned back: no longer assumed on {node}"
        case Bound(_, node, "berth"):
            return f"bound to {node}"
        case Bound(_, node, "others"):
            return f"bound to {node} by somebody else"
        case Bound(_, node, plugin):
            return f"bound to {node} by the plugin {plugin}"
        case Left(_, why):
            return f"left the queue: {why}"


def _queued(queued: Queued) -> str:
    """Return why a pod is where it is now."""
    why = _why(queued)
    match queued.queue:
        case Place.ACTIVE:
            return why
        case Place.GATED:
            plugin = ", ".join(sorted(queued.plugins))
            return f"{why}; gated by {plugin}: {queued.reason}"
        case Place.BACKOFF:
            backs_off = f"backs off for {max(queued.until - queued.at, 0.0):.1f} s"
            return backs_off if queued.event == "ScheduleAttemptFailure" else f"{why}; {backs_off} first"
    plugins = ", ".join(sorted(queued.plugins))
    return f"waits for a change that may help against {plugins}" if plugins else "waits for any change"


def _why(queued: Queued) -> str:
    """Return the event, as a sentence."""
    if queued.event in _OWN and not queued.object:
        return _OWN[queued.event]
    kind, _, name = queued.object.partition(" ")
    about = f"{kind.lower() if kind in ('Node', 'Pod', 'Namespace') else kind} {name}" if name else "something"
    usual = next((text for end, text in _BY_ENDING.items() if queued.event.endswith(end)), "{} changed")
    happened = _EVENTS.get(queued.event, usual).format(about)
    if queued.queue == Place.GATED or not queued.plugins:
        return f"woken: {happened}"  # the plugins are those that gate it now, or none has rejected it
    return f"woken: {happened}, which may help against {', '.join(sorted(queued.plugins))}"


_OWN = {
    "UnscheduledPodAdd": "queued: the pod was added",
    "UnscheduledPodUpdate": "woken: the pod itself changed",
    "BackoffComplete": "queued: its backoff is over",
    "PopFromBackoffQ": "queued: nothing else is to be done, so it does not wait for the end of its backoff",
    "UnschedulableTimeout": "flushed: no event has woken it for five minutes, so it is tried again",
    "ForceActivate": "queued: a node is kept for it no longer, or the configuration changed",
    "ScheduleAttemptFailure": "queued: what happened during the attempt may help",
}
_BY_ENDING = {"Add": "{} was added", "Delete": "{} was deleted"}
_EVENTS = {
    "UnscheduledPodAdd": "pods of {} came or went",
    "NodeLabelUpdate": "labels of {} changed",
    "NodeTaintUpdate": "taints of {} changed",
    "NodeAllocatableUpdate": "what {} can hold changed",
    "AssignedPodAdd": "{} came to a node",
    "AssignedPodUpdate": "labels of {} changed",
    "AssignedPodScaleDown": "{} asks for less than before",
    "AssignedPodDelete": "{} gave room back",
    "KeptRoomDelete": "room is kept for a pod group no longer",
}
_STATES = {
    ExtendersAsked: "waiting for extenders",
    Assumed: "assumed",
    WaitsOnPermit: "waiting on permit",
    PluginCalled: "binding",
    PreBindWrites: "binding",
    PreBindWaits: "binding",
    BindingPosted: "binding",
    Bound: "bound",
}


def _state(kept: Sequence[Entry]) -> str:
    """Return where the pod stands after all that."""
    for entry in reversed(kept):
        match entry:
            case Queued(queue=queue):
                return str(queue)
            case Left(why=why):
                return why
        if type(entry) in _STATES:
            return _STATES[type(entry)]
    return "unknown"


def _several(count: int, what: str) -> str:
    return f"{count:,} {what}" if count == 1 else f"{count:,} {what}s"


def _duration(trace: Trace | None) -> str:
    return f" in {1000 * (trace[-1] - trace[0]):.2f} ms" if trace and len(trace) > 1 else ""
