"""`berth explain` about pods that claim devices."""

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
)
from tests.unit.explain.story import explained, why

GPU = device_class("gpu", 'device.driver == "gpu.test"')
SLICE = resource_slice("n", device("a"), node="n")
SHARED = {"_allowMultipleAllocations": True}
SHARE = result("a", "n", shareID="1", consumedCapacity={"memory": "3Gi"})
SETS = [{"name": "s", "counters": {"slots": {"value": "1"}}}]
USES = [{"counterSet": "s", "counters": {"slots": {"value": "2"}}}]
NEEDS = "claim default/c, request r needs 1 of class gpu"
CASES: list[tuple[str, list[Object], str]] = [
    ("nothing there", [claim()], f"{NEEDS}, of which the node reaches none"),
    (
        "taken",
        [SLICE, claim(), claim("x", status=allocated(result("a", "n"), reserved=["u"]))],
        f"{NEEDS}, none free (gpu.test/n/a: allocated to claim default/x of pod default/u)",
    ),
    (
        "taken for many pods",
        [SLICE, claim(), claim("x", status=allocated(result("a", "n"), reserved=[*"stuvw"]))],
        f"{NEEDS}, none free (gpu.test/n/a: allocated to claim default/x of pod default/s and pod default/t and "
        "pod default/u and 2 more)",
    ),
    (
        "all of them where there is nothing",
        [claim("c", request("r", "gpu", count=0, allocationMode="All"))],
        f"{NEEDS}, of which the node reaches none",
    ),
    (
        "not selected",
        [SLICE, claim("c", request("r", "gpu", "device.driver == 'x'"))],
        f"{NEEDS}, none free (gpu.test/n/a: not selected by device.driver == 'x', as driver is \"gpu.test\")",
    ),
    (
        "tainted",
        [resource_slice("n", device("a", _taints=[{"key": "k", "effect": "NoSchedule"}]), node="n"), claim()],
        f"{NEEDS}, none free (gpu.test/n/a: tainted k:NoSchedule)",
    ),
    (
        "too small a rest",
        [
            resource_slice("n", device("a", {"memory": "4Gi"}, **SHARED), node="n"),
            claim("x", status=allocated(SHARE)),
            claim("c", request(capacity={"requests": {"memory": "2Gi"}})),
        ],
        f"{NEEDS}, none free (gpu.test/n/a: needs 2Gi memory, 1Gi free)",
    ),
    (
        "a counter",
        [
            resource_slice("s", pool="n", node="n", count=2, sharedCounters=SETS),
            resource_slice("n", device("a", _consumesCounters=USES), node="n", count=2),
            claim(),
        ],
        f"{NEEDS}, none free (gpu.test/n/a: counter s/slots is short by 1)",
    ),
    (
        "a pool that is not complete",
        [resource_slice("n", device("a"), node="n", count=2), claim()],
        f"{NEEDS}, of which the node reaches none; pool gpu.test/n: its driver is still publishing it",
    ),
    (
        "requests that can't be served together",
        [SLICE, claim("c", request("r"), request("s"))],
        "each request alone could be served, but not all of them together: "
        "requests want the same devices, or their counters",
    ),
    (
        "of two alternatives, the one that lacks fewer",
        [SLICE, claim("c", first_of("r", a=asks(count=4), b=asks(count=2)))],
        "claim default/c, request r/b needs 2 of class gpu, 1 free",
    ),
    (
        "what it has is elsewhere",
        [SLICE, claim("c", status=allocated(result("b", "m"), node="m"))],
        "default/c: the devices that it was given can't be used there",
    ),
]


@pytest.mark.parametrize(("objects", "says"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_why_a_node_can_give_none(objects: list[Object], says: str) -> None:
    """Device by device."""
    answer = explained(claiming(pod("p"), "c"), [node("n"), GPU, *objects])
    assert why(answer, "n") == [says]


def test_a_pod_whose_claim_is_missing() -> None:
    """It would not even get into the queue."""
    answer = explained(claiming(pod("p"), "c"), [node("n"), GPU])
    assert (answer.outcome, answer.message) == ("gated", 'could not find ResourceClaim "default/c"')


def test_a_claim_that_costs_too_much_is_given_up() -> None:
    """A dump may hold a search without end: the answer says that it was given up, as the scheduler does."""
    values = [device(f"d{i:02}", number=i) for i in range(40)]
    requests = [request(f"r{i}", "gpu", count=6) for i in range(5)]
    never = [{"requests": ["r4"], "matchAttribute": "gpu.test/number"}]
    slice_ = resource_slice("n", *values, node="n")
    objects = [node("n"), GPU, slice_, claim("c", *requests, constraints=never)]
    found = explained(claiming(pod("evil"), "c"), objects)
    assert found.message is not None
    assert found.message.endswith("gave up looking for devices after 200,000 steps (about 0.2 s of one core)")


def test_long_expressions_are_explained() -> None:
    long = " && ".join(['device.driver != "x"'] * 400) + " && device.driver == 'y'"
    objects = [node("n"), GPU, SLICE, claim("c", request("r", "gpu", long))]
    answer = explained(claiming(pod("p"), "c"), objects)
    assert why(answer, "n")[0].startswith(f"{NEEDS}, none free (gpu.test/n/a: not selected by {long[:40]}")
