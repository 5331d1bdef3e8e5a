"""Kubelets and the disruption controller of the simulated world do what real ones do; the judge sees who does not."""

from __future__ import annotations

from unittest.mock import patch

import pytest

from podberth.apiserver import deletion
from tests.storm.actors import MERGE, node_of
from tests.storm.casting import EVICTOR
from tests.storm.happenings import Happening, at
from tests.storm.seeds import SCENES
from tests.storm.towns import scene
from tests.storm.world import World

WORK = at(19.0, "want", namespace="blue", name="w", cpu=100, replicas=8)


@pytest.mark.parametrize(
    "away",
    [
        at(20.0, "restart", seconds=5.0),
        at(20.0, "freeze", seconds=5.0),
        at(40.0, "restore", back=19.5, seconds=0.5),  # to the backup of 20 s
    ],
    ids=lambda happening: happening.kind,
)
def test_kubelets_tell_until_it_is_stored(away: Happening) -> None:
    """That a pod runs is told again when the API server was away, or has lost it (seed 30271: for ever Pending)."""
    world = World(scene("told again", WORK, away))
    assert world.run().violations == []
    assert {pod["status"]["phase"] for pod in world.server.objects("pods") if node_of(pod)} == {"Running"}


def test_budgets_are_counted_again_after_a_restore() -> None:
    """A backup may hold a status that was corrected a moment later; no event tells of what a restore changes."""
    world = World(
        scene(
            "counted again",
            at(5.0, "want", namespace="blue", name="p", cpu=100, replicas=4, promise=True, budget=4),
            at(40.0, "restore", back=19.5, seconds=0.5),
            cast=(EVICTOR,),
        )
    )
    path = "/apis/policy/v1/namespaces/blue/poddisruptionbudgets/p/status"
    false = {"status": {"disruptionsAllowed": 4}}
    world.loop.call_later(19.99, world.server.call, "user", "PATCH", path, false, MERGE)
    assert world.run().violations == []
    status = world.server.objects("poddisruptionbudgets")[0]["status"]
    assert (status["disruptionsAllowed"], status["currentHealthy"]) == (0, 4)


def test_an_eviction_beyond_a_budget_is_seen() -> None:
    """An API server that asks no budget lets a pod go that runs, though all four are wanted."""
    with patch.object(deletion, "draws_on", return_value=None):
        violations = World(SCENES["restored label"]).run(to_the_end=False).violations
    assert any(one.startswith("I6") and one.endswith("of blue/p1 are left") for one in violations), violations
