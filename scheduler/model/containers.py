"""What a pod's containers and volumes come to, read a part at a time: a tenant may write 15,000 containers.

Containers of an ordinary pod are read at once. Those of a large one that waits are read by whoever schedules the pod:
decoding them where they arrive would have everybody's next pods wait on the watch.
"""

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from operator import add, attrgetter
from typing import TYPE_CHECKING, TypeVar

import msgspec

from scheduler.model import wire
from scheduler.model.mistakes import misfit
from scheduler.model.once import hashed_once
from scheduler.model.packed import Text, packed, unpacked
from scheduler.model.pod_devices import device_containers, required_features
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
from scheduler.model.volumes import NO_VOLUMES, reading_volumes

if TYPE_CHECKING:
    from scheduler.model.shape import PodShape

Thing = TypeVar("Thing")

HostPort = tuple[str, str, int]
"""(host IP with 0.0.0.0 for any, protocol, port)."""
ANY_IP = "0.0.0.0"
UNREADABLE = "containers and volumes can't be read"
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
_PART = 64
"""How many containers are read before others have a turn."""
LARGE = 64 << 10
"""A container of more bytes is read at once: its 1,000 requests take some milliseconds."""
_MANY = 64
"""A pod with more containers and volumes than these takes some tenths of a millisecond to read."""
_MUCH = 4 << 10
"""So does a pod whose containers have more than so many bytes of resources and ports."""
_A_CONTAINER = 5
"""Steps that reading one takes, about; each of them adds as many to what is done for all together."""
_OF_RESOURCES = 32
"""Reading so many bytes of what a container asks for is another step."""
_BYTES = 64
"""So many bytes are split into containers or volumes in a tenth of a microsecond."""

_resources_decoder = msgspec.json.Decoder(wire.ResourceRequirements)
_amounts_decoder = msgspec.json.Decoder(wire.Amounts)
_ports_decoder = msgspec.json.Decoder(list[wire.ContainerPort])
_split_decoder = msgspec.json.Decoder(list[msgspec.Raw])
_container_decoder = msgspec.json.Decoder(wire.Container)
_volume_decoder = msgspec.json.Decoder(wire.Volume)
_status_decoder = msgspec.json.Decoder(wire.ContainerStatus)

_VIEW: Callable[[msgspec.Raw], memoryview] = memoryview
_LENGTH = attrgetter("nbytes")
_ALLOCATED = attrgetter("allocated_resources")
_ACTUAL = attrgetter("resources")


def reading_spec(shape: "PodShape", pod: wire.Pod) -> Iterator[int]:
    """Read containers and volumes into a shape; yields about how many steps each part took.

    Raises msgspec.ValidationError when a field has the wrong JSON type.
    """
    spec = pod.spec
    warnings: list[str] = []
    resources = yield from _pod_resources(pod, warnings)
    steps = len(resources.containers) + len(resources.init_containers)
    nano = pod_requests(resources, with_status=True)
    shape.requests = in_units(nano)
    yield steps
    shape.scoring = scoring_requests(resources, shape.requests)
    yield steps
    shape.nonzero = nonzero_requests(resources, nano)
    yield steps
    shape.host_ports = yield from _host_ports(spec)
    volumes = spec.volumes or []
    images = [c.image for c in (*(spec.init_containers or ()), *spec.containers)]
    images += [v.image.reference for v in volumes if v.image is not None]
    shape.images = tuple(map(normalised_image, images))
    yield len(images)
    shape.volumes = yield from reading_volumes(volumes)
    shape.containers = device_containers(resources, spec)
    yield steps
    shape.features = required_features(spec)
    shape.warnings = tuple(warnings)
    yield steps


def in_small_parts(pod: wire.UnreadPod) -> bool:
    """Whether nothing of it is so long that reading it holds up others: one container, what is reported of one …"""
    spec, status = pod.spec, pod.status
    for raw in (spec.containers, spec.init_containers):
        text = wire.present(raw)
        if len(text) > LARGE and max(_lengths(_split_decoder.decode(text)), default=0) > LARGE:
            return False
    alone = (spec.overhead, spec.resources, status.allocated_resources, status.resources)
    reported = _statuses(status)
    allocated, actual = map(_ALLOCATED, reported), map(_ACTUAL, reported)
    return sum(_lengths(alone)) <= LARGE and max(map(add, _lengths(allocated), _lengths(actual)), default=0) <= LARGE


def _lengths(texts: Iterable[msgspec.Raw]) -> Iterator[int]:
    """In bytes. Without a step of Python for each text, as there are thousands of them and nobody is charged."""
    return map(_LENGTH, map(_VIEW, texts))


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


def has_many(spec: wire.UnreadPodSpec) -> bool:
    """Whether a pod has so many containers and volumes, about, that reading them takes long.

    Their length does not say so. Environment variables are not read, and pods that differ in them alone share a shape
    as long as they are read at once.
    """
    containers, initial, volumes = map(wire.present, (spec.containers, spec.init_containers, spec.volumes))
    return containers.count(b'"image":') + initial.count(b'"image":') + volumes.count(b'"name":') > _MANY


def asks_much(spec: wire.PodSpec) -> bool:
    """Whether containers name so many resources and ports that reading them takes long."""
    containers = (*spec.containers, *(spec.init_containers or ()))
    return sum(len(wire.present(raw)) for one in containers for raw in (one.resources, one.ports)) > _MUCH


class WrittenSpec:
    """Containers and volumes of a pod as they are written, which may be read again and again.

    With them goes what a kubelet has reported of their resources.
    """

    __slots__ = ("_reports", "_spec", "_status", "_texts")

    def __init__(self, pod: wire.UnreadPod) -> None:
        spec, status = pod.spec, pod.status
        # A pod on a node is read soon, so that it does not pay to compress it.
        keep: Callable[[bytes], Text] = bytes if spec.node_name else packed
        # What is not copied would keep the bytes of the whole object.
        self._texts = tuple(keep(wire.present(raw)) for raw in (spec.containers, spec.init_containers, spec.volumes))
        self._spec = wire.PodSpec(
            resources=msgspec.Raw(bytes(spec.resources)),
            overhead=msgspec.Raw(bytes(spec.overhead)),
            host_network=spec.host_network,
            host_users=spec.host_users,
        )
        found = [one for one in _statuses(status) if bytes(one.allocated_resources) or bytes(one.resources)]
        self._reports = keep(b"[%b]" % b",".join(map(_as_text, found))) if found else b""
        self._status = wire.PodStatus(
            conditions=[one for one in status.conditions or () if _says_infeasible(one)][:1],
            allocated_resources=msgspec.Raw(bytes(status.allocated_resources)),
            resources=msgspec.Raw(bytes(status.resources)),
        )

    def reading(self, shape: "PodShape") -> Iterator[int]:
        """As `reading_spec`. What can't be read comes to nothing, and the shape's `warnings` say why."""
        containers, initial, volumes = map(unpacked, self._texts)
        try:
            spec = msgspec.structs.replace(
                self._spec,
                containers=(yield from _decoded(containers, _container_decoder)),
                init_containers=(yield from _decoded(initial, _container_decoder)),
                volumes=(yield from _decoded(volumes, _volume_decoder)),
            )
            reported = yield from _decoded(unpacked(self._reports), _status_decoder)
            status = msgspec.structs.replace(self._status, container_statuses=reported)
            yield from reading_spec(shape, wire.Pod(spec=spec, status=status))
        except msgspec.ValidationError as error:
            shape.requests, shape.scoring, shape.nonzero = {}, {}, (0, 0)
            shape.host_ports, shape.images = (), ()
            shape.volumes, shape.containers, shape.features = NO_VOLUMES, (), frozenset()
            shape.warnings = (f"{UNREADABLE}: {misfit(error)}",)


def _decoded(text: bytes, decoder: msgspec.json.Decoder[Thing]) -> Generator[int, None, list[Thing]]:
    found: list[Thing] = []
    if not text:
        return found
    each = _split_decoder.decode(text)
    yield len(text) // (10 * _BYTES)
    for start in range(0, len(each), _PART):
        found += map(decoder.decode, each[start : start + _PART])
        yield _PART
    return found


def resize_infeasible(status: wire.PodStatus) -> bool:
    """Whether the kubelet says that it can't give the pod the resources to which it is to be resized."""
    return any(map(_says_infeasible, status.conditions or ()))


def _says_infeasible(one: wire.Condition) -> bool:
    return one.type == "PodResizePending" and one.reason == "Infeasible"


def _as_text(one: wire.ContainerStatus) -> bytes:
    """A report as it is kept, without what is not read of it."""
    allocated, actual = bytes(one.allocated_resources) or b"null", bytes(one.resources) or b"null"
    name = msgspec.json.encode(one.name)
    return b'{"name":%b,"allocatedResources":%b,"resources":%b}' % (name, allocated, actual)


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


def _pod_resources(pod: wire.Pod, problems: list[str]) -> Generator[int, None, PodResources]:
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
        return ContainerRequests(
            _requests(c.resources, f"{path}.resources", problems) or {}, allocated, actual, c.restart_policy == "Always"
        )

    level = _requests(spec.resources, "spec.resources", problems) or {}
    allocated = _amounts(status.allocated_resources, "status.allocatedResources", problems)
    actual = _requests(status.resources, "status.resources", problems)

    def each(containers: Sequence[wire.Container], path: str) -> Generator[int, None, list[ContainerRequests]]:
        found: list[ContainerRequests] = []
        steps = 0
        for i, one in enumerate(containers):
            found.append(container(one, f"{path}[{i}]"))
            steps += _A_CONTAINER + len(wire.present(one.resources)) // _OF_RESOURCES
            if reported and (report := reported.get(one.name)) is not None:
                steps += (len(bytes(report.allocated_resources)) + len(bytes(report.resources))) // _OF_RESOURCES
            if steps >= _PART * _A_CONTAINER:
                yield steps
                steps = 0
        return found

    containers = yield from each(spec.containers, "spec.containers")
    initial = yield from each(spec.init_containers or (), "spec.initContainers")
    return PodResources(
        containers=containers,
        init_containers=initial,
        pod_level=level,
        overhead=_amounts(spec.overhead, "spec.overhead", problems),
        status_pod_level=(actual or {}, allocated) if wire.present(status.resources) else (),
        status_totals=(actual, allocated) if actual is not None and wire.present(status.allocated_resources) else None,
        resize_infeasible=resize_infeasible(status),
    )


def _host_ports(spec: wire.PodSpec) -> Generator[int, None, tuple[HostPort, ...]]:
    """Host ports of containers and sidecars (util.GetHostPorts)."""
    found: list[HostPort] = []
    steps = 0
    sidecars = [c for c in spec.init_containers or () if c.restart_policy == "Always"]
    for container in (*spec.containers, *sidecars):
        text = wire.present(container.ports)
        if b"hostPort" not in text:
            continue
        steps += 2 + len(text) // _BYTES
        if steps > _PART * _A_CONTAINER:
            yield steps
            steps = 0
        found.extend(
            (port.host_ip or ANY_IP, port.protocol or "TCP", port.host_port)
            for port in _ports_decoder.decode(text)
            if port.host_port > 0
        )
    return hashed_once(found)
