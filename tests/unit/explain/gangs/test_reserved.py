"""Room that is kept for gangs, as explanations tell it: for the gang, and for those who may not use it."""

import json
from pathlib import Path

import pytest

from podberth.engine.instructions import SetGroupCondition
from podberth.explain.gangs.gang import kept_from
from tests.builders import Object, namespace, node, pod
from tests.unit.cli.conftest import Berth, berth
from tests.unit.engine.test_gangs_reserving import busy, waiting
from tests.unit.explain.gangs.dumps import asked, group, members
from tests.unit.explain.story import world

__all__ = ["berth", "busy"]
LATER = "2199-01-01T00:00:00Z"
SAID = f"room is kept for it on 2 nodes until {LATER}, it should have it all by 2198-12-31T23:00:00Z"


def told(message: str, name: str = "train", status: str = "False", **spec: object) -> Object:
    """A group of which this was said."""
    made = group(2, name, **spec)
    made["status"] = {"conditions": [{"type": "PodGroupInitiallyScheduled", "status": status, "message": message}]}
    return made


def notes(priority: int, *groups: Object) -> list[str]:
    return list(kept_from(priority, None, world([namespace("default"), *groups]).cluster))


def test_what_the_engine_says_is_understood(busy: object) -> None:
    said = [one.message for one in waiting(busy) if isinstance(one, SetGroupCondition)]  # type: ignore[arg-type]
    message = said[-1].replace("2026-", "2199-")
    assert notes(0, told(message)) == [
        "room is kept for the pod group default/train on 2 nodes until 2199-01-01T00:26:40Z: pods that end later and "
        "are not more important may not use it. Only the scheduler knows these nodes, so less may fit than is said here"
    ]


@pytest.mark.parametrize(
    ("priority", "one", "count"),
    [
        pytest.param(0, told(f"minCount (2) …, {SAID}"), 1, id="kept"),
        pytest.param(1, told(f"minCount (2) …, {SAID}"), 0, id="from pods that are less important"),
        pytest.param(5, told(SAID, priority=5), 1, id="by the priority of the group"),
        pytest.param(0, told(SAID, status="True"), 0, id="it has started"),
        pytest.param(0, told(SAID.replace("2199", "2019")), 0, id="it was some time ago"),
        pytest.param(0, told("no room is kept for it: no running pod is known to end"), 0, id="none is kept"),
    ],
)
def test_from_whom_it_is_kept(priority: int, one: Object, count: int) -> None:
    assert len(notes(priority, one)) == count


def test_the_gang_itself_is_told_what_is_kept_for_it() -> None:
    full = [node("n", "8"), pod("x", "8", on="n")]
    for said in (SAID, "no room is kept for it: no running pod is known to end"):
        assert said in asked([*full, told(f"minCount (2) cannot be satisfied, {said}"), *members(2)]).notes
    answer = asked([*full, group(2), *members(2), told(SAID, "other")])
    assert [note for note in answer.notes if "default/other on 2 nodes" in note]


def test_a_pod_is_told_whose_room_it_may_not_use(berth: Berth) -> None:
    objects = [namespace("default"), node("n", "8"), told(SAID), pod("small", "1")]
    Path("dump.json").write_text(json.dumps({"kind": "List", "items": objects}))
    found = berth("explain", "small", "--cluster", "dump.json")
    assert "room is kept for the pod group default/train on 2 nodes" in " ".join(found.out.split())
