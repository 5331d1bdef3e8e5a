"""Kubernetes' own end-to-end tests with Berth: what fits into CI. `make e2e` runs all, with kube-scheduler beside."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.run import run
from tests.e2e.suites import SUITES


@pytest.mark.timeout(1800)  # a suite has a limit of its own, and a busy machine takes a minute to start a cluster
@pytest.mark.parametrize("suite", ["ci", "workload"])
def test_what_kube_scheduler_passes(suite: str, control_plane_binaries: Path, end_to_end_tests: Path) -> None:
    """Berth passes each test of the suite that kube-scheduler passed when it was recorded."""
    rows = run([SUITES[suite]], ["berth"])[suite]
    assert rows
    assert not [row for row in rows if row.fault]
