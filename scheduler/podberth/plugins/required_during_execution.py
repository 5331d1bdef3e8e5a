"""No upstream twin: RequiredDuringSchedulingRequiredDuringExecution, which the API never got. See `model.promise`."""

from collections.abc import Hashable

from msgspec import Struct

from podberth.cache.cluster import Cluster
from podberth.cache.column import Bools
from podberth.cache.nodes import Nodes
from podberth.framework.events import ClusterEvent
from podberth.framework.interface import NODE, Plugin
from podberth.framework.status import Rejections, Unresolvable
from podberth.model.node import Node
from podberth.model.pod import Pod
from podberth.model.promise import ANNOTATION, NodeRequirement
from podberth.model.shape import PodShape, required
from podberth.plugins.node_affinity import matches, matches_all


class RequiredDuringExecutionArgs(Struct, forbid_unknown_fields=True, rename="camel", frozen=True):
    """`allPods`: the profile's pods that say nothing are held to their own nodeSelector and required node affinity."""

    all_pods: bool = False
    """All pods of the profile keep what they ask of their node while they run, also those that say nothing of it."""


class RequiredDuringExecution(Plugin):
    """Keep a pod off nodes from which the evictor would remove it again."""

    name = "RequiredDuringExecution"
    depends_on = NODE
    Args = RequiredDuringExecutionArgs
    events = ClusterEvent.NODE_ADDED | ClusterEvent.NODE_LABELS | ClusterEvent.OWN_PROMISE
    mismatch = Unresolvable(f"node(s) didn't match Pod's annotation {ANNOTATION}")

    def __init__(self, args: RequiredDuringExecutionArgs) -> None:
        self.required_during_execution = args.all_pods

    def signature(self, shape: PodShape) -> Hashable:
        """The promise and, where it may mean them, the pod's own requirements."""
        if not self.required_during_execution and shape.promise is None:
            return None
        return shape.promise, shape.node_selector, shape.required_node_affinity

    def wanted(self, pod: Pod) -> NodeRequirement | None:
        """Return what the pod asks of its node while it runs."""
        return required(pod.shape, by_profile=self.required_during_execution)

    def filter(self, pod: Pod, cluster: Cluster) -> Rejections:
        """Reject nodes that do not meet it; all of them when the annotation can't be read."""
        promise, nodes = pod.shape.promise, cluster.nodes
        if promise is not None and promise.problem is not None:
            return [(Unresolvable(f"node(s) were left out, {promise.problem}"), nodes.alive[: nodes.rows])]
        wanted = self.wanted(pod)
        return [] if wanted is None else [(self.mismatch, ~meeting(wanted, nodes))]

    def node_hint(self, pod: Pod, old: Node | None, new: Node) -> bool:
        """A node that meets it now and did not before."""
        wanted = self.wanted(pod)
        if wanted is None:
            return False
        return wanted.holds(new.name, new.labels) and (old is None or not wanted.holds(old.name, old.labels))


def meeting(wanted: NodeRequirement, nodes: Nodes) -> Bools:
    """bool[rows] of the nodes that meet a requirement."""
    fits = matches_all(wanted.labels, nodes)
    return fits if wanted.selector is None else fits & matches(wanted.selector, nodes)
