"""What a plugin is: a class that derives from `Plugin`, declares what its answers depend on, and overrides the
extension points that it implements. The points have kube-scheduler's names, in snake_case.

What a class declares is read and checked once, when it is registered (`podberth.framework.declaration`). Third-party
plugins are made in the same way, and are found by the entry point group `podberth.plugins`.
"""

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Flag, auto
from typing import Any, ClassVar, NamedTuple, Protocol

from msgspec import Struct

from podberth.cache.cluster import Cluster
from podberth.cache.column import Bools, Ints
from podberth.cache.nodes import Nodes
from podberth.framework.binding import AssumedPod, Write
from podberth.framework.binding_plugins import TIME_LIMIT
from podberth.framework.decision import Decision, Rejected, Rows
from podberth.framework.events import ANY, ClusterEvent
from podberth.framework.explaining import Explainer
from podberth.framework.placement import Assignment, Placement, Running
from podberth.framework.reads import NOTHING, Reads
from podberth.framework.removed_pods import RemovedPods
from podberth.framework.reservation import Reservation
from podberth.framework.spare import Spare
from podberth.framework.status import Narrow, Reject, Rejections
from podberth.model.annotated import Mode
from podberth.model.devices import DeviceKind
from podberth.model.node import Node
from podberth.model.pod import Pod
from podberth.model.pod_group import PodGroup
from podberth.model.shape import PodShape
from podberth.model.storage import StorageKind

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
SKIPPABLE = frozenset(("pre_filter", "filter", "score", "reserve", "pre_bind"))
"""Every point that a plugin may skip for pods of some shape."""
NO_POINTS: frozenset[str] = frozenset()
OtherObject = StorageKind | DeviceKind | None
"""What `object_hint` is asked about: an object that is neither a node nor a pod."""


class DependsOn(Flag):
    """What the answers of `filter` and `score` about one node may depend on, besides the pod."""

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
        """As `passing`, of the filters that can tell what the removal of pods changes, and of no others."""

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
    """What a PostFilter plugin found.

    `node`: where the pod fits once the victims are gone. Empty: nowhere, and an earlier nomination ends. None: the
    plugin does not say.
    """

    text: str
    node: str | None = None
    victims: tuple[Pod, ...] = ()
    candidates: Mapping[str, tuple[tuple[Pod, ...], int]] = field(default_factory=dict)
    """All nodes where preemption would help: their victims, and how many of these overdraw a disruption budget."""
    writes: tuple[Write, ...] = ()
    """What to write, so that the pod may fit later."""
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
    """What a plugin can do for a pod group that did not fit."""

    text: str = ""
    """What the messages of the group and of its pods end with."""
    writes: Sequence[tuple[Pod, Write]] = ()
    """What to write so that the group fits later, and for which of its pods."""
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
    reads: Reads = NOTHING
    """Annotations and sources that it reads."""
    reservation: Reservation | None = None
    """When nodes are reserved for a group that waits behind smaller pods. Pods that are kept away from such nodes wait
    under the plugin's name. If several plugins of a profile say so, the first one counts."""
    annotated_affinity: Mode | None = None
    """What the annotation `scheduler.alpha.kubernetes.io/affinity` does to spec.affinity of the profile's pods, unless
    a pod says so itself: "replace" or "add". None, if no plugin of the profile says anything: it is not read."""
    required_during_execution: bool = False
    """Whether pods that say nothing are held to their own nodeSelector and required node affinity while they run: if a
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
        """Error lines for arguments that no type can refuse; `path` is where they are in the configuration."""
        return []

    def skips(self, shape: PodShape) -> Collection[str]:
        """Points of SKIPPABLE at which it has no effect on pods of this shape, in any cluster (upstream: Skip).

        When a decision is taken in full, for a message or to verify another decision, it is asked at `pre_filter`,
        `filter` and `score` nevertheless. An answer there counts, and shows that `skips` was wrong.
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
        """A sort key of numbers and texts, smallest first. `queued_at`: seconds."""
        raise NotImplementedError

    def pre_filter(self, pod: Pod, cluster: Cluster) -> Reject | Narrow | None:
        """Reject the pod as a whole, narrow the nodes by name, or None for neither.

        With `depends_on` of NODE and PODS_HERE, the answer depends on `signature` alone.
        """
        raise NotImplementedError

    def filter(self, pod: Pod, cluster: Cluster) -> Rejections:
        """(reason, bool[rows]) pairs over all rows at once; an empty sequence rejects nothing."""
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
        all of them; or None to take no part."""
        raise NotImplementedError

    def score_one(self, pod: Pod, nodes: Nodes, row: int) -> int:
        """The score that `score` gives this row, if it takes part. Optional, like `filter_one`."""
        raise NotImplementedError

    # -- for preemption by sums: all three or none -------------------------------------------------------------------

    def needs(self, pod: Pod) -> Sequence[int]:
        """Return what the pod needs of each thing that the plugin counts. With this method, the plugin rejects a node
        because it has less `free` of one of these things, and for no other reason.
        """
        raise NotImplementedError

    def free(self, pod: Pod, nodes: Nodes, rows: Rows) -> Ints:
        """int64[needs, rows]: what these rows have left of each."""
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
