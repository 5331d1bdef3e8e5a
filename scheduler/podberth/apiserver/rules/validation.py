"""Validation of the essentials, with the API's own sentences; what isn't checked here is stored as it came.

Each rule yields the errors that it finds. Upstream: pkg/apis/core/validation/validation.go, events.go;
k8s.io/apimachinery pkg/api/validation/objectmeta.go.
"""

from __future__ import annotations

from collections.abc import Callable

from podberth.apiserver.resources import Resource
from podberth.apiserver.rules import names, podgroups, quantity
from podberth.apiserver.rules.quantity import nano, shown, text_of
from podberth.apiserver.rules.status import (
    Errors,
    FieldError,
    JsonObject,
    duplicate,
    forbidden_field,
    invalid,
    invalid_value,
    misnamed,
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
_NAME_RULES: dict[str, names.Rule] = {
    "Namespace": names.dns_label_errors,
    "Service": names.dns_label_errors,
    "Role": names.path_segment_errors,
    "RoleBinding": names.path_segment_errors,
    "ClusterRole": names.path_segment_errors,
    "ClusterRoleBinding": names.path_segment_errors,
}


def _each(owner: JsonObject, part: str, at: str, rule: Callable[[JsonObject, str], Errors]) -> Errors:
    """Yield what a rule finds in the items of a list of `owner`, which is at the path `at`."""
    for index, item in enumerate(owner.get(part) or []):
        yield from rule(item, f"{at}.{part}[{index}]")


def status_rules(new: JsonObject, old: JsonObject) -> Errors:
    """Yield what the new status of a claim breaks."""
    status, before = new.get("status") or {}, old.get("status") or {}
    users = status.get("reservedFor") or []
    yield from _users(users)
    if users and status.get("allocation") is None:
        yield forbidden_field(_RESERVED_FOR, "may not be specified when `allocated` is not set")
    elif old["metadata"].get("deletionTimestamp"):
        were = before.get("reservedFor") or []
        if any(user not in were for user in users):
            why = "new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set"
            yield forbidden_field(_RESERVED_FOR, why)
    if before.get("allocation") is not None and status.get("allocation") not in (None, before["allocation"]):
        yield invalid_value("status.allocation", None, "field cannot be modified once set")


def _users(users: list[JsonObject]) -> Errors:
    if len(users) > MOST_USERS:
        yield FieldError("TooMany", _RESERVED_FOR, len(users), f"must have at most {MOST_USERS} items")
    seen: set[str] = set()
    for index, user in enumerate(users):
        field = f"{_RESERVED_FOR}[{index}]"
        yield from (required(f"{field}.{name}") for name in ("resource", "name", "uid") if not user.get(name))
        uid = user.get("uid", "")
        if uid in seen:
            yield duplicate(field, user)
        seen.add(uid)


def labels(found: JsonObject | None, field: str) -> Errors:
    """Yield what is wrong with the keys and values of a label map."""
    for key, value in (found or {}).items():
        yield from _key(key, field)
        yield from misnamed(names.label_value_errors, value, field)


def _key(key: str, field: str) -> Errors:
    return misnamed(names.qualified_name_errors, key, field)


def _requirement(requirement: JsonObject, field: str, *, compares: bool = True) -> Errors:
    """Yield what is wrong with one expression of a selector. `compares`: it may compare numbers."""
    operator, values = requirement.get("operator", ""), requirement.get("values") or []
    at = f"{field}.values"
    if operator in {"In", "NotIn"}:
        if not values:
            yield required(at, "must be specified when `operator` is 'In' or 'NotIn'")
    elif operator in {"Exists", "DoesNotExist"}:
        if values:
            yield forbidden_field(at, "may not be specified when `operator` is 'Exists' or 'DoesNotExist'")
    elif compares and operator in {"Gt", "Lt"}:
        if len(values) != 1:
            yield required(at, "must be specified single value when `operator` is 'Lt' or 'Gt'")
    else:
        yield invalid_value(f"{field}.operator", operator, "not a valid selector operator")
    yield from _key(requirement.get("key", ""), f"{field}.key")


def _values(requirement: JsonObject, field: str, rule: names.Rule = names.label_value_errors) -> Errors:
    for index, value in enumerate(requirement.get("values") or []):
        yield from misnamed(rule, value, f"{field}.values[{index}]")


def _match_field(requirement: JsonObject, field: str) -> Errors:
    operator, values = requirement.get("operator", ""), requirement.get("values") or []
    if operator not in {"In", "NotIn"}:
        yield invalid_value(f"{field}.operator", operator, "not a valid selector operator")
    elif len(values) != 1:
        why = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
        yield required(f"{field}.values", why)
    if requirement.get("key") != "metadata.name":
        yield invalid_value(f"{field}.key", requirement.get("key", ""), "not a valid field selector key")
    else:
        yield from _values(requirement, field, names.node_name_errors)


def _checked_requirement(requirement: JsonObject, field: str) -> Errors:
    yield from _requirement(requirement, field)
    yield from _values(requirement, field)


def _node_term(term: JsonObject, field: str) -> Errors:
    yield from _each(term, "matchExpressions", field, _checked_requirement)
    yield from _each(term, "matchFields", field, _match_field)


def _weight(weighted: JsonObject, field: str) -> Errors:
    weight = weighted.get("weight", 0)
    if not 1 <= weight <= 100:
        yield invalid_value(f"{field}.weight", weight, "must be in the range 1-100")


def _preferred_node_term(weighted: JsonObject, field: str) -> Errors:
    yield from _weight(weighted, field)
    # It may hold values that are no label values; it just never matches on them.
    term, at = weighted.get("preference") or {}, f"{field}.preference"
    yield from _each(term, "matchExpressions", at, _requirement)
    yield from _each(term, "matchFields", at, _match_field)


def _node_affinity(affinity: JsonObject, field: str) -> Errors:
    hard = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    if hard is not None:
        at = f"{field}.requiredDuringSchedulingIgnoredDuringExecution"
        if not hard.get("nodeSelectorTerms"):
            yield required(f"{at}.nodeSelectorTerms", "must have at least one node selector term")
        yield from _each(hard, "nodeSelectorTerms", at, _node_term)
    yield from _each(affinity, "preferredDuringSchedulingIgnoredDuringExecution", field, _preferred_node_term)


def _selector_requirement(expression: JsonObject, field: str) -> Errors:
    yield from _requirement(expression, field, compares=False)
    yield from _values(expression, field)


def label_selector(selector: JsonObject | None, field: str) -> Errors:
    """Yield what is wrong with a LabelSelector (unversionedvalidation.ValidateLabelSelector)."""
    if selector is not None:
        yield from labels(selector.get("matchLabels"), f"{field}.matchLabels")
        yield from _each(selector, "matchExpressions", field, _selector_requirement)


def _pod_term(term: JsonObject, field: str) -> Errors:
    yield from label_selector(term.get("labelSelector"), f"{field}.labelSelector")
    yield from label_selector(term.get("namespaceSelector"), f"{field}.namespaceSelector")
    for name in term.get("namespaces") or []:
        yield from misnamed(names.dns_label_errors, name, f"{field}.namespace")
    topology = term.get("topologyKey", "")
    if not topology:
        yield required(f"{field}.topologyKey", "can not be empty")
    yield from _key(topology, f"{field}.topologyKey")


def _preferred_pod_term(weighted: JsonObject, field: str) -> Errors:
    yield from _weight(weighted, field)
    yield from _pod_term(weighted.get("podAffinityTerm") or {}, f"{field}.podAffinityTerm")


def _pod_affinity(affinity: JsonObject, field: str) -> Errors:
    yield from _each(affinity, "requiredDuringSchedulingIgnoredDuringExecution", field, _pod_term)
    yield from _each(affinity, "preferredDuringSchedulingIgnoredDuringExecution", field, _preferred_pod_term)


def _toleration(toleration: JsonObject, field: str) -> Errors:
    key, operator = toleration.get("key", ""), toleration.get("operator", "")
    value, effect = toleration.get("value", ""), toleration.get("effect", "")
    at = f"{field}.operator"
    if key:
        yield from _key(key, f"{field}.key")
    elif operator != "Exists":
        why = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'
        yield invalid_value(at, operator, why)
    if toleration.get("tolerationSeconds") is not None and effect != "NoExecute":
        yield invalid_value(f"{field}.effect", effect, "effect must be 'NoExecute' when `tolerationSeconds` is set")
    if operator in {"", "Equal"}:
        problems = names.label_value_errors(value)
        if problems:
            yield invalid_value(at, value, ";".join(problems))
    elif operator == "Exists":
        if value:
            yield invalid_value(at, value, "value must be empty when `operator` is 'Exists'")
    elif operator in COMPARISONS:  # known, and refused without the gate TaintTolerationComparisonOperators
        yield not_supported(at, operator, ["Equal", "Exists", *COMPARISONS])
    else:
        yield not_supported(at, operator, ["Equal", "Exists"])
    if effect and effect not in EFFECTS:
        yield not_supported(f"{field}.effect", effect, EFFECTS)


def _spread(constraint: JsonObject, field: str) -> Errors:
    skew = constraint.get("maxSkew", 0)
    if skew <= 0:
        yield invalid_value(f"{field}.maxSkew", skew, "must be greater than zero")
    if not constraint.get("topologyKey"):
        yield required(f"{field}.topologyKey", "can not be empty")
    action = constraint.get("whenUnsatisfiable", "")
    if action not in {"DoNotSchedule", "ScheduleAnyway"}:
        yield not_supported(f"{field}.whenUnsatisfiable", action, ["DoNotSchedule", "ScheduleAnyway"])
    yield from label_selector(constraint.get("labelSelector"), f"{field}.labelSelector")


def _container(container: JsonObject, field: str) -> Errors:
    name = container.get("name", "")
    if not name:
        yield required(f"{field}.name")
    else:
        yield from misnamed(names.dns_label_errors, name, f"{field}.name")
    if not container.get("image"):
        yield required(f"{field}.image")
    yield from _resources(container, field)


def _resources(owner: JsonObject, field: str) -> Errors:
    """Yield what is wrong with the amounts of a container, or of a pod as a whole."""
    resources, at = owner.get("resources") or {}, f"{field}.resources"
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    for part, amounts in (("limits", limits), ("requests", requests)):
        for key, value in amounts.items():
            if nano(amounts, key) < 0:
                yield invalid_value(f"{at}.{part}[{key}]", text_of(value), "must be greater than or equal to 0")
    for key, value in requests.items():
        if key in limits and nano(requests, key) > nano(limits, key):
            why = f"must be less than or equal to {key} limit of {shown(limits[key])}"
            yield invalid_value(f"{at}.requests", shown(value), why)


def amounts(spec: JsonObject) -> Errors:
    """Yield what is wrong with the amounts that a pod and its containers ask for."""
    for part in ("containers", "initContainers"):
        yield from _each(spec, part, "spec", _resources)
    yield from _whole_amounts(spec)


def _whole_amounts(spec: JsonObject) -> Errors:
    """Yield what is wrong with what a pod asks for as a whole, also beside its containers (validatePodResources)."""
    whole = spec.get("resources")
    if not whole:
        return
    yield from _resources(spec, "spec")
    for part, kept in (("requests", ""), ("limits", quantity.HUGE_PAGES)):
        most, together = whole.get(part) or {}, quantity.aggregated(spec, part)
        for key in sorted(together):
            if key.startswith(kept) and key in most and nano(together, key) > nano(most, key):
                amount = shown(together[key])
                why = f"must be greater than or equal to aggregate container {part} of {amount}"
                yield invalid_value(f"spec.resources.{part}[{key}]", shown(most[key]), why)
    most = whole.get("limits") or {}
    for index, container in enumerate(spec.get("containers") or []):
        limits = (container.get("resources") or {}).get("limits") or {}
        for key in sorted(limits):
            if key in most and nano(limits, key) > nano(most, key):
                why = f"must be less than or equal to pod limits of {shown(most[key])}"
                field = f"spec.resources.containers[{index}][{key}].limits"
                yield invalid_value(field, shown(limits[key]), why)


def pod(obj: JsonObject) -> Errors:
    """Yield what is wrong with a pod's spec."""
    spec = obj.get("spec") or {}
    if not spec.get("containers"):
        yield required("spec.containers")
    for part in ("containers", "initContainers"):
        seen = set()
        for index, container in enumerate(spec.get(part) or []):
            yield from _container(container, f"spec.{part}[{index}]")
            if container.get("name") in seen:
                yield duplicate(f"spec.{part}[{index}].name", container["name"])
            seen.add(container.get("name"))
    yield from labels(spec.get("nodeSelector"), "spec.nodeSelector")
    affinity = spec.get("affinity") or {}
    if node := affinity.get("nodeAffinity"):
        yield from _node_affinity(node, "spec.affinity.nodeAffinity")
    for side in ("podAffinity", "podAntiAffinity"):
        if affinity.get(side):
            yield from _pod_affinity(affinity[side], f"spec.affinity.{side}")
    gates = [gate.get("name", "") for gate in spec.get("schedulingGates") or []]
    for index, gate in enumerate(gates):
        yield from _key(gate, f"spec.schedulingGates[{index}]")
        if gate in gates[:index]:
            yield duplicate(f"spec.schedulingGates[{index}]", gate)
    yield from _each(spec, "topologySpreadConstraints", "spec", _spread)
    if node_name := spec.get("nodeName"):
        yield from misnamed(names.node_name_errors, node_name, "spec.nodeName")
    if gates and node_name:
        yield forbidden_field("spec.nodeName", "cannot be set until all schedulingGates have been cleared")
    yield from _each(spec, "tolerations", "spec", _toleration)
    yield from podgroups.member_rules(spec)
    yield from _whole_amounts(spec)
    policy = spec.get("restartPolicy")
    if policy not in {None, "Always", "OnFailure", "Never"}:
        yield not_supported("spec.restartPolicy", policy, ["Always", "OnFailure", "Never"])


def pod_update(new: JsonObject, old: JsonObject) -> Errors:
    """Yield what is wrong with an update: only images, deadlines, added tolerations and removed gates may change."""
    new_spec, old_spec = new["spec"], old["spec"]
    for part in ("containers", "initContainers"):
        if len(new_spec.get(part) or []) != len(old_spec.get(part) or []):
            yield forbidden_field(f"spec.{part}", "pod updates may not add or remove containers")
            return
    tolerations = [_untimed(toleration) for toleration in new_spec.get("tolerations") or []]
    if any(_untimed(toleration) not in tolerations for toleration in old_spec.get("tolerations") or []):
        yield forbidden_field(
            "spec.tolerations", "existing toleration can not be modified except its tolerationSeconds"
        )
    before = [gate.get("name") for gate in old_spec.get("schedulingGates") or []]
    after = [gate.get("name") for gate in new_spec.get("schedulingGates") or []]
    for index, gate in enumerate(after):
        if gate not in before:
            why = f"only deletion is allowed, but found new scheduling gate '{gate}'"
            yield forbidden_field(f"spec.schedulingGates[{index}].name", why)
    munged, original = _munged(new_spec, bool(before)), _munged(old_spec, bool(before))
    if munged != original:
        changed = sorted(name for name in munged.keys() | original.keys() if munged.get(name) != original.get(name))
        why = f"pod updates may not change fields other than {','.join(UPDATABLE)}\nchanged: {', '.join(changed)}"
        yield forbidden_field("spec", why)


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


def pod_status_update(new: JsonObject, old: JsonObject) -> Errors:
    """Yield what is wrong with the new status of a pod."""
    after, before = new.get("status") or {}, old.get("status") or {}
    for index, condition in enumerate(after.get("conditions") or []):
        yield from _key(condition.get("type", ""), f"status.conditions[{index}].Type")
    field = "status.nominatedNodeName"
    nominated = after.get("nominatedNodeName") or ""
    if nominated and nominated != before.get("nominatedNodeName"):
        yield from misnamed(names.node_name_errors, nominated, field)
        if old["spec"].get("nodeName"):
            yield forbidden_field(field, "may not be set on pods that are already bound to a node")
    if after.get("qosClass") != before.get("qosClass"):
        yield invalid_value("status.qosClass", after.get("qosClass"), "field is immutable")


def _metadata(resource: Resource, metadata: JsonObject) -> Errors:
    rule = names.subdomain_errors if resource.custom else _NAME_RULES.get(resource.kind, names.subdomain_errors)
    if prefix := metadata.get("generateName"):
        # A trailing dash is fine, since more will follow it.
        for text in rule(prefix.rstrip("-") or prefix):
            yield invalid_value("metadata.generateName", prefix, text)
    name = metadata.get("name", "")
    if not name:
        yield required("metadata.name", "name or generateName is required")
    else:
        yield from misnamed(rule, name, "metadata.name")
    yield from labels(metadata.get("labels"), "metadata.labels")
    yield from _annotations(metadata.get("annotations"))
    for index, finalizer in enumerate(metadata.get("finalizers") or []):
        field = f"metadata.finalizers[{index}]"
        yield from _key(finalizer, field)
        if "/" not in finalizer and finalizer not in STANDARD_FINALIZERS and not resource.custom:
            why = "name is neither a standard finalizer name nor is it fully qualified"
            yield invalid_value(field, finalizer, why)


def _annotations(annotations: JsonObject | None) -> Errors:
    size = 0
    for key, value in (annotations or {}).items():
        for text in names.qualified_name_errors(key.lower()):
            yield invalid_value("metadata.annotations", key, text)
        size += len(key) + len(str(value).encode())
    if size > ANNOTATIONS_LIMIT:
        yield FieldError("TooLong", "metadata.annotations", None, f"may not be more than {ANNOTATIONS_LIMIT} bytes")


def _node(obj: JsonObject) -> Errors:
    seen = set()
    for index, taint in enumerate((obj.get("spec") or {}).get("taints") or []):
        field = f"metadata.taints[{index}]"
        key, value, effect = taint.get("key", ""), taint.get("value", ""), taint.get("effect", "")
        yield from _key(key, f"{field}.key")
        problems = names.label_value_errors(value)
        if problems:
            yield invalid_value(f"{field}.value", value, ";".join(problems))
        if not effect:
            yield required(f"{field}.effect")
        elif effect not in EFFECTS:
            yield not_supported(f"{field}.effect", effect, EFFECTS)
        if (key, effect) in seen:
            shown = {"Key": key, "Value": value, "Effect": effect, "TimeAdded": None}
            yield FieldError("Duplicate", field, shown, "taints must be unique by key and effect pair")
        seen.add((key, effect))
    for part in ("capacity", "allocatable"):
        amounts = (obj.get("status") or {}).get(part) or {}
        for name, amount in amounts.items():
            if nano(amounts, name) < 0:
                yield invalid_value(f"status.{part}.{name}", text_of(amount), "must be greater than or equal to 0")


def _event(resource: Resource, obj: JsonObject) -> Errors:
    namespace = obj["metadata"].get("namespace", "")
    about = (obj.get("involvedObject") or {}).get("namespace", "")
    if not obj.get("eventTime"):
        elsewhere = about != namespace and not (not about and namespace in {"", "default"})
    else:
        elsewhere = not about and namespace not in {"default", "kube-system"}
    if elsewhere:
        yield invalid_value("involvedObject.namespace", about, "does not match event.namespace")
    if obj.get("eventTime"):
        controller = obj.get("reportingComponent", "")
        field = "reportingController" if resource.view else "reportingComponent"
        if not controller:
            yield required(field)
        yield from _key(controller, field)
        for name, limit in (("reportingInstance", 128), ("action", 128), ("reason", 128), ("message", 1024)):
            value = obj.get(name) or ""
            if not value and name != "message":
                yield required(name)
            if len(value.encode()) > limit:
                yield invalid_value(name, "", f"can have at most {limit} characters")
    if resource.view:
        yield from _strict_event(obj)


def _strict_event(obj: JsonObject) -> Errors:
    """Yield what events.k8s.io asks for beyond the core rules."""
    if not obj.get("eventTime"):
        yield required("eventTime")
    series = obj.get("series")
    if series is not None and series.get("count", 0) < 2:
        yield invalid_value("series.count", "", "should be at least 2")
    if obj.get("type") not in {"Normal", "Warning"}:
        yield invalid_value("type", "", f"has invalid value: {obj.get('type') or ''}")
    for name in ("firstTimestamp", "lastTimestamp", "count", "source"):
        if obj.get(name):
            yield invalid_value(name, "", "needs to be unset")


def _lease(obj: JsonObject) -> Errors:
    for name, least in (("leaseDurationSeconds", 1), ("leaseTransitions", 0)):
        value = (obj.get("spec") or {}).get(name)
        if value is not None and value < least:
            bound = "greater than 0" if least else "greater than or equal to 0"
            yield invalid_value(f"spec.{name}", value, f"must be {bound}")


def _rules_of(resource: Resource, obj: JsonObject) -> Errors:
    if resource.is_a("Pod"):
        yield from pod(obj)
    elif resource.is_a("Node"):
        yield from _node(obj)
    elif resource.is_a("Event"):
        yield from _event(resource, obj)
    elif resource.is_a("Lease"):
        yield from _lease(obj)
    elif resource.is_a("PodGroup"):
        yield from podgroups.rules(obj)


def _refuse(resource: Resource, obj: JsonObject, *found: Errors) -> None:
    """Raise StatusError for the errors that were found, if there are any."""
    errors = [error for each in found for error in each]
    if errors:
        metadata = obj["metadata"]
        name = metadata.get("name") or metadata.get("generateName", "")
        # Events are validated in their core form, so that is what the error names.
        raise invalid("" if resource.view else resource.group, resource.kind, name, errors)


def create(resource: Resource, obj: JsonObject) -> None:
    """Refuse a new object that breaks a rule."""
    _refuse(resource, obj, _metadata(resource, obj["metadata"]), _rules_of(resource, obj))


def update(resource: Resource, new: JsonObject, old: JsonObject) -> None:
    """Refuse an update that breaks a rule or changes what is immutable."""
    found = [_metadata(resource, new["metadata"]), _rules_of(resource, new)]
    if resource.is_a("Pod"):
        found.append(pod_update(new, old))
    elif resource.is_a("PodGroup"):
        found.append(podgroups.changes(new, old))
    _refuse(resource, new, *found, _finalizers_while_deleting(new, old))


def _finalizers_while_deleting(new: JsonObject, old: JsonObject) -> Errors:
    before = set(old["metadata"].get("finalizers") or [])
    added = sorted(set(new["metadata"].get("finalizers") or []) - before)
    if added and old["metadata"].get("deletionTimestamp"):
        shown = ", ".join(f'"{name}"' for name in added)
        yield forbidden_field(
            "metadata.finalizers",
            f"no new finalizers can be added if the object is being deleted, found new finalizers []string{{{shown}}}",
        )


def status_update(resource: Resource, new: JsonObject, old: JsonObject) -> None:
    """Refuse a status write that breaks a rule."""
    found = [_metadata(resource, new["metadata"])]
    if resource.is_a("Pod"):
        found.append(pod_status_update(new, old))
    elif resource.is_a("Node"):
        found.append(_node(new))
    elif resource.is_a("PodGroup"):
        found.append(podgroups.status_rules(new))
    elif resource.is_a("ResourceClaim"):
        found.append(status_rules(new, old))
    _refuse(resource, new, *found)
