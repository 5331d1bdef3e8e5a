"""A pod's affinity and spread constraints, read a part at a time: a tenant may write 8,000 terms.

What can't be interrupted, a term of thousands of requirements, is read before the first part is over. That is where a
large object is decoded: beside the event loop. The rest is read by whoever schedules the pod.
"""

from collections.abc import Generator, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import msgspec

from scheduler.model import wire
from scheduler.model.affinity import AffinityTerm, Terms, WeightedTerm, WeightedTerms, parse_affinity_term
from scheduler.model.once import hashed_once
from scheduler.model.selectors import (
    NodeSelector,
    NodeSelectorTerm,
    SelectorError,
    node_selector_of,
    parse_node_selector_term,
)
from scheduler.model.spread import SpreadConstraint, parse_spread_constraint

if TYPE_CHECKING:
    from scheduler.model.shape import PodShape

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_OF_NODES = "spec.affinity.nodeAffinity"
_NO_TERMS = Terms()
_NO_WEIGHTED_TERMS = WeightedTerms()
_MAX_WEIGHT = 1 << 31
_MANY = 64
_LARGE = 64
"""A term of more requirements and values is read at once."""
_PART = 250
"""Steps of one part."""
_A_TERM = 7
"""Steps that reading takes, about, whatever a term holds."""
_AN_ITEM = 2
"""Steps for each of its requirements, and for some of their values."""
_VALUES = 8
_NO_NODE = wire.NodeSelectorTerm()

Term = wire.PodAffinityTerm | wire.NodeSelectorTerm | wire.TopologySpreadConstraint

_affinity_decoder = msgspec.json.Decoder(wire.Affinity)
_spread_decoder = msgspec.json.Decoder(list[wire.TopologySpreadConstraint])


def reading(shape: "PodShape", affinity: bytes, spread: bytes, problem: str | None) -> Iterator[int]:
    """Read these two fields of a spec into a shape, all at the end; yields about how many steps each part took.

    `problem`: what was found wrong before. Raises msgspec.ValidationError before the first part when a field has the
    wrong JSON type.
    """
    decoded = _affinity_decoder.decode(affinity) if affinity else wire.Affinity()
    constraints = _spread_decoder.decode(spread) if spread else []
    reader = _Reader(shape.namespace)
    reader.begin(decoded, constraints)
    yield 0
    node, near, far = decoded.node_affinity, decoded.pod_affinity, decoded.pod_anti_affinity
    required: NodeSelector | None = None
    preferred: tuple[tuple[int, NodeSelectorTerm], ...] = ()
    error: str | None = None
    if node is not None and node.required is not None:
        required = yield from reader.node_selector(node.required, f"{_OF_NODES}.{_REQUIRED}")
    if node is not None and node.preferred:
        preferred, error = yield from reader.preferred_nodes(node.preferred, f"{_OF_NODES}.{_PREFERRED}")
    attracts, repels, rather = _NO_TERMS, _NO_TERMS, _NO_WEIGHTED_TERMS
    try:
        towards = yield from reader.pod_terms(near, "spec.affinity.podAffinity", 1)
        away = yield from reader.pod_terms(far, "spec.affinity.podAntiAffinity", -1)
    except SelectorError as mistake:
        problem = str(mistake)
    else:
        attracts, repels = towards[0], away[0]
        rather = WeightedTerms((*towards[1], *away[1])) if towards[1] or away[1] else _NO_WEIGHTED_TERMS
        if len(attracts) + len(repels) + len(rather) > _MANY:
            yield from _work_out(attracts, repels, rather)
    apart: tuple[SpreadConstraint, ...] = ()
    try:
        apart = yield from reader.spread(constraints)
    except SelectorError as mistake:
        problem = str(mistake)
    yield reader.part()
    shape.required_node_affinity = required
    shape.preferred_node_terms, shape.preferred_error = preferred, error
    shape.has_preferred_node_affinity = node is not None and bool(node.preferred)
    shape.affinity_terms, shape.anti_affinity_terms, shape.preferred_pod_terms = attracts, repels, rather
    shape.spread = apart
    shape.problem = problem


class _Reader:
    """Reads terms one after the other, and counts the steps."""

    def __init__(self, namespace: str) -> None:
        self._namespace = namespace
        self._early: dict[int, Any] = {}
        """What large terms were read as, by the identity of the term."""
        self._steps = 0

    def begin(self, affinity: wire.Affinity, constraints: list[wire.TopologySpreadConstraint]) -> None:
        """Read the large terms."""
        node = affinity.node_affinity
        terms: list[Term | None] = [*constraints]
        for of_pods in (affinity.pod_affinity, affinity.pod_anti_affinity):
            if of_pods is not None:
                terms += of_pods.required or ()
                terms += [weighted.pod_affinity_term for weighted in of_pods.preferred or ()]
        if node is not None:
            terms += (node.required.node_selector_terms or ()) if node.required is not None else ()
            terms += [weighted.preference for weighted in node.preferred or ()]
        for term in terms:
            if term is not None and _items(term) > _LARGE:
                with suppress(SelectorError):  # it comes again where the path is known
                    self._early[id(term)] = self._parse(term, "")

    def pod_terms(
        self, affinity: wire.PodAffinity | None, path: str, sign: int
    ) -> Generator[int, None, tuple[Terms, tuple[WeightedTerm, ...]]]:
        """(required, preferred) terms. Raises SelectorError."""
        if affinity is None:
            return _NO_TERMS, ()
        required: list[AffinityTerm] = []
        for i, term in enumerate(affinity.required or ()):
            required.append(self._read(term, f"{path}.{_REQUIRED}[{i}]"))
            if self._steps >= _PART:
                yield self.part()
        preferred: list[WeightedTerm] = []
        for i, weighted in enumerate(affinity.preferred or ()):
            if weighted.weight:
                read = self._read(weighted.pod_affinity_term, f"{path}.{_PREFERRED}[{i}]")
                preferred.append(WeightedTerm(read, sign * _weight(weighted.weight)))
            if self._steps >= _PART:
                yield self.part()
        return Terms(required), tuple(preferred)

    def node_selector(self, selector: wire.NodeSelector, path: str) -> Generator[int, None, NodeSelector]:
        """Required node affinity; an error is kept in its term."""
        terms: list[NodeSelectorTerm] = []
        for i, term in enumerate(selector.node_selector_terms or ()):
            terms.append(self._read(term or _NO_NODE, f"{path}.nodeSelectorTerms[{i}]"))
            if self._steps >= _PART:
                yield self.part()
        return node_selector_of(terms)

    def preferred_nodes(
        self, terms: list[wire.PreferredSchedulingTerm], path: str
    ) -> Generator[int, None, tuple[tuple[tuple[int, NodeSelectorTerm], ...], str | None]]:
        """(weight, term) pairs and the first error; terms of weight 0 or without content are left out unread."""
        found: list[tuple[int, NodeSelectorTerm]] = []
        error: str | None = None
        for i, term in enumerate(terms):
            preference = term.preference
            if term.weight == 0 or not (preference.match_expressions or preference.match_fields):
                continue
            read = self._read(preference, f"{path}[{i}].preference")
            if read.error is not None:
                error = error or read.error
            else:
                found.append((_weight(term.weight), read))
            if self._steps >= _PART:
                yield self.part()
        return hashed_once(found), error

    def spread(
        self, constraints: list[wire.TopologySpreadConstraint]
    ) -> Generator[int, None, tuple[SpreadConstraint, ...]]:
        """Spread constraints. Raises SelectorError."""
        found: list[SpreadConstraint] = []
        for i, constraint in enumerate(constraints):
            found.append(self._read(constraint, f"spec.topologySpreadConstraints[{i}]"))
            if self._steps >= _PART:
                yield self.part()
        return tuple(found)

    def _read(self, term: Term, path: str) -> Any:
        self._steps += _A_TERM + _AN_ITEM * min(_items(term), _LARGE)
        early = self._early.pop(id(term), None)
        return self._parse(term, path) if early is None or getattr(early, "error", None) else early

    def _parse(self, term: Term, path: str) -> Any:
        match term:
            case wire.PodAffinityTerm():
                return parse_affinity_term(term, self._namespace, path)
            case wire.NodeSelectorTerm():
                return parse_node_selector_term(term, path)
            case wire.TopologySpreadConstraint():
                return parse_spread_constraint(term, path)

    def part(self) -> int:
        """The steps that were taken since this was last asked."""
        steps, self._steps = self._steps, 0
        return steps


def parse_preferred_node_terms(
    terms: list[wire.PreferredSchedulingTerm], path: str
) -> tuple[tuple[tuple[int, NodeSelectorTerm], ...], str | None]:
    """As `_Reader.preferred_nodes`, at once."""
    parts = _Reader("").preferred_nodes(terms, path)
    while True:
        try:
            next(parts)
        except StopIteration as end:
            found: tuple[tuple[tuple[int, NodeSelectorTerm], ...], str | None] = end.value
            return found


def _work_out(near: Terms, far: Terms, rather: WeightedTerms) -> Iterator[int]:
    """Work out what is asked of many terms later, which takes as long as reading them."""
    steps = 0
    for term in (*near, *far, *(one.term for one in rather)):
        _ = term.selector.conditions, term.namespace_selector.conditions
        steps += 2
        if steps >= _PART:
            yield steps
            steps = 0
    _ = near.by_key, far.by_key, hash(near), hash(far)
    yield steps + (len(near) + len(far)) // 2
    for by_key in rather.by_sign:
        for of_key in by_key.values():
            if len(of_key) > _MANY:
                _ = hash(of_key.terms), hash(of_key.weights)
    _ = hash(rather)
    yield 1 + len(rather)


def _items(term: Term) -> int:
    """How many requirements and values a term has: about as many times as long it takes to read."""
    match term:
        case wire.NodeSelectorTerm():
            return _requirements(term.match_expressions) + _requirements(term.match_fields)
        case wire.PodAffinityTerm():
            named = len(term.namespaces or ()) // _VALUES
            return named + _selector(term.label_selector) + _selector(term.namespace_selector)
        case wire.TopologySpreadConstraint():
            return _selector(term.label_selector) + len(term.match_label_keys or ())


def _selector(selector: wire.LabelSelector | None) -> int:
    return 0 if selector is None else len(selector.match_labels or ()) + _requirements(selector.match_expressions)


def _requirements(requirements: list[wire.Requirement] | None) -> int:
    return sum([1 + len(one.values or ()) // _VALUES for one in requirements]) if requirements else 0


def _weight(weight: int) -> int:
    """A preference's weight; the API allows 1 to 100, a dump may hold anything."""
    return max(-_MAX_WEIGHT, min(weight, _MAX_WEIGHT))
