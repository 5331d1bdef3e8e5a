"""The writer's part of PreBind: patches in order, with preconditions, and an answer whatever comes of them."""

import json
from typing import Any, cast

import pytest

from scheduler.controller.writer import Writer
from scheduler.engine.instructions import PreBindWrite
from scheduler.engine.stimuli import PreBindWriteFailed, PreBindWritten, Stimulus
from scheduler.framework.binding import ObjectKey, Patch
from scheduler.kube.client import MERGE_PATCH, Client
from scheduler.kube.errors import ApiError, Unreachable
from scheduler.model import wire
from scheduler.model.kinds import Decoder
from tests.builders import pod

VOLUME: ObjectKey = ("PersistentVolume", "", "v")
CLAIM: ObjectKey = ("PersistentVolumeClaim", "default", "data")
WRITES = (
    Patch(VOLUME, "u1", "7", {"spec": {"claimRef": {"name": "data"}}}),
    Patch(CLAIM, "u2", "8", {"metadata": {"annotations": {"x": "n"}}}),
)


class FakeClient:
    """Answers patches from a list, and notes them."""

    def __init__(self, *answers: Exception | str) -> None:
        self._answers = list(answers)
        self.asked: list[tuple[str, Any, str]] = []

    async def patch(self, path: str, body: bytes, content_type: str, **how: Any) -> bytes:
        self.asked.append((path, json.loads(body), content_type))
        answer = self._answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return json.dumps({"metadata": {"resourceVersion": answer}}).encode()


async def answer_of(client: FakeClient, *writes: Patch) -> Stimulus:
    answers: list[Stimulus] = []
    writer = Writer(cast(Client, client), answers.append, "berth-test")
    decoded = Decoder().pod(wire.encode(pod("p")))
    writer.pre_bind_write(PreBindWrite(decoded, "n", "VolumeBinding", writes or WRITES))
    assert await writer.drain(5.0) == 0
    (answer,) = answers
    return answer


async def test_written() -> None:
    """Each object by merge patch, refused if it has changed; the answer has the new versions."""
    client = FakeClient("17", "18")
    assert await answer_of(client) == PreBindWritten("default/p", {VOLUME: "17", CLAIM: "18"})
    assert client.asked == [
        (
            "/api/v1/persistentvolumes/v",
            {"spec": {"claimRef": {"name": "data"}}, "metadata": {"uid": "u1", "resourceVersion": "7"}},
            MERGE_PATCH,
        ),
        (
            "/api/v1/namespaces/default/persistentvolumeclaims/data",
            {"metadata": {"annotations": {"x": "n"}, "uid": "u2", "resourceVersion": "8"}},
            MERGE_PATCH,
        ),
    ]


@pytest.mark.parametrize(
    ("id", "error", "status"),
    [
        ("refused", ApiError(409, "Conflict", "changed"), 409),
        ("unanswered", Unreachable("gone away", sent=True), 0),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_not_written(id: str, error: Exception, status: int) -> None:
    """The first that fails ends it; what was written before it is in the answer."""
    answer = await answer_of(FakeClient("17", error))
    assert isinstance(answer, PreBindWriteFailed)
    assert (answer.uid, answer.status, dict(answer.written)) == ("default/p", status, {VOLUME: "17"})


@pytest.mark.parametrize(
    ("id", "patch", "says"),
    [
        ("a kind", Patch(("Secret", "default", "s"), "", "", {}), "want a Patch of one of the kinds"),
        ("a value", Patch(CLAIM, "u2", "8", {"metadata": {"annotations": {"x": object()}}}), "object is unsupported"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_what_can_not_be_written(id: str, patch: Patch, says: str) -> None:
    """A plugin's mistake is an answer like others, and no pod that waits for ever."""
    answer = await answer_of(FakeClient("17"), WRITES[0], patch)
    assert isinstance(answer, PreBindWriteFailed)
    assert says in answer.message
    assert dict(answer.written) == {VOLUME: "17"}
