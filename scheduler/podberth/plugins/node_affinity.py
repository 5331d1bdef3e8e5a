"""Upstream: plugins/nodeaffinity and component-helpers scheduling/corev1/nodeaffinity."""

from collections.abc import Hashable, Iterable
from typing import Any

import numpy as np
from msgspec import Struct

from podberth.cache.cluster import Cluster
from podberth.cache.column import Bools, Column, Ints, at
from podberth.cache.nodes import Nodes
from podberth.framework.events import ClusterEvent
from podberth.framework.interface import MAXIMUM, NODE, Plugin
from podberth.framework.status import Narrow, PluginError, Reject, Rejections, Unresolvable
from podberth.model import wire
from podberth.model.node import Node
from podberth.model.pod import Pod
from podberth.model.selectors import (
    FieldRequirement,
    NodeSelector,
    NodeSelectorTerm,
    Requirement,
    SelectorError,
    parse_node_selector,
    parse_node_selector_term,
)
from podberth.model.shape import PodShape, parse_preferred_node_terms


class NodeAffinityArgs(Struct, forbid_unknown_fields=True, rename="camel", frozen=True):
    """`addedAffinity` applies to every pod of the profile, besides the pod's own."""

    added_affinity: wire.NodeAffinity | None = None
    """A NodeAffinity for all pods of the profile, besides their own."""


class NodeAffinity(Plugin):
    """Match a pod's nodeSelector and node affinity, and the profile's added affinity, against node labels."""

    name = "NodeAffinity"
    depends_on = NODE
    normalize = MAXIMUM
    Args = NodeAffinityArgs
    events = ClusterEvent.NODE_ADDED | ClusterEvent.NODE_LABELS
    mismatch = Unresolvable("node(s) didn't match Pod's node affinity/selector")
    enforced = Unresolvable("node(s) didn't match scheduler-enforced node affinity")
    conflict = Unresolvable("pod affinity terms conflict")

    def __init__(self, args: NodeAffinityArgs) -> None:
        self.added: NodeSelector | None = None
        self._added_preferences: tuple[tuple[int, NodeSelectorTerm], ...] = ()
        self._prefers = False
        added = args.added_affinity
        if added is None:
            return
        if added.required is not None:
            where = "addedAffinity.requiredDuringSchedulingIgnoredDuringExecution"
            for i, term in enumerate(added.required.node_selector_terms or ()):
                error = parse_node_selector_term(term, f"{where}.nodeSelectorTerms[{i}]").error
                if error is not None:
                    raise SelectorError(error)
            self.added = parse_node_selector(added.required, where)
        preferred, error = parse_preferred_node_terms(
            added.preferred or [], "addedAffinity.preferredDuringSchedulingIgnoredDuringExecution"
        )
        if error is not None:
            raise SelectorError(error)
        self._added_preferences = preferred
        self._prefers = bool(added.preferred)

    def pre_filter(self, pod: Pod, cluster: Cluster) -> Reject | Narrow | None:
        """Narrow to the nodes that every term names by metadata.name; terms that contradict reject the pod."""
        required = pod.shape.required_node_affinity
        if required is None or required.names is None:
            return None
        return Narrow(required.names) if required.names else Reject(self.conflict)

    def signature(self, shape: PodShape) -> Hashable:
        """The nodeSelector and node affinity."""
        return (
            shape.node_selector,
            shape.required_node_affinity,
            shape.preferred_node_terms,
            shape.has_preferred_node_affinity,
            shape.preferred_error,
        )

    def filter(self, pod: Pod, cluster: Cluster) -> Rejections:
        """Reject nodes outside the added affinity, then those outside the pod's own."""
        nodes = cluster.nodes
        found = []
        enforced = None
        if self.added is not None:
            enforced = ~matches(self.added, nodes)
            found.append((self.enforced, enforced))
        fits = wanted_nodes(pod, nodes)
        if fits is not None:
            found.append((self.mismatch, ~fits if enforced is None else ~(fits | enforced)))
        return found

    def score(self, pod: Pod, cluster: Cluster, feasible: Any) -> Ints | None:
        """Sum the weights of the preferred terms that a node matches."""
        shape = pod.shape
        if shape.preferred_error is not None:
            raise PluginError(self.name, shape.preferred_error, "PreScore")
        terms = shape.preferred_node_terms
        if self._added_preferences:
            terms = self._added_preferences + terms
        if not self._prefers and not shape.has_preferred_node_affinity:
            return None
        total = np.zeros(len(feasible), dtype=np.int64)
        for weight, term in terms:
            total += weight * at(_matches_term(term, cluster.nodes), feasible)
        return total

    def node_hint(self, pod: Pod, old: Node | None, new: Node) -> bool:
        """A node that matches now and did not before. Upstream overlooks one that now matches the added affinity."""
        return self._takes(pod, new) and (old is None or not self._takes(pod, old))

    def _takes(self, pod: Pod, node: Node) -> bool:
        """Return whether one node matches the added affinity and the pod's own."""
        return (self.added is None or node_matches(self.added, node)) and pod_matches(pod, node)


def wanted_nodes(pod: Pod, nodes: Nodes) -> Bools | None:
    """bool[rows] of the nodes that a pod's nodeSelector and required node affinity match; None: it has neither."""
    required = pod.shape.required_node_affinity
    if not pod.shape.node_selector and required is None:
        return None
    if required is None:
        return matches_all(pod.shape.node_selector, nodes)
    fits = matches(required, nodes)
    return fits & matches_all(pod.shape.node_selector, nodes) if pod.shape.node_selector else fits


def pod_matches(pod: Pod, node: Node) -> bool:
    """Return whether one node meets a pod's nodeSelector and required node affinity."""
    required = pod.shape.required_node_affinity
    return all(r.accepts(node.labels.get(r.key)) for r in pod.shape.node_selector) and (
        required is None or node_matches(required, node)
    )


def node_matches(selector: NodeSelector, node: Node) -> bool:
    """Return whether one node matches any term of a selector."""
    return any(
        all(r.accepts(node.labels.get(r.key)) for r in term.labels) and all(f.accepts(node.name) for f in term.fields)
        for term in selector.terms
    )


def matches(selector: NodeSelector, nodes: Nodes, *, by_name: bool = True) -> Bools:
    """bool[rows] of the nodes that match any term. Not `by_name`: whatever a term says of names is passed over."""
    matched = np.zeros(nodes.rows, dtype=np.bool_)
    for term in selector.terms:
        matched |= _matches_term(term, nodes, by_name=by_name)
    return matched


def _matches_term(term: NodeSelectorTerm, nodes: Nodes, *, by_name: bool = True) -> Bools:
    matched = matches_all(term.labels, nodes)
    return matched & _named(term.fields, nodes) if term.fields and by_name else matched


def _named(requirements: Iterable[FieldRequirement], nodes: Nodes) -> Bools:
    """bool[rows] of the nodes that requirements of fields allow. Fields other than the name read as empty."""
    matched = np.ones(nodes.rows, dtype=np.bool_)
    for requirement in requirements:
        if not requirement.names_node:
            matched &= requirement.accepts("")
            continue
        row = nodes.live_row(requirement.name)
        here = np.full(nodes.rows, requirement.operator != "In")
        if row is not None:
            here[row] = not here[row]
        matched &= here
    return matched


def matches_all(requirements: Iterable[Requirement], nodes: Nodes) -> Bools:
    """bool[rows] of the nodes whose labels meet every requirement."""
    matched = np.ones(nodes.rows, dtype=np.bool_)
    for requirement in requirements:
        column = nodes.topology(requirement.key)
        if column is None:
            if not requirement.accepts(None):
                return np.zeros(nodes.rows, dtype=np.bool_)
        else:
            matched &= _accepted(column, requirement).take(column.codes[: nodes.rows])
    return matched


def _accepted(column: Column[str], requirement: Requirement) -> Bools:
    """bool by code: which values of a label meet a requirement, the last for nodes that do not have it."""
    operator = requirement.operator
    accepted: Bools = np.full(len(column.values) + 1, operator in ("NotIn", "Exists"))
    match operator:
        case "In" | "NotIn":
            accepted[column.codes_of(requirement.values)] = operator == "In"
        case "Exists" | "DoesNotExist":
            accepted[-1] = operator == "DoesNotExist"
        case _:
            numbers, are = column.numbers()
            accepted[:-1] = are & (numbers > requirement.number if operator == "Gt" else numbers < requirement.number)
    return accepted
