"""Records what the engine of `berth run` is given, and what it decides.

It follows a scheduler as `podberth.app.scheduler.Follower` says. Whatever goes wrong here ends the recording with one
line of the log, and the scheduler goes on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec
import structlog

from podberth import __version__
from podberth.app.metrics import RECORDED_BYTES, RECORDS
from podberth.app.scheduler import LET_GO_BESIDE, Handle, Scheduler
from podberth.engine.instructions import Bind, BoundByPlugin, Failed, Instruction, Preempt
from podberth.engine.stimuli import Bound, Cycle, Gone, Put, Stimulus, Tick
from podberth.framework.config import SchedulerConfiguration
from podberth.framework.profiles import annotated
from podberth.framework.runtime import Framework
from podberth.kube.machine import MACHINE, Machine
from podberth.lab.recording.entries import ADDED, BOUND, CYCLE, PLACED, TICK, Head, Kind
from podberth.lab.recording.log import Limits, Log
from podberth.lab.recording.writing import Writing
from podberth.model.kinds import Modelled
from podberth.service.metrics import Asked

log = structlog.get_logger("recording")

_EPOCH = 0.001
"""Seconds by which the calendar may be off."""


def kept(config: SchedulerConfiguration) -> dict[str, Any]:
    """Return of a configuration what decides: no addresses, keys or names of files."""
    found: dict[str, Any] = msgspec.to_builtins(config)
    for part in ("clientConnection", "leaderElection", "enableProfiling", "enableContentionProfiling"):
        found.pop(part, None)
    for extender in found.get("extenders") or ():
        extender.pop("tlsConfig", None)
    return found


class Recorder:
    """Records one scheduler into a directory."""

    def __init__(
        self,
        directory: Path,
        limits: Limits,
        config: SchedulerConfiguration,
        frameworks: Mapping[str, Framework],
        *,
        seed: int = 0,
        verify: int = 0,
        machine: Machine = MACHINE,
        patience: float = 0.0,
    ) -> None:
        """`seed`, `verify`: as of the scheduler; `patience`: as of the log. Raises OSError, LogError."""
        self._directory, self._machine = directory, machine
        self._log = Log(directory, limits, wall=machine.wall, patience=patience)
        read = annotated(frameworks)
        self._read = read.of_nodes | read.of_pods
        self._head = Head(berth=__version__, fresh=True, configuration=kept(config), seed=seed, verify=verify)
        self._raw: dict[int, bytes] = {}
        """The id of an object that was read, and is not handled yet → its bytes."""
        self._keeps = True
        """Something is still recorded."""
        self._epoch = 0.0
        self._writing: Writing | None = None
        self._scheduler: Scheduler | None = None

    # -- podberth.app.scheduler.Follower -----------------------------------------------------------------------------

    def read(self, kind: str, thing: Modelled, raw: bytes) -> None:
        """Keep the bytes of an object until the engine is given it."""
        if self._keeps:
            self._raw[id(thing)] = raw

    def follow(self, scheduler: Scheduler, handle: Handle) -> Handle:
        """Return what handles stimuli from now on."""
        now = self._machine.monotonic()
        head = self._head
        head.began, head.at = self._machine.wall(), now
        head.salt, head.let_go_beside = scheduler.engine.cluster.devices.salt, LET_GO_BESIDE
        self._scheduler = scheduler
        self._writing = writing = Writing(
            self._log,
            head,
            self._read,
            later=lambda seconds, do: asyncio.get_running_loop().call_later(seconds, do),
            wall=self._machine.wall,
            ended=self._ended,
        )
        scheduler.instruments += [
            Asked(RECORDS, lambda: {(): float(writing.ended is None)}),
            Asked(RECORDED_BYTES, lambda: {(): float(self._log.written)}),
        ]
        log.info("records", directory=str(self._directory))
        engine = scheduler.engine

        def recorded(stimulus: Stimulus, now: float) -> list[Instruction]:
            if writing.ended is not None:
                return handle(stimulus, now)
            try:
                if engine.epoch is not None and abs(engine.epoch - self._epoch) > _EPOCH:
                    self._epoch = engine.epoch
                    writing.add((Kind.EPOCH, engine.epoch))
                self._stimulus(stimulus, now, writing)
            except Exception:
                log.exception("a stimulus could not be recorded, this is a bug of Berth")
                writing.end("of a bug of Berth")
            done = handle(stimulus, now)
            if done:
                facts(done, writing)
            return done

        return recorded

    def leads(self, now: float, seconds: float) -> None:
        """Record that this process leads from now on."""
        if self._writing is not None and self._writing.ended is None:
            self._writing.event(Kind.LEADS, now, seconds)

    def reconfigured(self, config: SchedulerConfiguration, now: float) -> None:
        """Record another configuration."""
        if self._writing is not None and self._writing.ended is None:
            self._writing.head.configuration = kept(config)
            self._writing.event(Kind.CONFIGURED, now, msgspec.json.encode(kept(config)))

    @property
    def waiting(self) -> int:
        """Return how many frames are not written yet."""
        return self._log.waiting

    def flush(self) -> None:
        """Hand what has gathered to the thread that writes; it is called every second."""
        if self._writing is not None:
            self._writing.flush()

    def close(self) -> None:
        """Write what waits, and end."""
        if self._writing is not None:
            self._writing.close()

    def _ended(self, why: str) -> None:
        self._keeps = False
        self._raw.clear()
        log.error("the recording has ended, and the scheduler goes on", directory=str(self._directory), reason=why)

    def _stimulus(self, stimulus: Any, now: float, writing: Writing) -> None:
        kind = type(stimulus)
        if kind is Put:
            thing = stimulus.thing
            writing.put(thing, self._raw.pop(id(thing), None), ADDED if stimulus.added else 0, now)
        elif kind is Cycle:
            writing.event(CYCLE, now)
        elif kind is Bound:
            writing.event(BOUND, now, writing.pod(stimulus.uid))
        elif kind is Tick:
            writing.event(TICK, now)
            if self._raw and self._scheduler is not None and not self._scheduler.inbox:
                self._raw.clear()  # they were read, and are not to be handled
        elif kind is Gone:
            writing.gone(stimulus.kind, stimulus.namespace, stimulus.name, stimulus.uid, now)
        else:
            writing.event(Kind.STIMULUS, now, kind.__name__, *rare(stimulus))


def rare(stimulus: Any) -> list[Any]:
    """Return what is in one of the rarer stimuli, as plain data; questions and calls are those of the pod then."""
    found: list[Any] = []
    for name in stimulus.__struct_fields__:
        value = getattr(stimulus, name)
        if name == "victim":
            value = [value.uid, value.terminating, value.preempted]
        elif name == "question":
            value = value.pod.uid
        elif name == "call":
            continue
        elif name == "writes":
            value = [list(one.key) for one in value]
        elif name == "written":
            value = [[list(key), version] for key, version in value.items()]
        found.append(msgspec.to_builtins(value, enc_hook=repr))
    return found


def facts(instructions: Iterable[Any], writing: Writing) -> None:
    """Add what was decided."""
    for one in instructions:
        kind = type(one)
        if kind is Bind or kind is BoundByPlugin:
            node = writing.name(one.node)
            writing.add((PLACED, writing.pod(one.pod.uid), node))
        elif kind is Failed:
            message = writing.message(one.message)
            writing.add((Kind.FAILED, writing.pod(one.pod.uid), one.reason, message))
        elif kind is Preempt:
            node = writing.name(one.node)
            writing.add((Kind.PREEMPTS, writing.pod(one.pod.uid), node, [writing.pod(pod.uid) for pod in one.victims]))
