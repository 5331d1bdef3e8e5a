"""The numbers behind a rejection, a small function for each plugin. To add one: write it and put it in `NUMBERS`.

A plugin without one (a third party's) is explained by its reason's own text.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from scheduler.framework.status import Reason
from scheduler.model.node import Node
from scheduler.model.pod import Pod
from scheduler.model.quantity import show
from scheduler.model.selectors import FieldRequirement, NodeSelector, Requirement
from scheduler.model.shape import ANY_IP, HostPort
from scheduler.model.taints import HARD, Taint, tolerates
from scheduler.whatif.changes import exact
from scheduler.whatif.domains import inter_pod_affinity, pod_topology_spread
from scheduler.whatif.question import Detail, Question, said

Numbers = Callable[[Question, int, Reason, Any], Detail]
"""(question, row, reason, plugin) → detail."""


@dataclass(frozen=True, slots=True)
class Shortage:
    """One resource of one node against what a pod needs of it."""

    resource: str
    needed: int
    allocatable: int
    requested: int

    @property
    def free(self) -> int:
        """What is left; negative when the node is overcommitted."""
        return self.allocatable - self.requested


def shortage(question: Question, row: int, reason: Reason) -> Shortage | None:
    """The numbers of an `Insufficient RESOURCE`; None for another reason."""
    resource = reason.text.removeprefix("Insufficient ")
    needed = question.pod.shape.requests.get(resource)
    if resource == reason.text or needed is None:
        return None
    nodes = question.cluster.nodes
    index = nodes.resources.get(resource)
    if index is None:
        return Shortage(resource, needed, 0, 0)
    return Shortage(resource, needed, int(nodes.allocatable[index, row]), int(nodes.requested[index, row]))


def node_resources_fit(question: Question, row: int, reason: Reason, plugin: Any) -> Detail:
    """What the pod needs, what is free, of how much."""
    nodes = question.cluster.nodes
    short = shortage(question, row, reason)
    if short is None:
        pods, allowed = int(nodes.pods[row]), int(nodes.allowed_pods[row])
        return f"{pods} of {allowed} pods", {"resource": "pods", "requested": pods, "allocatable": allowed}
    resource, needed = short.resource, show(short.resource, short.needed)
    numbers = {
        "resource": resource,
        "needed": short.needed,
        "free": short.free,
        "allocatable": short.allocatable,
        "requested": short.requested,
    }
    if short.allocatable == 0:
        return f"needs {needed} {resource}, the node has none", numbers
    whole, taken = show(resource, short.allocatable), show(resource, short.requested)
    if show(resource, short.free) == needed or whole == needed:
        needed, whole, taken = (exact(resource, a) for a in (short.needed, short.allocatable, short.requested))
        left = exact(resource, short.free) if short.free > 0 else "none"
    else:
        left = show(resource, short.free) if short.free > 0 else "none"
    if short.needed > short.allocatable:
        return f"needs {needed} {resource}, the whole node has {whole} ({taken} requested)", numbers
    return f"needs {needed} {resource}, {left} free of {whole} ({taken} requested)", numbers


def untolerated(question: Question, row: int) -> list[Taint]:
    """Every hard taint of a node that the pod does not tolerate."""
    tolerations = question.pod.shape.tolerations
    return [t for t in question.node(row).taints if t.effect in HARD and not tolerates(tolerations, t)]


def taint_toleration(question: Question, row: int, reason: Reason, plugin: Any) -> Detail:
    """The taints that are not tolerated, and a toleration that nearly would."""
    taints = untolerated(question, row)
    text = f"untolerated {', '.join(map(str, taints))}"
    keys = {taint.key for taint in taints}
    near = [t for t in question.pod.shape.tolerations if t.key in keys]
    if near:
        value = f"={near[0].value}" if near[0].value else ""
        text += f" (the pod tolerates {near[0].key}{value}{':' + near[0].effect if near[0].effect else ''})"
    return text, {"taints": [str(taint) for taint in taints]}


def node_unschedulable(question: Question, row: int, reason: Reason, plugin: Any) -> Detail:
    """The mark that `kubectl cordon` sets."""
    return "cordoned", {}


def node_name(question: Question, row: int, reason: Reason, plugin: Any) -> Detail:
    """The name that the pod's spec asks for."""
    wanted = question.pod.node_name
    return f"the pod's spec.nodeName is {wanted}", {"nodeName": wanted}


@dataclass(frozen=True, slots=True)
class Misses:
    """What of a pod's node selection one node does not meet, by its nearest term."""

    selector: tuple[Requirement, ...]
    term: int
    labels: tuple[Requirement, ...]
    fields: tuple[FieldRequirement, ...]
    terms: int


def misses(selector: tuple[Requirement, ...], required: NodeSelector | None, node: Node) -> Misses:
    """The requirements that a node does not meet, of the nodeSelector and of the term it comes nearest to."""
    own = tuple(r for r in selector if not r.accepts(node.labels.get(r.key)))
    if required is None:
        return Misses(own, 0, (), (), 0)
    found = [
        Misses(
            own,
            i,
            tuple(r for r in term.labels if not r.accepts(node.labels.get(r.key))),
            tuple(f for f in term.fields if not f.accepts(node.name)),
            len(required.terms),
        )
        for i, term in enumerate(required.terms)
    ]
    return min(found, key=lambda m: len(m.labels) + len(m.fields), default=Misses(own, 0, (), (), 0))


def node_affinity(question: Question, row: int, reason: Reason, plugin: Any) -> Detail:
    """The requirements that failed, and what the node has instead."""
    node, shape = question.node(row), question.pod.shape
    enforced = reason == getattr(plugin, "enforced", None)
    required = getattr(plugin, "_added", None) if enforced else shape.required_node_affinity
    missed = misses(() if enforced else shape.node_selector, required, node)
    parts, failed = [], []
    for r in (*missed.selector, *missed.labels):
        has = node.labels.get(r.key)
        parts.append(f"{said(r)}: node has {'no such label' if has is None else has or 'an empty value'}")
        failed.append({"requirement": str(r), "key": r.key, "has": has})
    for f in missed.fields:
        parts.append(str(f))
        failed.append({"requirement": str(f), "key": f.key, "has": node.name})
    numbers = {"failed": failed, "terms": missed.terms}
    if not parts:
        return "no term of the required node affinity can match a node", numbers
    text = "; ".join(parts)
    if missed.terms > 1 and (missed.labels or missed.fields):
        text = f"none of {missed.terms} terms, nearest: {text}"
    return f"by the profile's addedAffinity: {text}" if enforced else text, numbers


def required_during_execution(question: Question, row: int, reason: Reason, plugin: Any) -> Detail:
    """What of the pod's promise the node does not meet."""
    node, wanted = question.node(row), plugin.wanted(question.pod)
    if wanted is None:
        return reason.text, {}
    failed = wanted.broken(node.name, node.labels)
    parts = [f"{r}: node has {node.labels.get(r.key, 'no such label') or 'an empty value'}" for r in failed]
    return "; ".join(parts), {"failed": [{"requirement": str(r), "has": node.labels.get(r.key)} for r in failed]}


def holders(question: Question, row: int) -> list[tuple[HostPort, Pod]]:
    """The pod's host ports that are taken on a node, and by whom."""
    wanted = question.pod.shape.host_ports
    return [
        (mine, other)
        for other in question.cluster.pods_on(row)
        if other.shape.host_ports
        for mine in wanted
        if any(_same_port(mine, theirs) for theirs in other.shape.host_ports)
    ]


def _same_port(one: HostPort, other: HostPort) -> bool:
    return one[1:] == other[1:] and (one[0] == other[0] or ANY_IP in (one[0], other[0]))


def node_ports(question: Question, row: int, reason: Reason, plugin: Any) -> Detail:
    """Each port that is taken, and the pod that has it."""
    taken = holders(question, row)
    text = ", ".join(f"{protocol} {port} is taken by {pod.key}" for (_, protocol, port), pod in taken)
    ports = [{"ip": ip, "protocol": protocol, "port": port, "pod": pod.key} for (ip, protocol, port), pod in taken]
    return text or reason.text, {"ports": ports}


def service_affinity(question: Question, row: int, reason: Reason, plugin: Any) -> Detail:
    """The labels that differ, with what the pod's Service (or its nodeSelector) has and what the node has."""
    labels = question.node(row).labels
    wanted = plugin.wanted(question.pod, question.cluster)
    differ = {label: value for label, value in wanted.items() if labels.get(label) != value}
    parts = [f"{label}={value}: node has {labels.get(label) or 'no such label'}" for label, value in differ.items()]
    return "; ".join(parts), {"wanted": wanted, "has": {label: labels.get(label) for label in wanted}}


NUMBERS: dict[str, Numbers] = {
    "NodeResourcesFit": node_resources_fit,
    "TaintToleration": taint_toleration,
    "NodeUnschedulable": node_unschedulable,
    "NodeName": node_name,
    "NodeAffinity": node_affinity,
    "RequiredDuringExecution": required_during_execution,
    "NodePorts": node_ports,
    "InterPodAffinity": inter_pod_affinity,
    "PodTopologySpread": pod_topology_spread,
    "ServiceAffinity": service_affinity,
}


def detail(question: Question, row: int, name: str, reason: Reason, plugin: Any) -> Detail:
    """The numbers of one reason, its own text where its plugin has none here."""
    find = NUMBERS.get(name)
    if find is None:
        return reason.text, {}
    text, numbers = find(question, row, reason, plugin)
    return text or reason.text, numbers
