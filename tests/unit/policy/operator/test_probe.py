"""The port of the operator's probes: plain HTTP for kubelets, and bounded like the others."""

from __future__ import annotations

import asyncio
import contextlib

import aiohttp

from podberth.policy.operator.probe import LIMITS, Probe
from tests.unit.service import hostile

ASKED = b"GET /livez HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"


async def test_silent_connections() -> None:
    """Many of them, from the kubelet's own address: its probe is answered, and few are held."""
    probe = Probe(lambda: None, lambda: None, lambda: "leads")
    await probe.start("127.0.0.1", 0)
    (port,) = probe.ports()

    def attack() -> None:
        silent = []
        try:
            for _ in range(200):
                silent.append(hostile.tcp(probe.port))
                silent[-1].sendall(b"GET /livez HTTP/1.1\r\n")
            with contextlib.closing(hostile.tcp(probe.port)) as kubelet:
                said = hostile.say(kubelet, ASKED)
            assert said.startswith(b"HTTP/1.1 200 OK\r\n")
            assert said.endswith(b"ok; leads\n")
            assert len(port.connections) <= LIMITS.of_peer
        finally:
            for client in silent:
                client.close()

    await asyncio.to_thread(attack)
    await probe.stop()
    assert probe.ports() == []


async def test_answers() -> None:
    """Both probes say in a line what they know, 503 when it is bad, 404 for anything else."""
    problems: dict[str, str | None] = {"dead": None, "unready": "no answer yet"}
    probe = Probe(lambda: problems["dead"], lambda: problems["unready"], lambda: "leads")
    await probe.start("127.0.0.1", 0)
    try:
        async with aiohttp.ClientSession(f"http://127.0.0.1:{probe.port}") as session:

            async def ask(path: str) -> tuple[int, str]:
                async with session.get(path) as answer:
                    return answer.status, await answer.text()

            assert await ask("/livez") == (200, "ok; leads\n")
            assert await ask("/readyz") == (503, "no answer yet; leads\n")
            problems.update(dead="it hangs", unready=None)
            assert await ask("/readyz") == (200, "ok; leads\n")
            assert await ask("/livez") == (503, "it hangs; leads\n")
            assert (await ask("/metrics"))[0] == 404
    finally:
        await probe.stop()
