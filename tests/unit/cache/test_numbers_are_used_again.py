"""Numbers of terms that died are used again, in one turn: what that takes must not grow with how many there are."""

from typing import Any

import pytest

from podberth.cache import existing_terms
from podberth.cache.cluster import Cluster
from podberth.cache.validate import validate
from podberth.model.kinds import Decoder
from podberth.model.namespaced import Namespace
from podberth.model.wire import encode
from tests.builders import namespace, node, pod, term
from tests.unit.work import lines

EACH = 40


@pytest.fixture(autouse=True)
def _no_set_is_kept_idle(monkeypatch: pytest.MonkeyPatch) -> None:
    """Numbers of terms die with the last pod that has them."""
    monkeypatch.setattr(existing_terms, "IDLE", 0)


def _town(pods: int, salt: str = "") -> tuple[Cluster, Decoder]:
    """Placed pods with terms of which no two are alike: by value, by namespaces and by topology key."""
    cluster, decoder = Cluster(), Decoder()
    made = decoder.of_kind("Namespace")(encode(namespace("default")))
    assert isinstance(made, Namespace)
    cluster.put_namespace(made)
    cluster.put_node(decoder.node(encode(node("n1"))))
    for i in range(pods):
        cluster.put_pod(_carrier(decoder, i, salt))
    return cluster, decoder


def _carrier(decoder: Decoder, i: int, salt: str = "") -> Any:
    terms = [
        term(f"zz notin {salt}x{i}-{k}", f"key-{i}-{k}") | {"namespaces": ["default", f"{salt}-{i}-{k}"]}
        for k in range(EACH)
    ]
    return decoder.pod(encode(pod(f"p{i}", uid=f"p{i}", on="n1", apart=terms)))


def _reused(pods: int) -> int:
    cluster, _ = _town(pods)
    for i in range(pods - 2):
        cluster.drop_pod(f"p{i}")
    sets = cluster.affinity.terms.sets
    assert sets.index.dead == (pods - 2) * EACH
    taken, _ = lines(sets.reuse)
    assert sets.index.dead == 0
    return taken


def test_using_numbers_again_costs_the_same_for_many() -> None:
    """140,000 terms die at once when a tenant deletes its pods: that is no turn of 50 ms for all others."""
    assert _reused(40) <= _reused(4) + 20


def test_numbers_that_are_used_again_mean_the_new_terms() -> None:
    """Namespaces and topology keys that no term has any more go with the last one, and their numbers come back."""
    cluster, decoder = _town(6)
    sets = cluster.affinity.terms.sets
    for salt in ("a", "b", "c"):
        for i in range(6):
            cluster.drop_pod(f"p{i}")
        sets.reuse()
        assert (len(sets.key_codes), sets.index.places) == (0, 0)
        for i in range(6):
            cluster.put_pod(_carrier(decoder, i, salt))
        assert len(sets.index) == 6 * EACH, "no new numbers"
        assert validate(cluster) == []
