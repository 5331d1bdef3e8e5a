"""The reconciler against an API server that is a dict: what it writes, what it leaves, what it does about failures."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Any
from unittest.mock import AsyncMock

import pytest
from msgspec import structs
from podberth.policy.operator.reconciler import Reconciler
from podberth.policy.operator.turns import CREDIT, WRITES, Turns

from podberth.kube.errors import ApiError, Unreachable
from podberth.policy.operator import counting, reading
from podberth.policy.operator import reconciler as module
from podberth.policy.operator.audit import Result, Total
from podberth.policy.operator.judge import NOTHING_TOLD, Stored
from podberth.policy.operator.settings import Settings
from podberth.policy.operator.status import Counts
from tests.unit.policy.admission.conftest import until
from tests.unit.policy.build import NAME, rule
from tests.unit.policy.operator.conftest import Clock, Server, stored_object

LEFT = stored_object("left", rule(set_labels={"team": "a"}))
RIGHT = stored_object("right", rule(set_labels={"team": "b"}))


class Audited:
    """An audit that always finds the same."""

    def __init__(self) -> None:
        self.runs = 0

    async def run(self, namespace: str, policies: Any) -> Result:
        """One object, not touched."""
        self.runs += 1
        return Result(Total(objects=1), {one.name: Counts(objects=1) for one in policies.policies}, {}, [])


def made(server: Server, **more: Any) -> Reconciler:
    """A reconciler that leads, and knows no live scheduler, unless told otherwise."""
    return Reconciler(
        server,  # type: ignore[arg-type]
        more.get("audit", Audited()),
        Settings("berth", audit_seconds=more.get("audit_seconds", 0.0)),
        more.get("live", frozenset),
        more.get("leading", lambda: True),
        identity="test",
        clock=lambda: 0.0,
        monotonic=more.get("monotonic", time.monotonic),
        enforcer=more.get("enforcer"),
    )


async def turn(reconciler: Reconciler, clock: Clock) -> str | None:
    """Let time pass until it is some namespace's turn, and give it its turn."""
    for _ in range(10_000):
        namespace = reconciler.turns.take()
        if namespace is not None:
            await reconciler.look_at(namespace)
            reconciler.turns.done(namespace)
            return namespace
        clock.now += 0.05
    return None


def message(server: Server, name: str, kind: str) -> str:
    """A condition's message as stored."""
    found: list[dict[str, str]] = server.policies[name]["status"]["conditions"]
    return next(one["message"] for one in found if one["type"] == kind)


def condition(server: Server, name: str, kind: str) -> str:
    """A condition's status as stored."""
    found: list[dict[str, str]] = server.policies[name]["status"]["conditions"]
    return next(one["status"] for one in found if one["type"] == kind)


def documents() -> tuple[dict[str, Any], dict[str, Any]]:
    """Two policies that conflict, for a server to change."""
    return tuple({**one, "metadata": {**one["metadata"]}} for one in (LEFT, RIGHT))  # type: ignore[return-value]


async def test_looks_write_once() -> None:
    """A first look writes both statuses and an Event for each problem, a second one nothing."""
    server = Server(*documents())
    reconciler = made(server)
    await reconciler.look("team")
    await reconciler.look("team")
    assert sorted(server.patches) == ["left", "right"]
    told = sorted((one["regarding"]["name"], one["reason"]) for one in server.events)
    dead = ("left", "AcceptedWithRemarks")  # the other one always overwrites it
    assert told == [dead, ("left", "ConflictingWrites"), ("right", "ConflictingWrites")]


async def test_a_neighbour_changes_what_is_true() -> None:
    """When a conflicting policy goes, the one that stays is told so."""
    server = Server(*documents())
    reconciler = made(server)
    await reconciler.look("team")
    assert condition(server, "left", "Conflict") == "True"
    del server.policies["right"]
    await reconciler.look("team")
    assert condition(server, "left", "Conflict") == "False"


async def test_schedulers_change_without_an_analysis(monkeypatch: pytest.MonkeyPatch) -> None:
    """A Lease that comes flips SchedulerAvailable, and the analysis is not run again for it."""
    runs: list[int] = []
    real = module.judge.findings
    monkeypatch.setattr(module.judge, "findings", lambda *asked: runs.append(1) or real(*asked))  # type: ignore[func-returns-value]
    server = Server(stored_object("p", rule(set_annotations={NAME: "packed"})))
    live: set[str] = set()
    reconciler = made(server, live=lambda: frozenset(live))
    await reconciler.look("team")
    assert condition(server, "p", "SchedulerAvailable") == "False"
    live.add("packed")
    await reconciler.look("team")
    assert condition(server, "p", "SchedulerAvailable") == "True"
    assert len(runs) == 1


async def test_a_standby_writes_nothing() -> None:
    """Whoever lost the Lease in the middle of a look does not write."""
    server = Server(*documents())
    await made(server, leading=lambda: False).look("team")
    assert not server.patches
    assert not server.events


async def test_gone_meanwhile() -> None:
    """A policy that is deleted between list and patch is nobody's error."""
    server = Server(*documents())
    reconciler = made(server)
    stored = (await reconciler.read("team")).policies
    server.policies.clear()
    await reconciler.report(stored[0], NOTHING_TOLD, None)
    assert server.patches == ["left"]
    assert not server.events


async def test_refused_status_is_not_retried(capsys: pytest.CaptureFixture[str]) -> None:
    """A status that the API server will never take is said, in an Event as well, once, and does not block the rest."""
    server = Server(*documents())
    reconciler = made(server)
    wrong = structs.replace((await made(Server(*documents())).read("team")).policies[0], policy=None, problems=("no",))
    for _ in range(2):
        server.fails = [ApiError(422, "Invalid", "status.conditions: no")]
        await reconciler.report(wrong, NOTHING_TOLD, None)
    assert "the API server refused a status" in capsys.readouterr().out
    assert [(one["reason"], one["note"]) for one in server.events] == [("Invalid", "not applied: no")]


class Owning:
    """An enforcer that has objects for a namespace, and remembers what it is asked for."""

    namespaces = frozenset({"team"})

    def __init__(self) -> None:
        self.asked: list[tuple[str, int]] = []

    async def enforce(self, namespace: str, stored: Sequence[Stored]) -> None:
        self.asked.append((namespace, len(stored)))


async def test_what_is_owned_goes_with_the_crd(monkeypatch: pytest.MonkeyPatch) -> None:
    """Policies that are served no more are gone; one 404 alone may come from an API server that starts."""
    monkeypatch.setattr(module, "RETRY_SECONDS", 0.05)
    server, owning = Server(*documents()), Owning()
    reconciler = made(server, enforcer=owning)
    gone = ApiError(404, "NotFound")
    server.fails = [gone]
    await reconciler.look_at("team")
    assert owning.asked == []
    server.get = AsyncMock(side_effect=gone)  # type: ignore[method-assign]
    finding = asyncio.create_task(reconciler.lead())
    try:
        await until(lambda: owning.asked == [("team", 0)])
    finally:
        finding.cancel()
        await asyncio.gather(finding, return_exceptions=True)


@pytest.mark.parametrize("error", [ApiError(409, "Conflict"), Unreachable("no"), ApiError(500, "Oops")])
async def test_tries_again(error: ApiError | Unreachable) -> None:
    """What fails for a moment is looked at again, a little later."""
    server = Server(*documents())
    clock = Clock()
    reconciler = made(server, monotonic=clock)
    reconciler.mark("team")
    server.fails = [error]
    assert await turn(reconciler, clock) == "team"
    assert not server.patches
    assert reconciler.turns.take() is None
    assert await turn(reconciler, clock) == "team"
    assert sorted(server.patches) == ["left", "right"]


async def test_a_bug_in_one_namespace_does_not_stop_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """An exception that nobody foresaw is logged, and the next change is looked at as ever."""
    server = Server(*documents())
    clock = Clock()
    reconciler = made(server, monotonic=clock)

    def broken(*_: Any) -> Any:
        raise ZeroDivisionError

    reconciler.mark("team")
    with monkeypatch.context() as patched:
        patched.setattr(module.judge, "findings", broken)
        await turn(reconciler, clock)
    assert not len(reconciler.turns)
    reconciler.mark("team")
    await turn(reconciler, clock)
    assert server.patches


async def test_writes_of_a_turn_are_bounded() -> None:
    """A change that makes another thing true of a hundred policies writes them in turns, with few Events in each."""
    many = [stored_object(f"p{i:03}", rule(set_labels={"team": f"t{i}"})) for i in range(100)]
    server, clock = Server(*many), Clock()
    reconciler = made(server, monotonic=clock)
    reconciler.mark("team")
    turns: list[tuple[int, int]] = []
    while len(reconciler.turns) or len(reconciler.long):
        if not len(reconciler.turns):
            await reconciler.analyse(reconciler.long.take() or "")
        patches, events = len(server.patches), len(server.events)
        await turn(reconciler, clock)
        turns.append((len(server.patches) - patches, len(server.events) - events))
    assert condition(server, "p099", "Conflict") == "True"
    assert len(turns) >= 2 * 100 / module.TURN_WRITES
    assert all(written <= module.TURN_WRITES and told <= module.TURN_EVENTS for written, told in turns)
    assert clock.now - 1000.0 > (len(server.patches) - module.TURN_WRITES) / WRITES - CREDIT


async def test_an_expensive_namespace_waits_for_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """What takes longer than a turn goes to the other queue, is said to be under way, and is done there."""
    monkeypatch.setattr(module, "QUICK", 50)
    server, clock = Server(*documents()), Clock()
    reconciler = made(server, monotonic=clock)
    reconciler.mark("team")
    await turn(reconciler, clock)
    assert condition(server, "left", "Conflict") == "Unknown"
    assert "under way" in message(server, "left", "Conflict")
    await reconciler.look_at("team")  # nothing is analysed again, nor written, while it waits
    assert sorted(server.patches) == ["left", "right"]
    assert reconciler.long.take() == "team"
    await reconciler.analyse("team")
    await turn(reconciler, clock)
    assert condition(server, "left", "Conflict") == "True"


async def test_a_namespace_that_is_too_large_is_not_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reading stops where there is no more room; what was read until then is told why it was not looked at."""
    monkeypatch.setattr(reading, "MOST_BYTES", 100_000)
    large = [stored_object(f"p{i:03}", rule(set_annotations={f"k{i}": "x" * 8000})) for i in range(400)]
    server = Server(*large)
    reconciler = made(server)
    await reconciler.look("team")
    assert len(server.pages) == 2  # of four
    assert len(server.patches) == module.TURN_WRITES
    assert "too large together" in message(server, "p000", "Accepted")
    assert condition(server, "p000", "SelfConsistent") == "Unknown"


async def test_pages_are_as_long_as_objects_allow() -> None:
    """Large policies come one by one, small ones by the hundred."""
    server = Server(*(stored_object(f"p{i}", rule(set_annotations={"k": "x" * 8000})) for i in range(300)))
    assert await reading.namespaces(server, ()) == {"team"}  # type: ignore[arg-type]
    assert len(server.pages) == 4
    assert max(server.pages) < 1_200_000


async def test_many_edits_cost_their_own_namespace() -> None:
    """Edits without end make as many looks as the namespace's share allows, and nobody else waits for them."""
    turns = Turns(clock := Clock())
    looks = 0
    for _ in range(1000):
        turns.want("noisy", after=0.1)
        clock.now += 0.1
        while (namespace := turns.take()) is not None:
            assert namespace == "noisy"
            looks += 1
            turns.charge(namespace, size=1_000_000, writes=1)
            turns.done(namespace)
        if _ % 100 == 0:
            turns.want("quiet")
            assert turns.take() == "quiet"
            turns.done("quiet")
    assert looks <= (100 + CREDIT) / 1.2 + 2


def test_nobody_gets_the_namespace_of_another() -> None:
    """While a namespace has its turn it can be wanted again, but is not given to a second worker."""
    turns = Turns(Clock())
    turns.want("team")
    assert turns.take() == "team"
    turns.want("team")
    turns.want("team")
    assert turns.take() is None
    turns.done("team")
    assert turns.take() == "team"
    turns.done("team")
    assert turns.take() is None


async def test_audits_follow_specs(monkeypatch: pytest.MonkeyPatch) -> None:
    """The leader's loops audit a namespace once its specs changed, and the counts reach the status."""
    for pause in ("GATHER_SECONDS", "RETRY_SECONDS"):
        monkeypatch.setattr(module, pause, 0.0)
    monkeypatch.setattr(counting, "SETTLE_SECONDS", 0.0)
    server = Server(*documents())
    audit = Audited()
    reconciler = made(server, audit=audit, audit_seconds=3600.0)
    leading = asyncio.create_task(reconciler.lead())
    async with asyncio.timeout(60):
        while not all("audit" in one.get("status", {}) for one in server.policies.values()):  # noqa: ASYNC110 - no event
            await asyncio.sleep(0)
    leading.cancel()
    assert audit.runs == 1
    assert server.policies["left"]["status"]["audit"]["objects"] == 1
