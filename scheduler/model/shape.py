"""What of a pod's spec decides its placement, parsed once for all pods of a template.

`terms` reads affinity and spread. Next stage: `scheduler.model.pod` shares one shape among pods whose bytes agree.
"""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import msgspec

from scheduler.model import wire
from scheduler.model.affinity import Terms, WeightedTerms
from scheduler.model.once import hashed_once
from scheduler.model.pod_devices import DeviceContainer, PodClaim, device_containers, pod_claims, required_features
from scheduler.model.promise import Promise, parse_promise
from scheduler.model.resources import (
    ContainerRequests,
    Nano,
    PodResources,
    in_units,
    nonzero_requests,
    parse_amounts,
    pod_requests,
    scoring_requests,
)
from scheduler.model.selectors import NodeSelector, NodeSelectorTerm, Requirement
from scheduler.model.spread import SpreadConstraint
from scheduler.model.taints import Toleration, tolerations_of
from scheduler.model.terms import reading
from scheduler.model.volumes import PodVolumes, parse_volumes

HostPort = tuple[str, str, int]
"""(host IP with 0.0.0.0 for any, protocol, port)."""

ANY_IP = "0.0.0.0"
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
        "affinity_digest",
        "affinity_terms",
        "annotation_problem",
        "anti_affinity_terms",
        "claims",
        "containers",
        "digest",
        "features",
        "has_preferred_node_affinity",
        "host_ports",
        "image_count",
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
    image_count: int
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
    """As `digest`, of affinity and spread alone."""
    _unread: Iterator[int] | None
    """Reads the terms that are left."""

    @property
    def complete(self) -> bool:
        """Whether all terms are read."""
        return self._unread is None

    def begin(self, parts: Iterator[int]) -> None:
        """Do the first part of reading the terms: what can't be interrupted. The rest is for `read`."""
        self._unread = parts
        next(parts)

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
            if name not in _OF_TERMS or self._unread is None:
                raise AttributeError(f"a pod's shape has no {name}")
            self.read(lambda _steps: None)
            return getattr(self, name)

    @property
    def heavy(self) -> bool:
        """Whether it is too big to be kept for pods to come."""
        return self.weight > HEAVY


_OF_TERMS = frozenset(
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
"""The fields that are there once the terms are read."""
_labels_decoder = msgspec.json.Decoder(dict[str, str])
_tolerations_decoder = msgspec.json.Decoder(list[wire.Toleration])
_resources_decoder = msgspec.json.Decoder(wire.ResourceRequirements)
_amounts_decoder = msgspec.json.Decoder(wire.Amounts)
_ports_decoder = msgspec.json.Decoder(list[wire.ContainerPort])


def inline_disks(v: wire.Volume) -> tuple[bytes, ...]:
    """The volume sources that name a disk in the pod itself."""
    cloud = (v.gce_persistent_disk, v.aws_elastic_block_store, v.azure_disk, v.cinder, v.portworx_volume)
    return tuple(map(wire.present, (*cloud, v.iscsi, v.rbd, v.csi)))


def resize_infeasible(status: wire.PodStatus) -> bool:
    return any(c.type == "PodResizePending" and c.reason == "Infeasible" for c in status.conditions or ())


def normalised_image(name: str) -> str:
    """The name with `:latest` where it has no tag (imagelocality, normalizedImageName)."""
    return name if name.rfind(":") > name.rfind("/") else f"{name}:latest"


def _amounts(raw: msgspec.Raw, path: str, problems: list[str]) -> Nano:
    text = wire.present(raw)
    if not text:
        return {}
    nano, found = parse_amounts(_amounts_decoder.decode(text), path)
    problems.extend(found)
    return nano


def _requests(raw: msgspec.Raw, path: str, problems: list[str]) -> Nano | None:
    text = wire.present(raw)
    if not text:
        return None
    requests = _resources_decoder.decode(text).requests
    if requests is None:
        return None
    nano, found = parse_amounts(requests, f"{path}.requests")
    problems.extend(found)
    return nano


def _pod_resources(pod: wire.Pod, problems: list[str]) -> PodResources:
    spec, status = pod.spec, pod.status
    reports = {s.name: s for s in (*(status.init_container_statuses or ()), *(status.container_statuses or ()))}

    def container(c: wire.Container, path: str) -> ContainerRequests:
        report = reports.get(c.name)
        allocated = actual = None
        if report is not None:
            where = f"status.containerStatuses[{c.name}]"
            if wire.present(report.allocated_resources):
                allocated = _amounts(report.allocated_resources, f"{where}.allocatedResources", problems)
            actual = _requests(report.resources, f"{where}.resources", problems)
        return ContainerRequests(
            _requests(c.resources, f"{path}.resources", problems) or {}, allocated, actual, c.restart_policy == "Always"
        )

    level = _requests(spec.resources, "spec.resources", problems) or {}
    allocated = _amounts(status.allocated_resources, "status.allocatedResources", problems)
    actual = _requests(status.resources, "status.resources", problems)
    return PodResources(
        containers=[container(c, f"spec.containers[{i}]") for i, c in enumerate(spec.containers)],
        init_containers=[container(c, f"spec.initContainers[{i}]") for i, c in enumerate(spec.init_containers or ())],
        pod_level=level,
        overhead=_amounts(spec.overhead, "spec.overhead", problems),
        status_pod_level=(actual or {}, allocated) if wire.present(status.resources) else (),
        status_totals=(actual, allocated) if actual is not None and wire.present(status.allocated_resources) else None,
        resize_infeasible=resize_infeasible(status),
    )


def _host_ports(spec: wire.PodSpec) -> tuple[HostPort, ...]:
    """Host ports of containers and sidecars (util.GetHostPorts)."""
    found: list[HostPort] = []
    sidecars = [c for c in spec.init_containers or () if c.restart_policy == "Always"]
    for container in (*spec.containers, *sidecars):
        text = wire.present(container.ports)
        if b"hostPort" not in text:
            continue
        found.extend(
            (port.host_ip or ANY_IP, port.protocol or "TCP", port.host_port)
            for port in _ports_decoder.decode(text)
            if port.host_port > 0
        )
    return hashed_once(found)


def parse_shape(
    pod: wire.Pod, affinity: bytes, promise: str | None = None, *, in_group: bool = False, later: bool = False
) -> PodShape:
    """Parse what decides a pod's placement. Bad parts end up in `problem` and `warnings`, never in an exception.

    `affinity`: the JSON to go by as spec.affinity, or nothing; `promise`: the text of its annotation. `in_group`: it
    names a pod group. `later`: many terms may be read later on.

    Raises msgspec.ValidationError when a field has the wrong JSON type.
    """
    spec = pod.spec
    shape = PodShape()
    shape.namespace = pod.metadata.namespace
    shape.weight = 0
    warnings: list[str] = []
    resources = _pod_resources(pod, warnings)
    nano = pod_requests(resources, with_status=True)
    shape.requests = in_units(nano)
    shape.scoring = scoring_requests(resources, shape.requests)
    shape.nonzero = nonzero_requests(resources, nano)
    shape.host_ports = _host_ports(spec)
    volumes = spec.volumes or []
    images = [c.image for c in (*(spec.init_containers or ()), *spec.containers)]
    images += [v.image.reference for v in volumes if v.image is not None]
    shape.images = tuple(map(normalised_image, images))
    shape.image_count = len(images)
    shape.tolerations = _tolerations(spec.tolerations)
    selector = wire.present(spec.node_selector)
    shape.node_selector = tuple(
        Requirement(key, "In", frozenset((value,)))
        for key, value in (_labels_decoder.decode(selector).items() if selector else ())
    )
    shape.volumes = parse_volumes(volumes)
    shape.promise = parse_promise(promise)
    shape.claims = pod_claims(spec)
    shape.in_group = in_group
    shape.containers = device_containers(resources, spec)
    shape.features = required_features(spec)
    shape.warnings = tuple(warnings)
    shape.annotation_problem = None
    problem = warnings[0] if any("not a quantity" in w for w in warnings) else None
    spread = wire.present(spec.topology_spread_constraints)
    long = len(affinity) + len(spread) > LONG
    shape.digest = 0
    shape.affinity_digest = hash((affinity, spread)) if long else 0
    shape.begin(reading(shape, affinity, spread, problem))
    if not (later and long):
        shape.read(_free)
    return shape


def _free(_steps: int) -> None:
    """Nobody is charged."""


def _tolerations(raw: msgspec.Raw) -> tuple[Toleration, ...]:
    text = wire.present(raw)
    decoded = _tolerations_decoder.decode(text) if text else ()
    return tolerations_of(Toleration(t.key or "", t.operator or "", t.value or "", t.effect or "") for t in decoded)
