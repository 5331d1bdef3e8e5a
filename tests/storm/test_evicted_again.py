"""Evictions that a restore from a backup undoes are asked for again, and written down again."""

from __future__ import annotations

from tests.storm.seeds import SCENES
from tests.storm.world import World


def test_intents_are_written_again() -> None:
    """The backup has no intent of before it, and the next leader would not know of these evictions."""
    world = World(SCENES["evicted before a backup"])
    assert world.run().violations == []
    about: dict[str, set[str]] = {"Evicting": set(), "Evicted": set()}
    for event in world.server.objects("events"):
        if event["reason"] in about:
            about[event["reason"]].add(event["involvedObject"]["uid"])
    assert about["Evicted"]
    assert about["Evicting"] == about["Evicted"]
