"""PodGroups of scheduling.k8s.io/v1beta1, served with the feature gate GenericWorkload: defaults, admission and rules.

Which PriorityClass counts is the same for pods and for pod groups.
"""

from __future__ import annotations

from collections.abc import Mapping

from podberth.apiserver.resources import Resource
from podberth.apiserver.rules import names
from podberth.apiserver.rules.status import (
    Errors,
    FieldError,
    JsonObject,
    StatusError,
    duplicate,
    forbidden,
    invalid_value,
    misnamed,
    not_supported,
    required,
)

PRIORITY_CLASSES = {
    "system-cluster-critical": (
        2_000_000_000,
        "Used for system critical pods that must run in the cluster, but can be moved to another node if necessary.",
    ),
    "system-node-critical": (
        2_000_001_000,
        "Used for system critical pods that must not be moved from their current node.",
    ),
}
"""The classes that a real server has from the start: name → (value, description)."""
GATE = "GenericWorkload"
PROTECTION = "scheduling.k8s.io/podgroup-protection"
HIGHEST_PRIORITY = 1_000_000_000
MESSAGE_LIMIT = 32 << 10
_MODES, _POLICIES = ("single", "all"), ("basic", "gang")


def priority_class(spec: JsonObject, classes: Mapping[str, JsonObject]) -> JsonObject | None:
    """Return the class that a spec names, or else the lowest default one, whose name is written into the spec.

    Returns an empty object where there is neither, None when there is no class of that name.
    """
    name = spec.get("priorityClassName", "")
    if not name:
        defaults = (item for item in classes.values() if item.get("globalDefault"))
        default = min(defaults, key=lambda item: item.get("value", 0), default=None)
        if default is None:
            return {}
        name = spec["priorityClassName"] = default["metadata"]["name"]
    return classes.get(name)


POD_GROUPS = Resource(
    "scheduling.k8s.io",
    "v1beta1",
    "podgroups",
    "PodGroup",
    True,
    status=True,
    unconditional=False,
    dropped=("schedulingConstraints", "resourceClaims", "preemptionPolicy", "parentCompositePodGroupName"),
)


def set_defaults(obj: JsonObject) -> None:
    """Set the default disruption mode."""
    obj.setdefault("spec", {}).setdefault("disruptionMode", {"single": {}})


def drop_gated(resource: Resource, obj: JsonObject) -> None:
    """Drop fields whose feature gates are off."""
    for name in resource.dropped:
        obj.get("spec", {}).pop(name, None)


def admit(obj: JsonObject, classes: Mapping[str, JsonObject]) -> None:
    """Apply the admission plugins Priority and PodGroupProtection to a new group. Raises StatusError."""
    spec, metadata = obj["spec"], obj["metadata"]
    found = priority_class(spec, classes)
    if found is None:
        raise _refused(metadata, f"no PriorityClass with name {spec['priorityClassName']} was found")
    value = found.get("value", 0)
    if spec.get("priority") not in {None, value}:
        raise _refused(
            metadata,
            f"priority set in the pod group ({spec['priority']}) must match the priority computed ({value}) based on "
            "the priority class set in the spec",
        )
    spec["priority"] = value
    if PROTECTION not in (metadata.get("finalizers") or []):
        metadata["finalizers"] = [*(metadata.get("finalizers") or []), PROTECTION]


def _refused(metadata: JsonObject, why: str) -> StatusError:
    return forbidden(POD_GROUPS.group, POD_GROUPS.plural, metadata.get("name", ""), why)


def rules(obj: JsonObject) -> Errors:
    """Yield the errors in a group's spec."""
    spec = obj.get("spec") or {}
    if (reference := spec.get("workloadRef")) is not None:
        yield from _name(reference, "workloadName", names.subdomain_errors)
        yield from _name(reference, "templateName", names.dns_label_errors)
    policy = spec.get("schedulingPolicy") or {}
    yield from _one_of(policy, "spec.schedulingPolicy", _POLICIES)
    if (gang := policy.get("gang")) is not None:
        field, count = "spec.schedulingPolicy.gang.minCount", gang.get("minCount", 0)
        if not count:
            yield required(field)
        elif count < 1:
            yield invalid_value(field, count, "must be greater than or equal to 1")
    if (mode := spec.get("disruptionMode")) is not None:
        yield from _one_of(mode, "spec.disruptionMode", _MODES)
    if (priority := spec.get("priority")) is not None and priority > HIGHEST_PRIORITY:
        yield invalid_value("spec.priority", priority, f"must be less than or equal to {HIGHEST_PRIORITY}")


def _name(reference: JsonObject, part: str, rule: names.Rule) -> Errors:
    value, field = reference.get(part, ""), f"spec.workloadRef.{part}"
    if not value:
        yield required(field)
    else:
        yield from misnamed(rule, value, field)


def _one_of(union: JsonObject, field: str, members: tuple[str, ...]) -> Errors:
    there = [name for name in members if name in union]
    choice = ", ".join(f"`{name}`" for name in members)
    if not there:
        yield invalid_value(field, "", f"must specify one of: {choice}")
    elif len(there) > 1:
        yield invalid_value(field, f"{{{', '.join(there)}}}", f"must specify exactly one of: {choice}")


def changes(new: JsonObject, old: JsonObject) -> Errors:
    """Yield the errors in an update: of the spec only a gang's minimum may change."""
    after, before = new.get("spec") or {}, old.get("spec") or {}
    to, was = after.get("schedulingPolicy") or {}, before.get("schedulingPolicy") or {}
    if to.get("basic") != was.get("basic"):
        yield invalid_value("spec.schedulingPolicy.basic", None, "field is immutable")
    if "gang" in was and "gang" not in to:
        yield invalid_value("spec.schedulingPolicy.gang", None, "field cannot be cleared once set")
    if "gang" in to and "gang" not in was:
        yield invalid_value("spec.schedulingPolicy.gang", None, "field cannot be set once created")
    for name in ("workloadRef", "disruptionMode", "priorityClassName", "priority"):
        if after.get(name) != before.get(name):
            yield invalid_value(f"spec.{name}", None, "field is immutable")


def status_rules(obj: JsonObject) -> Errors:
    """Yield the errors in the conditions (metav1 ValidateConditions)."""
    seen = set()
    for index, condition in enumerate((obj.get("status") or {}).get("conditions") or []):
        field = f"status.conditions[{index}]"
        kind = condition.get("type", "")
        if kind in seen:
            yield duplicate(field, kind)
        seen.add(kind)
        if not kind:
            yield required(f"{field}.type")
        if condition.get("status") not in {"True", "False", "Unknown"}:
            yield not_supported(f"{field}.status", condition.get("status", ""), ["False", "True", "Unknown"])
        for name in ("lastTransitionTime", "reason"):
            if not condition.get(name):
                yield required(f"{field}.{name}")
        if len(condition.get("message", "").encode()) > MESSAGE_LIMIT:
            yield FieldError("TooLong", f"{field}.message", None, f"may not be more than {MESSAGE_LIMIT} bytes")


def member_rules(spec: JsonObject) -> Errors:
    """Yield the errors in a pod's schedulingGroup."""
    group = spec.get("schedulingGroup")
    if group is None:
        return
    field, name = "spec.schedulingGroup.podGroupName", group.get("podGroupName")
    if name is None:
        yield invalid_value(field, None, "must specify one of: `podGroupName`")
    else:
        yield from misnamed(names.subdomain_errors, name, field)
