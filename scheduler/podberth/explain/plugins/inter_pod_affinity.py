"""Explains InterPodAffinity's rejections: which pods are where, and what would help."""

from collections.abc import Callable, Iterable, Mapping, Sequence

from podberth.explain.changes import Change, DropPodTerm, Fix, MovePod
from podberth.framework.explaining import Detail, Explainer, Inquiry, domain, pods_with
from podberth.framework.status import Reason
from podberth.model.node import Node
from podberth.model.pod import Pod
from podberth.model.terms import AffinityTerm
from podberth.plugins.inter_pod_affinity import InterPodAffinity

_FEW = 3
_MOST_MOVES = 2

Domains = dict[str, list[str]]
"""Value of a topology key → keys of the pods there."""


def _pods_at(labels: Mapping[str, str], term: AffinityTerm, domains: Domains) -> list[str]:
    """Return the pods in the domain of a node with these labels; a node without the topology key is in none."""
    value = labels.get(term.topology_key)
    return [] if value is None else domains.get(value, [])


class InterPodAffinityExplainer(Explainer):
    """Says of a node that InterPodAffinity rejects: which pods are where, and what would help."""

    plugin: InterPodAffinity

    def explain(self, inquiry: Inquiry, row: int, reason: Reason) -> Detail:
        """Return the terms that fail in the node's domains: how many pods are there, which, and where else."""
        if reason == self.plugin.not_near:
            return _not_near(inquiry, row)
        return _not_apart(inquiry, row) if reason == self.plugin.not_apart else _repelled(inquiry, row)

    def fixes(self, inquiry: Inquiry, row: int, reasons: Sequence[Reason]) -> list[Fix]:
        """Prefer what is required and fails here, or have the pods in the way leave."""
        labels, shape = inquiry.node(row).labels, inquiry.pod.shape
        near = [term for term in shape.affinity_terms if not _pods_at(labels, term, _selected(inquiry, term))]
        apart_from = ((term, _pods_at(labels, term, _selected(inquiry, term))) for term in shape.anti_affinity_terms)
        crowded = {term: pods for term, pods in apart_from if pods}
        repelling = inquiry.cluster.affinity.repelling(inquiry.pod)
        repellers = {pod for term in repelling for pod in _pods_at(labels, term, _carriers(inquiry, term))}
        apart: list[Change] = [_drop(term, anti=True) for term in crowded]
        moves = _moves(inquiry, repellers)
        found: list[Fix] = []
        if len(moves) == len(repellers):
            found.append((*(_drop(term, anti=False) for term in near), *apart, *moves))
        in_the_way = repellers.union(*crowded.values())
        if crowded and not near and len(in_the_way) == 1:
            found.append(_moves(inquiry, in_the_way))
        return [fix for fix in found if fix]


def _not_near(inquiry: Inquiry, row: int) -> Detail:
    """Say of required affinity: the terms for which the node's domain has no pod, and the domains that have some."""
    node = inquiry.node(row)
    parts, data = [], []
    for term in inquiry.pod.shape.affinity_terms:
        key, value = term.topology_key, node.labels.get(term.topology_key)
        domains = _selected(inquiry, term)
        here = len(_pods_at(node.labels, term, domains))
        data.append({"term": str(term), "topologyKey": key, "domain": value, "pods": here})
        if value is None:
            parts.append(f"node has no label {key}")
        elif not here:
            parts.append(f"0 {pods_with(term.selector)} in {domain(key, value)}{_elsewhere(domains)}")
    return "; ".join(parts) or "no pod here meets all of the required terms at once", {"terms": data}


def _not_apart(inquiry: Inquiry, row: int) -> Detail:
    """Say of required anti-affinity: the pods in the node's domains that the incoming pod does not want there."""
    terms = inquiry.pod.shape.anti_affinity_terms
    return _crowded(inquiry.node(row), [(t, _selected(inquiry, t)) for t in terms], "{pods}: wants no {what} there")


def _repelled(inquiry: Inquiry, row: int) -> Detail:
    """Say of required anti-affinity of placed pods: those in the node's domains that keep the incoming pod away."""
    terms = sorted(inquiry.cluster.affinity.repelling(inquiry.pod), key=str)
    return _crowded(inquiry.node(row), [(t, _carriers(inquiry, t)) for t in terms], "{pods}: keeps away {what}")


def _selected(inquiry: Inquiry, term: AffinityTerm) -> Domains:
    """Return the places of the pods that a term of the incoming pod selects."""
    selects = inquiry.cluster.affinity.selects
    return _domains(inquiry, term, "selected", lambda pod: selects(term, pod))


def _carriers(inquiry: Inquiry, term: AffinityTerm) -> Domains:
    """Return the places of the pods that carry a required anti-affinity term."""
    return _domains(inquiry, term, "carriers", lambda pod: term in pod.shape.anti_affinity_terms)


def _domains(inquiry: Inquiry, term: AffinityTerm, kind: str, counts: Callable[[Pod], bool]) -> Domains:
    def find() -> Domains:
        found: Domains = {}
        nodes = inquiry.cluster.nodes
        for placement in inquiry.cluster.placements():
            node = nodes.objects[placement.row]
            value = None if node is None else node.labels.get(term.topology_key)
            if value is not None and counts(placement.pod):
                found.setdefault(value, []).append(placement.pod.key)
        return found

    return inquiry.once((kind, term), find)


def _elsewhere(domains: Domains) -> str:
    if not domains:
        return ", nor anywhere else"
    most = sorted(domains.items(), key=lambda item: (-len(item[1]), item[0]))
    more = ", …" if len(most) > _FEW else ""
    counts = ", ".join(f"{len(pods)} in {value}" for value, pods in most[:_FEW])
    return f" (there {'is' if sum(map(len, domains.values())) == 1 else 'are'} {counts}{more})"


def _crowded(node: Node, terms: Iterable[tuple[AffinityTerm, Domains]], say: str) -> Detail:
    """Return the domains that hold pods which must not be there."""
    parts, data = [], []
    for term, domains in terms:
        key, value = term.topology_key, node.labels.get(term.topology_key)
        here = _pods_at(node.labels, term, domains)
        if value is None or not here:
            continue
        names = ", ".join(here[:_FEW]) + (f" and {len(here) - _FEW} more" if len(here) > _FEW else "")
        pods = f"{names} {'is' if len(here) == 1 else 'are'} in {domain(key, value)}"
        parts.append(say.format(pods=pods, what=pods_with(term.selector)))
        data.append({"term": str(term), "topologyKey": key, "domain": value, "pods": len(here), "names": here[:_FEW]})
    return "; ".join(parts), {"terms": data}


def _drop(term: AffinityTerm, *, anti: bool) -> Change:
    return DropPodTerm(anti, str(term), pods_with(term.selector), term.topology_key)


def _moves(inquiry: Inquiry, pods: set[str]) -> Fix:
    """Return moves of these pods; none if they are too many."""
    if len(pods) > _MOST_MOVES:
        return ()

    def find() -> dict[str, str]:
        names = inquiry.cluster.nodes.names
        return {placement.pod.key: names[placement.row] or "" for placement in inquiry.cluster.placements()}

    where = inquiry.once("where", find)
    return tuple(MovePod(pod, where[pod]) for pod in sorted(pods))
