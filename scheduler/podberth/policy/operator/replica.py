"""One replica of the operator: its parts put together, what it answers, and how it is run.

A replica that stands by only waits for the Lease, so that a second kopf costs nobody anything. Who loses the Lease
ends, as Kubernetes' own controllers do: a new process begins with an empty index.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Collection

import kopf
import structlog

from podberth.kube.client import Client
from podberth.kube.connection import Connection
from podberth.kube.lease import Elector, LeaseLostError
from podberth.kube.machine import MACHINE, Machine
from podberth.kube.resources import METADATA_POLICIES
from podberth.policy.operator import handlers
from podberth.policy.operator.audit import BURST, QPS, Audit, Audits
from podberth.policy.operator.enforcement import KINDS, SETS, Enforcer, Kept, kept
from podberth.policy.operator.index import Index, Missed
from podberth.policy.operator.kopf_limits import ENDING_SECONDS, Pulse, Session, until_served
from podberth.policy.operator.listing import resource
from podberth.policy.operator.probe import Probe
from podberth.policy.operator.reconcile import Reconciler, entry
from podberth.policy.operator.settings import Settings
from podberth.service.election import candidate
from podberth.service.loop import give_memory_back, trim_memory_each_minute
from podberth.service.metrics import Asked, Family, Instrument, Labels
from podberth.service.run import until_told
from podberth.service.schedulers import LiveSchedulers, Schedulers
from podberth.service.serving import Address, Endpoints

LARGE_BYTES = 64 << 10
"""Blocks of this size and more are given back when they are freed: large policies come as one text."""
COLLECT = 2000, 5, 2
"""New objects until a collection, and collections of one generation until one of the next."""
RESYNC_SECONDS = 300.0
"""Between two looks at everything, and two comparisons with a list."""
WRITES_QPS, WRITES_BURST = 200.0, 400
"""Limits of the client that writes: two thousand namespaces are in force within a minute after a start."""

LEADER = Family(
    "leader_election_master_status",
    "gauge",
    "1 for the replica that holds the Lease and writes statuses, 0 for others.",
    ("name",),
)
WATCH_AGE = Family(
    "berth_operator_watch_age_seconds",
    "gauge",
    "Seconds since the API server last answered the watch of policies, which the leader has. Up to 55 is normal.",
)
SCHEDULERS = Family(
    "berth_operator_live_schedulers", "gauge", "1 for each schedulerName that a live scheduler serves.", ("name",)
)
NATIVES = Family(
    "berth_operator_admission_policies",
    "gauge",
    "Admission policies and bindings by which the API server enforces MetadataPolicies.",
)
NATIVE_NAMESPACES = Family(
    "berth_operator_native_namespaces",
    "gauge",
    "Namespaces in which the API server enforces MetadataPolicies by itself.",
)
NATIVE_WRITES = Family(
    "berth_operator_admission_policy_writes_total",
    "counter",
    "Sets, admission policies and bindings written or deleted.",
)
NATIVE_REPAIRS = Family(
    "berth_operator_admission_policy_repairs_total",
    "counter",
    "Sets, admission policies and bindings that somebody else had changed or deleted.",
)
FAMILIES = (LEADER, WATCH_AGE, SCHEDULERS, NATIVES, NATIVE_NAMESPACES, NATIVE_WRITES, NATIVE_REPAIRS)

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
        self.settings = settings
        self._client = client
        self.elector = elector or candidate(client, settings.namespace, settings.lease)
        client.fence = self.elector.left
        self.pulse = Pulse((METADATA_POLICIES.path(one) for one in settings.watched or (None,)), machine.monotonic)
        streams = (len(KINDS) + 2) * max(len(settings.watched), 1)
        self.session = Session(client.connection, self.pulse, streams)
        self.policies = Index(METADATA_POLICIES, entry)
        self.sets = Index(SETS, kept, settings.selector)
        indices = self.policies, self.sets
        self.missed = Missed(client, self.session, self.pulse, settings.watched, indices, self._lost)
        self.schedulers = Schedulers(
            client,
            settings.namespace,
            LiveSchedulers(settings.scheduler_lease, settings.profiles),
            lambda: self.look_everywhere(),
            clock=machine.boottime,
            wall=machine.wall,
            rng=machine.chance,
        )
        self.enforcer = Enforcer(
            client, settings, self.set_of, self._namespaces, lambda: self.look_everywhere(), machine
        )
        self.audit = Audit(slow, map(resource, settings.audit_kinds), settings.exempt, settings.options)
        self.audits = Audits(
            self.audit,
            lambda namespace: self.reconciler.read(namespace),
            lambda namespace: self.reconciler.look_soon(namespace),
            settings.audit_seconds,
            machine.monotonic,
        )
        self.reconciler = Reconciler(
            client,
            settings,
            self.policies.of,
            self.missed.complete,
            self.enforcer,
            lambda: self.schedulers.live,
            self.audits.of,
            identity=self.elector.term.identity,
            machine=machine,
        )
        self.probe = Probe(self.dead, self.unready, self._about)

    async def run(self) -> None:
        """Work until cancelled. What breaks one of the parts comes out here.

        Raises ServingError, and LeaseLostError at the end of a term.
        """
        await self.probe.start(self.settings.host, self.settings.port)
        log.info("listening", port=self.probe.port)
        try:
            await self.work()
        finally:
            await self.probe.stop()

    async def work(self) -> None:
        """Work as `run` does, without answering probes."""
        await self.elector.run(self._lead)

    async def _lead(self) -> None:
        log.info("leads", identity=self.elector.term.identity)
        await until_served(self._client, self.pulse)
        async with asyncio.TaskGroup() as tasks:
            parts = [self.schedulers.run(), self.enforcer.run(), self.missed.run(), self._resync_forever()]
            if self.settings.audit_seconds:
                parts.append(self.audits.run())
            beside = [tasks.create_task(part) for part in parts]
            await self.schedulers.synced()
            await self._watch()
            for task in beside:
                task.cancel()

    async def _watch(self) -> None:
        """Run kopf until it is told to end. Raises LeaseLostError when it ends otherwise, or would never end."""
        watched, others = self.settings.watched, asyncio.all_tasks()
        roots = await kopf.spawn_tasks(
            registry=handlers.REGISTRY,
            memo=self.memo(),
            standalone=True,
            clusterwide=not watched,
            namespaces=list(watched),
        )
        running = asyncio.create_task(kopf.run_tasks(roots, ignored=others))
        try:
            await asyncio.wait(roots, return_when=asyncio.FIRST_COMPLETED)
            ended, _ = await asyncio.wait([running], timeout=ENDING_SECONDS)
        except asyncio.CancelledError:
            running.cancel()
            await asyncio.wait([running], timeout=ENDING_SECONDS)
            raise
        finally:
            await self.session.close()
        if not ended:
            running.cancel()
            raise LeaseLostError(f"one of kopf's tasks has ended, and kopf itself not within {ENDING_SECONDS:.0f} s")
        error = running.exception()
        if error is not None:
            # An answer that it did not expect ends it: a 5xx that lasts, or an error in the midst of a watch.
            raise LeaseLostError(f"kopf has ended: {type(error).__name__}: {str(error)[:300]}") from error

    # -- what the handlers ask -------------------------------------------------------------------------------------

    def memo(self) -> handlers.Parts:
        """Return the parts that handlers ask."""
        return handlers.Parts(self.settings, self.session, self.policies, self.sets, self.reconciler, self.enforcer)

    def set_of(self, namespace: str) -> Kept | None:
        """Return the set that a namespace has."""
        return next(iter(self.sets.of(namespace)), None)

    def _namespaces(self) -> Collection[str] | None:
        """Return the namespaces that have policies; None while the first list of policies is not complete."""
        return self.policies.namespaces() if self.missed.complete.is_set() else None

    def look_everywhere(self) -> None:
        """Reconcile all namespaces that have policies or a set, once it is known which these are."""
        if self.missed.complete.is_set():
            for namespace in sorted({*self.policies.namespaces(), *self.sets.namespaces()}):
                self.reconciler.look_soon(namespace)

    def _lost(self) -> None:
        self.enforcer.forget()
        self.look_everywhere()

    async def _resync_forever(self) -> None:
        await self.missed.complete.wait()
        while True:
            self.look_everywhere()
            await asyncio.sleep(RESYNC_SECONDS)
            self.session.relisted.set()  # a watch may have lost events, and kopf lists only when one ends

    # -- what others ask -------------------------------------------------------------------------------------------

    def dead(self) -> str | None:
        """Return why a new process should take over; None while there is life."""
        return self.pulse.dead() if self.elector.leading else None

    def unready(self) -> str | None:
        """Return why it would not do its work; None when it does, or stands by for it."""
        if self.elector.leading:
            return self.pulse.unready()
        return None if self.elector.reached else "the Lease was not reached yet"

    def _about(self) -> str:
        if not self.elector.leading:
            return "stands by"
        age = self.pulse.age()
        return f"watch {'never answered' if age is None else f'last answered {age:.1f} s ago'}; leads"

    def endpoints(self) -> Endpoints:
        """Return all that there is to serve about it."""

        def age() -> dict[Labels, float]:
            found = self.pulse.age()
            return {} if found is None else {(): found}

        def instruments() -> list[Instrument]:
            return [
                Asked(LEADER, lambda: {(self.settings.lease,): float(self.elector.leading)}),
                Asked(WATCH_AGE, age),
                Asked(NATIVES, lambda: {(): float(len(self.enforcer.found))}),
                Asked(NATIVE_NAMESPACES, lambda: {(): float(len(self.sets.namespaces()))}),
                Asked(NATIVE_WRITES, lambda: {(): float(self.enforcer.writes)}),
                Asked(NATIVE_REPAIRS, lambda: {(): float(self.enforcer.repairs)}),
                Asked(SCHEDULERS, lambda: {(name,): 1.0 for name in self.schedulers.live or ()}),
            ]

        return Endpoints(
            live={"watch": self.dead}, ready={"watch": self.unready}, instruments=instruments, ports=self.probe.ports
        )


async def operate(connection: Connection, settings: Settings, listen: Address | None = None) -> None:
    """Run a replica until SIGTERM or SIGINT; `listen`: where health and metrics are served.

    Raises ServingError, and LeaseLostError at the end of a term.
    """
    give_memory_back(LARGE_BYTES)
    # Each event leaves circles in kopf that hold the object: they are looked for often, and not in what was imported.
    # All generations are looked through once as many objects are new as a quarter of those that the last time left:
    # so the second time is after the freeze.
    gc.collect()
    gc.freeze()
    gc.collect()
    gc.set_threshold(*COLLECT)
    async with (
        Client(connection, qps=WRITES_QPS, burst=WRITES_BURST) as client,
        Client(connection, qps=QPS, burst=BURST) as slow,
    ):
        operator = Operator(client, slow, settings)
        await until_told(
            operator.run,
            client,
            beside=(trim_memory_each_minute,),
            listen=listen,
            endpoints=operator.endpoints(),
            namespace=settings.namespace,
            watched=settings.watched or "all",
        )
        log.info("stopped")
