"""The admission plugins that are part of the server: they change or refuse pods before any webhook is asked.

LimitRanges say what containers ask for that say nothing, and the bounds that pods and containers have to keep;
ResourceQuotas, what a pod counts for in them, and when there is too little left for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from podberth.apiserver.resources import BUILT_IN, Registry, Resource
from podberth.apiserver.rules import defaults, podgroups, quantity, strategy, validation
from podberth.apiserver.rules.podgroups import priority_class
from podberth.apiserver.rules.quantity import (
    HUGE_PAGES,
    MILLI,
    aggregated,
    at_pod_level,
    containers,
    is_set,
    nano,
    overcommitted,
    shown,
)
from podberth.apiserver.rules.status import JsonObject, StatusError, decoding, forbidden, invalid
from podberth.apiserver.storage import Store

_ANNOTATION = "kubernetes.io/limit-ranger"
_OVERRIDING = ("cpu", "memory")
"""Resources of which a pod's own request counts in place of what its containers ask for."""
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
"""A quota that bounds one of these needs it said: each container has to say it."""
NOT_READY = "node.kubernetes.io/not-ready"
UNREACHABLE = "node.kubernetes.io/unreachable"
TOPOLOGY_LABELS = ("topology.kubernetes.io/zone", "topology.kubernetes.io/region")
_POD = next(resource for resource in BUILT_IN if resource.kind == "Pod")


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
        said, bound = f"minimum {name} usage per {kind} is {shown(bounds[name])}", nano(bounds, name)
        if name not in requests:
            yield f"{said}.  No request is specified"
        elif nano(requests, name) < bound:
            yield f"{said}, but request is {shown(requests[name])}"
        elif name in limits and nano(limits, name) < bound:
            yield f"{said}, but limit is {shown(limits[name])}"
    bounds = limit.get("max") or {}
    for name in sorted(bounds):
        said, bound = f"maximum {name} usage per {kind} is {shown(bounds[name])}", nano(bounds, name)
        if name not in limits:
            yield f"{said}.  No limit is specified"
        elif nano(limits, name) > bound:
            yield f"{said}, but limit is {shown(limits[name])}"
        elif name in requests and nano(requests, name) > bound:
            yield f"{said}, but request is {shown(requests[name])}"
    bounds = limit.get("maxLimitRequestRatio") or {}
    for name in sorted(bounds):
        said = f"{name} max limit to request ratio per {kind} is {shown(bounds[name])}"
        request, most = nano(requests, name) // MILLI, nano(limits, name) // MILLI
        if not request:
            yield f"{said}, but no request is specified or request is 0"
        elif not most:
            yield f"{said}, but no limit is specified or limit is 0"
        elif most / request * 1000 > nano(bounds, name) // MILLI:
            yield f"{said}, but provided ratio is {most / request:f}"


def _refused(obj: JsonObject, why: str) -> StatusError:
    return forbidden("", "pods", obj["metadata"].get("name", ""), why)


class Verdict(NamedTuple):
    """The number of pods like one that a quota lets be created, at most as many as asked for, and why it refuses the
    next."""

    quota: str
    allowed: int
    why: str


def counted(pod: JsonObject) -> JsonObject:
    """Return what a pod that has not ended counts for."""
    spec = pod["spec"]
    requests, limits = (_charged(spec, part) for part in ("requests", "limits"))
    return {"count/pods": "1", **_usage(requests, limits)}


def allowed(pod: JsonObject, number: int, quotas: Iterable[JsonObject]) -> Verdict | None:
    """Return the verdict of the quota of the pod's namespace that lets the fewest of `number` pods be created.

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
    return ",".join(f"{name}={shown(amounts[name])}" for name in names)


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


def _charged(spec: JsonObject, part: str) -> JsonObject:
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


class Surroundings(NamedTuple):
    """The objects that the plugins read when a pod is created: classes by name, and the LimitRanges of its
    namespace."""

    priority_classes: Mapping[str, JsonObject] = {}
    runtime_classes: Mapping[str, JsonObject] = {}
    limit_ranges: Sequence[JsonObject] = ()
    pod_groups: bool = True


def created(pod: JsonObject, around: Surroundings) -> JsonObject:
    """Return the pod as it is stored once it is created; webhooks are not asked, and `pod` stays as it is.

    Its own fields are not judged, but for amounts that defaults or a LimitRange may have changed. Raises StatusError
    where it is refused.
    """
    made: JsonObject = without_nulls(msgspec.json.decode(msgspec.json.encode(pod)))
    with decoding("v1", "Pod"):
        defaults.apply("Pod", made)
        admit_pod(made, around)
        strategy.prepare_create(_POD, made)
        checked = around.limit_ranges or quantity.is_set(made["spec"])
        if checked and (wrong := list(validation.amounts(made["spec"]))):
            raise invalid("", "Pod", made["metadata"].get("name", ""), wrong)
        check(made, around.limit_ranges)
    return made


def without_nulls(value: Any) -> Any:
    """Return the value without fields that are null, which Go's decoder takes for absent."""
    if isinstance(value, dict):
        return {key: without_nulls(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [without_nulls(item) for item in value]
    return value


def admit_pod(pod: JsonObject, around: Surroundings) -> None:
    """Change a new pod as the mutating plugins do, in place."""
    fill(pod, around.limit_ranges)
    priority(pod, around.priority_classes)
    if not around.pod_groups:
        pod["spec"].pop("schedulingGroup", None)
    default_tolerations(pod)
    _runtime_class(pod, around.runtime_classes)


class Plugins:
    """Built-in admission."""

    def __init__(self, store: Store, registry: Registry) -> None:
        self._store = store
        self._priorities = registry.built_in("priorityclasses")
        self._runtimes = registry.built_in("runtimeclasses")
        self._ranges = registry.built_in("limitranges")
        self._quotas = registry.built_in("resourcequotas")
        self._nodes = registry.built_in("nodes")
        groups = podgroups.POD_GROUPS
        self._groups = registry.find(groups.group, groups.version, groups.plural) is not None

    def create_pod(self, pod: JsonObject) -> None:
        """Admit a new pod: change it in place, check it, and count it on its quotas."""
        around = Surroundings(
            self._named(self._priorities),
            self._named(self._runtimes),
            self._in_namespace(self._ranges, pod),
            self._groups,
        )
        admit_pod(pod, around)
        if labels := self.topology_labels(pod["spec"].get("nodeName", "")):
            pod["metadata"].setdefault("labels", {}).update(labels)

    def check_pod(self, pod: JsonObject, *, dry_run: bool) -> None:
        """Refuse a new pod that is out of bounds, once it is as it would be stored; else count it in its quotas."""
        check(pod, self._in_namespace(self._ranges, pod))
        known = [
            {**quota, "status": {**(quota.get("status") or {})}} for quota in self._in_namespace(self._quotas, pod)
        ]
        for quota in known:
            quota["status"]["used"] = dict(quota["status"].get("used") or {})
        verdict = allowed(pod, 1, known)
        if verdict is not None:
            raise _refused(pod, verdict.why)
        charge(pod, 1, known)
        for quota in known if not dry_run else ():
            key = self._quotas.key(quota["metadata"]["namespace"], quota["metadata"]["name"])
            old = self._store.get(self._quotas, key)
            if old is not None and old.obj.get("status", {}) != quota["status"] and quota["status"]["used"]:
                self._store.update(self._quotas, old, quota)

    def create_pod_group(self, resource: Resource, group: JsonObject) -> None:
        """Admit a new pod group: change it in place, and check it."""
        podgroups.drop_gated(resource, group)
        podgroups.admit(group, self._named(self._priorities))

    def _named(self, resource: Resource) -> dict[str, JsonObject]:
        return {name: stored.obj for name, stored in self._store.collection(resource.collection).items.items()}

    def _in_namespace(self, resource: Resource, pod: JsonObject) -> list[JsonObject]:
        inside = f"{pod['metadata'].get('namespace', '')}/"
        found = self._store.collection(resource.collection).ordered()
        return [each.obj for each in found if each.key.startswith(inside)]

    def topology_labels(self, node: str) -> dict[str, str]:
        """Return the labels that a pod takes over from the node that it is bound to."""
        stored = self._store.get(self._nodes, node)
        labels = (stored.obj["metadata"].get("labels") or {}) if stored else {}
        return {key: labels[key] for key in TOPOLOGY_LABELS if key in labels}


def _runtime_class(pod: JsonObject, classes: Mapping[str, JsonObject]) -> None:
    """Set the overhead, node selector and tolerations that the pod's RuntimeClass asks for."""
    spec = pod["spec"]
    name = spec.get("runtimeClassName")
    if name and name not in classes:
        raise _refused(pod, f'pod rejected: RuntimeClass "{name}" not found')
    runtime = classes[name] if name else {}
    overhead = (runtime.get("overhead") or {}).get("podFixed")
    if spec.get("overhead") and not overhead:
        raise _refused(pod, "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead")
    if overhead:
        if spec.get("overhead") not in (None, overhead):
            raise _refused(pod, "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead")
        spec["overhead"] = dict(overhead)
    scheduling = runtime.get("scheduling") or {}
    for key, value in (scheduling.get("nodeSelector") or {}).items():
        if spec.setdefault("nodeSelector", {}).setdefault(key, value) != value:
            raise _refused(
                pod,
                f"conflict: runtimeClass.scheduling.nodeSelector[{key}] = {value}; "
                f"pod.spec.nodeSelector[{key}] = {spec['nodeSelector'][key]}",
            )
    if runtime.get("scheduling") is not None:
        spec["tolerations"] = _merged(spec.get("tolerations") or [], scheduling.get("tolerations") or [])


def _merged(first: list[JsonObject], second: list[JsonObject]) -> list[JsonObject]:
    """Both lists, without what another toleration covers (util/tolerations, MergeTolerations)."""
    both = [*first, *second]
    merged: list[JsonObject] = []
    for number, toleration in enumerate(both):
        later = [each for each in both[number + 1 :] if each != toleration]
        if not any(_covers(each, toleration) for each in (*merged, *later)):
            merged.append(toleration)
    return merged


def _covers(wide: JsonObject, narrow: JsonObject) -> bool:
    """Return whether a toleration tolerates all that another one does (isSuperset)."""
    if wide == narrow:
        return True
    key, operator, effect = wide.get("key", ""), wide.get("operator", ""), wide.get("effect", "")
    if narrow.get("key", "") != key and (key or operator != "Exists"):
        return False
    if effect not in ("", narrow.get("effect", "")):
        return False
    seconds = wide.get("tolerationSeconds")
    if effect == "NoExecute" and seconds is not None:
        mine = narrow.get("tolerationSeconds")
        if mine is None or mine > seconds:
            return False
    if operator in ("Equal", ""):
        return (narrow.get("operator"), narrow.get("value", "")) == ("Equal", wide.get("value", ""))
    return str(operator) == "Exists"


def default_tolerations(obj: JsonObject) -> None:
    """DefaultTolerationSeconds: five minutes for nodes that are not ready or unreachable."""
    tolerations = obj["spec"].get("tolerations") or []
    for key in (NOT_READY, UNREACHABLE):
        if not any(
            toleration.get("key", "") in {key, ""} and toleration.get("effect", "") in {"NoExecute", ""}
            for toleration in tolerations
        ):
            tolerations.append({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300})
    obj["spec"]["tolerations"] = tolerations


def priority(obj: JsonObject, classes: Mapping[str, JsonObject]) -> None:
    """The Priority admission plugin: the class decides the number, the pod may not."""
    spec = obj["spec"]
    found = priority_class(spec, classes)
    if found is None:
        raise _refused(obj, f"no PriorityClass with name {spec['priorityClassName']} was found")
    value = found.get("value", 0)
    policy = found.get("preemptionPolicy", "PreemptLowerPriority")
    if spec.get("priority") not in {None, value}:
        raise _refused(
            obj,
            f"the integer value of priority ({spec['priority']}) must not be provided in pod spec; priority admission "
            f"controller computed {value} from the given PriorityClass name",
        )
    if spec.get("preemptionPolicy") not in {None, policy}:
        raise _refused(
            obj,
            f"the string value of PreemptionPolicy ({spec['preemptionPolicy']}) must not be provided in pod spec; "
            f"priority admission controller computed {policy} from the given PriorityClass name",
        )
    spec["priority"], spec["preemptionPolicy"] = value, policy
