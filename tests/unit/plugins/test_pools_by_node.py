"""What a change for all devices costs at once, and that nothing of before it counts afterwards."""

from collections.abc import Iterator
from typing import Any

import pytest

from podberth.cache.devices import AllocatedDevices, Change
from podberth.explain.objects.world import World
from podberth.model.devices import AllocatedDevice, Allocation, DeviceID
from podberth.plugins.dynamic_resources.pools_by_node import PoolsByNode, Reading
from tests.builders import node
from tests.devices import device, resource_slice, taint_rule
from tests.unit.explain.story import world
from tests.unit.work import lines

NODES = 200
TAINT = {"key": "broken", "effect": "NoSchedule"}
SICK = {"key": "sick", "effect": "NoExecute"}
ON_A, ON_B, FOR_ALL, D1 = {"node": "a"}, {"node": "b"}, {"allNodes": True}, device("d1")
THREE = [device("d0"), D1, device("d2")]


def opened() -> tuple[World, PoolsByNode]:
    """200 nodes with a pool each, and one pool that all of them reach; all were asked for."""
    there = world([node(f"n{i}") for i in range(NODES)])
    there.add_all([resource_slice(f"n{i}", device("a"), device("b"), node=f"n{i}") for i in range(NODES)])
    there.add_all([resource_slice("shared", device("s"), allNodes=True)])
    pools = PoolsByNode()
    pools.follow(there.cluster)
    assert taints(there, pools) == [0] * NODES
    return there, pools


def taints(there: World, pools: PoolsByNode) -> list[int]:
    """How many taints the devices of each row have."""
    nodes = there.cluster.nodes
    found = []
    for row in range(NODES):
        of = nodes.objects[row]
        assert of is not None
        found.append(sum(len(one.taints) for pool in pools.of(row, of, there.cluster.devices) for one in pool.devices))
    return found


def test_a_taint_rule_costs_the_same_on_few_nodes_and_many() -> None:
    """What is known of each node is let go of when that node is asked for."""
    there, pools = opened()
    there.add_all([taint_rule("all", TAINT)])
    count, _ = lines(lambda: pools.follow(there.cluster))
    assert count < 50
    assert pools.entries()[:2] == (NODES, NODES + 1)
    assert taints(there, pools) == [3] * NODES
    assert pools.entries()[:2] == (NODES, NODES + 1)


def test_nothing_is_left_of_what_was_before() -> None:
    """Pools that are gone have no rows, and rules that are gone taint nothing."""
    there, pools = opened()
    there.add_all([taint_rule("all", TAINT)])
    pools.follow(there.cluster)
    assert taints(there, pools)[:2] == [3, 3]
    there.cluster.drop_device("DeviceTaintRule", "", "all")
    pools.follow(there.cluster)
    assert taints(there, pools) == [0] * NODES
    there.cluster.drop_device("ResourceSlice", "", "shared")
    pools.follow(there.cluster)
    taints(there, pools)
    assert pools.entries()[:2] == (NODES, NODES)
    assert {len(pools.rows_of(("gpu.test", f"n{i}"))) for i in range(NODES)} == {1}


def test_nothing_is_kept_of_the_state_of_a_pool_that_no_node_uses() -> None:
    """A driver publishes its slices again and again."""
    there, pools = world([node("a"), node("b")]), PoolsByNode()
    there.add_all([resource_slice("shared", device("s"), allNodes=True)])
    for turn in range(3):
        there.add_all([resource_slice("a", device("d", turn=turn), node="a")])
        pools.follow(there.cluster)
        for row in (0, 1):
            of = there.cluster.nodes.objects[row]
            assert of is not None
            for pool in pools.of(row, of, there.cluster.devices):
                pools.state_of(pool, there.cluster.devices, Reading(None))
        assert pools.entries() == (2, 2, 2)
    there.cluster.drop_node("a")
    pools.follow(there.cluster)
    assert pools.entries() == (1, 1, 1)


def test_nothing_is_kept_of_pools_of_which_nothing_is_taken() -> None:
    """Nodes come and go, each with a pool; a pool of which something is taken again is not taken for what it was."""
    allocated, seen = AllocatedDevices(), set[object]()
    for pool in ("a", "b", "c", "a"):
        allocated.put("c", Allocation((AllocatedDevice("r", DeviceID("gpu.test", pool, "d")),), None))
        seen.update(allocated.by_pool.items())
        allocated.put("c", None)
        assert allocated.by_pool == {}
    assert len(seen) == 4


@pytest.mark.parametrize(
    ("places", "local"),
    [([], True), ([ON_A], True), ([ON_A, ON_B], True), ([ON_A, FOR_ALL], False), ([FOR_ALL, ON_A], False)],
    ids=["none", "one node", "two nodes", "a node and all", "all and a node"],
)
def test_a_pool_is_local_where_all_of_its_slices_name_their_node(places: list[dict[str, Any]], local: bool) -> None:
    there, pools = world([node("a"), node("b")]), PoolsByNode()
    there.add_all([resource_slice(f"s{i}", D1, pool="p", count=2, **place) for i, place in enumerate(places)])
    pools.follow(there.cluster)
    assert pools.is_local(("gpu.test", "p")) is local


def test_what_each_device_says_of_its_nodes_is_read_for_each_node() -> None:
    """Though another slice of its pool is for all nodes."""
    there, pools = world([node("a"), node("b")]), PoolsByNode()
    own = resource_slice(
        "own", device("d1", _nodeName="a"), device("d2", _nodeName="b"), perDeviceNodeSelection=True, pool="p", count=2
    )
    there.add_all([own, resource_slice("all", device("d3"), allNodes=True, pool="p", count=2)])
    pools.follow(there.cluster)
    reached = []
    for row in (0, 1):
        of = there.cluster.nodes.objects[row]
        assert of is not None
        (pool,) = pools.of(row, of, there.cluster.devices)
        reached.append(sorted(one.id.device for one in pool.devices if one.reached))
    assert reached == [["d1", "d3"], ["d2", "d3"]]


def test_a_reader_that_comes_late_is_not_held_for_long() -> None:
    """More changes than are remembered cost it no more than a few: nodes are looked at when they are asked for."""
    there, pools = opened()
    for i in range(5_000):
        there.cluster.devices.log.touch(Change(("gpu.test", f"other-{i}"), rebuilt=False))
    there.add_all([resource_slice("n7", device("a", sick=True), node="n7")])
    count, _ = lines(lambda: pools.follow(there.cluster))
    assert count < 50
    of = there.cluster.nodes.objects[7]
    assert of is not None
    found = [len(pool.devices) for pool in pools.of(7, of, there.cluster.devices) if pool.id[1] == "n7"]
    assert found == [1]


GONE_RULE, GONE_SLICE = ("DeviceTaintRule", "rule"), ("ResourceSlice", "a")
Step = dict[str, Any] | tuple[str, str]
SCENES: dict[str, list[list[Step]]] = {
    "a rule for another pool": [
        [taint_rule("rule", SICK, pool="a"), taint_rule("rule", SICK, pool="b")],
        [resource_slice("a", D1, **ON_A)],
        [resource_slice("b", D1, **ON_B)],
    ],
    "a rule that goes": [
        [taint_rule("rule", SICK, pool="b"), GONE_RULE],
        [resource_slice("a", D1, **ON_A)],
        [resource_slice("b", D1, **ON_B)],
    ],
    "taints of both": [
        [taint_rule("rule", SICK)],
        [resource_slice("a", device("d1", _taints=[TAINT]), **ON_A)],
    ],
    "a rule for a driver, a pool and a device": [
        [taint_rule("rule", SICK, driver="gpu.test", pool="a", device="d1")],
        [resource_slice("a", *THREE, **ON_A)],
        [resource_slice("b", *THREE, **ON_B)],
    ],
    "slices that grow and shrink": [
        [taint_rule("rule", SICK, device="d1")],
        [resource_slice("a", D1, **ON_A), resource_slice("a", *THREE, **ON_A)],
        [resource_slice("b", *THREE, **ON_B), resource_slice("b", D1, **ON_B)],
    ],
    "a slice that goes": [
        [taint_rule("rule", SICK, driver="gpu.test")],
        [resource_slice("a", *THREE, **ON_A), GONE_SLICE],
        [resource_slice("b", *THREE, **ON_B)],
    ],
    "a rule for another driver": [
        [taint_rule("rule", SICK, driver="nic.test"), taint_rule("rule", SICK, driver="gpu.test")],
        [resource_slice("net", *THREE, allNodes=True)],
    ],
}
"""What happens, in chains whose steps keep their order: an object that is put, or (kind, name) of one that goes."""


def orders(chains: list[list[Step]]) -> Iterator[list[Step]]:
    """All orders in which the steps may be seen."""
    if not any(chains):
        yield []
    for i, chain in enumerate(chains):
        if chain:
            rest = [one[1:] if i == j else one for j, one in enumerate(chains)]
            yield from ([chain[0], *order] for order in orders(rest))


def seen(there: World, pools: PoolsByNode) -> list[list[tuple[str, str, list[str]]]]:
    """Of each node, the pool, name and taints of the devices that it reaches."""
    cluster, found = there.cluster, []
    pools.follow(cluster)
    for row in range(2):
        of = cluster.nodes.objects[row]
        assert of is not None
        entries = [one for pool in pools.of(row, of, cluster.devices) for one in pool.devices]
        found.append([(one.id.pool, one.id.device, [taint.key for taint in one.taints]) for one in entries])
    return found


@pytest.mark.parametrize("chains", SCENES.values(), ids=SCENES)
def test_the_order_in_which_slices_and_rules_are_seen_does_not_matter(chains: list[list[Step]]) -> None:
    """In the end, devices have the taints that they would have if nothing else had ever been there."""
    last: dict[str, Step] = {}
    for step in (step for chain in chains for step in chain):
        last[step[1] if isinstance(step, tuple) else step["metadata"]["name"]] = step
    anew = world([node("a"), node("b")])
    anew.add_all([step for step in last.values() if not isinstance(step, tuple)])
    wanted = seen(anew, PoolsByNode())
    assert any(wanted)
    for order in orders(chains):
        there, pools = world([node("a"), node("b")]), PoolsByNode()
        for step in order:
            if isinstance(step, tuple):
                there.cluster.drop_device(step[0], "", step[1])
            else:
                there.add_all([step])
            seen(there, pools)
        assert seen(there, pools) == wanted
