"""A small fixed world, for scenes: a few happenings that provoke one thing."""

from __future__ import annotations

from tests.storm.happenings import Happening
from tests.storm.plan import Plan
from tests.storm.process import Clock

TOWN = (("n0", 2000, 110, "a"), ("n1", 2000, 110, "b"), ("n2", 2000, 110, "a"), ("n3", 1000, 6, "b"))


def scene(seed: str, *happenings: Happening, rival_every: float = 8.0, cast: tuple[str, ...] = ()) -> Plan:
    """These happenings in a small town with right clocks."""
    right = Clock(0.0, 1.0, 0.0)
    return Plan(seed, TOWN, (right, right), rival_every, happenings, cast)
