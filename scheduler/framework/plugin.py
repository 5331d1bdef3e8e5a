"""The extension points, in the field's words snake_cased. A plugin is a class with `name` and those that it implements.

Third-party plugins implement the same protocols and are found by the entry point group `podberth.plugins`.
At `permit`, `pre_bind`, `bind` and `post_bind` a plugin may be a coroutine function instead, which does its own I/O: it
gets `held` alone, since the cluster moves on while it waits, and answers what the plain method would.
"""

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol, runtime_checkable

from msgspec import Struct

from scheduler.framework.decision import Decision, Rejected, Rows
from scheduler.framework.events import ClusterEvent
from scheduler.framework.permit import Hold
from scheduler.framework.reservation import Binding, Held, Wait
from scheduler.framework.spare import Spare
from scheduler.framework.status import Narrow, Reason, Reject, Rejections
from scheduler.model.node import Node
from scheduler.model.pod import Pod
from scheduler.model.shape import PodShape
from scheduler.model.storage import StorageKind
from scheduler.state.cluster import Cluster
from scheduler.state.column import Bools, Ints
from scheduler.state.nodes import Nodes

MAX_SCORE = 100

POINTS = (
    "pre_enqueue",
    "queue_sort",
    "pre_filter",
    "filter",
    "post_filter",
    "pre_score",
    "score",
    "reserve",
    "permit",
    "pre_bind",
    "bind",
    "post_bind",
)
"""Every point that a configuration may name."""


class NoArgs(Struct, forbid_unknown_fields=True, rename="camel", frozen=True):
    """Arguments of a plugin that takes none."""


class Plugin(Protocol):
    """What every plugin has."""

    name: str
    """Its name in configurations, messages and metrics."""


class PluginClass(Protocol):
    """A plugin's class: `Args` is a msgspec Struct of its pluginConfig args, given to the constructor."""

    name: ClassVar[str]
    Args: ClassVar[type[Struct]]

    def __call__(self, args: Any) -> Plugin: ...


@runtime_checkable
class PreEnqueue(Protocol):
    """Holds a pod out of the active queue."""

    def pre_enqueue(self, pod: Pod) -> Reason | None:
        """Why the pod has to wait; None when it need not."""


@runtime_checkable
class QueueSort(Protocol):
    """Orders the active queue."""

    def queue_sort(self, pod: Pod, queued_at: float) -> tuple[Any, ...]:
        """A sort key, smallest first. `queued_at`: seconds."""


@runtime_checkable
class PreFilter(Protocol):
    """Looks at the pod before any node."""

    def pre_filter(self, pod: Pod, cluster: Cluster) -> Reject | Narrow | None:
        """Reject the pod as a whole, narrow the nodes by name, or None for neither."""


@runtime_checkable
class Filter(Protocol):
    """Rejects nodes."""

    def filter(self, pod: Pod, cluster: Cluster) -> Rejections:
        """(reason, bool[rows]) pairs over all rows at once."""


class Filters(Protocol):
    """A profile's filter plugins, for a PostFilter plugin that tries what would fit."""

    def passing(self, pod: Pod, cluster: Cluster, among: Bools) -> tuple[Bools, list[Rejected]]:
        """(bool[rows] of `among` that pass all filters, who rejected the rest)."""

    def reads_other_rows(self, pod: Pod, cluster: Cluster, others: Iterable[Pod]) -> bool:
        """Whether what happens to `others` on one node can change the verdict on another node."""

    def by_shape(self, pod: Pod) -> bool:
        """Whether, unless it reads other rows, the verdict on a node follows from the pod's shape and that node."""

    def spare(self, pod: Pod, cluster: Cluster) -> Spare:
        """What is left on each node of all that filters count: whom to preempt is found by sums, wholly or in part."""


@dataclass(frozen=True, slots=True)
class PostFilterResult:
    """What a PostFilter plugin found.

    `node`: where the pod fits once the victims are gone; empty: nowhere, and an earlier nomination ends; None: no word.
    """

    text: str
    node: str | None = None
    victims: tuple[Pod, ...] = ()
    candidates: Mapping[str, tuple[tuple[Pod, ...], int]] = field(default_factory=dict)
    """All nodes that would have done: their victims, and how many of them overdraw a disruption budget."""
    in_the_way: frozenset[str] = frozenset()
    """Filters that reject nodes whomever one removes there: what changes their mind may help as well."""


@runtime_checkable
class PostFilter(Protocol):
    """Runs when no node was left (preemption).

    One with `removes_lower_only` helps on a node by removing pods of lower priority from it, and in no other way: then
    a pod that waits need not be woken for room that would be too small for it without all of those.
    """

    def post_filter(self, pod: Pod, cluster: Cluster, decision: Decision, filters: Filters) -> PostFilterResult:
        """The text that ends the FailedScheduling message, and what may be done."""


class RowLocal:
    """Base of filter plugins whose verdict on a node depends on that node alone: dry runs try all nodes at once."""

    by_shape = False
    """Of the pod, only its shape counts: verdicts may be kept per shape and repaired for the rows that change."""
    else_by_shape = False
    """As `by_shape` while `reads_other_rows` is false and the pod names no node."""
    else_silent = False
    """Under the same conditions, it rejects nothing."""
    scores_by_shape = False
    """The same of its scores."""
    ignores_usage = False
    """What is placed on a node makes no difference, to scores neither: only a changed node object does."""
    normalizes_by_extremes = False
    """A normalised score depends on the raw one and on the lowest and highest raw score, not on how many have which."""

    def reads_other_rows(self, pod: Pod, cluster: Cluster, others: Iterable[Pod]) -> bool:
        """Never."""
        return False


@runtime_checkable
class Score(Protocol):
    """Ranks feasible nodes."""

    def score(self, pod: Pod, cluster: Cluster, feasible: Any) -> Ints | int | None:
        """int64[len(feasible)] for the feasible rows (intp), one int for all of them, or None to take no part."""


@runtime_checkable
class Normalize(Protocol):
    """Brings a plugin's own scores to 0..100 over the feasible nodes."""

    def normalize(self, scores: Ints, pod: Pod, cluster: Cluster, feasible: Any) -> Ints:
        """int64 in, int64 of 0..100 out, for the same feasible rows as `score`."""


@runtime_checkable
class Concerned(Protocol):
    """Knows the pods that it has nothing to say about (upstream: Skip of PreFilter and PreScore)."""

    def concerns(self, shape: PodShape) -> bool:
        """False: for pods of this shape, it neither rejects, scores, reserves nor prepares anything, in no cluster."""


@runtime_checkable
class SpeaksAt(Protocol):
    """Knows the points at which it has nothing to say about a pod, so that it need not be asked for each such pod."""

    def speaks_at(self, shape: PodShape) -> Collection[str]:
        """Of "pre_filter", "filter" and "score", those where it may reject, narrow or rank, in some cluster.

        For pods of this shape that name no node.
        """


@runtime_checkable
class Reads(Protocol):
    """Goes by a part of the shape only, so that its answers are kept once for all shapes that agree in it.

    For plugins with `by_shape` or `scores_by_shape`; without it, the whole shape counts.
    """

    def reads(self, shape: PodShape) -> Hashable:
        """What `filter`, `score` and `normalize` go by."""


@runtime_checkable
class ByRow(Protocol):
    """Answers as `filter` and `score` do, faster: without reasons, or for one row and not an array of one.

    For plugins with `by_shape` or `scores_by_shape` that look at what is placed on a node; they need not have it.
    """

    def passes(self, pod: Pod, nodes: Nodes) -> Bools:
        """bool[rows]: whether `filter` rejects the row for no reason, without saying which."""

    def passes_on(self, pod: Pod, nodes: Nodes, row: int) -> bool:
        """Whether `filter` rejects the row for no reason."""

    def score_on(self, pod: Pod, nodes: Nodes, row: int) -> int:
        """What `score` gives the row, where it takes part."""


@runtime_checkable
class Counting(Protocol):
    """Rejects a node for having too little of what pods take, and for nothing else.

    For plugins with `by_shape`: whom to preempt is then found by sums. A pod passes a row where each number of `free`
    is at least that of `needs`, and a placed pod that leaves adds to `free` what it `takes`.
    """

    def needs(self, pod: Pod) -> Sequence[int]:
        """What the pod needs of each thing that counts for it."""

    def free(self, pod: Pod, nodes: Nodes, rows: Rows) -> Ints:
        """int64[needs, rows]: what some rows have left of each."""

    def takes(self, pod: Pod, shape: PodShape) -> Sequence[int]:
        """What a placed pod of a shape takes of each."""


@runtime_checkable
class Reserve(Protocol):
    """Claims what a pod needs on the node it was decided for, before the next pod is looked at."""

    def reserve(self, pod: Pod, cluster: Cluster, row: int) -> Any:
        """What to remember of the pod until it is bound (`Held.memory`), or a Reject, and then nothing is held."""

    def unreserve(self, held: Held, cluster: Cluster) -> None:
        """The pod does not get there: let go of what was claimed."""


@runtime_checkable
class Permit(Protocol):
    """Has the last word on whether a pod may go to the node it was decided for, and when."""

    def permit(self, held: Held, cluster: Cluster) -> Hold | Reject | None:
        """None lets the pod go on, a Reject keeps it from the node, a Hold makes it wait (`held.waiting`)."""


@runtime_checkable
class PreBind(Protocol):
    """Has something to do before a pod may be bound."""

    def pre_bind(self, held: Held, cluster: Cluster) -> Wait | Reject | None:
        """None when the pod may be bound; else what to write and wait for, upon which it is asked again.

        A Reject gives the pod back to the queue.
        """


@runtime_checkable
class Bind(Protocol):
    """Binds pods, or leaves them to the next such plugin."""

    def bind(self, held: Held, cluster: Cluster) -> Binding | Reject:
        """SKIP, POST (the controller posts the Binding) or, of a coroutine that has done so itself, DONE."""


@runtime_checkable
class PostBind(Protocol):
    """Is told of pods that were bound."""

    def post_bind(self, held: Held, cluster: Cluster) -> None:
        """The pod is bound; nothing that happens here changes that."""


@runtime_checkable
class Wakes(Protocol):
    """Says which changes may reverse the plugin's rejection; without it, any change does."""

    wakes_on: ClusterEvent


@runtime_checkable
class NodeHint(Protocol):
    """Looks closer at a changed node before waking a pod."""

    def wakes_for_node(self, pod: Pod, old: Node | None, new: Node) -> bool:
        """Whether a node that was added (old is None) or changed may now take the pod."""


@runtime_checkable
class PodHint(Protocol):
    """Looks closer at a placed pod that came, changed or went before waking a pod."""

    def wakes_for_pod(self, pod: Pod, event: ClusterEvent, other: Pod) -> bool:
        """Whether what happened to `other` may help `pod`."""


@runtime_checkable
class StorageHint(Protocol):
    """Looks closer at a storage object that came, changed or went before waking a pod."""

    def wakes_for_storage(
        self, pod: Pod, event: ClusterEvent, old: StorageKind | None, new: StorageKind | None
    ) -> bool:
        """Whether the change from `old` (None: it is new) to `new` (None: it went) may help `pod`."""


Registry = dict[str, Callable[[Any], Plugin]]
"""Plugin name → class."""


def implements(plugin: object, point: str) -> bool:
    """Whether a plugin (or its class) implements an extension point."""
    return hasattr(plugin, point)
