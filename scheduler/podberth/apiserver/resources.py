"""The table of served resources, from which everything else in this package reads the abilities of a kind.

Discovery tells clients of it, and URLs are taken apart by it: which resource, which object, which verb.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

import msgspec

from podberth.apiserver.rules.status import JsonObject

META_FIELDS = {"metadata.name": ("metadata", "name"), "metadata.namespace": ("metadata", "namespace")}
ALL_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")


@dataclass(frozen=True)
class Resource:
    """One served resource in one version."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool
    status: bool = False
    keeps_status_on_create: bool = False
    generation: bool = False
    unconditional: bool = True
    create_on_update: bool = False
    returns_deleted: bool = False
    custom: bool = False
    view: str = ""
    storage: str = ""
    list_kind: str = ""
    dropped: tuple[str, ...] = ()
    """Fields of the spec that are not stored, as their feature gates are off."""
    fields: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @cached_property
    def api_version(self) -> str:
        """`v1` or `apps/v1`."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @cached_property
    def prefix(self) -> bytes:
        """Return the beginning of an object's JSON in this version, before its metadata."""
        return b'{"kind":%s,"apiVersion":%s,' % (
            msgspec.json.encode(self.kind),
            msgspec.json.encode(self.api_version),
        )

    @cached_property
    def item_prefix(self) -> bytes:
        """Return the beginning of an object's JSON inside a list: built-in kinds have no kind and apiVersion there."""
        return self.prefix if self.custom else b"{"

    @cached_property
    def collection(self) -> str:
        """Return the name of the collection in storage; two served versions may share one."""
        return self.storage or (f"{self.plural}.{self.group}" if self.group else self.plural)

    @cached_property
    def listed_as(self) -> str:
        """Return the kind of a list of these objects."""
        return self.list_kind or f"{self.kind}List"

    @cached_property
    def selectable(self) -> Mapping[str, tuple[str, ...]]:
        """Return the field labels by which this resource can be selected, with their paths."""
        return {**META_FIELDS, **self.fields}

    def is_a(self, kind: str) -> bool:
        """Return whether it is this built-in kind, and not a custom one of the same name."""
        return self.kind == kind and not self.custom

    def key(self, namespace: str, name: str) -> str:
        """Return the object's key; keys are ordered as in etcd."""
        return f"{namespace}/{name}" if self.namespaced else name


def _paths(*labels: str) -> dict[str, tuple[str, ...]]:
    return {label: tuple(label.split(".")) for label in labels}


POD_FIELDS = _paths(
    "spec.nodeName",
    "spec.restartPolicy",
    "spec.schedulerName",
    "spec.serviceAccountName",
    "spec.hostNetwork",
    "status.phase",
    "status.podIP",
    "status.nominatedNodeName",
)
_INVOLVED = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
EVENT_FIELDS = {
    **{f"involvedObject.{part}": ("involvedObject", part) for part in _INVOLVED},
    "reason": ("reason",),
    "reportingComponent": ("reportingComponent",),
    "source": ("source", "component"),
    "type": ("type",),
}
EVENTS_V1_FIELDS = {
    **{f"regarding.{part}": ("involvedObject", part) for part in _INVOLVED},
    "reason": ("reason",),
    "reportingController": ("reportingComponent",),
    "type": ("type",),
}


_WORKLOAD: dict[str, Any] = {"status": True, "generation": True}
_core = partial(Resource, "", "v1")
_storage = partial(Resource, "storage.k8s.io", "v1")
_devices = partial(Resource, "resource.k8s.io", "v1")
_hooks = partial(Resource, "admissionregistration.k8s.io", "v1", namespaced=False, generation=True, unconditional=False)
_rbac = partial(Resource, "rbac.authorization.k8s.io", "v1", create_on_update=True)
_RETURNED: dict[str, Any] = {"returns_deleted": True}
BUILT_IN: tuple[Resource, ...] = (
    _core("namespaces", "Namespace", False, status=True, fields=_paths("status.phase"), **_RETURNED),
    _core("nodes", "Node", False, status=True, keeps_status_on_create=True, fields=_paths("spec.unschedulable")),
    _core("pods", "Pod", True, fields=POD_FIELDS, **_WORKLOAD, **_RETURNED),
    _core("services", "Service", True, status=True, **_RETURNED),
    _core("replicationcontrollers", "ReplicationController", True, fields=_paths("status.replicas"), **_WORKLOAD),
    _core("events", "Event", True, create_on_update=True, fields=EVENT_FIELDS),
    _core("persistentvolumes", "PersistentVolume", False, status=True, **_RETURNED),
    _core("persistentvolumeclaims", "PersistentVolumeClaim", True, status=True, **_RETURNED),
    _core("configmaps", "ConfigMap", True),
    _core("secrets", "Secret", True, fields=_paths("type")),
    _core("serviceaccounts", "ServiceAccount", True, **_RETURNED),
    _core("resourcequotas", "ResourceQuota", True, status=True, **_RETURNED),
    _core("limitranges", "LimitRange", True, create_on_update=True),
    _core("endpoints", "Endpoints", True, create_on_update=True),
    *(
        Resource("apps", "v1", f"{kind.lower()}s", kind, True, **_WORKLOAD)
        for kind in ("Deployment", "ReplicaSet", "StatefulSet", "DaemonSet")
    ),
    Resource(
        "policy",
        "v1",
        "poddisruptionbudgets",
        "PodDisruptionBudget",
        True,
        status=True,
        generation=True,
        unconditional=False,
    ),
    _storage("storageclasses", "StorageClass", False, **_RETURNED),
    _storage("csinodes", "CSINode", False, unconditional=False, **_RETURNED),
    _storage("csidrivers", "CSIDriver", False, unconditional=False, **_RETURNED),
    _storage("csistoragecapacities", "CSIStorageCapacity", True, unconditional=False),
    _storage("volumeattachments", "VolumeAttachment", False, status=True, unconditional=False, **_RETURNED),
    _devices("deviceclasses", "DeviceClass", False, generation=True, **_RETURNED),
    _devices("resourceclaims", "ResourceClaim", True, status=True, **_RETURNED),
    _devices("resourceclaimtemplates", "ResourceClaimTemplate", True, **_RETURNED),
    _devices(
        "resourceslices",
        "ResourceSlice",
        False,
        generation=True,
        fields=_paths("spec.nodeName", "spec.driver", "spec.pool.name"),
        **_RETURNED,
    ),
    _devices("devicetaintrules", "DeviceTaintRule", False, status=True, generation=True, unconditional=False),
    Resource("coordination.k8s.io", "v1", "leases", "Lease", True, unconditional=False, create_on_update=True),
    Resource(
        "events.k8s.io",
        "v1",
        "events",
        "Event",
        True,
        create_on_update=True,
        storage="events",
        view="events.k8s.io",
        fields=EVENTS_V1_FIELDS,
    ),
    _hooks("mutatingwebhookconfigurations", "MutatingWebhookConfiguration"),
    _hooks("validatingwebhookconfigurations", "ValidatingWebhookConfiguration"),
    Resource(
        "apiextensions.k8s.io",
        "v1",
        "customresourcedefinitions",
        "CustomResourceDefinition",
        False,
        status=True,
        generation=True,
        unconditional=False,
    ),
    Resource("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", False, generation=True),
    Resource("node.k8s.io", "v1", "runtimeclasses", "RuntimeClass", False, create_on_update=True),
    _rbac("roles", "Role", True),
    _rbac("rolebindings", "RoleBinding", True),
    _rbac("clusterroles", "ClusterRole", False),
    _rbac("clusterrolebindings", "ClusterRoleBinding", False),
)
_BY_PLURAL = {resource.plural: resource for resource in reversed(BUILT_IN)}
"""Plural → resource. If two share a plural, the first in the table counts."""


class Registry:
    """The resources that are served now: the built-in table, and those that stored CRDs add to it."""

    def __init__(self, more: Iterable[Resource] = ()) -> None:
        """`more`: what is served beside the built-in table, as a feature gate is on."""
        self._by_group: dict[tuple[str, str], dict[str, Resource]] = {}
        self._groups: set[str] = set()
        for resource in (*BUILT_IN, *more):
            self.add(resource)

    def add(self, resource: Resource) -> None:
        """Serve a resource, in place of what was at its path."""
        self._by_group.setdefault((resource.group, resource.version), {})[resource.plural] = resource
        self._groups.add(resource.group)

    def remove_group_resource(self, group: str, plural: str) -> None:
        """Stop serving a resource in every version."""
        for pair in [pair for pair in self._by_group if pair[0] == group]:
            self._by_group[pair].pop(plural, None)
            if not self._by_group[pair]:
                del self._by_group[pair]
        self._groups = {served for served, _ in self._by_group}

    def serves(self, group: str) -> bool:
        """Return whether anything of a group is served."""
        return group in self._groups

    def find(self, group: str, version: str, plural: str) -> Resource | None:
        """Return the resource at a path."""
        return self._by_group.get((group, version), {}).get(plural)

    def built_in(self, plural: str) -> Resource:
        """Return a resource of the fixed table by its plural (core events for `events`)."""
        return _BY_PLURAL[plural]

    def in_group(self, group: str, version: str) -> list[Resource]:
        return list(self._by_group.get((group, version), {}).values())

    def group_versions(self) -> dict[str, list[str]]:
        """Return the named groups with their versions, in order of appearance."""
        groups: dict[str, list[str]] = {}
        for group, version in self._by_group:
            if group:
                groups.setdefault(group, []).append(version)
        return groups

    def __iter__(self) -> Iterator[Resource]:
        for served in self._by_group.values():
            yield from served.values()


VERSION = {
    "major": "1",
    "minor": "37",
    "emulationMajor": "1",
    "emulationMinor": "37",
    "gitVersion": "v1.37.0+berth",
    "gitCommit": "embedded",
    "gitTreeState": "clean",
    "goVersion": "none",
    "compiler": "python",
    "platform": "any",
}
_SUBRESOURCES: dict[str, list[tuple[str, str, str, tuple[str, ...]]]] = {
    "pods": [("binding", "", "Binding", ("create",)), ("eviction", "policy/v1", "Eviction", ("create",))],
    "namespaces": [("finalize", "", "Namespace", ("update",))],
}
# Created, answered and not stored: (group, plural, kind).
REVIEWS = (
    ("authentication.k8s.io", "tokenreviews", "TokenReview"),
    ("authorization.k8s.io", "subjectaccessreviews", "SubjectAccessReview"),
    ("authorization.k8s.io", "selfsubjectaccessreviews", "SelfSubjectAccessReview"),
)


def _entry(name: str, kind: str, verbs: tuple[str, ...], *, namespaced: bool, group_version: str = "") -> JsonObject:
    """Return the entry of a resource, or of a subresource, which may be of another group."""
    singular = "" if "/" in name else kind.lower()
    entry = {"name": name, "singularName": singular, "namespaced": namespaced, "kind": kind, "verbs": list(verbs)}
    if group_version:
        entry["group"], _, entry["version"] = group_version.partition("/")
    return entry


def resource_list(registry: Registry, group: str, version: str) -> JsonObject | None:
    """Return the resources of one group and version, or None when there are none."""
    entries = []
    for resource in registry.in_group(group, version):
        plural, inside = resource.plural, resource.namespaced
        entries.append(_entry(plural, resource.kind, ALL_VERBS, namespaced=inside))
        if resource.status:
            entries.append(_entry(f"{plural}/status", resource.kind, ("get", "patch", "update"), namespaced=inside))
        for name, other, kind, verbs in _SUBRESOURCES.get(plural, ()) if not resource.custom else ():
            entries.append(_entry(f"{plural}/{name}", kind, verbs, namespaced=inside, group_version=other))
    for review_group, plural, kind in REVIEWS:
        if (review_group, "v1") == (group, version):
            entries.append(_entry(plural, kind, ("create",), namespaced=False))
    if group == "" and version == "v1":
        entries.append(_entry("bindings", "Binding", ("create",), namespaced=True))
    if not entries:
        return None
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": f"{group}/{version}" if group else version,
        "resources": entries,
    }


def _group(name: str, versions: list[str]) -> JsonObject:
    listed = [{"groupVersion": f"{name}/{version}", "version": version} for version in versions]
    return {"name": name, "versions": listed, "preferredVersion": listed[0]}


def document(registry: Registry, path: str, address: str) -> JsonObject | None:
    """Return the discovery document at a path, or None."""
    parts = [part for part in path.split("/") if part]
    if parts == ["version"]:
        return dict(VERSION)
    if parts == ["api"]:
        return {
            "kind": "APIVersions",
            "versions": ["v1"],
            "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": address}],
        }
    groups = {**registry.group_versions(), **{group: ["v1"] for group, _, _ in REVIEWS}}
    if parts == ["apis"]:
        return {
            "kind": "APIGroupList",
            "apiVersion": "v1",
            "groups": [_group(name, versions) for name, versions in groups.items()],
        }
    if parts[:1] == ["apis"] and len(parts) == 2 and parts[1] in groups:
        return {"kind": "APIGroup", "apiVersion": "v1", **_group(parts[1], groups[parts[1]])}
    if parts[:1] == ["apis"] and len(parts) == 3:
        return resource_list(registry, parts[1], parts[2])
    if parts == ["api", "v1"]:
        return resource_list(registry, "", "v1")
    return None


# --- URLs -------------------------------------------------------------------------------------------------------------

NAMESPACE_SUBRESOURCES = frozenset({"status", "finalize"})
_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch"}


@dataclass(frozen=True)
class RequestInfo:
    """The resource, object and verb that a request is about; `plural` is empty for paths that are no resource's."""

    verb: str
    path: str
    group: str = ""
    version: str = ""
    plural: str = ""
    namespace: str = ""
    name: str = ""
    subresource: str = ""

    @property
    def resource(self) -> str:
        """Return the resource as RBAC spells it: `pods` or `pods/binding`."""
        return f"{self.plural}/{self.subresource}" if self.subresource else self.plural


def read(method: str, path: str, query: Mapping[str, str]) -> RequestInfo:
    """Take a request's path apart."""
    parts = [part for part in path.split("/") if part]
    if len(parts) >= 3 and parts[0] == "api":
        group, version, rest = "", parts[1], parts[2:]
    elif len(parts) >= 4 and parts[0] == "apis":
        group, version, rest = parts[1], parts[2], parts[3:]
    else:
        return RequestInfo(verb=method.lower(), path=path)
    watching = rest[0] == "watch"
    if watching:
        rest = rest[1:]
    namespace = ""
    if rest[:1] == ["namespaces"] and len(rest) >= 2:
        namespace = rest[1]
        if len(rest) > 2 and rest[2] not in NAMESPACE_SUBRESOURCES:
            rest = rest[2:]
    plural, name, *below = [*rest, "", "", ""][:4]
    verb = _verb(method, bool(name), watching or (not name and _asks_for_watch(query)))
    return RequestInfo(verb, path, group, version, plural, namespace, name, below[0])


def _asks_for_watch(query: Mapping[str, str]) -> bool:
    return query.get("watch", "false").lower() not in {"false", "0"}


def _verb(method: str, named: bool, watching: bool) -> str:
    if method in {"GET", "HEAD"}:
        if watching:
            return "watch"
        return "get" if named else "list"
    if method == "DELETE":
        return "delete" if named else "deletecollection"
    return _VERBS.get(method, method.lower())
