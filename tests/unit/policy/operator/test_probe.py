"""The port of the operator's probes: plain HTTP for kubelets, and bounded like the others."""

from __future__ import annotations

import asyncio
import contextlib

from podberth.policy.operator.pulse import Pulse

from podberth.policy.operator.probe import LIMITS, Probe
from tests.unit.service import hostile

ASKED = b"GET /livez HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"


async def test_silent_connections() -> None:
    """Many of them, from the kubelet's own address: its probe is answered, and few are held."""
    probe = Probe(Pulse(["policies"]), lambda: True)
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
            assert said.endswith(b"ok; watch never answered; leads\n")
            assert len(port.connections) <= LIMITS.of_peer
        finally:
            for client in silent:
                client.close()

    await asyncio.to_thread(attack)
    await probe.stop()
    assert probe.ports() == []
