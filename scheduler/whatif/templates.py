"""Where in an object the pods are that it makes, how many of each, and with which claims of their own.

The workloads of Kubernetes are known by kind. In any other kind (a Rollout, a JobSet, a RayCluster) a mapping with
`spec.containers` under a field named `template`, or ending in `Template`, is a pod template; the number of its pods is
beside it.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from scheduler.whatif.documents import ObjectError

Object = Mapping[str, Any]
_TEMPLATE = ("spec", "template")
_KNOWN: dict[str, tuple[str, ...]] = {
    "Pod": (),
    "Deployment": _TEMPLATE,
    "ReplicaSet": _TEMPLATE,
    "StatefulSet": _TEMPLATE,
    "DaemonSet": _TEMPLATE,
    "Job": _TEMPLATE,
    "ReplicationController": _TEMPLATE,
    "CronJob": ("spec", "jobTemplate", "spec", "template"),
    "PodTemplate": ("template",),
}
KINDS = tuple(_KNOWN)
"""The kinds of Kubernetes that make pods."""
# fmt: off
_PODLESS = frozenset((
    "APIService", "Binding", "CSIDriver", "CSINode", "CSIStorageCapacity", "Certificate",
    "CertificateSigningRequest", "ClusterIssuer", "ClusterRole", "ClusterRoleBinding", "ConfigMap",
    "ControllerRevision", "CustomResourceDefinition", "DeviceClass", "EndpointSlice", "Endpoints", "Event",
    "Gateway", "HTTPRoute", "HorizontalPodAutoscaler", "IPAddress", "Ingress", "IngressClass", "Issuer", "Lease",
    "LimitRange", "MetadataPolicy", "MutatingWebhookConfiguration", "Namespace", "NetworkPolicy", "Node",
    "PersistentVolume", "PersistentVolumeClaim", "PodDisruptionBudget", "PodGroup", "PodMonitor", "PriorityClass",
    "PrometheusRule", "ResourceClaim", "ResourceClaimTemplate", "ResourceQuota", "ResourceSlice", "Role",
    "RoleBinding", "RuntimeClass", "Secret", "Service", "ServiceAccount", "ServiceMonitor", "StorageClass",
    "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding", "ValidatingWebhookConfiguration",
    "VolumeAttachment", "VolumeAttributesClass", "Workload",
))
# fmt: on
_DEPTH = 8
_SHOWN = 60


class Template(NamedTuple):
    """A pod template: its path, the pod, and the mapping that it stands in, which says how many there are to be.

    `times`: how often what it stands in is repeated (the jobs of a JobSet).
    """

    path: str
    pod: dict[str, Any]
    beside: Object
    times: int = 1


def templates(kind: str, found: Object) -> list[Template]:
    """The pod templates of an object, as far as they are mappings."""
    steps = _KNOWN.get(kind)
    if steps is None:
        return list(_found(found, "", _DEPTH, 1)) if kind not in _PODLESS else []
    beside: Any = found
    pod: Any = found
    for step in steps:
        beside, pod = pod, pod.get(step) if isinstance(pod, dict) else None
    return [Template(".".join(steps), pod, beside)] if isinstance(pod, dict) else []


def makes_no_pods(kind: str) -> bool:
    """Whether objects of this kind are known to make no pods."""
    return kind in _PODLESS


def path_of(kind: str) -> str:
    """Where a kind of `KINDS` has its template."""
    return ".".join(_KNOWN[kind])


def number_of_pods(kind: str, template: Template) -> int:
    """How many pods a template stands for. Raises ObjectError."""
    if kind in ("Pod", "PodTemplate"):
        return 1
    beside = template.beside
    if kind in ("Job", "CronJob"):
        if beside.get("suspend") is True:
            return 0
        parallelism, completions = _number(beside, "parallelism"), _number(beside, "completions")
        # Without completions, one pod that succeeds ends the job; parallelism of them are started.
        return 1 if parallelism is None else parallelism if completions is None else min(parallelism, completions)
    number = _number(beside, "replicas")
    if number is None:
        number = _number(beside, "parallelism")
    return template.times * (1 if number is None else number)


def _number(beside: Mapping[str, Any], field: str) -> int | None:
    number = beside.get(field)
    if number is not None and (not isinstance(number, int) or isinstance(number, bool) or number < 0):
        raise ObjectError(f"spec.{field}: {json.dumps(number)[:_SHOWN]}: expected a whole number, 0 or more")
    return number


def _found(value: Any, path: str, depth: int, times: int) -> Iterator[Template]:
    if not isinstance(value, dict) or not depth:
        return
    number = value.get("replicas")
    repeated = times * number if isinstance(number, int) and not isinstance(number, bool) and number >= 0 else times
    for name, each in value.items():
        below = f"{path}.{name}" if path else name
        if name.lower().endswith("template") and _is_pod(each):
            yield Template(below, each, value, times)
        elif isinstance(each, dict):
            yield from _found(each, below, depth - 1, repeated)
        elif isinstance(each, list):
            for i, element in enumerate(each):
                yield from _found(element, f"{below}[{i}]", depth - 1, repeated)


def _is_pod(value: Any) -> bool:
    return isinstance(value, dict) and isinstance(value.get("spec"), dict) and "containers" in value["spec"]
