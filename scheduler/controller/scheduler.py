"""`berth run`: reflectors → inbox → engine → writer, on one event loop that is never held for long.

The inbox is emptied before pods are scheduled, and no more Bindings are under way than `MAX_IN_FLIGHT`: decisions
wait for fresh news rather than news for decisions.
"""

import asyncio
import gc
import os
import socket
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import structlog

from scheduler.controller.calls import Calls
from scheduler.controller.extenders import ExtenderBinder, Extenders
from scheduler.controller.originals import Originals
from scheduler.controller.watchdog import Watchdog
from scheduler.controller.writer import Writer
from scheduler.engine.engine import Engine
from scheduler.engine.instructions import (
    Announce,
    AskExtenders,
    Bind,
    BoundByPlugin,
    CancelCall,
    ClearNomination,
    Failed,
    Instruction,
    Misbehaved,
    PatchCondition,
    Preempt,
    Prepare,
    RecordFailure,
    RunCall,
)
from scheduler.engine.stimuli import Broke, Cycle, Gone, Put, Stimulus, Tick
from scheduler.framework.config import Extender, SchedulerConfiguration
from scheduler.framework.extenders import in_order
from scheduler.framework.runtime import Framework
from scheduler.kube.changes import Change, Deleted
from scheduler.kube.client import Client
from scheduler.kube.errors import ApiError
from scheduler.kube.reflector import Reflector
from scheduler.kube.resources import (
    CSI_DRIVERS,
    CSI_NODES,
    CSI_STORAGE_CAPACITIES,
    NAMESPACES,
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    POD_DISRUPTION_BUDGETS,
    PODS,
    REPLICA_SETS,
    REPLICATION_CONTROLLERS,
    SERVICES,
    STATEFUL_SETS,
    STORAGE_CLASSES,
    VOLUME_ATTACHMENTS,
    Resource,
)
from scheduler.model.kinds import Decoder, Modelled
from scheduler.model.node import Node
from scheduler.model.pod import Pod
from scheduler.plugins.annotation_affinity import annotated

log = structlog.get_logger("scheduler")

WATCHED = (
    NODES,
    PODS,
    NAMESPACES,
    SERVICES,
    REPLICATION_CONTROLLERS,
    REPLICA_SETS,
    STATEFUL_SETS,
    POD_DISRUPTION_BUDGETS,
    PERSISTENT_VOLUMES,
    PERSISTENT_VOLUME_CLAIMS,
    STORAGE_CLASSES,
    CSI_NODES,
    CSI_DRIVERS,
    CSI_STORAGE_CAPACITIES,
    VOLUME_ATTACHMENTS,
)
NEEDED = (NODES, PODS)
"""Kinds without which nothing can be decided; the others may be refused by RBAC and are then done without."""
LIVE_PODS = "status.phase!=Succeeded,status.phase!=Failed"
"""Finished pods hold no room, and there may be many."""

MAX_IN_FLIGHT = 160
SLICE_SECONDS = 0.008
_IDLE_SECONDS = 30.0
_TROUBLE_SECONDS = 1.0

Observer = Callable[[Instruction], None]


def _shown_whole(extenders: Iterable[Extender]) -> list[str]:
    """The kinds of which extenders see whole objects; the nodes not, if all of them know the nodes themselves."""
    kinds = ["Pod"] if extenders else []
    return [*kinds, "Node"] if any(not extender.node_cache_capable for extender in extenders) else kinds


class Scheduler:
    """Runs one engine against one cluster until stopped."""

    def __init__(
        self,
        client: Client,
        frameworks: Mapping[str, Framework],
        config: SchedulerConfiguration,
        *,
        seed: int = 0,
        observe: Observer | None = None,
    ) -> None:
        self.originals = Originals(_shown_whole(config.extenders))
        self.extenders = Extenders(config.extenders, self.originals, self._receive)
        binders = [ExtenderBinder(one, self.extenders) for one in in_order(config.extenders) if one.bind_verb]
        self.engine = Engine(
            frameworks,
            seed=seed,
            initial_backoff=config.pod_initial_backoff_seconds,
            max_backoff=config.pod_max_backoff_seconds,
            in_full=observe is not None,
            extenders=config.extenders,
            binders=binders,
        )
        self._inbox: deque[Stimulus] = deque()
        self._awake = asyncio.Event()
        self._stopping = False
        self._observe = observe
        self._told: dict[str, tuple[str, ...]] = {}
        self._decoder = Decoder(annotated(frameworks))
        self.writer = Writer(client, self._receive, instance=f"berth-{socket.gethostname()}-{os.getpid()}")
        self.calls = Calls(self._receive)
        self.watchdog = Watchdog(framework.guard for framework in frameworks.values())
        self.reflectors = [self._reflector(client, resource) for resource in WATCHED]
        self._synced = asyncio.Event()

    def stop(self) -> None:
        """End `run` after the writes under way; may be called from a signal handler of the loop."""
        self._stopping = True
        self._awake.set()

    async def run(self, *, drain_seconds: float = 10.0) -> None:
        """Follow the cluster and schedule until `stop`. What breaks a reflector or the loop comes out here."""
        async with asyncio.TaskGroup() as tasks:
            following = [tasks.create_task(reflector.run()) for reflector in self.reflectors]
            following.append(tasks.create_task(self._tell_troubles()))
            try:
                await self._sync()
                with self.watchdog:
                    await self._loop()
                await self.calls.close()
                await self.extenders.close()
                late = await self.writer.drain(drain_seconds)
                log.info("stopped", **self._totals(), writes_cut_off=late)
            finally:
                for task in following:
                    task.cancel()

    async def wait_synced(self) -> None:
        """Return once the first lists are in and scheduling has begun."""
        await self._synced.wait()

    def _reflector(self, client: Client, resource: Resource) -> Reflector[Any]:
        decode = self.originals.keeping(resource.kind, self._decoder.of_kind(resource.kind))
        return Reflector(
            client,
            resource,
            decode,
            lambda changes, _replaced: self._deliver(resource.kind, changes),
            field_selector=LIVE_PODS if resource is PODS else "",
            on_malformed=self._malformed,
            on_refused=self._refused,
        )

    def _deliver(self, kind: str, changes: list[Change[Any]]) -> None:
        for change in changes:
            if isinstance(change, Deleted):
                self._inbox.append(Gone(kind, change.namespace, change.name, change.uid))
                self.originals.drop(kind, change.namespace, change.name)
                self._told.pop(change.uid, None)
            else:
                self._warn_of_problems(change.object)
                self._inbox.append(Put(change.object))
        self._awake.set()

    def _warn_of_problems(self, thing: Modelled) -> None:
        """Say once what of an object could not be read; the rest of it takes part."""
        match thing:
            case Node(problems=problems):
                what = "node partly unreadable"
            case Pod():
                what, problems = "pod partly unreadable", thing.shape.warnings
            case _:
                return
        if problems and self._told.get(thing.uid) != problems:
            self._told[thing.uid] = problems
            log.warning(what, **{type(thing).__name__.lower(): thing.key}, problems=list(problems)[:5])

    def _receive(self, stimulus: Stimulus) -> None:
        self._inbox.append(stimulus)
        self._awake.set()

    def _malformed(self, resource: Resource, key: tuple[str, str] | None, error: Exception) -> None:
        log.error("object not understood, done without", kind=resource.kind, key=key, error=str(error)[:300])

    def _refused(self, resource: Resource, error: ApiError | None) -> None:
        if error is None:
            log.info("allowed again", kind=resource.kind)
        else:
            log.error("not allowed to follow", kind=resource.kind, needed=resource in NEEDED, error=str(error)[:300])
        self._awake.set()

    async def _tell_troubles(self) -> None:
        """Say that lists and watches fail, in one line for all kinds together, until they no longer do."""
        told = [0] * len(self.reflectors)
        while True:
            await asyncio.sleep(_TROUBLE_SECONDS)
            failing = [r for r, errors in zip(self.reflectors, told, strict=True) if r.counts.errors > errors]
            told = [r.counts.errors for r in self.reflectors]
            failing = [r for r in failing if r.refused is None and r.last_error is not None]
            if failing:
                kinds = [r.resource.kind for r in failing]
                log.warning("list or watch failed, trying again", kinds=kinds, error=str(failing[0].last_error)[:300])

    async def _sync(self) -> None:
        """Wait until every kind is listed, or refused where it can be done without; apply it all."""
        started = time.monotonic()
        while not self._stopping and not all(
            r.has_synced or (r.refused is not None and r.resource not in NEEDED) for r in self.reflectors
        ):
            await self._wait(0.05 if self._inbox else _IDLE_SECONDS)
            await self._apply_inbox()
        await self._apply_inbox()
        if self._stopping:
            return
        # What the first lists brought stays for long: keep the collector from walking it again and again.
        gc.collect()
        gc.freeze()
        gc.set_threshold(50_000, 20, 20)
        nodes = self.engine.cluster.nodes.count
        log.info(
            "synced", seconds=round(time.monotonic() - started, 3), nodes=nodes, placed_pods=len(self.engine.cluster)
        )
        self._synced.set()

    async def _apply_inbox(self) -> None:
        while self._inbox:
            self._work(cycles=False)
            await asyncio.sleep(0)

    async def _loop(self) -> None:
        while not self._stopping:
            if self._work(cycles=True):
                await asyncio.sleep(0)
                continue
            due = self.engine.next_tick()
            await self._wait(_IDLE_SECONDS if due is None else min(due - time.monotonic(), _IDLE_SECONDS))
            self._carry_out(self.engine.handle(Tick(), time.monotonic()))

    def _work(self, *, cycles: bool) -> bool:
        """Apply news, then schedule, for at most a slice of time; True when there is more to do."""
        engine, inbox = self.engine, self._inbox
        now = started = time.monotonic()
        while now - started < SLICE_SECONDS:
            if inbox:
                for _ in range(min(len(inbox), 32)):
                    self._carry_out(engine.handle(inbox.popleft(), now))
            elif cycles and engine.has_work and engine.in_flight < MAX_IN_FLIGHT:
                self._carry_out(self._cycle(now))
            else:
                return False
            now = time.monotonic()
        return True

    def _cycle(self, now: float) -> list[Instruction]:
        """Schedule one pod. The one catch there is: a fault of ours costs a pod its attempt, not all pods the loop."""
        try:
            return self.engine.handle(Cycle(), now)
        except Exception as error:
            log.exception("a cycle broke")
            return self.engine.handle(Broke(f"{type(error).__name__}: {error}"), now)

    async def _wait(self, seconds: float) -> None:
        """Sleep until something arrives or the time is over."""
        if self._inbox or self._stopping:
            return
        self._awake.clear()
        try:
            async with asyncio.timeout(max(seconds, 0.0)):
                await self._awake.wait()
        except TimeoutError:
            return

    def _carry_out(self, instructions: list[Instruction]) -> None:
        for instruction in instructions:
            if self._observe is not None:
                self._observe(instruction)
            match instruction:
                case Bind():
                    self.writer.bind(instruction)
                    log.debug("binding", pod=instruction.pod.key, node=instruction.node, attempts=instruction.attempts)
                case Prepare():
                    self.writer.prepare(instruction)
                    log.debug("preparing", pod=instruction.pod.key, node=instruction.node, plugin=instruction.plugin)
                case Announce():
                    self.writer.announce(instruction)
                case PatchCondition():
                    self.writer.patch_condition(instruction)
                case RecordFailure():
                    self.writer.record_failure(instruction)
                case Preempt():
                    self.writer.preempt(instruction)
                    victims = [victim.key for victim in instruction.victims]
                    log.info("preempting", pod=instruction.pod.key, node=instruction.node, victims=victims)
                case ClearNomination():
                    self.writer.clear_nomination(instruction)
                case AskExtenders(question):
                    self.extenders.ask(question)
                case RunCall(call):
                    self.calls.start(call)
                case CancelCall(call):
                    self.calls.cancel(call)
                case BoundByPlugin():
                    self.writer.bound_by_plugin(instruction)
                case Misbehaved(pod, error):
                    log.error("plugin failed", plugin=error.plugin, point=error.point, pod=pod.key, error=error.text)
                case Failed():
                    log.info(
                        "not scheduled",
                        pod=instruction.pod.key,
                        profile=instruction.pod.scheduler_name,
                        reason=instruction.reason,
                        attempts=instruction.attempts,
                        message=instruction.message[:1024],
                    )

    def _totals(self) -> dict[str, int]:
        written = self.writer.written
        return {
            "bound": written.bound,
            "bind_errors": written.bind_errors,
            "events": written.events,
            "pending": len(self.engine.queue),
        }
