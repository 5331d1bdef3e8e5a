"""Upstream until 1.22: plugins/serviceaffinity.

A node label that `affinityLabels` names must have one value for all pods of a Service: what the pod's nodeSelector says
of it (A ∩ B), else what the node says that holds the Service's pods already (B ∩ C).
"""

from collections.abc import Iterable

import numpy as np
from msgspec import field

from podberth.cache.cluster import Cluster
from podberth.framework.events import ClusterEvent
from podberth.framework.interface import NODE, PODS_ELSEWHERE
from podberth.framework.status import Rejections, Unschedulable
from podberth.model.node import Node
from podberth.model.pod import Pod
from podberth.model.selectors import LabelSelector, Requirement
from podberth.plugins.service_anti_affinity import (
    ServiceAntiAffinity,
    ServiceAntiAffinityArgs,
    label_errors,
    services_of,
)


class ServiceAffinityArgs(ServiceAntiAffinityArgs, frozen=True):
    """`affinityLabels`: node labels that must agree for all pods of a Service. The preference is optional here."""

    affinity_labels: list[str] = field(default_factory=list)
    """Node labels whose values agree for all pods of a Service."""

    def errors(self, path: str) -> list[str]:
        """Return what is wrong with the labels."""
        return label_errors(self.affinity_labels, f"{path}.affinityLabels") + super().errors(path)


class ServiceAffinity(ServiceAntiAffinity):
    """Keep the pods of a Service together by node labels; also scores as ServiceAntiAffinity does, as upstream did."""

    name = "ServiceAffinity"
    depends_on = NODE | PODS_ELSEWHERE
    Args = ServiceAffinityArgs
    events = (
        ClusterEvent.NODE_ADDED
        | ClusterEvent.NODE_LABELS
        | ClusterEvent.NODE_GONE
        | ClusterEvent.POD_PLACED
        | ClusterEvent.POD_LABELS
        | ClusterEvent.POD_GONE
        | ClusterEvent.OWN_LABELS
        | ClusterEvent.SELECTING
    )
    elsewhere = Unschedulable("node(s) didn't match service affinity")

    def __init__(self, args: ServiceAffinityArgs) -> None:
        super().__init__(args)
        self._labels = args.affinity_labels

    def wanted(self, pod: Pod, cluster: Cluster) -> dict[str, str]:
        """The labels that a node must have for a pod: (A ∩ B) + (B ∩ C)."""
        asked, missing = self._asked_for(pod), self._missing(pod)
        return asked | _home(missing, pod, cluster) if missing and services_of(pod, cluster) else asked

    def filter(self, pod: Pod, cluster: Cluster) -> Rejections:
        """Reject nodes that differ in a label from what the pod or its Service asks for."""
        wanted = self.wanted(pod, cluster)
        if not wanted:
            return ()
        nodes = cluster.nodes
        matching = np.ones(nodes.rows, dtype=np.bool_)
        for label, value in wanted.items():
            matching &= nodes.label(label).holds(nodes.rows, value)
        return ((self.elsewhere, ~matching),)

    def looks_elsewhere(self, pod: Pod, cluster: Cluster, others: Iterable[Pod]) -> bool:
        """Return whether some affinity label gets its value from the nodes of the Service's pods."""
        return bool(self._missing(pod) and services_of(pod, cluster))

    def node_hint(self, pod: Pod, old: Node | None, new: Node) -> bool:
        """A node that joined, or whose affinity labels changed: it may be a node to take or one to go by."""
        return old is None or any(old.labels.get(label) != new.labels.get(label) for label in self._labels)

    def pod_hint(self, pod: Pod, event: ClusterEvent, other: Pod) -> bool:
        """A pod like this one came or went, or one of the namespace may have stopped to be like it."""
        if other.namespace != pod.namespace:
            return False
        return bool(event & ClusterEvent.POD_LABELS) or _alike(pod).matches(other.labels)

    def _asked_for(self, pod: Pod) -> dict[str, str]:
        """A ∩ B: affinity labels that the pod's nodeSelector names."""
        asked = {requirement.key: next(iter(requirement.values)) for requirement in pod.shape.node_selector}
        return {label: asked[label] for label in self._labels if label in asked}

    def _missing(self, pod: Pod) -> list[str]:
        asked = self._asked_for(pod)
        return [label for label in self._labels if label not in asked]


def _alike(pod: Pod) -> LabelSelector:
    """Pods that have all labels of this one: how upstream finds the pods of its Services."""
    return LabelSelector(tuple(Requirement(key, "In", frozenset((pod.labels[key],))) for key in sorted(pod.labels)))


def _home(labels: list[str], pod: Pod, cluster: Cluster) -> dict[str, str]:
    """B ∩ C: values of `labels` on a node that holds pods like this one; labels that it lacks are left open.

    Upstream takes the node of whichever pod its list begins with. Here it is one with the label values that most of
    the pods have, the smallest values where several do, so that the answer does not depend on the order of events.
    """
    nodes = cluster.nodes
    counts = cluster.affinity.on_rows(pod.namespace, _alike(pod), leaving=True).by_row(nodes.rows)
    held = np.flatnonzero((counts > 0) & nodes.alive[: nodes.rows])
    if not len(held):
        return {}
    columns = [nodes.label(label) for label in labels]
    kind = np.zeros(len(held), dtype=np.int64)
    for column in columns:
        # Rows alike in the labels so far and in this one get one number; the first of each stands for its kind.
        pairs = kind * (len(column.values) + 1) + column.codes[held]
        _, first, kind = np.unique(pairs, return_index=True, return_inverse=True)
    pods = np.bincount(kind, weights=counts[held])
    chosen = min(
        ([column.get(row) for column in columns] for row in held[first[pods == pods.max()]].tolist()),
        key=lambda values: [(value is None, value or "") for value in values],
    )
    return {label: value for label, value in zip(labels, chosen, strict=True) if value is not None}
