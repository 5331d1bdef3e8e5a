"""A change of a pod as a JSON patch (RFC 6902) of the spec that somebody wrote.

Positions in lists are tested in the patch itself where that is possible, so that it is refused rather than applied to
the wrong place when the object has changed since.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from typing import Any

import msgspec

from scheduler.apiserver.patch import json_patch
from scheduler.framework import changes
from scheduler.framework.changes import OnPod
from scheduler.model import wire
from scheduler.model.affinity import parse_affinity_term
from scheduler.model.quantity import exact, milli_units, parse_nano, units
from scheduler.model.selectors import SelectorError, parse_node_selector_term

Operation = dict[str, Any]
Spec = Mapping[str, Any]
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_NODE = ("affinity", "nodeAffinity", _REQUIRED)
_LEAST = 10
"""A container keeps a tenth of its request at least."""


class NoPatchError(Exception):
    """The spec does not say what was to be changed."""


def operations(made: Iterable[OnPod], spec: Spec, namespace: str) -> tuple[list[Operation], Spec]:
    """The operations, with paths from the spec on, and the spec that they make.

    Raises NoPatchError.
    """
    patch: list[Operation] = []
    now = deepcopy(dict(spec))
    for change in made:
        some = list(_operations(change, now, namespace))
        if not some:
            raise NoPatchError
        now = json_patch(now, deepcopy(some))
        patch += some
    return patch, now


def _operations(change: OnPod, spec: Spec, namespace: str) -> Iterator[Operation]:
    match change:
        case changes.Request(requests, instead_of):
            for name, amount in requests.items():
                yield from _ask_for_less(spec, name, instead_of[name] - amount)
        case changes.Tolerate(key, value, effect):
            toleration = {"key": key, "operator": "Equal", "value": value, "effect": effect}
            yield from _append(spec, "tolerations", toleration)
        case changes.DropNodeSelector(key):
            if key in (spec.get("nodeSelector") or {}):
                yield _remove("nodeSelector", key)
        case changes.RespellNodeSelector(key, value, meant_key, meant_value):
            if (spec.get("nodeSelector") or {}).get(key) == value:
                yield _remove("nodeSelector", key)
                yield _add(meant_value, "nodeSelector", meant_key)
        case changes.RespellNodeAffinity(term, key, value, meant):
            yield from _respell_node(spec, term, key, value, meant)
        case changes.RespellPodTerm(term, key, value, meant):
            yield from _respell_pods(spec, term, key, value, meant, namespace)
        case changes.DropRequirement(term, requirement):
            yield from _drop_requirement(spec, term, requirement)
        case changes.DropPodTerm(anti, term):
            yield from _prefer(spec, "podAntiAffinity" if anti else "podAffinity", term, namespace)
        case changes.SoftenSpread(key):
            for i in _constraints(spec, key):
                yield _test(key, "topologySpreadConstraints", i, "topologyKey")
                yield _replace("ScheduleAnyway", "topologySpreadConstraints", i, "whenUnsatisfiable")
        case changes.RaiseMaxSkew(key, skew):
            for i in _constraints(spec, key):
                yield _test(key, "topologySpreadConstraints", i, "topologyKey")
                yield _replace(skew, "topologySpreadConstraints", i, "maxSkew")
        case changes.DropHostPort(_, protocol, port):
            yield from _drop_port(spec, protocol, port)
        case changes.AllowPreemption() if spec.get("preemptionPolicy"):
            yield _replace("PreemptLowerPriority", "preemptionPolicy")
        case changes.NameScheduler(name):
            yield _add(name, "schedulerName")
        case changes.Ungate() if spec.get("schedulingGates"):
            yield _remove("schedulingGates")


def _ask_for_less(spec: Spec, name: str, less: int) -> Iterator[Operation]:
    """Take an amount off the requests, from the container that asks for most on."""
    asked = []
    for i, container in enumerate(spec.get("containers") or ()):
        resources = container.get("resources") or {}
        amount = (resources.get("requests") or {}).get(name, (resources.get("limits") or {}).get(name))
        if amount is not None:
            asked.append((_units(name, amount), i, container, resources))
    for amount, i, container, resources in sorted(asked, key=lambda each: (-each[0], each[1])):
        left = max(amount - less, -(-amount // _LEAST))
        if less <= 0 or left == amount:
            continue
        less -= amount - left
        yield _test(container.get("name"), "containers", i, "name")
        text = exact(name, left)
        if "requests" in resources:
            yield _add(text, "containers", i, "resources", "requests", name)
        else:
            yield _add({name: text}, "containers", i, "resources", "requests")
        if ("/" in name or name.startswith("hugepages-")) and name in (resources.get("limits") or {}):
            yield _add(text, "containers", i, "resources", "limits", name)  # these must be equal


def _units(name: str, amount: Any) -> int:
    return milli_units(parse_nano(amount)) if name == "cpu" else units(parse_nano(amount))


def _drop_requirement(spec: Spec, index: int, requirement: str) -> Iterator[Operation]:
    required = _at(spec, _NODE) or {}
    terms = required.get("nodeSelectorTerms") or []
    if index >= len(terms):
        return
    left = {field: list(terms[index].get(field) or ()) for field in ("matchExpressions", "matchFields")}
    for field, each in left.items():
        for i in reversed([i for i, one in enumerate(each) if _said(field, one) == requirement]):
            del each[i]
            yield _remove(*_NODE, "nodeSelectorTerms", index, field, i)
    if not any(left.values()):
        yield _remove(*_NODE)


def _respell_node(spec: Spec, index: int, key: str, value: str, meant: str) -> Iterator[Operation]:
    terms = (_at(spec, _NODE) or {}).get("nodeSelectorTerms") or []
    for field in ("matchExpressions", "matchFields") if index < len(terms) else ():
        yield from _respell(terms[index].get(field), (*_NODE, "nodeSelectorTerms", index, field), key, value, meant)


def _respell_pods(spec: Spec, wanted: str, key: str, value: str, meant: str, namespace: str) -> Iterator[Operation]:
    terms = (_at(spec, ("affinity", "podAffinity")) or {}).get(_REQUIRED) or []
    for i, term in enumerate(terms):
        if _term(term, namespace) == wanted:
            selector, where = term["labelSelector"], ("affinity", "podAffinity", _REQUIRED, i, "labelSelector")
            if (selector.get("matchLabels") or {}).get(key) == value:
                yield _replace(meant, *where, "matchLabels", key)
            yield from _respell(selector.get("matchExpressions"), (*where, "matchExpressions"), key, value, meant)


def _respell(expressions: Any, where: Sequence[str | int], key: str, value: str, meant: str) -> Iterator[Operation]:
    for i, one in enumerate(expressions or ()):
        if (one.get("key"), one.get("operator"), one.get("values")) == (key, "In", [value]):
            yield _test(value, *where, i, "values", 0)
            yield _replace(meant, *where, i, "values", 0)


def _said(field: str, expression: Any) -> str:
    term = msgspec.convert({field: [expression]}, wire.NodeSelectorTerm)
    try:
        return str(parse_node_selector_term(term, ""))
    except SelectorError:
        return ""


def _prefer(spec: Spec, kind: str, wanted: str, namespace: str) -> Iterator[Operation]:
    """Move a required term to the preferred ones."""
    affinity = _at(spec, ("affinity", kind)) or {}
    terms = affinity.get(_REQUIRED) or []
    found = [i for i, term in enumerate(terms) if _term(term, namespace) == wanted]
    preferred = [{"weight": 100, "podAffinityTerm": terms[i]} for i in found]
    yield from (_remove("affinity", kind, _REQUIRED, i) for i in reversed(found))
    if preferred and affinity.get(_PREFERRED):
        yield from (_add(each, "affinity", kind, _PREFERRED, "-") for each in preferred)
    elif preferred:
        yield _add(preferred, "affinity", kind, _PREFERRED)


def _term(term: Any, namespace: str) -> str:
    try:
        return str(parse_affinity_term(msgspec.convert(term, wire.PodAffinityTerm), namespace, ""))
    except (SelectorError, msgspec.ValidationError):
        return ""


def _constraints(spec: Spec, key: str) -> list[int]:
    found = enumerate(spec.get("topologySpreadConstraints") or ())
    return [i for i, c in found if c.get("topologyKey") == key and c.get("whenUnsatisfiable") == "DoNotSchedule"]


def _drop_port(spec: Spec, protocol: str, number: int) -> Iterator[Operation]:
    for c, container in enumerate(spec.get("containers") or ()):
        ports = container.get("ports") or ()
        for p in reversed(range(len(ports))):
            if (ports[p].get("protocol") or "TCP", ports[p].get("hostPort")) == (protocol, number):
                yield _test(number, "containers", c, "ports", p, "hostPort")
                # On the host's network a container port is a host port.
                own = () if spec.get("hostNetwork") else ("hostPort",)
                yield _remove("containers", c, "ports", p, *own)


def _append(spec: Spec, field: str, value: Any) -> Iterator[Operation]:
    yield _add(value, field, "-") if spec.get(field) else _add([value], field)


def _at(spec: Any, steps: Sequence[str]) -> Any:
    for step in steps:
        spec = spec.get(step) if isinstance(spec, dict) else None
    return spec


def _add(value: Any, *steps: str | int) -> Operation:
    return {"op": "add", "path": _pointer(steps), "value": value}


def _replace(value: Any, *steps: str | int) -> Operation:
    return {"op": "replace", "path": _pointer(steps), "value": value}


def _remove(*steps: str | int) -> Operation:
    return {"op": "remove", "path": _pointer(steps)}


def _test(value: Any, *steps: str | int) -> Operation:
    return {"op": "test", "path": _pointer(steps), "value": value}


def _pointer(steps: Iterable[str | int]) -> str:
    return "".join(f"/{str(step).replace('~', '~0').replace('/', '~1')}" for step in steps)
