"""Spread pods over the values of a node label.

Upstream: plugins/podtopologyspread (filtering.go, scoring.go, common.go).
"""

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from functools import cached_property, partial
from typing import Annotated, Any

import numpy as np
from msgspec import Meta, Struct
from msgspec.structs import replace
from numpy.typing import NDArray

from podberth.cache.cluster import Cluster
from podberth.cache.column import Bools, Codes, Ints, at
from podberth.cache.kept_results import Bounded, ChangeLog, KeptResult
from podberth.cache.nodes import HOSTNAME, Nodes
from podberth.cache.selected_pods import OnRows
from podberth.framework.config import FeatureGates, gate_errors, gate_is_on
from podberth.framework.events import ClusterEvent
from podberth.framework.interface import MAX_SCORE, NODE, PODS_ELSEWHERE, Plugin, RemovedPods
from podberth.framework.status import Reason, Reject, Rejections, Unresolvable, Unschedulable
from podberth.model import wire
from podberth.model.node import Node
from podberth.model.pod import Pod
from podberth.model.selectors import NOTHING, LabelSelector, Requirement
from podberth.model.shape import PodShape
from podberth.model.terms import SpreadConstraint, parse_spread_constraint
from podberth.model.volumes import ZONE
from podberth.plugins.node_affinity import wanted_nodes
from podberth.plugins.taint_toleration import COMPARING, untolerated_nodes

_OWNERS = frozenset(("ReplicaSet", "StatefulSet"))
_MERGED = _OWNERS | {"ReplicationController"}
"""Kinds of controllers whose selectors count beside those of Services."""
_NOBODY_ANYWHERE = 2**31 - 1
"""The count of the emptiest domain where there is none."""
_NO, _NOBODY = np.zeros(1, dtype=np.bool_), np.zeros(1, dtype=np.int64)
"""Rows without the label have the last code, -1: what is appended is theirs."""
_SPREADS = 64
"""The number of lists of constraints whose domains are kept: each constraint takes some bytes a node."""
_KEPT = 1024
"""The number of lists of constraints by default that are kept."""
_OWNED = 128
"""The number of lists of pods' own constraints that are kept: they keep shapes, which may be large."""
_SYSTEM_DEFAULTS = (
    SpreadConstraint(max_skew=3, topology_key=HOSTNAME, hard=False, selector=NOTHING),
    SpreadConstraint(max_skew=5, topology_key=ZONE, hard=False, selector=NOTHING),
)
_LOOKS = 10_000
"""At most so many pairs of a constraint and a pod are looked at to find out whether they matter to each other."""
_Owned = tuple[Mapping[str, str], list[SpreadConstraint]]
"""The labels of some pods, and their own constraints of one kind."""


class PodTopologySpreadArgs(Struct, forbid_unknown_fields=True, rename="camel", frozen=True):
    """Constraints for pods that have none of their own: the System's, or a List."""

    default_constraints: list[wire.TopologySpreadConstraint] = []
    """Constraints of the type List (without labelSelector) for pods that have none. Empty: no default spreading."""
    defaulting_type: Annotated[str, Meta(extra_json_schema={"enum": ["System", "List"]})] = "System"
    """The default constraints are the System's (by hostname and zone), or those of the List."""
    feature_gates: FeatureGates = None
    """The gate TaintTolerationComparisonOperators, for `nodeTaintsPolicy: Honor`."""


def distinct(codes: Codes) -> int:
    """Return how many domains there are, with those that have no label as one."""
    return int(np.count_nonzero(np.bincount(1 + codes)))


def weighted(matching: Ints, domains: int, constraint: SpreadConstraint) -> Any:
    """The part of the score that matching pods are, where there are so many domains."""
    return matching.astype(np.float64) * math.log(domains + 2) + float(constraint.max_skew - 1)


def rounded(score: Any) -> Ints:
    """Go's math.Round for numbers that are not negative: halves go up."""
    whole = np.floor(score)
    found: Ints = (whole + (score - whole >= 0.5)).astype(np.int64)
    return found


def default_selector(pod: Pod, cluster: Cluster) -> LabelSelector | None:
    """The merged selectors of the Services that select the pod and of its controller; None when there are none."""
    owner = None
    if pod.owner is not None:
        kind, name, _ = pod.owner
        owner = cluster.selecting.get(kind, {}).get(pod.namespace, {}).get(name)
        if owner is not None and owner.selector.nothing:
            owner = None
    services = cluster.services.selecting(pod.namespace, pod.labels)
    if not services:
        # One selector as it is, which has been hashed.
        return owner.selector if owner is not None and owner.kind in _MERGED and owner.selector.requirements else None
    if len(services) == 1 and (owner is None or owner.kind not in _MERGED):
        return services[0].selector
    pairs: dict[str, Requirement] = {}
    for service in services:
        for requirement in service.selector.requirements:
            pairs[requirement.key] = requirement
    found = list(pairs.values())
    if owner is not None:
        if owner.kind == "ReplicationController":
            pairs |= {requirement.key: requirement for requirement in owner.selector.requirements}
            found = list(pairs.values())
        elif owner.kind in _OWNERS:
            return LabelSelector((*found, *owner.selector.requirements))
    return LabelSelector(tuple(found)) if found else None


class Domains(KeptResult[list[tuple[int, int]]]):
    """The domains of one constraint: the values of its topology key, and how many counted pods each of them has."""

    def __init__(self, constraint: SpreadConstraint, cluster: Cluster, included: Bools) -> None:
        nodes = cluster.nodes
        column = nodes.label(constraint.topology_key)
        self.constraint = constraint
        self.codes: Codes = column.codes[: nodes.rows]
        self.missing: Bools = self.codes < 0
        alive = nodes.alive[: nodes.rows]
        self.everywhere = not (self.missing & alive).any()
        """All nodes have the label."""
        self.eligible: Bools = included & ~self.missing
        here = self.codes[self.eligible]
        self.inhabited: Bools = np.bincount(here, minlength=len(column.values)) > 0
        """bool[codes]: domains with an eligible node."""
        self.number = int(np.count_nonzero(self.inhabited))
        self._column = column
        self._rows, self._alive = nodes.rows, alive
        self._which: NDArray[np.intp] | None = None if self.inhabited.all() else np.flatnonzero(self.inhabited)
        self._counts: Ints = np.zeros(len(self.inhabited), dtype=np.int64)

    @cached_property
    def size(self) -> int:
        """Return how many domains all nodes are in, with those without the label as one."""
        return distinct(self.codes[self._alive])

    def of_inhabited(self, counts: Ints) -> Ints:
        """The counts of inhabited domains."""
        return counts if self._which is None else counts.take(self._which)

    def lowest(self, counts: Ints) -> int:
        """The count of the emptiest domain; 0 while there are fewer domains than the constraint asks for."""
        if self.number < self.constraint.min_domains:
            return 0
        return int(self.of_inhabited(counts).min(initial=_NOBODY_ANYWHERE))

    def by_row(self, by_code: Bools) -> Bools:
        """bool[rows]: what the domain of each row has; False without one."""
        return self._column.gather(np.concatenate((by_code, _NO)), self._rows)

    def matching(self, pod: Pod, cluster: Cluster) -> Ints:
        """int64[rows]: pods that the constraint counts; the empty selector counts none (countPodsMatchSelector)."""
        found = self._of(pod, cluster)
        return np.zeros(cluster.nodes.rows, dtype=np.int64) if found is None else found.by_row(cluster.nodes.rows)

    def counts(self, pod: Pod, cluster: Cluster) -> Ints:
        """int64[codes]: these pods on eligible nodes, by topology value; do not change it.

        What a dry run adds or takes away counts under the empty selector, and on its way out, too (updateWithPod).
        """
        counts = self._of_placed(pod, cluster)
        if not cluster.supposed:
            return counts
        selector = self.constraint.selector
        supposed = cluster.supposed if selector.is_everything else cluster.supposed_leaving
        if not supposed:
            return counts
        counts = counts.copy()
        for other, row, sign in supposed.values():
            if other.namespace == pod.namespace and self.eligible[row] and selector.matches(other.labels):
                counts[self.codes[row]] += sign
        return counts

    def _of_placed(self, pod: Pod, cluster: Cluster) -> Ints:
        found = self._of(pod, cluster)
        if found is not None:
            self.renew((found,), found.log, (found, cluster.nodes.rows))
        return self._counts

    def changes(self, log: ChangeLog[tuple[int, int]], asked: Any) -> list[tuple[int, int]] | None:
        """The pods that came and went."""
        return log.entries_since(self.version)

    def apply(self, changes: list[tuple[int, int]], asked: Any) -> None:
        """Count them."""
        for row, amount in changes:
            if self.eligible[row]:
                self._counts[self.codes[row]] += amount

    def compute(self, asked: Any) -> None:
        """Count all."""
        found, rows = asked
        here, on_rows = self.codes[self.eligible], found.by_row(rows)[self.eligible]
        self._counts = np.bincount(here, weights=on_rows, minlength=len(self.inhabited)).astype(np.int64)

    def _of(self, pod: Pod, cluster: Cluster) -> OnRows | None:
        selector = self.constraint.selector
        if selector.nothing or selector.is_everything:
            return None
        return cluster.affinity.on_rows(pod.namespace, selector)


class Spread:
    """The domains of all constraints that equal pods have, of those that must hold or of those that need not."""

    def __init__(
        self,
        constraints: Sequence[SpreadConstraint],
        pod: Pod,
        cluster: Cluster,
        *,
        all_keys: bool,
        comparing: bool = False,
    ) -> None:
        """`comparing`: as in `podberth.model.taints`."""
        nodes = cluster.nodes
        self._keys = [constraint.topology_key for constraint in constraints]
        by_affinity = bool(pod.shape.node_selector) or pod.shape.required_node_affinity is not None
        self._honors_affinity = by_affinity and any(constraint.honor_affinity for constraint in constraints)
        self._honors_taints = any(constraint.honor_taints for constraint in constraints)
        self._made_from = self._versions(nodes)
        self.nodes = int(np.count_nonzero(nodes.alive[: nodes.rows]))
        self.labelled: Bools = nodes.alive[: nodes.rows].copy()
        """Existing nodes with every topology key, or all where `all_keys` is not asked for."""
        if all_keys:
            for constraint in constraints:
                self.labelled &= nodes.label(constraint.topology_key).codes[: nodes.rows] >= 0
        self.whole = int(np.count_nonzero(self.labelled)) == self.nodes
        """These are all nodes."""
        included: dict[tuple[bool, bool], Bools] = {}
        self.domains = []
        for constraint in constraints:
            policies = (constraint.honor_affinity, constraint.honor_taints)
            if policies not in included:
                included[policies] = self.labelled & _included(constraint, pod, cluster, comparing)
            self.domains.append(Domains(constraint, cluster, included[policies]))

    def holds(self, nodes: Nodes) -> bool:
        """Return whether nothing has changed that it was made from."""
        return self._made_from == self._versions(nodes)

    def _versions(self, nodes: Nodes) -> tuple[object, ...]:
        """The versions of all that the constraints read of the nodes."""
        columns = [nodes.topology(key) for key in self._keys]
        return (
            nodes,
            nodes.rows,
            nodes.population_changes,
            nodes.key_changes if None in columns else None,
            nodes.label_changes if self._honors_affinity else None,
            nodes.taints.version if self._honors_taints else None,
            *[(column, None if column is None else column.version) for column in columns],
        )


def _included(constraint: SpreadConstraint, pod: Pod, cluster: Cluster, comparing: bool) -> Bools:
    """bool[rows]: nodes whose pods count, by the constraint's inclusion policies."""
    nodes = cluster.nodes
    included: Bools = nodes.alive[: nodes.rows]
    if constraint.honor_affinity:
        wanted = wanted_nodes(pod, nodes)
        if wanted is not None:
            included = included & wanted
    if constraint.honor_taints:
        included = included & ~untolerated_nodes(pod.shape.tolerations, nodes, comparing=comparing)
    return included


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
        self._comparing = gate_is_on(args.feature_gates, COMPARING)
        self._spreads: Bounded[Hashable, Spread] = Bounded(_SPREADS)
        """By what makes them equal: pods with one key have these constraints and one shape."""
        self._selected_in: object = None
        self._selected: Bounded[Hashable, tuple[Mapping[str, str], list[SpreadConstraint], int]] = Bounded(_KEPT)
        """The constraints by default, by what they follow from, and how often that had changed in the namespace.

        Labels go by identity, which is why they are held.
        """
        self._owned: Bounded[tuple[PodShape, int, bool], _Owned] = Bounded(_OWNED)
        """What `_selected` has, for constraints of the pods' own."""
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
        """Errors of the arguments (ValidatePodTopologySpreadArgs)."""
        errors = gate_errors(args.feature_gates, path, COMPARING)
        if args.defaulting_type not in ("System", "List"):
            got = args.defaulting_type
            errors.append(f'{path}.defaultingType: Unsupported value: "{got}": supported values: "System", "List"')
        if args.defaulting_type == "System" and args.default_constraints:
            errors.append(f'{path}.defaultingType: Invalid value: "System": when .defaultConstraints are not empty')
        seen = set()
        for i, constraint in enumerate(args.default_constraints):
            where = f"{path}.defaultConstraints[{i}]"
            if constraint.max_skew <= 0:
                errors.append(f"{where}.maxSkew: Invalid value: {constraint.max_skew}: not in valid range (0, inf)")
            if not constraint.topology_key:
                errors.append(f"{where}.topologyKey: Required value: can not be empty")
            if constraint.when_unsatisfiable not in ("DoNotSchedule", "ScheduleAnyway"):
                errors.append(
                    f'{where}.whenUnsatisfiable: Unsupported value: "{constraint.when_unsatisfiable}": '
                    'supported values: "DoNotSchedule", "ScheduleAnyway"'
                )
            if constraint.label_selector is not None:
                errors.append(f"{where}.labelSelector: Forbidden: constraint must not define a selector")
            key = (constraint.topology_key, constraint.when_unsatisfiable)
            if key in seen:
                errors.append(f"{where}: Duplicate value: {key}")
            seen.add(key)
        return errors

    def skips(self, shape: PodShape) -> tuple[str, ...]:
        """Skip PreFilter without faults, Filter without constraints that must hold, Score without others."""
        kinds = {constraint.hard for constraint in shape.spread} or self._default_kinds
        points = ["pre_filter"] if shape.problem is None else []
        if True not in kinds:
            points.append("filter")
        if False not in kinds:
            points.append("score")
        return tuple(points)

    def idle(self, pod: Pod, cluster: Cluster) -> tuple[str, ...]:
        """Have no effect on pods without constraints, such as those that no Service or controller selects."""
        points = (("filter", True), ("score", False))
        return tuple([point for point, hard in points if not self.constraints(pod, cluster, hard=hard)])

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
        """Subtract the pods that are gone from the count of their domain. If it is the emptiest one then, it has room
        whatever the emptiest one was before.
        """
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
            here = np.concatenate((counts, _NOBODY))[codes] - gone
            itself = int(constraint.selector.matches(pod.labels))
            too_many = (here > constraint.max_skew - itself + domains.lowest(counts)) & (codes >= 0)
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
        """Return whether the pod has constraints with DoNotSchedule."""
        return bool(self.constraints(pod, cluster, hard=True))

    def affected_by(self, pod: Pod, cluster: Cluster, others: Sequence[Pod]) -> bool:
        """Return whether a constraint with DoNotSchedule counts one of `others`."""
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
                part = weighted(np.concatenate((domains.counts(pod, cluster), _NOBODY)), size, constraint)
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
        found = self._spreads.recall(key)
        if found is None or not found.holds(cluster.nodes):
            all_keys = hard or self._needs_all_keys(pod)
            found = Spread(constraints, pod, cluster, all_keys=all_keys, comparing=self._comparing)
            self._spreads.keep(key, found)
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
