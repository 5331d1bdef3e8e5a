"""What of a pod's spec decides its placement, parsed once for all pods of a template.

Next stage: `scheduler.model.pod` shares one shape among pods whose bytes agree.
"""

import msgspec

from scheduler.model import wire
from scheduler.model.affinity import Terms, WeightedTerm, WeightedTerms, parse_affinity_term
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
from scheduler.model.selectors import (
    NodeSelector,
    NodeSelectorTerm,
    Requirement,
    SelectorError,
    parse_node_selector,
    parse_node_selector_term,
)
from scheduler.model.spread import SpreadConstraint, parse_spread_constraint
from scheduler.model.taints import Toleration, tolerations_of
from scheduler.model.volumes import PodVolumes, parse_volumes

HostPort = tuple[str, str, int]
"""(host IP with 0.0.0.0 for any, protocol, port)."""

_NO_TERMS = Terms()
_NO_WEIGHTED_TERMS = WeightedTerms()
_MAX_WEIGHT = 1 << 31
_MANY = 64
ANY_IP = "0.0.0.0"
HEAVY = 1 << 16
"""Ordinary shapes are parsed from some hundred bytes, and a tenant's may be from more than a million."""


class PodShape:
    """What of a pod's spec decides its placement. Compared by identity; never changed after parsing."""

    __slots__ = (
        "affinity_terms",
        "annotation_problem",
        "anti_affinity_terms",
        "claims",
        "containers",
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
    """The pod is a member of a pod group."""
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

    @property
    def heavy(self) -> bool:
        """Whether it is too big to be kept for pods to come."""
        return self.weight > HEAVY


_labels_decoder = msgspec.json.Decoder(dict[str, str])
_affinity_decoder = msgspec.json.Decoder(wire.Affinity)
_tolerations_decoder = msgspec.json.Decoder(list[wire.Toleration])
_resources_decoder = msgspec.json.Decoder(wire.ResourceRequirements)
_amounts_decoder = msgspec.json.Decoder(wire.Amounts)
_spread_decoder = msgspec.json.Decoder(list[wire.TopologySpreadConstraint])
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


def parse_shape(pod: wire.Pod, affinity: bytes, promise: str | None = None) -> PodShape:
    """Parse what decides a pod's placement. Bad parts end up in `problem` and `warnings`, never in an exception.

    `affinity`: the JSON to go by as spec.affinity, or nothing; `promise`: the text of its annotation.

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
    shape.scoring = scoring_requests(resources)
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
    shape.in_group = wire.present(spec.scheduling_group) not in (b"", b"{}")
    shape.containers = device_containers(resources, spec)
    shape.features = required_features(spec)
    shape.warnings = tuple(warnings)
    shape.problem = warnings[0] if any("not a quantity" in w for w in warnings) else None
    shape.annotation_problem = None
    _parse_affinity(shape, affinity)
    _parse_spread(shape, spec.topology_spread_constraints)
    return shape


def _parse_spread(shape: PodShape, raw: msgspec.Raw) -> None:
    shape.spread = ()
    text = wire.present(raw)
    if not text:
        return
    try:
        shape.spread = tuple(
            parse_spread_constraint(constraint, f"spec.topologySpreadConstraints[{i}]")
            for i, constraint in enumerate(_spread_decoder.decode(text))
        )
    except SelectorError as error:
        shape.problem = str(error)


def _tolerations(raw: msgspec.Raw) -> tuple[Toleration, ...]:
    text = wire.present(raw)
    decoded = _tolerations_decoder.decode(text) if text else ()
    return tolerations_of(Toleration(t.key or "", t.operator or "", t.value or "", t.effect or "") for t in decoded)


def _parse_affinity(shape: PodShape, text: bytes) -> None:
    shape.required_node_affinity = None
    shape.preferred_node_terms = ()
    shape.preferred_error = None
    shape.has_preferred_node_affinity = False
    shape.affinity_terms = shape.anti_affinity_terms = _NO_TERMS
    shape.preferred_pod_terms = _NO_WEIGHTED_TERMS
    if not text:
        return
    affinity = _affinity_decoder.decode(text)
    node = affinity.node_affinity
    if node is not None:
        where = "spec.affinity.nodeAffinity"
        if node.required is not None:
            shape.required_node_affinity = parse_node_selector(
                node.required, f"{where}.requiredDuringSchedulingIgnoredDuringExecution"
            )
        if node.preferred:
            shape.has_preferred_node_affinity = True
            shape.preferred_node_terms, shape.preferred_error = parse_preferred_node_terms(
                node.preferred, f"{where}.preferredDuringSchedulingIgnoredDuringExecution"
            )
    try:
        near, nearly = _pod_terms(affinity.pod_affinity, shape.namespace, "spec.affinity.podAffinity", 1)
        far, barely = _pod_terms(affinity.pod_anti_affinity, shape.namespace, "spec.affinity.podAntiAffinity", -1)
    except SelectorError as error:
        shape.problem = str(error)
        return
    shape.affinity_terms, shape.anti_affinity_terms = near, far
    shape.preferred_pod_terms = WeightedTerms((*nearly, *barely)) if nearly or barely else _NO_WEIGHTED_TERMS
    if len(text) > HEAVY:
        _work_out(shape)


def _work_out(shape: PodShape) -> None:
    """Work out now what is asked of terms later: so large an object is parsed beside the loop."""
    preferred = (one.term for one in shape.preferred_pod_terms)
    for term in (*shape.affinity_terms, *shape.anti_affinity_terms, *preferred):
        _ = term.selector.conditions, term.namespace_selector.conditions
    _ = shape.affinity_terms.by_key, shape.anti_affinity_terms.by_key
    for by_key in shape.preferred_pod_terms.by_sign:
        for of_key in by_key.values():
            if len(of_key) > _MANY:
                _ = hash(of_key.terms), hash(of_key.weights)
    _ = hash(shape.affinity_terms), hash(shape.anti_affinity_terms), hash(shape.preferred_pod_terms)


def parse_preferred_node_terms(
    terms: list[wire.PreferredSchedulingTerm], path: str
) -> tuple[tuple[tuple[int, NodeSelectorTerm], ...], str | None]:
    """(weight, term) pairs and the first error; terms of weight 0 or without content are left out unparsed."""
    found: list[tuple[int, NodeSelectorTerm]] = []
    error: str | None = None
    for i, term in enumerate(terms):
        preference = term.preference
        if term.weight == 0 or not (preference.match_expressions or preference.match_fields):
            continue
        parsed = parse_node_selector_term(preference, f"{path}[{i}].preference")
        if parsed.error is not None:
            error = error or parsed.error
        else:
            found.append((_weight(term.weight), parsed))
    return hashed_once(found), error


def _weight(weight: int) -> int:
    """A preference's weight; the API allows 1 to 100, a dump may hold anything."""
    return max(-_MAX_WEIGHT, min(weight, _MAX_WEIGHT))


def _pod_terms(
    affinity: wire.PodAffinity | None, namespace: str, path: str, sign: int
) -> tuple[Terms, tuple[WeightedTerm, ...]]:
    if affinity is None:
        return _NO_TERMS, ()
    required = Terms(
        parse_affinity_term(term, namespace, f"{path}.requiredDuringSchedulingIgnoredDuringExecution[{i}]")
        for i, term in enumerate(affinity.required or ())
    )
    preferred = tuple(
        WeightedTerm(
            parse_affinity_term(
                term.pod_affinity_term, namespace, f"{path}.preferredDuringSchedulingIgnoredDuringExecution[{i}]"
            ),
            sign * _weight(term.weight),
        )
        for i, term in enumerate(affinity.preferred or ())
        if term.weight
    )
    return required, preferred
