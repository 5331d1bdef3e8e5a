"""The nodes, pods and GPUs of the tour as API objects."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from podberth.kube.client import Client
from podberth.kube.resources import DEVICE_CLASSES, RESOURCE_CLAIMS, RESOURCE_SLICES, Resource

ZONE = "topology.kubernetes.io/zone"
HOSTNAME = "kubernetes.io/hostname"
GPU = "nvidia.com/gpu"
APP = "app"
PAUSE = "registry.k8s.io/pause:3.10"
"""The image of the story's pods."""
GATE = "podberth.dev/demo-approval"

Object = dict[str, Any]
DEFAULT_SCHEDULER = "default-scheduler"
TRAINER_IMAGE = "trainer:v7"
DISK = "disk"
REPORT_CPU = 6000
DEVICES: Mapping[str, Mapping[str, tuple[str, str]]] = {
    "gpu-a": {"gpu-0": ("A100", "40Gi"), "gpu-1": ("A100", "40Gi")},
    "gpu-b": {"gpu-0": ("L4", "24Gi"), "gpu-1": ("A100", "40Gi")},
}
"""Node → its devices, with model and memory."""
HOLDER = ("notebook-0", "gpu-a", "gpu-0")
"""The pod that has a device already, its node, and the device."""
DRIVER = "gpu.podberth.dev"
DEVICE_CLASS = "gpu"
NAMESPACE = "demo"
SCHEDULER, PACKER = PROFILES = ("berth", "berth-packed")
"""The profiles of the scheduler: one as it comes, one that packs."""
_API_VERSION = "resource.k8s.io/v1"


def namespace(name: str) -> Object:
    """Return a namespace that says whose it is."""
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
    """Return a node with `cpu` cores and `memory` Gi; one with GPUs is tainted for all who do not come for them."""
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
    """Return a pod that asks for `cpu` milli-cores and `memory` Mi, and may use the devices of a claim."""
    requests = {"cpu": f"{cpu}m", "memory": f"{memory}Mi"}
    resources: Object = {"requests": requests}
    if claim is not None:
        resources["claims"] = [{"name": "gpu"}]
        spec["resourceClaims"] = [{"name": "gpu", "resourceClaimName": claim}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {APP: name.rsplit("-", 1)[0]}},
        "spec": {
            "schedulerName": scheduler,
            "containers": [{"name": "main", "image": image, "resources": resources}],
            **spec,
        },
    }


def near(app: str, key: str) -> Object:
    """Return an affinity term: where pods of this app are, by a node label."""
    return {"labelSelector": {"matchLabels": {APP: app}}, "topologyKey": key}


def affinity(
    *,
    with_apps: Sequence[Object] = (),
    rather_with: Sequence[tuple[int, Object]] = (),
    without: Sequence[Object] = (),
    rather_without: Sequence[tuple[int, Object]] = (),
) -> Object:
    """Return pod affinity and anti-affinity of terms made by `near`, required and preferred (with weights)."""
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


def nodes() -> list[Object]:
    """Return nine workers of three sizes and two GPU machines, in three zones."""
    ssd, hdd = {DISK: "ssd"}, {DISK: "hdd"}
    big = {TRAINER_IMAGE: 6 << 30}
    return [
        node("a1", "a", 8, 32, labels=ssd),
        node("a2", "a", 4, 16, labels=hdd),
        node("a3", "a", 4, 16, labels=hdd),
        node("b1", "b", 8, 32, labels=ssd),
        node("b2", "b", 8, 32, labels=hdd),
        node("b3", "b", 4, 16, labels=hdd),
        node("c1", "c", 12, 48, labels=ssd),
        node("c2", "c", 4, 16, labels=hdd),
        node("c3", "c", 8, 32, labels=ssd, cordoned=True),
        node("gpu-a", "a", 8, 64, labels=ssd, gpus=True),
        node("gpu-b", "b", 8, 64, labels=ssd, gpus=True, images=big),
    ]


def others() -> list[Object]:
    """Return pods that the default scheduler has placed already: they take room and are nobody's business.

    They leave less than REPORT_CPU on every open node with an SSD, so the report has to wait wherever the others go.
    """
    rows = [
        ("shop-web-0", "a1", 2500, 4096),
        ("shop-db-0", "a2", 2500, 8192),
        ("metrics-0", "a3", 1000, 2048),
        ("shop-web-1", "b1", 3000, 4096),
        ("logs-0", "b2", 1000, 8192),
        ("shop-cart-0", "b3", 2000, 2048),
        ("search-0", "c1", 4000, 16384),
        ("search-1", "c1", 2500, 8192),
        ("metrics-1", "c2", 1000, 2048),
        ("backup-0", "c3", 1000, 2048),
        ("notebook-0", "gpu-a", 2000, 8192),
    ]
    return [
        pod(
            name,
            DEFAULT_SCHEDULER,
            cpu=cpu,
            memory=memory,
            claim=f"{name}-gpu" if name == HOLDER[0] else None,
            nodeName=where,
            tolerations=[{"key": GPU, "operator": "Exists"}] if where in DEVICES else [],
        )
        for name, where, cpu, memory in rows
    ]


def claim(name: str, *selectors: str) -> Object:
    """Return a claim for one device that meets CEL expressions."""
    asked: Object = {"deviceClassName": DEVICE_CLASS}
    if selectors:
        asked["selectors"] = [{"cel": {"expression": each}} for each in selectors]
    spec = {"devices": {"requests": [{"name": "gpu", "exactly": asked}]}}
    return _object(RESOURCE_CLAIMS, name, spec, namespace=NAMESPACE)


def at_least(amount: str) -> str:
    """Return an expression that selects devices with at least so much memory."""
    return f'device.capacity["{DRIVER}"].memory.compareTo(quantity("{amount}")) >= 0'


async def publish(client: Client) -> None:
    """Create the class and the slices, and the claim of the pod that has a device already."""
    driver = {"selectors": [{"cel": {"expression": f'device.driver == "{DRIVER}"'}}]}
    await _create(client, DEVICE_CLASSES, _object(DEVICE_CLASSES, DEVICE_CLASS, driver))
    for each in _slices():
        await _create(client, RESOURCE_SLICES, each)
    holder, on, device = HOLDER
    await _create(client, RESOURCE_CLAIMS, claim(f"{holder}-gpu"), NAMESPACE)
    result = {"request": "gpu", "driver": DRIVER, "pool": on, "device": device}
    status = {"status": {"allocation": {"devices": {"results": [result]}}}}
    path = RESOURCE_CLAIMS.path(NAMESPACE, f"{holder}-gpu", "status")
    await client.patch(path, msgspec.json.encode(status))


async def given(client: Client, name: str) -> list[str]:
    """Return the devices that a claim of ours has, as node/device."""
    found = msgspec.json.decode(await client.get(RESOURCE_CLAIMS.path(NAMESPACE, name)))
    results = found["status"]["allocation"]["devices"]["results"]
    return [f"{each['pool']}/{each['device']}" for each in results]


def _slices() -> Iterator[Object]:
    for name, devices in DEVICES.items():
        spec = {
            "driver": DRIVER,
            "nodeName": name,
            "pool": {"name": name, "generation": 1, "resourceSliceCount": 1},
            "devices": [
                {
                    "name": device,
                    "attributes": {"model": {"string": model}},
                    "capacity": {"memory": {"value": memory}},
                }
                for device, (model, memory) in devices.items()
            ],
        }
        yield _object(RESOURCE_SLICES, name, spec)


def _object(of: Resource, name: str, spec: Mapping[str, object], namespace: str = "") -> Object:
    metadata = {"name": name} | ({"namespace": namespace} if namespace else {})
    return {"apiVersion": _API_VERSION, "kind": of.kind, "metadata": metadata, "spec": spec}


async def _create(client: Client, of: Resource, document: Object, namespace: str | None = None) -> None:
    await client.create(of.path(namespace), msgspec.json.encode(document))
