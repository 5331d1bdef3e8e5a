"""The reconciler against an API server that is a dict: what it writes, what it leaves, what it does about failures."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import kopf
import pytest
from msgspec import structs

from podberth.kube.errors import ApiError, Unreachable
from podberth.policy.operator import reconcile as module
from podberth.policy.operator.enforcement import Enforced
from podberth.policy.operator.judge import NOTHING_TOLD, Stored
from podberth.policy.operator.reconcile import Reconciler
from podberth.policy.operator.settings import Settings
from podberth.policy.operator.status import NATIVE, Counts
from tests.unit.policy.admission.conftest import until
from tests.unit.policy.build import NAME, rule
from tests.unit.policy.operator.conftest import Server, stored_object

LEFT = stored_object("left", rule(set_labels={"team": "a"}))
RIGHT = stored_object("right", rule(set_labels={"team": "b"}))


class Enforcing:
    """An enforcer that does nothing, and remembers what it is asked for."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, list[str]]] = []
        self.running = 0
        self.most = 0
        self.goes_on = asyncio.Event()
        self.goes_on.set()

    async def enforce(self, namespace: str, stored: Sequence[Stored]) -> Enforced:
        """Everything is enforced."""
        self.asked.append((namespace, [one.name for one in stored]))
        self.running += 1
        self.most = max(self.most, self.running)
        await self.goes_on.wait()
        self.running -= 1
        return Enforced({one.name: NATIVE for one in stored})


def made(server: Server, enforcing: Enforcing | None = None, **more: Any) -> Reconciler:
    """A reconciler that knows no live scheduler, unless told otherwise."""
    complete = asyncio.Event()
    complete.set()
    return Reconciler(
        server,  # type: ignore[arg-type]
        Settings("berth", **more.get("settings", {})),
        server.index,
        more.get("complete", complete),
        enforcing or Enforcing(),  # type: ignore[arg-type]
        more.get("live", frozenset),
        lambda *_: more.get("counts", {}),
        identity="test",
    )


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits for bursts here."""
    monkeypatch.setattr(module, "GATHER_SECONDS", 0.0)
    monkeypatch.setattr(module, "REST", 0.0)
    monkeypatch.setattr(module, "RETRY_SECONDS", 0.01)


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


async def test_nobody_says_that_owners_are_intact_who_did_not_look() -> None:
    """What the audit could not list is said by the condition, without an Event; a loss that it found comes first."""
    problems = ["can't list replicasets apps: 403 Forbidden"]
    counts = {"left": Counts(problems=problems), "right": Counts(lost=["ReplicaSet team/web"], problems=problems)}
    server = Server(*documents())
    await made(server, counts=counts).look("team")
    assert condition(server, "left", "OwnersIntact") == "Unknown"
    assert message(server, "left", "OwnersIntact") == f"the audit did not look at everything: {problems[0]}"
    assert condition(server, "right", "OwnersIntact") == "False"
    told = [one["regarding"]["name"] for one in server.events if one["reason"] in ("AuditIncomplete", "OwnerSelector")]
    assert told == ["right"]


async def test_a_burst_is_one_pass() -> None:
    """Whoever asks before a pass begins shares it, and no two passes of a namespace run side by side."""
    server, enforcing = Server(*documents()), Enforcing()
    reconciler = made(server, enforcing)
    await asyncio.gather(*(reconciler.look("team") for _ in range(10)))
    assert enforcing.asked == [("team", ["left", "right"])]
    enforcing.goes_on.clear()
    first = asyncio.create_task(reconciler.look("team"))
    await until(lambda: enforcing.running == 1)
    others = asyncio.gather(*(reconciler.look("team") for _ in range(10)))
    await asyncio.sleep(0)
    enforcing.goes_on.set()
    await asyncio.gather(first, others)
    assert len(enforcing.asked) == 3
    assert enforcing.most == 1


async def test_nothing_is_judged_by_a_part_of_the_policies() -> None:
    """While a new replica learns which policies there are, no set is written that would lack some of them."""
    server, enforcing = Server(*documents()), Enforcing()
    complete = asyncio.Event()
    reconciler = made(server, enforcing, complete=complete)
    late = server.policies.pop("right")
    passing = asyncio.create_task(reconciler.look("team"))
    for _ in range(10):
        await asyncio.sleep(0)
    server.policies["right"] = late
    complete.set()
    await passing
    assert enforcing.asked == [("team", ["left", "right"])]


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


async def test_gone_meanwhile() -> None:
    """A policy that is deleted between look and patch is nobody's error."""
    server = Server(*documents())
    reconciler = made(server)
    stored = await reconciler.read("team")
    server.policies.clear()
    await reconciler.report(stored[0], NOTHING_TOLD)
    assert server.patches == ["left"]
    assert not server.events


async def test_refused_status_is_not_retried(capsys: pytest.CaptureFixture[str]) -> None:
    """A status that the API server will never take is said, in an Event as well, once, and does not block the rest."""
    server = Server(*documents())
    reconciler = made(server)
    wrong = structs.replace((await reconciler.read("team"))[0], policy=None, problems=("no",))
    for _ in range(2):
        server.fails = [ApiError(422, "Invalid", "status.conditions: no")]
        await reconciler.report(wrong, NOTHING_TOLD)
    assert "the API server refused a status" in capsys.readouterr().out
    assert [(one["reason"], one["note"]) for one in server.events] == [("Invalid", "not applied: no")]


@pytest.mark.parametrize("error", [Unreachable("no"), ApiError(500, "Oops")])
async def test_what_fails_is_tried_again(error: ApiError | Unreachable) -> None:
    """A handler is told that it is temporary; a look for which nobody waits is repeated until it succeeds."""
    server = Server(*documents())
    reconciler = made(server)
    server.fails = [error]
    with pytest.raises(kopf.TemporaryError):
        await reconciler.look("team")
    server.fails = [error, error]
    reconciler.look_soon("team")
    await until(lambda: "status" in server.policies["right"])


async def test_somebody_was_faster() -> None:
    """A status that was written meanwhile is nobody's failure: it is looked at again."""
    server = Server(*documents())
    reconciler = made(server)
    server.fails = [ApiError(409, "Conflict")]
    await reconciler.look("team")
    await until(lambda: "status" in server.policies["left"] and "status" in server.policies["right"])


async def test_a_bug_in_one_namespace_does_not_stop_the_others(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """An exception that nobody foresaw is logged, and the next change is looked at as ever."""
    server = Server(*documents())
    reconciler = made(server)

    def broken(*_: Any) -> Any:
        raise ZeroDivisionError

    said = ""
    with monkeypatch.context() as patched:
        patched.setattr(module.judge, "findings", broken)
        reconciler.look_soon("team")
        while "this is a bug of Berth" not in said:
            await asyncio.sleep(0)
            said += capsys.readouterr().out
    reconciler.look_soon("team")
    await until(lambda: bool(server.patches))


async def test_events_of_a_pass_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A change that makes another thing true of many policies tells so in few Events."""
    monkeypatch.setattr(module, "QUICK", 10_000_000)
    server = Server(*(stored_object(f"p{i:03}", rule(set_labels={"team": f"t{i}"})) for i in range(30)))
    await made(server).look("team")
    assert condition(server, "p029", "Conflict") == "True"
    assert len(server.events) == module.MOST_EVENTS


async def test_a_long_analysis_holds_up_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """What takes longer than a pass is said to be under way, and is told once it is known."""
    monkeypatch.setattr(module, "QUICK", 50)
    server = Server(*documents())
    reconciler = made(server)
    await reconciler.look("team")
    assert condition(server, "left", "Conflict") == "Unknown"
    assert "under way" in message(server, "left", "Conflict")
    await until(lambda: condition(server, "left", "Conflict") == "True")


async def test_a_namespace_rests(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a pass that took long to compute, the next one of the same namespace comes after some times as long, and no
    handler waits for it.
    """
    monkeypatch.setattr(module, "REST", 1e9)
    monkeypatch.setattr(module, "LONGEST_REST", 0.2)
    other = {**LEFT, "metadata": {**LEFT["metadata"], "namespace": "quiet"}}
    server, enforcing = Server(*documents(), other), Enforcing()
    reconciler = made(server, enforcing)
    await reconciler.look("team")
    began = asyncio.get_running_loop().time()
    await reconciler.look("team")
    await reconciler.look("quiet")
    assert [namespace for namespace, _ in enforcing.asked] == ["team", "quiet"]
    await until(lambda: len(enforcing.asked) == 3)
    assert enforcing.asked[2][0] == "team"
    assert asyncio.get_running_loop().time() - began >= 0.2


async def test_large_specs_are_read_when_they_are_looked_at() -> None:
    """The index keeps no large spec; what of it is not there any more is left out."""
    large = stored_object("large", rule(set_annotations={f"k{i}": "x" * 8000 for i in range(3)}))
    server = Server(large)
    (kept,) = server.index("team")
    assert not kept.whole
    assert len(kept.raw) < 1000
    await made(server).look("team")
    assert len(server.read) == 1
    assert condition(server, "large", "Accepted") == "True"


async def test_a_namespace_that_is_too_large_is_not_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its specs are not even read, and each policy is told why it was not looked at."""
    monkeypatch.setattr(module, "MOST_BYTES", 100_000)
    server = Server(*(stored_object(f"p{i:03}", rule(set_annotations={"k": "x" * 20_000})) for i in range(10)))
    await made(server).look("team")
    assert not server.read
    assert len(server.patches) == 10
    assert "too large together" in message(server, "p000", "Accepted")
    assert condition(server, "p000", "SelfConsistent") == "Unknown"


async def test_other_namespaces_are_nobodys() -> None:
    """Of a namespace that is not watched, there are no policies."""
    server, enforcing = Server(*documents()), Enforcing()
    await made(server, enforcing, settings={"watched": ("other",)}).look("team")
    assert enforcing.asked == [("team", [])]
    assert not server.patches
