"""The admission plugins that are part of the server: they change or refuse pods before any webhook is asked.

Upstream: plugin/pkg/admission/{limitranger,priority,defaulttolerationseconds,runtimeclass,podtopologylabels} and
k8s.io/apiserver pkg/admission/plugin/resourcequota, in the order of pkg/kubeapiserver/options/plugins.go. What they
read of a cluster is in `Surroundings`, so that `created` says of a pod that nobody sends what a server would store.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from podberth.apiserver import defaults, limitranges, podgroups, podresources, podvalidation, quotas, strategy
from podberth.apiserver.priority_classes import priority_class
from podberth.apiserver.resources import BUILT_IN, Registry, Resource
from podberth.apiserver.status import JsonObject, StatusError, decoding, forbidden, invalid
from podberth.apiserver.storage import Store

NOT_READY = "node.kubernetes.io/not-ready"
UNREACHABLE = "node.kubernetes.io/unreachable"
TOPOLOGY_LABELS = ("topology.kubernetes.io/zone", "topology.kubernetes.io/region")
_POD = next(resource for resource in BUILT_IN if resource.kind == "Pod")


class Surroundings(NamedTuple):
    """What the plugins read when a pod is created: classes by name, and the LimitRanges of its namespace."""

    priority_classes: Mapping[str, JsonObject] = {}
    runtime_classes: Mapping[str, JsonObject] = {}
    limit_ranges: Sequence[JsonObject] = ()
    pod_groups: bool = True


def created(pod: JsonObject, around: Surroundings) -> JsonObject:
    """The pod as it is stored once it is created; webhooks are not asked, and `pod` stays as it is.

    Its own fields are not judged, but for amounts that defaults or a LimitRange may have changed. Raises StatusError
    where it is refused.
    """
    made: JsonObject = without_nulls(msgspec.json.decode(msgspec.json.encode(pod)))
    with decoding("v1", "Pod"):
        defaults.apply("Pod", made)
        admit_pod(made, around)
        strategy.prepare_create(_POD, made)
        checked = around.limit_ranges or podresources.is_set(made["spec"])
        if checked and (wrong := podvalidation.amounts(made["spec"])):
            raise invalid("", "Pod", made["metadata"].get("name", ""), wrong)
        limitranges.check(made, around.limit_ranges)
    return made


def without_nulls(value: Any) -> Any:
    """Go's decoder takes null for absent."""
    if isinstance(value, dict):
        return {key: without_nulls(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [without_nulls(item) for item in value]
    return value


def admit_pod(pod: JsonObject, around: Surroundings) -> None:
    """All that mutating plugins do to a new pod, in place."""
    limitranges.fill(pod, around.limit_ranges)
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
        """All that happens to a new pod, in place."""
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
        limitranges.check(pod, self._in_namespace(self._ranges, pod))
        known = [
            {**quota, "status": {**(quota.get("status") or {})}} for quota in self._in_namespace(self._quotas, pod)
        ]
        for quota in known:
            quota["status"]["used"] = dict(quota["status"].get("used") or {})
        verdict = quotas.allowed(pod, 1, known)
        if verdict is not None:
            raise _refused(pod, verdict.why)
        quotas.charge(pod, 1, known)
        for quota in known if not dry_run else ():
            key = self._quotas.key(quota["metadata"]["namespace"], quota["metadata"]["name"])
            old = self._store.get(self._quotas, key)
            if old is not None and old.obj.get("status", {}) != quota["status"] and quota["status"]["used"]:
                self._store.update(self._quotas, old, quota)

    def create_pod_group(self, resource: Resource, group: JsonObject) -> None:
        """All that happens to a new pod group, in place."""
        podgroups.drop_gated(resource, group)
        podgroups.admit(group, self._named(self._priorities))

    def _named(self, resource: Resource) -> dict[str, JsonObject]:
        return {name: stored.obj for name, stored in self._store.collection(resource.collection).items.items()}

    def _in_namespace(self, resource: Resource, pod: JsonObject) -> list[JsonObject]:
        inside = f"{pod['metadata'].get('namespace', '')}/"
        found = self._store.collection(resource.collection).ordered()
        return [each.obj for each in found if each.key.startswith(inside)]

    def topology_labels(self, node: str) -> dict[str, str]:
        """Labels that a pod takes over from the node it is bound to."""
        stored = self._store.get(self._nodes, node)
        labels = (stored.obj["metadata"].get("labels") or {}) if stored else {}
        return {key: labels[key] for key in TOPOLOGY_LABELS if key in labels}


def _runtime_class(pod: JsonObject, classes: Mapping[str, JsonObject]) -> None:
    """The class decides overhead and where its pods may go."""
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


def _refused(obj: JsonObject, why: str) -> StatusError:
    return forbidden("", "pods", obj["metadata"].get("name", ""), why)
