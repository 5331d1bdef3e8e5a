"""What a new kind of pods costs a pod with many terms that has been asked about before."""

import pytest

from scheduler.model import wire
from scheduler.state.label_index import Found
from scheduler.state.weights import Weights
from tests.builders import pod, term
from tests.unit.work import lines

from .test_terms_cost import hostile, look, town


def test_a_new_kind_of_pods_is_weighed_without_a_look_at_each_term() -> None:
    """What it counts for under thousands of terms is added up in one go, as it is charged."""
    cluster, decoder = town(50)
    asks = hostile(decoder, "rather_apart", 3_000)
    for i in range(2):  # the second time, the terms are indexed
        cluster.put_pod(decoder.pod(wire.encode(pod(f"new-{i}", uid=f"new-{i}", on="n1", labels={"zz": f"new-{i}"}))))
        look(cluster, asks)
    cluster.put_pod(decoder.pod(wire.encode(pod("newest", uid="newest", on="n2", labels={"zz": "newest"}))))
    count, _ = lines(lambda: look(cluster, asks))
    assert count < 1_000


def test_what_many_terms_select_alike_is_added_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Terms that no label of a placed pod contradicts select all of them, and are added up together."""
    cluster, decoder = town(50)
    terms = [(1, term(f"no-pod-has-it notin x{i}", "host", namespaces_with="")) for i in range(100)]
    asks = decoder.pod(wire.encode(pod("hostile", uid="hostile", rather_apart=terms)))
    added: list[int] = []
    add = Weights.add

    def counted(of: Weights, found: Found, weight: int) -> None:
        added.append(weight)
        add(of, found, weight)

    monkeypatch.setattr(Weights, "add", counted)
    look(cluster, asks)
    assert added == [-100]
