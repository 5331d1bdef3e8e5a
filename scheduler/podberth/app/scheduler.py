"""`berth run`: reflectors → inbox → engine → writer, on one event loop, in short turns.

All changes in the inbox are applied before the next pod is scheduled, and at most `MAX_IN_FLIGHT` Bindings are in
progress, so that each decision sees the newest state of the cluster.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

import structlog

from podberth.app.calls import Calls, Sources
from podberth.app.extenders import ExtenderBinder, Extenders
from podberth.app.metrics import Meter
from podberth.app.reporting import Reports
from podberth.app.watch import STALE_SECONDS, ClusterWatch, Originals, UnshownClaims
from podberth.app.watchdog import Watchdog
from podberth.app.writer import SETTLED, Writer
from podberth.engine.engine import Engine
from podberth.engine.instructions import UNSCHEDULABLE, Failed, Instruction
from podberth.engine.stimuli import Broke, Compared, Cycle, ExtendersAnswered, ExtendersFailed, Stimulus, Tick
from podberth.framework.config import Extender, SchedulerConfiguration
from podberth.framework.extenders import in_order
from podberth.framework.runtime import Framework
from podberth.kube.client import Client
from podberth.kube.lease import Elector
from podberth.kube.machine import MACHINE, Machine
from podberth.model.kinds import Modelled
from podberth.model.pod import Pod
from podberth.service.loop import Blocks, worked
from podberth.service.metrics import Instrument, Quantiles

log = structlog.get_logger("scheduler")

MAX_IN_FLIGHT = 160
LET_GO_BESIDE = 128
"""The number of writes under way below which the next Bindings of a decided gang are sent. The difference to
`MAX_IN_FLIGHT` is for pods that are decided meanwhile.
"""
STREAM_SECONDS = 0.01
"""The first change that arrives within this time is taken for the beginning of a stream of changes."""
GATHER_SECONDS = 0.003
"""The wait for more changes of such a stream: waking up costs as much as a decision, and each pod of a stream
brings four changes."""
SLICE_SECONDS = 0.004
"""The engine's part of one turn of the event loop. Lists and answers to writes have parts of their own in that turn."""
LOOP_TURNS = 4
"""Turns of the event loop after a turn of ours that was long. What is under way for other pods needs several of them:
bytes are received, then decoded, then a pod is decided, then its Binding is sent."""
WATCHES_AFTER_SECONDS = 0.1
"""The time from the first lists to the first watches: the connections that these need would hold up the first Bindings.
"""
COMPARED_SECONDS = 60.0
"""Seconds for which a new leader tries to compare the known claims with a list; after that it gives devices all the
same.
"""
_IDLE_SECONDS = 30.0
_BUG = "a bug of the scheduler, whose log says more"
"""The text for a pod whose cycle failed; the exception itself would tell its author nothing."""

Observer = Callable[[Instruction], None]
Handle = Callable[[Stimulus, float], list[Instruction]]


class Follower(Protocol):
    """Hears of all that the engine of a scheduler is given; who starts the scheduler hands it in."""

    def read(self, kind: str, thing: Modelled, raw: bytes) -> None:
        """An object was read from these bytes; large ones are read in a thread of their own."""

    def follow(self, scheduler: "Scheduler", handle: Handle) -> Handle:
        """Return what handles stimuli in place of `handle`, which it calls."""

    def leads(self, now: float, seconds: float) -> None:
        """The scheduler leads from now on, as `Engine.takes_over` is told."""

    def reconfigured(self, config: SchedulerConfiguration, frameworks: Mapping[str, Framework], now: float) -> None:
        """The scheduler decides by this configuration from now on, and objects are read as its profiles read them."""


def _shown_whole(extenders: Iterable[Extender]) -> list[str]:
    """Return the kinds of which extenders get whole objects: Pod, and Node unless all extenders cache the nodes
    themselves.
    """
    kinds = ["Pod"] if extenders else []
    return [*kinds, "Node"] if any(not extender.node_cache_capable for extender in extenders) else kinds


class Scheduler:
    """Runs one engine against one cluster until stopped.

    With an `elector` it keeps its caches up to date, and writes only while it is the leader.
    """

    def __init__(
        self,
        client: Client,
        frameworks: Mapping[str, Framework],
        config: SchedulerConfiguration,
        *,
        seed: int = 0,
        observe: Observer | None = None,
        elector: Elector | None = None,
        verify: int = 0,
        machine: Machine = MACHINE,
        follower: Follower | None = None,
    ) -> None:
        self._clock, self._wall = machine.monotonic, machine.wall
        self.originals = Originals(_shown_whole(config.extenders))
        self.extenders = Extenders(config.extenders, self.originals, self.receive)
        binders = [ExtenderBinder(one, self.extenders) for one in in_order(config.extenders) if one.bind_verb]
        self.engine = Engine(
            frameworks,
            seed=seed,
            initial_backoff=config.pod_initial_backoff_seconds,
            max_backoff=config.pod_max_backoff_seconds,
            in_full=observe is not None,
            extenders=config.extenders,
            binders=binders,
            verify=verify,
            let_go_beside=LET_GO_BESIDE,
        )
        self.engine.cluster.devices.salt = str(machine.chance())
        self.meter = Meter(self.engine, frameworks, clock=machine.monotonic, rng=machine.chance)
        self._inbox: deque[Stimulus] = deque()
        self._unshown = UnshownClaims(client, lambda: self.engine.cluster.devices, self.receive)
        self._awake = asyncio.Event()
        self._stopping = False
        self._observe = observe
        self._elector = elector
        self._led = elector is None
        self._took_over = asyncio.Event()
        self.leads_since: float | None = None
        """The time at which it was elected, on the clock of the engine."""
        self.watch = ClusterWatch(
            client,
            frameworks,
            self.originals,
            self.receive,
            self._awake.set,
            self._tell_too_large,
            limits=config.limits,
            machine=machine,
            read=None if follower is None else follower.read,
        )
        self.freshness = self.watch.freshness
        name = f"berth-{machine.name}"
        self.writer = Writer(client, self.receive, name, machine=machine, freshness=self.freshness)
        self.calls = Calls(self.receive, lambda: self.leading)
        self.sources = Sources(frameworks, self.receive, machine.monotonic, self._awake.set)
        self._reports = Reports()
        self.carries: dict[type[Instruction], Callable[[Any], None]] = {
            **self.writer.carries,
            **self.calls.carries,
            **self.extenders.carries,
            **self._reports.carries,
            Failed: self._failed,
        }
        self.watchdog = Watchdog(framework.guard for framework in frameworks.values())
        self._hear_plugins(frameworks)
        self._synced = asyncio.Event()
        self.blocks = Blocks(clock=machine.monotonic)
        self.decisions = Quantiles()
        """The durations of cycles: a pod popped, decided, assumed."""
        self.instruments: list[Instrument] = []
        """Metrics of those who follow."""
        self._follower = follower
        self._handle: Handle = self.meter.handle
        if follower is not None:
            self._handle = follower.follow(self, self._handle)

    def stop(self) -> None:
        """End `run` after the writes under way; may be called from a signal handler of the loop."""
        self._stopping = True
        self._awake.set()

    async def run(self, *, drain_seconds: float = 10.0) -> None:
        """Watch the cluster and schedule until `stop`. Raises what breaks a reflector or the loop.

        Raises LeaseLostError, in a group, when it was the leader and lost the Lease; writes in progress are cancelled.
        """
        async with asyncio.TaskGroup() as tasks:
            works = (*self.watch.work(), self._unshown.run(), self._compare_claims(), self.sources.run())
            following = [tasks.create_task(work) for work in works]
            self.blocks.start()
            try:
                await self._sync()
                with self.watchdog:
                    loop = tasks.create_task(self.work_forever())
                    following.append(loop)
                    await self.lead_in_turn(loop, drain_seconds)
            finally:
                self.blocks.stop()
                for task in following:
                    task.cancel()
                await self.calls.close()
                await self.extenders.close()
                await self.writer.drain(0.0)

    async def lead_in_turn(self, loop: asyncio.Task[None], drain_seconds: float) -> None:
        """Lead, at once or when elected, until the loop ends. Then finish the writes, and give the Lease back last."""

        async def lead() -> None:
            if self._elector is not None:
                log.info("leads", identity=self._elector.term.identity)
                self.leads_since = self._clock()
                if self._follower is not None:
                    self._follower.leads(self.leads_since, SETTLED + STALE_SECONDS)
                self.writer.plugin_writes.overtake(
                    self.engine.takes_over(self.leads_since, SETTLED + STALE_SECONDS, True)
                )
                self._took_over.set()
                self._led = True
                for pod in self.watch.placed_too_large.values():
                    self._tell_too_large(pod)
            self._awake.set()
            await asyncio.wait((loop,))
            await self.calls.close()
            await self.extenders.close()
            late = await self.writer.drain(drain_seconds)
            log.info("stopped", **self._totals(), writes_cut_off=late)

        if self._elector is None:
            await lead()
            return
        term = asyncio.ensure_future(self._elector.run(lead))
        try:
            await asyncio.wait((loop, term), return_when=asyncio.FIRST_COMPLETED)
            if self._led:
                await term
            elif term.done():
                term.result()
            else:
                log.info("stopped", **self._totals(), writes_cut_off=0)
        finally:
            term.cancel()
            await asyncio.gather(term, return_exceptions=True)

    @property
    def leading(self) -> bool:
        """Return whether it may act at this very moment."""
        return self._elector is None or self._elector.leading

    @property
    def inbox(self) -> int:
        """Return the number of stimuli that wait to be applied."""
        return len(self._inbox)

    @property
    def led(self) -> bool:
        """Return whether it has ever been the leader."""
        return self._led

    @property
    def stopping(self) -> bool:
        """Return whether it was told to stop."""
        return self._stopping

    def reconfigure(self, config: SchedulerConfiguration, frameworks: Mapping[str, Framework]) -> None:
        """Use another configuration from the next cycle on. If it reads pods differently, list them again."""
        anew, now = bool(frameworks.keys() - self.engine.queue.frameworks.keys()), self._clock()
        if self._follower is not None:
            self._follower.reconfigured(config, frameworks, now)
        self.engine.reconfigure(frameworks, config.pod_initial_backoff_seconds, config.pod_max_backoff_seconds, now)
        self.meter.follow(frameworks)
        self.watchdog.follow(framework.guard for framework in frameworks.values())
        self._hear_plugins(frameworks)
        self.sources.follow(frameworks)
        self.watch.follow(frameworks, config.limits, anew=anew)
        self._awake.set()

    def _hear_plugins(self, frameworks: Mapping[str, Framework]) -> None:
        for framework in frameworks.values():
            # The event loop handles SIGINT and SIGTERM: a KeyboardInterrupt out of a plugin is the plugin's failure.
            framework.guard.uninterrupted = True
            framework.guard.failed = self._reports.plugin_failed

    async def wait_synced(self) -> None:
        """Wait until the first lists are in and scheduling has begun."""
        await self._synced.wait()

    def receive(self, stimulus: Stimulus) -> None:
        """Put a stimulus into the inbox: a change of the watch, or an answer to an instruction."""
        self._inbox.append(stimulus)
        self._awake.set()

    async def _sync(self) -> None:
        """Wait until every kind is listed, or is refused and not needed, and sources were called; apply everything."""
        started = self._clock()
        while not self._stopping and (self.freshness.awaited() or self.sources.awaited()):
            await self.wait(0.05 if self._inbox else _IDLE_SECONDS)
            await self._apply_inbox()
        await self._apply_inbox()
        if self._stopping:
            return
        nodes = self.engine.cluster.nodes.count
        log.info(
            "synced",
            seconds=round(self._clock() - started, 3),
            nodes=nodes,
            placed_pods=len(self.engine.cluster),
        )
        asyncio.get_running_loop().call_later(WATCHES_AFTER_SECONDS, self.freshness.listed.set)
        self._synced.set()

    async def _compare_claims(self) -> None:
        """Compare the known claims with a list after another leader, as the watch may have missed devices that it
        gave.
        """
        await self._took_over.wait()
        if not await self.watch.compare_claims(COMPARED_SECONDS):
            log.warning("claims could not be compared with a list; devices are given by what the watch has shown")
        self.receive(Compared())

    async def _apply_inbox(self) -> None:
        """Apply the inbox, and what follows from it, before the first decision."""
        more = True
        while more:
            more = self.work(cycles=False)
            await asyncio.sleep(0)

    async def work_forever(self) -> None:
        """Apply changes and schedule pods until the scheduler is stopped."""
        while not self._stopping:
            began = self._clock()
            if self.work(cycles=self._led):
                for _ in range(LOOP_TURNS if self._clock() - began > 2 * SLICE_SECONDS else 1):
                    await asyncio.sleep(0)
                continue
            due = self.engine.next_tick()
            await self.wait(_IDLE_SECONDS if due is None else min(due - self._clock(), _IDLE_SECONDS))
            self._carry_out(self._handle(Tick(), self._clock()))

    def work(self, *, cycles: bool) -> bool:
        """Apply changes, then schedule pods, for up to `SLICE_SECONDS`; return True when there is more to do."""
        cycles = cycles and self.freshness.may_decide
        engine, handle, inbox = self.engine, self._handle, self._inbox
        handled, more = 0, False
        now = started = self._clock()
        engine.epoch = self._wall() - now
        due = engine.next_tick()
        if due is not None and due <= now:
            # Also while there is no end of active pods: others' backoffs are over all the same.
            self._carry_out(handle(Tick(), now))
            now = self._clock()
        while now - started < SLICE_SECONDS:
            if inbox:
                for _ in range(min(len(inbox), 32)):
                    stimulus = inbox.popleft()
                    goes_on = isinstance(stimulus, (ExtendersAnswered, ExtendersFailed))
                    self._carry_out(self._attempt(stimulus, now) if goes_on else handle(stimulus, now))
                    handled += 1
                    if self._clock() - now > SLICE_SECONDS:
                        break  # what extenders said of a costly pod
            elif cycles and engine.has_work and engine.in_flight < MAX_IN_FLIGHT and self.leading:
                instructions = self._attempt(Cycle(), now)
                self.decisions.add(self._clock() - now)
                handled += 1
                self._carry_out(instructions)
            elif engine.queue.has_pending_work:
                self._carry_out(handle(Tick(), now))
                handled += 1
            else:
                break
            now = self._clock()
        else:
            more = True
        worked(handled)
        if engine.take_undone():
            self.freshness.restored()
        return more

    def _attempt(self, stimulus: Stimulus, now: float) -> list[Instruction]:
        """Schedule one pod, or go on with it. An unexpected exception fails this attempt, and the loop goes on."""
        try:
            return self._handle(stimulus, now)
        except Exception:
            log.exception("a scheduling cycle failed, this is a bug of Berth")
            return self._handle(Broke(_BUG), now)

    async def wait(self, seconds: float) -> None:
        """Sleep until something arrives or the time is over, and a moment longer for more of a stream."""
        if self._inbox or self._stopping:
            return
        self._awake.clear()
        asleep = self._clock()
        alarm = asyncio.get_running_loop().call_later(max(seconds, 0.0), self._awake.set)
        try:
            await self._awake.wait()
        finally:
            alarm.cancel()
        if self._inbox and self._clock() - asleep < STREAM_SECONDS:
            await asyncio.sleep(GATHER_SECONDS)

    def _carry_out(self, instructions: list[Instruction]) -> None:
        if not self._led:
            return  # the leader does the same
        for instruction in instructions:
            if self._observe is not None:
                self._observe(instruction)
            self.carries[type(instruction)](instruction)

    def _tell_too_large(self, pod: Pod) -> None:
        """Report a placed pod that is beyond a limit, as the leader. A new leader reports all of them when elected."""
        if self._led:
            self.writer.placed_too_large(pod, next(iter(self.engine.queue.frameworks)))

    def _failed(self, failed: Failed) -> None:
        if failed.reason == UNSCHEDULABLE:
            self.freshness.check_soon()
        self._reports.failed(failed)

    def _totals(self) -> dict[str, int | float]:
        quantiles = {
            "decision_p50_ms": self.decisions.at(0.5),
            "decision_p99_ms": self.decisions.at(0.99),
            "held_p99_ms": self.blocks.busy.at(0.99),
            "held_longest_ms": self.blocks.longest,
            "held_longest_wall_ms": self.blocks.longest_wall,
        }
        return {
            "bound": self.writer.bound,
            "bind_errors": self.writer.bindings.failures.total(),
            "events": self.writer.events.written,
            "pending": len(self.engine.queue),
            **self.meter.verified(),
            **{name: round(1000 * seconds, 4) for name, seconds in quantiles.items() if seconds is not None},
        }
