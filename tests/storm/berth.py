"""One replica of `berth run` as a simulated process: the same parts that `launch` puts together, on a simulated loop.

What runs in threads in production runs inline: an Elector in place of the Candidate, with a client of its own as there.
The watchdog and the measuring of turns stay out: there is no other thread to watch, and no turn takes real time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from types import TracebackType
from typing import Any

from podberth.app.comparer import Comparer
from podberth.app.lease import lease_annotations
from podberth.app.reload import Reloader, Source
from podberth.app.scheduler import Follower, Scheduler
from podberth.engine.instructions import Bind
from podberth.framework.config import SchedulerConfiguration, decode
from podberth.framework.profiles import build
from podberth.framework.runtime import Framework
from podberth.kube.machine import Machine
from podberth.plugins.registry import registry
from tests.builders import configuration
from tests.storm.process import Process

LEASE = "berth"

LONGEST_BACKOFFS = (10, 5)
"""What a reload changes to and fro."""


PLUGINS = registry()
"""Read once: entry points are files."""


class _Reloader(Reloader):
    """Hears SIGHUP; there is no file to look at."""

    def _signature(self) -> None:
        return None


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


class Berth(Process):
    """A replica of the scheduler."""

    lease = LEASE
    profile: dict[str, Any]
    """The only one of its configuration."""
    follower: Callable[[SchedulerConfiguration, Mapping[str, Framework], Machine], Follower] | None = None
    """Makes what follows each of its lives."""
    scheduler: Scheduler | None = None
    reloader: Reloader | None = None
    comparer: Comparer | None = None
    _loaded = 0

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.decided: dict[str, float] = {}
        """UID of a pod → when it was decided last that it is to be bound (the world's time), in any of its lives."""

    def reload(self) -> None:
        """SIGHUP, with the other configuration in the file."""
        self._loaded = 1 - self._loaded
        if self.alive and self.reloader is not None:
            self.loop.call_soon(self.reloader.soon)

    def _terminate(self) -> None:
        if self.scheduler is not None:
            self.scheduler.stop()

    def _note_decisions(self, scheduler: Scheduler) -> None:
        post = scheduler.carries[Bind]

        def noted(bind: Bind) -> None:
            self.decided[bind.pod.uid] = self._timeline.now
            post(bind)

        scheduler.carries[Bind] = noted

    def _read(self) -> SchedulerConfiguration:
        longest = LONGEST_BACKOFFS[self._loaded]
        return decode(configuration(self.profile, podInitialBackoffSeconds=1, podMaxBackoffSeconds=longest))

    def _build(self, config: SchedulerConfiguration) -> Mapping[str, Framework]:
        return build(config, PLUGINS)

    async def work(self, machine: Machine) -> None:
        config = self._read()
        frameworks = self._build(config)
        async with self.client_of(machine, protobuf=True) as client, self.client_of(machine, protobuf=True) as aside:
            elector = self.candidate(aside, machine, lease_annotations(config))
            client.fence = elector.left
            follower = None if self.follower is None else self.follower(config, frameworks, machine)
            scheduler = Scheduler(
                client, frameworks, config, seed=1, elector=elector, machine=machine, follower=follower
            )
            scheduler.watchdog = _NoWatchdog()  # type: ignore[assignment]
            scheduler.blocks = _NoBlocks()  # type: ignore[assignment]
            self._note_decisions(scheduler)
            self.scheduler, self.client = scheduler, client
            self.reloader = _Reloader(scheduler, elector, config, Source(__file__, self._read, self._build))
            self.comparer = Comparer(client, scheduler)
            beside = [asyncio.create_task(part()) for part in (self.reloader.run, self.comparer.run)]
            try:
                await scheduler.run()
            finally:
                for task in beside:
                    task.cancel()
