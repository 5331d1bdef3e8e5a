"""The writer's part of PreBind: patches in order, with preconditions, and an answer whatever comes of them."""

import asyncio
import json
from typing import Any, cast

import pytest
from structlog.testing import capture_logs

from podberth.app.objects import write_object
from podberth.app.writer import Writer
from podberth.engine.instructions import PostFilterWrite, PreBindWrite, UnreserveWrite
from podberth.engine.stimuli import (
    PostFilterWriteFailed,
    PreBindWriteFailed,
    PreBindWritten,
    Stimulus,
    TakenOut,
    TakingOut,
)
from podberth.framework.binding import NOW, Create, Delete, ObjectKey, Patch, Write
from podberth.kube.client import MERGE_PATCH, Client
from podberth.kube.errors import ApiError, Unreachable
from podberth.kube.machine import MACHINE, Machine
from podberth.model import wire
from podberth.model.kinds import Decoder
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

    async def get(self, path: str, **how: Any) -> bytes:
        self.asked.append((path, None, "get"))
        return self._answer()

    async def create(self, path: str, body: bytes, **how: Any) -> bytes:
        self.asked.append((path, json.loads(body), "create"))
        return self._answer()

    async def delete(self, path: str, body: bytes, **how: Any) -> bytes:
        self.asked.append((path, json.loads(body), "delete"))
        return self._answer()

    async def patch(self, path: str, body: bytes, content_type: str, **how: Any) -> bytes:
        self.asked.append((path, json.loads(body), content_type))
        await asyncio.sleep(0)
        return self._answer()

    def _answer(self) -> bytes:
        answer = self._answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return json.dumps({"metadata": {"resourceVersion": answer}}).encode()


async def answer_of(client: FakeClient, *writes: Write, machine: Machine = MACHINE) -> Stimulus:
    answers: list[Stimulus] = []
    writer = Writer(cast(Client, client), answers.append, "berth-test", machine=machine)
    decoded = Decoder().pod(wire.encode(pod("p")))
    writer.plugin_writes.pre_bind(PreBindWrite(decoded, "n", "VolumeBinding", writes or WRITES, since=0.0))
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
    ("id", "answers", "status"),
    [
        ("refused", [ApiError(409, "Conflict", "changed")], 409),
        ("not sent", [Unreachable("no connection", sent=False)], 0),
        ("unanswered, and changed by whomever", [Unreachable("gone away", sent=True), "9"], 409),
        ("unanswered, and gone", [Unreachable("gone away", sent=True), ApiError(404, "NotFound")], 404),
        ("unanswered, and nobody may look", [ApiError(504, "Timeout"), ApiError(403, "Forbidden")], 403),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_not_written(id: str, answers: list[Exception | str], status: int) -> None:
    """The first that fails ends it; what was written before it is in the answer."""
    answer = await answer_of(FakeClient("17", *answers))
    assert isinstance(answer, PreBindWriteFailed)
    assert (answer.uid, answer.status, dict(answer.written)) == ("default/p", status, {VOLUME: "17"})


async def test_a_write_whose_answer_was_lost_is_sent_again_if_it_did_not_happen() -> None:
    """The object is as it was."""
    client = FakeClient("17", Unreachable("gone away", sent=True), "8", "18")
    assert await answer_of(client) == PreBindWritten("default/p", {VOLUME: "17", CLAIM: "18"})
    assert [how for _, _, how in client.asked] == [MERGE_PATCH, MERGE_PATCH, "get", MERGE_PATCH]


async def test_what_is_never_answered_is_sent_less_and_less_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """The claim is found unchanged each time, so nothing else keeps it from being sent."""
    paused: list[float] = []

    async def pause(seconds: float) -> None:
        paused.append(seconds)

    monkeypatch.setattr(asyncio, "sleep", pause)
    failed: list[Exception | str] = [ApiError(500, "InternalError", "etcd"), "7"] * 8
    client = FakeClient(*failed, "17", "18")
    write = write_object(cast(Client, client), WRITES[0], lambda: 0.0)
    assert await write == "17"
    assert [seconds for seconds in paused if seconds] == [1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0]


async def test_a_webhook_that_could_not_be_asked_has_kept_it_from_being_stored() -> None:
    """Webhooks come before that, so the attempt has failed, and the pod's condition says why."""
    broken = ApiError(500, "InternalError", 'failed calling webhook "claims.test": connection refused')
    client = FakeClient("17", broken)
    answer = await answer_of(client)
    assert isinstance(answer, PreBindWriteFailed)
    assert (answer.status, answer.message) == (500, broken.message)
    assert len(client.asked) == 2


async def test_a_patch_that_changes_nothing_asks_whether_it_is_the_same_object() -> None:
    """The API server answers 422 for another one of that name, as a UID can't be changed."""
    client = FakeClient(ApiError(422, "Invalid", "metadata.uid: field is immutable"))
    answer = await answer_of(client, Patch(("PodGroup", "default", "train"), "u1", "", {}, "status"))
    assert answer == PreBindWriteFailed("default/p", 409, "PodGroup train was made anew", {})
    path = "/apis/scheduling.k8s.io/v1beta1/namespaces/default/podgroups/train/status"
    assert client.asked == [(path, {"metadata": {"uid": "u1"}}, MERGE_PATCH)]


async def test_a_patch_that_changes_nothing_is_sent_again_if_it_was_not_answered() -> None:
    """The group is there, and only another answer tells whether it is the same one."""
    client = FakeClient(Unreachable("gone away", sent=True), "7", "7")
    key = ("PodGroup", "default", "train")
    assert await answer_of(client, Patch(key, "u1", "", {}, "status")) == PreBindWritten("default/p", {key: "7"})
    assert [how for _, _, how in client.asked] == [MERGE_PATCH, "get", MERGE_PATCH]


OUT = Patch(CLAIM, "u2", "8", {"status": {"reservedFor": [{"$patch": "delete", "uid": "p"}]}}, "status", strategic=True)


async def taken_out(client: FakeClient) -> list[Stimulus]:
    answers: list[Stimulus] = []
    writer = Writer(cast(Client, client), answers.append, "berth-test")
    writer.plugin_writes.unreserve(UnreserveWrite(Decoder().pod(wire.encode(pod("p"))), (OUT,)))
    assert answers == [TakingOut("default/p")]
    assert await writer.drain(5.0) == 0
    return answers[1:]


@pytest.mark.parametrize(
    ("first", "newest"),
    [(ApiError(409, "Conflict", "changed"), "9"), (Unreachable("gone away", sent=True), "9")],
    ids=["changed", "unanswered"],
)
async def test_an_entry_is_taken_out_of_the_newest_version(first: Exception, newest: str) -> None:
    """It is the same entry. And what was sent first is refused if it comes late: that version is over."""
    client = FakeClient(first, newest, "10")
    assert await taken_out(client) == [TakenOut("default/p", {CLAIM: "10"})]
    sent = [body["metadata"]["resourceVersion"] for _, body, how in client.asked if how != "get"]
    assert sent == ["8", "9"]


async def test_pods_that_leave_one_claim_do_so_one_after_the_other() -> None:
    """All at once, each would be refused as often as others come before it."""
    client = FakeClient("9", "10", "11", "12")
    answers: list[Stimulus] = []
    writer = Writer(cast(Client, client), answers.append, "berth-test")
    for name in "pqrs":
        writer.plugin_writes.unreserve(UnreserveWrite(Decoder().pod(wire.encode(pod(name))), (OUT,)))
    assert await writer.drain(5.0) == 0
    assert [body["metadata"]["resourceVersion"] for _, body, _ in client.asked] == ["8", "9", "10", "11"]
    told = {one.uid: one.written[CLAIM] for one in answers if isinstance(one, TakenOut)}
    assert told == {"default/p": "9", "default/q": "10", "default/r": "11", "default/s": "12"}


async def test_another_object_of_that_name_is_left_alone() -> None:
    """Its version is that of the write, and it is refused all the same."""
    client = FakeClient(ApiError(409, "Conflict", "the UID differs"), "8")
    assert await taken_out(client) == [TakenOut("default/p", {})]


@pytest.mark.parametrize(
    ("answers", "left"),
    [
        (("9", "10"), ()),
        ((ApiError(404, "NotFound"), "8", "10"), ()),
        ((ApiError(409, "Conflict"),), WRITES),
        (("9", Unreachable("no connection", sent=False)), WRITES[1:]),
        (("9", UnicodeEncodeError("utf-8", "\ud800", 0, 1, "surrogates not allowed")), WRITES[1:]),
    ],
    ids=["written", "gone", "refused", "not sent", "a plugin's text that can't be encoded"],
)
async def test_what_a_post_filter_plugin_could_not_write_is_told(
    answers: tuple[Exception | str, ...], left: tuple[Write, ...]
) -> None:
    """No watch tells of it."""
    told: list[Stimulus] = []
    writer = Writer(cast(Client, FakeClient(*answers)), told.append, "berth-test")
    writer.plugin_writes.post_filter(PostFilterWrite(Decoder().pod(wire.encode(pod("p"))), WRITES))
    assert await writer.drain(5.0) == 0
    assert told == ([PostFilterWriteFailed("default/p", left)] if left else [])


async def test_what_is_being_written_after_filtering_is_not_written_beside_itself() -> None:
    """An attempt wants what the one before wanted, which is not answered yet (seed 1406650 of the storm)."""
    client = FakeClient("9", "10", "11", "12", "13", "14")
    told: list[Stimulus] = []
    writer = Writer(cast(Client, client), told.append, "berth-test")
    for name, writes in (("p", WRITES), ("p", WRITES), ("q", WRITES[:1]), ("p", WRITES[1:])):
        writer.plugin_writes.post_filter(PostFilterWrite(Decoder().pod(wire.encode(pod(name))), writes))
    assert await writer.drain(5.0) == 0
    assert len(client.asked) == len(WRITES) + 2, "another pod's, and other writes of the same pod"
    writer.plugin_writes.post_filter(PostFilterWrite(Decoder().pod(wire.encode(pod("p"))), WRITES))
    assert await writer.drain(5.0) == 0
    assert len(client.asked) == 2 * len(WRITES) + 2, "it was answered"
    assert told == []


@pytest.mark.parametrize(
    ("first", "said"),
    [
        ("17", []),
        (ApiError(409, "Conflict", "changed"), []),
        (ApiError(404, "NotFound", "gone"), []),
        (ApiError(403, "Forbidden", "no"), [("not overtaken", "v")]),
        (Unreachable("no connection", sent=False), [("not overtaken", "v")]),
    ],
    ids=["written", "changed", "gone", "refused", "not sent"],
)
async def test_what_the_leader_before_has_begun(first: Exception | str, said: list[tuple[str, str]]) -> None:
    """Each claim is written for itself. Where somebody was faster, there is nothing to overtake any more."""
    answers: list[Stimulus] = []
    client = FakeClient(first, "18")
    writer = Writer(cast(Client, client), answers.append, "berth-test")
    with capture_logs() as logs:
        writer.plugin_writes.overtake(WRITES)
        assert await writer.drain(5.0) == 0
    assert (len(client.asked), answers) == (2, [])
    assert [(line["event"], line["name"]) for line in logs if line["log_level"] == "warning"] == said


async def test_created_and_deleted() -> None:
    """By name. What was created without an answer has to be there, and what is deleted has to be gone."""
    made: ObjectKey = ("ResourceClaim", "default", "made")
    create, delete = Create(made, {"metadata": {"labels": {"a": "b"}}, "spec": {}}), Delete(made, "u")
    client = FakeClient(Unreachable("gone away", sent=True), "5", ApiError(404, "NotFound"))
    assert await answer_of(client, create, delete) == PreBindWritten("default/p", {made: ""})
    assert client.asked == [
        (
            "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims",
            {
                "apiVersion": "resource.k8s.io/v1",
                "kind": "ResourceClaim",
                "metadata": {"labels": {"a": "b"}, "name": "made", "namespace": "default"},
                "spec": {},
            },
            "create",
        ),
        ("/apis/resource.k8s.io/v1/namespaces/default/resourceclaims/made", None, "get"),
        (
            "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims/made",
            {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": "u"}},
            "delete",
        ),
    ]


async def test_the_time_of_writing_is_filled_in() -> None:
    """By the clock of the process; plugins have none."""
    client = FakeClient("18")
    status = {"status": {"allocation": {"allocationTimestamp": NOW}}}
    patch = Patch(("ResourceClaim", "default", "c"), "u", "1", status, "status")
    await answer_of(client, patch, machine=Machine(wall=lambda: 1_790_000_000.9))
    ((path, body, _),) = client.asked
    assert path == "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims/c/status"
    assert body["status"]["allocation"]["allocationTimestamp"] == "2026-09-21T14:13:20Z"


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
