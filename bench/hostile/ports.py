"""The same for ports: clients that mean no good at the serving port of `berth run`, which a kubelet probes meanwhile.

What a tenant does here is to connect; a row has the number of connections, and no bytes. The cluster behind the port is
the embedded API server, and empty: what is asked for is health.
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

from bench import hostile_ports
from bench.hostile.row import Chosen, Row
from podberth.apiserver import ApiServer
from tests.controlplane.cluster import free_port
from tests.controlplane.process import Process
from tests.integration.component import environment

CONNECTIONS = 1_000
PROBES = 100
START = 60.0
BOUNDS = {"lost_probes_count": 0.0, "descriptors_count": 144.0, "memory_mb": 20.0}
"""Of probes none is lost; descriptors: the port's 128 and the 16 that it keeps for health; memory as for operators."""


@asynccontextmanager
async def _served(home: Path) -> AsyncIterator[hostile_ports.Target]:
    """A scheduler that serves, on a cluster with nothing in it."""
    async with ApiServer() as server:
        kubeconfig = home / "kubeconfig"
        names = {"cluster": "it", "user": "it"}
        kubeconfig.write_text(
            json.dumps(
                {
                    "apiVersion": "v1",
                    "kind": "Config",
                    "current-context": "it",
                    "clusters": [{"name": "it", "cluster": {"server": server.url}}],
                    "users": [{"name": "it", "user": {}}],
                    "contexts": [{"name": "it", "context": names}],
                }
            )
        )
        port = free_port()
        argv = [str(Path(sys.executable).with_name("berth")), "run", f"--kubeconfig={kubeconfig}"]
        argv += ["--bind-address=127.0.0.1", f"--secure-port={port}"]
        process = Process("berth", argv, home / "log", environment())
        process.start()
        try:
            target = hostile_ports.Target(port, pid=process.pid)
            async with asyncio.timeout(START):
                while await hostile_ports.probe(target) is None:
                    process.check()
                    await asyncio.sleep(0.1)
            yield target
        finally:
            await asyncio.to_thread(process.stop, START)


def rows(chosen: Chosen, say: Callable[[str], None]) -> Iterator[Row]:
    """A row for each attack that is asked for, one after the other on the same process."""
    names = [name for name in hostile_ports.ATTACKS if chosen.wants(_short(name))]
    if names:
        yield from asyncio.run(_rows(names, say))


async def _rows(names: list[str], say: Callable[[str], None]) -> list[Row]:
    found = []
    with tempfile.TemporaryDirectory(prefix="berth-ports-") as home:
        async with _served(Path(home)) as target:
            for name in names:
                say(f"ports: {name}")
                found.append(_row(await hostile_ports.measure(target, name, PROBES, CONNECTIONS)))
    return found


def _row(found: hostile_ports.Row) -> Row:
    costs = {
        "lost_probes_count": float(found.lost),
        "descriptors_count": float(found.during.descriptors - found.before.descriptors),
        "memory_mb": found.during.memory - found.before.memory,
        "probe_p50_ms": found.during_p50,
        "probe_p99_ms": found.during_p99,
        "quiet_probe_p99_ms": found.before_p99,
        "cpu_ms": 1000 * (found.during.cpu - found.before.cpu),
    }
    shape = f"{CONNECTIONS} connections to the serving port: {found.attack}"
    return Row("ports", "connection", _short(found.attack), shape, 0, CONNECTIONS, costs, BOUNDS)


def _short(name: str) -> str:
    return name.replace(",", "").replace(" ", "-").lower()
