"""The files of kube-scheduler's scheduler_perf as they are: every short workload, on a real control plane."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from msgspec.structs import replace

from bench.__main__ import arguments
from bench.contenders import GROUP_CLAIMS, NOTHING, TOPOLOGY, BerthContender
from podberth.kube.client import Client
from podberth.kube.kubeconfig import from_kubeconfig
from podberth.testing.workloads.driver import Driver
from podberth.testing.workloads.scheduler_perf import Case, chosen_by, read_cases
from podberth.testing.workloads.workload import Mode
from tests.controlplane.build import VERSION
from tests.controlplane.cluster import ControlPlane
from tests.controlplane.golang import module

SHORT = "integration-test,short,-performance"
"""What Kubernetes' own integration tests run of them."""
UNKNOWN = {"DRADeviceCompatibilityGroups", "DRAListTypeAttributes"}
"""Alpha gates that Berth has no part of: pods that need them stay unbound."""


def shipped(labels: str = SHORT) -> list[Case]:
    """The workloads of Kubernetes' own files that have these labels."""
    directory = module("k8s.io/kubernetes", VERSION) / "test/integration/scheduler_perf"
    files = sorted(directory.rglob("performance-config.yaml"))
    return [case for file in files for case in read_cases(file.read_bytes(), file.parent, chosen_by(labels, []))]


@pytest.mark.timeout(600)
@pytest.mark.usefixtures("control_plane_binaries")
def test_short_workloads_run_unchanged(tmp_path: Path) -> None:
    """Each binds all that it measures, with the gates that it names, and nothing is left for the next."""
    workloads = [case.workload for case in shipped() if not UNKNOWN & set(case.workload.gates)]
    assert len(workloads) > 60
    bound, wanted = {}, {}
    with ControlPlane(apiserver_args=arguments(workloads)) as cluster:
        contender = BerthContender(cluster, tmp_path)
        contender.workload = replace(NOTHING, gates=(TOPOLOGY, GROUP_CLAIMS))
        berth = contender.start()
        kubeconfig = cluster.kubeconfig(tmp_path / "driver.kubeconfig")

        async def run() -> None:
            async with Client(from_kubeconfig([str(kubeconfig)], None), qps=-1, timeout=120.0) as client:
                for number, workload in enumerate(workloads):
                    driver = Driver(client, workload, f"perf-{number}", makes_claims=True)
                    timing = await driver.measure(contender.scheduler_name, Mode.STREAM, check=berth.check)
                    await driver.tear_down()
                    wanted[workload.name], bound[workload.name] = timing.pods, len(timing.bound)

        asyncio.run(run())
        left = cluster.api.list("/api/v1/nodes")
        berth.end()
    assert bound == wanted
    assert left == []
