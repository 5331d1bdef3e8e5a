"""CustomResourceDefinitions: a stored one makes its resource served, and its schema is held against objects.

The schema check is the cheap part: types, required fields, enums, patterns, bounds, defaults and pruning. CEL rules
are not evaluated. Upstream: k8s.io/apiextensions-apiserver pkg/apiserver/customresource_handler.go.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping
from typing import Any

from podberth.apiserver.resources import Registry, Resource
from podberth.apiserver.rules.status import FieldError, JsonObject, invalid_value, not_supported, required
from podberth.apiserver.rules.strategy import set_condition
from podberth.apiserver.storage import Store

Schema = Mapping[str, Any]
_TYPES: Mapping[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "boolean": (bool,),
    "integer": (int,),
    "number": (int, float),
}


def resources_of(crd: JsonObject) -> list[Resource]:
    """Return what a definition makes served: one resource for each served version, all in one place."""
    spec = crd["spec"]
    names = spec["names"]
    served = []
    for version in spec.get("versions") or []:
        if not version.get("served"):
            continue
        columns = {
            str(field["jsonPath"]).strip("."): tuple(str(field["jsonPath"]).strip(".").split("."))
            for field in version.get("selectableFields") or []
        }
        served.append(
            Resource(
                group=spec["group"],
                version=version["name"],
                plural=names["plural"],
                kind=names["kind"],
                namespaced=spec.get("scope") == "Namespaced",
                short=tuple(names.get("shortNames") or ()),
                categories=tuple(names.get("categories") or ()),
                status="status" in (version.get("subresources") or {}),
                generation=True,
                unconditional=False,
                custom=True,
                singular=names.get("singular", ""),
                list_kind=names.get("listKind", ""),
                fields=columns,
                schema=(version.get("schema") or {}).get("openAPIV3Schema") or {},
            )
        )
    return served


class Definitions:
    """Keeps the registry in step with the stored definitions."""

    def __init__(self, store: Store, registry: Registry) -> None:
        self._store = store
        self._registry = registry
        self._resource = registry.built_in("customresourcedefinitions")
        self._served: dict[str, JsonObject] = {}
        store.on_write[self._resource.collection] = self.refresh

    def refresh(self) -> None:
        """Serve what is defined now, stop serving what isn't, and mark new definitions as established."""
        wanted = {stored.key: stored for stored in self._store.collection(self._resource.collection).ordered()}
        for name in [name for name in self._served if name not in wanted]:
            spec = self._served.pop(name)["spec"]
            self._registry.remove_group_resource(spec["group"], spec["names"]["plural"])
            self._store.drop(f"{spec['names']['plural']}.{spec['group']}")
        for name, stored in wanted.items():
            if self._served.get(name, {}).get("spec") == stored.obj["spec"]:
                continue
            self._registry.remove_group_resource(stored.obj["spec"]["group"], stored.obj["spec"]["names"]["plural"])
            for resource in resources_of(stored.obj):
                self._registry.add(resource)
            self._served[name] = stored.obj
            established = _established(stored.obj)
            if established != stored.obj:
                self._store.update(self._resource, stored, established)


def _established(crd: JsonObject) -> JsonObject:
    status = dict(crd.get("status") or {})
    conditions = status.get("conditions") or []
    for type_, reason, message in (
        ("NamesAccepted", "NoConflicts", "no conflicts found"),
        ("Established", "InitialNamesAccepted", "the initial names have been accepted"),
    ):
        conditions = set_condition(conditions, {"type": type_, "status": "True", "reason": reason, "message": message})
        conditions[-1].pop("lastProbeTime", None)
    for condition in conditions:
        condition.pop("lastProbeTime", None)
    spec = crd["spec"]
    status["conditions"] = conditions
    status["acceptedNames"] = spec["names"]
    status["storedVersions"] = [version["name"] for version in spec["versions"] if version.get("storage")]
    return {**crd, "status": status}


def default_and_prune(value: Any, schema: Schema, top: bool = True) -> None:
    """Fill in defaults and drop unknown fields, in place, as structural schemas do."""
    if isinstance(value, dict):
        properties: Mapping[str, Schema] = schema.get("properties") or {}
        for name, below in properties.items():
            if name not in value and "default" in below:
                value[name] = copy.deepcopy(below["default"])
        further = schema.get("additionalProperties")
        keeps = schema.get("x-kubernetes-preserve-unknown-fields") or schema.get("x-kubernetes-embedded-resource")
        for name in list(value):
            if top and name == "metadata":
                continue
            if name in properties:
                default_and_prune(value[name], properties[name], top=False)
            elif isinstance(further, Mapping):
                default_and_prune(value[name], further, top=False)
            elif not keeps and further is not True and schema.get("type") == "object":
                del value[name]
    elif isinstance(value, list):
        for item in value:
            default_and_prune(item, schema.get("items") or {}, top=False)


def schema_errors(value: Any, schema: Schema, field: str = "") -> list[FieldError]:
    """Return what breaks the schema."""
    if schema.get("x-kubernetes-int-or-string"):
        return [] if isinstance(value, int | str) else [_wrong_type(field, value, "integer,string")]
    if value is None:
        return [] if schema.get("nullable") or not schema.get("type") else [_wrong_type(field, value, schema["type"])]
    expected: str = schema.get("type") or ""
    if expected in _TYPES and not _is_a(value, expected):
        return [_wrong_type(field, value, expected)]
    errors: list[FieldError] = []
    if "enum" in schema and value not in schema["enum"]:
        errors.append(not_supported(field, value, [str(option) for option in schema["enum"]]))
    if isinstance(value, str):
        errors.extend(_string_errors(value, schema, field))
    elif isinstance(value, int | float) and not isinstance(value, bool):
        errors.extend(_number_errors(value, schema, field))
    elif isinstance(value, list):
        errors.extend(_array_errors(value, schema, field))
    elif isinstance(value, dict):
        errors.extend(_object_errors(value, schema, field))
    return errors


def _is_a(value: Any, expected: str) -> bool:
    if isinstance(value, bool):
        return expected == "boolean"
    if expected == "integer" and isinstance(value, float):
        return value.is_integer()
    return isinstance(value, _TYPES[expected])


def _wrong_type(field: str, value: Any, expected: str) -> FieldError:
    found = (
        "null"
        if value is None
        else next(
            (name for name in ("boolean", "integer", "number", "string", "array", "object") if _is_a(value, name)),
            "null",
        )
    )
    detail = f'{field or "<nil>"} in body must be of type {expected}: "{found}"'
    return FieldError("TypeInvalid", field or "<nil>", found, detail)


def _string_errors(value: str, schema: Schema, field: str) -> list[FieldError]:
    errors = []
    if "pattern" in schema and not re.search(schema["pattern"], value):
        errors.append(invalid_value(field, value, f"{field} in body should match '{schema['pattern']}'"))
    if len(value) > schema.get("maxLength", len(value)):
        errors.append(FieldError("TooLong", field, None, f"may not be more than {schema['maxLength']} bytes"))
    if len(value) < schema.get("minLength", 0):
        errors.append(
            invalid_value(field, value, f"{field} in body should be at least {schema['minLength']} chars long")
        )
    return errors


def _number_errors(value: float, schema: Schema, field: str) -> list[FieldError]:
    errors = []
    if "minimum" in schema and value < schema["minimum"]:
        errors.append(
            invalid_value(field, value, f"{field} in body should be greater than or equal to {schema['minimum']}")
        )
    if "maximum" in schema and value > schema["maximum"]:
        errors.append(
            invalid_value(field, value, f"{field} in body should be less than or equal to {schema['maximum']}")
        )
    return errors


def _array_errors(value: list[Any], schema: Schema, field: str) -> list[FieldError]:
    errors = []
    for index, item in enumerate(value):
        errors.extend(schema_errors(item, schema.get("items") or {}, f"{field}[{index}]"))
    if len(value) > schema.get("maxItems", len(value)):
        limit = schema["maxItems"]
        items = "item" if limit == 1 else "items"
        errors.append(FieldError("TooMany", field, len(value), f"must have at most {limit} {items}"))
    if len(value) < schema.get("minItems", 0):
        errors.append(
            invalid_value(field, len(value), f"{field} in body should have at least {schema['minItems']} items")
        )
    return errors


def _object_errors(value: JsonObject, schema: Schema, field: str) -> list[FieldError]:
    below = f"{field}." if field else ""
    errors = [required(f"{below}{name}") for name in schema.get("required") or [] if name not in value]
    properties = schema.get("properties") or {}
    further = schema.get("additionalProperties")
    for name, item in value.items():
        if name in properties:
            errors.extend(schema_errors(item, properties[name], f"{below}{name}"))
        elif isinstance(further, Mapping):
            errors.extend(schema_errors(item, further, f"{below}{name}"))
    return errors
