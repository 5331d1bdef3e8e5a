"""How long a start takes: from the process' beginning to its first binding, Berth and kube-scheduler by turns.

`python -m bench.start [--workload basic] [--pods N] [--turns N]`. A backlog waits on a real control plane; a scheduler
is started, and killed once a watch has shown its first binding. Of Berth also the CPU time up to then. The least and
the median of all turns: a busy machine adds to each, and takes nothing away. Also how often Berth bound first.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

from bench.__main__ import load
from bench.contenders import BerthContender, KubeScheduler
from podberth.kube.client import Client
from podberth.kube.kubeconfig import from_kubeconfig
from podberth.kube.machine import loop_factory
from podberth.testing.workloads.driver import Driver
from podberth.testing.workloads.workload import Mode, Workload
from podberth.testing.workloads.writes import Bindings
from tests.controlplane.cluster import ControlPlane
from tests.controlplane.process import DiedError, Process

PATIENCE = 120.0


class Turn:
    """One start. CPU and time in seconds, memory in MB."""

    def __init__(self, waited: float, process: Process) -> None:
        self.first = waited
        self.cpu = process.cpu_seconds()
        self.memory = process.peak_memory_mb()


async def turn(client: Client, driver: Driver, run: str, name: str, spawn: Callable[[], Process]) -> Turn:
    """Start one before a backlog that asks for it by name, and kill it after its first binding."""
    spawned: asyncio.Future[Process] = asyncio.get_running_loop().create_future()
    began = 0.0

    async def start() -> None:
        nonlocal began
        began = time.monotonic()
        spawned.set_result(await asyncio.to_thread(spawn))

    def check() -> None:
        if spawned.done():
            spawned.result().check()

    async with Bindings(client, run) as bindings:
        measuring = asyncio.create_task(driver.measure(name, Mode.BACKLOG, start, check))
        process = await spawned
        try:
            await bindings.wait(lambda: bool(bindings.at), PATIENCE, process.check)
            found = Turn(min(bindings.at.values()) - began, process)
        finally:
            process.kill()
        with contextlib.suppress(DiedError):
            await measuring
    await driver.clear()
    return found


async def turns(workload: Workload, count: int, cluster: ControlPlane, home: Path) -> dict[str, list[Turn]]:
    """Berth and kube-scheduler by turns, on the same nodes."""
    connection = from_kubeconfig([str(cluster.kubeconfig(home / "driver.kubeconfig"))], None)
    kube, berth = KubeScheduler(cluster, home), BerthContender(cluster, home)
    found: dict[str, list[Turn]] = {kube.title: [], berth.title: []}
    async with Client(connection, qps=-1, timeout=120.0) as client:
        driver = Driver(client, workload, "start")
        await driver.set_up()
        for _ in range(count):
            found[berth.title].append(await turn(client, driver, "start", berth.scheduler_name, berth.spawn))
            found[kube.title].append(await turn(client, driver, "start", kube.scheduler_name, kube.start))
    return found


def main() -> None:
    """Take turns, and print both."""
    options = argparse.ArgumentParser(prog="python -m bench.start", description=(__doc__ or "").partition("\n")[0])
    options.add_argument("--workload", default="basic")
    options.add_argument("--pods", type=float, default=0.4, help="multiplies the number of measured pods")
    options.add_argument("--turns", type=int, default=5)
    chosen = options.parse_args()
    (workload,) = (each.scaled(1.0, chosen.pods) for each in load(chosen.workload))
    with (
        tempfile.TemporaryDirectory(prefix="berth-bench-") as directory,
        ControlPlane() as cluster,
        asyncio.Runner(loop_factory=loop_factory()) as runner,
    ):
        found = runner.run(turns(workload, chosen.turns, cluster, Path(directory)))
    pairs = [*zip(found[BerthContender.title], found[KubeScheduler.title], strict=True)]
    earlier = sum(berth.first < kube.first for berth, kube in pairs)
    print(f"{BerthContender.title} bound first in {earlier} of {len(pairs)} pairs")
    for title, all_of in found.items():
        first = [each.first for each in all_of]
        line = f"{title}: first binding after {min(first):.2f} s at least, {median(first):.2f} s in the middle"
        if title == BerthContender.title:
            cpu, memory = [each.cpu for each in all_of], max(each.memory for each in all_of)
            line += f"; CPU {min(cpu):.2f} and {median(cpu):.2f} s; {memory:.0f} MB"
        print(line)


if __name__ == "__main__":
    main()
