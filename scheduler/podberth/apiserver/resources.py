"""The table of served resources: everything else in this room reads what a kind can do from here.

Facts upstream: pkg/registry/*/strategy.go (unconditional update, create on update, generation), storage.go
(ReturnDeletedObject) and pkg/apis/*/conversion.go (field labels).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

import msgspec

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
    short: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    status: bool = False
    keeps_status_on_create: bool = False
    generation: bool = False
    unconditional: bool = True
    create_on_update: bool = False
    returns_deleted: bool = False
    custom: bool = False
    view: str = ""
    storage: str = ""
    singular: str = ""
    list_kind: str = ""
    dropped: tuple[str, ...] = ()
    """Fields of the spec that are not kept, as their feature gates are off."""
    fields: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    schema: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def api_version(self) -> str:
        """`v1` or `apps/v1`."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @cached_property
    def prefix(self) -> bytes:
        """Return how the JSON of an object in this version begins, before its metadata."""
        return b'{"kind":%s,"apiVersion":%s,' % (
            msgspec.json.encode(self.kind),
            msgspec.json.encode(self.api_version),
        )

    @cached_property
    def item_prefix(self) -> bytes:
        """Return how the JSON of an object begins inside a list: built-in kinds leave kind and apiVersion out there."""
        return self.prefix if self.custom else b"{"

    @cached_property
    def collection(self) -> str:
        """Return where the objects are kept; two served versions may share one place."""
        return self.storage or (f"{self.plural}.{self.group}" if self.group else self.plural)

    @cached_property
    def listed_as(self) -> str:
        """The kind of a list of these."""
        return self.list_kind or f"{self.kind}List"

    @cached_property
    def selectable(self) -> Mapping[str, tuple[str, ...]]:
        """Field labels this resource can be selected by, with their paths."""
        return {**META_FIELDS, **self.fields}

    def is_a(self, kind: str) -> bool:
        """Return whether it is this kind of Kubernetes' own, and not a custom one of the same name."""
        return self.kind == kind and not self.custom

    def key(self, namespace: str, name: str) -> str:
        """The object's key; ordered as etcd orders it."""
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


_ALL: dict[str, Any] = {"categories": ("all",)}
_WORKLOAD: dict[str, Any] = {**_ALL, "status": True, "generation": True}
_core = partial(Resource, "", "v1")
_storage = partial(Resource, "storage.k8s.io", "v1")
_devices = partial(Resource, "resource.k8s.io", "v1")
_hooks = partial(
    Resource,
    "admissionregistration.k8s.io",
    "v1",
    namespaced=False,
    generation=True,
    unconditional=False,
    categories=("api-extensions",),
)
_rbac = partial(Resource, "rbac.authorization.k8s.io", "v1", create_on_update=True)
_RETURNED: dict[str, Any] = {"returns_deleted": True}
BUILT_IN: tuple[Resource, ...] = (
    _core("namespaces", "Namespace", False, short=("ns",), status=True, fields=_paths("status.phase"), **_RETURNED),
    _core(
        "nodes",
        "Node",
        False,
        short=("no",),
        status=True,
        keeps_status_on_create=True,
        fields=_paths("spec.unschedulable"),
    ),
    _core("pods", "Pod", True, short=("po",), fields=POD_FIELDS, **_WORKLOAD, **_RETURNED),
    _core("services", "Service", True, short=("svc",), status=True, **_ALL, **_RETURNED),
    _core(
        "replicationcontrollers",
        "ReplicationController",
        True,
        short=("rc",),
        fields=_paths("status.replicas"),
        **_WORKLOAD,
    ),
    _core("events", "Event", True, short=("ev",), create_on_update=True, fields=EVENT_FIELDS),
    _core("persistentvolumes", "PersistentVolume", False, short=("pv",), status=True, **_RETURNED),
    _core("persistentvolumeclaims", "PersistentVolumeClaim", True, short=("pvc",), status=True, **_RETURNED),
    _core("configmaps", "ConfigMap", True, short=("cm",)),
    _core("secrets", "Secret", True, fields=_paths("type")),
    _core("serviceaccounts", "ServiceAccount", True, short=("sa",), **_RETURNED),
    _core("resourcequotas", "ResourceQuota", True, short=("quota",), status=True, **_RETURNED),
    _core("limitranges", "LimitRange", True, short=("limits",), create_on_update=True),
    _core("endpoints", "Endpoints", True, short=("ep",), create_on_update=True),
    *(
        Resource("apps", "v1", f"{kind.lower()}s", kind, True, short=(short,), **_WORKLOAD)
        for kind, short in (("Deployment", "deploy"), ("ReplicaSet", "rs"), ("StatefulSet", "sts"), ("DaemonSet", "ds"))
    ),
    Resource(
        "policy",
        "v1",
        "poddisruptionbudgets",
        "PodDisruptionBudget",
        True,
        short=("pdb",),
        status=True,
        generation=True,
        unconditional=False,
    ),
    _storage("storageclasses", "StorageClass", False, short=("sc",), **_RETURNED),
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
        short=("ev",),
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
        short=("crd", "crds"),
        categories=("api-extensions",),
        status=True,
        generation=True,
        unconditional=False,
    ),
    Resource("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", False, short=("pc",), generation=True),
    Resource("node.k8s.io", "v1", "runtimeclasses", "RuntimeClass", False, create_on_update=True),
    _rbac("roles", "Role", True),
    _rbac("rolebindings", "RoleBinding", True),
    _rbac("clusterroles", "ClusterRole", False),
    _rbac("clusterrolebindings", "ClusterRoleBinding", False),
)
_BY_PLURAL = {resource.plural: resource for resource in reversed(BUILT_IN)}
"""Where two kinds share a plural: the first of the table."""


class Registry:
    """The resources that are served right now: the built-in table, and what stored CRDs add to it."""

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
        """The resource at a path."""
        return self._by_group.get((group, version), {}).get(plural)

    def built_in(self, plural: str) -> Resource:
        """A resource of the fixed table, by its plural (core events for `events`)."""
        return _BY_PLURAL[plural]

    def in_group(self, group: str, version: str) -> list[Resource]:
        return list(self._by_group.get((group, version), {}).values())

    def group_versions(self) -> dict[str, list[str]]:
        """The named groups with their versions, in order of appearance."""
        groups: dict[str, list[str]] = {}
        for group, version in self._by_group:
            if group:
                groups.setdefault(group, []).append(version)
        return groups

    def __iter__(self) -> Iterator[Resource]:
        for served in self._by_group.values():
            yield from served.values()
