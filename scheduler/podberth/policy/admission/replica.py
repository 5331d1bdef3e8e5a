"""Runs the admission server: one replica, until it is told to end, and then without failing a review.

Every replica answers reviews. The one that holds the Lease writes the webhook configurations and rotates the
certificates, and only when it is ready itself, so that webhooks are never registered before a replica can answer them.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import sys
import time
from collections.abc import Coroutine
from datetime import timedelta
from typing import Any

import structlog

from podberth.kube.client import Client
from podberth.kube.connection import Connection
from podberth.kube.lease import Elector
from podberth.kube.machine import MACHINE, Machine
from podberth.policy.admission.cache import PolicyCache
from podberth.policy.admission.certificates import MountedFiles, SharedSecret
from podberth.policy.admission.registration import Registration
from podberth.policy.admission.reviewer import Reviewer
from podberth.policy.admission.server import AdmissionServer, Metrics
from podberth.policy.admission.settings import Settings
from podberth.service.certificate import Certificate
from podberth.service.election import candidate, lead
from podberth.service.loop import Blocks, give_memory_back
from podberth.service.run import until_told
from podberth.service.schedulers import LiveSchedulers, Schedulers
from podberth.service.serving import Address, Endpoints

QPS, BURST = 200.0, 400
"""Requests per second, and at once: long policies that are read again; all others are a few a minute."""
LARGE_BYTES = 32 << 10
"""Blocks of so many bytes are mappings of their own, which the system has back at once. TLS has buffers of 32 to 64 KiB
for each connection that sends a large body; in the heap they would leave holes."""
SWITCH_SECONDS = 0.0005
"""After so long a thread that reads a long policy lets the event loop go on; by default it would after 5 ms."""

log = structlog.get_logger("admission")


async def admit(connection: Connection, settings: Settings, listen: Address | None = None) -> None:
    """Serve reviews until SIGTERM or SIGINT; `listen`: where health and metrics are served, besides the webhook's port.

    Raises ServingError.
    """
    give_memory_back(LARGE_BYTES)
    sys.setswitchinterval(SWITCH_SECONDS)
    gc.freeze()  # what was imported stays: no collection looks through it while reviews wait
    async with Client(connection, qps=QPS, burst=BURST) as client:
        replica = Replica(client, settings)
        await until_told(
            replica.run,
            client,
            stop=replica.end,
            listen=listen,
            endpoints=replica.endpoints(),
            namespace=settings.namespace,
            exempt=settings.exempt,
        )


class Replica:
    """One admission server; `run` it once. `end` lets it drain, a second `end` makes it hurry."""

    def __init__(
        self, client: Client, settings: Settings, *, elector: Elector | None = None, machine: Machine = MACHINE
    ) -> None:
        self._settings = settings
        self._ending = asyncio.Event()
        self._hurry = asyncio.Event()
        self.blocks = Blocks()
        tls = Certificate()
        tls.context.num_tickets = 0  # API servers keep no sessions; making tickets is a fifth of a handshake
        overlap = timedelta(seconds=settings.overlap_seconds)
        self.certificates: SharedSecret | MountedFiles
        if settings.cert_file is not None and settings.key_file is not None:
            self.certificates = MountedFiles(
                settings.cert_file, settings.key_file, settings.ca_file, tls, overlap=overlap, on_change=self._look
            )
        else:
            self.certificates = SharedSecret(
                client, settings.namespace, settings.secret, settings.names, tls, overlap=overlap, on_change=self._look
            )
        self.cache = PolicyCache(client, settings.allowed_prefixes, machine=machine)
        self.reviewer = Reviewer(self.cache, settings.options, frozenset(settings.exempt))
        self.schedulers = Schedulers(
            client,
            settings.namespace,
            LiveSchedulers(settings.scheduler_lease, settings.profiles),
            self._schedulers_changed,
            clock=machine.boottime,
            wall=machine.wall,
            rng=machine.chance,
        )
        self.elector = elector or candidate(client, settings.namespace, settings.lease)
        self.registration = Registration(client, settings, self.certificates, lambda: self.elector.leading)
        self.metrics = self._metrics()
        self.server = AdmissionServer(self.reviewer, self.metrics, lambda: tls.context, lambda: self.cache.unready)

    def end(self) -> None:
        """Drain and come to an end; may be called from a signal handler of the loop."""
        if self._ending.is_set():
            self._hurry.set()
        self._ending.set()

    async def run(self) -> None:
        """Serve until `end`. What breaks one of the parts comes out here."""
        self.blocks.start()
        try:
            await self._run()
        finally:
            self.blocks.stop()

    def endpoints(self) -> Endpoints:
        """Return the pages about this replica, for a port whose clients have to be authorised."""
        return Endpoints(
            ready={
                "policies": lambda: self.cache.unready,
                "shutdown": lambda: "shutting down" if self.server.draining else None,
            },
            instruments=self.metrics.instruments,
            ports=self.server.ports,
        )

    async def _run(self) -> None:
        settings = self._settings
        async with asyncio.TaskGroup() as tasks:
            running = [tasks.create_task(part) for part in (self.cache.run(), self.schedulers.run())]
            leading: asyncio.Task[None] | None = None
            try:
                if not await _first(self.certificates.ready(), self._ending):
                    return
                running.append(tasks.create_task(self.certificates.follow()))
                await self.server.start(settings.host, settings.port)
                log.info("listening", port=self.server.port)
                if await _first(self.cache.wait_known(), self._ending):
                    log.info("ready", policies=self.cache.counts()[0])
                    if settings.register:
                        leading = tasks.create_task(lead(self.elector, self._led))
                    await self._ending.wait()
                self.server.draining = True
                if leading is not None:
                    leading.cancel()
                    await asyncio.wait((leading,))  # the Lease is given back: another replica leads while we drain
                log.info("draining", seconds=settings.drain_seconds)
                if not await _first(self.server.drain(settings.drain_seconds), self._hurry):
                    await self.server.stop()
                log.info("stopped")
            finally:
                for task in (*running, leading):
                    if task is not None and not task.cancelling():
                        task.cancel()
                await self.server.stop()

    async def _led(self) -> None:
        log.info("leads: keeps webhook configurations and certificates", identity=self.elector.term.identity)
        await self.registration.lead()

    def _look(self) -> None:
        self.registration.wake()

    def _schedulers_changed(self) -> None:
        self.reviewer.live_schedulers = self.schedulers.live

    def _metrics(self) -> Metrics:
        started = time.monotonic()
        return Metrics(
            {
                "berth_admission_uptime_seconds": (
                    "Seconds since the process started",
                    lambda: time.monotonic() - started,
                ),
                "berth_admission_policies": ("Policies that apply", lambda: self.cache.counts()[0]),
                "berth_admission_policies_refused": ("Policies that were not accepted", lambda: self.cache.counts()[1]),
                "berth_admission_policies_left_out": (
                    "Policies that are accepted but not applied, because the policies of their namespace cost too much",
                    lambda: self.cache.left_out,
                ),
                "berth_admission_namespaces_closed": (
                    "Namespaces where every create is refused, because a policy that rejects is not applied there",
                    lambda: self.cache.closed,
                ),
                "berth_admission_longest_turn_seconds": (
                    "The longest turn of the event loop since the start, in seconds of CPU time",
                    lambda: self.blocks.longest,
                ),
                "berth_admission_reviews_waiting": (
                    "Large reviews, and reviews under costly policies, that wait for their turn",
                    lambda: self.reviewer.turns.waiting + self.server.bodies.waiting,
                ),
                "berth_admission_policies_staleness_seconds": (
                    "Seconds since the API server last sent anything about policies. About 60 is normal",
                    lambda: self.cache.reflector.staleness() or 0.0,
                ),
                "berth_admission_policies_lost": (
                    "Policies that differed from a list because the watch had lost events, and were read again",
                    lambda: self.cache.reflector.counts.lost,
                ),
                "berth_admission_leading": (
                    "1 for the replica that writes webhook configurations and certificates, 0 for others",
                    lambda: float(self.elector.leading),
                ),
                "berth_admission_native": (
                    "1 for the leader where the API server enforces policies by itself, and it keeps no webhook",
                    lambda: float(self.registration.native),
                ),
                "berth_admission_enforcement_differs": (
                    "1 for the leader where the operator has the API server enforce policies, against --enforcement",
                    lambda: float(self.registration.differs),
                ),
                "berth_admission_registration_repairs": (
                    "How often a webhook configuration was written again because it had been changed",
                    lambda: self.registration.repairs,
                ),
            }
        )


async def _first(work: Coroutine[Any, Any, None], or_else: asyncio.Event) -> bool:
    """Wait for the work or the event: True when the work got done. It is cancelled when the event comes first."""
    doing = asyncio.create_task(work)
    waiting = asyncio.create_task(or_else.wait())
    try:
        await asyncio.wait((doing, waiting), return_when=asyncio.FIRST_COMPLETED)
        if not doing.done():
            return False
        doing.result()
        return True
    finally:
        for task in (doing, waiting):
            if not task.done():
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await task
