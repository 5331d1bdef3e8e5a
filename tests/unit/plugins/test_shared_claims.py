"""Claims that several pods of a group use: whether what one of them was promised is what the API shows."""

import pytest

from podberth.explain.objects.world import World
from podberth.model.devices import AllocatedDevice, Allocation, DeviceID, ResourceClaim
from podberth.model.quantity import parse_quantity
from podberth.plugins.dynamic_resources.reservation import ReservedClaim, is_other
from tests.devices import claim, request

RESULT = {"request": "r", "driver": "gpu.test", "pool": "a", "device": "d0", "shareID": "s"}


@pytest.mark.parametrize(
    ("promised", "stored", "other"),
    [("0.5Ki", "512", False), ("1.5Ki", "1536", False), ("2e0", "2e0", False), ("1Gi", "1Gi", False), ("1", "2", True)],
)
def test_an_amount_may_come_back_in_another_notation(promised: str, stored: str, other: bool) -> None:
    """What counts is how much it is."""
    document = claim("c", request("r"))
    document["status"] = {"allocation": {"devices": {"results": [{**RESULT, "consumedCapacity": {"m": stored}}]}}}
    there = World().decode(document)
    assert isinstance(there, ResourceClaim)
    device = AllocatedDevice(
        request="r",
        id=DeviceID("gpu.test", "a", "d0"),
        admin_access=False,
        share="s",
        consumed={"m": parse_quantity(promised)},
        binding_conditions=(),
        binding_failure_conditions=(),
    )
    one = ReservedClaim(there.key, there.uid, Allocation((device,), None), {}, shared=True)
    assert is_other(one, there) is other
