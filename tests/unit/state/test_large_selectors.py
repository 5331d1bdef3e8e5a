"""Services, owners and kubelets at their largest: what is looked at is counted."""

from collections import Counter
from contextlib import suppress
from typing import Any

import pytest

from scheduler.framework.events import ClusterEvent
from scheduler.model import wire
from scheduler.model.kinds import Decoder
from scheduler.model.pod import Pod
from scheduler.model.selectors import Requirement
from scheduler.plugins.pod_topology_spread.default_selector import default_selector
from scheduler.plugins.pod_topology_spread.plugin import PodTopologySpread
from scheduler.state.cluster import Cluster
from scheduler.state.effort import SliceOver
from scheduler.state.selector_index import SelectorIndex
from scheduler.state.validate import validate
from tests.builders import node, pod
from tests.unit.work import calls, lines


def selecting(decoder: Decoder, kind: str, name: str, selector: Any) -> Any:
    """A Service or a set in the namespace default."""
    document = {"metadata": {"name": name, "namespace": "default", "uid": name}, "spec": {"selector": selector}}
    return decoder.of_kind(kind)(wire.encode(document))


def owned(decoder: Decoder, labels: dict[str, str]) -> Pod:
    """A pod of the ReplicaSet `set`."""
    made = pod("owned", uid="owned", labels=labels)
    made["metadata"]["ownerReferences"] = [
        {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "set", "uid": "set", "controller": True}
    ]
    return decoder.pod(wire.encode(made))


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often requirements are hashed, and selectors indexed."""
    return calls(monkeypatch, (Requirement, "__hash__"), (SelectorIndex, "add"))


def test_an_owners_selector_is_taken_as_it_is(looks: Counter[str]) -> None:
    """Not made, hashed and matched anew for each pod of the owner."""
    cluster, decoder = Cluster(), Decoder()
    expressions = [{"key": f"k{i}", "operator": "NotIn", "values": ["x"]} for i in range(2_000)]
    owner = selecting(decoder, "ReplicaSet", "set", {"matchExpressions": expressions})
    owner.read(lambda _: None)
    cluster.put_selecting(owner)
    looks.clear()
    for i in range(5):
        found = default_selector(owned(decoder, {"own": str(i)}), cluster)
        assert found is owner.selector
        assert hash(found)
    assert looks["__hash__"] == 0


def test_a_service_of_many_labels_is_not_indexed(looks: Counter[str]) -> None:
    """It is asked; and one that changes or goes is not asked any more."""
    cluster, decoder = Cluster(), Decoder()
    large = {f"k{i}": "v" for i in range(1_000)}
    cluster.put_selecting(selecting(decoder, "Service", "large", large))
    assert looks["add"] == 0
    names = [service.name for service in cluster.services.selecting("default", {**large, "more": "v"})]
    assert names == ["large"]
    assert cluster.services.selecting("default", {"k0": "v"}) == []
    cluster.put_selecting(selecting(decoder, "Service", "large", {"k0": "v"}))
    assert [service.name for service in cluster.services.selecting("default", {"k0": "v"})] == ["large"]
    cluster.drop_selecting("Service", "default", "large")
    assert cluster.services.selecting("default", large) == []


def test_what_thousands_of_services_say_of_a_pod_is_charged_and_known_the_next_time() -> None:
    """A part at a time, and until one of them changes."""
    cluster, decoder = Cluster(), Decoder()
    labels = {f"l{i}": "v" for i in range(1_000)}
    for i in range(1_000):
        cluster.put_selecting(selecting(decoder, "Service", f"s{i}", {f"l{i}": "v"}))
    asks = owned(decoder, labels)
    slices = 0
    while True:
        slices += 1
        assert slices < 100
        cluster.effort.begin(100)
        with suppress(SliceOver):
            found = default_selector(asks, cluster)
            break
    cluster.effort.end()
    assert slices > 2
    cluster.effort.begin(100)
    assert default_selector(asks, cluster) is found
    assert cluster.effort.end() == 0
    assert found is not None
    assert len(found.requirements) == 1_000
    cluster.drop_selecting("Service", "default", "s0")
    fewer = default_selector(asks, cluster)
    assert fewer is not None
    assert len(fewer.requirements) == 999


def test_many_resources_of_one_node_copy_few_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Room for the resources of all nodes is not copied each time that it is doubled."""
    cluster, decoder = Cluster(), Decoder()
    for i in range(100):
        cluster.put_node(decoder.node(wire.encode(node(f"n{i}"))))
    tables = set()
    put = cluster.nodes.offer

    def offering(name: str) -> int:
        index = put(name)
        tables.add(len(cluster.nodes.allocatable))
        return index

    monkeypatch.setattr(cluster.nodes, "offer", offering)
    for turn in range(3):
        others = {f"example.com/r{turn}-{i}": str(1 + i) for i in range(250)}
        made = node("n0")
        made["status"]["allocatable"] |= others
        cluster.put_node(decoder.node(wire.encode(made)))
        row = cluster.nodes.row_of("n0")
        assert row is not None
        for i in range(250):
            index = cluster.nodes.resources[f"example.com/r{turn}-{i}"]
            assert cluster.nodes.allocatable[index, row] == 1 + i
        assert validate(cluster) == []
    assert len(tables) <= 6
    assert max(tables) == 512


def test_what_is_added_to_a_large_selector_is_worked_out_by_itself() -> None:
    """Own values by matchLabelKeys, and a Service's labels: an event, or each change of a Service, may ask for it."""
    decoder, many = Decoder(), 5_000
    labels = {"app": "a", "own": "1"}
    asks = pod("asks", labels=labels)
    constraint = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "matchLabelKeys": ["own"]}
    constraint["labelSelector"] = {"matchLabels": {f"k{i}": "" for i in range(many)}}
    asks["spec"]["topologySpreadConstraints"] = [constraint]
    spread = decoder.pod(wire.encode(asks))
    spread.shape.read(lambda _: None)
    (one,) = spread.shape.spread
    assert lines(lambda: one.selector_for(labels).matches({"app": "b"}))[0] < many
    plugin = PodTopologySpread(PodTopologySpread.Args())
    other = decoder.pod(wire.encode(pod("other", labels={"own": "2"})))
    assert lines(lambda: plugin.pod_hint(spread, ClusterEvent.POD_PLACED, other))[0] < 50
    cluster = Cluster()
    expressions = [{"key": f"k{i}", "operator": "DoesNotExist"} for i in range(many)]
    owner = selecting(decoder, "ReplicaSet", "set", {"matchExpressions": expressions})
    owner.read(lambda _: None)
    cluster.put_selecting(owner)
    cluster.put_selecting(selecting(decoder, "Service", "web", {"app": "a"}))
    owns = owned(decoder, labels)

    def merged() -> bool:
        found = default_selector(owns, cluster)
        assert found is not None
        assert len(found.requirements) == many + 1
        return found.matches({"app": "a"}) and not found.matches({"app": "a", "k7": ""})

    count, right = lines(merged)
    assert right
    assert count < many
