"""The serving port under clients that mean no good: probes go on being answered, and nothing grows without end."""

from __future__ import annotations

import asyncio
import contextlib
import re
import socket

import pytest
from structlog.testing import capture_logs

from podberth.service.serving import Gate
from tests.unit.service import hostile
from tests.unit.service.test_serving import Asking, everybody, serving

THOUSAND = 1000
MOST = 128
"""What the serving port holds at once; a few more places are kept for health."""
TOKEN = b"GET /metrics HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer nobody\r\n\r\n"


def refused(ask: Asking) -> dict[str, float]:
    """How often, by reason."""
    text = ask("/metrics")[1]
    found = re.findall(r'^berth_port_refused_total\{port="serving",reason="([^"]+)"\} ([\d.e+]+)$', text, re.M)
    return {reason: float(times) for reason, times in found}


def connections(ask: Asking) -> float:
    """How many are open, the one that asks included."""
    (found,) = re.findall(r'^berth_port_connections\{port="serving"\} (\S+)$', ask("/metrics")[1], re.M)
    return float(found)


async def test_a_thousand_idle_connections() -> None:
    """They close one another; probes are answered all the while, and the descriptors stay few."""

    def attack() -> None:
        before = hostile.open_files()
        clients = []
        try:
            for i in range(THOUSAND):
                clients.append(hostile.tls(ask.port))
                if i % 50 == 0:
                    assert ask("/livez")[0] == 200
            held = hostile.open_files() - before - len(clients)
            assert held <= MOST + 32
            assert connections(ask) <= MOST
            assert ask("/livez")[0] == 200
            assert hostile.ended(clients[0])
        finally:
            for client in clients:
                client.close()
        assert refused(ask)["crowded"] >= THOUSAND - MOST

    async with serving(Gate(everybody)) as ask:
        await asyncio.to_thread(attack)


GARBAGE = {
    "plain HTTP on the TLS port": b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n",
    "noise": bytes(range(256)) * 4,
    "a handshake that stops being one": bytes.fromhex("1603010200") + b"\xff" * 512,
}
NO_HTTP = {
    "no request": (b"\x16\x03\x01 what is this\r\n\r\n", "malformed"),
    "no such version": (b"GET /livez HTTP/9.9.9\r\n\r\n", "malformed"),
    "a bad header": (b"GET /livez HTTP/1.1\r\nHost: x\r\nbad header\r\n\r\n", "malformed"),
    "two lengths": (b"GET /livez HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", "malformed"),
    "a huge line": (b"GET /" + b"a" * 70_000 + b" HTTP/1.1\r\n\r\n", "too-long"),
    "a huge header": (b"GET /livez HTTP/1.1\r\nX: " + b"a" * 70_000 + b"\r\n\r\n", "too-long"),
    "many headers": (b"GET /livez HTTP/1.1\r\n" + b"X: y\r\n" * 1000 + b"\r\n", "malformed"),
}


async def test_what_is_no_request(caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]) -> None:
    """TLS that is none, HTTP that is none: each is counted, each reason has one line, and nothing has a traceback."""

    def attack() -> dict[str, float]:
        for _ in range(3):
            for words in GARBAGE.values():
                with contextlib.closing(hostile.tcp(ask.port)) as client:
                    hostile.say(client, words)
            for words, _reason in NO_HTTP.values():
                with contextlib.closing(hostile.tls(ask.port)) as client:
                    assert b" 200 " not in hostile.say(client, words).partition(b"\r\n")[0]
            assert ask("/livez")[0] == 200
        return refused(ask)

    with capture_logs() as lines:
        async with serving(Gate(everybody)) as ask:
            found = await asyncio.to_thread(attack)
    wanted = {"tls": 3.0 * len(GARBAGE)}
    for _, reason in NO_HTTP.values():
        wanted[reason] = wanted.get(reason, 0.0) + 3.0
    assert found == wanted
    told = [line["reason"] for line in lines if line["event"] == "refused"]
    assert sorted(told) == sorted(wanted)
    assert "Traceback" not in caplog.text + capfd.readouterr().err
    assert not [line for line in lines if "exc_info" in line or "exception" in line]


async def test_half_closed_and_half_asked() -> None:
    """Who says half a request and stops, or closes one side, or goes on asking unread: probes do not notice."""

    def attack() -> None:
        clients: list[socket.socket] = []
        try:
            for _ in range(40):
                clients += [hostile.tcp(ask.port), hostile.tls(ask.port), hostile.tls(ask.port), hostile.tcp(ask.port)]
                clients[-1].shutdown(socket.SHUT_WR)
                clients[-2].sendall(b"GET /livez HTTP/1.1\r\nHost: x\r\n")
                clients[-3].settimeout(0.0)
                with contextlib.suppress(OSError):
                    clients[-3].sendall(b"GET /livez?verbose HTTP/1.1\r\nHost: x\r\n\r\n" * 2000)
                assert ask("/livez")[0] == 200
            assert connections(ask) <= MOST
        finally:
            for client in clients:
                client.close()

    async with serving(Gate(everybody)) as ask:
        await asyncio.to_thread(attack)


async def test_askers_of_one_address_who_never_end() -> None:
    """A peer has a few requests under way; the next is told so at once, and its probes are answered."""
    waiting, over = asyncio.Event(), asyncio.Event()
    asked = 0

    async def slowly(_header: str | None, _path: str, _certificate: bytes | None, _peer: str) -> tuple[int, str]:
        nonlocal asked
        asked += 1
        waiting.set()
        await over.wait()
        return 401, "who are you?"

    def attack() -> list[bytes]:
        with hostile.idle(ask.port, 40) as clients:
            for client in clients:
                client.sendall(TOKEN)
            assert ask("/livez")[0] == 200
            loop.call_soon_threadsafe(over.set)
            return [client.recv(4096).partition(b"\r\n")[0] for client in clients]

    loop = asyncio.get_running_loop()
    async with serving(Gate(slowly)) as ask:
        said = await asyncio.to_thread(attack)
    assert asked == said.count(b"HTTP/1.1 401 Unauthorized")
    assert said.count(b"HTTP/1.1 429 Too Many Requests") == len(said) - asked
    assert 8 <= asked < 40
