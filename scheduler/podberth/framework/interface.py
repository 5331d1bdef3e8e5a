"""The interface of plugins: a plugin derives from `Plugin`, declares what its answers depend on, and overrides the
extension points that it implements. The points have kube-scheduler's names, in snake_case.

What a class declares is read and checked once, when it is registered (`podberth.framework.declaration`). Third-party
plugins are made in the same way, and are found by the entry point group `podberth.plugins`. A profile is the plugins of
one schedulerName, point by point.
"""

import inspect
from collections.abc import Callable, Collection, Coroutine, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Flag, auto
from functools import cached_property
from typing import Annotated, Any, ClassVar, Generic, NamedTuple, Protocol, TypeVar

import numpy as np
from msgspec import Meta, Struct

from podberth.cache.cluster import Cluster
from podberth.cache.cluster import Placement as PlacedPod
from podberth.cache.column import Bools, Ints
from podberth.cache.nodes import Nodes
from podberth.framework.binding import TIME_LIMIT, AssumedPod, Write
from podberth.framework.decision import Decision, Rejected, Rows
from podberth.framework.events import ANY, ClusterEvent
from podberth.framework.explaining import Explainer
from podberth.framework.status import Narrow, Reject, Rejections, shown
from podberth.model.annotated import Mode
from podberth.model.devices import DeviceKind
from podberth.model.node import Node
from podberth.model.pod import Pod
from podberth.model.pod_group import PodGroup
from podberth.model.shape import PodShape
from podberth.model.storage import StorageKind

ALL_NODES = 0
"""No percentage, or 0: kube-scheduler then derives one from the size of the cluster; here all nodes are scored."""
_LONGEST = 7 * 24 * 3600
"""Seconds for which room is kept for a group at most."""
LONGEST_TIMEOUT = 60.0
"""A start waits for the first answer of each source for at most so many seconds."""
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
    "placement_generate",
    "placement_score",
)
"""Every point that a configuration may name."""
SKIPPABLE = frozenset(("pre_enqueue", "pre_filter", "filter", "score", "reserve", "pre_bind"))
"""Every point that a plugin may skip for pods of some shape."""
NO_POINTS: frozenset[str] = frozenset()
OtherObject = StorageKind | DeviceKind | None
"""The argument of `object_hint`: an object that is neither a node nor a pod."""
Value = TypeVar("Value")


class Reservation(Struct, rename="camel", frozen=True, forbid_unknown_fields=True):
    """When room is kept for a gang that waits behind smaller pods, how much, and for how long.

    The engine finds the nodes and keeps others away from them (`podberth.engine.pod_groups.reservations`).
    """

    after_seconds: Annotated[int, Meta(extra_json_schema={"minimum": 0})] = 300
    """Seconds that a gang waits, from its first attempt, before room is kept for it."""
    for_seconds: Annotated[int, Meta(extra_json_schema={"minimum": 1})] = 3600
    """Seconds for which room is kept at most."""
    percentage_of_nodes: Annotated[int, Meta(extra_json_schema={"minimum": 1, "maximum": 100})] = 50
    """The share of all nodes on which room is kept at most, in percent."""
    lowest_priority: int = -(2**31)
    """The lowest priority of a gang for which room is kept."""
    trust_expected_duration: bool = False
    """Pods may use room that is kept by their own word of how long they run, which nobody enforces."""

    def check(self, path: str) -> list[str]:
        """Return error lines."""
        ranges = (
            ("afterSeconds", self.after_seconds, 0, _LONGEST),
            ("forSeconds", self.for_seconds, 1, _LONGEST),
            ("percentageOfNodes", self.percentage_of_nodes, 1, 100),
        )
        return [
            f"{path}.{name}: Invalid value: {value}: must be between {least:,} and {most:,}"
            for name, value, least, most in ranges
            if not least <= value <= most
        ]


class Source(Generic[Value]):
    """One value from outside the cluster: the last one that `fetch` returned."""

    def __init__(
        self,
        name: str,
        fetch: Callable[[], Coroutine[Any, Any, Value]],
        default: Value,
        *,
        interval: float = 30.0,
        timeout: float = 5.0,
    ) -> None:
        """`fetch`: a coroutine function without arguments, which may do I/O; it is cancelled after `timeout` seconds.

        `default`: the value before the first answer, and wherever nothing is fetched (`berth explain`, `simulate`).
        `interval`: seconds from one answer to the next question. Raises TypeError.
        """
        if not (isinstance(name, str) and name):
            raise TypeError(f"a Source wants a name, got {shown(name)}")
        if not inspect.iscoroutinefunction(fetch):
            raise TypeError(f"source {name}: fetch is {shown(fetch)}, should be a coroutine function")
        for what, seconds, most in (("interval", interval, float("inf")), ("timeout", timeout, LONGEST_TIMEOUT)):
            if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 < seconds <= most:
                limit = f" and at most {most:.0f}" if what == "timeout" else ""
                raise TypeError(f"source {name}: {what} is {shown(seconds)}, should be seconds, more than 0{limit}")
        self.name = name
        self.fetch = fetch
        self.default = default
        self.interval = interval
        self.timeout = timeout
        self.clock: Callable[[], float] = _stopped
        """Seconds; a shell that refreshes the source gives it its own."""
        self.version = 0
        """Another one for each other value: for what is kept under a question (`Column.map`)."""
        self._value = default
        self._since: float | None = None

    @property
    def value(self) -> Value:
        """Return the last value, however old."""
        return self._value

    @property
    def age(self) -> float | None:
        """Return how many seconds ago the value came; None: it is the default."""
        return None if self._since is None else self.clock() - self._since

    def set(self, value: Value, age: float = 0.0) -> bool:
        """Have this value, which came so many seconds ago; whether it is another one than before."""
        before, came = self._value, self._since is not None
        self._value, self._since = value, self.clock() - age
        try:
            other = not came or bool(before != value)
        except Exception:  # noqa: BLE001 (arrays and tables have no truth value, and each library says so in its way)
            other = True
        self.version += other
        return other


def _stopped() -> float:
    return 0.0


class Reads(Struct, frozen=True):
    """Annotations and outside data that a plugin reads, and that are not kept or fetched for everybody.

    Annotations are kept only where a plugin of some profile names their keys. A source is refreshed beside the
    scheduling loop by a shell; `filter` and `score` read its last value, and never wait.
    """

    node_annotations: tuple[str, ...] = ()
    pod_annotations: tuple[str, ...] = ()
    """Keys of annotations. A plugin sees these and no others, in `node.annotations` and `pod.annotations`."""
    sources: tuple[Source[Any], ...] = ()

    def problems(self) -> list[str]:
        """Return what is wrong with it, a line each."""
        found = []
        for what in ("node_annotations", "pod_annotations"):
            keys = getattr(self, what)
            if not (isinstance(keys, tuple) and all(isinstance(key, str) and key for key in keys)):
                found.append(f"its reads.{what} is {shown(keys)}, should be a tuple of annotation keys")
        if not (isinstance(self.sources, tuple) and all(isinstance(one, Source) for one in self.sources)):
            found.append(f"its reads.sources is {shown(self.sources)}, should be a tuple of Sources")
        elif len({one.name for one in self.sources}) < len(self.sources):
            found.append("its reads.sources has two sources of one name")
        return found


READS_NOTHING = Reads()


class Normalizer:
    """A way to normalise in which a result depends only on the score itself and on the lowest and highest score.

    So normalised scores can be kept. Upstream: plugins/helper/normalize_score.go (DefaultNormalizeScore) and
    plugins/interpodaffinity (NormalizeScore).
    """

    __name__ = "normalize"

    def __init__(self, name: str, of: Callable[[Ints], Ints]) -> None:
        self.name = name
        self._of = of

    def __call__(self, scores: Ints, *_: Any) -> Ints:
        """int64 in, int64 of 0..100 out; at least one."""
        return self._of(scores)

    def __repr__(self) -> str:
        return self.name


def _maximum(scores: Ints) -> Ints:
    highest = int(scores.max(initial=0))
    return scores if highest == 0 else MAX_SCORE * scores // highest


def _maximum_reversed(scores: Ints) -> Ints:
    return MAX_SCORE - _maximum(scores)


def _min_max(scores: Ints) -> Ints:
    """Floats and truncation as upstream."""
    lowest, highest = int(scores[scores.argmin()]), int(scores[scores.argmax()])
    if highest == lowest:
        return np.zeros_like(scores)
    above, span = scores - lowest, highest - lowest
    if span < len(scores):
        # Each possible score once, instead of that of each node.
        return _stretched(np.arange(span + 1), span).take(above)
    return _stretched(above, span)


def _stretched(above: Ints, span: int) -> Ints:
    stretched: Ints = (float(MAX_SCORE) * (above.astype(np.float64) / float(span))).astype(np.int64)
    return stretched


MAXIMUM = Normalizer("MAXIMUM", _maximum)
"""The highest of scores that are not negative becomes 100."""
MAXIMUM_REVERSED = Normalizer("MAXIMUM_REVERSED", _maximum_reversed)
"""The highest of scores that are not negative becomes 0, and 0 becomes 100."""
MIN_MAX = Normalizer("MIN_MAX", _min_max)
"""The lowest becomes 0 and the highest 100; where all are the same, they become 0."""


class Placement(Struct, frozen=True, eq=False):
    """Nodes on which a group may be scheduled (upstream: `framework.Placement`). There may be one for each node."""

    name: str
    """Such as the value of a label that all these nodes have."""
    rows: Rows
    """Rows of nodes that exist, in ascending order."""
    level: int = 0
    """A group is tried on placements of a higher level only if it fits into none of a lower one."""
    path: tuple[str, ...] = ()
    """The values of the labels that its nodes have in common, the broadest label first."""
    domains: "tuple[Placement, ...]" = ()
    """Parts of it, with paths below its own. The group had better use few, filled by its pods in the order of their
    ranks. A pod that fits into none of them may be on any node of the placement."""


class Running(NamedTuple):
    """A pod of a group that has a node, by the API's word or ours."""

    pod: Pod
    node: str


class Assignment(Struct, frozen=True, eq=False):
    """The outcome of trying a group on the nodes of a placement."""

    group: PodGroup
    placement: Placement
    pods: Sequence[Pod]
    """The pods that found a node. They are not on these nodes now."""
    running: int
    """The number of pods of the group that have a node already."""


class RemovedPods:
    """Rows that a dry run of preemption tries, and the pods that are gone from each of them, apart from the others.

    Upstream has a copy of the state of PreFilter for each node, and takes pods out of it (RemovePod).

    Whatever is gone from one row is still there for the others, and the cluster counts all of it: a plugin subtracts
    it (`Plugin.filter_removed`).
    """

    def __init__(self, rows: Rows, placements: Sequence[PlacedPod], owners: Rows) -> None:
        """`placements`: pods on these rows; `owners`: for each, where in `rows` its row is."""
        self.rows = rows
        self.gone: Bools = np.ones(len(placements), dtype=np.bool_)
        """For each of the placements, whether it is gone; it may be changed at any time."""
        self._owners = owners
        kinds: dict[tuple[int, int, bool], int] = {}
        self._examples: list[Pod] = []
        codes = []
        for placement in placements:
            pod = placement.pod
            code = kinds.setdefault((id(pod.shape), id(pod.labels), pod.terminating), len(kinds))
            if code == len(self._examples):
                self._examples.append(pod)
            codes.append(code)
        self._codes = np.array(codes, dtype=np.intp)
        self._counts: dict[int, tuple[object, Ints]] = {}
        """By the identity of what counts pods: that, and what it counts each placement for."""

    def count(self, of: object, each: Callable[[Pod], int]) -> Ints:
        """Return int64[rows that are tried]: for each row, the sum of what the pods that are gone count for.

        `each`: returns what a pod counts for, by its shape and labels. It is asked once for each `of`.
        """
        known = self._counts.get(id(of))
        if known is None:
            by_kind = np.array([each(pod) for pod in self._examples], dtype=np.int64)
            known = self._counts[id(of)] = of, by_kind[self._codes]
        amounts = np.where(self.gone, known[1], 0)
        return np.bincount(self._owners, weights=amounts, minlength=len(self.rows)).astype(np.int64)

    def on_nodes(self, mask: Bools, rows: int) -> Bools:
        """Return bool[rows]: a mask over the rows that are tried, spread out; False elsewhere."""
        found = np.zeros(rows, dtype=np.bool_)
        found[self.rows] = mask
        return found


class Spare:
    """Amounts that nodes have left for one pod. It fits no row that is not allowed, or that has less than it needs.

    Preemption removes victims from these amounts and puts them back, for many nodes at once, without touching columns.
    """

    def __init__(
        self,
        pod: Pod,
        cluster: Cluster,
        counting: tuple[Any, ...],
        allowed: Bools,
        ask: Callable[..., Any],
        *,
        exact: bool,
    ) -> None:
        self._pod = pod
        self._nodes = cluster.nodes
        self._counting = counting
        self._ask = ask
        self.exact = exact
        """The pod fits all other rows, as long as no filter looks elsewhere for it."""
        self.allowed = allowed
        """bool[rows]: rows that pass all filters that depend on node objects alone."""
        self.needs: Ints = np.array(
            [need for plugin in counting for need in ask(plugin, plugin.needs, pod)], dtype=np.int64
        )

    def free(self, rows: Rows) -> Ints:
        """Return int64[needs, rows]: what these rows have left of each thing. The array belongs to the caller."""
        parts = [self._ask(plugin, plugin.free, self._pod, self._nodes, rows) for plugin in self._counting]
        return np.concatenate(parts) if parts else np.zeros((0, len(rows)), dtype=np.int64)

    def takes(self, shape: PodShape) -> list[int]:
        """Return what a placed pod of this shape takes of each thing."""
        return [amount for plugin in self._counting for amount in self._ask(plugin, plugin.takes, self._pod, shape)]


class DependsOn(Flag):
    """Things on which the answers of `filter` and `score` about one node may depend, besides the pod."""

    NODE = auto()
    """The node object: labels, taints, allocatable, conditions."""
    PODS_HERE = auto()
    """The pods that are placed on the node."""
    PODS_ELSEWHERE = auto()
    """Pods that are placed on other nodes, and the objects that select them."""
    OTHER_NODES = auto()
    """The objects of other nodes."""
    VOLUMES = auto()
    """Claims, volumes, storage classes and what CSI drivers publish."""
    DEVICES = auto()
    """Resource claims, slices, device classes and taint rules."""
    OWN_STATE = auto()
    """State that the plugin keeps from pod to pod."""
    SOURCES = auto()
    """The values of the plugin's sources."""


NODE = DependsOn.NODE
PODS_HERE = DependsOn.PODS_HERE
PODS_ELSEWHERE = DependsOn.PODS_ELSEWHERE
OTHER_NODES = DependsOn.OTHER_NODES
VOLUMES = DependsOn.VOLUMES
DEVICES = DependsOn.DEVICES
OWN_STATE = DependsOn.OWN_STATE
SOURCES = DependsOn.SOURCES
ANYTHING = ~DependsOn(0)
"""For a plugin whose answers may depend on anything: it is asked about all nodes each time."""


class NoArgs(Struct, forbid_unknown_fields=True, rename="camel", frozen=True):
    """Arguments of a plugin that takes none."""


class Filters(Protocol):
    """A profile's filter plugins, for a PostFilter plugin that tries what would fit."""

    go_by_usage: bool
    """In a dry run it is enough to count in `cluster.nodes` what pods use. False: a filter may look at the pods."""

    def passing(
        self,
        pod: Pod,
        cluster: Cluster,
        among: Bools,
        *,
        trying: bool = False,
        removed: RemovedPods | None = None,
    ) -> tuple[Bools, list[Rejected]]:
        """(bool[rows] of `among` that pass all filters, who rejected the rest). `trying`: in a dry run, a node that a
        plugin fails on is only no candidate. `removed`: pods that are gone from these rows."""

    def passing_removed(
        self, pod: Pod, cluster: Cluster, among: Bools, removed: RemovedPods
    ) -> tuple[Bools, list[Rejected]]:
        """Ask as `passing` does, but only the filters that can tell what the removal of pods changes."""

    def looks_elsewhere(self, pod: Pod, cluster: Cluster, others: Iterable[Pod], *, removed: bool = False) -> bool:
        """Return whether what happens to `others` on one node can change the verdict on another node.

        `removed`: leave out filters that can tell what the removal of pods changes.
        """

    def goes_by_shape(self, pod: Pod) -> bool:
        """Return whether verdicts on a node depend on the pod's shape and that node only, unless a filter looks
        elsewhere.
        """

    def spare(self, pod: Pod, cluster: Cluster) -> Spare:
        """Return what each node has left of everything that filters count: preemption finds victims
        by these amounts.
        """


@dataclass(frozen=True, slots=True)
class PostFilterResult:
    """The answer of a PostFilter plugin.

    `node`: where the pod fits once the victims are gone. Empty: nowhere, and an earlier nomination ends. None: the
    plugin does not say.
    """

    text: str
    node: str | None = None
    victims: tuple[Pod, ...] = ()
    candidates: Mapping[str, tuple[tuple[Pod, ...], int]] = field(default_factory=dict)
    """All nodes where preemption would help: their victims, and how many of these overdraw a disruption budget."""
    writes: tuple[Write, ...] = ()
    """Writes after which the pod may fit."""
    in_the_way: frozenset[str] = frozenset()
    """Filters that reject nodes even with all victims removed: an event that changes their verdict may help too."""


class FailedGroup(NamedTuple):
    """A pod group that did not fit. Its pods hold nothing any more."""

    group: PodGroup
    pods: Sequence[Pod]
    """The pods that were tried, in that order."""
    by_topology: bool = False
    """The group asks for a domain, and the profile heeds that."""


class GroupPostFilterResult(NamedTuple):
    """The answer of a plugin about a pod group that did not fit."""

    text: str = ""
    """The end of the messages of the group and of its pods."""
    writes: Sequence[tuple[Pod, Write]] = ()
    """Writes after which the group may fit, and for which of its pods."""
    preempts: bool = False
    """Pods of lower priority may be removed for the group: Berth looks for victims, and says what came of it here."""


class Plugin:
    """Base of every plugin. Override the points that you need; what you do not override is never called.

    `pod.shape` has what a pod asks for (requests, affinity, tolerations, ports, volumes); equal pods share one. Nodes
    are rows of columns: `cluster.nodes.rows` is how many rows there are, some of which may have no node.
    """

    # -- what a plugin declares --------------------------------------------------------------------------------------

    name: ClassVar[str] = ""
    """Its name in configurations, messages and metrics."""
    Args: ClassVar[type[Struct]] = NoArgs
    """Its pluginConfig args, given to the constructor."""
    depends_on: ClassVar[DependsOn | None] = None
    """Needed with `filter` or `score`. Answers that depend on NODE and PODS_HERE only are kept from pod to pod, and are
    computed again for the nodes that changed. A plugin that leaves something out makes wrong decisions."""
    normalize: ClassVar[Callable[..., Ints] | None] = None
    """Brings scores to 0..100: MAXIMUM, MAXIMUM_REVERSED or MIN_MAX, or a method
    `normalize(self, scores, pod, cluster, feasible)`: int64 in, int64 of 0..100 out, for the same rows as `score`.
    Without it, `score` answers 0..100 itself."""
    events: ClassVar[ClusterEvent] = ANY
    """The changes that may reverse its rejection (EventsToRegister)."""
    time_limit: ClassVar[float] = TIME_LIMIT
    """Seconds that each of its coroutines has."""
    for_groups: ClassVar[bool] = False
    """Its `pre_enqueue` goes by the pod's group: it is asked about pods of groups only, after all other plugins, and
    again when the group's object or the number of its pods changes, instead of by `events`."""
    reads: Reads = READS_NOTHING
    """Annotations and sources that it reads."""
    reservation: Reservation | None = None
    """When nodes are reserved for a group that waits behind smaller pods. Pods that are kept away from such nodes wait
    under the plugin's name. If several plugins of a profile say so, the first one counts."""
    annotated_affinity: Mode | None = None
    """The effect of the annotation `scheduler.alpha.kubernetes.io/affinity` on spec.affinity of the profile's pods,
    unless a pod says so itself: "replace" or "add". None, if no plugin of the profile says anything: it is not read."""
    required_during_execution: bool = False
    """True if pods that say nothing are held to their own nodeSelector and required node affinity while they run: if a
    plugin of their profile says so. The evictor sees to it."""
    only_preempts: ClassVar[bool] = False
    """Its `post_filter` only removes pods of lower priority. Then waiting pods are not woken for a node that would be
    too small for them even without all pods of lower priority."""
    explainer: ClassVar[type[Explainer] | None] = None
    """Tells `berth explain` more about its rejections than the texts of its reasons."""

    def __init__(self, args: Any = None) -> None:
        """`args`: an instance of `Args`."""

    @staticmethod
    def check(args: Any, path: str) -> list[str]:
        """Return error lines for arguments that no type can refuse; `path` is where they are in the configuration."""
        return []

    def skips(self, shape: PodShape) -> Collection[str]:
        """Points of SKIPPABLE at which it has no effect on pods of this shape, in any cluster (upstream: Skip).

        When a decision is taken in full, for a message or to verify another decision, it is asked at `pre_filter`,
        `filter` and `score` nevertheless. An answer there counts, and shows that `skips` was wrong.
        """
        return NO_POINTS

    def idle(self, pod: Pod, cluster: Cluster) -> Collection[str]:
        """Which of `filter` and `score` have no effect on this pod now (upstream: Skip of PreFilter and PreScore).

        The answer depends on the pod's shape, namespace, labels and owner, and on `cluster.background`. While these are
        the same, it is kept, and the plugin is not asked at these points. Asked only of plugins whose results are not
        kept by node. As for `skips`, a decision in full asks the plugin nevertheless.
        """
        return NO_POINTS

    def signature(self, shape: PodShape) -> Hashable:
        """The part of a shape that `filter`, `score` and `normalize` read: pods with the same signature share the
        results that are kept (upstream: SignPlugin). Asked only of plugins that depend on NODE and PODS_HERE."""
        return shape

    def looks_elsewhere(self, pod: Pod, cluster: Cluster, others: Iterable[Pod]) -> bool:
        """Return whether what happens to `others` on one node can change its verdict about this pod on another node.

        Preemption asks this of plugins that depend on PODS_ELSEWHERE or more. If the answer is False, the verdict may
        depend on the pod's shape, NODE and PODS_HERE only.
        """
        return True

    def affected_by(self, pod: Pod, cluster: Cluster, others: Sequence[Pod]) -> bool:
        """Return whether these pods, once they are placed on one node, can change its verdict about this pod on another
        node.

        Asked about nominated pods, of which there may be many. It may look closer than `looks_elsewhere`, which is the
        default.
        """
        return self.looks_elsewhere(pod, cluster, others)

    def filter_removed(self, pod: Pod, cluster: Cluster, removed: RemovedPods) -> Rejections:
        """Answer as `filter` for the rows of `removed`, each as if the pods that are gone from it were gone, and
        nothing else had changed (upstream: RemovePod).

        For plugins that look elsewhere: preemption can then try many nodes at a time, instead of one after the other.
        """
        return ()

    # -- before a node is chosen -------------------------------------------------------------------------------------

    def queue_sort(self, pod: Pod, queued_at: float) -> tuple[Any, ...]:
        """Return a sort key of numbers and texts, smallest first. `queued_at`: seconds."""
        raise NotImplementedError

    def pre_filter(self, pod: Pod, cluster: Cluster) -> Reject | Narrow | None:
        """Reject the pod as a whole, narrow the nodes by name, or None for neither.

        With `depends_on` of NODE and PODS_HERE, the answer depends on `signature` alone.
        """
        raise NotImplementedError

    def filter(self, pod: Pod, cluster: Cluster) -> Rejections:
        """Return (reason, bool[rows]) pairs over all rows at once; an empty sequence rejects nothing."""
        raise NotImplementedError

    def filter_one(self, pod: Pod, nodes: Nodes, row: int) -> bool:
        """Return whether this row passes `filter`. Optional, for plugins that depend on NODE and PODS_HERE: for one
        row, plain numbers are faster than arrays.
        """
        raise NotImplementedError

    def post_filter(self, pod: Pod, cluster: Cluster, decision: Decision, filters: Filters) -> PostFilterResult:
        """Return what can be done for a pod that no node takes: the end of its message, a node and victims."""
        raise NotImplementedError

    def post_filter_group(self, failed: FailedGroup, cluster: Cluster) -> GroupPostFilterResult:
        """Return what can be done for a pod group that did not fit.

        Plugins that are enabled for post_filter are asked. If the search for victims took longer than a turn, they are
        asked once more, and the second answer says what is written.
        """
        raise NotImplementedError

    def score(self, pod: Pod, cluster: Cluster, feasible: Rows) -> Ints | int | None:
        """int64[len(feasible)] for the feasible rows, which are given as row numbers in ascending order; one int for
        all of them; or None to take no part. With `score_one`, None has to follow from the pod alone."""
        raise NotImplementedError

    def score_one(self, pod: Pod, nodes: Nodes, row: int) -> int:
        """Return the score that `score` gives this row, if it takes part. Optional, like `filter_one`."""
        raise NotImplementedError

    # -- for preemption by sums: all three or none -------------------------------------------------------------------

    def needs(self, pod: Pod) -> Sequence[int]:
        """Return what the pod needs of each thing that the plugin counts. With this method, the plugin rejects a node
        because it has less `free` of one of these things, and for no other reason.
        """
        raise NotImplementedError

    def free(self, pod: Pod, nodes: Nodes, rows: Rows) -> Ints:
        """Return int64[needs, rows]: what these rows have left of each."""
        raise NotImplementedError

    def counted(self, shape: PodShape) -> Hashable:
        """Names what `needs`, `free` and `takes` count for pods of this shape, without the amounts. Pods with equal
        answers share what nominated pods take of these things. Optional."""
        return shape

    def takes(self, pod: Pod, shape: PodShape) -> Sequence[int]:
        """Return what a placed pod of this shape takes of each, and gives back when it is removed."""
        raise NotImplementedError

    # -- after a node was chosen -------------------------------------------------------------------------------------

    def reserve(self, pod: Pod, cluster: Cluster, row: int) -> Any:
        """Reserve what the pod needs on its node, before the next pod is scheduled. Returns what the plugin has to
        remember until the pod is bound (`assumed.reserved`), or a Reject, after which nothing may be reserved."""
        raise NotImplementedError

    def unreserve(self, assumed: AssumedPod, cluster: Cluster) -> tuple[Write, ...] | None:
        """The pod does not get to its node: give back what `reserve` reserved. Returns what is to be written, if
        anything: what comes of it, the watch tells."""
        return None

    pre_enqueue: Callable[..., Any]
    """`(self, pod)` or `(self, pod, cluster)`: why the pod has to stay out of the active queue; None: it need not."""
    permit: Callable[..., Any]
    """`(self, assumed, cluster)`: None lets the pod go on, a Reject keeps it from the node, a Hold makes it wait."""
    pre_bind: Callable[..., Any]
    """`(self, assumed, cluster)`: None when the pod may be bound, a Reject, or a Wait: what to write and wait for."""
    bind: Callable[..., Any]
    """`(self, assumed, cluster)`: BindResult.SKIP, POST (Berth posts it) or DONE of a coroutine that did so."""
    post_bind: Callable[..., Any]
    """`(self, assumed, cluster)`: the pod is bound; nothing that happens here changes that."""
    # These four may be coroutine functions, which do their own I/O. They get `assumed` only: the cluster changes.

    # -- for pod groups: on which nodes all of its pods may be, and which of these choices is the best -----------------

    def placement_generate(
        self, group: PodGroup, running: Sequence[Running], cluster: Cluster
    ) -> Sequence[Placement] | None:
        """The sets of nodes of which one is chosen for the group; None: it may be on all nodes. `running`: its pods
        that have a node. An exception is the group's error, word for word. Asked again when nodes or labels change."""
        raise NotImplementedError

    def placement_score(self, assignment: Assignment, cluster: Cluster) -> int:
        """Return how good a placement is into which enough pods of a group fit: 0..100 or, with `normalize_placements`,
        any number. The pods are not on the nodes when it is asked.
        """
        raise NotImplementedError

    def normalize_placements(self, scores: Sequence[int]) -> Sequence[int]:
        """Brings the scores of all placements of a group to 0..100."""
        return scores

    # -- queueing hints: a closer look at a change of `events` ---------------------------------------------------------

    def node_hint(self, pod: Pod, old: Node | None, new: Node) -> bool:
        """Return whether a node that was added (old is None) or changed may now take the pod."""
        raise NotImplementedError

    def pod_hint(self, pod: Pod, event: ClusterEvent, other: Pod) -> bool:
        """Return whether what happened to a placed pod may help `pod`."""
        raise NotImplementedError

    def object_hint(self, pod: Pod, event: ClusterEvent, old: OtherObject, new: OtherObject) -> bool:
        """Return whether another object's change from `old` (None: it is new) to `new` (None:
        deleted) may help `pod`.
        """
        raise NotImplementedError


Registry = Mapping[str, type[Plugin]]
"""Plugin name → class."""


@dataclass(frozen=True)
class Profile:
    """A schedulerName and its plugins by extension point, in the order they run."""

    name: str
    points: dict[str, tuple[Plugin, ...]]
    weights: dict[str, int]
    percentage: int = ALL_NODES
    """The number of feasible nodes that are enough, in percent of all nodes (percentageOfNodesToScore)."""

    args: Mapping[str, Any] = field(default_factory=dict)
    """In-tree plugin → its arguments."""
    placement_weights: Mapping[str, int] = field(default_factory=dict)
    """Plugin → its weight at the point placement_score."""

    def plugins(self, point: str) -> tuple[Any, ...]:
        return self.points.get(point, ())

    @cached_property
    def by_name(self) -> Mapping[str, Any]:
        """All its plugins."""
        return {plugin.name: plugin for plugins in self.points.values() for plugin in plugins}

    # -- what any of its plugins may ask for -------------------------------------------------------------------------

    @cached_property
    def sources(self) -> Mapping[tuple[str, str], Source[Any]]:
        """Return (plugin, source) → each source of its plugins."""
        return {(name, one.name): one for name, plugin in self.by_name.items() for one in plugin.reads.sources}

    @cached_property
    def reservation(self) -> tuple[str, Reservation] | None:
        """Return (plugin, its Reservation) of the first plugin that reserves nodes for groups; None: none does."""
        found = ((name, plugin.reservation) for name, plugin in self.by_name.items())
        return next(((name, wanted) for name, wanted in found if wanted is not None), None)

    @cached_property
    def required_during_execution(self) -> bool:
        """Return whether pods that say nothing are held to their own requirements while they run."""
        return any(plugin.required_during_execution for plugin in self.by_name.values())

    @cached_property
    def annotated_affinity(self) -> Mode | None:
        """Return what affinity by annotation does to pods of this profile: what the first plugin says that says
        anything.
        """
        modes = (plugin.annotated_affinity for plugin in self.by_name.values())
        return next((mode for mode in modes if mode is not None), None)

    def apart(self) -> "Profile":
        """Return the same profile with fresh in-tree plugins, which have kept nothing yet.

        Third-party plugins stay the same: their state may be more than kept results.
        """
        made: dict[str, Plugin] = {}

        def own(plugin: Any) -> Plugin:
            if plugin.name not in made:
                made[plugin.name] = type(plugin)(self.args[plugin.name]) if plugin.name in self.args else plugin
            return made[plugin.name]

        return replace(self, points={point: tuple(map(own, plugins)) for point, plugins in self.points.items()})
