"""The kinds of entries in a pod's story: facts only; `timeline` makes texts of them.

Each has `at`, engine time in seconds. An entry holds names, texts and numbers, never a pod, a node or a decision: a
story must not keep those in memory. So no entry can be part of a reference cycle (`gc=False`).
"""

from collections.abc import Mapping

from msgspec import Struct

from scheduler.framework.attempt_record import Trace

LONGEST_TEXT = 512
"""How many characters of a message are kept."""
MOST_NAMED = 8
"""How many victims or objects an entry names; of the others, only the number is kept."""


class Queued(Struct, frozen=True, gc=False, tag="queued", rename="camel"):
    """The pod entered a queue."""

    at: float
    queue: str
    event: str
    """Why, under the name of the event in kube-scheduler's metrics."""
    object: str
    """The object of the event: "Node n4". Empty: the pod itself, or none."""
    plugins: frozenset[str]
    """The plugins that had rejected the pod."""
    until: float = 0.0
    """When its backoff is over; 0: it does not back off."""
    reason: str = ""
    """Why a PreEnqueue plugin gates it."""


class SetAside(Struct, frozen=True, gc=False, tag="setAside", rename="camel"):
    """The attempt has used up its slice of steps, and goes on between other pods. Slices in a row are one entry."""

    at: float
    attempt: int
    slices: int
    steps: int
    """All that the attempt has taken so far."""


class TermsIndexed(Struct, frozen=True, gc=False, tag="termsIndexed", rename="camel"):
    """While the pod was active, affinity terms of placed pods had to be indexed, and it has waited for that."""

    at: float
    turns: int
    """In so many turns between attempts."""
    terms: int
    steps: int
    seconds: float
    brought_by: tuple[str, ...]
    """The namespaces whose pods have the terms: the ones indexed last, `MOST_NAMED` of them at most."""


class ExtendersAsked(Struct, frozen=True, gc=False, tag="extendersAsked", rename="camel"):
    """The attempt waits for HTTP extenders."""

    at: float
    attempt: int
    about: str
    """Nodes, or victims."""
    extenders: tuple[str, ...]


class Assumed(Struct, frozen=True, gc=False, tag="assumed", rename="camel"):
    """An attempt found a node: from now on the pod counts there, and Reserve plugins are asked."""

    at: float
    attempt: int
    node: str
    evaluated_nodes: int
    feasible_nodes: int
    score: int | None
    """The node's total; None if it was the only feasible node, or if scores were not kept."""
    steps: int
    """The counted steps of the attempt. Work that every attempt does is not counted."""
    trace: Trace | None


class Failed(Struct, frozen=True, gc=False, tag="failed", rename="camel"):
    """An attempt found no node (reason Unschedulable) or broke (SchedulerError)."""

    at: float
    attempt: int
    reason: str
    message: str
    plugins: frozenset[str]
    steps: int
    trace: Trace | None


class Nominated(Struct, frozen=True, gc=False, tag="nominated", rename="camel"):
    """The pod is nominated for a node, and pods of lower priority have to leave it."""

    at: float
    node: str
    victims: tuple[str, ...]
    """The first of them, as namespace/name."""
    victims_in_all: int


class NominationCleared(Struct, frozen=True, gc=False, tag="nominationCleared", rename="camel"):
    """The pod is not nominated any more."""

    at: float
    why: str


class ChosenAsVictim(Struct, frozen=True, gc=False, tag="chosenAsVictim", rename="camel"):
    """The pod has to make room for one of higher priority."""

    at: float
    node: str
    preemptor: str


class WaitsOnPermit(Struct, frozen=True, gc=False, tag="waitsOnPermit", rename="camel"):
    """Permit plugins make the pod wait, each for so many seconds at most."""

    at: float
    node: str
    seconds: Mapping[str, float]


class PluginCalled(Struct, frozen=True, gc=False, tag="pluginCalled", rename="camel"):
    """A plugin does its own I/O for the pod, and the pod waits for it."""

    at: float
    plugin: str
    point: str


class PreBindWrites(Struct, frozen=True, gc=False, tag="preBindWrites", rename="camel"):
    """A PreBind plugin has objects written before the pod can be bound."""

    at: float
    plugin: str
    objects: tuple[str, ...]
    note: str = ""
    """What the plugin says of them."""


class PreBindWaits(Struct, frozen=True, gc=False, tag="preBindWaits", rename="camel"):
    """A PreBind plugin waits for objects to change, for so many seconds at most."""

    at: float
    plugin: str
    seconds: float


class BindingPosted(Struct, frozen=True, gc=False, tag="bindingPosted", rename="camel"):
    """The Binding is posted after the pod had to wait. Otherwise it has no entry: it is posted with the assumption."""

    at: float
    node: str


class BindFailed(Struct, frozen=True, gc=False, tag="bindFailed", rename="camel"):
    """The API server refused the Binding (`status`: of its answer), or never answered (0)."""

    at: float
    status: int
    message: str


class Reverted(Struct, frozen=True, gc=False, tag="reverted", rename="camel"):
    """The pod is not assumed any more, and what was reserved for it is given back. The next entry says why."""

    at: float
    node: str


class Bound(Struct, frozen=True, gc=False, tag="bound", rename="camel"):
    """The pod is bound."""

    at: float
    node: str
    by: str
    """"berth", a Bind plugin's name, or "others"."""


class Left(Struct, frozen=True, gc=False, tag="left", rename="camel"):
    """The scheduler has nothing more to do for the pod: deleted, finished, terminating, or its profile is gone."""

    at: float
    why: str


Entry = (
    Queued
    | SetAside
    | TermsIndexed
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
    """A message, cut to the length that is kept."""
    return text if len(text) <= LONGEST_TEXT else f"{text[: LONGEST_TEXT - 1]}…"
