"""What NodeAffinity says of a node that it rejects: which requirements the node misses, and what would help."""

from dataclasses import dataclass

from scheduler.framework.changes import Change, DropNodeSelector, DropRequirement, Fix, Label
from scheduler.framework.explaining import Detail, said
from scheduler.model.node import Node
from scheduler.model.selectors import FieldRequirement, NodeSelector, Requirement

_FIXED_LABELS = ("kubernetes.io/", "topology.kubernetes.io/", "node.kubernetes.io/", "beta.kubernetes.io/")
"""Labels that are not people's to choose."""


@dataclass(frozen=True, slots=True)
class Missed:
    """The requirements that a node does not meet, of a nodeSelector and of the term it comes nearest to."""

    selector: tuple[Requirement, ...]
    term: int = 0
    labels: tuple[Requirement, ...] = ()
    fields: tuple[FieldRequirement, ...] = ()


def missed_by(node: Node, selector: tuple[Requirement, ...], required: NodeSelector | None) -> Missed:
    """What a node does not meet."""
    own = tuple(r for r in selector if not r.accepts(node.labels.get(r.key)))
    found = [
        Missed(
            own,
            i,
            tuple(r for r in term.labels if not r.accepts(node.labels.get(r.key))),
            tuple(f for f in term.fields if not f.accepts(node.name)),
        )
        for i, term in enumerate(required.terms if required is not None else ())
    ]
    return min(found, key=lambda m: len(m.labels) + len(m.fields), default=Missed(own))


def explain(node: Node, selector: tuple[Requirement, ...], required: NodeSelector | None, by: str = "") -> Detail:
    """The requirements that failed, and what the node has instead. `by`: who requires it, if not the pod."""
    missed = missed_by(node, selector, required)
    terms = len(required.terms) if required is not None else 0
    parts, failed = [], []
    for r in (*missed.selector, *missed.labels):
        has = node.labels.get(r.key)
        parts.append(f"{said(r)}: node has {'no such label' if has is None else has or 'an empty value'}")
        failed.append({"requirement": str(r), "key": r.key, "has": has})
    for f in missed.fields:
        parts.append(str(f))
        failed.append({"requirement": str(f), "key": f.key, "has": node.name})
    if not parts:
        return "no term of the required node affinity can match a node", {"failed": failed, "terms": terms}
    nearest = f"none of {terms} terms, nearest: " if terms > 1 and (missed.labels or missed.fields) else ""
    return f"{by}{nearest}{'; '.join(parts)}", {"failed": failed, "terms": terms}


def fixes(node: Node, selector: tuple[Requirement, ...], required: NodeSelector | None) -> list[Fix]:
    """Drop what the node does not meet, or label the node so that it does."""
    missed = missed_by(node, selector, required)
    drop: list[Change] = [DropNodeSelector(r.key, next(iter(r.values))) for r in missed.selector]
    drop += [DropRequirement(missed.term, str(each)) for each in (*missed.labels, *missed.fields)]
    wanted = (*missed.selector, *missed.labels)
    labels = tuple(
        Label(node.name, r.key, min(r.values))
        for r in wanted
        if r.operator == "In" and r.values and not r.key.startswith(_FIXED_LABELS)
    )
    return [fix for fix in (tuple(drop), labels if len(labels) == len(wanted) and not missed.fields else ()) if fix]
