"""What would make one node acceptable to one plugin: a small function for each plugin, in `FIXES`.

Each gives alternatives, every one a tuple of changes that together should do. Whether they do is for
`scheduler.whatif.remedies` to find out. Plugins without a function here have no remedy.
"""

from collections.abc import Callable

from scheduler.framework.status import Reason
from scheduler.model.affinity import AffinityTerm
from scheduler.model.pod import Pod
from scheduler.model.taints import UNSCHEDULABLE
from scheduler.whatif.changes import (
    CONDITION,
    AddNode,
    Change,
    DropHostPort,
    DropNodeSelector,
    DropPodTerm,
    DropRequirement,
    Label,
    MovePod,
    RemoveTaint,
    Request,
    SoftenSpread,
    Tolerate,
    Uncordon,
    Ungate,
)
from scheduler.whatif.domains import carriers, selected, uneven
from scheduler.whatif.numbers import Shortage, holders, misses, shortage, untolerated
from scheduler.whatif.question import Question, pods_with

Fix = tuple[Change, ...]
Fixes = Callable[[Question, int, list[Reason]], list[Fix]]
"""(question, row, the plugin's reasons against that row) → alternatives."""

_LEAST = 0.1
"""A pod is not advised to ask for less than this share of what it asks for."""
_MEBI = 1 << 20
_FIXED_LABELS = ("kubernetes.io/", "topology.kubernetes.io/", "node.kubernetes.io/", "beta.kubernetes.io/")
_COSTS: dict[type, float] = {
    Ungate: 0.0,
    Uncordon: 1.0,
    Tolerate: 1.0,
    Request: 1.0,
    DropNodeSelector: 1.5,
    DropRequirement: 1.5,
    Label: 2.0,
    DropHostPort: 2.0,
    DropPodTerm: 2.0,
    SoftenSpread: 2.0,
    RemoveTaint: 2.0,
    MovePod: 2.0,
    AddNode: 3.0,
}


def costs(question: Question, change: Change) -> float:
    """How much a change asks of people: one that gives up more of what was wanted comes later."""
    price = _COSTS[type(change)]
    if isinstance(change, Request):
        price += max(1 - amount / change.instead_of[name] for name, amount in change.requests.items())
    if isinstance(change, MovePod):
        row = question.cluster.nodes.row_of(change.node)
        pods = [] if row is None else question.cluster.pods_on(row)
        moved = next((pod for pod in pods if pod.key == change.pod), None)
        if moved is not None and moved.priority > question.pod.priority:
            price += 1
    return price


def node_resources_fit(question: Question, row: int, reasons: list[Reason]) -> list[Fix]:
    """Ask for what is free, or have the smallest pod leave that makes enough room."""
    short = [s for s in (shortage(question, row, reason) for reason in reasons) if s is not None]
    full = len(short) < len(reasons)
    found: list[Fix] = []
    if short and not full:
        wanted = {s.resource: _round(s) for s in short}
        if all(wanted[s.resource] >= _LEAST * s.needed and wanted[s.resource] > 0 for s in short):
            found.append((Request(wanted, {s.resource: s.needed for s in short}),))
    node = question.node(row).name
    leaving = [
        pod
        for pod in question.cluster.pods_on(row)
        if all(s.free + pod.shape.requests.get(s.resource, 0) >= s.needed for s in short)
    ]
    if leaving and all(s.needed <= s.allocatable for s in short):
        found.append((MovePod(min(leaving, key=_weight).key, node),))
    return found


def _round(short: Shortage) -> int:
    """What is free, in whole mebibytes where that is how people write it."""
    in_bytes = short.resource in ("memory", "ephemeral-storage")
    return short.free - short.free % _MEBI if in_bytes and short.free >= _MEBI else short.free


def _weight(pod: Pod) -> tuple[int, int, int, str]:
    """The less a pod matters and asks for, the sooner it is the one to move."""
    return pod.priority, pod.shape.requests.get("cpu", 0), pod.shape.requests.get("memory", 0), pod.key


def taint_toleration(question: Question, row: int, reasons: list[Reason]) -> list[Fix]:
    """Tolerate what people put there, and undo what the node controller did."""
    node = question.node(row)
    changes: list[Change] = []
    for taint in untolerated(question, row):
        if taint.key == UNSCHEDULABLE.key:
            changes.append(Uncordon(node.name))
        elif taint.key.startswith(CONDITION):
            changes.append(RemoveTaint(node.name, str(taint)))
        else:
            changes.append(Tolerate(taint.key, taint.value, taint.effect))
    return [tuple(changes)]


def node_unschedulable(question: Question, row: int, reasons: list[Reason]) -> list[Fix]:
    """Uncordon the node."""
    return [(Uncordon(question.node(row).name),)]


def node_affinity(question: Question, row: int, reasons: list[Reason]) -> list[Fix]:
    """Drop what the node does not meet, or label the node so that it does."""
    node, shape = question.node(row), question.pod.shape
    missed = misses(shape.node_selector, shape.required_node_affinity, node)
    drop: list[Change] = [DropNodeSelector(r.key, next(iter(r.values))) for r in missed.selector]
    drop += [DropRequirement(missed.term, str(each)) for each in (*missed.labels, *missed.fields)]
    found: list[Fix] = [tuple(drop)] if drop else []
    wanted = (*missed.selector, *missed.labels)
    if wanted and not missed.fields:
        labels = [
            Label(node.name, r.key, min(r.values))
            for r in wanted
            if r.operator == "In" and r.values and not r.key.startswith(_FIXED_LABELS)
        ]
        if len(labels) == len(wanted):
            found.append(tuple(labels))
    return found


def node_ports(question: Question, row: int, reasons: list[Reason]) -> list[Fix]:
    """Do without the ports, or have the pods that hold them leave."""
    taken = holders(question, row)
    node = question.node(row).name
    ports = tuple(dict.fromkeys(DropHostPort(*port) for port, _ in taken))
    pods = tuple(dict.fromkeys(MovePod(pod.key, node) for _, pod in taken))
    return [found for found in (ports, pods) if found]


def inter_pod_affinity(question: Question, row: int, reasons: list[Reason]) -> list[Fix]:
    """Turn the terms that fail here into preferences, or have the pod in the way leave."""
    node, shape = question.node(row), question.pod.shape
    labels = node.labels
    near = [t for t in shape.affinity_terms if not selected(question, t).get(labels.get(t.topology_key, ""))]
    crowded = [t for t in shape.anti_affinity_terms if selected(question, t).get(labels.get(t.topology_key, ""))]
    in_the_way = [selected(question, t)[labels[t.topology_key]] for t in crowded]
    terms: list[Change] = [_drop(t, anti=False) for t in near]
    terms += [_drop(t, anti=True) for t in crowded]
    repelling = question.cluster.incidence.repelling(question.pod)
    against = [carriers(question, t).get(labels.get(t.topology_key, ""), []) for t in repelling]
    repellers = sorted({key for keys in against for key in keys})
    moves = _moves(question, repellers)
    found: list[Fix] = []
    if (terms or moves) and len(moves) == len(repellers):
        found.append((*terms, *moves))
    crowd = sorted({key for keys in in_the_way for key in keys} | set(repellers))
    if crowded and not near and len(crowd) == 1:
        found.append(tuple(_moves(question, crowd)))
    return [fix for fix in found if fix]


def _drop(term: AffinityTerm, *, anti: bool) -> Change:
    return DropPodTerm(anti, str(term), pods_with(term.selector), term.topology_key)


def pod_topology_spread(question: Question, row: int, reasons: list[Reason]) -> list[Fix]:
    """Turn the constraints that fail here into preferences."""
    keys = dict.fromkeys(c.topology_key for c in uneven(question, question.node(row)))
    return [tuple(map(SoftenSpread, keys))] if keys else []


def _moves(question: Question, keys: list[str]) -> list[Change]:
    """Moves of these pods; none when they are too many to ask for."""
    if len(keys) > 2:
        return []

    def find() -> dict[str, str]:
        names = question.cluster.nodes.names
        return {placement.pod.key: names[placement.row] or "" for placement in question.cluster.placements()}

    where: dict[str, str] = question.once("where", find)
    return [MovePod(key, where[key]) for key in keys]


FIXES: dict[str, Fixes] = {
    "NodeResourcesFit": node_resources_fit,
    "TaintToleration": taint_toleration,
    "NodeUnschedulable": node_unschedulable,
    "NodeAffinity": node_affinity,
    "NodePorts": node_ports,
    "InterPodAffinity": inter_pod_affinity,
    "PodTopologySpread": pod_topology_spread,
}
