"""Whatever a process writes is dated by its own clock, which here follows from the seed."""

from __future__ import annotations

import re

import msgspec
import pytest

from tests.storm.plan import Plan
from tests.storm.seeds import SCENES
from tests.storm.world import World

_STAMP = re.compile(rb'"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z)"')


@pytest.mark.parametrize(
    "plan", [SCENES["devices"], SCENES["promises"], SCENES["policies"]], ids=lambda plan: plan.seed
)
def test_no_time_is_the_real_one(plan: Plan) -> None:
    """Claims, events, statuses, Leases: each time that is stored lies within the run."""
    world = World(plan)
    world.run()
    kinds = ("events", "leases", "nodes", "pods", "resourceclaims")
    stored = {kind: msgspec.json.encode(world.server.objects(kind)) for kind in kinds}
    stamps = {kind: [one.decode() for one in _STAMP.findall(text)] for kind, text in stored.items()}
    strange = {
        kind: [one for one in found if not -1.0 <= world.seconds(one) <= world.now] for kind, found in stamps.items()
    }
    assert not any(strange.values()), strange
    assert stamps["events"], "nothing was dated"
