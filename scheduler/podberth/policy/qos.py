"""The QoS class of a pod as the API server will store it in `status.qosClass`.

Upstream, release 1.37: `pkg/apis/core/v1/helper/qos/qos.go` (ComputePodQOS); before it runs, requests are defaulted
from limits (`pkg/apis/core/v1/defaults.go` SetDefaults_Pod, before webhooks see a pod) and pod-level resources from the
containers (`pkg/api/pod/util.go` DefaultPodLevelResources, after webhooks). Both are repeated here without effect on
the object, so a manifest, a pod at mutating time and a stored pod all get the same class.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Literal, NamedTuple, TypedDict

from podberth.model.mistakes import as_json
from podberth.model.quantity import MILLI, QuantityError, parse_nano
from podberth.model.resources import ContainerRequests, Nano, PodResources, is_pod_level, pod_requests

QosClass = Literal["Guaranteed", "Burstable", "BestEffort"]
CLASSES: tuple[QosClass, ...] = ("Guaranteed", "Burstable", "BestEffort")
_COUNTED = ("cpu", "memory")
_KNOWN_LENGTH = 20


class Amounts(TypedDict, total=False):
    """A container's or a pod's `resources`, as far as they are read."""

    requests: dict[str, Any] | None
    limits: dict[str, Any] | None


class Container(TypedDict, total=False):
    """A container, as far as it is read."""

    resources: Amounts | None
    restartPolicy: Any


class PodSpec(TypedDict, total=False):
    """The fields of a pod's spec that decide its class, and its scheduler."""

    containers: list[Container] | None
    initContainers: list[Container] | None
    resources: Amounts | None
    schedulerName: Any


class Resources(NamedTuple):
    """Requests and limits of a container, or of a pod as a whole."""

    requests: Nano
    limits: Nano


class _Container(NamedTuple):
    resources: Resources
    sidecar: bool


def qos_class(pod: Mapping[str, Any]) -> QosClass:
    """Return the class that the API server gives this pod, defaulted or not.

    Raises QuantityError where it would refuse the pod for an amount that is no quantity.
    """
    spec = _map(pod.get("spec"))
    init = [_container(item) for item in _list(spec.get("initContainers"))]
    main = [_container(item) for item in _list(spec.get("containers"))]
    level = None if spec.get("resources") is None else _resources(spec["resources"])
    if level is not None:
        level = _default_pod_level(level, init, main)
    return compute(level, [container.resources for container in (*init, *main)])


def compute(level: Resources | None, containers: Iterable[Resources]) -> QosClass:
    """ComputePodQOS: pod-level resources when there are any, else all containers, init containers included."""
    if level is not None and any(is_pod_level(name) for name in (*level.requests, *level.limits)):
        return _of_requirements(level)
    found = {_of_requirements(container) for container in containers}
    if len(found) > 1:
        return "Burstable"
    return found.pop() if found else "BestEffort"


def _of_requirements(resources: Resources) -> QosClass:
    """requirementsQOS and resourceQOS: zero is as good as absent."""
    found: set[QosClass] = set()
    for name in _COUNTED:
        request, limit = resources.requests.get(name, 0), resources.limits.get(name, 0)
        if request != limit:
            return "Burstable"
        found.add("BestEffort" if request == 0 else "Guaranteed")
    return found.pop() if len(found) == 1 else "Burstable"


def _container(item: Any) -> _Container:
    """Return a container's resources after SetDefaults_Pod."""
    requests, limits = _resources(_map(item).get("resources"))
    return _Container(Resources(limits | requests, limits), _map(item).get("restartPolicy") == "Always")


def _default_pod_level(level: Resources, init: Sequence[_Container], main: Sequence[_Container]) -> Resources:
    """DefaultPodLevelResources."""
    requests, limits = dict(level.requests), dict(level.limits)
    if not requests and not limits:
        return level
    asked, bounded = _sum(init, main, requests=True), _sum(init, main, requests=False)
    for name, amount in bounded.items():
        if name.startswith("hugepages-") and name not in requests:
            limits.setdefault(name, amount)
    for name, amount in asked.items():
        if name in _COUNTED:
            requests.setdefault(name, amount)
    for name, amount in limits.items():
        if is_pod_level(name):
            requests.setdefault(name, amount)
    for name, amount in requests.items():
        everywhere = all(name in container.resources.limits for container in (*init, *main))
        if is_pod_level(name) and name not in limits and everywhere and name in bounded:
            limits[name] = max(amount, bounded[name])
    return Resources(requests, limits)


def _sum(init: Sequence[_Container], main: Sequence[_Container], *, requests: bool) -> Nano:
    """Return the sum of AggregateContainerRequests or AggregateContainerLimits."""

    def counted(container: _Container) -> ContainerRequests:
        resources = container.resources
        return ContainerRequests(resources.requests if requests else resources.limits, sidecar=container.sidecar)

    return pod_requests(PodResources([counted(one) for one in main], [counted(one) for one in init]))


def _resources(item: Any) -> Resources:
    found = _map(item)
    return Resources(_amounts(found.get("requests")), _amounts(found.get("limits")))


def _amounts(item: Any) -> Nano:
    """Return a ResourceList as the API server reads it: in thousandths, rounded up (SetDefaults_ResourceList)."""
    return {name: _rounded(amount) for name, amount in _map(item).items()}


def _rounded(amount: Any) -> int:
    if amount is None:
        return 0
    if not isinstance(amount, str | int | float) or isinstance(amount, bool):
        raise QuantityError(f"{as_json(amount)} is not a quantity")
    return _known(amount) if isinstance(amount, str) and len(amount) < _KNOWN_LENGTH else _parsed(amount)


@lru_cache(1024)  # people write the same few again and again
def _known(amount: str) -> int:
    return _parsed(amount)


def _parsed(amount: str | float) -> int:
    nano = parse_nano(amount)
    size = -(-abs(nano) // MILLI) * MILLI
    return size if nano >= 0 else -size


def _map(item: Any) -> Mapping[str, Any]:
    return item if isinstance(item, dict) else {}


def _list(item: Any) -> list[Any]:
    return item if isinstance(item, list) else []
