"""Small changes to a pod or a cluster that may free a pod: as data, and carried out to be tried.

A change of the pod is made on a copy. A change of the cluster is made on the cluster and taken back after the question.
"""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from copy import copy
from dataclasses import replace as soften

from msgspec import Struct
from msgspec.structs import replace

from scheduler.model.affinity import Terms
from scheduler.model.node import Node
from scheduler.model.pod import Pod
from scheduler.model.quantity import show
from scheduler.model.selectors import NodeSelector, NodeSelectorTerm
from scheduler.model.shape import PodShape
from scheduler.model.taints import UNSCHEDULABLE, Toleration, tolerations_of
from scheduler.state.cluster import Cluster

HOSTNAME = "kubernetes.io/hostname"
CONDITION = "node.kubernetes.io/"
"""Prefix of the taints that the node controller sets, and takes off when the node is well."""


_BINARY = (("Ti", 40), ("Gi", 30), ("Mi", 20), ("Ki", 10))


def exact(resource: str, amount: int) -> str:
    """An amount in the largest unit that it is a whole number of."""
    if resource in ("memory", "ephemeral-storage") or resource.startswith("hugepages-"):
        for suffix, shift in _BINARY:
            if amount and amount % (1 << shift) == 0:
                return f"{amount >> shift}{suffix}"
        return str(amount)
    return show(resource, amount)


class Request(Struct, frozen=True, rename="camel", tag_field="kind", tag="request"):
    """Ask for less; amounts of the whole pod, in the scheduler's units."""

    requests: dict[str, int]
    instead_of: dict[str, int]

    def __hash__(self) -> int:
        return hash(tuple(self.requests.items()))

    def __str__(self) -> str:
        parts = [
            f"{exact(name, amount)} {name} instead of {exact(name, self.instead_of[name])}"
            for name, amount in self.requests.items()
        ]
        return f"ask for {' and '.join(parts)}"

    def edit(self, pod: Pod, shape: PodShape) -> None:
        """Lower the requests."""
        shape.requests = shape.requests | self.requests


class Tolerate(Struct, frozen=True, tag_field="kind", tag="tolerate"):
    """Tolerate one taint."""

    key: str
    value: str
    effect: str

    def __str__(self) -> str:
        return f"tolerate {self.key}{'=' + self.value if self.value else ''}:{self.effect}"

    def edit(self, pod: Pod, shape: PodShape) -> None:
        """Add the toleration."""
        added = Toleration(self.key, "Equal", self.value, self.effect)
        shape.tolerations = tolerations_of((*shape.tolerations, added))


class DropNodeSelector(Struct, frozen=True, tag_field="kind", tag="dropNodeSelector"):
    """Take one label out of spec.nodeSelector."""

    key: str
    value: str

    def __str__(self) -> str:
        return f"drop nodeSelector {self.key}={self.value}"

    def edit(self, pod: Pod, shape: PodShape) -> None:
        """Drop it."""
        shape.node_selector = tuple(r for r in shape.node_selector if r.key != self.key)


class DropRequirement(Struct, frozen=True, tag_field="kind", tag="dropNodeAffinity"):
    """Take one requirement out of a term of the required node affinity; the term's last one takes all of it along."""

    term: int
    requirement: str

    def __str__(self) -> str:
        return f"drop the required node affinity {self.requirement}"

    def edit(self, pod: Pod, shape: PodShape) -> None:
        """Drop it."""
        required = shape.required_node_affinity
        if required is None or self.term >= len(required.terms):
            return
        terms = list(required.terms)
        old = terms[self.term]
        labels = tuple(r for r in old.labels if str(r) != self.requirement)
        fields = tuple(f for f in old.fields if str(f) != self.requirement)
        if not labels and not fields:
            shape.required_node_affinity = None
            return
        only = [frozenset((f.name,)) for f in fields if f.operator == "In" and f.key == "metadata.name"]
        terms[self.term] = NodeSelectorTerm(labels, fields, None, frozenset.intersection(*only) if only else None)
        named = [term.names for term in terms if term.names is not None]
        shape.required_node_affinity = NodeSelector(
            tuple(terms), frozenset().union(*named) if len(named) == len(terms) else None
        )


class DropPodTerm(Struct, frozen=True, rename="camel", tag_field="kind", tag="dropPodTerm"):
    """Make one required pod affinity (or anti-affinity) term preferred."""

    anti: bool
    term: str
    pods: str
    topology_key: str

    def __str__(self) -> str:
        per = self.topology_key.rpartition("/")[2]
        return f"prefer, not require, to be {'apart from' if self.anti else 'near'} {self.pods} per {per}"

    def edit(self, pod: Pod, shape: PodShape) -> None:
        """Drop it; what it would be worth as a preference does not decide whether the pod fits."""
        if self.anti:
            shape.anti_affinity_terms = Terms(t for t in shape.anti_affinity_terms if str(t) != self.term)
        else:
            shape.affinity_terms = Terms(t for t in shape.affinity_terms if str(t) != self.term)


class SoftenSpread(Struct, frozen=True, rename="camel", tag_field="kind", tag="softenSpread"):
    """Turn a topology spread constraint from DoNotSchedule to ScheduleAnyway."""

    topology_key: str

    def __str__(self) -> str:
        return f"let the spread over {self.topology_key.rpartition('/')[2]} be ScheduleAnyway"

    def edit(self, pod: Pod, shape: PodShape) -> None:
        """Soften every constraint over this key."""
        shape.spread = tuple(soften(c, hard=False) if c.topology_key == self.topology_key else c for c in shape.spread)


class DropHostPort(Struct, frozen=True, tag_field="kind", tag="dropHostPort"):
    """Do without a host port."""

    ip: str
    protocol: str
    port: int

    def __str__(self) -> str:
        return f"do without host port {self.protocol} {self.port}"

    def edit(self, pod: Pod, shape: PodShape) -> None:
        """Drop it."""
        shape.host_ports = tuple(p for p in shape.host_ports if p != (self.ip, self.protocol, self.port))


class Ungate(Struct, frozen=True, tag_field="kind", tag="ungate"):
    """Remove the scheduling gates."""

    gates: list[str]

    def __hash__(self) -> int:
        return hash(tuple(self.gates))

    def __str__(self) -> str:
        return f"remove the scheduling gate{'s' if len(self.gates) > 1 else ''} {', '.join(self.gates)}"

    def edit(self, pod: Pod, shape: PodShape) -> None:
        """Remove them."""
        pod.gates = ()


class Uncordon(Struct, frozen=True, tag_field="kind", tag="uncordon"):
    """Let a cordoned node take pods again."""

    node: str

    def __str__(self) -> str:
        return f"uncordon {self.node}"

    def changed(self, node: Node) -> Node:
        """The node without the mark."""
        return replace(node, unschedulable=False, taints=tuple(t for t in node.taints if t.key != UNSCHEDULABLE.key))


class RemoveTaint(Struct, frozen=True, tag_field="kind", tag="removeTaint"):
    """Take a taint off a node."""

    node: str
    taint: str

    def __str__(self) -> str:
        if self.taint.startswith(CONDITION):
            return f"bring {self.node} back, which is {self.taint.removeprefix(CONDITION).partition(':')[0]}"
        return f"take the taint {self.taint} off {self.node}"

    def changed(self, node: Node) -> Node:
        """The node without the taint."""
        return replace(node, taints=tuple(t for t in node.taints if str(t) != self.taint))


class Label(Struct, frozen=True, tag_field="kind", tag="label"):
    """Label a node."""

    node: str
    key: str
    value: str

    def __str__(self) -> str:
        return f"label {self.node} {self.key}={self.value}"

    def changed(self, node: Node) -> Node:
        """The node with the label."""
        return replace(node, labels={**node.labels, self.key: self.value})


class MovePod(Struct, frozen=True, tag_field="kind", tag="movePod"):
    """Have a placed pod leave its node."""

    pod: str
    node: str

    def __str__(self) -> str:
        return f"move {self.pod} off {self.node}"


class AddNode(Struct, frozen=True, tag_field="kind", tag="addNode"):
    """One more node like one that is there: same labels, taints and size, empty, and well."""

    like: str

    def __str__(self) -> str:
        return f"add a node like {self.like}"

    def clone(self, node: Node) -> Node:
        """The node to add."""
        name = f"{node.name}-more"
        labels = {**node.labels, HOSTNAME: name} if HOSTNAME in node.labels else node.labels
        taints = tuple(t for t in node.taints if not t.key.startswith(CONDITION))
        return replace(node, name=name, uid="", labels=labels, taints=taints, unschedulable=False, images=())


OnPod = Request | Tolerate | DropNodeSelector | DropRequirement | DropPodTerm | SoftenSpread | DropHostPort | Ungate
OnNode = Uncordon | RemoveTaint | Label
Change = OnPod | OnNode | MovePod | AddNode


def edited(pod: Pod, changes: Sequence[Change]) -> Pod:
    """A copy of the pod with the changes that concern it."""
    edits = [change for change in changes if isinstance(change, OnPod)]
    if not edits:
        return pod
    pod = copy(pod)
    pod.shape = copy(pod.shape)
    for change in edits:
        change.edit(pod, pod.shape)
    return pod


@contextmanager
def applied(cluster: Cluster, changes: Sequence[Change]) -> Iterator[None]:
    """The cluster with the changes that concern it, as long as the block lasts."""
    with ExitStack() as stack:
        for change in changes:
            match change:
                case Uncordon() | RemoveTaint() | Label():
                    stack.enter_context(_node_changed(cluster, change))
                case MovePod():
                    stack.enter_context(_pod_away(cluster, change))
                case AddNode():
                    stack.enter_context(_node_added(cluster, change))
        yield


@contextmanager
def _node_changed(cluster: Cluster, change: OnNode) -> Iterator[None]:
    row = cluster.nodes.live_row(change.node)
    node = None if row is None else cluster.nodes.objects[row]
    if node is None:
        yield
        return
    cluster.put_node(change.changed(node))
    try:
        yield
    finally:
        cluster.put_node(node)


@contextmanager
def _pod_away(cluster: Cluster, change: MovePod) -> Iterator[None]:
    row = cluster.nodes.row_of(change.node)
    pod = next((p for p in ([] if row is None else cluster.pods_on(row)) if p.key == change.pod), None)
    if row is None or pod is None:
        yield
        return
    placement = cluster.drop_pod(pod.uid)
    try:
        yield
    finally:
        if placement is not None and placement.assumed:
            cluster.assume(pod, row)
        else:
            cluster.put_pod(pod)


@contextmanager
def _node_added(cluster: Cluster, change: AddNode) -> Iterator[None]:
    row = cluster.nodes.live_row(change.like)
    node = None if row is None else cluster.nodes.objects[row]
    clone = None if node is None else change.clone(node)
    if clone is None or cluster.nodes.row_of(clone.name) is not None:
        yield
        return
    cluster.put_node(clone)
    try:
        yield
    finally:
        cluster.drop_node(clone.name)
