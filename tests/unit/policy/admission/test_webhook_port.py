"""The webhook's port under silent connections: the API server keeps its own, and probes are answered."""

from __future__ import annotations

import asyncio
import contextlib
import json

from podberth.policy.admission.server import LIMITS
from tests.unit.policy.admission.builders import config_map, encoded, review
from tests.unit.policy.admission.test_reviewer import DEFAULT_TEAM, reviewer
from tests.unit.policy.admission.test_server import Site, post
from tests.unit.service import hostile

CALLERS = 25
"""Connections that an API server keeps when it has nothing to ask."""
KEPT_SECONDS = 90.0
"""For as long it keeps them. A client of aiohttp's closes them after 15 s, which is too soon on a busy machine."""
SILENT = 600


async def test_the_api_server_is_not_locked_out() -> None:
    """Others open hundreds from its own address: reviews go on over the connections that it has, and over new ones."""
    site = Site(reviewer(DEFAULT_TEAM))
    await site.server.start("127.0.0.1", 0)
    url, body = site.url, encoded(review(config_map()))
    (port,) = site.server.ports()

    async def reviews() -> None:
        found = await asyncio.gather(*(post(api_server, f"{url}/mutate", body) for _ in range(CALLERS)))
        assert [(status, json.loads(said)["response"]["allowed"]) for status, said in found] == [(200, True)] * CALLERS

    async with contextlib.AsyncExitStack() as ends:
        ends.push_async_callback(site.server.stop)
        kept_alive = site.session(limit=CALLERS, keepalive_timeout=KEPT_SECONDS)
        api_server = await ends.enter_async_context(kept_alive)
        kubelet = await ends.enter_async_context(site.session(force_close=True))
        await reviews()
        kept = [one for one in port.connections if one.until > port.clock() + LIMITS.ask]
        assert kept
        for _ in range(SILENT // 100):
            for _ in range(100):
                ends.callback((await asyncio.to_thread(hostile.tls, site.server.port)).close)
            assert len(port.connections) <= LIMITS.of_peer
            async with kubelet.get(f"{url}/livez") as response:
                assert response.status == 200
        assert set(kept) <= set(port.connections)
        await reviews()
        counted = {labels[1]: times for labels, times in port.complaints.refused.read().values.items()}
        assert counted.keys() <= {"crowded", "late"}  # late: on a busy machine they take longer than they may
        assert sum(counted.values()) >= SILENT - LIMITS.of_peer
