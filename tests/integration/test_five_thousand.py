"""The size that kube-scheduler is tested at: 5,000 nodes, 5,000 pods."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench import first_table
from tests.controlplane.cluster import ControlPlane
from tests.integration import checks

PODS = 5000


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.usefixtures("control_plane_binaries")
def test_five_thousand(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """All are bound, no node is overfull, memory stays under 400 MB; the table beside kube-scheduler is printed."""
    with ControlPlane() as own:
        rows = first_table.compare(own, PODS, PODS, tmp_path)
        overfull = checks.overfull(own.api)
    with capfd.disabled():
        print(f"\n{first_table.table(*rows)}")
    assert [row.bound for row in rows] == [PODS, PODS]
    assert overfull == []
    assert rows[1].memory_mb < 400
