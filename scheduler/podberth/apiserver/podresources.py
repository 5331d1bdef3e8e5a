"""What the containers of a pod ask for together, and what its pod-level resources become by it.

Upstream: k8s.io/component-helpers resource/helpers.go (AggregateContainerRequests, AggregateContainerLimits),
pkg/api/pod/util.go (DefaultPodLevelResources).
"""

from __future__ import annotations

from collections.abc import Iterator

from podberth.apiserver import quantity
from podberth.apiserver.status import JsonObject

HUGE_PAGES = "hugepages-"


def containers(spec: JsonObject) -> Iterator[JsonObject]:
    """All containers that are not ephemeral, init containers first."""
    yield from spec.get("initContainers") or []
    yield from spec.get("containers") or []


def overcommitted(name: str) -> bool:
    """Return whether more of a resource may be allowed than is asked for (helper.IsOvercommitAllowed)."""
    return ("/" not in name or "kubernetes.io/" in name) and not name.startswith(HUGE_PAGES)


def at_pod_level(name: str) -> bool:
    """Return whether a resource may be asked for by the pod as a whole (IsSupportedPodLevelResource)."""
    return name in ("cpu", "memory") or name.startswith(HUGE_PAGES)


def is_set(spec: JsonObject) -> bool:
    """Return whether the pod asks for anything as a whole (IsPodLevelResourcesSet)."""
    resources = spec.get("resources") or {}
    return bool(resources.get("requests") or resources.get("limits"))


def aggregated(spec: JsonObject, part: str) -> JsonObject:
    """The `requests` or `limits` of all containers: those that run side by side, or a larger init container's."""
    total = _sum([_of(each, part) for each in spec.get("containers") or []])
    sidecars: JsonObject = {}
    most: JsonObject = {}
    for each in spec.get("initContainers") or []:
        sidecar = each.get("restartPolicy") == "Always"
        here = _sum([_of(each, part), sidecars])
        if sidecar:
            total, sidecars = _sum([total, _of(each, part)]), here
        most = _larger(most, here)
    return _larger(total, most)


def default_pod_level(spec: JsonObject) -> None:
    """Complete pod-level resources by what containers ask for, and by each other."""
    if not is_set(spec):
        return
    resources = spec["resources"]
    limits, requests = dict(resources.get("limits") or {}), dict(resources.get("requests") or {})
    of_containers = aggregated(spec, "limits")
    for name, amount in of_containers.items():
        if name.startswith(HUGE_PAGES) and name not in requests:
            limits.setdefault(name, amount)
    for name, amount in aggregated(spec, "requests").items():
        if at_pod_level(name) and overcommitted(name):
            requests.setdefault(name, amount)
    for name, amount in limits.items():
        if at_pod_level(name):
            requests.setdefault(name, amount)
    everywhere = set.intersection(*(set(_of(each, "limits")) for each in containers(spec)), set(requests))
    for name in sorted(everywhere - limits.keys()):
        if at_pod_level(name):
            limits[name] = _larger({name: of_containers[name]}, {name: requests[name]})[name]
    for part, amounts in (("limits", limits), ("requests", requests)):
        if amounts:
            resources[part] = amounts


def _of(container: JsonObject, part: str) -> JsonObject:
    found: JsonObject = (container.get("resources") or {}).get(part) or {}
    return found


def _sum(lists: list[JsonObject]) -> JsonObject:
    found: JsonObject = {}
    for amounts in lists:
        for name, amount in amounts.items():
            found[name] = quantity.add(found[name], amount) if name in found else amount
    return found


def _larger(first: JsonObject, second: JsonObject) -> JsonObject:
    found = dict(first)
    for name, amount in second.items():
        if name not in found or quantity.nano(second, name) > quantity.nano(found, name):
            found[name] = amount
    return found
