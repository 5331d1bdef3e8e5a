"""Put the operator together and run it until SIGTERM or SIGINT; or audit once, and say what was found.

Every replica watches, so that one can take over at once; only the one that holds the Lease looks further and writes.
"""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, nullcontext

import structlog

from scheduler.kube.candidate import Candidate
from scheduler.kube.client import Client
from scheduler.kube.connection import Connection
from scheduler.kube.lease import LeaseLostError, own_identity
from scheduler.kube.schedulers import LiveSchedulers, Schedulers
from scheduler.kube.writes import micro_time
from scheduler.policy.objects import JsonObject
from scheduler.policy.operator.audit import BURST, QPS, Audit, Result, report
from scheduler.policy.operator.judge import bounded
from scheduler.policy.operator.kinds import resource
from scheduler.policy.operator.probe import Probe
from scheduler.policy.operator.reconciler import Reconciler
from scheduler.policy.operator.settings import Settings
from scheduler.policy.operator.watch import Watch
from scheduler.policy.spec import Policies
from scheduler.telemetry.ending import end_at_once

Served = Callable[[Client, "Operator"], AbstractAsyncContextManager[object]]

log = structlog.get_logger("operator")


def nowhere(_client: Client, _operator: Operator) -> AbstractAsyncContextManager[object]:
    """Tell nobody."""
    return nullcontext()


async def operate(connection: Connection, settings: Settings, served: Served = nowhere) -> None:
    """Reconcile until SIGTERM or SIGINT; `served` runs around it, and tells of it."""
    async with Client(connection) as client, Client(connection, qps=QPS, burst=BURST) as slow:
        operator = Operator(client, slow, settings)
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, operator.end)
        log.info("starting", server=connection.host, namespace=settings.namespace, watched=settings.watched or "all")
        async with served(client, operator):
            await operator.run()
        log.info("stopped")


async def audit_once(connection: Connection, settings: Settings) -> JsonObject:
    """Audit every namespace that has policies, now, and write nothing.

    Raises ApiError and Unreachable when policies can't be listed.
    """
    async with Client(connection) as client, Client(connection, qps=QPS, burst=BURST) as slow:
        operator = Operator(client, slow, settings)
        results: dict[str, Result] = {}
        for namespace in await operator.reconciler.namespaces():
            stored = bounded((await operator.reconciler.read(namespace)).policies)
            policies = Policies(one.policy for one in stored if one.policy is not None)
            results[namespace] = await operator.audit.run(namespace, policies)
            for problem in dict.fromkeys(one.unread for one in stored if one.unread):
                results[namespace].problems.append(problem)
        return report(results, f"{micro_time(time.time())[:-8]}Z")


class Operator:
    """One replica; `run` it once."""

    def __init__(self, client: Client, slow: Client, settings: Settings) -> None:
        self._settings = settings
        self._ending = asyncio.Event()
        identity = own_identity()
        self.elector = Candidate(
            client.connection,
            settings.namespace,
            settings.lease,
            identity,
            on_problem=lambda said: log.error("lease not reached", lease=settings.lease, error=said[:300]),
            on_dead=end_at_once,
        )
        kinds = map(resource, settings.audit_kinds)
        self.audit = Audit(slow, kinds, settings.namespace, settings.exempt, settings.reserved)
        self.schedulers = Schedulers(
            client,
            settings.namespace,
            LiveSchedulers(settings.scheduler_lease, settings.profiles),
            lambda: self.reconciler.mark(None),
        )
        self.reconciler = Reconciler(
            client,
            self.audit,
            settings,
            lambda: self.schedulers.live,
            lambda: self.elector.leading,
            identity=identity,
        )
        self.watch = Watch(client, client.connection, settings.watched, self.reconciler.mark)
        self.probe = Probe(self.watch.pulse, lambda: self.elector.leading)

    def end(self) -> None:
        """Come to an end; may be called from a signal handler of the loop."""
        self._ending.set()

    async def run(self) -> None:
        """Work until `end`. What breaks one of the parts comes out here."""
        async with asyncio.TaskGroup() as tasks:
            await self.probe.start(self._settings.host, self._settings.port)
            log.info("listening", port=self.probe.port)
            running = [tasks.create_task(part) for part in (self.watch.run(), self.schedulers.run(), self._lead())]
            try:
                await self._ending.wait()
            finally:
                for task in running:
                    task.cancel()
                await self.probe.stop()

    async def _lead(self) -> None:
        """Be a candidate, do the leader's work while elected, for ever."""
        while True:
            try:
                await self.elector.run(self._led)
            except LeaseLostError as error:
                log.warning("leads no longer", reason=str(error))

    async def _led(self) -> None:
        log.info("leads", identity=self.elector.term.identity)
        await self.schedulers.synced()
        await self.reconciler.lead()
