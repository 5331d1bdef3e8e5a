"""One namespace at its worst, and the others' reviews: rows S2 and S6 of what was tried against this server."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import aiohttp
import pytest

from podberth.policy.admission import jobs
from podberth.policy.admission.lanes import OverloadedError
from podberth.policy.admission.review import Bytes, Hint
from podberth.policy.admission.reviewer import BIG_BYTES, Reviewer, ReviewReply
from podberth.policy.admission.server import BODIES_EACH
from podberth.policy.options import Pass
from tests.unit.policy.admission.builders import Object, config_map, encoded, policy, review, rule
from tests.unit.policy.admission.conftest import until
from tests.unit.policy.admission.test_reviewer import (
    DEFAULT_TEAM,
    reviewer,
)
from tests.unit.policy.admission.test_server import Site, post

SPEAKS = {f"k{i}": "v" for i in range(32)}


def costly(count: int, namespace: str = "evil") -> list[Object]:
    """Policies in mode warn, each with 64 rules of 64 writes that match everything."""
    rules = [rule(labels=SPEAKS, annotations=SPEAKS) for _ in range(64)]
    return [policy(f"p{i}", *rules, namespace=namespace, mode="warn") for i in range(count)]


# -- S2: policies that are dear to judge -------------------------------------------------------------------------------


async def test_nobody_waits_behind_costly_policies(monkeypatch: pytest.MonkeyPatch) -> None:
    """A review of a namespace whose policies cost much is judged aside: another's, which comes later, is first."""
    by = reviewer(DEFAULT_TEAM, *costly(7))
    done: list[str] = []
    real, go_on = jobs.ruled, threading.Event()
    monkeypatch.setattr(jobs, "ruled", lambda *given: go_on.wait(20) and real(*given))  # however fast the thread is

    async def ask(name: str, document: Object) -> None:
        assert (await by.answer(encoded(document), "mutate")).status == 200
        done.append(name)
        if name == "team":
            go_on.set()

    evil = review(config_map(), namespace="evil")
    await asyncio.gather(ask("evil", evil), ask("team", review(config_map())))
    assert done == ["team", "evil"]


# -- S6: large bodies --------------------------------------------------------------------------------------------------


class Gate(Reviewer):
    """A reviewer whose answers for the namespace `evil` wait for the test."""

    def __init__(self) -> None:
        self.go_on = asyncio.Event()
        self.begun: list[str] = []
        self.gone = 0

    async def answer(self, body: Bytes, pass_: Pass) -> ReviewReply:
        """Wait if it is evil's."""
        namespace = json.loads(bytes(body))["request"]["namespace"]
        self.begun.append(namespace)
        try:
            if namespace == "evil":
                await self.go_on.wait()
        except asyncio.CancelledError:
            self.gone += 1
            raise
        return ReviewReply(200, b"{}", "allowed")


@contextmanager
def opened(gate: Gate) -> Iterator[Gate]:
    """However a test ends, nobody is left waiting."""
    try:
        yield gate
    finally:
        gate.go_on.set()


def large(namespace: str, size: int = 1_200_000) -> bytes:
    """A review of an object of so many bytes."""
    obj: dict[str, Any] = {**config_map(), "data": {"blob": "x" * size}}
    obj["metadata"]["namespace"] = namespace
    return encoded(review(obj))


FIT = BODIES_EACH // len(large("evil"))
"""So many large reviews of one namespace are held at once."""


async def test_large_reviews_have_room_by_namespace() -> None:
    """However many large reviews of one namespace wait, another's is read and answered at once."""
    with opened(Gate()) as gate:
        made = Site(gate)
        await made.server.start("127.0.0.1", 0)
        async with made.session(limit=0) as session:
            evil = [asyncio.create_task(post(session, f"{made.url}/mutate", large("evil"))) for _ in range(12)]
            await until(lambda: len(gate.begun) == FIT)
            async with asyncio.timeout(60):
                assert (await post(session, f"{made.url}/mutate", large("team")))[0] == 200
            assert gate.begun.count("evil") == FIT
            gate.go_on.set()
            await asyncio.gather(*evil)
        await made.server.stop()


@pytest.mark.parametrize("size", [10, 1_200_000])
async def test_who_hangs_up_holds_nothing(size: int) -> None:
    """When a client goes away its review is given up, and what it held is free."""
    with opened(Gate()) as gate:
        made = Site(gate)
        await made.server.start("127.0.0.1", 0)
        async with made.session(limit=0) as session:
            asking = [asyncio.create_task(post(session, f"{made.url}/mutate", large("evil", size))) for _ in range(3)]
            await until(lambda: len(gate.begun) == 3)
            for task in asking:
                task.cancel()
            await asyncio.gather(*asking, return_exceptions=True)
            await until(lambda: gate.gone == 3)
            assert made.server.bodies.busy == 0
        await made.server.stop()
        assert b'outcome="gone"} 3.0' in made.metrics.text()


async def test_overload_is_the_own_namespaces() -> None:
    """Who stands in their own way is told no, which no failurePolicy turns into a yes; others get no answer."""
    by = reviewer(DEFAULT_TEAM)
    answer = by.overloaded(Hint("uid-1", "evil"), OverloadedError("evil", own=True))
    response = json.loads(answer.body)["response"]
    assert (answer.status, response["uid"], response["allowed"]) == (200, "uid-1", False)
    assert (response["status"]["code"], response["status"]["details"]) == (429, {"retryAfterSeconds": 1})
    assert "namespace evil" in response["status"]["message"]
    for hint, own in ((Hint("uid-1", "team"), False), (Hint("", "evil"), True)):
        answer = by.overloaded(hint, OverloadedError("x", own=own))
        assert (answer.status, answer.outcome) == (503, "overloaded")


async def test_too_many_large_ones_are_refused() -> None:
    """With more large reviews of a namespace than may wait, the next one is refused before its body is read."""
    with opened(Gate()) as gate:
        made = Site(gate)
        made.server.bodies.most = 1
        gate.overloaded = reviewer(DEFAULT_TEAM).overloaded  # type: ignore[method-assign]
        await made.server.start("127.0.0.1", 0)
        async with made.session(limit=0) as session:
            evil = [asyncio.create_task(post(session, f"{made.url}/mutate", large("evil"))) for _ in range(FIT)]
            await until(lambda: len(gate.begun) == FIT)
            last = asyncio.create_task(post(session, f"{made.url}/mutate", large("evil")))
            await until(lambda: made.server.bodies.waiting == 1)
            async with asyncio.timeout(60):
                status, body = await post(session, f"{made.url}/mutate", large("evil", BIG_BYTES))
            assert (status, json.loads(body)["response"]["status"]["code"]) == (200, 429)
            gate.go_on.set()
            await asyncio.gather(*evil, last)
        await made.server.stop()


async def test_answers_outlive_a_session_that_is_closed() -> None:
    """A client that closes its session while others wait changes nothing for them."""
    with opened(Gate()) as gate:
        made = Site(gate)
        await made.server.start("127.0.0.1", 0)
        async with made.session() as stays:
            async with made.session() as goes:
                lost = asyncio.create_task(post(goes, f"{made.url}/mutate", large("evil", 10)))
                await until(lambda: len(gate.begun) == 1)
            with pytest.raises((aiohttp.ClientError, asyncio.CancelledError)):
                await lost
            assert (await post(stays, f"{made.url}/mutate", large("team", 10)))[0] == 200
        await made.server.stop()
