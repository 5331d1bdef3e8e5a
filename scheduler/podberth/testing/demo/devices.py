"""The GPUs of the story: the slices that a driver would publish, a class, and claims for them."""

from collections.abc import Iterator, Mapping

import msgspec

from podberth.kube.client import Client
from podberth.kube.errors import ApiError
from podberth.kube.resources import DEVICE_CLASSES, RESOURCE_CLAIMS, RESOURCE_SLICES, Resource
from podberth.testing.demo.cast import DEVICES, HOLDER, Setting
from podberth.testing.demo.objects import Object

DRIVER = "gpu.podberth.dev"
_API_VERSION = "resource.k8s.io/v1"
_NOT_SERVED = (403, 404)
_LET_GO = msgspec.json.encode({"metadata": {"finalizers": None}})


def class_name(setting: Setting) -> str:
    """The DeviceClass of the story's devices."""
    return setting.full("gpu")


def claim(setting: Setting, name: str, *selectors: str) -> Object:
    """A claim for one device that meets CEL expressions."""
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
    """The devices that a claim of ours has, as node/device."""
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
