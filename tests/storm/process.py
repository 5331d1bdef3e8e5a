"""A process of Berth in the simulated world: its lives, its clocks, and the ways in which they end.

Which process it is, and what it does, its subclasses say: `berth`, `evictor`, `policing`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass
from random import Random
from typing import Any

from podberth.kube.client import Client
from podberth.kube.connection import Connection
from podberth.kube.lease import Elector, LeaseLostError
from podberth.kube.machine import Machine
from podberth.service.run import only
from tests.storm.loop import Loop, Timeline
from tests.storm.network import Network
from tests.storm.server import PORT

EPOCH = 1_790_000_000.0
HOST = f"http://api.storm:{PORT}"
NAMESPACE = "kube-system"
RESTART_SECONDS = 3.0
"""How long a kubelet takes to start a process again that has ended."""


@dataclass(frozen=True)
class Clock:
    """How a process' clocks are wrong."""

    offset: float
    rate: float
    wall: float


class Process:
    """One process, through all its lives."""

    lease = ""
    """The Lease that it is a candidate for."""

    def __init__(self, name: str, timeline: Timeline, network: Network, seed: str, clock: Clock) -> None:
        self.name = name
        self.lives = 0
        self.loop: Loop
        self.elector: Elector | None = None
        self.client: Client | None = None
        self.ended: list[str] = []
        """How its lives ended."""
        self.loops: list[Loop] = []
        """Those of all lives, each thread's."""
        self.killed = 0
        """How often it had no chance to finish its work."""
        self.wall_error = clock.wall
        self._working: asyncio.Future[None] | None = None
        self._timeline = timeline
        self._network = network
        self._seed = seed
        self._clock = clock

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
        self.loop = self.thread()
        self.loop.create_task(self._live())

    def thread(self) -> Loop:
        """A loop of this life."""
        clock = self._clock
        loop = Loop(self._timeline, self.name, offset=clock.offset, rate=clock.rate, network=self._network)
        loop.life = self.lives
        self.loops.append(loop)
        return loop

    def stop_turning(self, seconds: float) -> None:
        """SIGSTOP, and SIGCONT some seconds later."""
        threads = [loop for loop in self.loops if not loop.still]
        for loop in threads:
            loop.stop_turning()

        def go_on() -> None:
            for loop in threads:
                if not loop.dead:
                    loop.go_on()

        self._network.loop.call_later(seconds, go_on)

    def kill(self, seconds: float, *, told: bool = True) -> None:
        """kill -9, or the machine loses power; another life begins after some seconds."""
        if not self.alive:
            return
        loop = self.loop
        self.killed += 1
        self.ended.append("killed")
        self.end(loop, told=told)
        self._network.loop.at(self._timeline.now + seconds, self._again, loop)

    def terminate(self) -> None:
        """SIGTERM."""
        if self.alive:
            self.loop.call_soon(self._terminate)

    def end(self, loop: Loop, *, told: bool) -> None:
        """No step more; `told`: the kernel lives on and closes the connections."""
        for thread in self.loops:
            if thread.life == loop.life and not thread.dead:
                thread.kill()
                self._network.died(thread, told=told)

    # -- what a subclass says ----------------------------------------------------------------------------------------

    async def work(self, machine: Machine) -> None:
        """What it does in a life."""
        raise NotImplementedError

    def _terminate(self) -> None:
        """What it does on SIGTERM."""
        if self._working is not None:
            self._working.cancel()

    # -- what they share ---------------------------------------------------------------------------------------------

    def client_of(self, machine: Machine, *, protobuf: bool = False) -> Client:
        """A client with this life's clock, chance and name."""
        return Client(
            Connection(HOST, user_agent=self.user, namespace=NAMESPACE),
            protobuf=protobuf,
            rng=machine.chance,
            clock=machine.monotonic,
        )

    def candidate(self, client: Client, machine: Machine, annotations: dict[str, str] | None = None) -> Elector:
        """An Elector, which in production runs in a thread of its own."""
        elector = self.elector = Elector(
            client,
            NAMESPACE,
            self.lease,
            self.user,
            annotations=annotations,
            rng=machine.chance,
            clock=machine.monotonic,
            wall=machine.wall,
        )
        return elector

    async def _live(self) -> None:
        loop = self.loop
        try:
            await self.work(self._machine())
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

    def _machine(self) -> Machine:
        loop = self.loop
        rng = Random(f"{self._seed}/{self.user}")

        def wall() -> float:
            return EPOCH + self.wall_error + loop.here

        return Machine(loop.look, wall, rng.random, self.user, loop.look)

    async def until_told(self, work: Coroutine[Any, Any, None]) -> None:
        """Work until it is done, or SIGTERM cancels it."""
        self._working = asyncio.ensure_future(work)
        try:
            await asyncio.wait((self._working,))
        except asyncio.CancelledError:
            self._working.cancel()
            raise
        if not self._working.cancelled():
            self._working.result()

    def _exit(self, loop: Loop) -> None:
        self.end(loop, told=True)
        self._network.loop.at(self._timeline.now + RESTART_SECONDS, self._again, loop)

    def _again(self, loop: Loop) -> None:
        if loop is self.loop and loop.dead:
            self.start()
