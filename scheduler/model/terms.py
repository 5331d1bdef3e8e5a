"""A pod's affinity and spread constraints, read a part at a time: a tenant may write 8,000 terms.

They are read by whoever schedules the pod. What can't be interrupted, to decode a term of thousands of requirements, is
done where a large object is decoded: beside the event loop. What is read takes some ten times the room of what is
written. So the text stays, and waiting pods may forget what was read (`scheduler/engine/long_terms.py`).
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from scheduler.model import wire
from scheduler.model.affinity import (
    AffinityTerm,
    Terms,
    WeightedTerm,
    WeightedTerms,
    affinity_term_in_parts,
    parse_affinity_term,
)
from scheduler.model.once import hashed_once
from scheduler.model.packed import Text, packed, unpacked
from scheduler.model.parts import Parts, whole
from scheduler.model.selectors import (
    NodeSelector,
    NodeSelectorTerm,
    SelectorError,
    node_selector_of,
    node_selector_term_in_parts,
    parse_node_selector_term,
)
from scheduler.model.spread import SpreadConstraint, parse_spread_constraint, spread_constraint_in_parts

if TYPE_CHECKING:
    from scheduler.model.shape import PodShape

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_REQUIRED_NODES = f"spec.affinity.nodeAffinity.{_REQUIRED}.nodeSelectorTerms"
_PREFERRED_NODES = f"spec.affinity.nodeAffinity.{_PREFERRED}"
_NEAR, _FAR = "spec.affinity.podAffinity", "spec.affinity.podAntiAffinity"
_SPREAD = "spec.topologySpreadConstraints"
_NO_TERMS = Terms()
_NO_WEIGHTED_TERMS = WeightedTerms()
_MAX_WEIGHT = 1 << 31
_MANY = 64
_LARGE = 64
"""A term of more requirements and values is decoded early, and read a part at a time."""
_PART = 250
"""Steps of one part."""
_A_TERM = 7
"""Steps that reading takes, about, whatever a term holds."""
_AN_ITEM = 2
"""Steps for each of its requirements, and for some of their values."""
_VALUES = 8
_NO_NODE = wire.NodeSelectorTerm()

FIELDS = frozenset(
    (
        "affinity_terms",
        "anti_affinity_terms",
        "has_preferred_node_affinity",
        "preferred_error",
        "preferred_node_terms",
        "preferred_pod_terms",
        "problem",
        "required_node_affinity",
        "spread",
    )
)
"""The fields of a shape that are there once the terms are read."""
Term = wire.PodAffinityTerm | wire.NodeSelectorTerm | wire.TopologySpreadConstraint

_affinity_decoder = msgspec.json.Decoder(wire.Affinity)
_spread_decoder = msgspec.json.Decoder(list[wire.TopologySpreadConstraint])
_unread_decoder = msgspec.json.Decoder(wire.UnreadAffinity)
_constraints_decoder = msgspec.json.Decoder(list[msgspec.Raw])
_pod_term_decoder = msgspec.json.Decoder(wire.PodAffinityTerm)
_node_term_decoder = msgspec.json.Decoder(wire.NodeSelectorTerm | None)
_constraint_decoder = msgspec.json.Decoder(wire.TopologySpreadConstraint)


class Written:
    """Affinity and spread constraints as they are written, which may be read again and again."""

    __slots__ = ("_affinity", "_early", "_namespace", "_spread")

    def __init__(self, namespace: str, affinity: bytes, spread: bytes) -> None:
        self._namespace = namespace
        self._affinity: Text = affinity
        self._spread: Text = spread
        self._early: dict[str, Any] = {}
        """Large terms by their paths: as they were decoded, and later as they were read."""

    def prepare(self, *, soon: bool = False) -> None:
        """Decode the large terms, and look at the types of everything. `soon`: they are read soon, and not compressed.

        Raises msgspec.ValidationError when a field has the wrong JSON type.
        """
        affinity, spread = unpacked(self._affinity), unpacked(self._spread)
        decoded = _affinity_decoder.decode(affinity) if affinity else wire.Affinity()
        constraints = _spread_decoder.decode(spread) if spread else []
        if not soon:
            self._affinity, self._spread = packed(affinity), packed(spread)
        self._early = {path: term for path, term in _terms(decoded, constraints) if _items(term) > _LARGE}

    def reading(self, shape: "PodShape", problem: str | None) -> Iterator[int]:
        """Read them into a shape, all at the end; yields about how many steps each part took.

        `problem`: what was found wrong before. Raises msgspec.ValidationError when a field has the wrong JSON type,
        unless all was prepared.
        """
        affinity, spread = unpacked(self._affinity), unpacked(self._spread)
        unread = _unread_decoder.decode(affinity) if affinity else wire.UnreadAffinity()
        constraints = _constraints_decoder.decode(spread) if spread else []
        reader = _Reader(self._namespace, self._early)
        node, near, far = unread.node_affinity, unread.pod_affinity, unread.pod_anti_affinity
        required: NodeSelector | None = None
        preferred: tuple[tuple[int, NodeSelectorTerm], ...] = ()
        error: str | None = None
        if node is not None and node.required is not None:
            required = yield from reader.node_selector(node.required.node_selector_terms or (), _REQUIRED_NODES)
        if node is not None and node.preferred:
            preferred, error = yield from reader.preferred_nodes(node.preferred, _PREFERRED_NODES)
        attracts, repels, rather = _NO_TERMS, _NO_TERMS, _NO_WEIGHTED_TERMS
        try:
            towards = yield from reader.pod_terms(near, _NEAR, 1)
            away = yield from reader.pod_terms(far, _FAR, -1)
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
        shape.has_required_pod_affinity = bool(attracts)
        shape.affinity_terms, shape.anti_affinity_terms, shape.preferred_pod_terms = attracts, repels, rather
        shape.spread = apart
        shape.problem = problem


def _terms(affinity: wire.Affinity, constraints: list[wire.TopologySpreadConstraint]) -> Iterator[tuple[str, Term]]:
    """(path, term) of all terms."""
    node = affinity.node_affinity
    if node is not None and node.required is not None:
        for i, term in enumerate(node.required.node_selector_terms or ()):
            yield f"{_REQUIRED_NODES}[{i}]", term or _NO_NODE
    if node is not None:
        for i, preferred in enumerate(node.preferred or ()):
            yield f"{_PREFERRED_NODES}[{i}].preference", preferred.preference
    for path, of_pods in ((_NEAR, affinity.pod_affinity), (_FAR, affinity.pod_anti_affinity)):
        if of_pods is not None:
            for i, one in enumerate(of_pods.required or ()):
                yield f"{path}.{_REQUIRED}[{i}]", one
            for i, weighted in enumerate(of_pods.preferred or ()):
                yield f"{path}.{_PREFERRED}[{i}]", weighted.pod_affinity_term
    for i, constraint in enumerate(constraints):
        yield f"{_SPREAD}[{i}]", constraint


class _Reader:
    """Reads terms one after the other, and counts the steps."""

    def __init__(self, namespace: str, early: dict[str, Any]) -> None:
        """`early`: terms that were decoded or read before, by their paths."""
        self._namespace = namespace
        self._early = early
        self._steps = 0

    def pod_terms(
        self, affinity: wire.UnreadPodAffinity | None, path: str, sign: int
    ) -> Parts[tuple[Terms, tuple[WeightedTerm, ...]]]:
        """(required, preferred) terms. Raises SelectorError."""
        if affinity is None:
            return _NO_TERMS, ()
        required: list[AffinityTerm] = []
        for i, term in enumerate(affinity.required or ()):
            required.append((yield from self._read(_pod_term_decoder, term, f"{path}.{_REQUIRED}[{i}]")))
            if self._steps >= _PART:
                yield self.part()
        preferred: list[WeightedTerm] = []
        for i, weighted in enumerate(affinity.preferred or ()):
            if weighted.weight:
                where = f"{path}.{_PREFERRED}[{i}]"
                read = yield from self._read(_pod_term_decoder, weighted.pod_affinity_term, where)
                preferred.append(WeightedTerm(read, sign * _weight(weighted.weight)))
            if self._steps >= _PART:
                yield self.part()
        return Terms(required), tuple(preferred)

    def node_selector(self, unread: Sequence[msgspec.Raw], path: str) -> Parts[NodeSelector]:
        """Required node affinity; an error is kept in its term."""
        return node_selector_of((yield from self._read_all(_node_term_decoder, unread, path)))

    def preferred_nodes(
        self, terms: Sequence[wire.UnreadPreferred], path: str
    ) -> Parts[tuple[tuple[tuple[int, NodeSelectorTerm], ...], str | None]]:
        """(weight, term) pairs and the first error; terms of weight 0 or without content are left out."""
        found: list[tuple[int, NodeSelectorTerm]] = []
        error: str | None = None
        for i, term in enumerate(terms):
            if term.weight == 0:
                continue
            read = yield from self._read(_node_term_decoder, term.preference, f"{path}[{i}].preference")
            if read.error is not None:
                error = error or read.error
            elif read.labels or read.fields:
                found.append((_weight(term.weight), read))
            if self._steps >= _PART:
                yield self.part()
        return hashed_once(found), error

    def spread(self, constraints: Sequence[msgspec.Raw]) -> Parts[tuple[SpreadConstraint, ...]]:
        """Spread constraints. Raises SelectorError."""
        return tuple((yield from self._read_all(_constraint_decoder, constraints, _SPREAD)))

    def _read_all(self, decoder: msgspec.json.Decoder[Any], raws: Sequence[msgspec.Raw], path: str) -> Parts[list[Any]]:
        """As `_read`, each term of a list."""
        found = []
        for i, raw in enumerate(raws):
            found.append((yield from self._read(decoder, raw, f"{path}[{i}]")))
            if self._steps >= _PART:
                yield self.part()
        return found

    def _read(self, decoder: msgspec.json.Decoder[Any], raw: msgspec.Raw, path: str) -> Parts[Any]:
        """One term. Raises SelectorError, but for terms of nodes, which have an `error`."""
        early = self._early.get(path) if self._early else None
        if early is not None and not isinstance(early, Term):
            self._steps += _A_TERM + _AN_ITEM * _LARGE
            return early
        term: Term = (decoder.decode(raw) or _NO_NODE) if early is None else early
        items = _items(term)
        self._steps += _A_TERM + _AN_ITEM * min(items, _LARGE)
        if items <= _LARGE:
            return self._parse(term, path)
        read = yield from self._parse_large(term, path)
        _ = hash(read)
        yield items // 16
        if early is not None:
            self._early[path] = read
        return read

    def _parse(self, term: Term, path: str) -> Any:
        match term:
            case wire.PodAffinityTerm():
                return parse_affinity_term(term, self._namespace, path)
            case wire.NodeSelectorTerm():
                return parse_node_selector_term(term, path)
            case wire.TopologySpreadConstraint():
                return parse_spread_constraint(term, path)

    def _parse_large(self, term: Term, path: str) -> Parts[Any]:
        match term:
            case wire.PodAffinityTerm():
                return (yield from affinity_term_in_parts(term, self._namespace, path))
            case wire.NodeSelectorTerm():
                return (yield from node_selector_term_in_parts(term, path))
            case wire.TopologySpreadConstraint():
                return (yield from spread_constraint_in_parts(term, path))

    def part(self) -> int:
        """The steps that were taken since this was last asked."""
        steps, self._steps = self._steps, 0
        return steps


def parse_preferred_node_terms(
    terms: Sequence[wire.PreferredSchedulingTerm], path: str
) -> tuple[tuple[tuple[int, NodeSelectorTerm], ...], str | None]:
    """As `_Reader.preferred_nodes`, at once."""
    unread = [wire.UnreadPreferred(one.weight, msgspec.Raw(msgspec.json.encode(one.preference))) for one in terms]
    return whole(_Reader("", {}).preferred_nodes(unread, path))


def _work_out(near: Terms, far: Terms, rather: WeightedTerms) -> Iterator[int]:
    """Work out what is asked of many terms later, which takes as long as reading them."""
    steps = 0
    for term in (*near, *far, *(one.term for one in rather)):
        _ = term.selector.conditions, term.namespace_selector.conditions
        steps += 2
        if steps >= _PART:
            yield steps
            steps = 0
    yield steps
    for terms in (near, far, rather):
        yield from terms.working_out()


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
    if selector is None:
        return 0
    labels, requirements = selector.match_labels, selector.match_expressions
    return (len(labels) if labels else 0) + (_requirements(requirements) if requirements else 0)


def _requirements(requirements: list[wire.Requirement] | None) -> int:
    count = 0
    for one in requirements or ():
        count += 1
        if one.values is not None and len(one.values) >= _VALUES:
            count += len(one.values) // _VALUES
    return count


def _weight(weight: int) -> int:
    """A preference's weight; the API allows 1 to 100, a dump may hold anything."""
    return max(-_MAX_WEIGHT, min(weight, _MAX_WEIGHT))
