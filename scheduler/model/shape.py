"""What of a pod's spec decides its placement, parsed once for all pods of a template.

`terms` reads affinity and spread. Next stage: `scheduler.model.pod` shares one shape among pods whose bytes agree.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from scheduler.model import wire
from scheduler.model.affinity import Terms, WeightedTerms
from scheduler.model.containers import FIELDS as OF_SPEC
from scheduler.model.containers import UNREADABLE, HostPort, WrittenSpec, reading_spec
from scheduler.model.pod_devices import DeviceContainer, PodClaim, pod_claims
from scheduler.model.promise import Promise, parse_promise
from scheduler.model.selectors import NodeSelector, NodeSelectorTerm, Requirement
from scheduler.model.spread import SpreadConstraint
from scheduler.model.taints import Toleration, tolerations_of
from scheduler.model.terms import FIELDS as OF_TERMS
from scheduler.model.terms import Written
from scheduler.model.volumes import PodVolumes

LONG = 8 << 10
"""Terms of more bytes are read by whoever schedules the pod. Those of less take about half a millisecond."""
HEAVY = 1 << 16
"""Ordinary shapes are parsed from some hundred bytes, and a tenant's may be from more than a million."""


class PodShape:
    """What of a pod's spec decides its placement. Compared by identity; never changed after parsing.

    Thousands of terms are not read at once: that is work for whoever schedules the pod, a slice at a time (`read`).
    Whoever needs them sooner reads a field as usual, and they are read to their end then.
    """

    __slots__ = (
        "_unread",
        "_written",
        "affinity_digest",
        "affinity_terms",
        "annotation_problem",
        "annotations",
        "anti_affinity_terms",
        "claims",
        "containers",
        "digest",
        "features",
        "has_preferred_node_affinity",
        "has_required_pod_affinity",
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
        "tolerations",
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
    has_required_pod_affinity: bool
    """Stays known when the terms are forgotten. True as long as they have never been read."""
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
    volumes: PodVolumes
    """Claims and disks."""
    promise: Promise | None
    """What the pod asks of its node for as long as it runs; None: it says nothing."""
    weight: int
    """The bytes that it was parsed from: what keeping it costs is some ten times that."""
    digest: int
    """Equal where a pod asks for the same, whether its terms are read or not; 0 where they are short."""
    affinity_digest: int
    """The same for affinity and spread alone: equal where two pods ask for the same of these."""
    _unread: Iterator[int] | None
    """Reads the terms that are left."""
    _written: "_Unread | None"
    """What is read later as it is written; None: it is read once and for all."""

    @property
    def settled(self) -> bool:
        """Whether all terms are read, and stay."""
        return self._unread is None and self._written is None

    @property
    def complete(self) -> bool:
        """Whether all terms are read."""
        return self._unread is None

    def begin(self, written: "_Unread") -> None:
        """This is what `read` has to read."""
        self._written = written
        self._unread = written.reading(self)

    @property
    def forgettable(self) -> bool:
        """Whether what was read later can be read again."""
        return self._written is not None

    def take_over(self, other: "PodShape", fields: Iterable[str]) -> None:
        """Have the same fields as another shape, which was read from the same bytes there."""
        for name in fields:
            setattr(self, name, getattr(other, name))

    def all_read(self) -> None:
        """There is nothing to read any more."""
        self._unread = self._written = None

    @property
    def lends_terms(self) -> bool:
        """Whether others whose terms are written alike may take these over: all are read, and stay."""
        return self.settled and _problem(self.warnings) is None

    def hold(self) -> None:
        """What is read stays: a node has or is kept for a pod of this shape, so that it counts."""
        self._written = None

    def forget(self) -> None:
        """Let go of what was read later, but not of what was written: whoever needs it reads it again."""
        if self._written is None:
            return
        if self._unread is None:
            for name in self._written.fields:
                delattr(self, name)
        self._unread = self._written.reading(self)

    def read(self, charge: Callable[[int], None]) -> None:
        """Read the terms that are left; `charge` is told the steps that each part took.

        Raises what `charge` raises; asked again, it goes on with the next part.
        """
        unread = self._unread
        if unread is not None:
            for steps in unread:
                charge(steps)
            self._unread = None

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """A field that is not there yet."""
            if name not in _LATER or self._unread is None:
                raise AttributeError(f"a pod's shape has no {name}")
            self.read(_free)
            return getattr(self, name)

    @property
    def heavy(self) -> bool:
        """Whether it is too big to be kept for pods to come."""
        return self.weight > HEAVY


class Alike(NamedTuple):
    """Shapes of which parts were read from the same bytes: containers and volumes, and the terms."""

    spec: PodShape | None
    terms: PodShape | None


NOTHING_ALIKE = Alike(None, None)


class _Unread:
    """What of a pod is read later, as it is written: its terms, and containers and volumes of a large one."""

    __slots__ = ("_spec", "_terms", "fields")

    def __init__(self, terms: Written, spec: WrittenSpec | None = None) -> None:
        self._terms, self._spec = terms, spec
        self.fields = OF_TERMS if spec is None else _LATER
        """The fields of a shape that come of it."""

    def reading(self, shape: PodShape) -> Iterator[int]:
        """Read it into a shape; yields about how many steps each part took."""
        if self._spec is not None:
            yield from self._spec.reading(shape)
        yield from self._terms.reading(shape, _problem(shape.warnings))


_NO_ANNOTATIONS: Mapping[str, str] = {}
_LATER = OF_TERMS | OF_SPEC
"""The fields that may be read later."""
_tolerations_decoder = msgspec.json.Decoder(list[wire.Toleration])


def _node_selector(labels: dict[str, str]) -> tuple[Requirement, ...]:
    only = {value: frozenset((value,)) for value in set(labels.values())}
    return tuple([Requirement(key, "In", only[value]) for key, value in labels.items()])


def parse_shape(
    pod: wire.Pod | wire.UnreadPod,
    affinity: bytes,
    promise: str | None = None,
    *,
    in_group: bool = False,
    later: bool = False,
    alike: Alike = NOTHING_ALIKE,
) -> PodShape:
    """Parse what decides a pod's placement. Bad parts end up in `problem` and `warnings`, never in an exception.

    `affinity`: the JSON to go by as spec.affinity, or nothing; `promise`: the text of its annotation. `in_group`: it
    names a pod group. `later`: many terms may be read later on. Those of an UnreadPod are, and so are its containers
    and volumes. `alike`: shapes from which parts may be taken over.

    Raises msgspec.ValidationError when a field has the wrong JSON type.
    """
    spec = pod.spec
    shape = PodShape()
    shape.namespace = pod.metadata.namespace
    shape.weight = 0
    shape.tolerations = _tolerations(spec.tolerations)
    selector = wire.present(spec.node_selector)
    shape.node_selector = _node_selector(wire.texts_decoder.decode(selector)) if selector else ()
    shape.promise = parse_promise(promise)
    shape.claims = pod_claims(spec)
    shape.in_group = in_group
    shape.annotation_problem = None
    shape.annotations = _NO_ANNOTATIONS
    shape.has_required_pod_affinity = True
    spread = wire.present(spec.topology_spread_constraints)
    long = len(affinity) + len(spread) > LONG
    shape.digest = 0
    shape.affinity_digest = hash((affinity, spread)) if long else 0
    written = Written(shape.namespace, affinity, spread)
    if isinstance(pod, wire.UnreadPod):
        shape.begin(_Unread(written, WrittenSpec(pod)))
        written.prepare(soon=bool(pod.spec.node_name))
        return shape
    if alike.spec is not None:
        shape.take_over(alike.spec, OF_SPEC)
    else:
        for _ in reading_spec(shape, pod):
            pass
    if alike.terms is not None and _problem(shape.warnings) is None:
        shape.take_over(alike.terms, OF_TERMS)
        shape.all_read()
        return shape
    shape.begin(_Unread(written))
    if later and long:
        written.prepare()
    else:
        shape.read(_free)
        shape.hold()
    return shape


def _problem(warnings: Sequence[str]) -> str | None:
    """Why the pod can't be scheduled, if it is for one of these."""
    wrong = any("not a quantity" in warning or warning.startswith(UNREADABLE) for warning in warnings)
    return warnings[0] if wrong else None


def _free(_steps: int) -> None:
    """Nobody is charged."""


def _tolerations(raw: msgspec.Raw) -> tuple[Toleration, ...]:
    text = wire.present(raw)
    decoded = _tolerations_decoder.decode(text) if text else ()
    return tolerations_of(Toleration(t.key or "", t.operator or "", t.value or "", t.effect or "") for t in decoded)
