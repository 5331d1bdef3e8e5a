"""Runs workloads on one control plane, each for one contender after the other, and measures."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from bench.contenders import NOTHING, Contender
from podberth.kube.client import Client
from podberth.kube.kubeconfig import from_kubeconfig
from podberth.kube.machine import loop_factory
from podberth.kube.resources import EVENTS
from podberth.testing.workloads.driver import Driver, Figures, figures
from podberth.testing.workloads.workload import Mode, Workload
from podberth.testing.workloads.writes import count
from tests.controlplane.cluster import Cluster
from tests.controlplane.process import Process

_EVENTS_PATIENCE = 60.0


class Row(msgspec.Struct, rename="camel", frozen=True):
    """One contender, one workload, one mode. CPU in milliseconds a pod, memory in MB, decisions in milliseconds."""

    workload: str
    mode: Mode
    contender: str
    figures: Figures
    cpu_ms: float | None
    memory_mb: float
    decision_p50: float | None = None
    decision_p99: float | None = None
    held_p99: float | None = None
    """CPU time for which the event loop was held at one go; `held_longest` likewise, both at most 4 ms too much."""
    held_longest: float | None = None
    held_longest_wall: float | None = None
    """The same by the clock: on a machine shared with others, mostly time in which they ran."""
    events_missing: int = 0
    """Scheduled events that were not there a minute after the last binding."""


class Runner:
    """Keeps the nodes from one workload to the next where both want the same."""

    def __init__(self, cluster: Cluster, home: Path, say: Callable[[str], None]) -> None:
        self._kubeconfig = cluster.kubeconfig(home / "driver.kubeconfig")
        self._say = say
        self._runs = 0
        self._nodes: tuple[bytes, str] | None = None

    def run(self, workload: Workload, contenders: Sequence[Contender], times: int = 1) -> list[Row]:
        """Every mode of the workload, every contender in turn, so many times."""
        with asyncio.Runner(loop_factory=loop_factory()) as runner:
            return runner.run(self._run(workload, contenders, times))

    async def _run(self, workload: Workload, contenders: Sequence[Contender], times: int) -> list[Row]:
        connection = from_kubeconfig([str(self._kubeconfig)], None)
        nodes = msgspec.json.encode(
            [step.create_nodes for step in workload.steps[: workload.lasting] if step.create_nodes]
        )
        rows = []
        async with Client(connection, qps=-1, timeout=120.0) as client:
            kept = self._nodes is not None and self._nodes[0] == nodes
            if self._nodes is not None and not kept:
                await self._drop_nodes(client, self._nodes[1])
            self._runs += 1
            run = f"bench-{self._runs}"
            pool = self._nodes[1] if kept and self._nodes is not None else run
            driver = Driver(client, workload, run, pool=pool, makes_claims=True)
            self._say(f"{workload.name}: setting up")
            await driver.set_up()
            self._nodes = (nodes, pool)
            for mode in workload.modes:
                for contender in (*contenders,) * times:
                    if mode in contender.modes and contender.measures(workload):
                        self._say(f"{workload.name}, {mode}: {contender.title}")
                        contender.workload = workload
                        rows.append(await self._measure(client, driver, workload, mode, contender))
                        await driver.clear()
            await driver.tear_down(keep_nodes=True)
        return rows

    async def _measure(
        self, client: Client, driver: Driver, workload: Workload, mode: Mode, contender: Contender
    ) -> Row:
        process: Process | None = None
        before = 0.0

        async def start() -> None:
            nonlocal process, before
            process = await asyncio.to_thread(contender.start)
            if mode is Mode.STREAM:
                before = process.cpu_seconds()

        def check() -> None:
            if process is not None:
                process.check()

        events = await self._events(client, driver)
        timing = await driver.measure(contender.scheduler_name, mode, start, check)
        assert process is not None
        try:
            wanted = events + len(timing.bound)
            missing = await self._wait_for_events(client, driver, wanted)
            done = figures(timing)
            cpu = process.cpu_seconds() - before
            memory = process.peak_memory_mb()
            decisions = await asyncio.to_thread(contender.decisions, process)
            held = contender.held(process)
        finally:
            await asyncio.to_thread(process.kill)
        return Row(
            workload=workload.name,
            mode=mode,
            contender=contender.key,
            figures=done,
            cpu_ms=1000 * cpu / done.bound if done.bound else None,
            memory_mb=memory,
            decision_p50=decisions.get(0.5),
            decision_p99=decisions.get(0.99),
            held_p99=held.get("p99"),
            held_longest=held.get("longest"),
            held_longest_wall=held.get("longest_wall"),
            events_missing=missing,
        )

    async def _wait_for_events(self, client: Client, driver: Driver, wanted: int) -> int:
        until = time.monotonic() + _EVENTS_PATIENCE
        there = await self._events(client, driver)
        while there < wanted and time.monotonic() < until:
            await asyncio.sleep(0.2)  # nothing tells us: watching events would cost the server more than asking
            there = await self._events(client, driver)
        return max(wanted - there, 0)

    async def _events(self, client: Client, driver: Driver) -> int:
        return sum([await count(client, EVENTS.path(namespace)) for namespace in driver.measured_namespaces])

    async def _drop_nodes(self, client: Client, run: str) -> None:
        await Driver(client, NOTHING, run).tear_down()
