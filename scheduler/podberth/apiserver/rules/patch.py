"""The patch formats: JSON patch (RFC 6902), merge patch (RFC 7386), strategic merge patch with its directives.

Server-side apply is taken as a merge patch whose lists are merged like a strategic one's: there is no field ownership,
so it never conflicts and never removes what an earlier apply had set. Upstream: k8s.io/apimachinery
pkg/util/strategicpatch/patch.go; the merge keys are the patchStrategy tags in k8s.io/api.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jsonpatch
import msgspec

from podberth.apiserver.rules.status import JsonObject, StatusError, bad_request, unprocessable

JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"

_PORTS = {"ports": "containerPort", "env": "name", "volumeMounts": "mountPath", "volumeDevices": "devicePath"}
_POD_SPEC = {
    "volumes": "name",
    "imagePullSecrets": "name",
    "hostAliases": "ip",
    "topologySpreadConstraints": "topologyKey",
    "schedulingGates": "name",
    "resourceClaims": "name",
    **{
        f"{containers}{rest}": key
        for containers in ("containers", "initContainers", "ephemeralContainers")
        for rest, key in {"": "name", **{f".{name}": key for name, key in _PORTS.items()}}.items()
    },
}
_CONDITIONS = {"status.conditions": "type"}
_TEMPLATE = {f"spec.template.spec.{path}": key for path, key in _POD_SPEC.items()} | _CONDITIONS
_EVERY_KIND = {
    "metadata.finalizers": "",
    "metadata.ownerReferences": "uid",
    "spec.template.metadata.finalizers": "",
}
# Lists that merge, by kind and path without indices: the key of their items, or "" for lists of plain values.
# Every list that isn't here is atomic, tolerations and taints among them.
MERGE_KEYS: Mapping[str, Mapping[str, str]] = {
    "Pod": {f"spec.{path}": key for path, key in _POD_SPEC.items()}
    | {
        **_CONDITIONS,
        "status.hostIPs": "ip",
        "status.podIPs": "ip",
        "status.resourceClaimStatuses": "name",
        "status.containerStatuses.volumeMounts": "mountPath",
    },
    "Node": {**_CONDITIONS, "status.addresses": "type", "spec.podCIDRs": ""},
    "Namespace": _CONDITIONS,
    "Service": {**_CONDITIONS, "spec.ports": "port"},
    "ServiceAccount": {"secrets": "name"},
    "PersistentVolumeClaim": _CONDITIONS,
    "PodDisruptionBudget": _CONDITIONS,
    "PodGroup": {**_CONDITIONS, "spec.resourceClaims": "name"},
    "ResourceClaim": {"status.reservedFor": "uid"},
    "CSINode": {"spec.drivers": "name"},
    "MutatingWebhookConfiguration": {"webhooks": "name", "webhooks.matchConditions": "name"},
    "ValidatingWebhookConfiguration": {"webhooks": "name", "webhooks.matchConditions": "name"},
    **dict.fromkeys(("Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "ReplicationController"), _TEMPLATE),
}
# Maps that a patch replaces instead of merging into.
_REPLACED = {("PodDisruptionBudget", "spec.selector")}


class PatchError(ValueError):
    """A JSON patch that can't be applied."""


def apply_patch(content_type: str, kind: str, target: JsonObject, body: bytes) -> JsonObject:
    """Return the patched object; the target may be changed on the way."""
    if content_type == APPLY_PATCH:
        return strategic(kind, target, _read_yaml(body))
    patch = _read(body)
    if content_type == JSON_PATCH:
        if not isinstance(patch, list):
            raise bad_request(
                "error decoding patch: json: cannot unmarshal object into Go value of type []handlers.jsonPatchOp"
            )
        try:
            patched = json_patch(target, patch)
        except PatchError as error:
            raise unprocessable() from error
        if not isinstance(patched, dict):
            raise unprocessable()
        return patched
    if not isinstance(patch, dict):
        raise bad_request("json: cannot unmarshal array into Go value of type map[string]interface {}")
    if content_type == MERGE_PATCH:
        merged = merge(target, patch)
        return merged if isinstance(merged, dict) else {}
    return strategic(kind, target, patch)


def _read(body: bytes) -> Any:
    try:
        return msgspec.json.decode(body)
    except msgspec.DecodeError as error:
        raise bad_request(f"invalid JSON patch: {error}") from error


def _read_yaml(body: bytes) -> JsonObject:
    import yaml  # only server-side apply needs it

    try:
        document = yaml.safe_load(body)
    except yaml.YAMLError as error:
        raise bad_request(f"error decoding YAML: {error}") from error
    if not isinstance(document, dict):
        raise bad_request("error decoding YAML: not an object")
    return document


def json_patch(document: Any, operations: list[Any]) -> Any:
    """Apply RFC 6902 operations in order; the first that fails refuses the whole patch. Raises PatchError."""
    if not all(isinstance(one, dict) and isinstance(one.get("path"), str) for one in operations):
        raise bad_request("error decoding patch: not a list of operations")
    try:
        return jsonpatch.apply_patch(document, [{"value": None, **one} for one in operations])
    except (jsonpatch.JsonPatchException, jsonpatch.JsonPointerException) as error:
        raise PatchError(str(error)) from None


# --- RFC 7386 -------------------------------------------------------------------------------------------------------


def merge(target: Any, patch: Any) -> Any:
    """Return the target after a merge patch: maps merge, null deletes, everything else replaces."""
    if not isinstance(patch, dict):
        return patch
    merged = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = merge(merged.get(key), value)
    return merged


# --- strategic ------------------------------------------------------------------------------------------------------


def strategic(kind: str, target: JsonObject, patch: JsonObject) -> JsonObject:
    """Return the target after a strategic merge patch on a built-in kind."""
    return _merge_map(kind, "", target, patch)


def _merge_map(kind: str, path: str, target: JsonObject, patch: JsonObject) -> JsonObject:
    directive = patch.get("$patch")
    if directive == "replace" or (kind, path) in _REPLACED:
        return {key: value for key, value in patch.items() if key != "$patch"}
    if directive == "delete":
        return {}
    if directive not in {None, "merge"}:
        raise bad_request(f"Unknown patch type found: {directive}")
    merged = dict(target)
    if (retained := patch.get("$retainKeys")) is not None:
        merged = {key: value for key, value in merged.items() if key in retained}
    for key, value in patch.items():
        if key.startswith("$deleteFromPrimitiveList/"):
            name = key.partition("/")[2]
            merged[name] = [item for item in merged.get(name) or [] if item not in value]
    for key, value in patch.items():
        if key.startswith("$"):
            continue
        below = f"{path}.{key}" if path else key
        if value is None:
            merged.pop(key, None)
        elif isinstance(value, dict):
            found = merged.get(key)
            merged[key] = _merge_map(kind, below, found if isinstance(found, dict) else {}, value)
        elif isinstance(value, list):
            found = merged.get(key)
            merged[key] = _merge_list(kind, below, found if isinstance(found, list) else [], value)
        else:
            merged[key] = value
    for key, value in patch.items():
        if key.startswith("$setElementOrder/"):
            name = key.partition("/")[2]
            if name in merged:
                below = f"{path}.{name}" if path else name
                merged[name] = _in_order(_merge_key(kind, below), merged[name], value)
    return merged


def _merge_key(kind: str, path: str) -> str | None:
    """Return the key that a list's items merge by, "" for plain values, None for an atomic list."""
    return MERGE_KEYS.get(kind, {}).get(path, _EVERY_KIND.get(path))


def _merge_list(kind: str, path: str, target: list[Any], patch: list[Any]) -> list[Any]:
    key = _merge_key(kind, path)
    if key is None:
        return patch
    if key == "":
        return target + [value for value in dict.fromkeys(patch) if value not in target]
    items = [item for item in patch if isinstance(item, dict)]
    if len(items) != len(patch):
        raise bad_request(f"expected a list of objects in {path}")
    if any(item.get("$patch") == "replace" for item in items):
        return [item for item in items if item.get("$patch") != "replace"]
    if not target:
        return [_merge_map(kind, path, {}, item) for item in items if item.get("$patch") != "delete"]
    kept = {found.get(key): found for found in target}
    patched: dict[Any, JsonObject] = {}
    for item in items:
        if key not in item:
            raise _no_merge_key(item, key)
        if item.get("$patch") == "delete":
            kept.pop(item[key], None)
        else:
            patched[item[key]] = _merge_map(kind, path, kept.pop(item[key], {}), item)
    return _interleaved(kept, patched, [found.get(key) for found in target])


def _interleaved(kept: dict[Any, Any], patched: dict[Any, Any], before: list[Any]) -> list[Any]:
    """Patched items in the patch's order; a kept one goes before the next patched one that it preceded so far.

    So a new item, whose place nobody knows, comes to the front (mergeSortedSlice).
    """
    merged, waiting = [], list(kept)
    for name, item in patched.items():
        while waiting and name in before and before.index(waiting[0]) < before.index(name):
            merged.append(kept[waiting.pop(0)])
        merged.append(item)
    return merged + [kept[name] for name in waiting]


def _no_merge_key(item: JsonObject, key: str) -> StatusError:
    shown = " ".join(f"{name}:{value}" for name, value in sorted(item.items()))
    return StatusError(500, "", f"map: map[{shown}] does not contain declared merge key: {key}")


def _in_order(key: str | None, items: list[Any], order: list[Any]) -> list[Any]:
    """Return items in the order that the patch asks for by $setElementOrder."""

    def identity(item: Any) -> Any:
        return item.get(key) if key and isinstance(item, dict) else item

    ranks = {identity(item): rank for rank, item in enumerate(order)}
    named = sorted((item for item in items if identity(item) in ranks), key=lambda item: ranks[identity(item)])
    others = {identity(item): item for item in items if identity(item) not in ranks}
    return _interleaved(others, {identity(item): item for item in named}, [identity(item) for item in items])
