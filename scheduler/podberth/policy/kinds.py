"""The kinds of Kubernetes itself, 1.33 to 1.37, by group: those that `appliesTo` may name, and those in no namespace.

Facts: k8s.io/api v0.37.0 (`+genclient`), apart from what can only be asked, as reviews. A group without a dot is always
Kubernetes' own, because a CRD's must have one (apiextensions `ValidateCustomResourceDefinition`), so a kind that is not
here in one of these, or in another of these groups, is a mistake. Kinds of other groups only a cluster knows.
"""

import re

from podberth.model.mistakes import nearest

CORE = (
    "ConfigMap",
    "Endpoints",
    "LimitRange",
    "PersistentVolumeClaim",
    "Pod",
    "PodTemplate",
    "ReplicationController",
    "ResourceQuota",
    "Secret",
    "Service",
    "ServiceAccount",
)
"""The kinds of a namespace that have no group, and that policies may apply to. No CRD can add to them."""
_NAMESPACED = {
    "apps": ("ControllerRevision", "DaemonSet", "Deployment", "ReplicaSet", "StatefulSet"),
    "autoscaling": ("HorizontalPodAutoscaler",),
    "batch": ("CronJob", "Job"),
    "certificates.k8s.io": ("PodCertificateRequest",),
    "coordination.k8s.io": ("Lease", "LeaseCandidate"),
    "discovery.k8s.io": ("EndpointSlice",),
    "events.k8s.io": ("Event",),
    "extensions": (),
    "lifecycle.k8s.io": ("Eviction", "EvictionRequest"),
    "networking.k8s.io": ("Ingress", "NetworkPolicy"),
    "policy": ("PodDisruptionBudget",),
    "rbac.authorization.k8s.io": ("Role", "RoleBinding"),
    "resource.k8s.io": ("ResourceClaim", "ResourceClaimTemplate"),
    "scheduling.k8s.io": ("CompositePodGroup", "PodGroup", "Workload"),
    "storage.k8s.io": ("CSIStorageCapacity",),
}
_CLUSTER_SCOPED = {
    "": ("ComponentStatus", "Namespace", "Node", "PersistentVolume"),
    "admissionregistration.k8s.io": (
        "MutatingAdmissionPolicy",
        "MutatingAdmissionPolicyBinding",
        "MutatingWebhookConfiguration",
        "ValidatingAdmissionPolicy",
        "ValidatingAdmissionPolicyBinding",
        "ValidatingWebhookConfiguration",
    ),
    "apiextensions.k8s.io": ("CustomResourceDefinition",),
    "apiregistration.k8s.io": ("APIService",),
    "certificates.k8s.io": ("CertificateSigningRequest", "ClusterTrustBundle"),
    "flowcontrol.apiserver.k8s.io": ("FlowSchema", "PriorityLevelConfiguration"),
    "internal.apiserver.k8s.io": ("StorageVersion",),
    "networking.k8s.io": ("IPAddress", "IngressClass", "ServiceCIDR"),
    "node.k8s.io": ("RuntimeClass",),
    "rbac.authorization.k8s.io": ("ClusterRole", "ClusterRoleBinding"),
    "resource.k8s.io": ("DeviceClass", "DeviceTaintRule", "ResourcePoolStatusRequest", "ResourceSlice"),
    "scheduling.k8s.io": ("PriorityClass",),
    "storage.k8s.io": ("CSIDriver", "CSINode", "StorageClass", "VolumeAttachment", "VolumeAttributesClass"),
    "storagemigration.k8s.io": ("StorageVersionMigration",),
}
_VERSION = re.compile(r"v[1-9][0-9]*((alpha|beta)[1-9][0-9]*)?")


def called(group: str, kind: str) -> str:
    """Return a kind as policies name it: `Pod`, `Deployment.apps` (GroupKind.String() of apimachinery)."""
    return f"{kind}.{group}" if group else kind


def split(name: str) -> tuple[str, str]:
    """Return group and kind of a name as `called` makes it."""
    kind, _, group = name.partition(".")
    return group, kind


NAMESPACED = frozenset((*CORE, *(called(group, kind) for group, kinds in _NAMESPACED.items() for kind in kinds)))
CLUSTER_SCOPED = frozenset(called(group, kind) for group, kinds in _CLUSTER_SCOPED.items() for kind in kinds)
_GROUPS = _NAMESPACED.keys() | _CLUSTER_SCOPED.keys()
_ELSEWHERE = frozenset(split(name)[1] for name in CLUSTER_SCOPED)
_BY_KIND = {split(name)[1]: name for name in sorted(NAMESPACED)}


def is_cluster_scoped(group: str, kind: str) -> bool:
    """Return whether it is a kind of Kubernetes' own that is in no namespace."""
    return called(group, kind) in CLUSTER_SCOPED


def mistake(name: str) -> str | None:
    """Return the reason for which no API server can have objects of this kind in a namespace, and the kind that was
    probably meant; None: it may have them.
    """
    group, kind = split(name)
    if name in NAMESPACED:
        return None
    first, _, rest = group.partition(".")
    if _VERSION.fullmatch(first) and rest:
        return f"it names a version, which does not count: did you mean {kind}.{rest}?"
    if "." in group and group not in _GROUPS:
        return None
    if kind in _ELSEWHERE:
        return f"kind {kind} is in no namespace"
    meant = nearest(kind, list(_BY_KIND))
    hint = f"did you mean {_BY_KIND[meant]}?" if meant else "want a kind with its group, as Deployment.apps"
    return f"Kubernetes has no such kind: {hint}"
