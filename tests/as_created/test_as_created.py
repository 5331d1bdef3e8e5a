"""A few of the cases that `make as-created` runs: those in which something was wrong once, and one of each kind."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.as_created.act import act
from tests.as_created.town import Town

FOUND = (1, 6, 17, 18, 25, 26, 99, 104, 296)
"""Default spreading; a StatefulSet that is there; nobody's refusals; a managed CronJob; a hash of its own; two quotas;
a paused Deployment; amounts of a quota; the order of a node selector."""
OTHERS = (3, 16, 38, 49, 62)
"""A DaemonSet; messages; a preemption; a StatefulSet in turn; a Deployment and its offer."""


@pytest.fixture(scope="module")
def town(control_plane_binaries: Path, controllers: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Town]:
    """One cluster for all cases."""
    with Town(tmp_path_factory.mktemp("town")) as town:
        yield town


@pytest.mark.timeout(180)
@pytest.mark.parametrize("seed", [*FOUND, *OTHERS])
def test_as_foretold(seed: int, town: Town, tmp_path: Path) -> None:
    """The cluster makes of each file what simulate says."""
    assert act(town, seed, tmp_path).differences == []
