"""Nodes whose devices are alike share what was found; what they are given is what a search on each of them finds."""

from collections.abc import Sequence
from datetime import UTC, datetime
from random import Random
from typing import Any

import numpy as np
import pytest

from podberth.cache.kept_results import FEW
from podberth.cache.search_steps import SearchSteps
from podberth.explain.objects.world import World
from podberth.framework.config import default_configuration
from podberth.framework.interface import FailedGroup
from podberth.framework.profiles import build
from podberth.framework.status import PluginError
from podberth.model.devices import AllocatedDevice, Allocation, DeviceID, ResourceClaim
from podberth.model.pod import Pod
from podberth.plugins.dynamic_resources import pools_by_node, results
from podberth.plugins.dynamic_resources.allocation import unusable_rows
from podberth.plugins.dynamic_resources.plugin import DynamicResources
from podberth.plugins.dynamic_resources.pools import LARGE, pools_of
from podberth.plugins.dynamic_resources.requested import requested_claim
from podberth.plugins.dynamic_resources.search import Search
from podberth.plugins.dynamic_resources.selecting import Programs
from podberth.plugins.registry import IN_TREE
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
from tests.unit.cache.test_groups import group
from tests.unit.explain.story import world
from tests.unit.plugins import small
from tests.unit.work import lines

Names = list[list[tuple[str, str, str]]]
"""Of each claim: request, pool and device."""


@pytest.fixture
def searches(monkeypatch: pytest.MonkeyPatch) -> list[Sequence[Any]]:
    """The pools of each search that is begun."""
    begun: list[Sequence[Any]] = []

    class Counted(Search):
        def __init__(self, claims: Any, pools: Any, *more: Any, **options: Any) -> None:
            begun.append(pools)
            super().__init__(claims, pools, *more, **options)

    monkeypatch.setattr(results, "Search", Counted)
    return begun


def plugin() -> DynamicResources:
    found = build(default_configuration(), IN_TREE)["berth"].plugin("DynamicResources")
    assert isinstance(found, DynamicResources)
    return found


def rows_of(there: World) -> int:
    return there.cluster.nodes.rows


def claimant(there: World, number: int, *requests: Object, **more: Any) -> Pod:
    """A pod with a claim of its own for these."""
    there.add_all([claim(f"c{number}", *requests, **more)])
    found = there.decode(claiming(pod(f"p{number}"), f"c{number}"))
    assert isinstance(found, Pod)
    return found


def taken_by(there: World, number: int, given: Sequence[AllocatedDevice]) -> None:
    """A claim has these devices from now on."""
    key = f"h{number}"
    there.add_all([claim(key)])
    there.cluster.devices.assume(f"claim/{key}", Allocation(tuple(given), None), ("default", key))


def test_equal_nodes_are_searched_once(searches: list[Sequence[Any]]) -> None:
    """And once more, all of them, for each number of devices that is taken of one; none, for what is known."""
    there = world([node(f"n{i}") for i in range(300)])
    there.add_all(
        [device_class(), *(resource_slice(f"n{i}", device("a"), device("b"), node=f"n{i}") for i in range(300))]
    )
    mine = plugin()
    first = claimant(there, 1, request())
    assert not any(where.any() for _, where in mine.filter(first, there.cluster))
    assert len(searches) == 1
    for number, row in enumerate((7, 8, 9)):
        given = mine.given(first, there.cluster, row)
        assert given is not None
        assert [one.id.pool for one in given["c1"]] == [f"n{row}"]
        taken_by(there, number, given["c1"])
        mine.filter(first, there.cluster)
    assert len(searches) == 2
    again = mine.given(first, there.cluster, 8)
    assert again is not None
    assert [one.id.device for one in again["c1"]] == ["b"]


def test_a_pool_that_is_not_valid_is_named_where_nothing_else_is_found() -> None:
    """Another pool will do."""
    there = world([node(name) for name in "abc"])
    there.add_all([device_class(), *(resource_slice(name, device("d"), device("d"), node=name) for name in "ab")])
    there.add_all([resource_slice("good", device("d"), node="b", pool="good")])
    found = plugin().filter(claimant(there, 1, request()), there.cluster)
    assert {reason.text: where.tolist() for reason, where in found if where.any()} == {
        "invalid resource pools were encountered": [True, False, False],
        "cannot allocate all claims": [False, False, True],
    }


def test_more_was_given_than_is_remembered() -> None:
    """Of pools that many nodes reach, too: then what is taken is looked at anew."""
    there = world([node("n0"), node("n1")])
    many = [device(f"d{i:03}") for i in range(LARGE)]
    there.add_all([device_class(), resource_slice("shared", *many, allNodes=True)])
    mine, first = plugin(), claimant(there, 1, request())

    def one() -> str:
        assert not any(where.any() for _, where in mine.filter(first, there.cluster))
        given = mine.given(first, there.cluster, 0)
        assert given is not None
        return given["c1"][0].id.device

    def hold(name: str) -> None:
        given = Allocation((AllocatedDevice("r", DeviceID("gpu.test", "shared", name)),), None)
        there.cluster.devices.assume("claim/held", given, ("default", "held"))

    assert one() == "d000"
    hold("d000")
    assert one() == "d001"
    for _ in range(FEW):
        hold("d001")
        hold("d002")
    assert one() == "d000"


READS_A_NUMBER = 'device.attributes["gpu.test"].number < 3'
UNREAD = [
    ([request("r", "gpu", READS_A_NUMBER)], {}),
    ([request(count=2)], {"constraints": [{"matchAttribute": "gpu.test/model"}]}),
    ([request("r", "gpu", 'device.capacity["gpu.test"].?memory.hasValue() || true')], {}),
]
READ = [
    ([request("r", "gpu", 'device.attributes["gpu.test"].uuid != "x"')], {}),
    ([request("r", "gpu", 'device.attributes["gpu.test"].exists(name, name == "uuid")')], {}),
    ([request(count=2)], {"constraints": [{"distinctAttribute": "gpu.test/uuid"}]}),
]


def unique(name: str, number: int, **more: Any) -> list[Object]:
    """Two devices that have an attribute which no other device in the cluster has."""
    return [device(each, uuid=f"{name}-{each}", model="x", number=number, **more) for each in "ab"]


@pytest.mark.parametrize(("asked", "spec"), UNREAD)
def test_what_no_request_reads_makes_no_node_a_kind_of_its_own(
    searches: list[Sequence[Any]], asked: list[Object], spec: Object
) -> None:
    """Devices have UUIDs and addresses: 300 nodes of two kinds are searched twice at most."""
    there = world([node(f"n{i}") for i in range(300)])
    slices = [resource_slice(f"n{i}", *unique(f"n{i}", i % 2), node=f"n{i}") for i in range(300)]
    there.add_all([device_class(), *slices])
    mine, made = plugin(), claimant(there, 1, *asked, **spec)
    assert not any(where.any() for _, where in mine.filter(made, there.cluster))
    assert len(searches) <= 2
    given = mine.given(made, there.cluster, 299)
    assert given is not None
    assert {one.id.pool for one in given["c1"]} == {"n299"}


@pytest.mark.parametrize(("asked", "spec"), READ)
def test_what_a_request_reads_tells_nodes_apart(
    searches: list[Sequence[Any]], asked: list[Object], spec: Object
) -> None:
    """By a selector, by a loop over all attributes, or by a constraint."""
    there = world([node(f"n{i}") for i in range(10)])
    there.add_all([device_class(), *(resource_slice(f"n{i}", *unique(f"n{i}", 1), node=f"n{i}") for i in range(10))])
    mine, made = plugin(), claimant(there, 1, *asked, **spec)
    assert not any(where.any() for _, where in mine.filter(made, there.cluster))
    assert len(searches) == 10


def test_an_attribute_that_is_no_version_breaks_what_does_not_read_it() -> None:
    """As in kube-scheduler, which reads all attributes of a device before it evaluates anything."""
    there = world([node("good"), node("bad")])
    good, bad = device("a", uuid="x"), device("a")
    good["attributes"]["v"], bad["attributes"] = {"version": "1.0.0"}, {"uuid": {"string": "y"}, "v": {"version": "no"}}
    there.add_all([device_class("gpu", "device.driver == 'gpu.test'")])
    there.add_all([resource_slice("good", good, node="good"), resource_slice("bad", bad, node="bad")])
    found = plugin().filter(claimant(there, 1), there.cluster)
    ((reason, where),) = [one for one in found if one[1].any()]
    assert where.tolist() == [False, True]
    assert reason.broken
    assert "on device gpu.test/bad/a" in reason.text


def test_many_classes_do_not_search_again_what_changed_for_all(searches: list[Sequence[Any]]) -> None:
    """Each of 25 classes searches a node without its first device once, however many such nodes there are."""
    classes = [device_class(f"gpu-{i}", 'device.driver == "gpu.test"') for i in range(25)]
    there = world([node(f"n{i}") for i in range(60)])
    there.add_all([*classes, *(resource_slice(f"n{i}", device("a"), device("b"), node=f"n{i}") for i in range(60))])
    mine = plugin()
    pods = [claimant(there, i, request("r", f"gpu-{i}")) for i in range(25)]
    for turn in range(50):
        mine.filter(pods[turn % 25], there.cluster)
        given = mine.given(pods[turn % 25], there.cluster, turn)
        assert given is not None
        taken_by(there, turn, given[f"c{turn % 25}"])
    assert len(searches) == 2 * 25


def test_a_request_that_nobody_can_serve_fails_its_pod() -> None:
    """With kube-scheduler's words, and the name of the claim."""
    there = world([node("n")])
    there.add_all([device_class()])
    made = claimant(there, 1, {"name": "r", "exactly": {"deviceClassName": "gpu", "allocationMode": "Some"}})
    ((reason, _),) = [one for one in plugin().filter(made, there.cluster) if one[1].any()]
    assert reason.text == "claim default/c1, request r: unsupported count mode Some"
    assert reason.broken
    nameless = claimant(there, 2, {"name": "r", "exactly": {"deviceClassName": ""}})
    with pytest.raises(
        PluginError, match='running PreFilter plugin "DynamicResources": request r: unsupported request'
    ):
        plugin().pre_filter(nameless, there.cluster)


def test_a_pool_without_devices_is_not_like_one_that_is_not_there_yet() -> None:
    """All devices of the first are none; those of the others can't be told (GatherPools)."""
    there = world([node("empty"), node("late"), node("twice")])
    there.add_all(
        [
            device_class("gpu", "true"),
            resource_slice("empty", node="empty"),
            resource_slice("late", node="late", count=2),
            resource_slice("twice", device("a"), device("a"), node="twice"),
        ]
    )
    found = plugin().filter(claimant(there, 1, request(allocationMode="All")), there.cluster)
    text = {row: reason.text_on(row) for reason, where in found for row in where.nonzero()[0].tolist()}
    assert text[0] == "cannot allocate all claims"
    assert "is currently being updated" in text[1]
    assert "is currently invalid" in text[2]


def test_a_pod_that_has_its_devices_scores_nothing_and_one_without_claims_takes_no_part() -> None:
    there = world([node("n"), device_class(), claim("c", status=allocated(result("a", "n")))])
    made, rows = plugin(), np.array([0])
    scores = [made.score(small.a_pod(one), there.cluster, rows) for one in (claiming(pod("p"), "c"), pod("q"))]
    assert scores == [0, None]


@pytest.mark.parametrize("place", [{"node": "n"}, {"allNodes": True}], ids=str)
def test_a_device_that_can_not_be_judged_fails_the_pod(place: Object) -> None:
    """In the node's own pool, or in one that all nodes reach."""
    there = world([node("n"), device_class("gpu", "true"), resource_slice("s", device("a"), pool="s", **place)])
    made = claimant(there, 1, request("r", "gpu", 'device.attributes["gpu.test"].never == "x"'))
    ((reason, _),) = [one for one in plugin().filter(made, there.cluster) if one[1].any()]
    assert "on device gpu.test/s/a: CEL runtime error: no such key: never" in reason.text_on(0)


def test_an_error_of_each_node_is_one_reason() -> None:
    """Each names the device: the attempt ends with that of the first node that is left, and no other text is made."""
    there = world([node(f"n{i}") for i in range(50)])
    there.add_all([device_class(), *(resource_slice(f"n{i}", device("a", number=i), node=f"n{i}") for i in range(50))])
    made = claimant(there, 1, request("r", "gpu", 'device.attributes["gpu.test"].never == "x"'))
    found = plugin().filter(made, there.cluster)
    assert len(found) < 10
    ((reason, where),) = [one for one in found if one[1].any()]
    assert reason.broken
    assert where.all()
    assert "on device gpu.test/n7/a: CEL runtime error: no such key: never" in reason.text_on(7)
    framework = build(default_configuration(), IN_TREE)["berth"]
    with pytest.raises(PluginError, match=r"on device gpu\.test/n0/a: CEL runtime error: no such key: never"):
        framework.decide(made, there.cluster)


@pytest.mark.parametrize(
    ("steps", "says"), [(0, "cannot allocate all claims"), (1000, "looking further found no other way")]
)
def test_looking_further_is_asked_for_by_the_arguments(steps: int, says: str) -> None:
    there = world([node("n"), device_class("gpu", "true"), claim("c")])
    asked = small.a_pod(claiming(pod("p"), "c"))
    found = small.plugin("DynamicResources", furtherSearchSteps=steps).filter(asked, there.cluster)
    assert [reason.text.removeprefix("cannot allocate all claims: ") for reason, where in found if where.any()] == [
        says
    ]


def test_a_claim_that_all_nodes_can_use_is_not_freed_for_one_that_is_gone() -> None:
    """A group that did not fit gives up what keeps it from some node; of a node that was deleted, nobody asks."""
    there = world([node("n0"), node("n1"), claim("c", status=allocated(result("a", "n0"), node="n0"))])
    made = there.decode(claiming(pod("p"), "c"))
    assert isinstance(made, Pod)
    failed = FailedGroup(group(), [made])
    assert [key for _, key in freed_by(plugin(), failed, there)] == [("default", "c")]
    there.cluster.drop_node("n1")
    assert freed_by(plugin(), failed, there) == []


def freed_by(mine: DynamicResources, failed: FailedGroup, there: World) -> list[tuple[str, tuple[str, str]]]:
    """(pod, claim) of each write."""
    found = mine.post_filter_group(failed, there.cluster)
    return [(one.name, write.key[1:]) for one, write in found.writes]


@pytest.mark.parametrize(("shared", "kept"), [(False, 6), (True, 3)])
def test_as_many_requests_are_kept_as_there_is_memory_for(
    shared: bool, kept: int, searches: list[Sequence[Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The memory is for five requests on five nodes, or for two whose nodes reach a pool together; and one comes."""
    monkeypatch.setattr(results, "_KEPT_BYTES", 25)
    for name, size in (("_A_ROW", 1), ("_A_ROW_OF_A_GROUP", 1), ("_A_FINDING", 0)):
        monkeypatch.setattr(results, name, size)
    there, mine = world([node(f"n{i}") for i in range(5)]), plugin()
    own = [resource_slice(f"n{i}", device("a"), node=f"n{i}") for i in range(5)]
    there.add_all([device_class(), *([resource_slice("all", device("a"), allNodes=True)] if shared else own)])
    pods = [claimant(there, i, request(f"r{i}")) for i in range(10)]
    for made in (*pods, *pods[10 - kept :]):
        mine.filter(made, there.cluster)
    assert len(searches) == 10
    mine.filter(pods[9 - kept], there.cluster)
    assert len(searches) == 11


@pytest.mark.parametrize(("after", "unusable"), [(600.0, False), (600.5, True)])
def test_devices_that_do_not_get_ready_in_time_can_not_be_used(after: float, unusable: bool) -> None:
    """Once the time is over, and not before (isClaimTimeout)."""
    there = world([node("n0"), node("n1")])
    made = claim("c", status=allocated(result("a", "n0", bindingConditions=["Ready"], bindingFailureConditions=["No"])))
    made["status"]["allocation"]["allocationTimestamp"] = "2026-01-01T00:00:00Z"
    there.add_all([made])
    there.cluster.devices.wall = datetime(2026, 1, 1, tzinfo=UTC).timestamp() + after
    where = unusable_rows(there.cluster.devices.claims["default", "c"], there.cluster, 600.0)
    assert (where is not None) is unusable
    assert where is None or where.all()


SHARED = {"_allowMultipleAllocations": True}
COUNTED = [{"name": "s", "counters": {"slots": {"value": "2"}}}]
USES = [{"counterSet": "s", "counters": {"slots": {"value": "1"}}}]
TAINT = {"_taints": [{"key": "k", "effect": "NoSchedule"}]}
MAKES: list[list[Object]] = [
    [device("a", model="x"), device("b", model="y"), device("c", model="x")],
    [device("c", model="x"), device("d", model="x")],
    [device("a", {"memory": "8Gi"}, **SHARED), device("b", model="x", **TAINT)],
    [
        device("a", model="x", _consumesCounters=USES),
        device("b", _consumesCounters=USES),
        device("c", _consumesCounters=USES),
    ],
    [],
]
ASKED = [
    [request()],
    [request(count=2)],
    [request("r", "gpu", 'device.attributes["gpu.test"].?model.orValue("") == "x"')],
    [request(capacity={"requests": {"memory": "3Gi"}})],
    [request(allocationMode="All")],
    [request("r", adminAccess=True)],
    [first_of("r", two=asks(count=2), one=asks())],
    [request(count=2, tolerations=[{"operator": "Exists"}])],
    [request("r"), request("s", "nic")],
    [request("r", "gpu", 'device.attributes["gpu.test"].?uuid.orValue("") < "n4"')],
    [request("r", "gpu", 'has(device.attributes["gpu.test"].uuid)')],
]


def random_world(dice: Random) -> World:
    """Nodes of a few makes, some of which reach a pool for all."""
    names = [f"n{i}" for i in range(8)]
    there = world([node(name) for name in names])
    found = [device_class(), device_class("nic", 'device.driver == "nic.test"')]
    for name in names:
        make = [dict(one) for one in dice.choice(MAKES)]
        for one in make:
            if dice.random() < 0.5:
                one["attributes"] = {**one.get("attributes", {}), "uuid": {"string": f"{name}-{dice.random()}"}}
        counted = any("consumesCounters" in one for one in make)
        if counted:
            found.append(resource_slice(f"{name}-s", pool=name, node=name, count=2, sharedCounters=COUNTED))
        found.append(resource_slice(name, *make, node=name, count=2 if counted else 1))
        if dice.random() < 0.5:
            found.append(resource_slice(f"nic-{name}", device("p"), node=name, driver="nic.test"))
    if dice.random() < 0.5:
        found.append(resource_slice("net", device("x", model="x"), device("y"), allNodes=True))
    if dice.random() < 0.5:
        found.append(resource_slice("more", *[device(f"d{k}", model="xy"[k % 2]) for k in range(6)], allNodes=True))
        found.append(resource_slice("nics", *[device(f"d{k}") for k in range(3)], allNodes=True, driver="nic.test"))
    there.add_all(found)
    return there


def searched(there: World, claims: list[ResourceClaim], row: int) -> Names | str | None:
    """What a search on the node alone finds; a text: what it fails with."""
    devices, place = there.cluster.devices, there.cluster.nodes.objects[row]
    assert place is not None
    search = Search(
        [requested_claim(f"\0{i}\0", one.spec, devices.classes) for i, one in enumerate(claims)],
        pools_of(place, devices),
        devices.allocated,
        Programs().selects,
        SearchSteps().capped("devices", 1 << 62),
    )
    if not search.run():
        return None
    return [[(one.alternative.name, one.entry.id.pool, one.entry.id.device) for one in each] for each in search.result]


@pytest.mark.parametrize("large", [64, 1])
@pytest.mark.parametrize("seed", range(40))
def test_each_node_gets_what_its_own_search_finds(seed: int, large: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """While devices are taken and given back, and slices change; also where pools are large with so many devices."""
    monkeypatch.setattr(pools_by_node, "LARGE", large)
    dice = Random(seed)
    there, mine = random_world(dice), plugin()
    kinds = [claimant(there, i, *asked) for i, asked in enumerate(ASKED)]
    held: list[str] = []
    for turn in range(30):
        which = dice.randrange(len(kinds))
        asking, cluster = kinds[which], there.cluster
        passes = [row for row in range(rows_of(there)) if not any(w[row] for _, w in mine.filter(asking, cluster))]
        spec = cluster.devices.claims["default", f"c{which}"]
        alone = {row: searched(there, [spec], row) for row in range(rows_of(there))}
        assert passes == [row for row, found in alone.items() if found is not None]
        for row in passes:
            given = mine.given(asking, cluster, row)
            assert given is not None
            assert [[(one.request, one.id.pool, one.id.device) for one in given[f"c{which}"]]] == alone[row]
        if passes and dice.random() < 0.7:
            given = mine.given(asking, cluster, dice.choice(passes))
            assert given is not None
            taken_by(there, turn, given[f"c{which}"])
            held.append(f"claim/h{turn}")
        elif held:
            cluster.devices.restore(held.pop(dice.randrange(len(held))))
        if dice.random() < 0.2:
            there.add_all([resource_slice("n0", *dice.choice(MAKES[:3]), node="n0")])
        if dice.random() < 0.1:
            there.add_all([resource_slice("more", *[device(f"e{k}") for k in range(dice.randrange(5))], allNodes=True)])


def test_a_pod_costs_the_same_in_a_large_pool_whose_first_devices_are_taken() -> None:
    """On all nodes that reach it together, and however many devices were taken before."""
    there = world([node(f"n{i}") for i in range(50)])
    devices = [device(f"d{k}", model="xy"[k % 2]) for k in range(2000)]
    there.add_all([device_class(), resource_slice("net", *devices, allNodes=True)])
    mine, found = plugin(), []
    made = claimant(there, 1, request("r", "gpu", 'device.attributes["gpu.test"].model == "y"'))
    for number in range(900):
        given = mine.given(made, there.cluster, number % 50)
        assert given is not None
        assert [one.id.device for one in given["c1"]] == [f"d{2 * number + 1}"]
        taken_by(there, number, given["c1"])
        if number in (10, 899):
            found.append(lines(lambda: mine.filter(made, there.cluster))[0])
    assert found[1] < 1.2 * found[0] < 1000
