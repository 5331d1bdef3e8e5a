"""The resources that a pod requests, summed exactly.

Mirrors component-helpers `resource/helpers.go` (PodRequests, AggregateContainerRequests) and
kube-scheduler `framework/types.go` (Resource, PodInfo.CalculateResource): requests are
max(init, Σ containers + sidecars) + overhead, pod-level resources replace the sum, and once the
kubelet reports allocated or actual resources the largest of the three counts.
"""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import lru_cache

from msgspec import Struct, field
from msgspec.structs import replace

from podberth.model.mistakes import as_json
from podberth.model.quantity import QuantityError, is_absurd, milli_units, parse_nano, units
from podberth.model.selectors import NAME, SUBDOMAIN, is_qualified_name
from podberth.model.wire import Amounts

Nano = dict[str, int]
"""Resource name → nano-units."""

# Requests assumed for scoring where a container names none (kube-scheduler util/pod_resources.go).
_DEFAULTS: Nano = {"cpu": parse_nano("100m"), "memory": parse_nano("200Mi")}

_REMEMBERED_LENGTH = 80
"""Anybody may write names of hundreds of characters: longer ones are not worth remembering."""

_FEW = 1_000
"""A pod that asks for more resources than these has none of their names remembered."""

_OF_A_VENDOR = re.compile(rf"(?!requests\.)(?=[^/]{{1,244}}/){SUBDOMAIN}/{NAME}")
"""Most names for which `_is_scalar` says yes, in one look: with `requests.` before them, they are legal label keys."""

CORE = ("cpu", "memory", "ephemeral-storage")
IMPLICIT_PREFIX = "deviceclass.resource.kubernetes.io/"
"""Followed by the name of a device class: an extended resource that the class serves without naming it."""

_MANY = 64
"""From so many resources on, only those with defaults are looked at, where the other ones agree."""


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

    def only(self, names: Collection[str]) -> "PodResources":
        """The pod as if it asked for these resources alone. Leaves out what its status reports."""

        def those(amounts: Nano) -> Nano:
            return {name: amounts[name] for name in names if name in amounts}

        return PodResources(
            [replace(one, spec=those(one.spec)) for one in self.containers],
            [replace(one, spec=those(one.spec)) for one in self.init_containers],
            those(self.pod_level),
            those(self.overhead),
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


def is_scalar(name: str) -> bool:
    """Return whether the scheduler counts this resource besides cpu, memory and ephemeral-storage
    (IsScalarResourceName).
    """
    return _is_scalar(name) if len(name) <= _REMEMBERED_LENGTH else _is_scalar.__wrapped__(name)


@lru_cache(maxsize=32_768)
def _is_scalar(name: str) -> bool:
    return is_extended(name) or "kubernetes.io/" in name or name.startswith(("hugepages-", "attachable-volumes-"))


def is_extended(name: str) -> bool:
    """IsExtendedResourceName of `pkg/apis/core/v1/helper`."""
    if "/" not in name or "kubernetes.io/" in name or name.startswith("requests."):
        return False
    return is_qualified_name(f"requests.{name}")


def in_units(nano: Nano) -> dict[str, int]:
    """Resource name → the scheduler's integers: milli-cores for cpu, whole units for the rest."""
    if len(nano) > _FEW:
        return _many_in_units(nano)
    return {
        name: milli_units(amount) if name == "cpu" else units(amount)
        for name, amount in nano.items()
        if name in CORE or is_scalar(name)
    }


def _many_in_units(nano: Nano) -> dict[str, int]:
    """Do what `in_units` does for thousands of names. They are not remembered: they would displace everybody else's."""
    usual, counted = _OF_A_VENDOR.fullmatch, _is_scalar.__wrapped__
    rounded = {amount: units(amount) for amount in set(nano.values())}
    found = {name: rounded[amount] for name, amount in nano.items() if usual(name) or name in CORE or counted(name)}
    if "cpu" in found:
        found["cpu"] = milli_units(nano["cpu"])
    return found


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
    if len(requests) <= _MANY or pod.pod_level or pod.reported:
        return in_units(pod_requests(replace(pod, pod_level={}), missing=_DEFAULTS))
    assumed = in_units(pod_requests(pod.only(_DEFAULTS), missing=_DEFAULTS))
    return assumed | {name: amount for name, amount in requests.items() if name not in assumed}


def nonzero_requests(pod: PodResources, requests: Nano) -> tuple[int, int]:
    """Milli-cpu and memory that a placed pod adds to its node for scoring (CalculateResource, Non0CPU and Non0Mem)."""
    if pod.says_all:
        return milli_units(requests["cpu"]), units(requests["memory"])
    missing = _DEFAULTS
    if any(is_pod_level(name) for name in pod.pod_level):
        missing = {name: amount for name, amount in _DEFAULTS.items() if name not in requests}
    if not missing:
        nano = requests
    else:
        few = pod.only(_DEFAULTS) if len(requests) > _MANY and not pod.reported else pod
        nano = pod_requests(few, missing=missing, with_status=True)
    return milli_units(nano.get("cpu", 0)), units(nano.get("memory", 0))
