"""Reads the shape of a pod: what of its spec decides its placement.

`containers` reads what it requests, `terms` affinity and spread. Next stage: `podberth.model.pod` shares one shape
among pods whose bytes agree.
"""

from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from podberth.model import wire
from podberth.model.containers import FIELDS as OF_SPEC
from podberth.model.containers import read_spec
from podberth.model.limits import LIMITS, Count, Limits
from podberth.model.pod_devices import pod_claims
from podberth.model.promise import parse_promise
from podberth.model.selectors import Requirement
from podberth.model.shape import PodShape, problem_of
from podberth.model.taints import Toleration, tolerations_of
from podberth.model.terms import FIELDS as OF_TERMS
from podberth.model.terms import read_terms


class Alike(NamedTuple):
    """Shapes of which parts were read from the same bytes: containers and volumes, and the terms."""

    spec: PodShape | None
    terms: PodShape | None


NOTHING_ALIKE = Alike(None, None)


_OF_TERM, _OF_SMALL = 40, 5
"""Steps of an attempt for a term, and for a toleration, a port, a resource or a label of the node selector."""
_NO_ANNOTATIONS: Mapping[str, str] = {}
_tolerations_decoder = msgspec.json.Decoder(list[wire.Toleration])


def _node_selector(labels: dict[str, str], count: Count) -> tuple[Requirement, ...]:
    most = count.limits.selector_requirements
    if not count.allows(len(labels), "selector_requirements", "labels in spec.nodeSelector"):
        labels = dict(list(labels.items())[:most])
    only = {value: frozenset((value,)) for value in set(labels.values())}
    return tuple([Requirement(key, "In", only[value]) for key, value in labels.items()])


def parse_shape(
    pod: wire.Pod,
    affinity: bytes,
    promise: str | None = None,
    *,
    in_group: bool = False,
    annotations: Mapping[str, str] = _NO_ANNOTATIONS,
    alike: Alike = NOTHING_ALIKE,
    limits: Limits = LIMITS,
) -> PodShape:
    """Parse what decides a pod's placement. Bad parts end up in `problem` and `warnings`, never in an exception.

    `affinity`: the JSON to go by as spec.affinity, or nothing; `promise`: the text of its annotation. `in_group`: it
    names a pod group. `annotations`: those that plugins read. `alike`: shapes from which parts may be taken over.

    Raises msgspec.ValidationError when a field has the wrong JSON type.
    """
    spec = pod.spec
    count = Count(limits)
    shape = PodShape()
    shape.namespace = pod.metadata.namespace
    shape.weight = 0
    shape.tolerations = _tolerations(spec.tolerations, count)
    selector = wire.present(spec.node_selector)
    shape.node_selector = _node_selector(wire.texts_decoder.decode(selector), count) if selector else ()
    shape.promise = parse_promise(promise)
    shape.claims = pod_claims(spec, count)
    shape.in_group = in_group
    shape.annotation_problem = None
    length = sum(map(len, annotations.values()))
    fits = count.allows(length, "annotation_bytes", "characters of annotations that plugins read")
    shape.annotations = annotations if fits else _NO_ANNOTATIONS
    if alike.spec is not None:
        shape.take_over(alike.spec, OF_SPEC)
    else:
        read_spec(shape, pod, count)
    problem = problem_of(shape.warnings)
    if alike.terms is not None and problem is None:
        shape.take_over(alike.terms, OF_TERMS)
    else:
        read_terms(shape, affinity, wire.present(spec.topology_spread_constraints), problem, count)
    shape.too_large = count.excess
    shape.steps = _steps(shape)
    return shape


def _steps(shape: PodShape) -> int:
    """At 5,000 nodes and 50,000 pods: a term takes 15 to 60, whichever it is."""
    pods = len(shape.affinity_terms) + len(shape.anti_affinity_terms) + len(shape.preferred_pod_terms)
    nodes = 0 if shape.required_node_affinity is None else len(shape.required_node_affinity.terms)
    others = len(shape.spread) + len(shape.claims) + len(shape.volumes.claims)
    terms = pods + nodes + len(shape.preferred_node_terms) + others
    small = len(shape.node_selector) + len(shape.tolerations) + len(shape.host_ports) + len(shape.requests)
    return _OF_TERM * terms + _OF_SMALL * small


def _tolerations(raw: msgspec.Raw, count: Count) -> tuple[Toleration, ...]:
    text = wire.present(raw)
    decoded = _tolerations_decoder.decode(text) if text else []
    if not count.allows(len(decoded), "tolerations", "tolerations"):
        decoded = decoded[: count.limits.tolerations]
    return tolerations_of(Toleration(t.key or "", t.operator or "", t.value or "", t.effect or "") for t in decoded)
