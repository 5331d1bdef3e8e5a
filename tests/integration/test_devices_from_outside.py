"""Claims and slices that others change while pods wait for them: Berth and kube-scheduler make the same of it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.controlplane.api import Object
from tests.controlplane.wait import wait_for
from tests.devices import allocated, device, result
from tests.integration import checks
from tests.integration.devices import ROOT, Devices, claiming
from tests.integration.sides import WHOSE, Sides, sides

__all__ = ["sides"]

pytestmark = pytest.mark.newest
MOST = 256
"""So many pods may share a claim."""


@pytest.fixture
def devices(sides: Sides) -> Iterator[Devices]:
    """A driver and its class, no device yet."""
    made = Devices(sides.cluster, sides.namespace)
    made.make_class()
    yield made
    sides.end()
    made.close()


def grant(devices: Devices, whose: str, name: str, at: str, *reserved: str) -> None:
    """Give a claim the device of a node, as another scheduler would."""
    node = f"{whose}-{at}"
    given = allocated(result("d", node, driver=devices.driver), node=node, reserved=reserved)
    # kube-scheduler would try to add the time, which the API server refuses.
    given["allocation"]["allocationTimestamp"] = "2026-01-01T00:00:00Z"
    set_status(devices, whose, name, given)


def set_status(devices: Devices, whose: str, name: str, status: Object) -> None:
    """Write a claim's status."""
    devices.api.patch(f"{ROOT}/namespaces/{devices.namespace}/resourceclaims/{whose}-{name}/status", {"status": status})


def add(sides: Sides, devices: Devices, name: str, of: str = "all", cpu: str = "100m", claim: str = "") -> None:
    """A pod with a claim, of its own name if there is no other."""
    for whose in WHOSE:
        put(sides, devices, whose, name, of, cpu, claim)


def put(
    sides: Sides, devices: Devices, whose: str, name: str, of: str = "all", cpu: str = "100m", claim: str = ""
) -> None:
    """The same on one side."""
    if not claim:
        devices.make_claim(f"{whose}-{name}")
    sides.put(whose, name, of, cpu=cpu, resourceClaims=claiming(f"{whose}-{claim or name}"))


def slices(sides: Sides, devices: Devices, *nodes: str) -> None:
    """One device on each of these nodes."""
    for name in (f"{whose}-{at}" for whose in WHOSE for at in nodes):
        devices.make_slice(name, device("d"))


def users(devices: Devices, whose: str, name: str) -> list[str]:
    """The UIDs for which a claim is reserved."""
    (found,) = [one for one in devices.claims() if one["metadata"]["name"] == f"{whose}-{name}"]
    return [user["uid"] for user in found["status"].get("reservedFor", [])]


def test_slices_come_and_go(sides: Sides, devices: Devices) -> None:
    """A pod waits until its device has a slice; the next one, when that has gone, until it is back.

    A scheduler may be told of a pod before it is told that a slice has gone. The pod that it then binds is made anew.
    """
    sides.node("a")
    sides.start()
    add(sides, devices, "first")
    sides.waits("first", "cannot allocate all claims")
    slices(sides, devices, "a")
    sides.ends({"first": "a"})
    for whose in WHOSE:
        devices.free(f"{whose}-first")
        devices.take_slice(f"{whose}-a")
        put(sides, devices, whose, "second")

        def waits(whose: str = whose) -> bool:
            found = sides.get(whose, "second")
            if checks.node_of(found):
                devices.free(f"{whose}-second")
                put(sides, devices, whose, "second")
            return bool(checks.condition(found).get("status") == "False")

        wait_for(f"{whose} to see that the slice has gone", waits, checks.BOUND)
    sides.waits("second", "cannot allocate all claims")
    slices(sides, devices, "a")
    sides.ends({"second": "a"})


def test_somebody_else_allocates(sides: Sides, devices: Devices) -> None:
    """While a pod waits for a device, its claim is given one, or the claim that has it is freed."""
    for of in ("given", "taken"):
        sides.node(of, of=of)
    slices(sides, devices, "taken")
    for whose in WHOSE:
        devices.make_claim(f"{whose}-other")
        grant(devices, whose, "other", "taken")
    sides.start()
    for name in ("given", "taken"):
        add(sides, devices, name, of=name)
        sides.waits(name, "cannot allocate all claims")
    for whose in WHOSE:
        grant(devices, whose, "given", "given")
        set_status(devices, whose, "other", {"allocation": None})
    sides.ends({"given": "given", "taken": "taken"})
    for whose in WHOSE:
        for name in ("given", "taken"):
            assert users(devices, whose, name) == [sides.get(whose, name)["metadata"]["uid"]]


def test_a_claim_is_freed(sides: Sides, devices: Devices) -> None:
    """A claim that is held on a full node for somebody else keeps its pod there, until it is freed from outside."""
    for at in "ab":
        sides.node(at, cpu="1")
    slices(sides, devices, "a", "b")
    sides.pod("there", on="a", cpu="1")
    for whose in WHOSE:
        devices.make_claim(f"{whose}-held")
        grant(devices, whose, "held", "a", "a-pod-that-has-ended")
    sides.start()
    add(sides, devices, "asks", cpu="500m", claim="held")
    sides.waits("asks", "1 Insufficient cpu")
    for whose in WHOSE:
        set_status(devices, whose, "held", {"allocation": None, "reservedFor": None})
    sides.ends({"asks": "b"})
    assert devices.misplaced() == []


def test_a_claim_with_all_the_pods_that_it_may_have(sides: Sides, devices: Devices) -> None:
    """One more has to wait until another one has gone."""
    sides.node("a")
    slices(sides, devices, "a")
    others = [f"other-{i}" for i in range(MOST)]
    for whose in WHOSE:
        devices.make_claim(f"{whose}-shared")
        grant(devices, whose, "shared", "a", *others)
    sides.start()
    add(sides, devices, "asks", claim="shared")
    sides.waits("asks", "status.reservedFor: Too many")
    for whose in WHOSE:
        grant(devices, whose, "shared", "a", *others[1:])
    sides.ends({"asks": "a"})
    for whose in WHOSE:
        uid = sides.get(whose, "asks")["metadata"]["uid"]
        wait_for("the reservation", lambda: uid in users(devices, whose, "shared"), checks.BOUND)  # noqa: B023
