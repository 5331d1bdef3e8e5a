"""The API objects of the story as plain dicts, which `play` sends to the server."""

from collections.abc import Mapping, Sequence
from typing import Any

ZONE = "topology.kubernetes.io/zone"
HOSTNAME = "kubernetes.io/hostname"
GPU = "nvidia.com/gpu"
APP = "app"
PAUSE = "registry.k8s.io/pause:3.10"
"""What the story's pods run where a kubelet starts them: nothing, and every cluster has it already."""
GATE = "podberth.dev/demo-approval"

Object = dict[str, Any]


def namespace(name: str) -> Object:
    """A namespace that says whose it is."""
    labels = {"app.kubernetes.io/managed-by": "berth-demo"}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}


def node(
    name: str,
    zone: str,
    cpu: int,
    memory: int,
    *,
    labels: Mapping[str, str] | None = None,
    gpus: bool = False,
    cordoned: bool = False,
    images: Mapping[str, int] | None = None,
) -> Object:
    """A node with `cpu` cores and `memory` Gi; one with GPUs is tainted for all who do not come for them."""
    amounts = {"cpu": str(cpu), "memory": f"{memory}Gi", "pods": "110"}
    spec: Object = {}
    if gpus:
        spec["taints"] = [{"key": GPU, "value": "present", "effect": "NoSchedule"}]
    if cordoned:
        spec["unschedulable"] = True
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {HOSTNAME: name, ZONE: zone, **(labels or {})}},
        "spec": spec,
        "status": {
            "allocatable": amounts,
            "capacity": amounts,
            "conditions": [{"type": "Ready", "status": "True", "reason": "Demo", "message": "a node of berth demo"}],
            "images": [{"names": [image], "sizeBytes": size} for image, size in (images or {}).items()],
        },
    }


def pod(
    name: str,
    scheduler: str,
    *,
    cpu: int,
    memory: int,
    claim: str | None = None,
    image: str = PAUSE,
    **spec: Any,
) -> Object:
    """A pod that asks for `cpu` milli-cores and `memory` Mi, and may use the devices of a claim.

    It meets the strictest pod security level.
    """
    requests = {"cpu": f"{cpu}m", "memory": f"{memory}Mi"}
    resources: Object = {"requests": requests}
    if claim is not None:
        resources["claims"] = [{"name": "gpu"}]
        spec["resourceClaims"] = [{"name": "gpu", "resourceClaimName": claim}]
    container = {
        "name": "main",
        "image": image,
        "resources": resources,
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {APP: name.rsplit("-", 1)[0]}},
        "spec": {
            "schedulerName": scheduler,
            "terminationGracePeriodSeconds": 0,
            "automountServiceAccountToken": False,
            "securityContext": {
                "runAsNonRoot": True,
                "runAsUser": 65535,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "containers": [container],
            **spec,
        },
    }


def near(app: str, key: str) -> Object:
    """An affinity term: where pods of this app are, by a node label."""
    return {"labelSelector": {"matchLabels": {APP: app}}, "topologyKey": key}


def affinity(
    *,
    with_apps: Sequence[Object] = (),
    rather_with: Sequence[tuple[int, Object]] = (),
    without: Sequence[Object] = (),
    rather_without: Sequence[tuple[int, Object]] = (),
) -> Object:
    """Pod affinity and anti-affinity of terms made by `near`, required and preferred (with weights)."""
    return {
        kind: {
            "requiredDuringSchedulingIgnoredDuringExecution": list(required),
            "preferredDuringSchedulingIgnoredDuringExecution": [
                {"weight": weight, "podAffinityTerm": term} for weight, term in preferred
            ],
        }
        for kind, required, preferred in (
            ("podAffinity", with_apps, rather_with),
            ("podAntiAffinity", without, rather_without),
        )
        if required or preferred
    }
