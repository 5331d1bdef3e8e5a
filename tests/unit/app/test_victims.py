"""How the writer removes victims of a preemption, and what it makes of each answer."""

import json
from typing import Any, cast

import pytest

from podberth.app.writer import Writer
from podberth.engine.instructions import Preempt
from podberth.engine.stimuli import Stimulus, VictimStays
from podberth.kube.client import Client
from podberth.kube.errors import ApiError, Unreachable
from podberth.kube.flow import CONFIRM, EVENT, EVICT, Lane
from podberth.model import wire
from podberth.model.kinds import Decoder
from podberth.model.pod_group import GroupKey, PodGroup
from tests.builders import pod

CHANGED = ApiError(409, "Conflict", "the object has been modified")
INVALID = ApiError(422, "Invalid", "status.conditions: Invalid value")
GONE = ApiError(404, "NotFound", "no such pod")
FORBIDDEN = ApiError(403, "Forbidden", "no")
THERE: dict[str, Any] = {"metadata": {"uid": "default/victim"}}
GOING = {"metadata": {"uid": "default/victim", "deletionTimestamp": "2026-01-01T00:00:00Z"}}
REPLACED = {"metadata": {"uid": "another"}}


class Api:
    """Answers the condition's patch, the deletion, and a question about the victim."""

    protobuf = False

    def __init__(self, patched: Exception | None, deleted: Exception | None, live: Any) -> None:
        self.patched, self.deleted, self.live = patched, deleted, live
        self.seen: list[tuple[str, Lane]] = []
        self.bodies: list[Any] = []

    def say(self, verb: str, lane: Lane, answer: Any) -> bytes:
        self.seen.append((verb, lane))
        if isinstance(answer, Exception):
            raise answer
        return json.dumps(answer or {}).encode()

    async def patch(self, path: str, body: bytes, *_: Any, lane: Lane) -> bytes:
        return self.say("patch", lane, self.patched)

    async def delete(self, path: str, body: bytes, *, lane: Lane) -> bytes:
        self.bodies.append(json.loads(body))
        return self.say("delete", lane, self.deleted)

    async def get(self, path: str, *, lane: Lane, **_: Any) -> bytes:
        return self.say("get", lane, self.live)

    async def turns(self, lane: Lane, most: int) -> int:
        return most

    async def create(self, path: str, body: bytes, *, lane: Lane) -> bytes:
        return self.say(json.loads(body)["reason"], lane, None)


@pytest.mark.parametrize(
    ("id", "patched", "deleted", "live", "want", "stays"),
    [
        ("removed", None, None, None, ["patch", "delete", "Preempted"], False),
        ("it has changed", CHANGED, None, None, ["patch", "delete", "Preempted"], False),
        ("no condition can be written", INVALID, None, None, ["patch", "delete", "Preempted"], False),
        ("it is gone", GONE, None, None, ["patch"], False),
        ("it goes before we delete it", None, GONE, None, ["patch", "delete"], False),
        ("another has its name", CHANGED, CHANGED, REPLACED, ["patch", "delete", "get"], False),
        ("it is going", None, CHANGED, GOING, ["patch", "delete", "get"], False),
        ("nobody knows why not", None, CHANGED, THERE, ["patch", "delete", "get"], True),
        ("the question fails", None, CHANGED, FORBIDDEN, ["patch", "delete", "get"], True),
        ("forbidden", FORBIDDEN, None, None, ["patch"], True),
        ("no answer", None, Unreachable("gone away"), None, ["patch", "delete"], True),
        ("a fault of ours", KeyError("what"), None, None, ["patch"], True),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_a_victim(
    id: str, patched: Exception | None, deleted: Exception | None, live: Any, want: list[str], stays: bool
) -> None:
    """It is deleted by its UID, or known to go; else the engine hears that it stays, and decides anew."""
    answers: list[Stimulus] = []
    api = Api(patched, deleted, live)
    writer = Writer(cast(Client, api), answers.append, "berth-test")
    decode = Decoder().pod
    victim = decode(wire.encode(pod("victim")))
    writer.preempt(Preempt(decode(wire.encode(pod("big"))), "n", (victim,)))
    assert await writer.drain(30.0) == 0
    assert [verb for verb, _ in api.seen] == want
    assert answers == ([VictimStays(victim)] if stays else [])
    assert all(body["preconditions"] == {"uid": victim.uid} for body in api.bodies)
    lanes = {"patch": EVICT, "delete": EVICT, "get": CONFIRM, "Preempted": EVENT}
    assert all(lane is lanes[verb] for verb, lane in api.seen), "no victim waits behind thirty thousand conditions"


@pytest.mark.parametrize(
    ("group", "condition", "event"),
    [
        (None, "a higher priority pod", "Preempted by pod default/big on node n"),
        (
            PodGroup(GroupKey("default", "train"), "uid-train", "", 1, 2),
            "a higher priority podgroup",
            "Preempted by podgroup uid-train on node n",
        ),
    ],
    ids=["a pod", "a group"],
)
async def test_who_needs_the_room(group: PodGroup | None, condition: str, event: str) -> None:
    """Said in kube-scheduler's words, in the victim's condition and in its event."""
    written: list[Any] = []

    class Written(Api):
        async def patch(self, path: str, body: bytes, *rest: Any, lane: Lane) -> bytes:
            written.append(json.loads(body)["status"]["conditions"][0]["message"])
            return await super().patch(path, body, *rest, lane=lane)

        async def create(self, path: str, body: bytes, *, lane: Lane) -> bytes:
            written.append(json.loads(body)["note"])
            return await super().create(path, body, lane=lane)

    writer = Writer(cast(Client, Written(None, None, None)), list[Stimulus]().append, "berth-test")
    decode = Decoder().pod
    victims = (decode(wire.encode(pod("victim"))),)
    writer.preempt(Preempt(decode(wire.encode(pod("big"))), "n", victims, group=group))
    assert await writer.drain(30.0) == 0
    assert written == [f"berth: preempting to accommodate {condition}", event]
