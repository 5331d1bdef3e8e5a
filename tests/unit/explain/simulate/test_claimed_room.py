"""Capacity for pods with claims of their own: devices, volumes, and extended resources that devices serve."""

from podberth.explain.simulate.simulation import Simulation
from tests import storage
from tests.builders import Object, node, pod
from tests.devices import claim_template, device, device_class, resource_slice, templated
from tests.unit.explain.simulate.test_capacity import asked, limits, on_nodes
from tests.unit.explain.story import framework, world

GPU = device_class("gpu", 'device.driver == "gpu.test"')
RESOURCE = "example.com/gpu"
OWN: Object = {
    "metadata": {"name": "data"},
    "spec": {
        "storageClassName": "fast",
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}},
    },
}


def crowd(count: int) -> list[Object]:
    """Nodes with four devices each."""
    found: list[Object] = [GPU, claim_template()]
    for i in range(count):
        found += [node(f"n{i}", "8"), resource_slice(f"n{i}", *[device(f"d{k}") for k in range(4)], node=f"n{i}")]
    return found


def test_claims_for_devices() -> None:
    """One more node has devices of its own."""
    answer = asked(templated(pod("t", "1"), "t"), *crowd(5))
    assert on_nodes(answer) == {f"n{i}": 4 for i in range(5)}
    assert limits(answer) == {"cannot allocate all claims": 5}
    assert [each.adds for each in answer.one_more] == [4]
    assert limits(asked(templated(pod("t", "3"), "t"), *crowd(2))) == {"Insufficient cpu": 2}


def test_a_node_that_is_kept_for_another_pod() -> None:
    """It would take the next pod, whose claim has no devices yet."""
    there = [*crowd(2), pod("q", "8", priority=10, status={"nominatedNodeName": "n1"})]
    assert limits(asked(templated(pod("t", "1"), "t"), *there)) == {
        "cannot allocate all claims": 1,
        "Insufficient cpu": 1,
        "it is kept for default/q": 1,
    }


def test_a_device_that_all_nodes_reach_is_given_once() -> None:
    there = [*crowd(2), resource_slice("net", device("x"), allNodes=True)]
    assert asked(templated(pod("t", "1"), "t"), *there).fits == 9


def test_claims_for_volumes() -> None:
    there = [storage.storage_class("fast", "csi.test"), node("a", "9"), storage.csi_node("a", csi_test=3)]
    answer = asked(pod("t", "1"), *there, volumeClaimTemplates=[OWN])
    assert (answer.fits, limits(answer)) == (3, {"node(s) exceed max volume count": 1})


def test_extended_resources() -> None:
    """One node has them itself, one has devices that serve them, and one neither."""
    there = [device_class("gpu", 'device.driver == "gpu.test"', extendedResourceName=RESOURCE)]
    there += [node("a", "9"), node("b", "9", others={RESOURCE: "3"}), node("c", "9")]
    there += [resource_slice("a", device("d"), device("e"), node="a")]
    assert on_nodes(asked(pod("t", "1", others={RESOURCE: "1"}), *there)) == {"a": 2, "b": 3}


def test_a_pod_that_waits_for_its_volume_may_lose_its_node() -> None:
    """To a pod of a higher priority. Then it waits, and is in one of the two places only."""
    there = world([node("n", "4"), storage.storage_class("fast", "csi.test"), storage.claim("c", storage_class="fast")])
    simulation = Simulation({"berth": framework()}, there.cluster)
    for made in (storage.using(pod("low", "3"), "c"), pod("high", "3", priority=1)):
        simulation.put(there.decode(made))
        simulation.settle()
    assert simulation.where("default/low") is None
    assert (list(simulation.bound), list(simulation.failed)) == (["default/high"], ["default/low"])
