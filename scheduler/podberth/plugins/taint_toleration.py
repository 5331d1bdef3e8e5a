"""Upstream: plugins/tainttoleration."""

from collections.abc import Hashable, Sequence
from typing import Any

from msgspec import Struct

from podberth.cache.cluster import Cluster
from podberth.cache.column import Bools, Ints, at
from podberth.cache.nodes import Nodes
from podberth.framework.config import FeatureGates, gate_errors, gate_is_on
from podberth.framework.events import ClusterEvent
from podberth.framework.interface import MAXIMUM_REVERSED, NODE, Plugin
from podberth.framework.status import Rejections, Unresolvable
from podberth.model.node import Node
from podberth.model.pod import Pod
from podberth.model.shape import PodShape
from podberth.model.taints import (
    Toleration,
    intolerable_preferences,
    untolerated,
)

COMPARING = "TaintTolerationComparisonOperators"
"""The gate for tolerations with Gt and Lt."""


class TaintTolerationArgs(Struct, forbid_unknown_fields=True, rename="camel", frozen=True):
    """The gate."""

    feature_gates: FeatureGates = None
    """The gate TaintTolerationComparisonOperators."""


class TaintToleration(Plugin):
    """Keep a pod off nodes whose hard taints it does not tolerate, and prefer nodes with fewer soft ones."""

    name = "TaintToleration"
    depends_on = NODE
    normalize = MAXIMUM_REVERSED
    events = ClusterEvent.NODE_ADDED | ClusterEvent.NODE_TAINTS | ClusterEvent.OWN_TOLERATIONS
    Args = TaintTolerationArgs
    tainted = Unresolvable("node(s) had untolerated taint(s)")

    def __init__(self, args: TaintTolerationArgs) -> None:
        self.comparing = gate_is_on(args.feature_gates, COMPARING)

    @staticmethod
    def check(args: TaintTolerationArgs, path: str) -> list[str]:
        """Errors of the arguments."""
        return gate_errors(args.feature_gates, path, COMPARING)

    def signature(self, shape: PodShape) -> Hashable:
        return shape.tolerations

    def filter(self, pod: Pod, cluster: Cluster) -> Rejections:
        """Reject a node for any NoSchedule or NoExecute taint the pod does not tolerate."""
        if cluster.nodes.taints.blank:
            return ()
        there = untolerated_nodes(pod.shape.tolerations, cluster.nodes, comparing=self.comparing)
        return ((self.tainted, there),)

    def score(self, pod: Pod, cluster: Cluster, feasible: Any) -> Ints | int:
        """Count the PreferNoSchedule taints that the pod does not tolerate."""
        tolerations, comparing = pod.shape.tolerations, self.comparing
        if cluster.nodes.taints.blank:
            return 0
        counts = cluster.nodes.taints.map(
            cluster.nodes.rows,
            ("soft", tolerations, comparing),
            lambda taints: intolerable_preferences(tolerations, taints or (), comparing=comparing),
        )
        return at(counts, feasible)

    def node_hint(self, pod: Pod, old: Node | None, new: Node) -> bool:
        """A node whose taints are tolerated now and were not before."""
        tolerations = pod.shape.tolerations
        comparing = self.comparing
        before = old is None or untolerated(tolerations, old.taints, comparing=comparing) is not None
        return before and untolerated(tolerations, new.taints, comparing=comparing) is None


def untolerated_nodes(tolerations: Sequence[Toleration], nodes: Nodes, *, comparing: bool) -> Bools:
    """bool[rows] of the nodes with a hard taint that is not tolerated."""
    return nodes.taints.where(
        nodes.rows,
        ("hard", tolerations, comparing),
        lambda taints: untolerated(tolerations, taints or (), comparing=comparing) is not None,
    )
