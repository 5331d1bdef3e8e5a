"""Writes: create, update, patch and bind, from the request's body to the stored object.

The order is the real server's: decode, defaults, mutating admission, strategy, validation, validating admission,
storage. A Binding, the one write by which a scheduler decides, is not stored: it changes its pod. Upstream:
k8s.io/apiserver pkg/endpoints/handlers/{create,update,patch}.go, pkg/registry/generic/registry/store.go, and
pkg/registry/core/pod/storage/storage.go (BindingREST).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

from podberth.apiserver import storage
from podberth.apiserver.admission import Admission, Target
from podberth.apiserver.deletion import lets_go
from podberth.apiserver.resources import Registry, Resource
from podberth.apiserver.rules import defaults, strategy, validation
from podberth.apiserver.rules.names import node_name_errors
from podberth.apiserver.rules.patch import APPLY_PATCH, JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, apply_patch
from podberth.apiserver.rules.plugins import Plugins, default_tolerations, without_nulls
from podberth.apiserver.rules.status import (
    FieldError,
    JsonObject,
    StatusError,
    already_exists,
    bad_request,
    conflict,
    decoding,
    forbidden,
    internal,
    invalid,
    invalid_value,
    misnamed,
    modified,
    not_found,
    not_supported,
    required,
    unsupported_media_type,
    wrong_namespace,
)
from podberth.apiserver.rules.strategy import GIVEN, set_condition
from podberth.apiserver.storage import Store, Stored, with_revision

Query = Mapping[str, str]

CONFLICT_RETRIES = 5


def is_dry_run(query: Query, kind: str = "CreateOptions") -> bool:
    """Return the dryRun parameter; `All` is its only value."""
    value = query.get("dryRun", "")
    if value not in {"", "All"}:
        raise invalid("meta.k8s.io", kind, "", [not_supported("dryRun", [value], ["All"])])
    return value == "All"


def read_object(resource: Resource, body: bytes) -> JsonObject:
    """Return a request's object in its stored form, without kind and apiVersion."""
    try:
        obj = msgspec.json.decode(body)
    except msgspec.DecodeError as error:
        raise bad_request(
            f"the object provided is unrecognized (must be of type {resource.kind}): couldn't get version/kind; "
            f"json parse error: {error}"
        ) from error
    if not isinstance(obj, dict):
        raise bad_request("couldn't get version/kind; json parse error: not an object")
    if b"null" in body and not resource.custom:
        obj = without_nulls(obj)
    kind, api_version = obj.pop("kind", None), obj.pop("apiVersion", None)
    if resource.custom and not kind:
        raise bad_request(
            f"the object provided is unrecognized (must be of type {resource.kind}): Object 'Kind' is missing in "
            f"'{body.decode()}'"
        )
    if kind not in {None, "", resource.kind}:
        raise bad_request(
            f'{kind} in version "{(api_version or resource.version).rpartition("/")[2]}" cannot be handled as a '
            f"{resource.kind}: it is of another kind than this path"
        )
    if api_version not in {None, "", resource.api_version}:
        raise bad_request(
            f"the API version in the data ({api_version}) does not match the expected API version "
            f"({resource.api_version})"
        )
    return to_stored(resource, obj)


def _check_texts(resource: Resource, metadata: JsonObject, part: str) -> None:
    """Labels and annotations are texts by name; everything later relies on that."""
    texts = metadata.get(part)
    if texts is None:
        metadata.pop(part, None)
        return
    found = "array" if isinstance(texts, list) else "" if isinstance(texts, dict) else "string"
    if isinstance(texts, dict):
        wrong = next((value for value in texts.values() if not isinstance(value, str)), "")
        found = {dict: "object", list: "array", bool: "bool", str: ""}.get(type(wrong), "number")
    if found:
        raise bad_request(
            f'{resource.kind} in version "{resource.version}" cannot be handled as a {resource.kind}: json: cannot '
            f"unmarshal {found} into Go struct field ObjectMeta.metadata.{part} of type string"
        )


def to_stored(resource: Resource, obj: JsonObject) -> JsonObject:
    """Return an object with its metadata first and, for events, in the core form."""
    if resource.view:
        obj = storage.to_core(obj)
    metadata = obj.pop("metadata", None) or {}
    if not isinstance(metadata, dict):
        raise bad_request(f'{resource.kind} in version "{resource.version}" cannot be handled as a {resource.kind}')
    for part in ("labels", "annotations"):
        _check_texts(resource, metadata, part)
    metadata.pop("managedFields", None)
    metadata.pop("selfLink", None)
    return {"metadata": metadata, **obj}


def storage_mismatch(resource: Resource, key: str, message: str) -> StatusError:
    """409 for a failed precondition, with the storage layer's sentence in it."""
    why = (
        f"StorageError: invalid object, Code: 4, Key: /registry/{resource.plural}/{key}, ResourceVersion: 0, "
        f"AdditionalErrorMsg: {message}"
    )
    return conflict(resource.group, resource.plural, key.rpartition("/")[2], why)


def another_uid(resource: Resource, key: str, asked: str, found: str) -> StatusError:
    """409 for a write that names another object than is there; `found`: empty where none is."""
    message = f"Precondition failed: UID in precondition: {asked}, UID in object meta: {found}"
    return storage_mismatch(resource, key, message)


def check_preconditions(resource: Resource, stored: Stored, uid: str, revision: str) -> None:
    """Refuse a write that names another object or another version (storage.Preconditions.Check)."""
    if uid and uid != stored.uid:
        raise another_uid(resource, stored.key, uid, stored.uid)
    if revision and revision != str(stored.revision):
        raise storage_mismatch(
            resource,
            stored.key,
            f"Precondition failed: ResourceVersion in precondition: {revision}, "
            f"ResourceVersion in object meta: {stored.revision}",
        )


class Writes:
    """Creates, updates and patches objects."""

    def __init__(self, store: Store, registry: Registry, admission: Admission, plugins: Plugins) -> None:
        self._store = store
        self._plugins = plugins
        self._admission = admission
        self._namespaces = registry.built_in("namespaces")

    # --- create -----------------------------------------------------------------------------------------------------

    async def create(self, target: Target, obj: JsonObject) -> Stored:
        """Store a new object; in a dry run, only say what it would be."""
        resource, metadata = target.resource, obj["metadata"]
        if resource.namespaced:
            found = metadata.setdefault("namespace", target.namespace) or target.namespace
            metadata["namespace"] = found
            if found != target.namespace:
                raise wrong_namespace()
            self._check_namespace(target, metadata.get("name", ""))
        elif metadata.pop("namespace", ""):
            raise wrong_namespace()
        if metadata.get("resourceVersion"):
            raise StatusError(500, "", "resourceVersion should not be set on objects to be created")
        for name in ("uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "resourceVersion"):
            metadata.pop(name, None)
        with decoding(resource.version, resource.kind):
            self._default(resource, obj)
            if resource.is_a("Pod"):
                self._plugins.create_pod(obj)
            elif resource.is_a("PodGroup"):
                self._plugins.create_pod_group(resource, obj)
        request = target._replace(operation="CREATE", name=metadata.get("name", ""))
        obj = await self._admission.mutate(request, obj, None, lambda changed: self._default(resource, changed))
        metadata = obj["metadata"]
        generated = not metadata.get("name") and bool(metadata.get("generateName"))
        if generated:
            metadata["name"] = metadata["generateName"] + GIVEN.suffix()
            if resource.kind == "Namespace":
                defaults.apply("Namespace", obj)
        metadata["uid"] = GIVEN.uid()
        metadata["creationTimestamp"] = strategy.timestamp()
        with decoding(resource.version, resource.kind):
            strategy.prepare_create(resource, obj)
            validation.create(resource, obj)
        await self._admission.validate(request._replace(name=metadata["name"]), obj, None)
        if resource.is_a("Pod"):
            self._plugins.check_pod(obj, dry_run=target.dry_run)
        key = resource.key(metadata.get("namespace", ""), metadata["name"])
        if (existing := self._store.get(resource, key)) is not None:
            leaving = bool(existing.obj["metadata"].get("deletionTimestamp"))
            raise already_exists(resource.group, resource.plural, metadata["name"], leaving)
        if target.dry_run:
            return Stored(key, obj, 0)
        return self._store.create(resource, key, obj)

    def _check_namespace(self, target: Target, name: str) -> None:
        """NamespaceLifecycle: nothing new in a namespace that isn't there or is going away."""
        namespace = self._store.get(self._namespaces, target.namespace)
        if namespace is None:
            raise not_found("", "namespaces", target.namespace)
        if namespace.obj["metadata"].get("deletionTimestamp"):
            error = forbidden(
                target.resource.group,
                target.resource.plural,
                name,
                f"unable to create new content in namespace {target.namespace} because it is being terminated",
            )
            message = f"namespace {target.namespace} is being terminated"
            cause = {"reason": "NamespaceTerminating", "message": message, "field": "metadata.namespace"}
            error.details = {**(error.details or {}), "causes": [cause]}
            raise error

    def _default(self, resource: Resource, obj: JsonObject) -> None:
        if not resource.custom:
            defaults.apply(resource.kind, obj)

    # --- update and patch -------------------------------------------------------------------------------------------

    async def update(self, target: Target, obj: JsonObject) -> tuple[Stored, bool]:
        """Replace an object by the one in the request; says whether it was created by that."""
        resource, metadata = target.resource, obj["metadata"]
        if metadata.setdefault("name", target.name) != target.name:
            raise bad_request(
                f"the name of the object ({metadata['name']}) does not match the name on the URL ({target.name})"
            )
        if resource.namespaced and metadata.setdefault("namespace", target.namespace) != target.namespace:
            raise wrong_namespace()
        key = resource.key(target.namespace, target.name)
        if resource.create_on_update and not target.subresource and self._store.get(resource, key) is None:
            if uid := metadata.get("uid"):
                raise another_uid(resource, key, uid, "")
            metadata.pop("resourceVersion", None)
            return await self.create(target, obj), True
        body = msgspec.json.encode(obj)
        return await self._modify(target, lambda _: msgspec.json.decode(body)), False

    async def patch(self, target: Target, content_type: str, body: bytes) -> tuple[Stored, bool]:
        """Change an object by a patch; an apply of what isn't there creates it."""
        resource = target.resource
        accepted = [JSON_PATCH, MERGE_PATCH, APPLY_PATCH]
        if not resource.custom:
            accepted.insert(2, STRATEGIC_PATCH)
        if content_type not in accepted:
            raise unsupported_media_type(accepted if content_type == STRATEGIC_PATCH else ())
        key = resource.key(target.namespace, target.name)
        if content_type == APPLY_PATCH and not target.subresource and self._store.get(resource, key) is None:
            obj = apply_patch(content_type, resource.kind, {}, body)
            return await self.create(target, read_object(resource, msgspec.json.encode(obj))), True

        def patched(old: Stored) -> JsonObject:
            whole = msgspec.json.decode(old.full(resource))
            result = apply_patch(content_type, resource.kind, whole, body)
            if b"null" in body and not resource.custom:
                result = without_nulls(result)
            for name in ("kind", "apiVersion"):
                result.pop(name, None)
            new = to_stored(resource, result)
            self._check_identity(target, new["metadata"], old)
            return new

        try:
            return await self._modify(target, patched), False
        except StatusError as error:
            if "cannot be handled as" not in error.message:
                raise
            # What a body may not hold is a fault of the patch here (patcher.applyPatch).
            why = error.message.partition(": ")[2]
            raise invalid("", "", "", [invalid_value("patch", body.decode(errors="replace"), why)]) from error

    def _check_identity(self, target: Target, metadata: JsonObject, old: Stored) -> None:
        """A patch may not make another object of it."""
        resource = target.resource
        if metadata.get("name") != target.name:
            raise bad_request(
                f"the name of the object ({metadata.get('name', '')}) does not match the name on the URL "
                f"({target.name})"
            )
        if metadata.get("namespace", "") != old.obj["metadata"].get("namespace", ""):
            raise wrong_namespace()
        if metadata.get("uid", old.uid) != old.uid:
            immutable = invalid_value("metadata.uid", metadata["uid"], "field is immutable")
            raise invalid(resource.group, resource.kind, target.name, [immutable])

    async def _modify(self, target: Target, change: Callable[[Stored], JsonObject]) -> Stored:
        resource = target.resource
        key = resource.key(target.namespace, target.name)
        for _ in range(CONFLICT_RETRIES):
            old = self._store.get(resource, key)
            if old is None:
                raise not_found(resource.group, resource.plural, target.name)
            new = change(old)
            asked = self._check_version(resource, new, old)
            new = await self._prepared(target, new, old)
            if target.dry_run:
                return Stored(key, with_revision(new, old.revision), old.revision)
            # Webhooks may have taken their time; what was there at the start must be there still.
            if self._store.get(resource, key) is old:
                if lets_go(resource, new):
                    # The change itself is never stored: watchers see the object go as it was before.
                    self._store.delete(resource, old)
                    return Stored(key, with_revision(new, old.revision), old.revision)
                return self._store.update(resource, old, new)
            if asked:
                raise modified(resource.group, resource.plural, target.name)
        raise modified(resource.group, resource.plural, target.name)

    def _check_version(self, resource: Resource, new: JsonObject, old: Stored) -> bool:
        """Return whether the write names the version it is based on; refuses one that is based on another."""
        metadata = new["metadata"]
        name = old.obj["metadata"]["name"]
        check_preconditions(resource, old, metadata.get("uid") or "", "")
        asked = metadata.get("resourceVersion") or ""
        if not asked:
            if not resource.unconditional:
                missing = invalid_value("metadata.resourceVersion", 0, "must be specified for an update")
                raise invalid(resource.group, resource.plural, name, [missing])
            return False
        if not str(asked).isdecimal():
            raise StatusError(500, "", f'strconv.ParseUint: parsing "{asked}": invalid syntax')
        if asked != str(old.revision):
            raise modified(resource.group, resource.plural, name)
        return True

    async def _prepared(self, target: Target, new: JsonObject, old: Stored) -> JsonObject:
        """Return the object to store for an update, after admission, strategy and validation."""
        resource, before = target.resource, old.obj
        strategy.carry_metadata(new, before)
        request = target._replace(operation="UPDATE")
        if target.subresource == "status":
            with decoding(resource.version, resource.kind):
                self._default(resource, new)
                new = strategy.prepare_status_update(resource, new, before)
            new = await self._admission.mutate(request, new, before, lambda _: None)
            with decoding(resource.version, resource.kind):
                validation.status_update(resource, new, before)
        elif target.subresource == "finalize":
            new = {**before, "spec": new.get("spec") or {}}
        elif target.subresource:
            raise internal(f"no subresource {target.subresource}")
        else:
            with decoding(resource.version, resource.kind):
                self._default(resource, new)
                if resource.is_a("Pod"):
                    default_tolerations(new)
                strategy.prepare_update(resource, new, before)
            new = await self._admission.mutate(request, new, before, lambda changed: self._default(resource, changed))
            with decoding(resource.version, resource.kind):
                strategy.prepare_update(resource, new, before)
                validation.update(resource, new, before)
        await self._admission.validate(request, new, before)
        return new


# --- pods/binding -----------------------------------------------------------------------------------------------------


def _check_target(target: JsonObject) -> None:
    errors: list[FieldError] = []
    kind, name = target.get("kind") or "", target.get("name") or ""
    if kind not in {"", "Node"}:
        errors.append(not_supported("target.kind", kind, ["Node", "<empty>"]))
    if not name:
        errors.append(required("target.name"))
    elif kind in {"", "Node"}:
        errors.extend(misnamed(node_name_errors, name, "target.name"))
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
        _check_target(target)
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
