"""Decides what a write may not: status on create, spec on a status write, generation, QoS class, merged label keys.

What the server gives to objects out of nothing is given here: the time, uids and generated names.
"""

from __future__ import annotations

import random
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass

from podberth.apiserver.resources import Resource
from podberth.apiserver.rules import podgroups
from podberth.apiserver.rules.quantity import containers, default_pod_level, is_set, nano
from podberth.apiserver.rules.status import JsonObject

SUFFIX_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
# Counters without omitempty in Go: a fresh object shows them as zeros.
_ZEROS: dict[str, tuple[str, ...]] = {
    "PodDisruptionBudget": ("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"),
    "ReplicaSet": ("replicas",),
    "ReplicationController": ("replicas",),
    "StatefulSet": ("replicas", "availableReplicas"),
    "DaemonSet": ("currentNumberScheduled", "desiredNumberScheduled", "numberMisscheduled", "numberReady"),
}
_SERVER_META = ("uid", "creationTimestamp", "namespace", "name", "generateName", "selfLink")
_STATUS_ALONE = frozenset(("DeviceTaintRule", "PodGroup", "ResourceClaim", "VolumeAttachment"))
"""Built-in kinds whose labels, annotations and finalizers a write through /status leaves alone, as with custom ones."""


def _uid() -> str:
    return str(uuid.uuid4())


def _suffix() -> str:
    return "".join(random.choices(SUFFIX_LETTERS, k=5))


@dataclass(slots=True)
class Given:
    """`wall` is seconds since the epoch, `suffix` what follows a generateName."""

    wall: Callable[[], float] = time.time
    uid: Callable[[], str] = _uid
    suffix: Callable[[], str] = _suffix


GIVEN = Given()
"""UIDs and names of objects are made here, for all servers of this process."""


def timestamp(at: float | None = None) -> str:
    """Return a moment as metav1.Time writes it."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(GIVEN.wall() if at is None else at))


def qos_class(spec: JsonObject) -> str:
    """Guaranteed, Burstable or BestEffort, as ComputePodQOS decides."""
    if is_set(spec):
        return _requirements_qos(spec["resources"])
    found = {_requirements_qos(container.get("resources") or {}) for container in containers(spec)}
    if len(found) > 1:
        return "Burstable"
    return found.pop() if found else "BestEffort"


def _requirements_qos(resources: JsonObject) -> str:
    found = set()
    for name in ("cpu", "memory"):
        request, limit = nano(resources.get("requests"), name), nano(resources.get("limits"), name)
        if request != limit:
            return "Burstable"
        found.add("Guaranteed" if request else "BestEffort")
    return found.pop() if len(found) == 1 else "Burstable"


def _merge_label_keys(selector_owner: JsonObject, keys: list[str], operator: str, labels: JsonObject) -> None:
    """matchLabelKeys become requirements of the selector when the pod is created."""
    selector = selector_owner.get("labelSelector")
    if selector is None:
        return
    for key in keys:
        if key in labels:
            selector.setdefault("matchExpressions", []).append(
                {"key": key, "operator": operator, "values": [labels[key]]}
            )


def _create_pod(obj: JsonObject) -> None:
    spec = obj["spec"]
    labels = obj["metadata"].get("labels") or {}
    for constraint in spec.get("topologySpreadConstraints") or []:
        _merge_label_keys(constraint, constraint.get("matchLabelKeys") or [], "In", labels)
    for side in ("podAffinity", "podAntiAffinity"):
        rules = (spec.get("affinity") or {}).get(side) or {}
        terms = list(rules.get("requiredDuringSchedulingIgnoredDuringExecution") or [])
        soft = rules.get("preferredDuringSchedulingIgnoredDuringExecution") or []
        terms.extend(weighted.get("podAffinityTerm") or {} for weighted in soft)
        for term in terms:
            _merge_label_keys(term, term.get("matchLabelKeys") or [], "In", labels)
            _merge_label_keys(term, term.get("mismatchLabelKeys") or [], "NotIn", labels)
    default_pod_level(spec)
    status: JsonObject = {"phase": "Pending"}
    if spec.get("schedulingGates"):
        status["conditions"] = [
            {
                "type": "PodScheduled",
                "status": "False",
                "lastProbeTime": None,
                "lastTransitionTime": timestamp(),
                "reason": "SchedulingGated",
                "message": "Scheduling is blocked due to non-empty scheduling gates",
            }
        ]
    status["qosClass"] = qos_class(spec)
    obj["status"] = status


def _create_namespace(obj: JsonObject) -> None:
    obj.setdefault("spec", {}).setdefault("finalizers", ["kubernetes"])
    obj["status"] = {"phase": "Active"}


def prepare_create(resource: Resource, obj: JsonObject) -> None:
    """Set what the server sets on a new object, in place."""
    if resource.generation:
        obj["metadata"]["generation"] = 1
    else:
        obj["metadata"].pop("generation", None)
    if resource.custom:
        obj["metadata"]["generation"] = 1
        if resource.status:
            obj.pop("status", None)
    elif resource.kind == "Pod":
        _create_pod(obj)
    elif resource.kind == "Namespace":
        _create_namespace(obj)
    elif resource.kind in {"PersistentVolume", "PersistentVolumeClaim"}:
        obj["status"] = {"phase": "Pending"}
    elif resource.kind == "CustomResourceDefinition":
        stored = [version["name"] for version in obj["spec"].get("versions") or [] if version.get("storage")]
        obj["status"] = {"conditions": None, "acceptedNames": {"plural": "", "kind": ""}, "storedVersions": stored}
    elif resource.status and not resource.keeps_status_on_create:
        obj["status"] = (
            {"loadBalancer": {}} if resource.kind == "Service" else dict.fromkeys(_ZEROS.get(resource.kind, ()), 0)
        )


def carry_metadata(new: JsonObject, old: JsonObject) -> None:
    """Take over from the stored object what no update may touch."""
    new_meta, old_meta = new["metadata"], old["metadata"]
    for name in (*_SERVER_META, "generation", "deletionTimestamp", "deletionGracePeriodSeconds"):
        if name in old_meta:
            new_meta[name] = old_meta[name]
        else:
            new_meta.pop(name, None)


def _content(obj: JsonObject) -> JsonObject:
    return {name: value for name, value in obj.items() if name not in {"metadata", "status"}}


def prepare_update(resource: Resource, new: JsonObject, old: JsonObject) -> None:
    """An update through the main endpoint: the status stays, and a changed spec counts up the generation."""
    if resource.status:
        _keep(new, old, "status")
    if resource.is_a("Namespace"):
        _keep(new, old, "spec")
    if resource.is_a("PodGroup"):
        podgroups.drop_gated(resource, new)
    if (resource.generation or resource.custom) and _content(new) != _content(old):
        new["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1


def prepare_status_update(resource: Resource, new: JsonObject, old: JsonObject) -> JsonObject:
    """Return the object after a write through /status: only the status changes, and of most built-in kinds labels and
    annotations.
    """
    result = dict(old)
    if "status" in new:
        result["status"] = new["status"]
    else:
        result.pop("status", None)
    if not resource.custom and resource.kind not in _STATUS_ALONE:
        metadata = dict(new["metadata"])
        _keep(metadata, old["metadata"], "ownerReferences")
        result["metadata"] = metadata
    if resource.is_a("Pod"):
        status = result["status"] = dict(result.get("status") or {})
        if not status.get("qosClass") and "qosClass" in (old.get("status") or {}):
            status["qosClass"] = old["status"]["qosClass"]
        _keep_observed_generation(status, old.get("status") or {})
        show_condition_times(status, "lastProbeTime")
    elif resource.is_a("Node") and "status" in result:
        show_condition_times(result["status"], "lastHeartbeatTime")
    return result


def show_condition_times(status: JsonObject, other: str) -> None:
    """Times of conditions are shown also when nobody has set them."""
    for condition in status.get("conditions") or []:
        condition.setdefault(other, None)
        condition.setdefault("lastTransitionTime", None)


def _keep_observed_generation(status: JsonObject, old: JsonObject) -> None:
    """A condition written without observedGeneration keeps the one it had (preserveOldObservedGeneration)."""
    if not status.get("observedGeneration") and old.get("observedGeneration"):
        status["observedGeneration"] = old["observedGeneration"]
    before = {condition.get("type"): condition for condition in old.get("conditions") or []}
    for condition in status.get("conditions") or []:
        generation = before.get(condition.get("type"), {}).get("observedGeneration")
        if generation and not condition.get("observedGeneration"):
            condition["observedGeneration"] = generation


def _keep(new: JsonObject, old: JsonObject, name: str) -> None:
    if name in old:
        new[name] = old[name]
    else:
        new.pop(name, None)


def set_condition(conditions: list[JsonObject], condition: JsonObject) -> list[JsonObject]:
    """Return the conditions with one put in by type; the transition time moves only with the status
    (UpdatePodCondition).
    """
    before = next((one for one in conditions if one.get("type") == condition["type"]), None)
    since = before.get("lastTransitionTime") if before and before.get("status") == condition["status"] else None
    put = {**condition, "lastProbeTime": None, "lastTransitionTime": since or timestamp()}
    return [*conditions, put] if before is None else [put if one is before else one for one in conditions]
