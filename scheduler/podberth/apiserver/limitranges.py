"""LimitRanges: what containers that say nothing ask for, and the bounds that pods and containers have to keep.

Upstream: plugin/pkg/admission/limitranger/admission.go. Bounds of claims for storage are not looked at.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from podberth.apiserver.podresources import aggregated
from podberth.apiserver.quantity import MILLI, canonical, nano, text_of
from podberth.apiserver.status import JsonObject, StatusError, forbidden

_ANNOTATION = "kubernetes.io/limit-ranger"
_OVERRIDING = ("cpu", "memory")
"""What a pod asks for as a whole counts in place of what its containers ask for."""


def fill(pod: JsonObject, limit_ranges: Sequence[JsonObject]) -> None:
    """Set the defaults of a namespace's LimitRanges in a new pod, in place."""
    for limit_range in limit_ranges:
        requests, limits = _defaults(limit_range)
        said: list[str] = []
        for field, called in (("containers", "container"), ("initContainers", "init container")):
            for container in pod["spec"].get(field) or []:
                resources = container.setdefault("resources", {})
                for part, one, amounts in (("requests", "request", requests), ("limits", "limit", limits)):
                    found = dict(resources.get(part) or {})
                    added = sorted(amounts.keys() - found.keys())
                    if added:
                        resources[part] = {**amounts, **found}
                        said.append(f"{', '.join(added)} {one} for {called} {container.get('name', '')}")
        if said:
            annotations = pod["metadata"].get("annotations") or {}
            annotations[_ANNOTATION] = f"LimitRanger plugin set: {'; '.join(said)}"
            pod["metadata"]["annotations"] = annotations


def check(pod: JsonObject, limit_ranges: Sequence[JsonObject]) -> None:
    """Refuse a pod that is out of the bounds of one of its namespace's LimitRanges."""
    for limit_range in limit_ranges:
        wrong = list(dict.fromkeys(_out_of_bounds(pod["spec"], limit_range)))
        if wrong:
            said = wrong[0] if len(wrong) == 1 else f"[{', '.join(wrong)}]"
            raise _refused(pod, said)


def _limits(limit_range: JsonObject) -> list[JsonObject]:
    return (limit_range.get("spec") or {}).get("limits") or []


def _defaults(limit_range: JsonObject) -> tuple[JsonObject, JsonObject]:
    requests: JsonObject = {}
    limits: JsonObject = {}
    for limit in _limits(limit_range):
        if limit.get("type") == "Container":
            requests |= limit.get("defaultRequest") or {}
            limits |= limit.get("default") or {}
    return requests, limits


def _out_of_bounds(spec: JsonObject, limit_range: JsonObject) -> Iterator[str]:
    for limit in _limits(limit_range):
        kind = limit.get("type", "")
        if kind == "Container":
            for container in (*(spec.get("containers") or []), *(spec.get("initContainers") or [])):
                resources = container.get("resources") or {}
                yield from _checked(limit, kind, resources.get("requests") or {}, resources.get("limits") or {})
        elif kind == "Pod":
            yield from _checked(limit, kind, _of_pod(spec, "requests"), _of_pod(spec, "limits"))


def _of_pod(spec: JsonObject, part: str) -> JsonObject:
    whole = (spec.get("resources") or {}).get(part) or {}
    return aggregated(spec, part) | {name: whole[name] for name in _OVERRIDING if name in whole}


def _checked(limit: JsonObject, kind: str, requests: JsonObject, limits: JsonObject) -> Iterator[str]:
    bounds = limit.get("min") or {}
    for name in sorted(bounds):
        said, bound = f"minimum {name} usage per {kind} is {_text(bounds, name)}", nano(bounds, name)
        if name not in requests:
            yield f"{said}.  No request is specified"
        elif nano(requests, name) < bound:
            yield f"{said}, but request is {_text(requests, name)}"
        elif name in limits and nano(limits, name) < bound:
            yield f"{said}, but limit is {_text(limits, name)}"
    bounds = limit.get("max") or {}
    for name in sorted(bounds):
        said, bound = f"maximum {name} usage per {kind} is {_text(bounds, name)}", nano(bounds, name)
        if name not in limits:
            yield f"{said}.  No limit is specified"
        elif nano(limits, name) > bound:
            yield f"{said}, but limit is {_text(limits, name)}"
        elif name in requests and nano(requests, name) > bound:
            yield f"{said}, but request is {_text(requests, name)}"
    bounds = limit.get("maxLimitRequestRatio") or {}
    for name in sorted(bounds):
        said = f"{name} max limit to request ratio per {kind} is {_text(bounds, name)}"
        request, most = nano(requests, name) // MILLI, nano(limits, name) // MILLI
        if not request:
            yield f"{said}, but no request is specified or request is 0"
        elif not most:
            yield f"{said}, but no limit is specified or limit is 0"
        elif most / request * 1000 > nano(bounds, name) // MILLI:
            yield f"{said}, but provided ratio is {most / request:f}"


def _text(amounts: JsonObject, name: str) -> str:
    return canonical(text_of(amounts[name]))


def _refused(obj: JsonObject, why: str) -> StatusError:
    return forbidden("", "pods", obj["metadata"].get("name", ""), why)
