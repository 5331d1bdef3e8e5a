"""What `make hostile` writes is legal, and its live part measures both schedulers."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bench.hostile import live, natives
from bench.hostile.legal import refusals
from bench.hostile.natives import SHAPES
from bench.hostile.recipe import found
from bench.hostile.row import Chosen
from bench.hostile.shapes import SCENARIOS
from bench.hostile.shapes.terms import apart, not_in
from bench.hostile.town import TENANT
from tests.controlplane.cluster import ControlPlane

GROUPS = (
    "--feature-gates=GenericWorkload=true,TopologyAwareWorkloadScheduling=true",
    "--runtime-config=scheduling.k8s.io/v1beta1=true",
)


@pytest.mark.timeout(600)
@pytest.mark.usefixtures("control_plane_binaries")
def test_the_api_server_takes_every_row() -> None:
    """Its validation and etcd's limit: whatever a row is made of, a tenant may write."""
    with ControlPlane(apiserver_args=GROUPS) as cluster:
        cluster.api.create("/api/v1/namespaces", {"metadata": {"name": TENANT}})
        assert list(refusals(cluster.api, [*SCENARIOS, *found()])) == []


@pytest.mark.timeout(300)
@pytest.mark.usefixtures("control_plane_binaries")
def test_both_schedulers_bind_what_others_create(monkeypatch: pytest.MonkeyPatch) -> None:
    """A mild attack, for the way the figures are taken: nobody is left out, and kube-scheduler stands beside it."""
    attack = live.ATTACKS[0]
    mild = replace(attack, make=lambda i: apart(not_in(3)), others=10, sizes=(50,))
    monkeypatch.setattr(live, "ATTACKS", (mild,))
    monkeypatch.setattr(live, "PLACED", 50)
    (row,) = live.rows(Chosen(), lambda _: None)
    assert row.costs["unbound_count"] == row.costs["kube_unbound_count"] == 0
    assert 0 < row.costs["others_p50_ms"] <= row.costs["others_ms"]
    assert 0 < row.costs["kube_p50_ms"] <= row.costs["kube_ms"]
    assert row.note == ""


@pytest.mark.timeout(300)
@pytest.mark.usefixtures("control_plane_binaries")
def test_the_dearest_native_policies_are_enforced(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every row's policies are native, and the API server lets its pods in: no limit of CEL refuses what is legal."""
    few = {name: shape._replace(namespaces=2) if shape.namespaces > 1 else shape for name, shape in SHAPES.items()}
    monkeypatch.setattr(natives, "SHAPES", few)
    monkeypatch.setattr(natives, "ROUNDS", 1)
    monkeypatch.setattr(natives, "EACH", 1)
    monkeypatch.setattr(natives, "PAIRS", 1)
    monkeypatch.setattr(natives, "BESIDE", 1)
    rows = list(natives.rows(Chosen(), lambda _: None))
    assert [row.name for row in rows] == [*SHAPES]
    for row in rows:
        assert row.objects > 1
        assert row.costs.keys() >= row.bounds.keys()
        assert row.costs["own_cpu_ms"] > 0
