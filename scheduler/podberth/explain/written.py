"""A pod as somebody wrote it, a change of it as a patch, and what becomes of it when it or its template is changed.

Positions in lists are tested in a JSON patch itself where that is possible, so that it is refused rather than applied
to the wrong place when the object has changed since.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from copy import deepcopy
from itertools import chain
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace

from podberth.apiserver.rules.patch import json_patch
from podberth.apiserver.rules.quantity import at_pod_level, overcommitted
from podberth.explain import changes
from podberth.explain.changes import OnPod
from podberth.explain.objects.admission import lets
from podberth.explain.objects.controllers import TOLERATED, of_daemon
from podberth.explain.objects.documents import ObjectError
from podberth.explain.objects.world import TEMPLATED, World
from podberth.model import wire
from podberth.model.kinds import Modelled
from podberth.model.pod import Pod
from podberth.model.quantity import exact, milli_units, parse_nano, units
from podberth.model.selectors import SelectorError, parse_node_selector_term
from podberth.model.shape import ANY_IP
from podberth.model.terms import parse_affinity_term

Operation = dict[str, Any]
Spec = Mapping[str, Any]
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_NODE = ("affinity", "nodeAffinity", _REQUIRED)
_LEAST = 10
"""The fraction of its request that a container keeps at least: one tenth."""


class NoPatchError(Exception):
    """The spec does not contain what was to be changed."""


class Lowered(NamedTuple):
    """A smaller amount of one resource: of a container (`field`, its place and its name), or of the whole pod."""

    field: str
    place: int
    name: str
    resource: str
    amount: str

    @property
    def parts(self) -> tuple[str, ...]:
        """Return the parts of `resources` that say it: limits of what can't be overcommitted are equal to requests."""
        return ("requests",) if overcommitted(self.resource) else ("requests", "limits")


def operations(made: Iterable[OnPod], spec: Spec, whole: Spec, namespace: str) -> list[Operation]:
    """Return a JSON patch with paths from the spec on. `whole`: the spec with what the API server puts in.

    Raises NoPatchError.
    """
    patch: list[Operation] = []
    now = deepcopy(dict(spec))
    for change in made:
        if isinstance(change, changes.Request):
            some = [operation for each in lowered(change, whole) for operation in _lower(each, now)]
        else:
            some = list(_operations(change, now, namespace))
        if not some:
            raise NoPatchError
        now = json_patch(now, deepcopy(some))
        patch += some
    return patch


def unmerged(spec: Spec, labels: Mapping[str, str]) -> list[Operation]:
    """Return a patch that takes out the requirements that the API server makes of matchLabelKeys and mismatchLabelKeys.

    A pod that has them already is refused when it is created.
    """
    found: list[tuple[tuple[str | int, ...], Any]] = [
        (("topologySpreadConstraints", i), each) for i, each in enumerate(spec.get("topologySpreadConstraints") or ())
    ]
    for side in ("podAffinity", "podAntiAffinity"):
        rules = _at(spec, ("affinity", side)) or {}
        found += [(("affinity", side, _REQUIRED, i), each) for i, each in enumerate(rules.get(_REQUIRED) or ())]
        for i, each in enumerate(rules.get(_PREFERRED) or ()):
            found.append((("affinity", side, _PREFERRED, i, "podAffinityTerm"), each.get("podAffinityTerm") or {}))
    patch = []
    for where, each in found:
        merged = [
            {"key": key, "operator": operator, "values": [labels.get(key)]}
            for field, operator in (("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn"))
            for key in each.get(field) or ()
        ]
        selector = each.get("labelSelector") or {}
        there = selector.get("matchExpressions") or ()
        rest = [one for one in there if one not in merged]
        if len(rest) < len(there):
            own = {key: value for key, value in selector.items() if key != "matchExpressions"}
            patch.append(_replace(own | ({"matchExpressions": rest} if rest else {}), *where, "labelSelector"))
    return patch


def by_name(made: Iterable[Lowered]) -> dict[str, Any]:
    """Return a strategic merge patch of the spec, which finds containers by name, whatever they ask for now."""
    found: dict[str, Any] = {}
    for each in made:
        amounts = {part: {each.resource: each.amount} for part in each.parts}
        if each.field:
            found.setdefault(each.field, []).append({"name": each.name, "resources": amounts})
        else:
            found["resources"] = amounts
    return found


def lowered(change: changes.Request, whole: Spec) -> Iterator[Lowered]:
    """Yield what the containers, and the pod as a whole, ask for instead. Each keeps a tenth at least.

    Raises NoPatchError where that is not enough.
    """
    for name, amount in change.requests.items():
        most = amount - _asked({"requests": whole.get("overhead")}, name)
        of_pod = _asked(whole.get("resources"), name) if at_pod_level(name) else 0
        if of_pod:
            yield Lowered("", 0, "", name, exact(name, _keep(of_pod, most)))
        lasting = dict(_lasting(whole))
        asked = {where: _asked(each.get("resources"), name) for where, each in lasting.items()}
        less = sum(asked.values()) - most
        for where, each in sorted(lasting.items(), key=lambda one: -asked[one[0]]):
            before = asked[where]
            if less > 0 and before:
                asked[where] = left = max(before - less, -(-before // _LEAST))
                less -= before - left
                yield Lowered(*where, str(each.get("name")), name, exact(name, left))
        if less > 0:
            raise NoPatchError
        beside = 0
        for i, each in enumerate(whole.get("initContainers") or ()):
            own = _asked(each.get("resources"), name)
            if ("initContainers", i) in asked:
                beside += asked["initContainers", i]
            elif own + beside > most:
                left = _keep(own, most - beside)
                yield Lowered("initContainers", i, str(each.get("name")), name, exact(name, left))


def _keep(before: int, amount: int) -> int:
    """Return the amount. Raises NoPatchError if it is less than a tenth of the old one."""
    if amount < -(-before // _LEAST):
        raise NoPatchError
    return min(amount, before)


def _asked(resources: Any, name: str) -> int:
    """Return the requests in `resources` as the API server reads them: a limit stands for a missing request."""
    found = resources if isinstance(resources, dict) else {}
    amount = (found.get("requests") or {}).get(name, (found.get("limits") or {}).get(name))
    if amount is None:
        return 0
    return milli_units(parse_nano(amount)) if name == "cpu" else units(parse_nano(amount))


def _lower(each: Lowered, spec: Spec) -> Iterator[Operation]:
    where: tuple[str | int, ...] = ()
    owner: Any = spec
    if each.field:
        where, owner = (each.field, each.place), spec[each.field][each.place]
        if owner.get("name"):  # a file that nobody judged may lack it
            yield _test(each.name, *where, "name")
    resources = owner.get("resources")
    if not resources:
        yield _add({part: {each.resource: each.amount} for part in each.parts}, *where, "resources")
        return
    for part in each.parts:
        if resources.get(part):
            yield _add(each.amount, *where, "resources", part, each.resource)
        else:
            yield _add({each.resource: each.amount}, *where, "resources", part)


def _operations(change: OnPod, spec: Spec, namespace: str) -> Iterator[Operation]:
    match change:
        case changes.Tolerate(key, value, effect):
            toleration = {"key": key, "operator": "Equal", "value": value, "effect": effect}
            there = spec.get("tolerations")
            yield _add(toleration, "tolerations", "-") if there else _add([toleration], "tolerations")
        case changes.DropNodeSelector(key):
            if key in (spec.get("nodeSelector") or {}):
                yield _remove("nodeSelector", key)
        case changes.RespellNodeSelector(key, value, meant_key, meant_value):
            if (spec.get("nodeSelector") or {}).get(key) == value:
                yield _remove("nodeSelector", key)
                yield _add(meant_value, "nodeSelector", meant_key)
        case changes.DropRequirement(term, requirement):
            yield from _drop_requirement(spec, term, requirement)
        case changes.DropPodTerm(anti, term):
            yield from _prefer(spec, "podAntiAffinity" if anti else "podAffinity", term, namespace)
        case changes.HonorPolicy(key, policy):
            for i in _constraints(spec, key):
                yield _test(key, "topologySpreadConstraints", i, "topologyKey")
                yield _add("Honor", "topologySpreadConstraints", i, policy)
        case changes.SoftenSpread(key):
            for i in _constraints(spec, key):
                yield _test(key, "topologySpreadConstraints", i, "topologyKey")
                yield _replace("ScheduleAnyway", "topologySpreadConstraints", i, "whenUnsatisfiable")
        case changes.RaiseMaxSkew(key, skew):
            for i in _constraints(spec, key):
                if spec["topologySpreadConstraints"][i].get("maxSkew", 0) < skew:
                    yield _test(key, "topologySpreadConstraints", i, "topologyKey")
                    yield _replace(skew, "topologySpreadConstraints", i, "maxSkew")
        case changes.DropHostPort():
            yield from _drop_port(spec, change)
        case changes.AllowPreemption() if spec.get("preemptionPolicy"):
            yield _replace("PreemptLowerPriority", "preemptionPolicy")
        case changes.NameScheduler(name):
            yield _add(name, "schedulerName")
        case changes.Ungate(gates):
            there = [gate.get("name") for gate in spec.get("schedulingGates") or ()]
            if set(there) <= set(gates):
                yield from [_remove("schedulingGates")] if there else []
            for i in reversed(range(len(there))) if not set(there) <= set(gates) else ():
                if there[i] in gates:
                    yield _test(there[i], "schedulingGates", i, "name")
                    yield _remove("schedulingGates", i)


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


def _said(field: str, expression: Any) -> str:
    term = msgspec.convert({field: [expression]}, wire.NodeSelectorTerm)
    try:
        return str(parse_node_selector_term(term, ""))
    except SelectorError:
        return ""


def _prefer(spec: Spec, kind: str, wanted: str, namespace: str) -> Iterator[Operation]:
    """Move a required term to the preferred ones, as it stands there."""
    affinity = _at(spec, ("affinity", kind)) or {}
    found = [i for i, term in enumerate(affinity.get(_REQUIRED) or []) if _term(term, namespace) == wanted]
    preferred = len(affinity.get(_PREFERRED) or ())
    for number, i in enumerate(reversed(found), start=preferred):
        blank = {"weight": 100}
        yield _add(blank, "affinity", kind, _PREFERRED, "-") if number else _add([blank], "affinity", kind, _PREFERRED)
        to = _pointer(("affinity", kind, _PREFERRED, number, "podAffinityTerm"))
        yield {"op": "move", "from": _pointer(("affinity", kind, _REQUIRED, i)), "path": to}


def _term(term: Any, namespace: str) -> str:
    try:
        return str(parse_affinity_term(msgspec.convert(term, wire.PodAffinityTerm), namespace, ""))
    except (SelectorError, msgspec.ValidationError):
        return ""


def _constraints(spec: Spec, key: str) -> list[int]:
    found = enumerate(spec.get("topologySpreadConstraints") or ())
    return [i for i, c in found if c.get("topologyKey") == key and c.get("whenUnsatisfiable") == "DoNotSchedule"]


def _drop_port(spec: Spec, change: changes.DropHostPort) -> Iterator[Operation]:
    # On the host's network a container port is a host port, also where it does not say so.
    field = "containerPort" if spec.get("hostNetwork") else "hostPort"
    wanted = change.ip, change.protocol, change.port
    for where, container in _lasting(spec):
        ports = container.get("ports") or ()
        for p in reversed(range(len(ports))):
            port = ports[p]
            if (port.get("hostIP") or ANY_IP, port.get("protocol") or "TCP", port.get(field)) == wanted:
                yield _test(change.port, *where, "ports", p, field)
                yield _remove(*where, "ports", p, *(() if field == "containerPort" else (field,)))


def _lasting(spec: Spec) -> Iterator[tuple[tuple[str, int], Spec]]:
    """Yield (field and place, container) of those that run as long as the pod: containers, and sidecars."""
    for field in ("containers", "initContainers"):
        for i, each in enumerate(spec.get(field) or ()):
            if field == "containers" or each.get("restartPolicy") == "Always":
                yield (field, i), each


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


Object = Mapping[str, Any]
_HASHES = ("pod-template-hash", "controller-revision-hash")
"""Labels whose values differ with the template."""
_DEFAULT_TOLERATIONS = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")


class Written(NamedTuple):
    """`pod`: as it was written; `whole`: with what the API server puts in.

    `decode` reads a pod that is there, `create` one that the API server is to create; both raise ObjectError, `create`
    if it is refused. `full`: what a quota says against one more pod like this one; empty if none does. `file`: where it
    is written, empty for a pod of the cluster; `path`: of its spec there, as a JSON pointer. `owner`: the object that
    has its template, if it is among the objects.
    """

    pod: Object
    decode: Callable[[Object], Modelled]
    create: Callable[[Object], Modelled]
    whole: Object
    file: str = ""
    path: str = ""
    owner: Object | None = None
    full: Callable[[Object], str] = lambda made: ""

    @property
    def spec(self) -> Object:
        """Return the spec as it was written."""
        found: Object = self.pod.get("spec") or {}
        return found


def of_cluster(pod: Pod, world: World) -> Written | None:
    """Return a pod that waits in a cluster; None for one of which only what decisions read is known."""
    found = world.written(pod)
    if found is None:
        return None
    found = {**found, "metadata": {**found["metadata"], "namespace": pod.namespace}}
    spec = found.get("spec") or {}
    own = {**found, "spec": json_patch(deepcopy(dict(spec)), unmerged(spec, pod.labels))}

    def stored(made: Object) -> dict[str, Any]:
        return world.admission.created(made, [])

    try:
        create = creates(world, stored, stored(own))
    except ObjectError:  # it is there though: what admits it is not known here
        return Written(found, world.decode, world.decode, found, owner=_owner(pod, world))

    def full(made: Object) -> str:
        there = chain(world.placed.values(), world.waiting.values())
        refusal = lets(stored(made), 1, world.admission.quotas(pod.namespace, there))
        return "" if refusal is None else refusal.why

    return Written(found, world.decode, create, found, owner=_owner(pod, world), full=full)


def creates(world: World, stored: Callable[[Object], Object], now: Object) -> Callable[[Object], Modelled]:
    """Return what creates a pod as the API server does: it is refused if it is wrong in more than the pod `now` is.

    `stored` returns a pod as it would be stored.
    """
    before = world.admission.wrong(now)

    def create(pod: Object) -> Modelled:
        made = stored(pod)
        if wrong := world.admission.wrong(made) - before:
            raise ObjectError(f"the API server refuses it: {min(wrong)}")
        return world.decode(made)

    return create


def controller_of(pod: Pod) -> tuple[str, str] | None:
    """Return (kind, name) of what has the template of a pod, and makes new pods when it is changed; None: not known."""
    if pod.owner is None:
        return None
    kind, name = pod.owner[:2]
    suffix = f"-{pod.labels.get(_HASHES[0], '')}"
    if kind == "ReplicaSet" and len(suffix) > 1 and name.endswith(suffix):
        return "Deployment", name.removesuffix(suffix)
    return (kind, name) if kind in TEMPLATED else None


def _owner(pod: Pod, world: World) -> Object | None:
    owner = controller_of(pod)
    return None if owner is None else world.with_template(owner[0], pod.namespace, owner[1])


def in_the_template(written: Written, pod: Pod) -> Object:
    """Return the spec of a pod without what controllers and admission have put in, but for resources and selectors."""
    spec = dict(written.whole.get("spec") or {})
    daemon = pod.owner is not None and pod.owner[0] == "DaemonSet"
    theirs = TOLERATED if daemon else ()
    tolerations = [
        each
        for each in spec.get("tolerations") or ()
        if each.get("key") not in _DEFAULT_TOLERATIONS and each not in theirs
    ]
    spec = {**spec, "tolerations": tolerations}
    affinity = spec.get("affinity")
    if daemon and isinstance(affinity, dict) and _REQUIRED in (affinity.get("nodeAffinity") or {}):
        rest = {key: value for key, value in affinity["nodeAffinity"].items() if key != _REQUIRED}
        spec["affinity"] = {**affinity, "nodeAffinity": rest}
    return spec


def templates_of(written: Written, pod: Pod) -> Iterator[Object]:
    """Yield the template's spec; if it is not known, those that may be it: with and without defaults."""
    if written.owner is not None:
        yield written.owner["spec"]["template"]["spec"]
        return
    spec = in_the_template(written, pod)
    full: dict[str, Any] = json_patch(deepcopy(dict(spec)), unmerged(spec, pod.labels))
    if full.get("priorityClassName"):
        full.pop("preemptionPolicy", None)  # it is the class's
    yield full
    for leaner in (_limits_only, _asking_nothing):
        lean = deepcopy(full)
        for each in (lean, *(lean.get("containers") or ()), *(lean.get("initContainers") or ())):
            leaner(each)
        if lean != full:
            with suppress(ObjectError):
                made = made_of(written, pod, lean)
                if made.shape.requests == pod.shape.requests:
                    yield lean


def made_of(written: Written, pod: Pod, template: Object) -> Pod:
    """Return the pod that its controller makes of a template instead. Raises ObjectError."""
    return as_asked(written.create(from_template(written, pod, template)), pod)


def from_template(written: Written, pod: Pod, template: Object) -> Object:
    """Return the pod that its controller sends to the API server for a template."""
    metadata = dict(written.whole["metadata"])
    labels = dict(metadata.get("labels") or {})
    metadata["labels"] = {key: f"{value[:50]}-new" if key in _HASHES else value for key, value in labels.items()}
    spec = template
    if pod.owner is not None and pod.owner[0] == "DaemonSet":
        required = pod.shape.required_node_affinity
        spec = of_daemon(spec, next(iter((required and required.names) or ()), ""))
    return {**written.whole, "metadata": metadata, "spec": spec, "status": {}}


def as_asked(made: Modelled, pod: Pod) -> Pod:
    """Return a changed pod in the place of the one that was asked about."""
    assert isinstance(made, Pod)
    return replace(made, uid=pod.uid, name=pod.name, node_name="", nominated_node_name="")


def _limits_only(owner: dict[str, Any]) -> None:
    """Take requests away that are what the limits say."""
    resources = owner.get("resources")
    if not isinstance(resources, dict):
        return
    limits = resources.get("limits") or {}
    requests = {name: each for name, each in (resources.get("requests") or {}).items() if limits.get(name) != each}
    rest = {key: value for key, value in resources.items() if key != "requests"}
    owner["resources"] = {**rest, **({"requests": requests} if requests else {})}


def _asking_nothing(owner: dict[str, Any]) -> None:
    owner.pop("resources", None)
