"""Policies by the API server itself, by the webhook, and by the evaluator: on the real API server, one answer.

The webhook is the real admission server over TLS. `python -m tests.native --seeds 0-199` asks 5,000 times.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.controlplane.cluster import ControlPlane
from tests.integration.admission import Policed
from tests.native import questions
from tests.native.__main__ import start
from tests.native.town import Town

SEEDS = 4
"""Of 25 requests each; other ones each time, and a difference names its seed."""
CLASSES = 40
"""Of the pods whose class is recorded; `--recorded` asks about all."""


@pytest.mark.parametrize("stamp", [True, False], ids=["stamped", "not stamped"])
def test_three_ways(control_plane_binaries: Path, tmp_path: Path, stamp: bool) -> None:
    chance = random.Random()
    classes = questions.classes()
    sets = [
        *questions.generated(chance.sample(range(1_000_000), SEEDS)),
        *questions.examples(),
        classes._replace(requests=chance.sample(classes.requests, CLASSES)),
    ]
    with ControlPlane() as cluster:
        policed = Policed(cluster, tmp_path)
        try:
            start(policed, sets, stamp=stamp)
            towns = [Town(policed, one, stamp) for one in sets]
            for town in towns:
                town.open()
            policed.wait_known()
            differences = [line for town in towns for line in town.run()]
        finally:
            policed.unregister()
    assert sum(len(town.requests) for town in towns) >= SEEDS * 25 + CLASSES
    assert differences == []
