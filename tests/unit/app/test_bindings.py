"""What becomes of a Binding: against a client that answers as told, in virtual time."""

import asyncio
import json
from collections.abc import Callable
from typing import Any, cast

import numpy as np
import pytest

from podberth.app.reporting import UnderWay
from podberth.app.watch import Freshness
from podberth.app.writer import MOST_SENT, SEND_AGAIN, SETTLED, Bindings
from podberth.engine.instructions import Bind, Withdraw
from podberth.engine.stimuli import BindFailed, BindWithdrawn, Bound, Stimulus
from podberth.framework.decision import Decision
from podberth.kube.client import Client, of_an_api_server
from podberth.kube.errors import ApiError, Cause, Details, Unreachable
from podberth.kube.flow import BIND, CONFIRM, Lane
from podberth.model import wire
from podberth.model.kinds import Decoder
from tests.builders import pod

OK = b'{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Success","code":201}'
LOST = Unreachable("server disconnected")
SILENT = Unreachable("no answer in time", timed_out=True)
REFUSED = Unreachable("connection refused", sent=False)
CONFLICT = ApiError(409, "Conflict", 'pod p is already assigned to node "n"')
PAGE = b"<html>back soon</html>"


class View:
    """What is known of the cluster, as a test changes it."""

    def __init__(self, world: "World") -> None:
        self.restores = 0
        self.relisting = False
        self.decides_from = 0.0
        self._world = world

    @property
    def may_decide(self) -> bool:
        return self._world.now >= self.decides_from


class World:
    """A clock, one pod as the API server has it, and what the API server says to each Binding, the last for ever.

    `lands`: which Bindings, counted from 1, are stored, and after how many seconds.
    """

    protobuf = False

    def __init__(self, *said: bytes | Exception, lands: dict[int, float] | None = None) -> None:
        self.now = 0.0
        self.said = list(said)
        self.lands = lands or {}
        self.live: dict[str, Any] | None = {"metadata": {"uid": "default/p"}, "spec": {}}
        self.reads: list[bytes | Exception] = []
        """What is said to reads before they are answered properly."""
        self.sent: list[float] = []
        self.asked: list[float] = []
        self.client_repeats = False
        """The client sends each Binding a second time by itself."""
        self.left = 0
        """How many messages have left."""
        self.asks_to_wait: asyncio.Event | None = None
        """The client is answered 429, and sends it once more when this is set."""
        self.held = asyncio.Event()
        self.held.set()
        self._landing: list[tuple[float, str]] = []
        self.answers: list[Stimulus] = []
        self.told: list[Bind] = []
        self.under_way = UnderWay()
        self.freshness = View(self)
        self.bindings = Bindings(
            cast(Client, self),
            self.answers.append,
            self.under_way,
            self.bound,
            cast(Freshness, self.freshness),
            clock=lambda: self.now,
            sleep=self.sleep,
        )

    def bound(self, bind: Bind) -> None:
        self.told.append(bind)

    async def sleep(self, seconds: float) -> None:
        self.now += seconds
        await asyncio.sleep(0)

    async def create(
        self, path: str, body: bytes, *, lane: Lane, on_send: Callable[[], None], **_options: Any
    ) -> bytes:
        assert (path, lane) == ("/api/v1/namespaces/default/pods/p/binding", BIND)
        await self.held.wait()
        for _ in range(1 + self.client_repeats):
            on_send()
            self.left += 1
        if self.asks_to_wait is not None:
            await self.asks_to_wait.wait()
            on_send()
            self.left += 1
        self.sent.append(self.now)
        if len(self.sent) in self.lands:
            self._landing.append((self.now + self.lands[len(self.sent)], json.loads(body)["target"]["name"]))
        answer = self.said.pop(0) if len(self.said) > 1 else self.said[0]
        self.settle()
        if isinstance(answer, Exception):
            raise answer
        return of_an_api_server("POST", path, "", answer)  # as the client does

    def settle(self) -> None:
        """Store what has landed by now."""
        for at, node in self._landing:
            if at <= self.now and self.live is not None and "nodeName" not in self.live["spec"]:
                self.live["spec"]["nodeName"] = node

    async def get(self, path: str, *, lane: Lane, **_: Any) -> bytes:
        assert (path, lane) == ("/api/v1/namespaces/default/pods/p", CONFIRM)
        self.asked.append(self.now)
        self.settle()
        if self.reads:
            answer = self.reads.pop(0)
            if isinstance(answer, Exception):
                raise answer
            return answer
        if self.live is None:
            raise ApiError(404, "NotFound", "no such pod")
        return json.dumps(self.live).encode()

    def post(self) -> Bind:
        decoded = Decoder().pod(wire.encode(pod("p")))
        bind = Bind(decoded, "n", 1, 0.0, Decision(decoded, 1, np.zeros(1, dtype=np.intp)), since=0.0)
        self.bindings.post(bind)
        return bind

    async def outcome(self) -> Stimulus:
        self.post()
        assert await self.under_way.drain(30.0) == 0
        (answer,) = self.answers
        assert len(self.told) == isinstance(answer, Bound)
        assert len(self.bindings) == 0
        return answer


async def test_yes() -> None:
    """The ordinary case: one request and no question."""
    world = World(OK)
    assert await world.outcome() == Bound("default/p")
    assert (world.sent, world.asked, world.bindings.unanswered) == ([0.0], [], 0)


@pytest.mark.parametrize(
    "said",
    [LOST, SILENT, PAGE, *(ApiError(code, "", "bad gateway") for code in (500, 502, 503, 504))],
    ids=["connection lost", "silence", "a page with code 200", "500", "502", "503", "504"],
)
async def test_stored_though_the_answer_does_not_say_so(said: bytes | Exception) -> None:
    """Unknown is not "no": the pod is asked for, and it is bound. No second Binding, no failure."""
    world = World(said, lands={1: 0.0})
    assert await world.outcome() == Bound("default/p")
    assert (len(world.sent), world.bindings.unanswered) == (1, 1)
    assert not world.bindings.failures


async def test_one_unbound_read_proves_nothing() -> None:
    """The Binding is stored after it was answered with a 504, and after reads have shown the pod unbound.

    That it is refused when it is sent again says nothing of the first.
    """
    world = World(ApiError(504, "", "gateway timeout"), CONFLICT, lands={1: 1.5})
    assert await world.outcome() == Bound("default/p")
    assert len(world.sent) == 2
    assert not world.bindings.failures


async def test_sent_again_over_another_connection() -> None:
    """A Binding that is swallowed is sent again after ten seconds of silence, and the pod is bound within 30."""
    world = World(SILENT, OK)
    assert await world.outcome() == Bound("default/p")
    assert world.sent[1] >= SEND_AGAIN
    assert world.now < 30


async def test_given_up_only_once_it_can_not_be_stored_any_more() -> None:
    """Answered with 502 for ever: a few tries, and the room is held for as long as an API server may take."""
    world = World(ApiError(502, "", "bad gateway"))
    answer = await world.outcome()
    assert isinstance(answer, BindFailed)
    assert (answer.status, answer.quietly) == (0, False)
    assert len(world.sent) == MOST_SENT
    assert world.now >= world.sent[-1] + SETTLED
    assert world.bindings.failures == {"lost": 1}


async def test_a_refused_repetition_says_nothing_of_the_first() -> None:
    """The first may be stored until it is too old; then the refusal counts."""
    world = World(LOST, ApiError(403, "Forbidden", "no"))
    answer = await world.outcome()
    assert isinstance(answer, BindFailed)
    assert (answer.status, answer.message) == (403, "no")
    assert world.now >= SETTLED
    world = World(LOST, ApiError(403, "Forbidden", "no"), lands={1: 40.0})
    assert await world.outcome() == Bound("default/p")


async def test_reads_that_fail_are_no_answers() -> None:
    """The API server is away for a while, or a page answers in its place: the room is held, and the reads go on."""
    world = World(LOST, lands={1: 0.0})
    world.reads = [SILENT, ApiError(500, "", "boom"), PAGE, ApiError(403, "Forbidden", "no"), REFUSED]
    assert await world.outcome() == Bound("default/p")
    assert len(world.asked) == 6


@pytest.mark.parametrize(
    ("id", "live", "why"),
    [
        ("bound elsewhere", {"metadata": {"uid": "default/p"}, "spec": {"nodeName": "m"}}, "taken"),
        ("replaced", {"metadata": {"uid": "another"}, "spec": {}}, "gone"),
        ("going", {"metadata": {"uid": "default/p", "deletionTimestamp": "2026-01-01T00:00:00Z"}, "spec": {}}, "gone"),
        ("gone", None, "gone"),
        ("gated", {"metadata": {"uid": "default/p"}, "spec": {}}, "refused"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
@pytest.mark.parametrize("said", [CONFLICT, LOST], ids=["409", "lost"])
async def test_conflicts(id: str, live: Any, why: str, said: Exception) -> None:
    """Somebody was faster: it ends after one read, quietly, and is counted."""
    if id == "gated" and said is LOST:
        return  # an unbound pod after a lost answer is another story
    world = World(said)
    world.live = live
    answer = await world.outcome()
    assert isinstance(answer, BindFailed)
    assert (answer.quietly, len(world.sent), len(world.asked)) == (True, 1, 1)
    assert world.bindings.failures == {why: 1}


async def test_a_409_that_is_our_own() -> None:
    """The answer to the first was lost on the way, the client sent it again: bound is bound."""
    world = World(CONFLICT, lands={1: 0.0})
    world.client_repeats = True
    assert await world.outcome() == Bound("default/p")


@pytest.mark.parametrize("reads", [[], [SILENT, ApiError(429, "", "later"), PAGE]], ids=["asked once", "again"])
async def test_bound_to_the_same_node_by_another_process(reads: list[bytes | Exception]) -> None:
    """A former leader has chosen as we do: the room stays taken, and the other's event is the only one.

    Also where the reads that are to say so fail: a 409 alone does not say whose the pod is.
    """
    world = World(CONFLICT)
    world.reads = reads
    assert world.live is not None
    world.live["spec"]["nodeName"] = "n"
    world.post()
    assert await world.under_way.drain(30.0) == 0
    assert (world.answers, world.told) == ([Bound("default/p")], [])


@pytest.mark.parametrize(
    ("id", "error", "why", "quietly"),
    [
        ("no such pod", ApiError(404, "NotFound", "no such pod"), "gone", True),
        (
            "its namespace is being deleted",
            ApiError(403, "Forbidden", "", Details(causes=[Cause("NamespaceTerminating")])),
            "gone",
            True,
        ),
        ("forbidden", ApiError(403, "Forbidden", "no"), "refused", False),
        (
            "a webhook is down",
            ApiError(500, "InternalError", 'Internal error occurred: failed calling webhook "w": no'),
            "refused",
            False,
        ),
        ("no connection", REFUSED, "not_sent", False),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_no_is_no(id: str, error: Exception, why: str, quietly: bool) -> None:
    """Where nothing can have been stored, nothing is asked, and the pod is tried again."""
    world = World(error)
    answer = await world.outcome()
    assert isinstance(answer, BindFailed)
    assert (answer.quietly, len(world.sent), world.asked) == (quietly, 1, [])
    assert world.bindings.failures == {why: 1}


async def test_a_fault_of_ours_is_an_answer_too() -> None:
    """Whatever goes wrong, the pod's place among those under way is free again. Python's words are for the log only."""
    world = World(KeyError("what"))
    answer = await world.outcome()
    assert isinstance(answer, BindFailed)
    assert answer.message == "the Binding failed in an unexpected way, which the log of Berth shows"


async def test_withdrawn_while_it_waits_for_its_turn() -> None:
    """It is not sent, at once, though the server's pause is not over."""
    world = World(OK)
    world.held.clear()
    bind = world.post()
    await asyncio.sleep(0)
    world.bindings.withdraw(Withdraw(bind.pod, "n", "node n is gone"))
    assert world.answers == [BindWithdrawn("default/p", "node n is gone")]
    world.held.set()
    assert await world.under_way.drain(30.0) == 0
    assert (world.sent, world.told, len(world.answers)) == ([], [], 1)
    assert world.bindings.failures == {"withdrawn": 1}


async def test_withdrawn_while_the_server_has_it_wait() -> None:
    """A 429 says that nothing was done: what the client would send again after the pause is not sent any more."""
    world = World(OK)
    world.asks_to_wait = asyncio.Event()
    bind = world.post()
    await asyncio.sleep(0)
    assert (world.left, world.answers) == (1, [])
    world.bindings.withdraw(Withdraw(bind.pod, "n", "node n is cordoned"))
    world.asks_to_wait.set()
    assert await world.under_way.drain(30.0) == 0
    assert (world.left, world.answers, world.told) == (1, [BindWithdrawn("default/p", "node n is cordoned")], [])
    assert world.bindings.failures == {"withdrawn": 1}
    assert len(world.bindings) == 0


async def test_what_was_sent_can_not_be_withdrawn() -> None:
    """It is not sent again; what became of it is found out."""
    world = World(SILENT)
    bind = world.post()
    await asyncio.sleep(0)
    assert world.sent == [0.0]
    world.bindings.withdraw(Withdraw(bind.pod, "n", "node n is gone"))
    assert await world.under_way.drain(30.0) == 0
    (answer,) = world.answers
    assert isinstance(answer, BindFailed)
    assert (answer.message, len(world.sent)) == ("node n is gone", 1)
    assert world.now >= SETTLED
    world.bindings.withdraw(Withdraw(bind.pod, "n", "nobody knows that one any more"))
    assert len(world.answers) == 1


async def test_a_backup_is_restored_before_the_answer() -> None:
    """It is not sent again: what was written for the pod before it, as for its claims, is lost."""
    world = World(SILENT)
    world.post()
    await asyncio.sleep(0)
    world.freshness.restores = 1
    assert await world.under_way.drain(30.0) == 0
    (answer,) = world.answers
    assert isinstance(answer, BindFailed)
    assert (answer.message, len(world.sent)) == ("the API server's data is that of a backup", 1)


async def test_what_was_decided_before_a_backup_is_not_sent() -> None:
    """The pod is decided anew once everything is listed."""
    world = World(OK)
    world.freshness.relisting = True
    assert await world.outcome() == BindWithdrawn("default/p", "the API server's data is that of a backup")
    assert world.sent == []


async def test_it_is_sent_again_once_the_server_is_known_to_go_on_from_there() -> None:
    """While no stream is open, a backup may have been restored, and nobody has noticed."""
    world = World(SILENT, OK)
    world.freshness.decides_from = 2 * SEND_AGAIN + 1.0
    assert await world.outcome() == Bound("default/p")
    assert len(world.sent) == 2
    assert world.sent[1] >= world.freshness.decides_from


async def test_a_pod_that_is_decided_anew_is_answered_once() -> None:
    """It seemed to be gone. What was sent for it before was ours as well, so its event is written."""
    world = World(SILENT, CONFLICT, lands={1: 0.0})
    world.reads = [SILENT]
    world.post()
    await asyncio.sleep(0)
    assert await world.outcome() == Bound("default/p")
    assert len(world.sent) == 2
