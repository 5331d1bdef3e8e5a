"""Validation of the essentials, with the API's own sentences; what isn't checked here is stored as it came.

Upstream: pkg/apis/core/validation/validation.go, events.go; k8s.io/apimachinery pkg/api/validation/objectmeta.go.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from podberth.apiserver import claims, names, podgroups, podvalidation
from podberth.apiserver.quantity import nano, text_of
from podberth.apiserver.resources import Resource
from podberth.apiserver.status import (
    FieldError,
    JsonObject,
    forbidden_field,
    invalid,
    invalid_value,
    not_supported,
    required,
)

STANDARD_FINALIZERS = frozenset({"orphan", "foregroundDeletion", "kubernetes"})
ANNOTATIONS_LIMIT = 256 * 1024

_NAME_RULES: dict[str, Callable[[str], tuple[str, ...]]] = {
    "Namespace": names.dns_label_errors,
    "Service": names.dns_label_errors,
    "Role": names.path_segment_errors,
    "RoleBinding": names.path_segment_errors,
    "ClusterRole": names.path_segment_errors,
    "ClusterRoleBinding": names.path_segment_errors,
}


def _metadata(resource: Resource, metadata: JsonObject) -> list[FieldError]:
    errors: list[FieldError] = []
    rule = names.subdomain_errors if resource.custom else _NAME_RULES.get(resource.kind, names.subdomain_errors)
    if prefix := metadata.get("generateName"):
        # A trailing dash is fine, since more will follow it.
        errors.extend(
            invalid_value("metadata.generateName", prefix, text) for text in rule(prefix.rstrip("-") or prefix)
        )
    name = metadata.get("name", "")
    if not name:
        errors.append(required("metadata.name", "name or generateName is required"))
    else:
        errors.extend(invalid_value("metadata.name", name, text) for text in rule(name))
    errors.extend(podvalidation.labels(metadata.get("labels"), "metadata.labels"))
    errors.extend(_annotations(metadata.get("annotations")))
    for index, finalizer in enumerate(metadata.get("finalizers") or []):
        field = f"metadata.finalizers[{index}]"
        errors.extend(invalid_value(field, finalizer, text) for text in names.qualified_name_errors(finalizer))
        if "/" not in finalizer and finalizer not in STANDARD_FINALIZERS and not resource.custom:
            why = "name is neither a standard finalizer name nor is it fully qualified"
            errors.append(invalid_value(field, finalizer, why))
    return errors


def _annotations(annotations: JsonObject | None) -> list[FieldError]:
    errors: list[FieldError] = []
    size = 0
    for key, value in (annotations or {}).items():
        errors.extend(
            invalid_value("metadata.annotations", key, text) for text in names.qualified_name_errors(key.lower())
        )
        size += len(key) + len(str(value).encode())
    if size > ANNOTATIONS_LIMIT:
        errors.append(
            FieldError("TooLong", "metadata.annotations", None, f"may not be more than {ANNOTATIONS_LIMIT} bytes")
        )
    return errors


def _node(obj: JsonObject) -> list[FieldError]:
    errors: list[FieldError] = []
    seen = set()
    for index, taint in enumerate((obj.get("spec") or {}).get("taints") or []):
        field = f"metadata.taints[{index}]"
        key, effect = taint.get("key", ""), taint.get("effect", "")
        errors.extend(invalid_value(f"{field}.key", key, text) for text in names.qualified_name_errors(key))
        value = taint.get("value", "")
        problems = names.label_value_errors(value)
        if problems:
            errors.append(invalid_value(f"{field}.value", value, ";".join(problems)))
        if not effect:
            errors.append(required(f"{field}.effect"))
        elif effect not in podvalidation.EFFECTS:
            errors.append(not_supported(f"{field}.effect", effect, podvalidation.EFFECTS))
        if (key, effect) in seen:
            shown = {"Key": key, "Value": value, "Effect": effect, "TimeAdded": None}
            errors.append(FieldError("Duplicate", field, shown, "taints must be unique by key and effect pair"))
        seen.add((key, effect))
    for part in ("capacity", "allocatable"):
        amounts = (obj.get("status") or {}).get(part) or {}
        errors.extend(
            invalid_value(f"status.{part}.{name}", text_of(value), "must be greater than or equal to 0")
            for name, value in amounts.items()
            if nano(amounts, name) < 0
        )
    return errors


def _event(resource: Resource, obj: JsonObject) -> list[FieldError]:
    errors: list[FieldError] = []
    namespace = obj["metadata"].get("namespace", "")
    involved = obj.get("involvedObject") or {}
    about = involved.get("namespace", "")
    mismatch = invalid_value("involvedObject.namespace", about, "does not match event.namespace")
    controller_field = "reportingController" if resource.view else "reportingComponent"
    if not obj.get("eventTime"):
        if about != namespace and not (not about and namespace in {"", "default"}):
            errors.append(mismatch)
        return [*errors, *_strict_event(obj)] if resource.view else errors
    if not about and namespace not in {"default", "kube-system"}:
        errors.append(mismatch)
    controller = obj.get("reportingComponent", "")
    if not controller:
        errors.append(required(controller_field))
    errors.extend(invalid_value(controller_field, controller, text) for text in names.qualified_name_errors(controller))
    for name, limit, needed in (
        ("reportingInstance", 128, True),
        ("action", 128, True),
        ("reason", 128, True),
        ("message", 1024, False),
    ):
        value = obj.get(name) or ""
        if needed and not value:
            errors.append(required(name))
        if len(value.encode()) > limit:
            errors.append(invalid_value(name, "", f"can have at most {limit} characters"))
    if resource.view:
        errors.extend(_strict_event(obj))
    return errors


def _strict_event(obj: JsonObject) -> list[FieldError]:
    """Return what events.k8s.io asks for beyond the core rules."""
    errors: list[FieldError] = []
    if not obj.get("eventTime"):
        errors.append(required("eventTime"))
    series = obj.get("series")
    if series is not None and series.get("count", 0) < 2:
        errors.append(invalid_value("series.count", "", "should be at least 2"))
    if obj.get("type") not in {"Normal", "Warning"}:
        errors.append(invalid_value("type", "", f"has invalid value: {obj.get('type') or ''}"))
    errors.extend(
        invalid_value(name, "", "needs to be unset")
        for name in ("firstTimestamp", "lastTimestamp", "count", "source")
        if obj.get(name)
    )
    return errors


def _lease(obj: JsonObject) -> list[FieldError]:
    spec = obj.get("spec") or {}
    errors = []
    for name in ("leaseDurationSeconds", "leaseTransitions"):
        value = spec.get(name)
        if value is None:
            continue
        if name == "leaseDurationSeconds" and value <= 0:
            errors.append(invalid_value(f"spec.{name}", value, "must be greater than 0"))
        elif value < 0:
            errors.append(invalid_value(f"spec.{name}", value, "must be greater than or equal to 0"))
    return errors


def _rules_of(resource: Resource, obj: JsonObject) -> list[FieldError]:
    if resource.custom:
        return []
    if resource.kind == "Pod":
        return podvalidation.pod(obj)
    if resource.kind == "Node":
        return _node(obj)
    if resource.kind == "Event":
        return _event(resource, obj)
    if resource.kind == "Lease":
        return _lease(obj)
    if resource.kind == "PodGroup":
        return podgroups.rules(obj)
    return []


def _raise(resource: Resource, obj: JsonObject, errors: Sequence[FieldError]) -> None:
    if errors:
        metadata = obj["metadata"]
        name = metadata.get("name") or metadata.get("generateName", "")
        # Events are validated in their core form, so that is what the error names.
        raise invalid("" if resource.view else resource.group, resource.kind, name, errors)


def create(resource: Resource, obj: JsonObject) -> None:
    """Refuse a new object that breaks a rule."""
    _raise(resource, obj, [*_metadata(resource, obj["metadata"]), *_rules_of(resource, obj)])


def update(resource: Resource, new: JsonObject, old: JsonObject) -> None:
    """Refuse an update that breaks a rule or changes what is immutable."""
    errors = [*_metadata(resource, new["metadata"]), *_rules_of(resource, new)]
    if resource.is_a("Pod"):
        errors.extend(podvalidation.pod_update(new, old))
    elif resource.is_a("PodGroup"):
        errors.extend(podgroups.changes(new, old))
    if old["metadata"].get("deletionTimestamp"):
        errors.extend(_finalizers_while_deleting(new, old))
    _raise(resource, new, errors)


def _finalizers_while_deleting(new: JsonObject, old: JsonObject) -> list[FieldError]:
    before = set(old["metadata"].get("finalizers") or [])
    added = sorted(set(new["metadata"].get("finalizers") or []) - before)
    if not added:
        return []
    shown = ", ".join(f'"{name}"' for name in added)
    return [
        forbidden_field(
            "metadata.finalizers",
            f"no new finalizers can be added if the object is being deleted, found new finalizers []string{{{shown}}}",
        )
    ]


def status_update(resource: Resource, new: JsonObject, old: JsonObject) -> None:
    """Refuse a status write that breaks a rule."""
    errors = _metadata(resource, new["metadata"])
    if resource.is_a("Pod"):
        errors.extend(podvalidation.pod_status_update(new, old))
    elif resource.kind == "Node":
        errors.extend(_node(new))
    elif resource.is_a("PodGroup"):
        errors.extend(podgroups.status_rules(new))
    elif resource.is_a("ResourceClaim"):
        errors.extend(claims.status_rules(new, old))
    _raise(resource, new, errors)
