"""Services, owners and kubelets at their largest: what is looked at is counted."""

from collections import Counter
from typing import Any

import pytest

from podberth.cache import selected_pods
from podberth.cache.cluster import Cluster
from podberth.cache.label_index import SelectorIndex
from podberth.cache.selected_pods import PodClasses
from podberth.model import wire
from podberth.model.kinds import Decoder
from podberth.model.pod import Pod
from podberth.model.selectors import EVERYTHING, LabelSelector, Requirement
from podberth.model.terms import AffinityTerm
from podberth.plugins.pod_topology_spread import default_selector
from tests.builders import pod
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


def test_selectors_that_select_all_namespaces_are_kept_while_these_are_few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 5,000 namespaces a set is half a megabyte, and two dozen pods may have 3,000 such selectors."""
    monkeypatch.setattr(selected_pods, "_NAMES", 100)
    pods = PodClasses({f"n{i}": {"i": str(i)} for i in range(30)})
    for i in range(20):
        selector = LabelSelector((Requirement("i", "NotIn", frozenset((str(i),))),))
        term = AffinityTerm(EVERYTHING, frozenset(), selector, "host")
        assert len(list(pods.matching(term))) == 0
        assert len(pods.meant[selector]) == 29
        assert sum(map(len, pods.meant.values())) <= 100


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
