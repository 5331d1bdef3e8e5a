"""What a pod's containers and volumes come to."""

from collections.abc import Sequence

import msgspec

from podberth.model import wire
from podberth.model.limits import Count
from podberth.model.once import hashed_once
from podberth.model.pod_devices import device_containers, required_features
from podberth.model.resources import (
    ContainerRequests,
    Nano,
    PodResources,
    in_units,
    nonzero_requests,
    parse_amounts,
    pod_requests,
    scoring_requests,
)
from podberth.model.shape import HostPort, PodShape
from podberth.model.volumes import read_volumes

ANY_IP = "0.0.0.0"
FIELDS = frozenset(
    (
        "containers",
        "features",
        "host_ports",
        "images",
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
    shape.host_ports = _host_ports(spec)
    count.allows(len(shape.host_ports), "host_ports", "host ports")
    volumes = spec.volumes or []
    count.allows(len(volumes), "volumes", "volumes")
    images = [c.image for c in containers] + [v.image.reference for v in volumes if v.image is not None]
    shape.images = tuple(map(normalised_image, images[: count.limits.containers + count.limits.volumes]))
    shape.volumes = read_volumes(volumes)
    shape.containers = device_containers(resources, spec)
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
