"""Kinds and their API groups, and objects of older API versions as the API server would show them today.

Kinds of other projects that Berth reads are told apart by group: `Node` of longhorn.io is another kind.
Upstream of the conversions: pkg/apis/resource/v1beta1/conversion.go, pkg/apis/policy/v1beta1/conversion.go. Kinds that
are not in the table have the same fields in each version.
"""

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

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
"""API groups of well-known projects whose kinds make no pods, or only describe those of others."""
_OF_PODS = frozenset(
    (
        *("CronJob", "DaemonSet", "Deployment", "Job", "Pod", "PodTemplate", "ReplicaSet", "ReplicationController"),
        "StatefulSet",
    )
)


def group_of(api_version: Any) -> str:
    """Return `apps` of `apps/v1`; empty for the core group, and where no version is said."""
    return api_version.rpartition("/")[0] if isinstance(api_version, str) else ""


def called(kind: str, api_version: Any) -> str:
    """Return the kind of an object, with its API group if that is another project's and Kubernetes has a kind of that
    name.

    A group of Kubernetes that has no such kind is a slip of the pen, which those who judge files tell.
    """
    known = _GROUPS.get(kind)
    if known is None or not isinstance(api_version, str) or not api_version:
        return kind
    group = group_of(api_version)
    return kind if group in known or group in _KINDS else f"{kind}.{group}"


def makes_no_pods(kind: str, api_version: Any = None) -> bool:
    """Return whether objects of this kind are known to make no pods."""
    return (kind in _GROUPS and kind not in _OF_PODS) or group_of(api_version) in _PODLESS_GROUPS


Object = dict[str, Any]
_IN_REQUESTS = ("name", "firstAvailable")
_malformed = (msgspec.MsgspecError, AttributeError, RecursionError, TypeError, ValueError)


def upgraded(kind: str, raw: bytes | msgspec.Raw) -> bytes | msgspec.Raw:
    """Return the object in the version that is read. One that is malformed stays: its decoder says why."""
    change = _OLDER.get(kind)
    if change is None or not any(sign in bytes(raw) for sign in _SIGNS[kind]):
        return raw
    try:
        found = msgspec.json.decode(raw)
        change(found)
        return msgspec.json.encode(found)
    except _malformed:
        return raw


def _slice(found: Object) -> None:
    """Move the fields of devices out of `basic`, and make amounts objects (v1alpha3)."""
    found["apiVersion"] = "resource.k8s.io/v1"
    for device in found["spec"].get("devices") or ():
        device.update(device.pop("basic", None) or {})
        amounts = device.get("capacity") or {}
        amounts.update(
            {name: amount if isinstance(amount, dict) else {"value": amount} for name, amount in amounts.items()}
        )


def _claim(found: Object) -> None:
    found["apiVersion"] = "resource.k8s.io/v1"
    _of_requests(found["spec"])


def _template(found: Object) -> None:
    found["apiVersion"] = "resource.k8s.io/v1"
    _of_requests(found["spec"]["spec"])


def _of_requests(spec: Object) -> None:
    """Move the fields of requests into `exactly`, unless they name alternatives."""
    for request in (spec.get("devices") or {}).get("requests") or ():
        asked = {name: request.pop(name) for name in [*request] if name not in (*_IN_REQUESTS, "exactly")}
        if asked and not request.get("firstAvailable"):
            request.setdefault("exactly", asked)


def _budget(found: Object) -> None:
    """Drop an empty selector, which selected nothing then, and selects all pods in v1."""
    if found.get("apiVersion") == "policy/v1beta1":
        found["apiVersion"] = "policy/v1"
        spec = found["spec"]
        if not any((spec.get("selector") or {}).values()):
            spec.pop("selector", None)


_OLDER: Mapping[str, Callable[[Object], None]] = {
    "ResourceSlice": _slice,
    "ResourceClaim": _claim,
    "ResourceClaimTemplate": _template,
    "PodDisruptionBudget": _budget,
}
_OF_DEVICES = (b"resource.k8s.io/v1beta1", b"resource.k8s.io/v1alpha3")
_SIGNS = {
    "ResourceSlice": (*_OF_DEVICES, b'"basic"'),
    "ResourceClaim": (*_OF_DEVICES, b'"deviceClassName"'),
    "ResourceClaimTemplate": (*_OF_DEVICES, b'"deviceClassName"'),
    "PodDisruptionBudget": (b"policy/v1beta1",),
}
"""Kind → what is in the text of an object that may be older: items of a list need not name their version."""
