"""Validation of the essentials, with the API's own sentences; what isn't checked here is stored as it came.

Upstream: pkg/apis/core/validation/validation.go, events.go; k8s.io/apimachinery pkg/api/validation/objectmeta.go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from podberth.apiserver.resources import Resource
from podberth.apiserver.rules import names, podgroups, quantity
from podberth.apiserver.rules.quantity import canonical, nano, text_of
from podberth.apiserver.rules.status import (
    FieldError,
    JsonObject,
    duplicate,
    forbidden_field,
    invalid,
    invalid_value,
    not_supported,
    required,
)

MOST_USERS = 256
_RESERVED_FOR = "status.reservedFor"
EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
COMPARISONS = ("Lt", "Gt")
UPDATABLE = (
    "`spec.containers[*].image`",
    "`spec.initContainers[*].image`",
    "`spec.activeDeadlineSeconds`",
    "`spec.tolerations` (only additions to existing tolerations)",
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)",
)
_FREE = ("tolerations", "schedulingGates", "activeDeadlineSeconds")
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


def status_rules(new: JsonObject, old: JsonObject) -> list[FieldError]:
    """Return what a new status breaks."""
    status, before = new.get("status") or {}, old.get("status") or {}
    users = status.get("reservedFor") or []
    errors = _users(users)
    if users and status.get("allocation") is None:
        errors.append(forbidden_field(_RESERVED_FOR, "may not be specified when `allocated` is not set"))
    elif old["metadata"].get("deletionTimestamp"):
        were = before.get("reservedFor") or []
        if any(user not in were for user in users):
            why = "new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set"
            errors.append(forbidden_field(_RESERVED_FOR, why))
    if before.get("allocation") is not None and status.get("allocation") not in (None, before["allocation"]):
        errors.append(invalid_value("status.allocation", None, "field cannot be modified once set"))
    return errors


def _users(users: list[JsonObject]) -> list[FieldError]:
    errors: list[FieldError] = []
    if len(users) > MOST_USERS:
        errors.append(FieldError("TooMany", _RESERVED_FOR, len(users), f"must have at most {MOST_USERS} items"))
    seen: set[str] = set()
    for index, user in enumerate(users):
        field = f"{_RESERVED_FOR}[{index}]"
        errors += [required(f"{field}.{name}") for name in ("resource", "name", "uid") if not user.get(name)]
        uid = user.get("uid", "")
        if uid in seen:
            errors.append(duplicate(field, user))
        seen.add(uid)
    return errors


def labels(found: JsonObject | None, field: str) -> list[FieldError]:
    """Return what is wrong with the keys and values of a label map."""
    errors: list[FieldError] = []
    for key, value in (found or {}).items():
        errors.extend(invalid_value(field, key, text) for text in names.qualified_name_errors(key))
        errors.extend(invalid_value(field, value, text) for text in names.label_value_errors(value))
    return errors


def _key(key: str, field: str) -> list[FieldError]:
    return [invalid_value(field, key, text) for text in names.qualified_name_errors(key)]


def _requirement(requirement: JsonObject, field: str, *, compares: bool = True) -> list[FieldError]:
    """Return what is wrong with one expression of a selector. `compares`: it may compare numbers."""
    errors = []
    operator, values = requirement.get("operator", ""), requirement.get("values") or []
    if operator in {"In", "NotIn"}:
        if not values:
            errors.append(required(f"{field}.values", "must be specified when `operator` is 'In' or 'NotIn'"))
    elif operator in {"Exists", "DoesNotExist"}:
        if values:
            errors.append(
                forbidden_field(f"{field}.values", "may not be specified when `operator` is 'Exists' or 'DoesNotExist'")
            )
    elif compares and operator in {"Gt", "Lt"}:
        if len(values) != 1:
            errors.append(required(f"{field}.values", "must be specified single value when `operator` is 'Lt' or 'Gt'"))
    else:
        errors.append(invalid_value(f"{field}.operator", operator, "not a valid selector operator"))
    errors.extend(_key(requirement.get("key", ""), f"{field}.key"))
    return errors


def _values(requirement: JsonObject, field: str) -> Iterable[FieldError]:
    for index, value in enumerate(requirement.get("values") or []):
        for text in names.label_value_errors(value):
            yield invalid_value(f"{field}.values[{index}]", value, text)


def _match_field(requirement: JsonObject, field: str) -> list[FieldError]:
    errors = []
    operator, values = requirement.get("operator", ""), requirement.get("values") or []
    if operator not in {"In", "NotIn"}:
        errors.append(invalid_value(f"{field}.operator", operator, "not a valid selector operator"))
    elif len(values) != 1:
        errors.append(
            required(
                f"{field}.values", "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
            )
        )
    if requirement.get("key") != "metadata.name":
        errors.append(invalid_value(f"{field}.key", requirement.get("key", ""), "not a valid field selector key"))
    else:
        for index, value in enumerate(values):
            errors.extend(
                invalid_value(f"{field}.values[{index}]", value, text) for text in names.node_name_errors(value)
            )
    return errors


def _node_term(term: JsonObject, field: str, checks_values: bool) -> list[FieldError]:
    errors = []
    for index, requirement in enumerate(term.get("matchExpressions") or []):
        at = f"{field}.matchExpressions[{index}]"
        errors.extend(_requirement(requirement, at))
        if checks_values:
            errors.extend(_values(requirement, at))
    for index, requirement in enumerate(term.get("matchFields") or []):
        errors.extend(_match_field(requirement, f"{field}.matchFields[{index}]"))
    return errors


def _weight(weighted: JsonObject, field: str) -> list[FieldError]:
    weight = weighted.get("weight", 0)
    return [] if 1 <= weight <= 100 else [invalid_value(f"{field}.weight", weight, "must be in the range 1-100")]


def _node_affinity(affinity: JsonObject, field: str) -> list[FieldError]:
    errors = []
    hard = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    if hard is not None:
        at = f"{field}.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms"
        terms = hard.get("nodeSelectorTerms") or []
        if not terms:
            errors.append(required(at, "must have at least one node selector term"))
        for index, term in enumerate(terms):
            errors.extend(_node_term(term, f"{at}[{index}]", checks_values=True))
    for index, weighted in enumerate(affinity.get("preferredDuringSchedulingIgnoredDuringExecution") or []):
        at = f"{field}.preferredDuringSchedulingIgnoredDuringExecution[{index}]"
        errors.extend(_weight(weighted, at))
        # A preferred term may hold values that are no label values; it just never matches on them.
        errors.extend(_node_term(weighted.get("preference") or {}, f"{at}.preference", checks_values=False))
    return errors


def label_selector(selector: JsonObject | None, field: str) -> list[FieldError]:
    """Return what is wrong with a LabelSelector (unversionedvalidation.ValidateLabelSelector)."""
    errors = []
    if selector is None:
        return []
    errors.extend(labels(selector.get("matchLabels"), f"{field}.matchLabels"))
    for index, expression in enumerate(selector.get("matchExpressions") or []):
        at = f"{field}.matchExpressions[{index}]"
        errors.extend(_requirement(expression, at, compares=False))
        errors.extend(_values(expression, at))
    return errors


def _pod_term(term: JsonObject, field: str) -> list[FieldError]:
    errors = label_selector(term.get("labelSelector"), f"{field}.labelSelector")
    errors.extend(label_selector(term.get("namespaceSelector"), f"{field}.namespaceSelector"))
    for name in term.get("namespaces") or []:
        errors.extend(invalid_value(f"{field}.namespace", name, text) for text in names.dns_label_errors(name))
    topology = term.get("topologyKey", "")
    if not topology:
        errors.append(required(f"{field}.topologyKey", "can not be empty"))
    errors.extend(_key(topology, f"{field}.topologyKey"))
    return errors


def _pod_affinity(affinity: JsonObject, field: str) -> list[FieldError]:
    errors = []
    for index, term in enumerate(affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or []):
        errors.extend(_pod_term(term, f"{field}.requiredDuringSchedulingIgnoredDuringExecution[{index}]"))
    for index, weighted in enumerate(affinity.get("preferredDuringSchedulingIgnoredDuringExecution") or []):
        at = f"{field}.preferredDuringSchedulingIgnoredDuringExecution[{index}]"
        errors.extend(_weight(weighted, at))
        errors.extend(_pod_term(weighted.get("podAffinityTerm") or {}, f"{at}.podAffinityTerm"))
    return errors


def _toleration(toleration: JsonObject, field: str) -> list[FieldError]:
    errors = []
    key, operator = toleration.get("key", ""), toleration.get("operator", "")
    value, effect = toleration.get("value", ""), toleration.get("effect", "")
    if key:
        errors.extend(_key(key, f"{field}.key"))
    elif operator != "Exists":
        errors.append(
            invalid_value(
                f"{field}.operator",
                operator,
                'operator must be Exists when `key` is empty, which means "match all values and all keys"',
            )
        )
    if toleration.get("tolerationSeconds") is not None and effect != "NoExecute":
        errors.append(
            invalid_value(f"{field}.effect", effect, "effect must be 'NoExecute' when `tolerationSeconds` is set")
        )
    if operator in {"", "Equal"}:
        problems = names.label_value_errors(value)
        if problems:
            errors.append(invalid_value(f"{field}.operator", value, ";".join(problems)))
    elif operator == "Exists":
        if value:
            errors.append(invalid_value(f"{field}.operator", value, "value must be empty when `operator` is 'Exists'"))
    elif operator in COMPARISONS:  # known, and refused without the gate TaintTolerationComparisonOperators
        errors.append(not_supported(f"{field}.operator", operator, ["Equal", "Exists", *COMPARISONS]))
    else:
        errors.append(not_supported(f"{field}.operator", operator, ["Equal", "Exists"]))
    if effect and effect not in EFFECTS:
        errors.append(not_supported(f"{field}.effect", effect, EFFECTS))
    return errors


def _spread(constraint: JsonObject, field: str) -> list[FieldError]:
    errors = []
    skew = constraint.get("maxSkew", 0)
    if skew <= 0:
        errors.append(invalid_value(f"{field}.maxSkew", skew, "must be greater than zero"))
    if not constraint.get("topologyKey"):
        errors.append(required(f"{field}.topologyKey", "can not be empty"))
    action = constraint.get("whenUnsatisfiable", "")
    if action not in {"DoNotSchedule", "ScheduleAnyway"}:
        errors.append(not_supported(f"{field}.whenUnsatisfiable", action, ["DoNotSchedule", "ScheduleAnyway"]))
    errors.extend(label_selector(constraint.get("labelSelector"), f"{field}.labelSelector"))
    return errors


def _container(container: JsonObject, field: str) -> list[FieldError]:
    errors: list[FieldError] = []
    name = container.get("name", "")
    if not name:
        errors.append(required(f"{field}.name"))
    else:
        errors.extend(invalid_value(f"{field}.name", name, text) for text in names.dns_label_errors(name))
    if not container.get("image"):
        errors.append(required(f"{field}.image"))
    errors.extend(_amounts(container.get("resources") or {}, f"{field}.resources"))
    return errors


def _amounts(resources: JsonObject, field: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for part in ("limits", "requests"):
        amounts = resources.get(part) or {}
        errors.extend(
            invalid_value(f"{field}.{part}[{key}]", text_of(value), "must be greater than or equal to 0")
            for key, value in amounts.items()
            if nano(amounts, key) < 0
        )
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    for key, value in requests.items():
        if key in limits and nano(requests, key) > nano(limits, key):
            limit = canonical(text_of(limits[key]))
            why = f"must be less than or equal to {key} limit of {limit}"
            errors.append(invalid_value(f"{field}.requests", canonical(text_of(value)), why))
    return errors


def amounts(spec: JsonObject) -> list[FieldError]:
    """Return what is wrong with the amounts that a pod and its containers ask for."""
    errors: list[FieldError] = []
    for part in ("containers", "initContainers"):
        for index, container in enumerate(spec.get(part) or []):
            errors.extend(_amounts(container.get("resources") or {}, f"spec.{part}[{index}].resources"))
    return [*errors, *_whole_amounts(spec)]


def _whole_amounts(spec: JsonObject) -> list[FieldError]:
    """Return what is wrong with what a pod asks for as a whole, also beside its containers (validatePodResources)."""
    whole = spec.get("resources") or {}
    errors = _amounts(whole, "spec.resources")
    if not whole:
        return errors
    for part, kept in (("requests", ""), ("limits", quantity.HUGE_PAGES)):
        most, together = whole.get(part) or {}, quantity.aggregated(spec, part)
        for key in sorted(together):
            if key.startswith(kept) and key in most and nano(together, key) > nano(most, key):
                amount = canonical(text_of(together[key]))
                why = f"must be greater than or equal to aggregate container {part} of {amount}"
                errors.append(invalid_value(f"spec.resources.{part}[{key}]", canonical(text_of(most[key])), why))
    most = whole.get("limits") or {}
    for index, container in enumerate(spec.get("containers") or []):
        limits = (container.get("resources") or {}).get("limits") or {}
        for key in sorted(limits):
            if key in most and nano(limits, key) > nano(most, key):
                why = f"must be less than or equal to pod limits of {canonical(text_of(most[key]))}"
                field = f"spec.resources.containers[{index}][{key}].limits"
                errors.append(invalid_value(field, canonical(text_of(limits[key])), why))
    return errors


def pod(obj: JsonObject) -> list[FieldError]:
    """Return what is wrong with a pod's spec."""
    spec = obj.get("spec") or {}
    errors: list[FieldError] = []
    if not spec.get("containers"):
        errors.append(required("spec.containers"))
    for part in ("containers", "initContainers"):
        seen = set()
        for index, container in enumerate(spec.get(part) or []):
            errors.extend(_container(container, f"spec.{part}[{index}]"))
            if container.get("name") in seen:
                errors.append(duplicate(f"spec.{part}[{index}].name", container["name"]))
            seen.add(container.get("name"))
    errors.extend(labels(spec.get("nodeSelector"), "spec.nodeSelector"))
    affinity = spec.get("affinity") or {}
    if node := affinity.get("nodeAffinity"):
        errors.extend(_node_affinity(node, "spec.affinity.nodeAffinity"))
    for side in ("podAffinity", "podAntiAffinity"):
        if affinity.get(side):
            errors.extend(_pod_affinity(affinity[side], f"spec.affinity.{side}"))
    gates = [gate.get("name", "") for gate in spec.get("schedulingGates") or []]
    for index, gate in enumerate(gates):
        errors.extend(_key(gate, f"spec.schedulingGates[{index}]"))
        if gate in gates[:index]:
            errors.append(duplicate(f"spec.schedulingGates[{index}]", gate))
    for index, constraint in enumerate(spec.get("topologySpreadConstraints") or []):
        errors.extend(_spread(constraint, f"spec.topologySpreadConstraints[{index}]"))
    if node_name := spec.get("nodeName"):
        errors.extend(invalid_value("spec.nodeName", node_name, text) for text in names.node_name_errors(node_name))
    if gates and spec.get("nodeName"):
        errors.append(forbidden_field("spec.nodeName", "cannot be set until all schedulingGates have been cleared"))
    for index, toleration in enumerate(spec.get("tolerations") or []):
        errors.extend(_toleration(toleration, f"spec.tolerations[{index}]"))
    errors.extend(podgroups.member_rules(spec))
    errors.extend(_whole_amounts(spec))
    policy = spec.get("restartPolicy")
    if policy not in {None, "Always", "OnFailure", "Never"}:
        errors.append(not_supported("spec.restartPolicy", policy, ["Always", "OnFailure", "Never"]))
    return errors


def pod_update(new: JsonObject, old: JsonObject) -> list[FieldError]:
    """Return what is wrong with an update: only images, deadlines, added tolerations and removed gates may change."""
    new_spec, old_spec = new["spec"], old["spec"]
    errors: list[FieldError] = []
    for part in ("containers", "initContainers"):
        if len(new_spec.get(part) or []) != len(old_spec.get(part) or []):
            return [forbidden_field(f"spec.{part}", "pod updates may not add or remove containers")]
    tolerations = [_untimed(toleration) for toleration in new_spec.get("tolerations") or []]
    if any(_untimed(toleration) not in tolerations for toleration in old_spec.get("tolerations") or []):
        errors.append(
            forbidden_field("spec.tolerations", "existing toleration can not be modified except its tolerationSeconds")
        )
    before = [gate.get("name") for gate in old_spec.get("schedulingGates") or []]
    after = [gate.get("name") for gate in new_spec.get("schedulingGates") or []]
    errors.extend(
        forbidden_field(
            f"spec.schedulingGates[{index}].name",
            f"only deletion is allowed, but found new scheduling gate '{gate}'",
        )
        for index, gate in enumerate(after)
        if gate not in before
    )
    munged, original = _munged(new_spec, bool(before)), _munged(old_spec, bool(before))
    if munged != original:
        changed = sorted(name for name in munged.keys() | original.keys() if munged.get(name) != original.get(name))
        errors.append(
            forbidden_field(
                "spec",
                f"pod updates may not change fields other than {','.join(UPDATABLE)}\nchanged: {', '.join(changed)}",
            )
        )
    return errors


def _untimed(toleration: JsonObject) -> JsonObject:
    return {name: value for name, value in toleration.items() if name != "tolerationSeconds"}


def _munged(spec: JsonObject, gated: bool) -> JsonObject:
    """Return a spec without the parts that may change; a gated pod's node selection may still be narrowed."""
    munged = {name: value for name, value in spec.items() if name not in _FREE}
    for part in ("containers", "initContainers"):
        munged[part] = [
            {name: value for name, value in container.items() if name != "image"} for container in spec.get(part) or []
        ]
    if gated:
        munged.pop("nodeSelector", None)
        affinity = {name: value for name, value in (spec.get("affinity") or {}).items() if name != "nodeAffinity"}
        munged["affinity"] = affinity
    return munged


def pod_status_update(new: JsonObject, old: JsonObject) -> list[FieldError]:
    """Rules of a pod's status."""
    errors: list[FieldError] = []
    after, before = new.get("status") or {}, old.get("status") or {}
    for index, condition in enumerate(after.get("conditions") or []):
        errors.extend(_key(condition.get("type", ""), f"status.conditions[{index}].Type"))
    nominated = after.get("nominatedNodeName") or ""
    if nominated and nominated != before.get("nominatedNodeName"):
        errors.extend(
            invalid_value("status.nominatedNodeName", nominated, text) for text in names.node_name_errors(nominated)
        )
        if old["spec"].get("nodeName"):
            errors.append(
                forbidden_field("status.nominatedNodeName", "may not be set on pods that are already bound to a node")
            )
    if after.get("qosClass") != before.get("qosClass"):
        errors.append(invalid_value("status.qosClass", after.get("qosClass"), "field is immutable"))
    return errors


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
    errors.extend(labels(metadata.get("labels"), "metadata.labels"))
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
        elif effect not in EFFECTS:
            errors.append(not_supported(f"{field}.effect", effect, EFFECTS))
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
        return pod(obj)
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
        errors.extend(pod_update(new, old))
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
        errors.extend(pod_status_update(new, old))
    elif resource.kind == "Node":
        errors.extend(_node(new))
    elif resource.is_a("PodGroup"):
        errors.extend(podgroups.status_rules(new))
    elif resource.is_a("ResourceClaim"):
        errors.extend(status_rules(new, old))
    _raise(resource, new, errors)
