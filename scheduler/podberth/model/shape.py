"""The shape of a pod: what of its spec decides its placement, and how that is read.

Devices that it claims, features that its node has to declare, what its containers and volumes come to, affinity and
spread constraints. `podberth.model.pod` shares one shape among pods whose bytes agree.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import msgspec

from podberth.model import wire
from podberth.model.limits import LIMITS, Count, Excess, Limits
from podberth.model.once import hashed_once
from podberth.model.promise import DECLINED, OWN, NodeRequirement, Promise, parse_promise
from podberth.model.quantity import NANO
from podberth.model.resources import (
    IMPLICIT_PREFIX,
    ContainerRequests,
    Nano,
    PodResources,
    in_units,
    is_extended,
    nonzero_requests,
    parse_amounts,
    pod_requests,
    scoring_requests,
)
from podberth.model.selectors import (
    NodeSelector,
    NodeSelectorTerm,
    Requirement,
    SelectorError,
    node_selector_of,
    parse_node_selector_term,
)
from podberth.model.taints import Toleration, tolerations_of
from podberth.model.terms import (
    AffinityTerm,
    SpreadConstraint,
    Terms,
    WeightedTerm,
    WeightedTerms,
    parse_affinity_term,
    parse_spread_constraint,
)
from podberth.model.volumes import PodVolumes, read_volumes

_NO_FEATURES: frozenset[str] = frozenset()
_RESTART_ALL = "RestartAllContainersOnContainerExits"
_USER_NAMESPACES = "UserNamespacesHostNetworkSupport"
_MOUNT_OPTIONS = "VolumeBindMountOptions"
_claims_decoder = msgspec.json.Decoder(list[wire.PodClaim])
_rules_decoder = msgspec.json.Decoder(list[wire.RestartRule])
_mounts_decoder = msgspec.json.Decoder(list[wire.VolumeMount])

HostPort = tuple[str, str, int]
"""(host IP with 0.0.0.0 for any, protocol, port)."""
HEAVY = 1 << 16
"""Ordinary shapes are parsed from some hundred bytes, and a tenant's may be from more than a million."""
LARGE = 1 << 42
"""4 TiB, or so many of something: real pods ask for less. It takes two million pods of it to fill an int64."""
ANY_IP = "0.0.0.0"
OF_SPEC = frozenset(
    (
        "containers",
        "features",
        "host_ports",
        "images",
        "large",
        "nonzero",
        "requests",
        "scoring",
        "volumes",
        "warnings",
    )
)
"""The fields of a shape that are there once containers and volumes are read."""
_resources_decoder = msgspec.json.Decoder(wire.ResourceRequirements)
_amounts_decoder = msgspec.json.Decoder(wire.Amounts)
_ports_decoder = msgspec.json.Decoder(list[wire.ContainerPort])
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_REQUIRED_NODES = f"spec.affinity.nodeAffinity.{_REQUIRED}.nodeSelectorTerms"
_PREFERRED_NODES = f"spec.affinity.nodeAffinity.{_PREFERRED}"
_NEAR, _FAR = "spec.affinity.podAffinity", "spec.affinity.podAntiAffinity"
_SPREAD = "spec.topologySpreadConstraints"
_NO_TERMS = Terms()
_NO_WEIGHTED_TERMS = WeightedTerms()
_MAX_WEIGHT = 1 << 31
OF_TERMS = frozenset(
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
"""The fields of a shape that are there once affinity and spread constraints are read."""
_affinity_decoder = msgspec.json.Decoder(wire.Affinity)
_spread_decoder = msgspec.json.Decoder(list[wire.TopologySpreadConstraint])
_NO_AFFINITY = wire.Affinity()
_OF_TERM, _OF_SMALL = 40, 5
"""Steps of an attempt for a term, and for a toleration, a port, a resource or a label of the node selector."""
_NO_ANNOTATIONS: Mapping[str, str] = {}
_tolerations_decoder = msgspec.json.Decoder(list[wire.Toleration])


class PodClaim(NamedTuple):
    """One of spec.resourceClaims: a claim by name, or one that is made for the pod from a template."""

    name: str
    claim: str | None
    template: str | None


class DeviceContainer(NamedTuple):
    """A container's requests, by name of the resource in nano-units."""

    name: str
    short_lived: bool
    """An init container that ends before others start."""
    requests: Mapping[str, int]


def _pod_claims(spec: wire.PodSpec, count: Count) -> tuple[PodClaim, ...]:
    """Return the claims for devices that are within the limits."""
    text = wire.present(spec.resource_claims)
    if not text:
        return ()
    claims, most = claims_of(_claims_decoder.decode(text)), count.limits.resource_claims
    return claims if count.allows(len(claims), "resource_claims", "resource claims") else claims[:most]


def claims_of(written: Iterable[wire.PodClaim]) -> tuple[PodClaim, ...]:
    """Return the claims for devices as the spec of a pod or of a pod group names them."""
    return tuple([PodClaim(one.name, one.resource_claim_name, one.resource_claim_template_name) for one in written])


def may_be_devices(resource: str) -> bool:
    """Return whether a device class may serve requests for a resource (IsDRAExtendedResourceName)."""
    return is_extended(resource) or resource.startswith(IMPLICIT_PREFIX)


def _device_containers(resources: PodResources, spec: wire.PodSpec) -> tuple[DeviceContainer, ...]:
    """Return the containers, init containers first, if any asks for a resource that devices may serve."""
    asked = (*resources.init_containers, *resources.containers)
    if not any(may_be_devices(name) for container in asked for name in container.spec):
        return ()
    initial = len(resources.init_containers)
    named = (*(spec.init_containers or ()), *spec.containers)
    return tuple(
        [
            DeviceContainer(one.name, i < initial and not container.sidecar, container.spec)
            for i, (one, container) in enumerate(zip(named, asked, strict=True))
        ]
    )


def fewer(containers: Sequence[DeviceContainer], amounts: Mapping[str, int]) -> tuple[DeviceContainer, ...]:
    """Return the containers when they ask for so much in all: the last ones ask for less. Amounts in whole units."""
    left = {name: amount * NANO for name, amount in amounts.items()}
    found = []
    for one in containers:
        asked = dict(one.requests)
        for name in asked.keys() & left.keys():
            asked[name] = min(asked[name], left[name])
            if not one.short_lived:
                left[name] -= asked[name]
        found.append(one._replace(requests=asked))
    return tuple(found)


def required_features(spec: wire.PodSpec) -> frozenset[str]:
    """Return what a node has to declare to run the pod (InferForScheduling)."""
    found: list[str] = []
    containers = (*spec.containers, *(spec.init_containers or ()))
    if any(map(_restarts_all, containers)):
        found.append(_RESTART_ALL)
    if spec.host_network and spec.host_users is False:
        found.append(_USER_NAMESPACES)
    if any(map(_has_mount_options, containers)):
        found.append(_MOUNT_OPTIONS)
    return frozenset(found) if found else _NO_FEATURES


def _restarts_all(container: wire.Container) -> bool:
    rules = wire.present(container.restart_policy_rules)
    return bool(rules) and any(rule.action == "RestartAllContainers" for rule in _rules_decoder.decode(rules))


def _has_mount_options(container: wire.Container) -> bool:
    mounts = bytes(container.volume_mounts)
    if not wire.mentions(mounts, b"bindMountOptions"):
        return False
    return any(mount.bind_mount_options for mount in _mounts_decoder.decode(mounts))


@dataclass(slots=True, eq=False, init=False)
class PodShape:
    """The part of a pod's spec that decides its placement. Compared by identity; never changed after parsing."""

    namespace: str
    requests: dict[str, int]
    """Resource → amount for filtering (milli-cores, bytes, counts)."""
    scoring: dict[str, int]
    """Resource → amount that NodeResourcesFit assumes when it scores, with defaults for what is not asked for."""
    nonzero: tuple[int, int]
    """Milli-cpu and memory that the pod adds to its node for scoring once placed."""
    large: bool
    """It asks for more than `LARGE` of something: a few hundred such pods may be more than an int64 holds."""
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
    """The features that the pod's node has to declare (status.declaredFeatures)."""
    annotation_problem: str | None
    """Why affinity that the pod asks for by annotation can't be honoured."""
    annotations: Mapping[str, str]
    """Those that a plugin of any profile reads (`framework.reads`)."""
    problem: str | None
    """Why the pod can't be scheduled at all (its terms don't parse)."""
    warnings: tuple[str, ...]
    too_large: Excess | None
    """The limit that the pod is beyond (`podberth/model/limits.py`); None: none. The shape lacks what is beyond it."""
    volumes: PodVolumes
    """Claims and disks."""
    steps: int
    """About how many steps (microseconds of a core) its terms, constraints, claims and the like add to an attempt."""
    promise: Promise | None
    """Its annotation on what its node has to meet for as long as it runs; None: it has none."""
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


def read_spec(shape: PodShape, pod: wire.Pod, count: Count) -> None:
    """Read containers and volumes into a shape. All requests count, also those of containers beyond the limits.

    Raises msgspec.ValidationError when a field has the wrong JSON type.
    """
    spec = pod.spec
    warnings: list[str] = []
    containers = (*(spec.init_containers or ()), *spec.containers)
    count.allows(len(containers), "containers", "containers")
    resources = _pod_resources(pod, warnings)
    nano = pod_requests(resources, with_status=True)
    shape.requests = in_units(nano)
    count.allows(len(shape.requests), "resources", "resources requested")
    shape.scoring = scoring_requests(resources, shape.requests)
    shape.nonzero = nonzero_requests(resources, nano)
    shape.large = max(map(abs, (*shape.requests.values(), *shape.nonzero))) > LARGE
    shape.host_ports = _host_ports(spec)
    count.allows(len(shape.host_ports), "host_ports", "host ports")
    volumes = spec.volumes or []
    count.allows(len(volumes), "volumes", "volumes")
    images = [c.image for c in containers] + [v.image.reference for v in volumes if v.image is not None]
    shape.images = tuple(map(_normalised_image, images[: count.limits.containers + count.limits.volumes]))
    shape.volumes = read_volumes(volumes)
    shape.containers = _device_containers(resources, spec)
    shape.features = required_features(spec)
    shape.warnings = tuple(warnings)


def _statuses(status: wire.PodStatus) -> list[wire.ContainerStatus]:
    return [*(status.init_container_statuses or ()), *(status.container_statuses or ())]


def reports(status: wire.PodStatus) -> tuple[tuple[str, bytes, bytes], ...]:
    """Name, allocated and actual resources of each container of which the kubelet has reported any."""
    return tuple(
        [
            (one.name, bytes(one.allocated_resources), bytes(one.resources))
            for one in _statuses(status)
            if bytes(one.allocated_resources) or bytes(one.resources)
        ]
    )


def resize_infeasible(status: wire.PodStatus) -> bool:
    """Return whether the kubelet says that it can't give the pod the resources to which it is to be resized."""
    return any(one.type == "PodResizePending" and one.reason == "Infeasible" for one in status.conditions or ())


def _normalised_image(name: str) -> str:
    """Return the name with `:latest` where it has no tag (imagelocality, normalizedImageName)."""
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
    reported = {one.name: one for one in _statuses(status)}

    def container(c: wire.Container, path: str) -> ContainerRequests:
        report = reported.get(c.name)
        allocated = actual = None
        if report is not None:
            where = f"status.containerStatuses[{c.name}]"
            if wire.present(report.allocated_resources):
                allocated = _amounts(report.allocated_resources, f"{where}.allocatedResources", problems)
            actual = _requests(report.resources, f"{where}.resources", problems)
        asked = _requests(c.resources, f"{path}.resources", problems) or {}
        return ContainerRequests(asked, allocated, actual, c.restart_policy == "Always")

    level = _requests(spec.resources, "spec.resources", problems) or {}
    allocated = _amounts(status.allocated_resources, "status.allocatedResources", problems)
    actual = _requests(status.resources, "status.resources", problems)

    def each(containers: Sequence[wire.Container], path: str) -> list[ContainerRequests]:
        return [container(one, f"{path}[{i}]") for i, one in enumerate(containers)]

    return PodResources(
        containers=each(spec.containers, "spec.containers"),
        init_containers=each(spec.init_containers or (), "spec.initContainers"),
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
        if b"hostPort" in text:
            found.extend(
                (port.host_ip or ANY_IP, port.protocol or "TCP", port.host_port)
                for port in _ports_decoder.decode(text)
                if port.host_port > 0
            )
    return hashed_once(found)


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
    """Return (required terms, preferred terms, how many more may be read). Raises SelectorError."""
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
    """Return (weight, term) pairs and the first error; terms of weight 0 or without content are left out."""
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
    """Return a preference's weight; the API allows 1 to 100, a dump may hold anything."""
    return max(-_MAX_WEIGHT, min(weight, _MAX_WEIGHT))


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
    same_spec: PodShape | None = None,
    same_terms: PodShape | None = None,
    limits: Limits = LIMITS,
) -> PodShape:
    """Parse what decides a pod's placement. Bad parts end up in `problem` and `warnings`, never in an exception.

    `affinity`: the JSON to go by as spec.affinity, or nothing; `promise`: the text of its annotation. `in_group`: it
    names a pod group. `annotations`: those that plugins read. `same_spec`, `same_terms`: shapes of which containers
    and volumes, or affinity and spread constraints, were read from the same bytes: they are taken over.

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
    shape.claims = _pod_claims(spec, count)
    shape.in_group = in_group
    shape.annotation_problem = None
    length = sum(map(len, annotations.values()))
    fits = count.allows(length, "annotation_bytes", "characters of annotations that plugins read")
    shape.annotations = annotations if fits else _NO_ANNOTATIONS
    if same_spec is not None:
        shape.take_over(same_spec, OF_SPEC)
    else:
        read_spec(shape, pod, count)
    problem = problem_of(shape.warnings)
    if same_terms is not None and problem is None:
        shape.take_over(same_terms, OF_TERMS)
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
