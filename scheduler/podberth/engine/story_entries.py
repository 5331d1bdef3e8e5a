"""The kinds of entries in a pod's story: facts only; `timeline` makes texts of them.

Each has `at`, engine time in seconds. An entry holds names, texts and numbers, never a pod, a node or a decision: a
story must not keep those in memory. So no entry can be part of a reference cycle (`gc=False`).
"""

from collections.abc import Mapping

from msgspec import Struct

from podberth.framework.attempt_record import Trace

LONGEST_TEXT = 512
"""How many characters of a message are kept."""
MOST_NAMED = 8
"""How many victims or objects an entry names; of the others, only the number is kept."""


def _tag(name: str) -> str:
    return name[0].lower() + name[1:]


class _Entry(Struct, frozen=True, gc=False, tag=_tag, rename="camel"):
    """What all entries have."""

    at: float


class Queued(_Entry, frozen=True):
    """The pod entered a queue."""

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
    """What the plugin says of them."""


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
    """A message, cut to the length that is kept."""
    return text if len(text) <= LONGEST_TEXT else f"{text[: LONGEST_TEXT - 1]}…"
