"""What is offered for devices: as much as is missing, of those that would do, and nothing of others."""

from typing import Any

import pytest

from tests.builders import Object, node, pod
from tests.devices import (
    allocated,
    asks,
    claim,
    claiming,
    device,
    device_class,
    first_of,
    request,
    resource_slice,
    result,
    taint_rule,
)
from tests.unit.explain.plugins.offers import golden, shown, users

GPU = device_class("gpu", 'device.driver == "gpu.test"')
LARGE = device_class("large", 'device.driver == "gpu.test"', 'device.attributes["gpu.test"].?large.orValue(false)')
SERVED = device_class("gpu", 'device.driver == "gpu.test"', extendedResourceName="example.com/gpu")
NIC = device_class("nic", 'device.driver == "nic.test"', extendedResourceName="example.com/nic")
COUNTERS = resource_slice(
    "s",
    pool="n",
    node="n",
    count=2,
    sharedCounters=[{"name": "s", "counters": {"x": {"value": "4"}, "y": {"value": "4"}}}],
)
SHARED = {"_allowMultipleAllocations": True}
POLICY = {"default": "1Gi", "validRange": {"min": "1Gi"}}
PARTS = {
    "memory": {"value": "8Gi", "requestPolicy": POLICY},
    "io": {"value": "2", "requestPolicy": {"default": "1"}},
}
FORTH = {"key": "k", "effect": "NoSchedule"}
GROUP = [{"apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": "g", "uid": "g"}]
MODEL = 'device.attributes["gpu.test"].model == "y"'


def on(*devices: Object, **spec: Any) -> Object:
    return resource_slice("n", *devices, node="n", **spec)


def uses(x: int = 0, y: int = 0) -> list[Object]:
    counters = {key: {"value": str(value)} for key, value in (("x", x), ("y", y)) if value}
    return [{"counterSet": "s", "counters": counters}]


def held(name: str, *devices: str, by: str = "", pool: str = "n") -> Object:
    status = allocated(*(result(each, pool) for each in devices), node=pool)
    users = [{"resource": "pods", "name": each, "uid": each} for each in by.split()]
    return claim(name, status={**status, "reservedFor": users})


def part(memory: str, io: str) -> Object:
    """A claim that has these parts of the device a."""
    return claim("x", status=allocated(result("a", "n", shareID="1", consumedCapacity={"memory": memory, "io": io})))


P = claiming(pod("p"), "c")
_CASES: dict[str, tuple[Object, list[Object]]] = {
    "one claim has enough": (
        P,
        [on(device("a"), device("b"), device("c")), held("x", "a", "b"), held("y", "c"), claim("c", request(count=2))],
    ),
    "several claims have enough": (
        P,
        [on(*map(device, "abc")), held("x", "a"), held("y", "b"), claim("c", request(count=3))],
    ),
    "any claim has enough, that with most first": (
        P,
        [on(*map(device, "abc")), held("y", "a"), held("x", "b", "c", by="t"), claim("c")],
    ),
    "a taint that a rule gives, beside one of the driver": (
        P,
        [
            on(device("a", _taints=[FORTH]), device("b")),
            taint_rule("r", {**FORTH, "key": "r"}, driver="gpu.test"),
            claim(),
        ],
    ),
    "a counter": (
        P,
        [
            GPU,
            COUNTERS,
            on(
                device("h", _consumesCounters=uses(3)),
                device("i", _consumesCounters=uses(0, 1)),
                device("w", _consumesCounters=uses(2, 4), large=True),
                count=2,
            ),
            held("x", "h", by="t"),
            held("y", "i", by="u"),
            claim("c", request("r", "large")),
        ],
    ),
    "one counter just suffices, the other not": (
        P,
        [
            COUNTERS,
            on(
                device("h", _consumesCounters=uses(2)),
                device("i", _consumesCounters=uses(0, 1)),
                device("w", _consumesCounters=uses(2, 4), large=True),
                count=2,
            ),
            held("x", "h", by="t"),
            held("y", "i", by="u"),
            claim("c", request("r", "large")),
        ],
    ),
    "a counter and a taint": (
        P,
        [
            COUNTERS,
            on(
                device("h", _consumesCounters=uses(3)),
                device("w", _consumesCounters=uses(2), _taints=[FORTH], large=True),
                count=2,
            ),
            held("x", "h", by="t"),
            claim("c", request("r", "large")),
        ],
    ),
    "a capacity just suffices, and one that was not asked for does not": (
        P,
        [
            on(device("a", _capacity=PARTS, **SHARED)),
            part("4Gi", "2"),
            claim("c", request(capacity={"requests": {"memory": "4Gi"}})),
        ],
    ),
    "a capacity of which others have too much": (
        P,
        [
            on(device("a", _capacity=PARTS, **SHARED)),
            part("4Gi", "1"),
            claim("c", request(capacity={"requests": {"memory": "5Gi"}})),
        ],
    ),
    "a capacity and a taint": (
        P,
        [
            on(device("a", {"memory": "4Gi"}, _taints=[FORTH], **SHARED)),
            claim("c", request(capacity={"requests": {"memory": "8Gi"}})),
        ],
    ),
    "all devices, which are tainted": (
        P,
        [
            on(*(device(each, _taints=[FORTH]) for each in "ab")),
            claim("c", request("r", count=0, allocationMode="All")),
        ],
    ),
    "all devices of a model": (
        P,
        [
            on(device("a", model="x"), device("b", model="y")),
            held("h", "b"),
            claim("c", request("r", "gpu", MODEL, count=0, allocationMode="All")),
        ],
    ),
    "all devices, of which one is held": (
        P,
        [on(device("a"), device("b")), held("x", "b", by="t"), claim("c", request("r", count=0, allocationMode="All"))],
    ),
    "an extended resource that the node has neither way, beside one that devices serve": (
        pod("p", others={"example.com/gpu": "1", "example.com/nic": "1"}),
        [SERVED, NIC, on(device("a"))],
    ),
    "all devices that are selected, which are none, beside a request that another claim would free": (
        P,
        [
            on(device("a", model="x")),
            held("x", "a", by="t"),
            claim("c", request("r", "gpu", MODEL, count=0, allocationMode="All"), request("s")),
        ],
    ),
    "all devices that are selected are free, beside a request that can't be served": (
        P,
        [
            on(device("a", model="x"), device("b", model="y")),
            claim("c", request("r", "gpu", MODEL, count=0, allocationMode="All"), request("s", "large")),
        ],
    ),
    "free devices that are not selected are of no use": (
        P,
        [
            on(device("a", model="x"), device("b", model="y"), device("e", model="y")),
            held("x", "b", by="t"),
            held("y", "e", by="u"),
            claim("c", request("r", "gpu", MODEL, count=2)),
        ],
    ),
    "the second request": (
        P,
        [on(device("a"), device("b", _taints=[FORTH])), claim("c", request("r"), request("s", count=2))],
    ),
    "an alternative that could be served, beside another request": (
        P,
        [on(device("a")), claim("c", first_of("r", a=asks("large"), b=asks("gpu")), request("s"))],
    ),
    "requests that want the same devices": (
        P,
        [on(*map(device, "abe")), held("x", "e", by="t"), claim("c", request("r", count=2), request("s"))],
    ),
    "of two extended resources, one is too much": (
        pod("p", others={"example.com/gpu": "3", "example.com/nic": "2"}),
        [
            SERVED,
            NIC,
            on(device("a"), device("b")),
            resource_slice("m", device("e"), device("f"), node="n", driver="nic.test", pool="m"),
        ],
    ),
    "a claim that is elsewhere": (
        claiming(pod("p"), "c", "e"),
        [node("m"), held("c", "b", pool="m", by="q"), held("e", "b")],
    ),
    "for an administrator, a taint counts and its holder does not": (
        P,
        [on(device("a", _taints=[FORTH])), held("x", "a"), claim("c", request(adminAccess=True))],
    ),
    "three pods have it": (P, [on(device("a")), held("x", "a", by="q r s"), claim()]),
    "taints of one device each, where two are missing": (
        P,
        [
            on(device("a"), device("b", _taints=[FORTH]), device("c", _taints=[{**FORTH, "key": "l"}])),
            claim("c", request(count=3)),
        ],
    ),
    "claims that have one each, by their names": (
        P,
        [on(device("a"), device("b")), held("y", "a"), held("x", "b"), claim()],
    ),
    "nine devices": (P, [on(*(device(f"d{i}", _taints=[FORTH]) for i in range(9))), claim()]),
    "half a counter": (
        P,
        [
            resource_slice(
                "s", pool="n", node="n", count=2, sharedCounters=[{"name": "s", "counters": {"x": {"value": "1500m"}}}]
            ),
            on(device("w", _consumesCounters=uses(2)), count=2),
            claim(),
        ],
    ),
    "a capacity under another domain": (
        P,
        [
            on(device("a", {"memory": "4Gi"})),
            claim("c", request("r", "gpu", 'device.capacity["other.io"].?memory.hasValue()')),
        ],
    ),
    "a claim of a group, whose pods nobody names": (
        P,
        [on(device("a")), claim("x", status={**allocated(result("a", "n")), "reservedFor": GROUP}), claim()],
    ),
}
CASES = {name: (incoming, [node("n"), GPU, LARGE, *there, *users(there)]) for name, (incoming, there) in _CASES.items()}


@pytest.mark.parametrize("name", CASES)
def test_what_is_said_and_offered(name: str) -> None:
    assert shown(CASES[name]) == golden("dynamic_resources")[name]


def test_every_case_is_there() -> None:
    assert list(golden("dynamic_resources")) == list(CASES)
