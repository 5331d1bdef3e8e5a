"""A pod's affinity and spread constraints."""

from collections.abc import Iterable, Sequence

import msgspec

from podberth.model import wire
from podberth.model.affinity import AffinityTerm, Terms, WeightedTerm, WeightedTerms, parse_affinity_term
from podberth.model.limits import Count
from podberth.model.once import hashed_once
from podberth.model.selectors import (
    NodeSelectorTerm,
    SelectorError,
    node_selector_of,
    parse_node_selector_term,
)
from podberth.model.shape import PodShape
from podberth.model.spread import SpreadConstraint, parse_spread_constraint

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_REQUIRED_NODES = f"spec.affinity.nodeAffinity.{_REQUIRED}.nodeSelectorTerms"
_PREFERRED_NODES = f"spec.affinity.nodeAffinity.{_PREFERRED}"
_NEAR, _FAR = "spec.affinity.podAffinity", "spec.affinity.podAntiAffinity"
_SPREAD = "spec.topologySpreadConstraints"
_NO_TERMS = Terms()
_NO_WEIGHTED_TERMS = WeightedTerms()
_MAX_WEIGHT = 1 << 31

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
"""The fields of a shape that are read here."""

_affinity_decoder = msgspec.json.Decoder(wire.Affinity)
_spread_decoder = msgspec.json.Decoder(list[wire.TopologySpreadConstraint])
_NO_AFFINITY = wire.Affinity()


def read_terms(shape: PodShape, affinity: bytes, spread: bytes, problem: str | None, count: Count) -> None:
    """Read affinity and spread constraints, as they are written in JSON, into a shape.

    `problem`: what was found wrong before. Terms beyond the limits are left out, and `count` says so.

    Raises msgspec.ValidationError when a field has the wrong JSON type.
    """
    asked = _affinity_decoder.decode(affinity) if affinity else _NO_AFFINITY
    constraints = _spread_decoder.decode(spread) if spread else ()
    _read_node_terms(shape, asked.node_affinity, count)
    attracts, repels, rather = _NO_TERMS, _NO_TERMS, _NO_WEIGHTED_TERMS
    apart: tuple[SpreadConstraint, ...] = ()
    near, far = asked.pod_affinity, asked.pod_anti_affinity
    limits = count.limits
    try:
        if near is not None or far is not None:
            written = [one for each in (near, far) if each for one in (*(each.required or ()), *(each.preferred or ()))]
            left = len(written)
            if not count.allows(left, "affinity_terms", "affinity terms"):
                left = limits.affinity_terms
            attracts, preferred, left = _pod_terms(shape.namespace, near, _NEAR, 1, count, left)
            repels, others, left = _pod_terms(shape.namespace, far, _FAR, -1, count, left)
            rather = WeightedTerms((*preferred, *others)) if preferred or others else _NO_WEIGHTED_TERMS
    except SelectorError as mistake:
        attracts, repels, rather, problem = _NO_TERMS, _NO_TERMS, _NO_WEIGHTED_TERMS, str(mistake)
    try:
        if constraints:
            apart = _constraints(constraints, count)
    except SelectorError as mistake:
        problem = str(mistake)
    shape.affinity_terms, shape.anti_affinity_terms, shape.preferred_pod_terms = attracts, repels, rather
    shape.spread = apart
    shape.problem = problem


def _read_node_terms(shape: PodShape, asked: wire.NodeAffinity | None, count: Count) -> None:
    shape.required_node_affinity = None
    shape.preferred_node_terms, shape.preferred_error, shape.has_preferred_node_affinity = (), None, False
    if asked is None:
        return
    required = None if asked.required is None else asked.required.node_selector_terms or ()
    preferred = asked.preferred or ()
    count.allows(len(required or ()) + len(preferred), "node_terms", "node affinity terms")
    if required is not None:
        some = required[: count.limits.node_terms]
        shape.required_node_affinity = node_selector_of(
            [
                parse_node_selector_term(term, f"{_REQUIRED_NODES}[{i}]")
                for i, term in enumerate(some)
                if count.allows_node_term(term)
            ]
        )
    if preferred:
        shape.has_preferred_node_affinity = True
        some_preferred = [one for one in preferred[: count.limits.node_terms] if count.allows_node_term(one.preference)]
        shape.preferred_node_terms, shape.preferred_error = parse_preferred_node_terms(some_preferred, _PREFERRED_NODES)


def _pod_terms(
    namespace: str, affinity: wire.PodAffinity | None, path: str, sign: int, count: Count, left: int
) -> tuple[Terms, tuple[WeightedTerm, ...], int]:
    """(required terms, preferred terms, how many more may be read). Raises SelectorError."""
    if affinity is None:
        return _NO_TERMS, (), left
    required: list[AffinityTerm] = []
    for i, term in enumerate((affinity.required or ())[:left]):
        left -= 1
        if count.allows_pod_term(term):
            required.append(parse_affinity_term(term, namespace, f"{path}.{_REQUIRED}[{i}]"))
    preferred: list[WeightedTerm] = []
    for i, weighted in enumerate((affinity.preferred or ())[:left]):
        left -= 1
        if weighted.weight and count.allows_pod_term(weighted.pod_affinity_term):
            read = parse_affinity_term(weighted.pod_affinity_term, namespace, f"{path}.{_PREFERRED}[{i}]")
            preferred.append(WeightedTerm(read, sign * _weight(weighted.weight)))
    return Terms(required), tuple(preferred), left


def _constraints(written: Sequence[wire.TopologySpreadConstraint], count: Count) -> tuple[SpreadConstraint, ...]:
    """Raises SelectorError."""
    most = count.limits.spread_constraints
    count.allows(len(written), "spread_constraints", "topology spread constraints")
    return tuple(
        [
            parse_spread_constraint(one, f"{_SPREAD}[{i}]")
            for i, one in enumerate(written[:most])
            if count.allows_constraint(one)
        ]
    )


def parse_preferred_node_terms(
    terms: Iterable[wire.PreferredSchedulingTerm], path: str
) -> tuple[tuple[tuple[int, NodeSelectorTerm], ...], str | None]:
    """(weight, term) pairs and the first error; terms of weight 0 or without content are left out."""
    found: list[tuple[int, NodeSelectorTerm]] = []
    error: str | None = None
    for i, term in enumerate(terms):
        if term.weight == 0:
            continue
        read = parse_node_selector_term(term.preference, f"{path}[{i}].preference")
        if read.error is not None:
            error = error or read.error
        elif read.labels or read.fields:
            found.append((_weight(term.weight), read))
    return hashed_once(found), error


def _weight(weight: int) -> int:
    """A preference's weight; the API allows 1 to 100, a dump may hold anything."""
    return max(-_MAX_WEIGHT, min(weight, _MAX_WEIGHT))
