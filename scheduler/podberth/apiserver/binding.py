"""pods/binding: the one write by which a scheduler decides.

Upstream: pkg/registry/core/pod/storage/storage.go (BindingREST).
"""

from __future__ import annotations

from podberth.apiserver.resources import Registry, Resource
from podberth.apiserver.rules.names import node_name_errors
from podberth.apiserver.rules.plugins import Plugins
from podberth.apiserver.rules.status import (
    FieldError,
    JsonObject,
    StatusError,
    bad_request,
    conflict,
    invalid_value,
    not_found,
    not_supported,
    required,
)
from podberth.apiserver.rules.strategy import set_condition
from podberth.apiserver.storage import Store, Stored


def storage_mismatch(resource: Resource, stored: Stored, message: str) -> StatusError:
    """409 for a failed precondition, with the storage layer's sentence in it."""
    key = f"/registry/{resource.plural}/{stored.key}"
    why = f"StorageError: invalid object, Code: 4, Key: {key}, ResourceVersion: 0, AdditionalErrorMsg: {message}"
    return conflict(resource.group, resource.plural, stored.obj["metadata"]["name"], why)


def check_preconditions(resource: Resource, stored: Stored, uid: str, revision: str) -> None:
    """Refuse a write that names another object or another version (storage.Preconditions.Check)."""
    if uid and uid != stored.uid:
        raise storage_mismatch(
            resource,
            stored,
            f"Precondition failed: UID in precondition: {uid}, UID in object meta: {stored.uid}",
        )
    if revision and revision != str(stored.revision):
        raise storage_mismatch(
            resource,
            stored,
            f"Precondition failed: ResourceVersion in precondition: {revision}, "
            f"ResourceVersion in object meta: {stored.revision}",
        )


def _validate(target: JsonObject) -> None:
    errors: list[FieldError] = []
    kind, name = target.get("kind") or "", target.get("name") or ""
    if kind not in {"", "Node"}:
        errors.append(not_supported("target.kind", kind, ["Node", "<empty>"]))
    if not name:
        errors.append(required("target.name"))
    elif kind in {"", "Node"}:
        errors.extend(invalid_value("target.name", name, text) for text in node_name_errors(name))
    if errors:
        texts = [str(error) for error in errors]
        # Not a Status of its own upstream: an aggregate that becomes a plain 500.
        raise StatusError(500, "", texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]")


class Bindings:
    """Binds pods."""

    def __init__(self, store: Store, registry: Registry, plugins: Plugins) -> None:
        self._store = store
        self._pods = registry.built_in("pods")
        self._plugins = plugins

    def bind(self, namespace: str, name: str, binding: JsonObject, dry_run: bool) -> Stored | None:
        """Set the pod's node; returns the bound pod, or None in a dry run."""
        metadata = binding.get("metadata") or {}
        if metadata.get("name", "") != name:
            raise bad_request("name in URL does not match name in Binding object")
        target = binding.get("target") or {}
        _validate(target)
        stored = self._store.get(self._pods, self._pods.key(namespace, name))
        if stored is None:
            raise not_found("", "pods", name)
        check_preconditions(self._pods, stored, metadata.get("uid") or "", metadata.get("resourceVersion") or "")
        pod = stored.obj
        if why := _refusal(pod):
            raise conflict("", "pods/binding", name, why)
        if dry_run:
            return None
        return self._store.update(self._pods, stored, self._bound(pod, target["name"], metadata, target.get("kind")))

    def _bound(self, pod: JsonObject, node: str, binding_metadata: JsonObject, kind: str | None) -> JsonObject:
        metadata = dict(pod["metadata"])
        if annotations := binding_metadata.get("annotations"):
            metadata["annotations"] = {**(metadata.get("annotations") or {}), **annotations}
        labels = binding_metadata.get("labels") or {}
        if kind == "Node":
            labels = {**labels, **self._plugins.topology_labels(node)}
        if labels:
            metadata["labels"] = {**(metadata.get("labels") or {}), **labels}
        status = dict(pod.get("status") or {})
        status.pop("nominatedNodeName", None)
        status["conditions"] = set_condition(status.get("conditions") or [], {"type": "PodScheduled", "status": "True"})
        return {**pod, "metadata": metadata, "spec": {**pod["spec"], "nodeName": node}, "status": status}


def _refusal(pod: JsonObject) -> str:
    """Return why a pod may not be bound, or nothing."""
    name = pod["metadata"]["name"]
    if pod["metadata"].get("deletionTimestamp"):
        return f"pod {name} is being deleted, cannot be assigned to a host"
    if node := pod["spec"].get("nodeName"):
        return f'pod {name} is already assigned to node "{node}"'
    if pod["spec"].get("schedulingGates"):
        return f"pod {name} has non-empty .spec.schedulingGates"
    return ""
