"""ResourceQuotas: what a pod counts for in them, and when there is too little left for it.

Upstream: pkg/quota/v1/evaluator/core/pods.go, k8s.io/apiserver pkg/admission/plugin/resourcequota/controller.go
(CheckRequest), pkg/quota/v1/resources.go.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from podberth.apiserver import quantity, strategy
from podberth.apiserver.podresources import (
    HUGE_PAGES,
    aggregated,
    at_pod_level,
    containers,
    is_set,
    overcommitted,
)
from podberth.apiserver.quantity import nano
from podberth.apiserver.status import JsonObject

_COMPUTE = ("cpu", "memory", "ephemeral-storage")
_PODS = frozenset(
    (
        "count/pods",
        "pods",
        *_COMPUTE,
        *(f"{part}.{name}" for part in ("requests", "limits") for name in _COMPUTE),
    )
)
_ASKED_OF_CONTAINERS = frozenset(("cpu", "memory", "requests.cpu", "requests.memory", "limits.cpu", "limits.memory"))
"""Where a quota bounds one of these, each container has to say it."""


class Verdict(NamedTuple):
    """How many pods like one a quota lets be created, at most as many as asked for, and why it refuses the next."""

    quota: str
    allowed: int
    why: str


def counted(pod: JsonObject) -> JsonObject:
    """Return what a pod that has not ended counts for."""
    spec = pod["spec"]
    requests, limits = (_of_pod(spec, part) for part in ("requests", "limits"))
    return {"count/pods": "1", **_usage(requests, limits)}


def allowed(pod: JsonObject, number: int, quotas: Iterable[JsonObject]) -> Verdict | None:
    """The verdict of the quota of the pod's namespace that lets the fewest of `number` pods be created.

    None where all of them are let. A quota's `status.hard` counts, as it does upstream. What a pod has to say is asked
    by all quotas before any of them counts.
    """
    usage = counted(pod)
    matching = [quota for quota in quotas if _matches(quota, pod)]
    for quota in matching:
        missing = _unsaid(pod["spec"], quota["status"].get("hard") or {})
        if missing:
            name = quota["metadata"]["name"]
            return Verdict(name, 0, f"failed quota: {name}: must specify {missing}")
    verdicts = [verdict for quota in matching if (verdict := _verdict(usage, number, quota)) is not None]
    return min(verdicts, key=lambda each: each.allowed, default=None)


def charge(pod: JsonObject, number: int, quotas: Iterable[JsonObject]) -> None:
    """Count `number` pods in the quotas that match them, in place."""
    usage = counted(pod)
    for quota in quotas:
        if _matches(quota, pod):
            used = quota["status"].setdefault("used", {})
            for name in quota["status"].get("hard") or {}:
                if name in usage:
                    used[name] = quantity.add(used.get(name, "0"), quantity.times(usage[name], number))


def _verdict(usage: JsonObject, number: int, quota: JsonObject) -> Verdict | None:
    name, status = quota["metadata"]["name"], quota["status"]
    hard, used = status.get("hard") or {}, status.get("used") or {}
    asked = {resource: amount for resource, amount in usage.items() if resource in hard and nano(usage, resource)}
    room = {
        resource: max(0, nano(hard, resource) - nano(used, resource)) // nano(usage, resource) for resource in asked
    }
    least = min(room.values(), default=number)
    if least >= number:
        return None
    tight = sorted(resource for resource in asked if room[resource] == least)
    so_far = {
        resource: quantity.add(used.get(resource, "0"), quantity.times(usage[resource], least)) for resource in tight
    }
    why = (
        f"exceeded quota: {name}, requested: {_listed(asked, tight)}, used: {_listed(so_far, tight)}, "
        f"limited: {_listed(hard, tight)}"
    )
    return Verdict(name, least, why)


def _listed(amounts: Mapping[str, str], names: Iterable[str]) -> str:
    return ",".join(f"{name}={quantity.canonical(quantity.text_of(amounts[name]))}" for name in names)


def _matches(quota: JsonObject, pod: JsonObject) -> bool:
    hard = (quota.get("status") or {}).get("hard") or {}
    spec = quota.get("spec") or {}
    scopes = [{"scopeName": scope, "operator": "Exists"} for scope in spec.get("scopes") or []]
    scopes += (spec.get("scopeSelector") or {}).get("matchExpressions") or []
    return any(_of_pods(name) for name in hard) and all(_in_scope(scope, pod) for scope in scopes)


def _of_pods(resource: str) -> bool:
    """Return whether a quota's entry is about pods."""
    if resource in _PODS or resource.startswith((HUGE_PAGES, f"requests.{HUGE_PAGES}")):
        return True
    return resource.startswith("requests.") and "/" in resource and "kubernetes.io/" not in resource


def _in_scope(scope: JsonObject, pod: JsonObject) -> bool:
    spec = pod["spec"]
    deadline = spec.get("activeDeadlineSeconds")
    match scope.get("scopeName"):
        case "Terminating":
            return deadline is not None and deadline >= 0
        case "NotTerminating":
            return deadline is None or deadline < 0
        case "BestEffort":
            return strategy.qos_class(spec) == "BestEffort"
        case "NotBestEffort":
            return strategy.qos_class(spec) != "BestEffort"
        case "PriorityClass":
            return _of_class(scope, spec.get("priorityClassName") or "")
        case "CrossNamespacePodAffinity":
            return any(term.get("namespaces") or term.get("namespaceSelector") is not None for term in _terms(spec))
    return False


def _of_class(scope: JsonObject, name: str) -> bool:
    values = scope.get("values") or []
    match scope.get("operator"):
        case "In":
            return name in values if name else False
        case "NotIn":
            return name not in values
        case "DoesNotExist":
            return not name
    return bool(name)


def _terms(spec: JsonObject) -> Iterable[JsonObject]:
    for side in ("podAffinity", "podAntiAffinity"):
        rules = (spec.get("affinity") or {}).get(side) or {}
        yield from rules.get("requiredDuringSchedulingIgnoredDuringExecution") or []
        for weighted in rules.get("preferredDuringSchedulingIgnoredDuringExecution") or []:
            yield weighted.get("podAffinityTerm") or {}


def _unsaid(spec: JsonObject, hard: JsonObject) -> str:
    """Return what containers have to say and do not; empty where nothing is missing."""
    if is_set(spec):
        return ""
    missing: dict[str, set[str]] = {}
    for container in containers(spec):
        resources = container.get("resources") or {}
        said = _usage(resources.get("requests") or {}, resources.get("limits") or {})
        for name in (_ASKED_OF_CONTAINERS & hard.keys()) - said.keys():
            missing.setdefault(name, set()).add(container.get("name", ""))
    return "; ".join(f"{name} for: {','.join(sorted(missing[name]))}" for name in sorted(missing))


def _of_pod(spec: JsonObject, part: str) -> JsonObject:
    """Return what a pod asks for, with what its RuntimeClass adds (PodRequests, PodLimits)."""
    whole = (spec.get("resources") or {}).get(part) or {}
    found = aggregated(spec, part) | {name: amount for name, amount in whole.items() if at_pod_level(name)}
    for name, amount in (spec.get("overhead") or {}).items():
        if part == "requests" or nano(found, name):
            found[name] = quantity.add(found[name], amount) if name in found else amount
    return found


def _usage(requests: JsonObject, limits: JsonObject) -> JsonObject:
    found: JsonObject = {"pods": "1"}
    for name in _COMPUTE:
        if name in requests:
            found[name] = found[f"requests.{name}"] = requests[name]
        if name in limits:
            found[f"limits.{name}"] = limits[name]
    for name, amount in requests.items():
        if name.startswith(HUGE_PAGES):
            found[name] = amount
        if name.startswith(HUGE_PAGES) or not overcommitted(name):
            found[f"requests.{name}"] = amount
    return found
