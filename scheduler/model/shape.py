"""What of a pod's spec decides its placement, parsed once for all pods of a template.

`terms` reads affinity and spread. Next stage: `scheduler.model.pod` shares one shape among pods whose bytes agree.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from scheduler.model import wire
from scheduler.model.affinity import Terms, WeightedTerms
from scheduler.model.containers import FIELDS as OF_SPEC
from scheduler.model.containers import HostPort, read_spec
from scheduler.model.limits import LIMITS, Count, Limits
from scheduler.model.pod_devices import DeviceContainer, PodClaim, pod_claims
from scheduler.model.promise import Promise, parse_promise
from scheduler.model.selectors import NodeSelector, NodeSelectorTerm, Requirement
from scheduler.model.spread import SpreadConstraint
from scheduler.model.taints import Toleration, tolerations_of
from scheduler.model.terms import FIELDS as OF_TERMS
from scheduler.model.terms import read_terms
from scheduler.model.volumes import PodVolumes

HEAVY = 1 << 16
"""Ordinary shapes are parsed from some hundred bytes, and a tenant's may be from more than a million."""


class PodShape:
    """What of a pod's spec decides its placement. Compared by identity; never changed after parsing."""

    __slots__ = (
        "affinity_terms",
        "annotation_problem",
        "annotations",
        "anti_affinity_terms",
        "claims",
        "containers",
        "features",
        "has_preferred_node_affinity",
        "host_ports",
        "images",
        "in_group",
        "namespace",
        "node_selector",
        "nonzero",
        "preferred_error",
        "preferred_node_terms",
        "preferred_pod_terms",
        "problem",
        "promise",
        "requests",
        "required_node_affinity",
        "scoring",
        "spread",
        "steps",
        "tolerations",
        "too_large",
        "volumes",
        "warnings",
        "weight",
    )

    namespace: str
    requests: dict[str, int]
    """Resource → amount for filtering (milli-cores, bytes, counts)."""
    scoring: dict[str, int]
    """Resource → amount that NodeResourcesFit assumes when it scores, with defaults for what is not asked for."""
    nonzero: tuple[int, int]
    """Milli-cpu and memory that the pod adds to its node for scoring once placed."""
    host_ports: tuple[HostPort, ...]
    images: tuple[str, ...]
    """Normalised image names, init containers first, repeated where the spec repeats them."""
    node_selector: tuple[Requirement, ...]
    required_node_affinity: NodeSelector | None
    preferred_node_terms: tuple[tuple[int, NodeSelectorTerm], ...]
    has_preferred_node_affinity: bool
    """The pod lists preferred terms, if only ones that count for nothing."""
    preferred_error: str | None
    """A preferred term that did not parse fails the pod when it is scored."""
    affinity_terms: Terms
    anti_affinity_terms: Terms
    preferred_pod_terms: WeightedTerms
    tolerations: tuple[Toleration, ...]
    spread: tuple[SpreadConstraint, ...]
    claims: tuple[PodClaim, ...]
    """Claims for devices."""
    containers: tuple[DeviceContainer, ...]
    """The containers, if any of them asks for a resource that may be served by devices."""
    in_group: bool
    """The pod names a pod group. Which one is no part of the shape: members of all groups may share it."""
    features: frozenset[str]
    """What the pod needs its node to declare (status.declaredFeatures)."""
    annotation_problem: str | None
    """Why affinity that the pod asks for by annotation can't be honoured."""
    annotations: Mapping[str, str]
    """Those that a plugin of any profile reads (`framework.reads`)."""
    problem: str | None
    """Why the pod can't be scheduled at all (its terms don't parse)."""
    warnings: tuple[str, ...]
    too_large: str | None
    """Which limit the pod is beyond (`scheduler/model/limits.py`); None: none. What is left out of it, nobody sees."""
    volumes: PodVolumes
    """Claims and disks."""
    steps: int
    """About how many steps (microseconds of a core) its terms, constraints, claims and the like add to an attempt."""
    promise: Promise | None
    """What the pod asks of its node for as long as it runs; None: it says nothing."""
    weight: int
    """The bytes that it was parsed from: what keeping it costs is some ten times that."""

    def take_over(self, other: "PodShape", fields: Iterable[str]) -> None:
        """Have the same fields as another shape, which was read from the same bytes there."""
        for name in fields:
            setattr(self, name, getattr(other, name))

    @property
    def lends_terms(self) -> bool:
        """Whether others whose terms are written alike may take these over."""
        return _problem(self.warnings) is None and self.too_large is None

    @property
    def heavy(self) -> bool:
        """Whether it is too big to be kept for pods to come."""
        return self.weight > HEAVY


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
    if not count.allows(len(labels), most, "labels in spec.nodeSelector"):
        labels = dict(list(labels.items())[:most])
    only = {value: frozenset((value,)) for value in set(labels.values())}
    return tuple([Requirement(key, "In", only[value]) for key, value in labels.items()])


def parse_shape(
    pod: wire.Pod,
    affinity: bytes,
    promise: str | None = None,
    *,
    in_group: bool = False,
    alike: Alike = NOTHING_ALIKE,
    limits: Limits = LIMITS,
) -> PodShape:
    """Parse what decides a pod's placement. Bad parts end up in `problem` and `warnings`, never in an exception.

    `affinity`: the JSON to go by as spec.affinity, or nothing; `promise`: the text of its annotation. `in_group`: it
    names a pod group. `alike`: shapes from which parts may be taken over.

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
    shape.claims = pod_claims(spec)
    shape.in_group = in_group
    shape.annotation_problem = None
    shape.annotations = _NO_ANNOTATIONS
    if alike.spec is not None:
        shape.take_over(alike.spec, OF_SPEC)
    else:
        read_spec(shape, pod, count)
    problem = _problem(shape.warnings)
    if alike.terms is not None and problem is None:
        shape.take_over(alike.terms, OF_TERMS)
    else:
        read_terms(shape, affinity, wire.present(spec.topology_spread_constraints), problem, count)
    shape.too_large = count.excess
    shape.steps = _steps(shape)
    return shape


def _steps(shape: PodShape) -> int:
    """At 5,000 nodes and 50,000 pods: a term takes 15 to 60, whichever it is (`bench.whole`)."""
    pods = len(shape.affinity_terms) + len(shape.anti_affinity_terms) + len(shape.preferred_pod_terms)
    nodes = 0 if shape.required_node_affinity is None else len(shape.required_node_affinity.terms)
    others = len(shape.spread) + len(shape.claims) + len(shape.volumes.claims)
    terms = pods + nodes + len(shape.preferred_node_terms) + others
    small = len(shape.node_selector) + len(shape.tolerations) + len(shape.host_ports) + len(shape.requests)
    return _OF_TERM * terms + _OF_SMALL * small


def _problem(warnings: Sequence[str]) -> str | None:
    """Why the pod can't be scheduled, if it is for one of these."""
    return warnings[0] if any("not a quantity" in warning for warning in warnings) else None


def _tolerations(raw: msgspec.Raw, count: Count) -> tuple[Toleration, ...]:
    text = wire.present(raw)
    decoded = _tolerations_decoder.decode(text) if text else []
    if not count.allows(len(decoded), count.limits.tolerations, "tolerations"):
        decoded = decoded[: count.limits.tolerations]
    return tolerations_of(Toleration(t.key or "", t.operator or "", t.value or "", t.effect or "") for t in decoded)
