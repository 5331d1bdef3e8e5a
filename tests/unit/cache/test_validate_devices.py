"""Each part of what is kept about devices is compared with the objects: a change behind its back is found."""

from collections.abc import Callable
from typing import Any

import pytest

from podberth.cache.cluster import Cluster
from podberth.cache.validate import validate_devices
from podberth.model import wire
from podberth.model.devices import AllocatedDevice, Allocation, DeviceID, ResourceClaim
from podberth.model.kinds import Decoder
from tests.devices import allocated, claim, device, device_class, resource_slice, result

SHARE = "aab78489-45b3-4f83-8fce-2a5fcbbb4574"
MADE = {
    "annotations": {"resource.kubernetes.io/extended-resource-claim": "true"},
    "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "q", "uid": "q", "controller": True}],
}
OTHER = Allocation((AllocatedDevice("r", DeviceID("gpu.test", "n", "s")),), None)


@pytest.fixture
def cluster() -> Cluster:
    """Something of everything."""
    made, decoder = Cluster(), Decoder()
    shared = device("s", {"m": "4"}, _allowMultipleAllocations=True)
    share = result("s", "n", shareID=SHARE, consumedCapacity={"m": "1"})
    for document in (
        device_class("gpu", extendedResourceName="e.test/gpu"),
        resource_slice("n", device("d0"), shared, node="n"),
        resource_slice("all", device("x"), allNodes=True),
        claim("c", status=allocated(result("d0", "n"), node="n", reserved=["p"])),
        claim("s", status=allocated(share, node="n", reserved=["p"])),
        claim("own", meta=MADE),
    ):
        thing: Any = decoder.of_kind(document["kind"])(wire.encode(document))
        made.put_device(thing)
    coming = Allocation((AllocatedDevice("r", DeviceID("gpu.test", "all", "x")),), None)
    made.devices.assume("\0z", coming, None, "z")
    made.devices.name("\0z", ("default", "z"))
    return made


def replaced(cluster: Cluster) -> None:
    """What a claim holds is another device."""
    cluster.devices.allocated.put("claim/c", OTHER)


def unowned(cluster: Cluster) -> None:
    """A claim was made for a pod, and is not there."""
    gone: ResourceClaim = cluster.devices.claims.pop(("default", "own"))
    assert gone.owner


CHANGES: dict[str, Callable[[Cluster], object]] = {
    "slices by pool": lambda cluster: cluster.devices.slices.pop("n"),
    "slices by node": lambda cluster: cluster.devices.slices.pop("n"),
    "slices of no node": lambda cluster: cluster.devices.slices.pop("all"),
    "claims made for pods": unowned,
    "classes by resource": lambda cluster: cluster.devices.classes.pop("gpu"),
    "resources that classes serve": lambda cluster: cluster.devices.served.add("x/y"),
    "claims that are being made": lambda cluster: cluster.devices.in_flight.clear(),
    "who holds devices": lambda cluster: cluster.devices.claims.pop(("default", "c")),
    "what they hold": replaced,
    "devices that are taken": lambda cluster: cluster.devices.claims.pop(("default", "c")),
    "shares of devices": lambda cluster: cluster.devices.claims.pop(("default", "s")),
    "what is used of shared devices": lambda cluster: cluster.devices.claims.pop(("default", "s")),
    "those that nodes know of": lambda cluster: setattr(cluster.nodes, "served", set()),
}


def test_what_is_right_is_right(cluster: Cluster) -> None:
    """Nothing differs."""
    assert list(validate_devices(cluster)) == []


@pytest.mark.parametrize("part", CHANGES)
def test_a_change_is_found(part: str, cluster: Cluster) -> None:
    """And named."""
    CHANGES[part](cluster)
    assert [line for line in validate_devices(cluster) if line.startswith(f"devices: {part} is ")]
