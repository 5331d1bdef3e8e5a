"""A watch that stays open and loses events: the policies are compared with a list, and what was lost is repaired."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from structlog.testing import capture_logs

from podberth.kube.client import Client
from podberth.kube.connection import Connection
from podberth.kube.flow import WATCH, Lane
from podberth.policy.admission.cache import PolicyCache
from tests.unit.policy.admission.builders import policy, rule, without
from tests.unit.policy.admission.conftest import POLICIES, Api, until

POLICY = f"{POLICIES.format('team')}/lost"
OTHER = f"{POLICIES.format('team')}/other"


class Losing(Client):
    """A client whose watches lose what is said of one policy after its first list."""

    @asynccontextmanager
    async def stream(self, path: str, *, query: str = "", idle: float, lane: Lane = WATCH) -> AsyncIterator[Any]:
        """The stream, less the lines about it."""
        async with super().stream(path, query=query, idle=idle, lane=lane) as stream:
            yield _Filtered(stream)


class _Filtered:
    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self._rest = b""
        self.abort = stream.abort

    async def read(self) -> bytes:
        while chunk := await self._stream.read():
            *lines, self._rest = (self._rest + chunk).split(b"\n")
            kept = b"".join(line + b"\n" for line in lines if b'"name":"lost"' not in line)
            if kept:
                return kept
        return b""


async def test_a_write_of_the_status_is_no_loss(api: Api) -> None:
    """A comparison with the list finds the policy as it is, though only its resourceVersion is new."""
    body = policy("counted", rule(without("team"), labels={"team": "x"}))
    await api.create(POLICIES.format("team"), body)
    async with Client(Connection(host=api.server.url), qps=-1.0) as client:
        cache = PolicyCache(client, check_seconds=0.1)
        running = asyncio.create_task(cache.run())
        await cache.wait_known()
        held = cache.of("team")
        counted = {"status": {"rules": 1}}
        await api.call("PATCH", f"{POLICIES.format('team')}/counted/status", counted, "application/merge-patch+json")
        await api.create(POLICIES.format("team"), policy("other", rule(without("b"), labels={"b": "x"})))
        await until(lambda: "other" in {one.name for one in cache.of("team").specs})
        checks = cache.reflector.counts.checks
        await until(lambda: cache.reflector.counts.checks >= checks + 3)
        assert cache.reflector.counts.lost == 0
        assert cache.of("team").specs[:1] == held.specs
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


@pytest.mark.parametrize("what", ["DELETED", "MODIFIED", "ADDED"])
async def test_a_lost_event_of_a_policy_is_repaired(api: Api, what: str) -> None:
    """Nobody else would notice: a policy that is gone would reject for ever, and a new one would never apply."""
    body = policy("lost", rule(without("team"), labels={"team": "x"}))
    if what != "ADDED":
        await api.create(POLICIES.format("team"), body)
    async with Losing(Connection(host=api.server.url), qps=-1.0) as client:
        cache = PolicyCache(client, check_seconds=0.1)
        running = asyncio.create_task(cache.run())
        with capture_logs() as logs:
            await cache.wait_known()
            before = cache.of("team").specs
            match what:
                case "DELETED":
                    await api.call("DELETE", POLICY)
                case "MODIFIED":
                    changed = {"spec": policy("lost", rule(without("team"), labels={"team": "y"}))["spec"]}
                    await api.call("PATCH", POLICY, changed, "application/merge-patch+json")
                case _:
                    await api.create(POLICIES.format("team"), body)
            # Now the watch says something else, so it is not merely behind.
            await api.create(POLICIES.format("team"), policy("other", rule(without("b"), labels={"b": "x"})))
            await until(lambda: "other" in {one.name for one in cache.of("team").specs})
            await until(lambda: cache.reflector.counts.lost == 1)
            wanted = {"DELETED": 1, "MODIFIED": 2, "ADDED": 2}[what]
            await until(lambda: len(cache.of("team").specs) == wanted)
            await until(lambda: not any(one in cache.of("team").specs for one in before))
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
    assert [line["policies"] for line in logs if "lost events" in line["event"]] == [1]
