"""The nodes, pods and GPUs of the tour as API objects, and the cluster that the tour uses."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from podberth.kube.client import Client
from podberth.kube.errors import ApiError
from podberth.kube.resources import DEVICE_CLASSES, RESOURCE_CLAIMS, RESOURCE_SLICES, Resource

ZONE = "topology.kubernetes.io/zone"
HOSTNAME = "kubernetes.io/hostname"
GPU = "nvidia.com/gpu"
APP = "app"
PAUSE = "registry.k8s.io/pause:3.10"
"""The image of the story's pods, where a kubelet starts them: it does nothing, and every cluster has it already."""
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
_API_VERSION = "resource.k8s.io/v1"
_NOT_SERVED = (403, 404)
_LET_GO = msgspec.json.encode({"metadata": {"finalizers": None}})


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
    """Return a pod that asks for `cpu` milli-cores and `memory` Mi, and may use the devices of a claim.

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
    """Return an affinity term: where pods of this app are, by a node label."""
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


@dataclass(frozen=True, slots=True)
class Setting:
    """The place of the story. `prefix` starts the names of its nodes; `scale` divides what its pods ask for.

    `own_nodes`, `own_server`: nodes, or the API server itself, are there for the story only.
    """

    namespace: str
    scheduler: str
    prefix: str = ""
    own_nodes: bool = True
    own_server: bool = False
    scale: int = 1

    @property
    def packer(self) -> str:
        """Return the schedulerName of the second profile, which packs."""
        return f"{self.scheduler}-packed"

    @property
    def profiles(self) -> tuple[str, str]:
        """Return the schedulerNames of the two profiles."""
        return self.scheduler, self.packer

    @property
    def shown_labels(self) -> Sequence[str]:
        """Node labels that the picture names."""
        return (DISK,) if self.own_nodes else ()

    def full(self, node: str) -> str:
        """Return a node's name in the API."""
        return f"{self.prefix}{node}"

    def short(self, node: str) -> str:
        """Return a node's name in the story."""
        return node.removeprefix(self.prefix)


def nodes(setting: Setting) -> list[Object]:
    """Nine workers of four sizes and two GPU machines in three zones."""
    ssd, hdd = {DISK: "ssd"}, {DISK: "hdd"}
    big = {TRAINER_IMAGE: 6 << 30}
    rows = [
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
    for row in rows:
        name = setting.full(row["metadata"]["name"])
        row["metadata"]["name"] = row["metadata"]["labels"]["kubernetes.io/hostname"] = name
    return rows


def others(setting: Setting, *, devices: bool) -> list[Object]:
    """Return pods that the default scheduler has placed already: they take room and are nobody's business.

    `devices`: whether the cluster has some, one of which has a user.

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
            claim=f"{name}-gpu" if name == HOLDER[0] and devices else None,
            nodeName=setting.full(where),
            tolerations=[{"key": GPU, "operator": "Exists"}] if where in DEVICES else [],
        )
        for name, where, cpu, memory in rows
    ]


def class_name(setting: Setting) -> str:
    """Return the DeviceClass of the story's devices."""
    return setting.full("gpu")


def claim(setting: Setting, name: str, *selectors: str) -> Object:
    """Return a claim for one device that meets CEL expressions."""
    asked: Object = {"deviceClassName": class_name(setting)}
    if selectors:
        asked["selectors"] = [{"cel": {"expression": each}} for each in selectors]
    spec = {"devices": {"requests": [{"name": "gpu", "exactly": asked}]}}
    return _object(RESOURCE_CLAIMS, name, spec, namespace=setting.namespace)


def larger_than(amount: str) -> str:
    """Selects devices with at least so much memory."""
    return f'device.capacity["{DRIVER}"].memory.compareTo(quantity("{amount}")) >= 0'


async def publish(client: Client, setting: Setting) -> bool:
    """Create the class and the slices, and the claim of the pod that has a device already.

    False where the API server does not serve devices, or does not let us create them.
    """
    driver = {"selectors": [{"cel": {"expression": f'device.driver == "{DRIVER}"'}}]}
    try:
        await _create(client, DEVICE_CLASSES, _object(DEVICE_CLASSES, class_name(setting), driver))
    except ApiError as error:
        if error.status in _NOT_SERVED:
            return False
        raise
    for each in _slices(setting):
        await _create(client, RESOURCE_SLICES, each)
    pod, node, device = HOLDER
    await _create(client, RESOURCE_CLAIMS, claim(setting, f"{pod}-gpu"), setting.namespace)
    result = {"request": "gpu", "driver": DRIVER, "pool": setting.full(node), "device": device}
    status = {"status": {"allocation": {"devices": {"results": [result]}}}}
    path = RESOURCE_CLAIMS.path(setting.namespace, f"{pod}-gpu", "status")
    await client.patch(path, msgspec.json.encode(status))
    return True


async def given(client: Client, setting: Setting, name: str) -> list[str]:
    """Return the devices that a claim of ours has, as node/device."""
    found = msgspec.json.decode(await client.get(RESOURCE_CLAIMS.path(setting.namespace, name)))
    results = found["status"]["allocation"]["devices"]["results"]
    return [f"{setting.short(each['pool'])}/{each['device']}" for each in results]


def left(setting: Setting) -> Iterator[tuple[str, str]]:
    """(path, what it is) of everything that does not go with the namespace."""
    for each in _slices(setting):
        yield RESOURCE_SLICES.path(name=each["metadata"]["name"]), f"resourceslice {each['metadata']['name']}"
    yield DEVICE_CLASSES.path(name=class_name(setting)), f"deviceclass {class_name(setting)}"


async def let_claims_go(client: Client, setting: Setting) -> None:
    """Delete the claims, and the finalizer that keeps them there: their pods are gone, and no driver holds anything."""
    path = RESOURCE_CLAIMS.path(setting.namespace)
    for item in msgspec.json.decode(await client.get(path))["items"]:
        one = f"{path}/{item['metadata']['name']}"
        await client.patch(one, _LET_GO)
        await client.delete(one)


def _slices(setting: Setting) -> Iterator[Object]:
    for node, devices in DEVICES.items():
        name = setting.full(node)
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
