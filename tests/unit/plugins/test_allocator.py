"""The allocator on one node: which devices it chooses, in which order, and what it says when there are none."""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

import pytest

from podberth.cache.devices import Devices
from podberth.cache.search_steps import CappedSearch, SearchCapError, SearchSteps
from podberth.cel.program import compile_counting
from podberth.model import wire
from podberth.model.devices import AllocatedDevice, Allocation, DeviceID, ResourceClaim
from podberth.model.kinds import Decoder
from podberth.model.node import Node
from podberth.model.quantity import parse_quantity
from podberth.plugins.dynamic_resources import results
from podberth.plugins.dynamic_resources.allocation import allocated as allocated_devices
from podberth.plugins.dynamic_resources.allocation import allocation_of
from podberth.plugins.dynamic_resources.evaluating import _view
from podberth.plugins.dynamic_resources.pools import pools_of
from podberth.plugins.dynamic_resources.requested import AllocationError, requested_claim
from podberth.plugins.dynamic_resources.results import UnwantedPools
from podberth.plugins.dynamic_resources.search import Search
from podberth.plugins.dynamic_resources.selecting import Programs
from tests.builders import Object, node
from tests.devices import (
    allocated,
    asks,
    claim,
    device,
    device_class,
    first_of,
    request,
    resource_slice,
    result,
    taint_rule,
)

GPU = device_class("gpu", 'device.driver == "gpu.test"')
NIC = device_class("nic", 'device.driver == "nic.test"')
ABC = resource_slice("n", device("a"), device("b"), device("c"), node="n")
SHARED = {"_allowMultipleAllocations": True}
Given = list[list[str]]


def capped(steps: int = 1 << 62) -> CappedSearch:
    """A search that may take so many steps."""
    return SearchSteps().capped("devices", steps)


class Case:
    """A node, and what it reaches."""

    def __init__(self, *objects: Object, zone: str = "z") -> None:
        self.decoder = Decoder()
        self.devices = Devices()
        found = self.decode(node("n", labels={"zone": zone}))
        assert isinstance(found, Node)
        self.node = found
        self.claims: list[ResourceClaim] = []
        for document in (GPU, NIC, *objects):
            thing: Any = self.decode(document)
            self.devices.put(thing)
            if isinstance(thing, ResourceClaim) and thing.allocation is None:
                self.claims.append(thing)

    def decode(self, document: Object) -> Any:
        return self.decoder.of_kind(document["kind"])(wire.encode(document))

    def search(self, steps: CappedSearch | None = None) -> Search:
        wants = [requested_claim(str(claim), claim.spec, self.devices.classes) for claim in self.claims]
        return Search(
            wants, pools_of(self.node, self.devices), self.devices.allocated, Programs().selects, steps or capped()
        )

    def find(self) -> Given | None:
        """request=device of each claim, or None."""
        search = self.search()
        if not search.run():
            return None
        return [[f"{one.alternative.name}={one.entry.id.device}" for one in claim] for claim in search.result]


def counters(**amounts: str) -> Object:
    return {name: {"value": amount} for name, amount in amounts.items()}


def partition(name: str, amount: str) -> Object:
    return device(name, _consumesCounters=[{"counterSet": "s", "counters": counters(slots=amount)}])


SETS = [{"name": "s", "counters": counters(slots="4")}]
SLOTS = resource_slice("slots", pool="n", node="n", count=2, sharedCounters=SETS)


def shared(name: str, amount: str) -> Object:
    return device(name, {"memory": amount}, **SHARED)


def memory(name: str, amount: str) -> Object:
    return request(name, capacity={"requests": {"memory": amount}})


def in_zone(zone: str) -> Object:
    return {"nodeSelectorTerms": [{"matchExpressions": [{"key": ZONE, "operator": "In", "values": [zone]}]}]}


TAINT = {"key": "k", "effect": "NoExecute"}
ALL = request(allocationMode="All")
ZONE = "topology.kubernetes.io/zone"
POLICY = {"default": "1Gi", "validRange": {"min": "1Gi", "step": "1Gi", "max": "4Gi"}}
FOUND: list[tuple[str, Sequence[Object], Given | None]] = [
    ("the first devices", [ABC, claim("c", request(count=2))], [["r=a", "r=b"]]),
    ("too few", [ABC, claim("c", request(count=4))], None),
    ("all", [ABC, claim("c", ALL)], [["r=a", "r=b", "r=c"]]),
    ("all of none", [claim("c", ALL)], None),
    ("another claim has one", [ABC, claim("x", status=allocated(result("a", "n"))), claim()], [["r=b"]]),
    ("all, and another has one", [ABC, claim("x", status=allocated(result("b", "n"))), claim("c", ALL)], None),
    (
        "admin access takes nothing from anybody",
        [ABC, claim("x", status=allocated(result("a", "n"))), claim("c", request(adminAccess=True))],
        [["r=a"]],
    ),
    (
        "and nothing is taken from it",
        [ABC, claim("x", status=allocated(result("a", "n", adminAccess=True))), claim()],
        [["r=a"]],
    ),
    ("two claims", [ABC, claim("c"), claim("d")], [["r=a"], ["r=b"]]),
    (
        "a later request needs what an earlier one would take",
        [
            resource_slice("n", device("a", model="x"), device("b", model="y"), node="n"),
            claim("c", request("r"), request("s", "gpu", 'device.attributes["gpu.test"].model == "x"')),
        ],
        [["r=b", "s=a"]],
    ),
    (
        "the first alternative that is there",
        [ABC, claim("c", first_of("r", big=asks("nic"), small=asks("gpu", count=2)))],
        [["r/small=a", "r/small=b"]],
    ),
    (
        "an alternative that leaves enough for the next request",
        [ABC, claim("c", first_of("r", two=asks(count=2), one=asks()), request("s", count=2))],
        [["r/one=a", "s=b", "s=c"]],
    ),
    (
        "a pool in two slices",
        [
            resource_slice("x", device("b"), pool="n", node="n", count=2),
            resource_slice("w", device("a"), device("c"), pool="n", node="n", count=2),
            claim("c", ALL),
        ],
        [["r=a", "r=c", "r=b"]],
    ),
    (
        "a generation that came later",
        [
            resource_slice("x", device("b"), pool="n", node="n", generation=2),
            resource_slice("w", device("a"), device("c"), pool="n", node="n"),
            claim("c", ALL),
        ],
        [["r=b"]],
    ),
    (
        "the same value",
        [
            resource_slice("n", device("a", numa=0), device("b", numa=1), device("c", numa=1), node="n"),
            claim("c", request(count=2), constraints=[{"matchAttribute": "gpu.test/numa"}]),
        ],
        [["r=b", "r=c"]],
    ),
    (
        "different values",
        [
            resource_slice("n", device("a", numa=0), device("b", numa=0), device("c", numa=1), node="n"),
            claim("c", request(count=2), constraints=[{"distinctAttribute": "gpu.test/numa"}]),
        ],
        [["r=a", "r=c"]],
    ),
    (
        "1 is not true",
        [
            resource_slice("n", device("a", on=True), device("b", on=1), node="n"),
            claim("c", request(count=2), constraints=[{"matchAttribute": "gpu.test/on"}]),
        ],
        None,
    ),
    (
        "a constraint between requests of two drivers",
        [
            resource_slice("g", device("a", **{"x.test/root": "0"}), device("b", **{"x.test/root": "1"}), node="n"),
            resource_slice("i", device("c", **{"x.test/root": "1"}), node="n", driver="nic.test"),
            claim("c", request("r"), request("s", "nic"), constraints=[{"matchAttribute": "x.test/root"}]),
        ],
        [["r=b", "s=c"]],
    ),
    (
        "partitions while there are slots",
        [
            SLOTS,
            resource_slice("n", partition("a", "3"), partition("b", "2"), partition("c", "1"), node="n", count=2),
            claim("c", request(count=2)),
        ],
        [["r=a", "r=c"]],
    ),
    (
        "slots are given back",
        [
            SLOTS,
            resource_slice("n", partition("a", "3"), partition("b", "2"), partition("c", "2"), node="n", count=2),
            claim("c", request(count=2)),
        ],
        [["r=b", "r=c"]],
    ),
    (
        "slots that another claim uses",
        [
            SLOTS,
            resource_slice("n", partition("a", "3"), partition("b", "2"), node="n", count=2),
            claim("x", status=allocated(result("a", "n"))),
            claim(),
        ],
        None,
    ),
    (
        "slots that another node's device uses",
        [
            resource_slice("slots", pool="p", allNodes=True, count=3, sharedCounters=SETS),
            resource_slice("n", partition("a", "3"), partition("b", "2"), pool="p", node="n", count=3),
            resource_slice("m", partition("c", "2"), pool="p", node="m", count=3),
            claim("x", status=allocated(result("c", "p"))),
            claim(),
        ],
        [["r=b"]],
    ),
    (
        "shares that leave nothing",
        [
            resource_slice("n", shared("a", "4Gi"), shared("b", "4Gi"), node="n"),
            claim("c", memory("r", "1Gi"), memory("s", "1Gi"), memory("t", "2Gi"), memory("u", "1Gi")),
        ],
        [["r=a", "s=a", "t=a", "u=b"]],
    ),
    (
        "a share of what another claim has left",
        [
            resource_slice("n", shared("a", "4Gi"), shared("b", "4Gi"), node="n"),
            claim("x", status=allocated(result("a", "n", shareID="1", consumedCapacity={"memory": "3Gi"}))),
            claim("c", memory("r", "1Gi"), memory("s", "2Gi")),
        ],
        [["r=a", "s=b"]],
    ),
    (
        "a device that is not shared is large enough",
        [
            resource_slice("n", device("a", {"memory": "1Gi"}), device("b", {"memory": "4Gi"}), node="n"),
            claim("c", memory("r", "2Gi")),
        ],
        [["r=b"]],
    ),
    (
        "one of two taints is tolerated",
        [
            resource_slice("n", device("a", _taints=[TAINT, {**TAINT, "key": "l"}]), device("b"), node="n"),
            claim("c", request(tolerations=[{"key": "k", "operator": "Exists"}])),
        ],
        [["r=b"]],
    ),
    (
        "a taint",
        [resource_slice("n", device("a", _taints=[TAINT]), device("b"), node="n"), claim()],
        [["r=b"]],
    ),
    ("a taint of a rule", [ABC, taint_rule("t", {"key": "k", "effect": "NoSchedule"}, device="a"), claim()], [["r=b"]]),
    (
        "devices that need no waiting come first",
        [
            resource_slice("n", device("a", _bindingConditions=["Ready"]), node="n", pool="a"),
            resource_slice("m", device("b"), node="n", pool="b"),
            claim(),
        ],
        [["r=b"]],
    ),
    ("a pool that is not complete", [resource_slice("n", device("a"), node="n", count=2), claim()], None),
    (
        "a newer generation",
        [
            resource_slice("old", device("a"), node="n", pool="p"),
            resource_slice("new", device("b"), node="n", pool="p", generation=2),
            claim(),
        ],
        [["r=b"]],
    ),
    (
        "a newer generation on another node",
        [
            resource_slice("old", device("a"), node="n", pool="p", count=2),
            resource_slice("new", device("b"), node="m", pool="p", generation=2, count=2),
            claim(),
        ],
        None,
    ),
    ("for all nodes", [resource_slice("net", device("a"), allNodes=True), claim()], [["r=a"]]),
    (
        "for nodes by label",
        [
            resource_slice("y", device("a"), nodeSelector=in_zone("y")),
            resource_slice("z", device("b"), nodeSelector=in_zone("z")),
            claim(),
        ],
        [["r=b"]],
    ),
    (
        "by device",
        [
            resource_slice("s", device("a", _nodeName="m"), device("b", _allNodes=True), perDeviceNodeSelection=True),
            claim(),
        ],
        [["r=b"]],
    ),
    (
        "further shares of a device use no more of its counters",
        [
            SLOTS,
            resource_slice("n", partition("a", "4") | shared("a", "8Gi"), node="n", count=2),
            claim("x", status=allocated(result("a", "n", shareID="1", consumedCapacity={"memory": "1Gi"}))),
            claim("c", memory("r", "1Gi"), memory("s", "1Gi")),
        ],
        [["r=a", "s=a"]],
    ),
]


@pytest.mark.parametrize(("objects", "given"), [case[1:] for case in FOUND], ids=[case[0] for case in FOUND])
def test_found(objects: Sequence[Object], given: Given | None) -> None:
    """The first solution in upstream's order."""
    assert Case(*objects).find() == given


@pytest.mark.parametrize(
    ("selector", "tainted"),
    [
        ({}, ["gpu.test/m/a", "gpu.test/n/a", "gpu.test/n/b", "nic.test/n/a"]),
        ({"driver": "gpu.test"}, ["gpu.test/m/a", "gpu.test/n/a", "gpu.test/n/b"]),
        ({"pool": "n"}, ["gpu.test/n/a", "gpu.test/n/b", "nic.test/n/a"]),
        ({"device": "a"}, ["gpu.test/m/a", "gpu.test/n/a", "nic.test/n/a"]),
        ({"driver": "gpu.test", "pool": "n"}, ["gpu.test/n/a", "gpu.test/n/b"]),
        ({"driver": "gpu.test", "pool": "n", "device": "b"}, ["gpu.test/n/b"]),
        ({"driver": "nic.test", "pool": "m"}, []),
    ],
    ids=str,
)
def test_a_taint_rule_is_for_what_all_parts_of_its_selector_name(selector: dict[str, str], tainted: list[str]) -> None:
    """A part that is absent names everything (DeviceTaintSelector)."""
    case = Case(
        resource_slice("n", device("a"), device("b"), node="n"),
        resource_slice("m", device("a"), node="n", pool="m"),
        resource_slice("nic", device("a"), node="n", driver="nic.test"),
        taint_rule("rule", TAINT, **selector),
    )
    pools = pools_of(case.node, case.devices)
    assert [str(entry.id) for pool in pools for entry in pool.devices if entry.taints] == tainted


@pytest.mark.parametrize(
    ("slices", "made"),
    [
        ([ABC], False),
        ([resource_slice("n", device("a"), node="n", count=2), resource_slice("o", node="n", count=2)], True),
        ([ABC, taint_rule("rule", TAINT)], True),
        ([resource_slice("n", device("a"), device("a"), node="n")], True),
    ],
    ids=["one slice", "two slices", "a rule", "a name twice"],
)
def test_devices_of_a_plain_pool_are_not_made_before_they_are_asked_for(slices: list[Object], made: bool) -> None:
    """Of thousands of nodes that are alike, those of one are."""
    case = Case(*slices)
    (pool,) = pools_of(case.node, case.devices)
    assert (pool.made is not None) is made


FAILED: list[tuple[str, Sequence[Object], str]] = [
    (
        "a selector that fails",
        [ABC, claim("c", request("r", "gpu", 'device.attributes["gpu.test"].model == "x"'))],
        "no such key: model",
    ),
    (
        "a selector that does not compile",
        [ABC, claim("c", request("r", "gpu", "nothing"))],
        "claim default/c: selector #0: CEL compile error",
    ),
    (
        "a class that is gone",
        [ABC, claim("c", request("r", "none"))],
        'could not retrieve device class none: deviceclass.resource.k8s.io "none" not found',
    ),
    (
        "too many",
        [ABC, claim("c", request("r", count=20), request("s", count=20))],
        "claim default/c: number of requested devices 40 exceeds the claim limit of 32",
    ),
    (
        "all of a pool that is not complete",
        [resource_slice("n", node="n", count=2), claim("c", ALL)],
        "asks for all devices, but resource pool gpu.test/n is currently being updated",
    ),
    (
        "all of a pool that is not valid",
        [resource_slice("n", device("a"), device("a"), node="n"), claim("c", ALL)],
        "resource pool gpu.test/n is currently invalid",
    ),
    (
        "all, against a constraint",
        [ABC, claim("c", ALL, constraints=[{"matchAttribute": "gpu.test/x"}])],
        "cannot add device gpu.test/n/a because a claim constraint would not be satisfied",
    ),
    ("an empty constraint", [ABC, claim("c", constraints=[{}])], "claim default/c, constraint #0: empty constraint"),
]


@pytest.mark.parametrize(("objects", "says"), [case[1:] for case in FAILED], ids=[case[0] for case in FAILED])
def test_failed(objects: Sequence[Object], says: str) -> None:
    """What is wrong with claims and pools, in upstream's words."""
    with pytest.raises(AllocationError) as caught:
        Case(*objects).find()
    assert says in str(caught.value)


@pytest.mark.parametrize(
    ("asked", "taken"),
    [(None, "1Gi"), ("512Mi", "1Gi"), ("1Gi", "1Gi"), ("1500Mi", "2Gi"), ("4Gi", "4Gi"), ("4097Mi", None)],
)
def test_a_request_policy_rounds_up(asked: str | None, taken: str | None) -> None:
    """To the next step, and not beyond the most."""
    one = device("a", **SHARED)
    one["capacity"] = {"memory": {"value": "16Gi", "requestPolicy": POLICY}}
    fields: dict[str, Any] = {} if asked is None else {"capacity": {"requests": {"memory": asked}}}
    case = Case(resource_slice("n", one, node="n"), claim("c", request(**fields)))
    search = case.search()
    assert search.run() is (taken is not None)
    if taken is not None:
        ((chosen,),) = search.result
        assert chosen.consumed is not None
        assert {key: str(amount) for key, amount in chosen.consumed.items()} == {"memory": taken}


def test_shares_have_ids_as_kube_scheduler_makes_them() -> None:
    """Random UUIDs, by their form; here they come from what tells an allocation from others (uuid.New)."""
    case = Case(resource_slice("n", shared("a", "8Gi"), node="n"), claim("c", memory("r", "1Gi"), memory("s", "1Gi")))
    search = case.search()
    assert search.run()
    (chosen,) = search.result
    one, other, again, elsewhere = (
        UUID(device.share) for seed in ("x", "y") for device in allocated_devices(chosen, seed)
    )
    assert {each.version for each in (one, other, again, elsewhere)} == {4}
    assert len({one, other, again, elsewhere}) == 4


def test_what_is_written() -> None:
    """Results, configurations of the class and of the claim, and the nodes that reach all of the devices."""
    opaque = {"opaque": {"driver": "gpu.test", "parameters": {"kind": "Mode"}}}
    of = device_class("gpu", config=[opaque])
    selector = in_zone("z")
    config = [{"requests": ["r"], **opaque}, {"requests": ["other"], **opaque}]
    tolerations = [{"key": "k", "operator": "Exists", "tolerationSeconds": 5}]
    asked = claim("c", request(tolerations=tolerations), config=config)
    case = Case(resource_slice("net", device("a"), nodeSelector=selector), of, asked)
    search = case.search()
    assert search.run()
    (one,), (chosen,) = case.claims, search.result
    ready = requested_claim(str(one), one.spec, case.devices.classes)
    _, document = allocation_of("c", ready, chosen, "n", "seed")
    assert document == {
        "devices": {
            "results": [result("a", "net", tolerations=tolerations)],
            "config": [{"source": "FromClass", **opaque}, {"source": "FromClaim", **opaque}],
        },
        "nodeSelector": selector,
    }


TWO = [device("a", numa=1), device("b", numa=1)]
LARGE_TWO = [device(name, {"memory": "4Gi", "cores": "8"}) for name in "ab"]
MATCH = [{"matchAttribute": "gpu.test/numa"}]
GOING_ON = 3 * (6 + 7)
"""Six parts of the search are begun after the first one: two requests, a device for each of two, and no further one
twice. All seven end. Each takes three."""


@pytest.mark.parametrize(
    ("id", "objects", "steps"),
    [
        ("two devices", [resource_slice("n", *TWO, node="n"), claim("c", request(count=2))], GOING_ON + 2 * (1 + 4)),
        (
            "a constraint",
            [resource_slice("n", *TWO, node="n"), claim("c", request(count=2), constraints=MATCH)],
            GOING_ON + 2 * (1 + 4 + 2),
        ),
        (
            "two capacities",
            [resource_slice("n", *LARGE_TWO, node="n"), claim("c", request(count=2))],
            GOING_ON + 2 * (1 + 4 + 4 * 2),
        ),
        ("all", [resource_slice("n", *TWO, node="n"), claim("c", ALL)], GOING_ON + 2 * (1 + 4)),
        (
            "one that is not selected, and one that is taken",
            [
                resource_slice("n", device("x"), device("y", numa=2), *TWO, node="n"),
                claim("h", status=allocated(result("x", "n"))),
                claim("c", request("r", "gpu", 'device.attributes["gpu.test"].numa == 1', count=2)),
            ],
            GOING_ON + 2 + 2 * (1 + 4),
        ),
        ("none", [resource_slice("n", node="n"), claim()], 3 * (2 + 3)),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_steps_of_a_search(id: str, objects: Sequence[Object], steps: int) -> None:
    """About a microsecond each: one for a look at a device, four for its choice, two for each constraint, ..."""
    taken = capped()
    found = Case(*objects).search(taken)
    assert found.run() is (id != "none")
    assert taken.taken == steps


def test_steps_of_an_expression() -> None:
    """Ten, those of its evaluation, and one for every four attributes that are made ready; it is compiled once."""
    programs, expression = Programs(), 'device.driver == "gpu.test" && device.driver != "steps"'
    taken: list[int] = []
    for number in (0, 0, 7, 8):
        there = Case(
            resource_slice("n", device("a", **{f"x{number}-{i}": i for i in range(number)}, id=len(taken)), node="n")
        )
        (entry,) = pools_of(there.node, there.devices)[0].devices
        programs.search = capped()
        assert programs.selects(expression, "a test", entry.device.traits, entry.id)
        taken.append(programs.search.taken)
        assert programs.selects(expression, "a test", entry.device.traits, entry.id)
        assert programs.search.taken == taken[-1]
    program, _ = compile_counting(expression, "")
    first, again, eight, nine = taken
    evaluated = program.evaluate(_view(entry.device.traits), 1_000).steps
    assert first > again == 10 + evaluated
    assert eight == nine == again + 2


def test_steps_of_finding_out_that_a_pool_is_of_no_use() -> None:
    """One for a look at each device, once for all nodes and pods that ask for the same."""
    there = Case(
        resource_slice("all", *(device(name) for name in "abc"), allNodes=True), claim("c", request("r", "nic"))
    )
    (pool,) = pools_of(there.node, there.devices)
    wants = [requested_claim(str(one), one.spec, there.devices.classes) for one in there.claims]
    unwanted, steps = UnwantedPools(Programs().selects), capped()
    for _ in range(2):
        assert unwanted.has(pool, wants, steps)
        assert steps.taken == 3


def test_pools_that_are_of_no_use_are_not_kept_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    """A node whose devices each name it has a new pool after each change of the node: some are forgotten then."""
    monkeypatch.setattr(results, "_MOST_KNOWN", 2)
    there = Case(resource_slice("all", device("a"), allNodes=True), claim("c", request("r", "nic")))
    wants = [requested_claim(str(one), one.spec, there.devices.classes) for one in there.claims]
    pools = [pools_of(there.node, there.devices)[0] for _ in range(3)]
    unwanted, steps = UnwantedPools(Programs().selects), capped()
    assert all(unwanted.has(pool, wants, steps) for pool in (*pools, pools[-1], pools[0]))
    assert steps.taken == 4


def test_a_search_ends_at_its_cap() -> None:
    """Among all combinations of three of 21 devices, none of which has what the claim asks for."""
    values = [device(f"d{i:02}", numa=i) for i in range(21)]
    asked = claim("c", request(count=3), request("s", count=3), constraints=[{"matchAttribute": "gpu.test/numa"}])
    steps = capped(1_000)
    with pytest.raises(SearchCapError, match="gave up looking for devices after 1,000 steps"):
        Case(resource_slice("n", *values, node="n"), asked).search(steps).run()
    assert steps.taken < 1_300
    assert Case(resource_slice("n", *values, node="n"), asked).find() is None


def test_a_pod_may_claim_more_devices_than_pythons_stack_has_room_for() -> None:
    """Each device is a level of the search."""
    every = [device(f"d{i:04}") for i in range(40 * 32)]
    case = Case(*(resource_slice(f"s{i}", *every[32 * i : 32 * i + 32], node="n", pool=f"p{i}") for i in range(40)))
    case.claims += [case.decode(claim(f"c{i}", request(count=32))) for i in range(40)]
    found = case.find()
    assert found is not None
    assert sum(map(len, found)) == len(every)


def test_what_two_claims_share_is_counted_for_each() -> None:
    """And given back by each."""
    holders = Devices().allocated
    share = DeviceID("gpu.test", "n", "a")

    def held(amount: str, share_id: str) -> Allocation:
        return Allocation((AllocatedDevice("r", share, share=share_id, consumed={"m": parse_quantity(amount)}),), None)

    holders.put("one", held("1Gi", "1"))
    holders.put("two", held("2Gi", "2"))
    assert holders.used(share) == {"m": parse_quantity("3Gi").nano}
    holders.put("one", None)
    assert holders.used(share) == {"m": parse_quantity("2Gi").nano}
    holders.put("two", None)
    assert not holders.is_allocated(share)
