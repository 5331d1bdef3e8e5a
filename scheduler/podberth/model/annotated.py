"""Affinity by annotation, as pods asked for it before `spec.affinity` existed (seed era).

The annotation holds the JSON of an Affinity. `replace`: it takes the place of the fields of `spec.affinity` that it
names; `add`: both must hold. The API server has checked nothing of it, so it is parsed strictly here. The seed's
`requiredDuringSchedulingRequiredDuringExecution` is a requirement like the other when a pod is scheduled. Its preferred
terms are flat: `matchExpressions` stands beside `weight`, where the API has it in `preference`; both forms are read.
"""

from collections.abc import Mapping
from typing import Any, Literal

import msgspec
from msgspec import Struct

from podberth.model import wire
from podberth.model.mistakes import as_json, misfit, unknown_fields
from podberth.model.selectors import SelectorError, is_qualified_name, parse_node_selector_term
from podberth.model.terms import parse_affinity_term

AFFINITY = "scheduler.alpha.kubernetes.io/affinity"
MODE = "podberth.dev/affinity-mode"
Mode = Literal["replace", "add"]
MODES: tuple[Mode, ...] = ("replace", "add")
_NONE: frozenset[str] = frozenset()
_NOTHING: Mapping[str, str] = {}
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_ALSO_REQUIRED = "requiredDuringSchedulingRequiredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_MARK = AFFINITY.encode()
_TERMS = 1000
"""Bound on what two lists of ORed terms may multiply to."""


class AnnotationsRead(Struct, frozen=True):
    """The annotations that a decoder keeps; it drops all others."""

    affinity: Mapping[str, Mode] = {}
    """schedulerName → what affinity by annotation does to its pods, unless a pod says so itself."""
    of_nodes: frozenset[str] = _NONE
    of_pods: frozenset[str] = _NONE
    """Keys that plugins read (`framework.reads`)."""


NOTHING_READ = AnnotationsRead()
DECIDING = (
    "pv.kubernetes.io/",
    "volume.kubernetes.io/",
    "volume.beta.kubernetes.io/",
    "storageclass.kubernetes.io/",
    "storageclass.beta.kubernetes.io/",
    "storage.alpha.kubernetes.io/",
    "resource.kubernetes.io/",
    "scheduler.alpha.kubernetes.io/",
    "podberth.dev/",
    "kubernetes.io/config.",
)
"""What the keys of annotations begin with that are kept where an object is passed on: Berth itself reads them."""


def kept(annotations: msgspec.Raw, keys: frozenset[str]) -> Mapping[str, str]:
    """Return the annotations that have one of these keys. Nothing is decoded where no key is among the bytes."""
    text = bytes(annotations)
    # A key may be written with its slash escaped, so what stands behind the slash is looked for.
    if not any(wire.mentions(text, key.rpartition("/")[2].encode()) for key in keys):
        return _NOTHING
    return {key: value for key, value in wire.texts_decoder.decode(text).items() if key in keys}


class _NodeAffinity(wire.NodeAffinity):
    """Node affinity as the API has it, and the field that only the seed had."""

    also_required: wire.NodeSelector | None = msgspec.field(default=None, name=_ALSO_REQUIRED)


class _Affinity(wire.Affinity):
    node_affinity: _NodeAffinity | None = None


class AnnotationError(ValueError):
    """An annotation that can't be honoured; the text names it, the field and what was expected."""


def carries(annotations: msgspec.Raw) -> bool:
    """Return whether these annotations may hold the affinity: a look at the bytes, before anything is decoded."""
    return _MARK in bytes(annotations)


def affinity_of(annotations: bytes, own: bytes, namespace: str, usual: Mode) -> bytes:
    """Return the affinity that a pod asks for by spec (`own`, JSON or nothing) and annotations together, as JSON.

    Raises AnnotationError.
    """
    try:
        held = wire.texts_decoder.decode(annotations)
        text = held.get(AFFINITY)
        if text is None:
            return own
        given = _parsed(text, namespace)
        mode = held.get(MODE, usual)
        there = msgspec.json.decode(own) if own else {}
        if mode == "add":
            given = {field: _both(there.get(field) or {}, asked) for field, asked in given.items()}
    except (ValueError, RecursionError) as error:
        raise AnnotationError(f"annotation {AFFINITY}: {_told(error)}") from None
    if mode not in MODES:
        raise AnnotationError(f"annotation {MODE}: {as_json(mode)}: expected replace or add")
    return msgspec.json.encode(there | given)


def _parsed(text: str, namespace: str) -> dict[str, Any]:
    """Return the annotation's fields.

    Raises ValueError (of which msgspec's and the selectors' errors are kinds).
    """
    document = msgspec.json.decode(text)
    if not isinstance(document, dict):
        raise ValueError(f"{as_json(text)}: expected the JSON of an Affinity, an object")
    _nest_preferences(document.get("nodeAffinity"))
    for path, meant in unknown_fields(document, _Affinity):
        raise ValueError(f"{path}: unknown field{f' (did you mean {meant}?)' if meant else ''}")
    affinity = msgspec.convert(document, _Affinity)
    if affinity.node_affinity is not None:
        _check_node_affinity(affinity.node_affinity)
    for field, pods in (("podAffinity", affinity.pod_affinity), ("podAntiAffinity", affinity.pod_anti_affinity)):
        if pods is not None:
            _check_pod_affinity(pods, namespace, field)
    named = {field: value for field, value in document.items() if value is not None}
    if affinity.node_affinity is not None and affinity.node_affinity.also_required is not None:
        node = dict(named["nodeAffinity"])
        named["nodeAffinity"] = _both({_REQUIRED: node.pop(_ALSO_REQUIRED)}, node)
    return named


def _nest_preferences(affinity: Any) -> None:
    """Write the flat preferred terms of a node affinity as the API has them."""
    preferred = affinity.get(_PREFERRED) if isinstance(affinity, dict) else None
    for term in preferred if isinstance(preferred, list) else ():
        if isinstance(term, dict) and "matchExpressions" in term and "preference" not in term:
            term["preference"] = {"matchExpressions": term.pop("matchExpressions")}


def _check_node_affinity(affinity: _NodeAffinity) -> None:
    terms: list[tuple[wire.NodeSelectorTerm | None, str]] = []
    for kind, required in ((_REQUIRED, affinity.required), (_ALSO_REQUIRED, affinity.also_required)):
        if required is not None:
            where = f"nodeAffinity.{kind}.nodeSelectorTerms"
            if not required.node_selector_terms:
                raise ValueError(f"{where}: must have at least one node selector term")
            terms += [(term, f"{where}[{i}]") for i, term in enumerate(required.node_selector_terms)]
    for i, preferred in enumerate(affinity.preferred or ()):
        where = f"nodeAffinity.{_PREFERRED}[{i}]"
        _check_weight(preferred.weight, where)
        terms.append((preferred.preference, f"{where}.preference"))
    for term, where in terms:
        error = parse_node_selector_term(term, where).error
        if error is not None:
            raise ValueError(error)


def _check_pod_affinity(affinity: wire.PodAffinity, namespace: str, field: str) -> None:
    terms = [(term, f"{field}.{_REQUIRED}[{i}]") for i, term in enumerate(affinity.required or ())]
    for i, preferred in enumerate(affinity.preferred or ()):
        where = f"{field}.{_PREFERRED}[{i}]"
        _check_weight(preferred.weight, where)
        terms.append((preferred.pod_affinity_term, f"{where}.podAffinityTerm"))
    for term, where in terms:
        if not is_qualified_name(term.topology_key):
            raise ValueError(f"{where}.topologyKey: {as_json(term.topology_key)}: expected a label key")
        parse_affinity_term(term, namespace, where)


def _check_weight(weight: int, where: str) -> None:
    if not 1 <= weight <= 100:
        raise ValueError(f"{where}.weight: {weight}: expected 1 to 100")


def _both(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    """Return a node, pod or pod anti-affinity that asks for what both ask for."""
    made = dict(one)
    for kind, asked in other.items():
        there = one.get(kind)
        if not there or not asked:
            made[kind] = there or asked
        elif isinstance(there, list):
            made[kind] = there + asked
        else:
            made[kind] = {"nodeSelectorTerms": _anded(_terms(there), _terms(asked))}
    return made


def _terms(selector: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the terms that can match a node: an empty one matches none, and must not vanish into another."""
    terms = selector.get("nodeSelectorTerms") or ()
    return [term for term in terms if term and (term.get("matchExpressions") or term.get("matchFields"))]


def _anded(some: list[dict[str, Any]], others: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the terms of (a or b) and (c or d), spelled as node selectors can: a and c, or a and d, or …

    Raises ValueError when that would be too many.
    """
    if len(some) * len(others) > _TERMS:
        raise ValueError(f"{len(some)} × {len(others)} node selector terms together: expected at most {_TERMS}")
    return [
        {part: (one.get(part) or []) + (other.get(part) or []) for part in ("matchExpressions", "matchFields")}
        for one in some
        for other in others
    ]


def _told(error: Exception) -> str:
    if isinstance(error, SelectorError):
        return str(error)
    if isinstance(error, (RecursionError, msgspec.ValidationError)):
        return misfit(error)
    if isinstance(error, msgspec.DecodeError):
        return f"not JSON: {error}"
    return str(error)
