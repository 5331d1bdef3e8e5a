"""Requirements on a pod's node for as long as the pod runs (RequiredDuringSchedulingRequiredDuringExecution).

The API has no such field, so an annotation says it: a NodeSelector as JSON, `"true"` for the pod's own nodeSelector
and required node affinity, `"false"` for neither, whatever a profile says. The scheduler filters by it, the evictor
holds nodes to it afterwards.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import msgspec
from msgspec import Struct

from podberth.model import wire
from podberth.model.mistakes import misfit
from podberth.model.selectors import (
    FieldRequirement,
    NodeSelector,
    Requirement,
    parse_node_selector,
    parse_node_selector_term,
)

ANNOTATION = "podberth.dev/required-during-execution"
TOKEN = b"required-during-execution"
"""It is among the bytes of annotations that may have this one."""
MOST_BYTES = 16 * 1024
"""A promise is looked at for every node; what is longer is no selector but an attack, or a mistake."""
MOST_TERMS = 64


class _Expression(msgspec.Struct, forbid_unknown_fields=True):
    key: str
    operator: str
    values: list[str] | None = None


class _Term(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    match_expressions: list[_Expression] | None = None
    match_fields: list[_Expression] | None = None


class _Selector(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    node_selector_terms: list[_Term]


_selector = msgspec.json.Decoder(_Selector)


class Promise(Struct, frozen=True):
    """The annotation, read. `selector` None: the pod's own requirements are meant."""

    selector: NodeSelector | None = None
    declined: bool = False
    problem: str | None = None
    """Why it can't be read; such a pod is not scheduled, and not evicted."""


OWN = Promise()
DECLINED = Promise(declined=True)


@dataclass(frozen=True)
class NodeRequirement:
    """Requirements on a node while the pod is on it: every one of `labels`, and `selector` where there is one.

    Equal requirements are equal values, so that pods can be grouped by them.
    """

    labels: tuple[Requirement, ...]
    selector: NodeSelector | None
    _hash: int = field(default=0, init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        # The key under which every pod is filed: hashed once.
        object.__setattr__(self, "_hash", hash((self.labels, self.selector)))

    def __hash__(self) -> int:
        return self._hash

    def reads(self) -> frozenset[str]:
        """Return the label keys that it reads."""
        found = {requirement.key for requirement in self.labels}
        for term in self.selector.terms if self.selector is not None else ():
            found.update(requirement.key for requirement in term.labels)
        return frozenset(found)

    def holds(self, name: str, labels: Mapping[str, str]) -> bool:
        """Return whether a node of this name with these labels meets it."""
        return not self.broken(name, labels)

    def broken(self, name: str, labels: Mapping[str, str]) -> tuple[Requirement | FieldRequirement, ...]:
        """Return what such a node does not meet: of the selector, the requirements of the term it comes nearest to."""
        own = tuple(r for r in self.labels if not r.accepts(labels.get(r.key)))
        if self.selector is None:
            return own
        _, of_labels, of_fields = self.selector.missed(name, labels)
        return (*own, *of_labels, *of_fields) if self.selector.terms else (*own, NO_TERM)

    def __str__(self) -> str:
        parts = [str(requirement) for requirement in self.labels]
        if self.selector is not None:
            parts.append(f"({self.selector})" if parts and len(self.selector.terms) > 1 else str(self.selector))
        return " and ".join(parts)


NO_TERM = FieldRequirement("metadata.name", "In", "")
"""A requirement that no node meets. It stands for a selector all of whose terms are empty or unreadable."""


def parse_promise(text: str | None) -> Promise | None:
    """Read the annotation's value; what is wrong with it ends up in `problem`. None: there is no annotation."""
    match text:
        case None:
            return None
        case "true":
            return OWN
        case "false":
            return DECLINED
    if len(text) > MOST_BYTES:
        return Promise(problem=f"{ANNOTATION}: Too long: must have at most {MOST_BYTES} bytes")
    try:
        read = _selector.decode(text)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        what = misfit(error)
        return Promise(problem=f'{ANNOTATION}: Invalid value: want "true", "false" or a NodeSelector as JSON: {what}')
    terms = read.node_selector_terms
    if not 0 < len(terms) <= MOST_TERMS:
        return Promise(
            problem=f"{ANNOTATION}.nodeSelectorTerms: Invalid value: {len(terms)} terms: want 1 to {MOST_TERMS}"
        )
    for i, term in enumerate(terms):
        if not (term.match_expressions or term.match_fields):
            return Promise(
                problem=f"{ANNOTATION}.nodeSelectorTerms[{i}]: Required value: an empty term matches no node"
            )
    wired = [wire.NodeSelectorTerm(_wired(t.match_expressions), _wired(t.match_fields)) for t in terms]
    parsed = (parse_node_selector_term(t, f"{ANNOTATION}.nodeSelectorTerms[{i}]") for i, t in enumerate(wired))
    wrong = next((term.error for term in parsed if term.error is not None), None)
    return Promise(problem=wrong) if wrong else Promise(parse_node_selector(wire.NodeSelector([*wired]), ANNOTATION))


NOTHING_OF_NODES = NodeRequirement((), None)
"""A requirement that each node meets."""


def _wired(expressions: list[_Expression] | None) -> list[wire.Requirement] | None:
    return None if expressions is None else [wire.Requirement(e.key, e.operator, e.values) for e in expressions]
