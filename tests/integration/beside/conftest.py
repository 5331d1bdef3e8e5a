"""One control plane with a Job controller and Kueue for all tests of the folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.controlplane import namespaces
from tests.controlplane.cluster import POD_GROUPS, ControlPlane
from tests.e2e.cluster import controller_manager
from tests.integration.beside.manager import Queued, running


@pytest.fixture(scope="module")
def queued(
    control_plane_binaries: Path, controllers: Path, kueue: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Queued]:
    """Kueue beside a Job controller."""
    with ControlPlane(audit=True, apiserver_args=POD_GROUPS) as cluster:
        jobs = controller_manager(cluster, "--controllers=job-controller")
        jobs.start()
        cluster.processes.append(jobs)
        with running(kueue, cluster, tmp_path_factory.mktemp("kueue")) as found:
            yield found


@pytest.fixture
def team(queued: Queued) -> str:
    """A namespace for one test, which goes with the control plane: Kueue's finalizers are its own business."""
    return namespaces.create(queued.cluster.api)
