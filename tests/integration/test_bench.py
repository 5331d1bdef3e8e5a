"""`make bench` and `make bench-ceiling` in small: some workloads, all contenders, and a table."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.__main__ import arguments, load
from bench.contenders import CONTENDERS
from bench.goals import goals, lines
from bench.null_server import NullServer
from bench.run import Row, Runner
from bench.table import tables
from tests.controlplane.cluster import ControlPlane

EVERYBODY = {"kube", "kube-all", "berth", "binder"}
WITH_DEVICES = {"kube", "kube-all", "berth", "claim-binder"}


@pytest.mark.timeout(300)
@pytest.mark.usefixtures("control_plane_binaries")
def test_in_small(tmp_path: Path) -> None:
    """Everybody binds everything, costs something, and is in the table."""
    workloads = load("spread,preemption,dra-steady,dra-extended,gangs,racks,events-podupdate,gangs-claimtemplate")
    with ControlPlane(apiserver_args=arguments(workloads)) as cluster:
        contenders = [kind(cluster, tmp_path) for kind in CONTENDERS]
        runner = Runner(cluster, tmp_path, lambda _: None)
        rows: list[Row] = []
        for workload in workloads:
            rows += runner.run(workload.scaled(0.01), contenders)
    found = lines(rows)
    assert [(line.workload, str(line.mode), set(line.rows)) for line in found] == [
        ("spread", "backlog", EVERYBODY),
        ("spread", "stream", EVERYBODY - {"kube-all"}),
        ("preemption", "stream", EVERYBODY - {"binder", "kube-all"}),
        ("dra-steady", "stream", WITH_DEVICES - {"kube-all"}),
        ("dra-extended", "backlog", WITH_DEVICES),
        ("gangs", "backlog", EVERYBODY),
        ("gangs", "stream", EVERYBODY - {"kube-all"}),
        ("racks", "backlog", EVERYBODY),
        ("events-podupdate", "stream", {"kube", "berth"}),
        ("gangs-claimtemplate", "backlog", {"kube", "kube-all", "berth"}),
    ]
    for row in rows:
        assert (row.figures.bound, row.events_missing) == (row.figures.pods, 0), row
        assert row.cpu_ms is not None and row.memory_mb > 10
        assert row.contender in ("binder", "claim-binder") or (
            row.decision_p50 is not None and row.decision_p99 is not None
        )
    assert "| spread, backlog" in tables(found, goals())


@pytest.mark.timeout(300)
@pytest.mark.usefixtures("control_plane_binaries")
def test_ceiling_in_small(tmp_path: Path) -> None:
    """On the server that does almost nothing everybody binds everything too, in both of its languages."""
    with NullServer() as cluster:
        contenders = [kind(cluster, tmp_path) for kind in CONTENDERS]
        runner = Runner(cluster, tmp_path, lambda _: None)
        rows: list[Row] = []
        for workload in load("basic,csi,gangs-basic,racks-512"):
            rows += runner.run(workload.scaled(0.01), contenders)
        # Victims are gone at once here. Where kube-scheduler finds that the last victim is deleted already, no event of
        # that comes any more after its preemption has ended, and the pod waits for minutes: in one of six runs.
        others = [one for one in contenders if one.key not in ("kube", "kube-all")]
        for workload in load("preemption"):
            rows += runner.run(workload.scaled(0.01), others)
        assert cluster.api.list("/api/v1/pods") == [], "the runner has removed what it made"
    assert {row.workload for row in rows} == {"basic", "csi", "preemption", "gangs-basic", "racks-512"}
    for row in rows:
        assert (row.figures.bound, row.events_missing) == (row.figures.pods, 0), row
    assert "≥ 12" in tables(lines(rows), goals(ceiling=True))
