"""The kinds a scheduler watches or writes, and where they live on the server.

One row a kind; `Resource.path` is the only place where an API path is put together.
"""

from __future__ import annotations

import re
from urllib.parse import quote

from msgspec import Struct
from msgspec.structs import force_setattr

_PLAIN = re.compile(r"[A-Za-z0-9._~:-]*").fullmatch


class Resource(Struct, frozen=True):
    """A kind has a place in the API: `group` is empty for the core group."""

    group: str
    version: str
    plural: str
    namespaced: bool
    kind: str
    called: str = ""
    """Berth's name of the kind, which no two resources share: the kind, if no other API group has one of that name."""
    api_version: str = ""
    """`v1`, `apps/v1`, …"""
    root: str = ""
    """`/api/v1`, `/apis/apps/v1`, …"""

    def __post_init__(self) -> None:
        version = f"{self.group}/{self.version}" if self.group else self.version
        force_setattr(self, "called", self.called or self.kind)
        force_setattr(self, "api_version", version)
        force_setattr(self, "root", f"/apis/{version}" if self.group else f"/api/{version}")

    def path(self, namespace: str | None = None, name: str | None = None, subresource: str | None = None) -> str:
        """Return the URL path of the collection (no name), an object, or its subresource; parts are percent-encoded.

        Raises ValueError for a namespace on a cluster-scoped kind, or an object of a namespaced one without it.
        """
        if namespace is not None and not self.namespaced:
            raise ValueError(f"{self.plural} have no namespace")
        if name is not None and namespace is None and self.namespaced:
            raise ValueError(f"one of the {self.plural} is named without its namespace")
        path = self.root if namespace is None else f"{self.root}/namespaces/{_quoted(namespace)}"
        path = f"{path}/{self.plural}"
        if name is not None:
            path = f"{path}/{_quoted(name)}"
        return path if subresource is None else f"{path}/{subresource}"


def _quoted(part: str) -> str:
    """Return a part of a path, quoted where it has to be: most names are plain, and looking is five times as fast.

    RBAC names hold colons, which a path may, too.
    """
    return part if _PLAIN(part) else quote(part, safe=":")


NODES = Resource("", "v1", "nodes", False, "Node")
PODS = Resource("", "v1", "pods", True, "Pod")
NAMESPACES = Resource("", "v1", "namespaces", False, "Namespace")
SERVICES = Resource("", "v1", "services", True, "Service")
REPLICATION_CONTROLLERS = Resource("", "v1", "replicationcontrollers", True, "ReplicationController")
REPLICA_SETS = Resource("apps", "v1", "replicasets", True, "ReplicaSet")
STATEFUL_SETS = Resource("apps", "v1", "statefulsets", True, "StatefulSet")
DAEMON_SETS = Resource("apps", "v1", "daemonsets", True, "DaemonSet")
DEPLOYMENTS = Resource("apps", "v1", "deployments", True, "Deployment")
JOBS = Resource("batch", "v1", "jobs", True, "Job")
POD_DISRUPTION_BUDGETS = Resource("policy", "v1", "poddisruptionbudgets", True, "PodDisruptionBudget")
PERSISTENT_VOLUMES = Resource("", "v1", "persistentvolumes", False, "PersistentVolume")
PERSISTENT_VOLUME_CLAIMS = Resource("", "v1", "persistentvolumeclaims", True, "PersistentVolumeClaim")
STORAGE_CLASSES = Resource("storage.k8s.io", "v1", "storageclasses", False, "StorageClass")
CSI_NODES = Resource("storage.k8s.io", "v1", "csinodes", False, "CSINode")
CSI_DRIVERS = Resource("storage.k8s.io", "v1", "csidrivers", False, "CSIDriver")
CSI_STORAGE_CAPACITIES = Resource("storage.k8s.io", "v1", "csistoragecapacities", True, "CSIStorageCapacity")
VOLUME_ATTACHMENTS = Resource("storage.k8s.io", "v1", "volumeattachments", False, "VolumeAttachment")
RESOURCE_CLAIMS = Resource("resource.k8s.io", "v1", "resourceclaims", True, "ResourceClaim")
RESOURCE_CLAIM_TEMPLATES = Resource("resource.k8s.io", "v1", "resourceclaimtemplates", True, "ResourceClaimTemplate")
RESOURCE_SLICES = Resource("resource.k8s.io", "v1", "resourceslices", False, "ResourceSlice")
DEVICE_CLASSES = Resource("resource.k8s.io", "v1", "deviceclasses", False, "DeviceClass")
DEVICE_TAINT_RULES = Resource("resource.k8s.io", "v1", "devicetaintrules", False, "DeviceTaintRule")
POD_GROUPS = Resource("scheduling.k8s.io", "v1beta1", "podgroups", True, "PodGroup")
COSCHEDULING_POD_GROUPS = Resource(
    "scheduling.x-k8s.io", "v1alpha1", "podgroups", True, "PodGroup", "PodGroup.scheduling.x-k8s.io"
)
METADATA_POLICIES = Resource("podberth.dev", "v1alpha1", "metadatapolicies", True, "MetadataPolicy")
CONFIG_MAPS = Resource("", "v1", "configmaps", True, "ConfigMap")
EVENTS = Resource("events.k8s.io", "v1", "events", True, "Event")
LEASES = Resource("coordination.k8s.io", "v1", "leases", True, "Lease")
CLUSTER_ROLES = Resource("rbac.authorization.k8s.io", "v1", "clusterroles", False, "ClusterRole")
_ADMISSION = "admissionregistration.k8s.io", "v1"
MUTATING_WEBHOOKS = Resource(*_ADMISSION, "mutatingwebhookconfigurations", False, "MutatingWebhookConfiguration")
VALIDATING_WEBHOOKS = Resource(*_ADMISSION, "validatingwebhookconfigurations", False, "ValidatingWebhookConfiguration")
VALIDATING_POLICIES = Resource(*_ADMISSION, "validatingadmissionpolicies", False, "ValidatingAdmissionPolicy")
VALIDATING_BINDINGS = Resource(
    *_ADMISSION, "validatingadmissionpolicybindings", False, "ValidatingAdmissionPolicyBinding"
)
MUTATING_POLICIES = Resource(*_ADMISSION, "mutatingadmissionpolicies", False, "MutatingAdmissionPolicy")
MUTATING_BINDINGS = Resource(*_ADMISSION, "mutatingadmissionpolicybindings", False, "MutatingAdmissionPolicyBinding")

SCHEDULING: tuple[Resource, ...] = (
    NODES,
    PODS,
    NAMESPACES,
    SERVICES,
    REPLICATION_CONTROLLERS,
    REPLICA_SETS,
    STATEFUL_SETS,
    POD_DISRUPTION_BUDGETS,
    PERSISTENT_VOLUMES,
    PERSISTENT_VOLUME_CLAIMS,
    STORAGE_CLASSES,
    CSI_NODES,
    CSI_DRIVERS,
    CSI_STORAGE_CAPACITIES,
    VOLUME_ATTACHMENTS,
)
"""Kinds that decisions are made from."""
DEVICES: tuple[Resource, ...] = (RESOURCE_CLAIMS, RESOURCE_SLICES, DEVICE_CLASSES, DEVICE_TAINT_RULES)
"""Kinds that decisions about devices are made from. A cluster may not have them, and need not let anybody read them."""
GROUPS: tuple[Resource, ...] = (POD_GROUPS, COSCHEDULING_POD_GROUPS)
"""Kinds that decisions about pod groups are made from: Kubernetes' own, off by default in its API server, and those of
scheduler-plugins. A cluster may not have them either."""
WATCHED: tuple[Resource, ...] = (*SCHEDULING, *DEVICES, *GROUPS, METADATA_POLICIES)
OWNERS: dict[tuple[str, str], Resource] = {
    (resource.group, resource.kind): resource
    for resource in (REPLICATION_CONTROLLERS, REPLICA_SETS, STATEFUL_SETS, DAEMON_SETS, DEPLOYMENTS, JOBS)
}
"""Controllers that find their objects by labels, by API group and kind."""
BY_KIND: dict[str, Resource] = {resource.called: resource for resource in WATCHED}
