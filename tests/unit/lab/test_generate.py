"""Worlds that a seed makes."""

import json
import math

import numpy as np
import pytest

from podberth.framework.config import SchedulerConfiguration, default_configuration
from podberth.lab import run
from podberth.lab.generate import DAY, bursts, daily, heavy_tailed, mixed, poisson

CONFIGURATION: SchedulerConfiguration = default_configuration()


def test_the_same_seed_makes_the_same_world() -> None:
    """And another one another."""
    assert mixed(pods=50, seed=3) == mixed(pods=50, seed=3)
    assert mixed(pods=50, seed=3) != mixed(pods=50, seed=4)


@pytest.mark.parametrize("arrivals", ["poisson", "daily", "bursts"])
def test_a_world_runs(arrivals: str) -> None:
    """Services stay, jobs end, gangs start together, devices and priorities are asked for."""
    world = mixed(nodes=10, pods=80, seed=1, arrivals=arrivals, gangs=0.2, gpu_nodes=0.5, load=0.3)  # type: ignore[arg-type]
    pods = [json.loads(each.pod) for each in world.arrivals]
    kinds = [pod["metadata"]["name"].partition("-")[0] for pod in pods]
    assert {"service", "job", "member"} <= set(kinds)
    assert all(math.isinf(each.lasts) == (kind == "service") for each, kind in zip(world.arrivals, kinds, strict=True))
    assert {pod["spec"].get("priority", 0) for pod in pods} == {0, 100, 1000}
    groups = {pod["spec"]["schedulingGroup"]["podGroupName"] for pod in pods if "schedulingGroup" in pod["spec"]}
    assert len(groups) == len(world.changes) > 1
    assert run(world, CONFIGURATION).summary["bound_share"] == 1.0


def test_processes() -> None:
    """Sorted, as many as were asked for; at night fewer, in bursts close together, and few durations take most time."""
    dice = np.random.default_rng(0)
    for times in (poisson(dice, 2000, DAY), daily(dice, 2000, DAY), bursts(dice, 2000, DAY)):
        assert len(times) == 2000
        assert np.all(np.diff(times) >= 0)
    noon = daily(dice, 2000, DAY) % DAY
    assert np.count_nonzero((noon > DAY / 4) & (noon < 3 * DAY / 4)) > 1400
    assert np.median(np.diff(bursts(dice, 2000, DAY))) < np.median(np.diff(poisson(dice, 2000, DAY))) / 3
    lasts = np.sort(heavy_tailed(dice, 2000, 600))
    assert lasts[1000] == pytest.approx(600, rel=0.2)
    assert lasts[1600:].sum() > 0.7 * lasts.sum()


def test_refused() -> None:
    """Shares are shares."""
    for services in (1.5, 0.95):  # a tenth are in gangs
        with pytest.raises(ValueError, match="shares from 0 to 1"):
            mixed(services=services)
