"""The kinds of Kubernetes and of the projects that Berth reads, by API group: `Node` of longhorn.io is another kind.

An object is called by its kind alone where its group is among those here, else by kind and group, as kubectl does it:
`Node.longhorn.io`. So what asks for a kind by its name never gets another group's.
"""

from typing import Any

_KINDS: dict[str, tuple[str, ...]] = {
    "": (
        *("Binding", "ConfigMap", "Endpoints", "Event", "LimitRange", "Namespace", "Node", "PersistentVolume"),
        *("PersistentVolumeClaim", "Pod", "PodTemplate", "ReplicationController", "ResourceQuota", "Secret", "Service"),
        "ServiceAccount",
    ),
    "admissionregistration.k8s.io": (
        *("MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding", "MutatingWebhookConfiguration"),
        *("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding", "ValidatingWebhookConfiguration"),
    ),
    "apiextensions.k8s.io": ("CustomResourceDefinition",),
    "apiregistration.k8s.io": ("APIService",),
    "apps": ("ControllerRevision", "DaemonSet", "Deployment", "ReplicaSet", "StatefulSet"),
    "autoscaling": ("HorizontalPodAutoscaler",),
    "batch": ("CronJob", "Job"),
    "certificates.k8s.io": ("CertificateSigningRequest",),
    "coordination.k8s.io": ("Lease",),
    "discovery.k8s.io": ("EndpointSlice",),
    "events.k8s.io": ("Event",),
    "extensions": ("DaemonSet", "Deployment", "Ingress", "ReplicaSet"),
    "networking.k8s.io": ("IPAddress", "Ingress", "IngressClass", "NetworkPolicy", "ServiceCIDR"),
    "node.k8s.io": ("RuntimeClass",),
    "podberth.dev": ("MetadataPolicy",),
    "policy": ("PodDisruptionBudget",),
    "rbac.authorization.k8s.io": ("ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"),
    "resource.k8s.io": ("DeviceClass", "DeviceTaintRule", "ResourceClaim", "ResourceClaimTemplate", "ResourceSlice"),
    "scheduling.k8s.io": ("CompositePodGroup", "PodGroup", "PriorityClass", "Workload"),
    "scheduling.x-k8s.io": ("PodGroup",),
    "storage.k8s.io": (
        *("CSIDriver", "CSINode", "CSIStorageCapacity", "StorageClass", "VolumeAttachment", "VolumeAttributesClass"),
    ),
}
_GROUPS: dict[str, set[str]] = {}
for _group, _names in _KINDS.items():
    for _name in _names:
        _GROUPS.setdefault(_name, set()).add(_group)
_PODLESS_GROUPS = frozenset(
    (
        *("cert-manager.io", "cilium.io", "crd.projectcalico.org", "gateway.networking.k8s.io", "karpenter.sh"),
        *("karpenter.k8s.aws", "kueue.x-k8s.io", "longhorn.io", "management.cattle.io", "metrics.k8s.io"),
        *("monitoring.coreos.com", "networking.istio.io", "scheduling.volcano.sh", "security.istio.io"),
        *("snapshot.storage.k8s.io", "cluster.x-k8s.io", "autoscaling.k8s.io", "keda.sh"),
    )
)
"""Groups of well-known projects whose kinds make no pods, or only tell of those of others."""
_OF_PODS = frozenset(
    (
        *("CronJob", "DaemonSet", "Deployment", "Job", "Pod", "PodTemplate", "ReplicaSet", "ReplicationController"),
        "StatefulSet",
    )
)


def group_of(api_version: Any) -> str:
    """`apps` of `apps/v1`; empty for the core group, and where no version is said."""
    return api_version.rpartition("/")[0] if isinstance(api_version, str) else ""


def called(kind: str, api_version: Any) -> str:
    """Return what an object is called: its kind, with its group where that kind of Kubernetes is another one.

    A group of Kubernetes that has no such kind is a slip of the pen, which those who judge files tell.
    """
    known = _GROUPS.get(kind)
    if known is None or not isinstance(api_version, str) or not api_version:
        return kind
    group = group_of(api_version)
    return kind if group in known or group in _KINDS else f"{kind}.{group}"


def makes_no_pods(kind: str, api_version: Any = None) -> bool:
    """Return whether objects that are called so are known to make no pods."""
    return (kind in _GROUPS and kind not in _OF_PODS) or group_of(api_version) in _PODLESS_GROUPS
