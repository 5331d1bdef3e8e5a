"""Services, owners and kubelets at their largest: what is looked at is counted."""

from collections import Counter
from typing import Any

import pytest

from scheduler.model import wire
from scheduler.model.kinds import Decoder
from scheduler.model.pod import Pod
from scheduler.model.selectors import Requirement
from scheduler.plugins.pod_topology_spread.default_selector import default_selector
from scheduler.state.cluster import Cluster
from scheduler.state.selector_index import SelectorIndex
from scheduler.state.validate import validate
from tests.builders import node, pod
from tests.unit.work import calls


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
    expressions = [{"key": f"k{i}", "operator": "NotIn", "values": ["x"]} for i in range(30)]
    owner = selecting(decoder, "ReplicaSet", "set", {"matchExpressions": expressions})
    cluster.put_selecting(owner)
    looks.clear()
    for i in range(5):
        found = default_selector(owned(decoder, {"own": str(i)}), cluster)
        assert found is owner.selector
        assert hash(found)
    assert looks["__hash__"] <= len(expressions)


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
