"""Upstream: plugins/podtopologyspread (filtering.go, scoring.go, common.go)."""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from msgspec.structs import replace

from podberth.cache.cluster import Cluster
from podberth.cache.column import Bools, Ints, at
from podberth.cache.kept_results import Bounded
from podberth.cache.nodes import HOSTNAME
from podberth.framework.config import gate_is_on
from podberth.framework.events import ClusterEvent
from podberth.framework.interface import MAX_SCORE, NODE, PODS_ELSEWHERE, Plugin, RemovedPods
from podberth.framework.status import Reason, Reject, Rejections, Unresolvable, Unschedulable
from podberth.model.migration import ZONE
from podberth.model.node import Node
from podberth.model.pod import Pod
from podberth.model.selectors import NOTHING
from podberth.model.shape import PodShape
from podberth.model.spread import SpreadConstraint, parse_spread_constraint
from podberth.plugins.pod_topology_spread.arguments import PodTopologySpreadArgs, errors
from podberth.plugins.pod_topology_spread.default_selector import default_selector
from podberth.plugins.pod_topology_spread.domains import Spread, Spreads
from podberth.plugins.pod_topology_spread.weights import distinct, rounded, weighted
from podberth.plugins.taint_toleration import COMPARING

_KEPT = 1024
_OWNED = 128
_SYSTEM_DEFAULTS = (
    SpreadConstraint(max_skew=3, topology_key=HOSTNAME, hard=False, selector=NOTHING),
    SpreadConstraint(max_skew=5, topology_key=ZONE, hard=False, selector=NOTHING),
)

_LOOKS = 10_000
"""How many pairs of a constraint and a pod are looked at to find out whether they matter to each other."""


_Owned = tuple[Mapping[str, str], list[SpreadConstraint]]
"""The labels of some pods, and their own constraints of one kind."""


class PodTopologySpread(Plugin):
    """Spread matching pods evenly over the values of a node label."""

    name = "PodTopologySpread"
    depends_on = NODE | PODS_ELSEWHERE
    Args = PodTopologySpreadArgs
    events = (
        ClusterEvent.NODE_ADDED
        | ClusterEvent.NODE_GONE
        | ClusterEvent.NODE_LABELS
        | ClusterEvent.NODE_TAINTS
        | ClusterEvent.POD_PLACED
        | ClusterEvent.POD_LABELS
        | ClusterEvent.POD_GONE
        | ClusterEvent.OWN_LABELS
        | ClusterEvent.OWN_TOLERATIONS
    )
    uneven = Unschedulable("node(s) didn't match pod topology spread constraints")
    unlabelled = Unresolvable("node(s) didn't match pod topology spread constraints (missing required label)")

    def __init__(self, args: PodTopologySpreadArgs) -> None:
        self._spreads = Spreads(comparing=gate_is_on(args.feature_gates, COMPARING))
        self._selected_in: object = None
        self._selected: Bounded[Hashable, tuple[Mapping[str, str], list[SpreadConstraint], int]] = Bounded(_KEPT)
        """The constraints by default, by what they follow from, and how often that had changed in the namespace.

        Labels go by identity, which is why they are held.
        """
        self._owned: Bounded[tuple[PodShape, int, bool], _Owned] = Bounded(_OWNED)
        """As `_selected`, for constraints of the pods' own."""
        self._system = args.defaulting_type == "System"
        self._defaults: tuple[SpreadConstraint, ...] = _SYSTEM_DEFAULTS
        if not self._system:
            self._defaults = tuple(
                parse_spread_constraint(constraint, f"defaultConstraints[{i}]")
                for i, constraint in enumerate(args.default_constraints)
            )
        self._default_kinds = frozenset(constraint.hard for constraint in self._defaults)

    @staticmethod
    def check(args: PodTopologySpreadArgs, path: str) -> list[str]:
        """Errors of the arguments."""
        return errors(args, path)

    def skips(self, shape: PodShape) -> tuple[str, ...]:
        """PreFilter without faults, Filter without constraints that must hold, Score without others."""
        kinds = {constraint.hard for constraint in shape.spread} or self._default_kinds
        points = ["pre_filter"] if shape.problem is None else []
        if True not in kinds:
            points.append("filter")
        if False not in kinds:
            points.append("score")
        return tuple(points)

    def pre_filter(self, pod: Pod, cluster: Cluster) -> Reject | None:
        """Reject a pod whose constraints do not parse."""
        return Reject(Unresolvable(pod.shape.problem)) if pod.shape.problem is not None else None

    def filter(self, pod: Pod, cluster: Cluster) -> Rejections:
        """Reject nodes without a topology key, and nodes where the pod would make the skew larger than allowed."""
        spread = self.spread(pod, cluster, hard=True)
        if spread is None:
            return ()
        uneven = []
        for domains in spread.domains:
            constraint = domains.constraint
            counts = domains.counts(pod, cluster)
            itself = int(constraint.selector.matches(pod.labels))
            too_many = counts > constraint.max_skew - itself + domains.lowest(counts)
            uneven.append(domains.by_row(too_many) if np.count_nonzero(too_many) else None)
        return self._rejections(spread, uneven)

    def filter_removed(self, pod: Pod, cluster: Cluster, removed: RemovedPods) -> Rejections:
        """Subtract the pods that are gone from the count of their domain, which may then be the emptiest one."""
        spread = self.spread(pod, cluster, hard=True)
        if spread is None:
            return ()
        uneven: list[Bools | None] = []
        for domains in spread.domains:
            constraint = domains.constraint
            counts = domains.counts(pod, cluster)
            codes = domains.codes[removed.rows]
            gone = removed.count(domains, partial(_counted, constraint, pod))
            gone = np.where(domains.eligible[removed.rows], gone, 0)
            here = np.append(counts, 0)[codes] - gone
            lowest: Ints = np.full(len(codes), domains.lowest(counts))
            if domains.number >= constraint.min_domains:
                lowest = np.where(gone > 0, np.minimum(lowest, here), lowest)
            itself = int(constraint.selector.matches(pod.labels))
            too_many = (here > constraint.max_skew - itself + lowest) & (codes >= 0)
            uneven.append(removed.on_nodes(too_many, cluster.nodes.rows))
        return self._rejections(spread, uneven)

    def _rejections(self, spread: Spread, too_many: Sequence[Bools | None]) -> Rejections:
        """Return the reasons of each constraint. `too_many`: for each, bool[rows] that it rejects; None: none."""
        left: Bools | None = None
        found: list[tuple[Reason, Bools]] = []
        last = spread.domains[-1]
        for domains, uneven in zip(spread.domains, too_many, strict=True):
            for reason, gone in (
                (self.unlabelled, None if domains.everywhere else domains.missing),
                (self.uneven, uneven),
            ):
                if gone is not None:
                    found.append((reason, gone if left is None else left & gone))
            if domains is not last:
                for gone in (domains.missing, uneven):
                    if gone is not None:
                        left = ~gone if left is None else left & ~gone
        return found

    def looks_elsewhere(self, pod: Pod, cluster: Cluster, others: Iterable[Pod]) -> bool:
        """Return when the pod has constraints that must hold."""
        return bool(self.constraints(pod, cluster, hard=True))

    def affected_by(self, pod: Pod, cluster: Cluster, others: Sequence[Pod]) -> bool:
        """Return when a constraint that must hold counts one of `others`."""
        beside = [other for other in others if other.namespace == pod.namespace]
        if not beside:
            return False
        constraints = self.constraints(pod, cluster, hard=True)
        if len(constraints) * len(beside) > _LOOKS:
            return True
        return any(constraint.selector.matches(other.labels) for constraint in constraints for other in beside)

    def score(self, pod: Pod, cluster: Cluster, feasible: Any) -> Ints | None:
        """Matching pods in the node's domains, weighted by how many domains there are: less is better."""
        spread = self.spread(pod, cluster, hard=False)
        if spread is None:
            return None
        counted = None if spread.whole else at(spread.labelled, feasible)
        total: Any = None
        for domains in spread.domains:
            constraint = domains.constraint
            here = at(domains.codes, feasible)
            matching = at(domains.matching(pod, cluster), feasible) if constraint.topology_key == HOSTNAME else None
            if matching is not None:
                size = len(feasible) if counted is None else int(np.count_nonzero(counted))
                part = weighted(matching, size, constraint)
            else:
                # Nodes without the label, where they are not left out, count as one more domain.
                if len(feasible) == spread.nodes and counted is None:
                    size = domains.size
                else:
                    size = distinct(here if counted is None else here[counted])
                part = weighted(np.append(domains.counts(pod, cluster), 0), size, constraint)
                if len(spread.domains) == 1:
                    part = rounded(part)  # a few numbers now, or the same ones for thousands of nodes later
                part = part.take(here)
            if not domains.everywhere:
                part = np.where(here >= 0, part, 0)
            total = part if total is None else total + part
        whole: Ints = total if total.dtype == np.int64 else rounded(total)
        return whole if counted is None else np.where(counted, whole, 0)

    def normalize(self, scores: Ints, pod: Pod, cluster: Cluster, feasible: Any) -> Ints:
        """Turn fewest into best; nodes without the topology keys get nothing."""
        counted = None
        if self._needs_all_keys(pod):
            spread = self.spread(pod, cluster, hard=False)
            counted = None if spread is None or spread.whole else at(spread.labelled, feasible)
        taking_part = scores if counted is None else scores[counted]
        if not len(taking_part):
            return np.zeros_like(scores)
        lowest, highest = int(taking_part.min()), int(taking_part.max(initial=0))
        if highest == 0:
            return np.full_like(scores, MAX_SCORE) if counted is None else np.where(counted, MAX_SCORE, 0)
        stretched: Ints = MAX_SCORE * (highest + lowest - scores) // highest
        return stretched if counted is None else np.where(counted, stretched, 0)

    def node_hint(self, pod: Pod, old: Node | None, new: Node) -> bool:
        """A node that gained or lost a topology key, moved, or changed while inclusion policies look at it."""
        hard = [constraint for constraint in pod.shape.spread if constraint.hard]
        if not hard:
            return True
        has = all(constraint.topology_key in new.labels for constraint in hard)
        if old is None:
            return has
        had = all(constraint.topology_key in old.labels for constraint in hard)
        moved = any(old.labels.get(c.topology_key) != new.labels.get(c.topology_key) for c in hard)
        tainted = old.taints != new.taints
        return has != had or (has and (moved or tainted)) or any(c.honor_taints or c.honor_affinity for c in hard)

    def pod_hint(self, pod: Pod, event: ClusterEvent, other: Pod) -> bool:
        """A pod of the namespace that one of the constraints counts."""
        if other.namespace != pod.namespace:
            return False
        if event & ClusterEvent.POD_LABELS:
            return True
        hard = [constraint for constraint in pod.shape.spread if constraint.hard]
        return not hard or any(c.counts(pod.labels, other.labels) for c in hard)

    def too_uneven(self, pod: Pod, row: int, cluster: Cluster) -> list[tuple[SpreadConstraint, int]]:
        """The constraints of a placed pod that do not hold on its row, and by how many pods its domain has too many.

        Only those that say DoNotSchedule.
        """
        spread = self.spread(pod, cluster, hard=True)
        found = []
        for domains in () if spread is None else spread.domains:
            code = int(domains.codes[row])
            counts = domains.counts(pod, cluster)
            excess = int(counts[code]) - domains.lowest(counts) - domains.constraint.max_skew if code >= 0 else 0
            if excess > 0:
                found.append((domains.constraint, excess))
        return found

    def _needs_all_keys(self, pod: Pod) -> bool:
        return bool(pod.shape.spread) or not self._system

    def spread(self, pod: Pod, cluster: Cluster, *, hard: bool) -> Spread | None:
        shape = pod.shape
        constraints = self.constraints(pod, cluster, hard=hard)
        if not constraints:
            return None
        # The constraints are the shape's own, or depend on the pod's labels or on what selects the pod.
        own = shape.spread and not any(constraint.match_label_keys for constraint in shape.spread)
        key = (shape, hard) if own else (shape, hard, tuple(constraints))
        found = self._spreads.current(key, cluster)
        if found is None:
            all_keys = hard or self._needs_all_keys(pod)
            found = self._spreads.make(key, constraints, pod, cluster, all_keys=all_keys)
        return found

    def constraints(self, pod: Pod, cluster: Cluster, *, hard: bool) -> Sequence[SpreadConstraint]:
        """The pod's constraints of one kind, or the defaults for a pod that belongs to a Service or controller."""
        if pod.shape.spread:
            return self._own(pod, cluster, hard=hard)
        return self._by_default(pod, cluster, hard=hard) if hard in self._default_kinds else ()

    def _own(self, pod: Pod, cluster: Cluster, *, hard: bool) -> Sequence[SpreadConstraint]:
        """The pod's own constraints of one kind, with its values of `matchLabelKeys`; found once for equal pods."""
        shape = pod.shape
        key = (shape, id(pod.labels), hard)
        found = self._owned.recall(key)
        if found is None:
            constraints = [_of_pod(one, pod.labels) for one in shape.spread if one.hard == hard]
            self._owned.keep(key, found := (pod.labels, constraints))
        return found[1]

    def _by_default(self, pod: Pod, cluster: Cluster, *, hard: bool) -> list[SpreadConstraint]:
        """The defaults, with the selector of what the pod belongs to; found once for equal labels and owner."""
        if self._selected_in is not cluster.selecting:
            self._selected_in = cluster.selecting
            self._selected.clear()
        key = (pod.namespace, id(pod.labels), pod.owner, hard)
        changes = cluster.selecting_changes.get(pod.namespace, 0)
        found = self._selected.recall(key)
        if found is None or found[2] != changes:
            selector = default_selector(pod, cluster)
            defaults = [] if selector is None else [c for c in self._defaults if c.hard == hard]
            constraints = [replace(constraint, selector=selector or NOTHING) for constraint in defaults]
            self._selected.keep(key, found := (pod.labels, constraints, changes))
        return found[1]


def _counted(constraint: SpreadConstraint, pod: Pod, other: Pod) -> int:
    """Return 1 for a pod that leaves and that a constraint of `pod` counts, be it on its way out or not."""
    return int(other.namespace == pod.namespace and constraint.selector.matches(other.labels))


def _of_pod(constraint: SpreadConstraint, labels: Mapping[str, str]) -> SpreadConstraint:
    """The constraint with the pod's own values of `matchLabelKeys`."""
    if not constraint.match_label_keys:
        return constraint
    return replace(constraint, selector=constraint.selector_for(labels), match_label_keys=())
