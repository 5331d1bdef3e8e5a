"""What of a pod's spec decides its placement, parsed once for all pods of a template.

Next stage: `podberth.model.shape_parse` reads it.
"""

from collections.abc import Iterable, Mapping, Sequence

from podberth.model.affinity import Terms, WeightedTerms
from podberth.model.limits import Excess
from podberth.model.pod_devices import DeviceContainer, PodClaim
from podberth.model.promise import DECLINED, OWN, NodeRequirement, Promise
from podberth.model.selectors import NodeSelector, NodeSelectorTerm, Requirement
from podberth.model.spread import SpreadConstraint
from podberth.model.taints import Toleration
from podberth.model.volumes import PodVolumes

HostPort = tuple[str, str, int]
"""(host IP with 0.0.0.0 for any, protocol, port)."""
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
    too_large: Excess | None
    """Which limit the pod is beyond (`podberth/model/limits.py`); None: none. What is left out of it, nobody sees."""
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
        """Return whether others whose terms are written alike may take these over."""
        return problem_of(self.warnings) is None and self.too_large is None

    @property
    def heavy(self) -> bool:
        """Return whether it is too big to be kept for pods to come."""
        return self.weight > HEAVY


def problem_of(warnings: Sequence[str]) -> str | None:
    """Return why the pod can't be scheduled, if it is for one of these."""
    return warnings[0] if any("not a quantity" in warning for warning in warnings) else None


def keeps_own(shape: PodShape, *, by_profile: bool = False) -> bool:
    """Return whether what the pod's spec requires has to hold while it runs. `by_profile`: as in `required`."""
    promise = shape.promise
    return by_profile if promise is None else promise == OWN


def required(shape: PodShape, *, by_profile: bool = False) -> NodeRequirement | None:
    """Return what the pod's node has to meet while it runs, None for nothing (or nothing that can be read).

    `by_profile`: its profile asks it of pods that say nothing.
    """
    promise = shape.promise
    if promise is None:
        promise = OWN if by_profile else DECLINED
    if promise.declined or promise.problem is not None:
        return None
    if promise.selector is not None:
        return NodeRequirement((), promise.selector)
    if not shape.node_selector and shape.required_node_affinity is None:
        return None
    return NodeRequirement(shape.node_selector, shape.required_node_affinity)
