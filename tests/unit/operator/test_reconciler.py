"""The reconciler against an API server that is a dict: what it writes, what it leaves, what it does about failures."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from scheduler.kube.errors import ApiError, Unreachable
from scheduler.policy.operator import reconciler as module
from scheduler.policy.operator.audit import Result, Total
from scheduler.policy.operator.reconciler import Reconciler
from scheduler.policy.operator.settings import Settings
from scheduler.policy.operator.status import Counts
from tests.unit.operator.conftest import Server, stored_object
from tests.unit.policy.build import NAME, rule

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
    )


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
    monkeypatch.setattr(module.judge, "findings", lambda stored, **_: runs.append(1) or real(stored))  # type: ignore[func-returns-value]
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
    stored = await reconciler.read("team")
    server.policies.clear()
    await reconciler._tell(stored[0], (), None)
    assert server.patches == ["left"]
    assert not server.events


async def test_refused_status_is_not_retried(capsys: pytest.CaptureFixture[str]) -> None:
    """A status that the API server will never take is said, and does not block the rest."""
    server = Server(*documents())
    stored = await made(Server(*documents())).read("team")
    server.fails = [ApiError(422, "Invalid", "status.conditions: no")]
    await made(server)._tell(stored[0], (), None)
    assert "status refused" in capsys.readouterr().out


@pytest.mark.parametrize("error", [ApiError(409, "Conflict"), Unreachable("no"), ApiError(500, "Oops")])
async def test_tries_again(error: ApiError | Unreachable) -> None:
    """What fails for a moment is looked at again, and the rest meanwhile."""
    server = Server(*documents())
    reconciler = made(server)
    reconciler.mark("team")
    server.fails = [error]
    reconciler._everything = False
    assert not await reconciler._look_at_all()
    assert reconciler._dirty == {"team"}
    assert await reconciler._look_at_all()
    assert sorted(server.patches) == ["left", "right"]


async def test_a_bug_in_one_namespace_does_not_stop_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """An exception that nobody foresaw is logged, and the next change is looked at as ever."""
    server = Server(*documents())
    reconciler = made(server)

    def broken(_: Any) -> Any:
        raise ZeroDivisionError

    with monkeypatch.context() as patched:
        patched.setattr(module.judge, "findings", broken)
        assert await reconciler._look_at_all()
    reconciler.mark("team")
    assert await reconciler._look_at_all()
    assert server.patches


async def test_audits_follow_specs(monkeypatch: pytest.MonkeyPatch) -> None:
    """The leader's loops audit a namespace once its specs changed, and the counts reach the status."""
    for pause in ("GATHER_SECONDS", "SETTLE_SECONDS", "RETRY_SECONDS"):
        monkeypatch.setattr(module, pause, 0.0)
    server = Server(*documents())
    audit = Audited()
    reconciler = made(server, audit=audit, audit_seconds=3600.0)
    leading = asyncio.create_task(reconciler.lead())
    async with asyncio.timeout(20):
        while not all("audit" in one.get("status", {}) for one in server.policies.values()):  # noqa: ASYNC110 - no event
            await asyncio.sleep(0)
    leading.cancel()
    assert audit.runs == 1
    assert server.policies["left"]["status"]["audit"]["objects"] == 1
