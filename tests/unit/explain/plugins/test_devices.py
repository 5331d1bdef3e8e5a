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
NAMES_FOUR = " && ".join(
    f'device.attributes["gpu.test"].{name} == {value}'
    for name, value in (("model", '"x"'), ("size", 3), ("none", "true"), ("fourth", 1))
)
NAMES_CAPACITY = (
    'device.capacity["gpu.test"].?disk.hasValue() && device.capacity["gpu.test"].memory.compareTo(quantity("8Gi")) >= 0'
)
FOR_A_GROUP = {
    **allocated(result("a", "n")),
    "reservedFor": [
        {"apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": "g", "uid": "g"},
        {"resource": "pods", "name": "q", "uid": "q"},
    ],
}


def tainted(*keys: str, pool: str = "n") -> Object:
    """A pool of devices, each with a taint of such a key."""
    taints = [[{"key": key, "effect": "NoSchedule"}] for key in keys]
    devices = [device(f"d{i}", _taints=taint) for i, taint in enumerate(taints)]
    return resource_slice(pool, *devices, node="n", pool=pool)


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
        "more reasons than are told",
        [tainted("k0", "k1", "k2", "k3", "k4", "k4"), claim()],
        f"{NEEDS}, none free (gpu.test/n/d0: tainted k0:NoSchedule; gpu.test/n/d1: tainted k1:NoSchedule; "
        "gpu.test/n/d2: tainted k2:NoSchedule; gpu.test/n/d3: tainted k3:NoSchedule; and 2 more devices)",
    ),
    (
        "as many reasons as are told",
        [tainted("k0", "k1", "k2", "k3"), claim()],
        f"{NEEDS}, none free (gpu.test/n/d0: tainted k0:NoSchedule; gpu.test/n/d1: tainted k1:NoSchedule; "
        "gpu.test/n/d2: tainted k2:NoSchedule; gpu.test/n/d3: tainted k3:NoSchedule)",
    ),
    (
        "more devices than are told",
        [tainted(*"k" * 10), claim()],
        f"{NEEDS}, none free (gpu.test/n/d0, d1, d2, d3, d4, d5, d6, d7 and 2 more: tainted k:NoSchedule)",
    ),
    (
        "as many devices as are told",
        [tainted(*"k" * 8), claim()],
        f"{NEEDS}, none free (gpu.test/n/d0, d1, d2, d3, d4, d5, d6, d7: tainted k:NoSchedule)",
    ),
    (
        "devices of two pools",
        [tainted("k", "k"), tainted("k", "k", pool="m"), claim()],
        f"{NEEDS}, none free (gpu.test/m/d0, d1, gpu.test/n/d0, d1: tainted k:NoSchedule)",
    ),
    (
        "values that an expression names, three of them",
        [
            resource_slice("n", device("a", model="L4", size=2, fourth=2), node="n"),
            claim("c", request("r", "gpu", NAMES_FOUR)),
        ],
        f'{NEEDS}, none free (gpu.test/n/a: not selected by {NAMES_FOUR}, as model is "L4", size is 2, it has no none)',
    ),
    (
        "a capacity that an expression names",
        [
            resource_slice("n", device("a", {"memory": "4Gi"}), node="n"),
            claim("c", request("r", "gpu", NAMES_CAPACITY)),
        ],
        f"{NEEDS}, none free (gpu.test/n/a: not selected by {NAMES_CAPACITY}, as it has no disk, memory is 4Gi)",
    ),
    (
        "a capacity that is not offered",
        [
            resource_slice("n", device("a", {"disk": "1Gi"}), node="n"),
            claim("c", request(capacity={"requests": {"memory": "2Gi"}})),
        ],
        f"{NEEDS}, none free (gpu.test/n/a: does not offer the capacity that is asked for)",
    ),
    (
        "all of them, of which one is taken",
        [
            resource_slice("n", device("a"), device("b"), node="n"),
            claim("x", status=allocated(result("a", "n"))),
            claim("c", request("r", "gpu", count=0, allocationMode="All")),
        ],
        "claim default/c, request r needs 2 of class gpu, 1 free (gpu.test/n/a: allocated to claim default/x, "
        "which no pod uses)",
    ),
    (
        "taken for a group",
        [SLICE, claim(), claim("x", status=FOR_A_GROUP)],
        f"{NEEDS}, none free (gpu.test/n/a: allocated to claim default/x of podgroups default/g and pod default/q)",
    ),
    (
        "a device that others share, whose counters count for the first of them",
        [
            resource_slice("s", pool="n", node="n", count=2, sharedCounters=SETS),
            resource_slice("n", device("a", {"memory": "4Gi"}, _consumesCounters=USES, **SHARED), node="n", count=2),
            claim("x", status=allocated(SHARE)),
            claim("c", request(count=2, capacity={"requests": {"memory": "1Gi"}})),
        ],
        "claim default/c, request r needs 2 of class gpu, 1 free",
    ),
    (
        "a pool with a mistake",
        [resource_slice("n", device("a"), device("a"), node="n"), claim()],
        f"{NEEDS}, of which the node reaches none; pool gpu.test/n: duplicate device name a",
    ),
    (
        "a pool with a device whose counters are not there",
        [resource_slice("n", device("a"), device("b", _consumesCounters=USES), node="n"), claim()],
        f"{NEEDS}, of which the node reaches none; pool gpu.test/n: counter set s not found",
    ),
    (
        "a value that devices have to have in common",
        [
            resource_slice("n", device("a", model="L4"), device("b", model="T4"), device("c"), node="n"),
            claim("c", request("r", count=2), request("s"), constraints=[{"matchAttribute": "gpu.test/model"}]),
        ],
        "each request alone could be served, but not all of them together: claim default/c has the constraint "
        'matchAttribute gpu.test/model (gpu.test/n/a: has "L4"; gpu.test/n/b: has "T4"; gpu.test/n/c: has none)',
    ),
    (
        "a value that devices have to differ in",
        [
            resource_slice("n", device("a", model="L4"), device("b", model="L4"), node="n"),
            claim("c", request("r", count=2), constraints=[{"distinctAttribute": "gpu.test/model"}]),
        ],
        "each request alone could be served, but not all of them together: claim default/c has the constraint "
        'distinctAttribute gpu.test/model (gpu.test/n/a, b: has "L4")',
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


def test_what_is_said_as_data() -> None:
    """For programs: of the first request that can't be served, each device that is of its class."""
    slice_ = resource_slice("n", device("a"), device("b", _taints=[{"key": "k", "effect": "NoSchedule"}]), node="n")
    broken = resource_slice("m", device("a"), device("a"), node="n", pool="m")
    devices = {"gpu.test/n/a": "free", "gpu.test/n/b": "tainted k:NoSchedule"}
    answer = explained(claiming(pod("p"), "c"), [node("n"), GPU, slice_, broken, claim("c", request(count=3))])
    (finding,) = answer.rejected[0].findings
    of_claim = {"claim": "default/c", "request": "r", "needed": 3, "free": 1, "devices": devices}
    assert finding.numbers == {**of_claim, "pools": ["pool gpu.test/m: duplicate device name a"]}
    served = device_class("gpu", 'device.driver == "gpu.test"', extendedResourceName="example.com/gpu")
    answer = explained(pod("p", others={"example.com/gpu": "3"}), [node("n"), served, slice_])
    (finding,) = answer.rejected[0].findings
    assert finding.detail == "example.com/gpu needs 3 of class gpu, 1 free (gpu.test/n/b: tainted k:NoSchedule)"
    of_pod = {"claim": "its extended resources", "request": "container-0-request-0"}
    assert finding.numbers == {**of_claim, **of_pod}


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


def test_a_resource_that_no_class_serves_is_named() -> None:
    """Beside those that devices serve, and those that every node has."""
    served = device_class("gpu", 'device.driver == "gpu.test"', extendedResourceName="example.com/gpu")
    asking = pod("p", "1", others={"example.com/gpu": "1", "other.io/x": "1", "other.io/w": "1"})
    answer = explained(asking, [node("n"), served, SLICE])
    assert "DynamicResources: has no other.io/w, other.io/x, neither as devices nor otherwise" in why(answer, "n")
