"""A group that does not start in a dry run is told whom berth run would preempt for it."""

import json
from pathlib import Path

import pytest

from podberth.cache.validate import validate
from podberth.explain.gangs import explain
from podberth.explain.gangs.explain import attempted
from podberth.explain.gangs.gang import gang_of
from podberth.framework.config import decode
from podberth.framework.profiles import build
from podberth.model.pod_group import NATIVE, GroupKey
from podberth.plugins.registry import IN_TREE
from tests.builders import Object, configuration, namespace, node, pod, profile
from tests.unit.cli.conftest import Berth, berth
from tests.unit.explain.gangs.dumps import group, members
from tests.unit.explain.story import world

__all__ = ["berth"]
FULL = [node("n", "8"), pod("x", "6", on="n", priority=0)]
PREEMPTS = [*FULL, group(2, priority=10), *members(2, "4", priority=10)]


def said(objects: list[Object]) -> str:
    """Of the group `train`."""
    there = world([namespace("default"), *objects])
    gang = gang_of(GroupKey("default", "train", NATIVE), there.cluster)
    assert gang is not None
    [framework] = build(decode(configuration(profile())), IN_TREE).values()
    found = attempted(gang, framework, there.cluster)
    assert validate(there.cluster) == []
    return found


@pytest.mark.parametrize(
    ("objects", "words"),
    [
        pytest.param(PREEMPTS, "berth run would start it (tried): it preempts default/x", id="preempts"),
        pytest.param([*FULL, group(2), *members(2, "4")], "", id="nobody of lower priority"),
        pytest.param(
            [*FULL, group(2, priority=10), *members(2, "9", priority=10)],
            "berth run would not start it by preempting pods of lower priority, either (tried)",
            id="does not help",
        ),
    ],
)
def test_the_engine_is_asked(objects: list[Object], words: str) -> None:
    """It preempts."""
    found = said(objects)
    assert found.startswith(words)
    assert bool(found) is bool(words)


def test_a_large_group_is_not_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    """And that is said."""
    monkeypatch.setattr(explain, "MOST", 1)
    assert said(PREEMPTS) == "whether preemption would start it was not tried: so many pods are not tried (at most 1)"


def test_a_group_that_starts_with_a_part_is_told_who_makes_room_for_the_rest(berth: Berth) -> None:
    """Where it preempts; else nothing is said."""
    words = "berth run would place 2 of 2 pods (tried): it preempts default/x"
    lower = [node("n", "8"), pod("x", "4", on="n", priority=0)]
    for there, said in ((lower, True), ([node("n", "8"), pod("x", "4", on="n", priority=10)], False)):
        objects = [namespace("default"), *there, group(1, priority=10), *members(2, "4", priority=10)]
        Path("dump.json").write_text(json.dumps({"kind": "List", "items": objects}))
        found = berth("explain", "podgroup/train", "--cluster", "dump.json")
        assert (found.code, found.err) == (0, "")
        assert "1 of 2 pods find a node" in found.out
        assert (words in found.out, "tried" in found.out) == (said, said)


def test_it_is_in_the_answer(berth: Berth) -> None:
    """As a note, in every form."""
    Path("dump.json").write_text(json.dumps({"kind": "List", "items": [namespace("default"), *PREEMPTS]}))
    for form in ("table", "json", "html"):
        found = berth("explain", "podgroup/train", "--cluster", "dump.json", "-o", form)
        assert (found.code, found.err) == (1, "")
        assert "berth run would start it (tried): it preempts default/x" in " ".join(found.out.split())
