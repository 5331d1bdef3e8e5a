"""The size that kube-scheduler is tested at: 5,000 nodes, 5,000 pods."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.controlplane import namespaces
from tests.controlplane.cluster import ControlPlane
from tests.integration import checks
from tests.integration.berth import Harbour
from tests.integration.objects import NODES, nodes, plain, pods_path

PODS = 5000
PATIENCE = 240.0


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.usefixtures("control_plane_binaries")
def test_five_thousand(tmp_path: Path) -> None:
    """All are bound, each with its event, no node is overfull, and memory stays under 400 MB."""
    harbour = Harbour(tmp_path)
    with ControlPlane() as own:
        own.api.create_many(NODES, nodes(PODS, "many"))
        namespace = namespaces.create(own.api)
        own.api.create_many(pods_path(namespace), plain(PODS, "many"))
        try:
            berth = harbour.berth(own, "many", synced=False)
            checks.wait_bound(own.api, namespace, PODS, PATIENCE)
            checks.wait_events(own.api, namespace, "Scheduled", PODS, PATIENCE)
            memory = berth.peak_memory_mb()
            assert berth.end()["bound"] == PODS
        finally:
            harbour.close()
        assert checks.overfull(own.api) == []
    assert memory < 400
