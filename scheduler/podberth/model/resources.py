"""The resources that a pod requests, summed exactly.

Mirrors component-helpers `resource/helpers.go` (PodRequests, AggregateContainerRequests) and
kube-scheduler `framework/types.go` (Resource, PodInfo.CalculateResource): requests are
max(init, Σ containers + sidecars) + overhead, pod-level resources replace the sum, and once the
kubelet reports allocated or actual resources the largest of the three counts.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache

from msgspec import Struct, field
from msgspec.structs import replace

from podberth.model.mistakes import as_json
from podberth.model.quantity import QuantityError, is_absurd, milli_units, parse_nano, units
from podberth.model.selectors import is_qualified_name
from podberth.model.wire import Amounts

Nano = dict[str, int]
"""Resource name → nano-units."""

# Requests assumed for scoring where a container names none (kube-scheduler util/pod_resources.go).
_DEFAULTS: Nano = {"cpu": parse_nano("100m"), "memory": parse_nano("200Mi")}

CORE = ("cpu", "memory", "ephemeral-storage")
IMPLICIT_PREFIX = "deviceclass.resource.kubernetes.io/"
"""Followed by the name of a device class: an extended resource that the class serves without naming it."""


class ContainerRequests(Struct, frozen=True):
    """One container's requests by source, in nano-units."""

    spec: Nano
    allocated: Nano | None = None
    actual: Nano | None = None
    sidecar: bool = False


class PodResources(Struct, frozen=True):
    """Every source that PodRequests reads."""

    containers: Sequence[ContainerRequests]
    init_containers: Sequence[ContainerRequests] = ()
    pod_level: Nano = field(default_factory=dict)
    overhead: Nano = field(default_factory=dict)
    status_pod_level: Sequence[Nano] = ()
    status_totals: tuple[Nano, Nano] | None = None
    resize_infeasible: bool = False

    @property
    def reported(self) -> bool:
        """Return whether what the kubelet reports may differ from the spec."""
        return (
            self.resize_infeasible
            or self.status_totals is not None
            or bool(self.status_pod_level)
            or any(
                one.allocated is not None or one.actual is not None for one in (*self.containers, *self.init_containers)
            )
        )

    @property
    def says_all(self) -> bool:
        """Return whether nothing is assumed: each container asks for cpu and memory, and neither pod nor kubelet says
        more.
        """
        return (
            bool(self.containers)
            and not self.pod_level
            and not self.reported
            and all(_DEFAULTS.keys() <= one.spec.keys() for one in (*self.containers, *self.init_containers))
        )


def parse_amounts(amounts: Amounts | None, path: str) -> tuple[Nano, list[str]]:
    """Parse a ResourceList; what is not a quantity is left out and named in the second value."""
    nano: Nano = {}
    problems: list[str] = []
    fine: dict[str | int | float, int] = {}
    for name, text in (amounts or {}).items():
        known = fine.get(text)
        if known is not None:
            nano[name] = known
            continue
        try:
            nano[name] = parse_nano(text)
        except QuantityError as error:
            problems.append(f"{path}[{name[:64]}]: Invalid value: {error}")
            continue
        if is_absurd(nano[name]):
            problems.append(f"{path}[{name[:64]}]: Invalid value: {as_json(text)}: beyond what a machine can have")
        else:
            fine[text] = nano[name]
    return nano, problems


@lru_cache(maxsize=8192)
def is_scalar(name: str) -> bool:
    """Return whether the scheduler counts this resource besides cpu, memory and ephemeral-storage
    (IsScalarResourceName).
    """
    return is_extended(name) or "kubernetes.io/" in name or name.startswith(("hugepages-", "attachable-volumes-"))


def is_extended(name: str) -> bool:
    """IsExtendedResourceName of `pkg/apis/core/v1/helper`."""
    if "/" not in name or "kubernetes.io/" in name or name.startswith("requests."):
        return False
    return is_qualified_name(f"requests.{name}")


def in_units(nano: Nano) -> dict[str, int]:
    """Resource name → the scheduler's integers: milli-cores for cpu, whole units for the rest."""
    return {
        name: milli_units(amount) if name == "cpu" else units(amount)
        for name, amount in nano.items()
        if name in CORE or is_scalar(name)
    }


def _add(into: Nano, more: Mapping[str, int]) -> None:
    for name, amount in more.items():
        into[name] = into.get(name, 0) + amount


def raise_to(into: Nano, other: Mapping[str, int]) -> None:
    """Raise each amount to that of `other` where that is larger."""
    for name, amount in other.items():
        if name not in into or amount > into[name]:
            into[name] = amount


def _aggregate(pod: PodResources, pick: Callable[[ContainerRequests], Nano], missing: Nano) -> Nano:
    total: Nano = {}
    for container in pod.containers:
        asked = pick(container)
        if missing:
            asked = missing | asked
        if total:
            _add(total, asked)
        else:
            total = dict(asked)
    sidecars: Nano = {}
    peak: Nano = {}
    for container in pod.init_containers:
        asked = missing | pick(container)
        if container.sidecar:
            _add(total, asked)
            _add(sidecars, asked)
            asked = dict.fromkeys(asked, 0)
        # What it does not ask for is as high as it was when a sidecar last asked for it.
        raise_to(peak, {name: amount + sidecars.get(name, 0) for name, amount in asked.items()})
    if peak:
        raise_to(total, peak)
    return total


def pod_requests(pod: PodResources, *, missing: Nano | None = None, with_status: bool = False) -> Nano:
    """PodRequests. `missing`: what a container without a request counts as; `with_status`: read the kubelet's too."""
    missing = missing or {}

    def spec(c: ContainerRequests) -> Nano:
        return c.spec

    def otherwise(c: ContainerRequests) -> Nano:
        return {} if pod.resize_infeasible else c.spec

    def allocated(c: ContainerRequests) -> Nano:
        return c.allocated if c.allocated is not None else otherwise(c)

    def actual(c: ContainerRequests) -> Nano:
        if c.actual is not None:
            return c.actual
        return c.allocated if c.allocated is not None else otherwise(c)

    total: Nano = {}
    if with_status and pod.reported:
        if not pod.resize_infeasible:
            raise_to(total, _aggregate(pod, spec, missing))
        sources = pod.status_totals or (_aggregate(pod, actual, missing), _aggregate(pod, allocated, missing))
        for source in sources:
            raise_to(total, source)
    else:
        total = _aggregate(pod, spec, missing)
    level = {name: amount for name, amount in pod.pod_level.items() if is_pod_level(name)}
    if level:
        if with_status and pod.status_pod_level:
            if pod.resize_infeasible:
                level = {}
            for status in pod.status_pod_level:
                raise_to(level, {name: amount for name, amount in status.items() if is_pod_level(name)})
        total |= level
    _add(total, pod.overhead)
    return total


def is_pod_level(name: str) -> bool:
    """Resources that `spec.resources` of a pod may name."""
    return name in ("cpu", "memory") or name.startswith("hugepages-")


def scoring_requests(pod: PodResources, requests: dict[str, int]) -> dict[str, int]:
    """Return what NodeResourcesFit assumes of an incoming pod when it scores (calculatePodResourceRequest).

    Upstream's scorer of that plugin passes over pod-level resources (NewFit never sets
    enablePodLevelResources on it), unlike its filter and unlike balanced allocation. `requests`: what the filter goes
    by, `in_units` of `pod_requests`.
    """
    if pod.says_all:
        return requests
    return in_units(pod_requests(replace(pod, pod_level={}), missing=_DEFAULTS))


def nonzero_requests(pod: PodResources, requests: Nano) -> tuple[int, int]:
    """Milli-cpu and memory that a placed pod adds to its node for scoring (CalculateResource, Non0CPU and Non0Mem)."""
    if pod.says_all:
        return milli_units(requests["cpu"]), units(requests["memory"])
    missing = _DEFAULTS
    if any(is_pod_level(name) for name in pod.pod_level):
        missing = {name: amount for name, amount in _DEFAULTS.items() if name not in requests}
    nano = pod_requests(pod, missing=missing, with_status=True) if missing else requests
    return milli_units(nano.get("cpu", 0)), units(nano.get("memory", 0))
