"""Policies without a webhook, on the real API server: generated requests get the evaluator's answers."""

from __future__ import annotations

import random

from tests.controlplane.cluster import Cluster
from tests.native.judge import Town

SEEDS = 6
"""Of 25 requests each. `python -m tests.native --seeds 0-199` tries more."""


def test_as_the_evaluator(control_plane: Cluster) -> None:
    seeds = random.sample(range(1_000_000), SEEDS)
    towns = [Town(control_plane.api, seed) for seed in seeds]
    for town in towns:
        town.open()
    differences = []
    for town in towns:
        town.wait()
        differences += list(town.differences())
        town.close()
    assert differences == []
