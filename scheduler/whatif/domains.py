"""The numbers behind rejections that depend on where other pods are: InterPodAffinity and PodTopologySpread."""

from collections.abc import Callable, Iterable
from typing import Any

from scheduler.framework.status import Reason
from scheduler.model.affinity import AffinityTerm
from scheduler.model.node import Node
from scheduler.model.pod import Pod
from scheduler.model.spread import SpreadConstraint
from scheduler.model.taints import untolerated
from scheduler.plugins.node_affinity import pod_matches
from scheduler.whatif.question import Detail, Question, domain, pods_with

_FEW = 3

Domains = dict[str, list[str]]
"""Value of a topology key → keys of the pods there."""


def selected(question: Question, term: AffinityTerm) -> Domains:
    """Where the pods are that a term of the incoming pod selects."""
    selects = question.cluster.incidence.selects
    return _domains(question, term, "selected", lambda pod: selects(term, pod))


def carriers(question: Question, term: AffinityTerm) -> Domains:
    """Where the pods are that carry a required anti-affinity term."""
    return _domains(question, term, "carriers", lambda pod: term in pod.shape.anti_affinity_terms)


def _domains(question: Question, term: AffinityTerm, kind: str, counts: Callable[[Pod], bool]) -> Domains:
    def find() -> Domains:
        found: Domains = {}
        nodes = question.cluster.nodes
        for placement in question.cluster.placements():
            node = nodes.objects[placement.row]
            value = None if node is None else node.labels.get(term.topology_key)
            if value is not None and counts(placement.pod):
                found.setdefault(value, []).append(placement.pod.key)
        return found

    found: Domains = question.once((kind, term), find)
    return found


def inter_pod_affinity(question: Question, row: int, reason: Reason, plugin: Any) -> Detail:
    """The terms that fail in the node's domain: how many pods are there, which, and where else."""
    node, shape = question.node(row), question.pod.shape
    if reason == getattr(plugin, "not_near", None):
        return _not_near(question, node, shape.affinity_terms)
    if reason == getattr(plugin, "not_apart", None):
        near = [(term, selected(question, term)) for term in shape.anti_affinity_terms]
        return _crowded(node, near, "{pods}: wants no {what} there")
    terms = question.cluster.incidence.repelling(question.pod)
    found = [(term, carriers(question, term)) for term in sorted(terms, key=str)]
    return _crowded(node, found, "{pods}: keeps away {what}")


def _not_near(question: Question, node: Node, terms: tuple[AffinityTerm, ...]) -> Detail:
    parts, data = [], []
    for term in terms:
        key, value = term.topology_key, node.labels.get(term.topology_key)
        domains = selected(question, term)
        here = len(domains.get(value, ())) if value is not None else 0
        data.append({"term": str(term), "topologyKey": key, "domain": value, "pods": here})
        if value is None:
            parts.append(f"node has no label {key}")
        elif not here:
            parts.append(f"0 {pods_with(term.selector)} in {domain(key, value)}{_elsewhere(domains)}")
    if not parts:
        parts.append("no pod here meets all of the required terms at once")
    return "; ".join(parts), {"terms": data}


def _elsewhere(domains: Domains) -> str:
    if not domains:
        return ", nor anywhere else"
    most = sorted(domains.items(), key=lambda item: (-len(item[1]), item[0]))
    more = ", …" if len(most) > _FEW else ""
    return f" (there {'is' if sum(map(len, domains.values())) == 1 else 'are'} {_counts(most[:_FEW])}{more})"


def _counts(domains: Iterable[tuple[str, list[str]]]) -> str:
    return ", ".join(f"{len(pods)} in {value}" for value, pods in domains)


def _crowded(node: Node, terms: list[tuple[AffinityTerm, Domains]], say: str) -> Detail:
    """Domains that hold pods which must not be there."""
    parts, data = [], []
    for term, domains in terms:
        value = node.labels.get(term.topology_key)
        here = [] if value is None else domains.get(value, [])
        if not here:
            continue
        names = ", ".join(here[:_FEW]) + (f" and {len(here) - _FEW} more" if len(here) > _FEW else "")
        verb = "is" if len(here) == 1 else "are"
        key = term.topology_key
        parts.append(say.format(pods=f"{names} {verb} in {domain(key, value or '')}", what=pods_with(term.selector)))
        data.append({"term": str(term), "topologyKey": key, "domain": value, "pods": len(here), "names": here[:_FEW]})
    return "; ".join(parts), {"terms": data}


def pod_topology_spread(question: Question, row: int, reason: Reason, plugin: Any) -> Detail:
    """How many matching pods the node's domain has, against the emptiest one and the skew that is allowed."""
    node = question.node(row)
    parts, data = [], []
    for constraint in uneven(question, node):
        key, value = constraint.topology_key, node.labels.get(constraint.topology_key)
        counts = spread(question, constraint)
        if value is None:
            parts.append(f"node has no label {key}")
            data.append({"topologyKey": key, "domain": None, "maxSkew": constraint.max_skew})
            continue
        here = counts.get(value, 0)
        emptiest = min(counts, key=lambda name: (counts[name], name), default="")
        lowest = _lowest(constraint, counts)
        least = (
            f"{domain(key, emptiest)} has {lowest}"
            if counts.get(emptiest) == lowest
            else (f"with fewer than {constraint.min_domains} domains the least counts as {lowest}")
        )
        skew = here + _itself(question, constraint) - lowest
        parts.append(
            f"{domain(key, value)} has {here} of its pods, {least}: skew {skew}, at most {constraint.max_skew}"
        )
        data.append(
            {
                "topologyKey": key,
                "domain": value,
                "pods": here,
                "fewest": lowest,
                "skew": skew,
                "maxSkew": constraint.max_skew,
            }
        )
    return "; ".join(parts), {"constraints": data}


def uneven(question: Question, node: Node) -> list[SpreadConstraint]:
    """The pod's own hard constraints that a node would not keep."""
    found = []
    for constraint in question.pod.shape.spread:
        value = node.labels.get(constraint.topology_key)
        counts = spread(question, constraint) if constraint.hard else {}
        if constraint.hard and (
            value is None
            or counts.get(value, 0) + _itself(question, constraint) - _lowest(constraint, counts) > constraint.max_skew
        ):
            found.append(constraint)
    return found


def _itself(question: Question, constraint: SpreadConstraint) -> int:
    """1 when the pod counts itself."""
    return int(constraint.selector_for(question.pod.labels).matches(question.pod.labels))


def _lowest(constraint: SpreadConstraint, counts: dict[str, int]) -> int:
    return min(counts.values(), default=0) if len(counts) >= constraint.min_domains else 0


def spread(question: Question, constraint: SpreadConstraint) -> dict[str, int]:
    """Domain → pods that the constraint counts there, over the nodes that its policies include."""

    def find() -> dict[str, int]:
        pod, cluster = question.pod, question.cluster
        keys = [each.topology_key for each in pod.shape.spread if each.hard]
        selector = constraint.selector_for(pod.labels)
        counts: dict[str, int] = {}
        included = {}
        for row, node in cluster.nodes.live():
            if all(key in node.labels for key in keys) and _includes(constraint, pod, node):
                included[row] = node.labels[constraint.topology_key]
                counts.setdefault(included[row], 0)
        for placement in cluster.placements():
            other = placement.pod
            if placement.row in included and other.namespace == pod.namespace and not other.terminating:
                counts[included[placement.row]] += selector.matches(other.labels)
        return counts

    found: dict[str, int] = question.once(("spread", constraint), find)
    return found


def _includes(constraint: SpreadConstraint, pod: Pod, node: Node) -> bool:
    if constraint.honor_affinity and not pod_matches(pod, node):
        return False
    return not constraint.honor_taints or untolerated(pod.shape.tolerations, node.taints) is None
