"""Explains NodeAffinity's rejections: which requirements the node misses, and what would help."""

from collections.abc import Collection, Mapping, Sequence
from functools import partial

from podberth.explain.changes import (
    Change,
    DropNodeSelector,
    DropRequirement,
    Fix,
    Label,
    RespellNodeSelector,
)
from podberth.explain.spelling import label_values, near_labels
from podberth.framework.explaining import Detail, Explainer, Inquiry, has_instead, said
from podberth.framework.status import Reason
from podberth.model.node import Node
from podberth.model.selectors import NOTHING_MISSED, NodeSelector, Requirement
from podberth.plugins.node_affinity import NodeAffinity

_FIXED_LABELS = ("kubernetes.io/", "topology.kubernetes.io/", "node.kubernetes.io/", "beta.kubernetes.io/")
"""Prefixes of labels that people do not choose."""


class NodeAffinityExplainer(Explainer):
    """Says of a node that NodeAffinity rejects: the requirements that failed, and what the node has instead."""

    plugin: NodeAffinity

    def explain(self, inquiry: Inquiry, row: int, reason: Reason) -> Detail:
        """Return the requirements that failed, of the profile or of the pod."""
        node, shape = inquiry.node(row), inquiry.pod.shape
        if reason == self.plugin.enforced:
            return missed_requirements(node, (), self.plugin.added, by="by the profile's addedAffinity: ")
        return missed_requirements(node, shape.node_selector, shape.required_node_affinity)

    def fixes(self, inquiry: Inquiry, row: int, reasons: Sequence[Reason]) -> list[Fix]:
        """Write what was perhaps meant, drop what the node does not meet, or label the node so that it does.

        No node is given a label that is perhaps misspelt.
        """
        node = inquiry.node(row)
        selector, required = inquiry.pod.shape.node_selector, inquiry.pod.shape.required_node_affinity
        own = [r for r in selector if not r.accepts(node.labels.get(r.key))]
        term, of_labels, of_fields = required.missed(node.name, node.labels) if required is not None else NOTHING_MISSED
        drop: list[Change] = [DropNodeSelector(r.key, next(iter(r.values))) for r in own]
        drop += [DropRequirement(term, str(each)) for each in (*of_labels, *of_fields)]
        wanted = (*own, *of_labels)
        labels = tuple(
            Label(node.name, r.key, min(r.values))
            for r in wanted
            if r.operator == "In" and r.values and not r.key.startswith(_FIXED_LABELS) and _nearest(r, inquiry) is None
        )
        respelt = _respelt(node, own, inquiry)
        meant = () if of_labels or of_fields else tuple(respelt)
        return [
            fix for fix in (meant, tuple(drop), labels if len(labels) == len(wanted) and not of_fields else ()) if fix
        ]


def missed_requirements(
    node: Node, selector: tuple[Requirement, ...], required: NodeSelector | None, by: str = ""
) -> Detail:
    """Return the requirements that failed, and the node's labels instead. `by`: who requires it, if not the pod."""
    own = [r for r in selector if not r.accepts(node.labels.get(r.key))]
    _, of_labels, of_fields = required.missed(node.name, node.labels) if required is not None else NOTHING_MISSED
    terms = len(required.terms) if required is not None else 0
    parts, failed = [], []
    for r in (*own, *of_labels):
        parts.append(f"{said(r)}: {has_instead(node.labels, r.key)}")
        failed.append({"requirement": str(r), "key": r.key, "has": node.labels.get(r.key)})
    for f in of_fields:
        parts.append(str(f))
        failed.append({"requirement": str(f), "key": f.key, "has": node.name})
    if not parts:
        return "no term of the required node affinity can match a node", {"failed": failed, "terms": terms}
    nearest = f"none of {terms} terms, nearest: " if terms > 1 and (of_labels or of_fields) else ""
    return f"{by}{nearest}{'; '.join(parts)}", {"failed": failed, "terms": terms}


def _respelt(node: Node, missed: list[Requirement], inquiry: Inquiry) -> list[Change]:
    """Return other labels for all that the node misses, each spelt nearly so; none if one can't be respelt."""
    found: list[Change] = []
    for requirement in missed:
        near = _nearest(requirement, inquiry)
        if near is None or node.labels.get(near[0]) != near[1]:
            return []
        [value] = requirement.values
        found.append(RespellNodeSelector(requirement.key, value, *near))
    return found


def _nearest(requirement: Requirement, inquiry: Inquiry) -> tuple[str, str] | None:
    """Return the key and the value of the label that was perhaps meant."""
    known = inquiry.once("NodeAffinity labels", lambda: label_values(inquiry.cluster.nodes))
    return inquiry.once(("NodeAffinity near", requirement), partial(_nearest_of, requirement, known))


def _nearest_of(requirement: Requirement, known: Mapping[str, Collection[str]]) -> tuple[str, str] | None:
    for _, near in near_labels(requirement, known):
        return (requirement.key, near) if requirement.key in known else (near, min(requirement.values))
    return None
