"""The table of served resources: everything else in this room reads what a kind can do from here.

Facts upstream: pkg/registry/*/strategy.go (unconditional update, create on update, generation), storage.go
(ReturnDeletedObject) and pkg/apis/*/conversion.go (field labels).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
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
        """How the JSON of an object in this version begins, before its metadata."""
        return b'{"kind":%s,"apiVersion":%s,' % (
            msgspec.json.encode(self.kind),
            msgspec.json.encode(self.api_version),
        )

    @cached_property
    def item_prefix(self) -> bytes:
        """The same inside a list: built-in kinds leave kind and apiVersion out there."""
        return self.prefix if self.custom else b"{"

    @cached_property
    def collection(self) -> str:
        """Where the objects are kept; two served versions may share one place."""
        return self.storage or (f"{self.plural}.{self.group}" if self.group else self.plural)

    @cached_property
    def listed_as(self) -> str:
        """The kind of a list of these."""
        return self.list_kind or f"{self.kind}List"

    @cached_property
    def selectable(self) -> Mapping[str, tuple[str, ...]]:
        """Field labels this resource can be selected by, with their paths."""
        return {**META_FIELDS, **self.fields}

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


def _core() -> Iterator[Resource]:
    def core(plural: str, kind: str, namespaced: bool = True, **more: Any) -> Resource:
        return Resource("", "v1", plural, kind, namespaced, **more)

    yield core(
        "namespaces",
        "Namespace",
        False,
        short=("ns",),
        status=True,
        returns_deleted=True,
        fields=_paths("status.phase"),
    )
    yield core(
        "nodes",
        "Node",
        False,
        short=("no",),
        status=True,
        keeps_status_on_create=True,
        fields=_paths("spec.unschedulable"),
    )
    yield core(
        "pods",
        "Pod",
        short=("po",),
        categories=("all",),
        status=True,
        generation=True,
        returns_deleted=True,
        fields=POD_FIELDS,
    )
    yield core("services", "Service", short=("svc",), categories=("all",), status=True, returns_deleted=True)
    yield core(
        "replicationcontrollers",
        "ReplicationController",
        short=("rc",),
        categories=("all",),
        status=True,
        generation=True,
        fields=_paths("status.replicas"),
    )
    yield core("events", "Event", short=("ev",), create_on_update=True, fields=EVENT_FIELDS)
    yield core("persistentvolumes", "PersistentVolume", False, short=("pv",), status=True, returns_deleted=True)
    yield core("persistentvolumeclaims", "PersistentVolumeClaim", short=("pvc",), status=True, returns_deleted=True)
    yield core("configmaps", "ConfigMap", short=("cm",))
    yield core("secrets", "Secret", fields=_paths("type"))
    yield core("serviceaccounts", "ServiceAccount", short=("sa",), returns_deleted=True)
    yield core("resourcequotas", "ResourceQuota", short=("quota",), status=True, returns_deleted=True)
    yield core("limitranges", "LimitRange", short=("limits",), create_on_update=True)
    yield core("endpoints", "Endpoints", short=("ep",), create_on_update=True)


def _groups() -> Iterator[Resource]:
    workload: dict[str, Any] = {"categories": ("all",), "status": True, "generation": True}
    yield Resource("apps", "v1", "deployments", "Deployment", True, short=("deploy",), **workload)
    yield Resource("apps", "v1", "replicasets", "ReplicaSet", True, short=("rs",), **workload)
    yield Resource("apps", "v1", "statefulsets", "StatefulSet", True, short=("sts",), **workload)
    yield Resource("apps", "v1", "daemonsets", "DaemonSet", True, short=("ds",), **workload)
    yield Resource(
        "policy",
        "v1",
        "poddisruptionbudgets",
        "PodDisruptionBudget",
        True,
        short=("pdb",),
        status=True,
        generation=True,
        unconditional=False,
    )
    storage: dict[str, Any] = {"group": "storage.k8s.io", "version": "v1"}
    yield Resource(
        plural="storageclasses", kind="StorageClass", namespaced=False, short=("sc",), returns_deleted=True, **storage
    )
    yield Resource(
        plural="csinodes",
        kind="CSINode",
        namespaced=False,
        unconditional=False,
        returns_deleted=True,
        **storage,
    )
    yield Resource(
        plural="csidrivers", kind="CSIDriver", namespaced=False, unconditional=False, returns_deleted=True, **storage
    )
    yield Resource(
        plural="csistoragecapacities", kind="CSIStorageCapacity", namespaced=True, unconditional=False, **storage
    )
    yield Resource(
        plural="volumeattachments",
        kind="VolumeAttachment",
        namespaced=False,
        status=True,
        unconditional=False,
        returns_deleted=True,
        **storage,
    )
    devices: dict[str, Any] = {"group": "resource.k8s.io", "version": "v1"}
    returned: dict[str, Any] = {"returns_deleted": True, **devices}
    yield Resource(plural="deviceclasses", kind="DeviceClass", namespaced=False, generation=True, **returned)
    yield Resource(plural="resourceclaims", kind="ResourceClaim", namespaced=True, status=True, **returned)
    yield Resource(plural="resourceclaimtemplates", kind="ResourceClaimTemplate", namespaced=True, **returned)
    yield Resource(
        plural="resourceslices",
        kind="ResourceSlice",
        namespaced=False,
        generation=True,
        fields=_paths("spec.nodeName", "spec.driver", "spec.pool.name"),
        **returned,
    )
    yield Resource(
        plural="devicetaintrules",
        kind="DeviceTaintRule",
        namespaced=False,
        status=True,
        generation=True,
        unconditional=False,
        **devices,
    )
    yield Resource("coordination.k8s.io", "v1", "leases", "Lease", True, unconditional=False, create_on_update=True)
    yield Resource(
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
    )
    hooks: dict[str, Any] = {
        "group": "admissionregistration.k8s.io",
        "version": "v1",
        "namespaced": False,
        "generation": True,
    }
    for plural, kind in (
        ("mutatingwebhookconfigurations", "MutatingWebhookConfiguration"),
        ("validatingwebhookconfigurations", "ValidatingWebhookConfiguration"),
    ):
        yield Resource(plural=plural, kind=kind, unconditional=False, categories=("api-extensions",), **hooks)
    yield Resource(
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
    )
    yield Resource("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", False, short=("pc",), generation=True)
    yield Resource("node.k8s.io", "v1", "runtimeclasses", "RuntimeClass", False, create_on_update=True)
    rbac: dict[str, Any] = {"group": "rbac.authorization.k8s.io", "version": "v1", "create_on_update": True}
    yield Resource(plural="roles", kind="Role", namespaced=True, **rbac)
    yield Resource(plural="rolebindings", kind="RoleBinding", namespaced=True, **rbac)
    yield Resource(plural="clusterroles", kind="ClusterRole", namespaced=False, **rbac)
    yield Resource(plural="clusterrolebindings", kind="ClusterRoleBinding", namespaced=False, **rbac)


BUILT_IN: tuple[Resource, ...] = (*_core(), *_groups())


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
        """Whether anything of a group is served."""
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
