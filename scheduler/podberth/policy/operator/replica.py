"""The operator's parts, put together.

Every replica watches, so that one can take over at once; only the one that holds the Lease looks further and writes.
"""

from __future__ import annotations

import asyncio

import structlog

from podberth.kube.client import Client
from podberth.kube.lease import Elector
from podberth.kube.machine import MACHINE, Machine
from podberth.kube.schedulers import LiveSchedulers, Schedulers
from podberth.policy.operator.audit import Audit
from podberth.policy.operator.enforcer import Enforcer
from podberth.policy.operator.kinds import resource
from podberth.policy.operator.natives import Natives
from podberth.policy.operator.probe import Probe
from podberth.policy.operator.reconciler import Reconciler
from podberth.policy.operator.settings import Settings
from podberth.policy.operator.watch import Watch
from podberth.service.election import candidate, lead

log = structlog.get_logger("operator")


class Operator:
    """One replica; `run` it once."""

    def __init__(
        self,
        client: Client,
        slow: Client,
        settings: Settings,
        *,
        elector: Elector | None = None,
        machine: Machine = MACHINE,
    ) -> None:
        self._settings = settings
        self.elector = elector or candidate(client, settings.namespace, settings.lease)
        kinds = map(resource, settings.audit_kinds)
        self.audit = Audit(slow, kinds, settings.namespace, settings.exempt, settings.reserved)
        self.schedulers = Schedulers(
            client,
            settings.namespace,
            LiveSchedulers(settings.scheduler_lease, settings.profiles),
            lambda: self.reconciler.mark(None),
            clock=machine.boottime,
            wall=machine.wall,
            rng=machine.chance,
        )
        self.natives = Natives(client, settings.release, lambda namespace: self.reconciler.mark(namespace), machine)
        enforcer = Enforcer(
            client,
            settings,
            self.natives,
            lambda: self.elector.leading,
            wall=machine.wall,
            monotonic=machine.monotonic,
        )
        self.reconciler = Reconciler(
            client,
            self.audit,
            settings,
            lambda: self.schedulers.live,
            lambda: self.elector.leading,
            identity=self.elector.term.identity,
            enforcer=enforcer,
            clock=machine.wall,
            monotonic=machine.monotonic,
        )
        self.watch = Watch(client, client.connection, settings.watched, self.reconciler.mark, machine.monotonic)
        self.probe = Probe(self.watch.pulse, lambda: self.elector.leading)

    async def run(self) -> None:
        """Work until cancelled. What breaks one of the parts comes out here.

        Raises ServingError.
        """
        await self.probe.start(self._settings.host, self._settings.port)
        log.info("listening", port=self.probe.port)
        try:
            await self.work()
        finally:
            await self.probe.stop()

    async def work(self) -> None:
        """Work as `run` does, without answering probes."""
        async with asyncio.TaskGroup() as tasks:
            for part in (self.watch.run(), self.schedulers.run(), lead(self.elector, self._led)):
                tasks.create_task(part)

    async def _led(self) -> None:
        log.info("leads", identity=self.elector.term.identity)
        await self.schedulers.synced()
        async with asyncio.TaskGroup() as tasks:
            for part in (self.natives.run(), self.reconciler.lead()):
                tasks.create_task(part)
