"""One replica of `berth run` as a simulated process: the same parts that `launch` puts together, on a simulated loop.

What runs in threads in production runs inline: an Elector in place of the Candidate, with a client of its own as there.
The watchdog and the measuring of turns stay out: there is no other thread to watch, and no turn takes real time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from random import Random
from types import TracebackType
from typing import Any

from scheduler.controller.candidacy import lease_annotations
from scheduler.controller.comparer import Comparer
from scheduler.controller.reload import Loaded, Reloader
from scheduler.controller.scheduler import Scheduler
from scheduler.framework.config import decode
from scheduler.framework.profiles import build
from scheduler.kube.client import Client
from scheduler.kube.connection import Connection
from scheduler.kube.lease import Elector, LeaseLostError
from scheduler.kube.machine import Machine
from scheduler.plugins.registry import registry
from scheduler.service.run import only
from tests.builders import configuration
from tests.storm.loop import Loop, Timeline
from tests.storm.network import Network
from tests.storm.server import PORT

EPOCH = 1_790_000_000.0
HOST = f"http://api.storm:{PORT}"
NAMESPACE = "kube-system"
LEASE = "berth"
RESTART_SECONDS = 3.0
"""How long a kubelet takes to start a process again that has ended."""

CONFIGURATIONS: tuple[dict[str, Any], ...] = (
    configuration(podInitialBackoffSeconds=1, podMaxBackoffSeconds=10),
    configuration(podInitialBackoffSeconds=1, podMaxBackoffSeconds=5),
)
"""What a reload changes to and fro."""


PLUGINS = registry()
"""Read once: entry points are files."""


class _NoWatchdog:
    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        return None

    def follow(self, guards: Iterable[Any]) -> None:
        """Nothing to follow."""


class _NoBlocks:
    longest = longest_wall = 0.0

    class busy:  # noqa: N801
        @staticmethod
        def at(_: float) -> None:
            return None

    def start(self) -> None:
        """Nothing is measured."""

    def stop(self) -> None:
        """Nothing is measured."""


@dataclass(frozen=True)
class Clock:
    """How a process' clocks are wrong."""

    offset: float
    rate: float
    wall: float


class Berth:
    """A replica, through all its lives."""

    def __init__(self, name: str, timeline: Timeline, network: Network, seed: str, clock: Clock) -> None:
        self.name = name
        self.lives = 0
        self.loop: Loop
        self.scheduler: Scheduler | None = None
        self.elector: Elector | None = None
        self.client: Client | None = None
        self.reloader: Reloader | None = None
        self.comparer: Comparer | None = None
        self.ended: list[str] = []
        """How its lives ended."""
        self.loops: list[Loop] = []
        self.wall_error = clock.wall
        self.on_start: Callable[[Berth], None] = lambda berth: None
        self._timeline = timeline
        self._network = network
        self._seed = seed
        self._clock = clock
        self._loaded = 0

    @property
    def user(self) -> str:
        """What its requests say of who it is: another name in each life."""
        return f"{self.name}.{self.lives}"

    @property
    def alive(self) -> bool:
        return self.lives > 0 and not self.loop.dead

    def start(self) -> None:
        """Begin another life."""
        self.lives += 1
        self.loop = Loop(
            self._timeline, self.name, offset=self._clock.offset, rate=self._clock.rate, network=self._network
        )
        self.loops.append(self.loop)
        self.loop.create_task(self._live())

    def _machine(self) -> Machine:
        loop = self.loop
        rng = Random(f"{self._seed}/{self.user}")
        return Machine(loop.look, lambda: EPOCH + self.wall_error + loop.here, rng.random, self.user)

    async def _live(self) -> None:
        loop = self.loop
        try:
            await self._run(self._machine())
            self.ended.append("stopped")
        except (LeaseLostError, BaseExceptionGroup) as error:
            broke = only(error)
            if not isinstance(broke, LeaseLostError):
                loop.broken.append(f"{type(broke).__name__}: {broke}")
            self.ended.append(f"{type(broke).__name__}: {broke}")
        except Exception as error:  # noqa: BLE001 - a finding
            loop.broken.append(f"{type(error).__name__}: {error}")
            self.ended.append(f"{type(error).__name__}: {error}")
        if not loop.void:
            loop.call_later(0.01, self._exit, loop)

    def _exit(self, loop: Loop) -> None:
        self.end(loop, told=True)
        self._network.loop.at(self._timeline.now + RESTART_SECONDS, self._again, loop)

    def _again(self, loop: Loop) -> None:
        if loop is self.loop and loop.dead:
            self.start()

    def end(self, loop: Loop, *, told: bool) -> None:
        """No step more; `told`: the kernel lives on and closes the connections."""
        loop.kill()
        self._network.died(loop, told=told)

    def kill(self, seconds: float, *, told: bool = True) -> None:
        """kill -9, or the machine loses power; another life begins after some seconds."""
        loop = self.loop
        if loop.dead:
            return
        self.ended.append("killed")
        self.end(loop, told=told)
        self._network.loop.at(self._timeline.now + seconds, self._again, loop)

    def terminate(self) -> None:
        """SIGTERM."""
        if self.alive and self.scheduler is not None:
            self.loop.call_soon(self.scheduler.stop)

    def reload(self) -> None:
        """SIGHUP, with the other configuration in the file."""
        self._loaded = 1 - self._loaded
        if self.alive and self.reloader is not None:
            self.loop.call_soon(self.reloader.soon)

    def _load(self) -> Loaded:
        config = decode(CONFIGURATIONS[self._loaded])
        return config, build(config, PLUGINS)

    def _client(self, machine: Machine) -> Client:
        return Client(
            Connection(HOST, user_agent=self.user, namespace=NAMESPACE),
            protobuf=True,
            rng=machine.chance,
            clock=machine.monotonic,
        )

    async def _run(self, machine: Machine) -> None:
        config, frameworks = self._load()
        async with self._client(machine) as client, self._client(machine) as aside:
            elector = Elector(
                aside,
                NAMESPACE,
                LEASE,
                self.user,
                annotations=lease_annotations(config),
                rng=machine.chance,
                clock=machine.monotonic,
                wall=machine.wall,
            )
            client.fence = elector.left
            scheduler = Scheduler(client, frameworks, config, seed=1, elector=elector, machine=machine)
            scheduler.watchdog = _NoWatchdog()  # type: ignore[assignment]
            scheduler.blocks = _NoBlocks()  # type: ignore[assignment]
            self.scheduler, self.elector, self.client = scheduler, elector, client
            self.reloader = Reloader(scheduler, elector, config, __file__, self._load)
            self.comparer = Comparer(client, scheduler)
            self.on_start(self)
            beside = [asyncio.create_task(part()) for part in (self.reloader.run, self.comparer.run)]
            try:
                await scheduler.run()
            finally:
                for task in beside:
                    task.cancel()
