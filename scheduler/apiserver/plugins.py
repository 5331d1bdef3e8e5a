"""The admission plugins that are part of the server: they change or refuse pods before any webhook is asked.

Upstream: plugin/pkg/admission/{defaulttolerationseconds,priority,runtimeclass,podtopologylabels}.
"""

from __future__ import annotations

from scheduler.apiserver import podgroups
from scheduler.apiserver.priority_classes import priority_class
from scheduler.apiserver.resources import Registry, Resource
from scheduler.apiserver.status import JsonObject, StatusError, forbidden
from scheduler.apiserver.storage import Store

NOT_READY = "node.kubernetes.io/not-ready"
UNREACHABLE = "node.kubernetes.io/unreachable"
TOPOLOGY_LABELS = ("topology.kubernetes.io/zone", "topology.kubernetes.io/region")


class Plugins:
    """Built-in admission."""

    def __init__(self, store: Store, registry: Registry) -> None:
        self._store = store
        self._priorities = registry.built_in("priorityclasses")
        self._runtimes = registry.built_in("runtimeclasses")
        self._nodes = registry.built_in("nodes")
        groups = podgroups.POD_GROUPS
        self._groups = registry.find(groups.group, groups.version, groups.plural) is not None

    def create_pod(self, pod: JsonObject) -> None:
        """All that happens to a new pod, in place."""
        priority(pod, self._classes())
        if not self._groups:
            pod["spec"].pop("schedulingGroup", None)
        self._runtime_class(pod)
        default_tolerations(pod)
        if labels := self.topology_labels(pod["spec"].get("nodeName", "")):
            pod["metadata"].setdefault("labels", {}).update(labels)

    def create_pod_group(self, resource: Resource, group: JsonObject) -> None:
        """All that happens to a new pod group, in place."""
        podgroups.drop_gated(resource, group)
        podgroups.admit(group, self._classes())

    def _classes(self) -> dict[str, JsonObject]:
        classes = self._store.collection(self._priorities.collection).items
        return {name: stored.obj for name, stored in classes.items()}

    def topology_labels(self, node: str) -> dict[str, str]:
        """Labels that a pod takes over from the node it is bound to."""
        stored = self._store.get(self._nodes, node)
        labels = (stored.obj["metadata"].get("labels") or {}) if stored else {}
        return {key: labels[key] for key in TOPOLOGY_LABELS if key in labels}

    def _runtime_class(self, pod: JsonObject) -> None:
        """The class decides overhead and where its pods may go."""
        spec = pod["spec"]
        name = spec.get("runtimeClassName")
        stored = self._store.get(self._runtimes, name) if name else None
        if name and stored is None:
            raise _refused(pod, f'pod rejected: RuntimeClass "{name}" not found')
        runtime = stored.obj if stored else {}
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
        tolerations = spec.get("tolerations") or []
        added = [toleration for toleration in scheduling.get("tolerations") or [] if toleration not in tolerations]
        if added:
            spec["tolerations"] = [*tolerations, *added]


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


def priority(obj: JsonObject, classes: dict[str, JsonObject]) -> None:
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
