"""What was assumed for a claim that is made for a pod is that claim's once the API shows it."""

from typing import Any

import pytest

from podberth.cache.cluster import Cluster
from podberth.cache.validate import validate_devices
from podberth.model import wire
from podberth.model.devices import DeviceID
from podberth.model.kinds import Decoder
from tests.builders import Object
from tests.devices import allocated, claim, device, resource_slice, result

SHARE = "aab78489-45b3-4f83-8fce-2a5fcbbb4574"
X, S = DeviceID("gpu.test", "all", "x"), DeviceID("gpu.test", "all", "s")
SHARED = result("s", "all", shareID=SHARE, consumedCapacity={"m": "1"})


def put(cluster: Cluster, document: Object) -> Any:
    thing: Any = Decoder().of_kind(document["kind"])(wire.encode(document))
    cluster.put_device(thing)
    return thing


@pytest.fixture
def cluster() -> Cluster:
    """A pod was promised a device and a share, for a claim that is being made."""
    made = Cluster()
    shared = device("s", {"m": "4"}, _allowMultipleAllocations=True)
    put(made, resource_slice("all", device("x"), device("y"), shared, allNodes=True))
    like = put(Cluster(), claim("like", status=allocated(result("x", "all"), SHARED)))
    made.devices.assume("\0z", like.allocation, None, "z")
    made.devices.name("\0z", ("default", "z"))
    return made


def test_the_same_devices_are_no_change_for_anybody_else(cluster: Cluster) -> None:
    """No node is looked at again for it."""
    before = cluster.devices.log.version
    put(cluster, claim("z", status=allocated(result("x", "all"), SHARED)))
    assert cluster.devices.log.version == before
    devices = cluster.devices.allocated
    assert devices.claims_holding(X) == devices.claims_holding(S) == ["claim/z"]
    assert cluster.devices.in_flight == {}
    assert list(validate_devices(cluster)) == []


def test_other_devices_are_given_back(cluster: Cluster) -> None:
    """As when somebody else has written the claim."""
    put(cluster, claim("z", status=allocated(result("y", "all"))))
    devices = cluster.devices.allocated
    assert not devices.is_allocated(X)
    assert not devices.is_allocated(S)
    assert list(validate_devices(cluster)) == []


def test_a_device_that_another_claim_has_too_is_told(cluster: Cluster) -> None:
    """By the claim that is there now."""
    put(cluster, claim("rival", status=allocated(result("x", "all"))))
    cluster.devices.take_conflicts()
    put(cluster, claim("z", status=allocated(result("x", "all"), SHARED)))
    ((found, holders),) = cluster.devices.take_conflicts()
    assert found == X
    assert set(holders) == {"claim/rival", "claim/z"}
