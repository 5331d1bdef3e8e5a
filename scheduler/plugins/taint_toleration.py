"""Upstream: plugins/tainttoleration."""

from collections.abc import Hashable, Sequence
from typing import Any

from msgspec import Struct

from scheduler.framework import feature_gates
from scheduler.framework.changes import AwaitUntaint, Change, Fix, RemoveTaint, Tolerate, Uncordon
from scheduler.framework.events import ClusterEvent
from scheduler.framework.explaining import Detail, Inquiry
from scheduler.framework.feature_gates import FeatureGates
from scheduler.framework.normalize import MAXIMUM_REVERSED
from scheduler.framework.of_controllers import BY_HAND, mark_of_taint
from scheduler.framework.plugin import NODE, Plugin
from scheduler.framework.status import Reason, Rejections, Unresolvable
from scheduler.model.node import Node
from scheduler.model.pod import Pod
from scheduler.model.shape import PodShape
from scheduler.model.taints import (
    COMPARISONS,
    HARD,
    UNSCHEDULABLE,
    Taint,
    Toleration,
    intolerable_preferences,
    tolerates,
    untolerated,
)
from scheduler.state.cluster import Cluster
from scheduler.state.column import Bools, Ints, at
from scheduler.state.nodes import Nodes

COMPARING = "TaintTolerationComparisonOperators"
"""The gate for tolerations with Gt and Lt."""


class TaintTolerationArgs(Struct, forbid_unknown_fields=True, rename="camel", frozen=True):
    """The gate."""

    feature_gates: FeatureGates = None


class TaintToleration(Plugin):
    """Keep a pod off nodes whose hard taints it does not tolerate, and prefer nodes with fewer soft ones."""

    name = "TaintToleration"
    depends_on = NODE
    normalize = MAXIMUM_REVERSED
    events = ClusterEvent.NODE_ADDED | ClusterEvent.NODE_TAINTS | ClusterEvent.OWN_TOLERATIONS
    Args = TaintTolerationArgs
    tainted = Unresolvable("node(s) had untolerated taint(s)")

    def __init__(self, args: TaintTolerationArgs) -> None:
        self.comparing = feature_gates.is_on(args.feature_gates, COMPARING)

    @staticmethod
    def check(args: TaintTolerationArgs, path: str) -> list[str]:
        """Errors of the arguments."""
        return feature_gates.errors(args.feature_gates, path, COMPARING)

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

    def explain(self, inquiry: Inquiry, row: int, reason: Reason) -> Detail:
        """The taints that are not tolerated, who takes them away, and a toleration that nearly would do."""
        taints = self._untolerated(inquiry, row)
        text = f"untolerated {', '.join(map(str, taints))}"
        marks = dict.fromkeys(mark.said for taint in taints if (mark := mark_of_taint(taint.key)) is not None)
        text += f" ({', '.join(marks)})" if marks else ""
        keys = {taint.key for taint in taints}
        near = next((t for t in inquiry.pod.shape.tolerations if t.key in keys), None)
        if near is not None:
            off = near.operator in COMPARISONS and not self.comparing
            unknown = f", but {near.operator} counts with the gate {COMPARING} only" if off else ""
            text += f" (the pod tolerates {near}{unknown})"
        return text, {"taints": [str(taint) for taint in taints]}

    def fixes(self, inquiry: Inquiry, row: int, reasons: Sequence[Reason]) -> list[Fix]:
        """Tolerate what people put there, and leave to controllers what is theirs."""
        node = inquiry.node(row).name
        found = dict.fromkeys(_fix(taint, node) for taint in self._untolerated(inquiry, row))
        changes = tuple(change for change in found if change is not None)
        return [changes] if len(changes) == len(found) else []

    def _untolerated(self, inquiry: Inquiry, row: int) -> list[Taint]:
        tolerations, hard = inquiry.pod.shape.tolerations, (t for t in inquiry.node(row).taints if t.effect in HARD)
        return [taint for taint in hard if not tolerates(tolerations, taint, comparing=self.comparing)]


def untolerated_nodes(tolerations: Sequence[Toleration], nodes: Nodes, *, comparing: bool) -> Bools:
    """bool[rows] of the nodes with a hard taint that is not tolerated."""
    return nodes.taints.where(
        nodes.rows,
        ("hard", tolerations, comparing),
        lambda taints: untolerated(tolerations, taints or (), comparing=comparing) is not None,
    )


def _fix(taint: Taint, node: str) -> Change | None:
    """None: the node is about to go."""
    if taint.key == UNSCHEDULABLE.key:
        return Uncordon(node)
    if taint.key in BY_HAND:
        return RemoveTaint(node, str(taint))
    mark = mark_of_taint(taint.key)
    if mark is None:
        return Tolerate(taint.key, taint.value, taint.effect)
    return AwaitUntaint(node, taint.key) if mark.cure else None
