"""Rows whose attached volumes are known are counted again only for what matters to them."""

from collections import Counter

import pytest

from podberth.cache.cluster import Cluster
from podberth.cache.rebuild import WithoutPods
from podberth.cache.volumes import Attachments
from podberth.model import wire
from podberth.model.kinds import Decoder
from tests.builders import Object, node, pod
from tests.storage import claim, csi_node, using, volume
from tests.unit.work import calls

NODES = 200


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often a row was counted."""
    return calls(monkeypatch, (Attachments, "_count"))


def put(cluster: Cluster, *objects: Object) -> None:
    decoder = Decoder()
    for document in objects:
        made = decoder.of_kind(document["kind"])(wire.encode(document))
        cluster.storage.put(made)  # type: ignore[arg-type]  # all of them are storage objects


@pytest.fixture
def cluster() -> Cluster:
    """A claim that a pod on each node uses."""
    cluster, decoder = Cluster(), Decoder()
    for i in range(NODES):
        cluster.put_node(decoder.node(wire.encode(node(f"n{i}"))))
        put(cluster, csi_node(f"n{i}", csi_test=5))
    put(cluster, claim("shared", modes="RWX", to="pv"), volume("pv"))
    for i in range(NODES):
        cluster.put_pod(decoder.pod(wire.encode(using(pod(f"p{i}", uid=f"p{i}", on=f"n{i}"), "shared"))))
    return cluster


def test_another_owner_of_a_shared_claim_has_no_row_counted(cluster: Cluster, counted: Counter[str]) -> None:
    """It matters to the pod for which a claim was made, and to no other."""
    attached = cluster.storage.attached
    assert attached.counts("csi.test").sum() == NODES
    counted.clear()
    put(cluster, claim("shared", modes="RWX", to="pv", owner="x"))
    assert attached.counts("csi.test").sum() == NODES
    assert counted["_count"] == 0


def test_a_claim_that_is_made_for_a_pod_counts_once_it_is_its_own(cluster: Cluster) -> None:
    """Until then it belongs to somebody else."""
    decoder = Decoder()
    put(cluster, claim("own-data", to="pv-own", owner="other"), volume("pv-own"))
    cluster.put_pod(decoder.pod(wire.encode(using(pod("own", uid="own", on="n0"), "+data"))))
    attached = cluster.storage.attached
    assert attached.counts("csi.test")[0] == 1
    put(cluster, claim("own-data", to="pv-own", owner="own"))
    assert attached.counts("csi.test")[0] == 2


def test_a_copy_counts_volumes_with_its_rows(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not all of them in the turn in which it is ready; and they are those of the cluster without the pods that go."""
    charged = calls(monkeypatch, (Attachments, "charge"))
    copy = WithoutPods(cluster, lambda found: found.name == "p7")
    while not copy.go_on(10):
        assert charged["charge"] <= 10
        charged.clear()
    charged.clear()
    made = copy.cluster()
    assert charged["charge"] == 0
    assert made.storage.attached.counts("csi.test").tolist() == [int(i != 7) for i in range(NODES)]
    assert sum(made.storage.references.values()) == NODES - 1
