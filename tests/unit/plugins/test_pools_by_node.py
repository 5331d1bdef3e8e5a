"""What a change for all devices costs at once, and that nothing of before it counts afterwards."""

from scheduler.plugins.dynamic_resources.pools_by_node import PoolsByNode
from scheduler.whatif.world import World
from tests.builders import node
from tests.devices import device, resource_slice, taint_rule
from tests.unit.whatif.story import world
from tests.unit.work import lines

NODES = 200
TAINT = {"key": "broken", "effect": "NoSchedule"}


def opened() -> tuple[World, PoolsByNode]:
    """200 nodes with a pool each, and one pool that all of them reach; all were asked for."""
    there = world([node(f"n{i}") for i in range(NODES)])
    there.add_all([resource_slice(f"n{i}", device("a"), device("b"), node=f"n{i}") for i in range(NODES)])
    there.add_all([resource_slice("shared", device("s"), allNodes=True)])
    pools = PoolsByNode()
    pools.renew(there.cluster)
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
    count, _ = lines(lambda: pools.renew(there.cluster))
    assert count < 50
    assert pools.entries() == (NODES, NODES + 1)
    assert taints(there, pools) == [3] * NODES
    assert pools.entries() == (NODES, NODES + 1)


def test_nothing_is_left_of_what_was_before() -> None:
    """Pools that are gone have no rows, and rules that are gone taint nothing."""
    there, pools = opened()
    there.add_all([taint_rule("all", TAINT)])
    pools.renew(there.cluster)
    assert taints(there, pools)[:2] == [3, 3]
    there.cluster.drop_device("DeviceTaintRule", "", "all")
    pools.renew(there.cluster)
    assert taints(there, pools) == [0] * NODES
    there.cluster.drop_device("ResourceSlice", "", "shared")
    pools.renew(there.cluster)
    taints(there, pools)
    assert pools.entries() == (NODES, NODES)
    assert {len(pools.rows_of(("gpu.test", f"n{i}"))) for i in range(NODES)} == {1}
