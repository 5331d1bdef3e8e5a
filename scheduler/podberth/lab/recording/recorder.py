"""Records what the engine of `berth run` is given and what it decided, and what `berth shadow` sees of a cluster.

Whatever goes wrong here ends the recording with one line of the log, and the scheduler goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import structlog

from podberth import __version__
from podberth.app.metrics import RECORDED_BYTES, RECORDS
from podberth.app.scheduler import LET_GO_BESIDE, Handle, Scheduler
from podberth.engine.instructions import Bind, BoundByPlugin, Failed, Instruction, Preempt
from podberth.engine.stimuli import Bound, Cycle, Gone, Put, Tick
from podberth.framework.config import SchedulerConfiguration
from podberth.framework.profiles import annotated
from podberth.framework.runtime import Framework
from podberth.kube.machine import MACHINE, Machine
from podberth.lab.recording import entries
from podberth.lab.recording.entries import Decision, Head, Told
from podberth.lab.recording.log import Limits
from podberth.lab.recording.writer import Seen, Writer
from podberth.model.kinds import KINDS, Decoder, Modelled
from podberth.service.metrics import Asked

if TYPE_CHECKING:
    from podberth.explain.shadow.shadow import Change

log = structlog.get_logger("recording")

_NOTHING: list[Any] = []
_EPOCH = 0.001
"""Seconds by which the calendar may be off."""
_MALFORMED = (msgspec.MsgspecError, ValueError, ArithmeticError, RecursionError)


def kept(config: SchedulerConfiguration) -> dict[str, Any]:
    """Return of a configuration what decides: no addresses, keys or names of files."""
    found: dict[str, Any] = msgspec.to_builtins(config)
    for part in ("clientConnection", "leaderElection", "enableProfiling", "enableContentionProfiling"):
        found.pop(part, None)
    for extender in found.get("extenders") or ():
        extender.pop("tlsConfig", None)
    return found


class Recorder:
    """Records one scheduler into a directory, as a `podberth.app.scheduler.Follower`."""

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
        patient: bool = False,
    ) -> None:
        """`seed`, `verify`: as of the scheduler; `patient`: as of the writer. Raises OSError."""
        read = annotated(frameworks)
        head = Head(
            machine.monotonic(),
            berth=__version__,
            began=machine.wall(),
            fresh=True,
            configuration=kept(config),
            seed=seed,
            verify=verify,
            let_go_beside=LET_GO_BESIDE,
        )
        self._directory, self._head = directory, head
        self._epoch: float | None = None
        self._raw: dict[int, bytes] = {}
        """The id of an object that was read, and is not handled yet → its bytes."""
        self.writer = Writer(
            directory,
            limits,
            head,
            read.of_nodes | read.of_pods,
            ended=self._ended,
            patient=patient,
            wall=machine.wall,
        )

    def read(self, kind: str, thing: Modelled, raw: bytes) -> None:
        """Keep the bytes of an object until the engine is given it."""
        if self.writer.error is None:
            self._raw[id(thing)] = raw

    def follow(self, scheduler: Scheduler, handle: Handle) -> Handle:
        """Return what handles stimuli from now on."""
        engine, writer, add, raws = scheduler.engine, self.writer, self.writer.add, self._raw
        self._head.salt = engine.cluster.devices.salt
        scheduler.instruments += [
            Asked(RECORDS, lambda: {(): float(writer.error is None)}),
            Asked(RECORDED_BYTES, lambda: {(): float(writer.written)}),
        ]
        writer.start()
        log.info("records", directory=str(self._directory))

        def recorded(stimulus: Any, now: float) -> list[Instruction]:
            """Every stimulus passes here: it is written for speed."""
            if writer.error is not None:
                return handle(stimulus, now)
            try:
                if engine.epoch != self._epoch:
                    self._tell_epoch(engine.epoch, now)
                kind = type(stimulus)
                if kind is Put:
                    add(Seen(now, stimulus.thing, raws.pop(id(stimulus.thing), None), stimulus.added))
                elif kind is Cycle:
                    add(Told(now, "Cycle", _NOTHING))
                elif kind is Bound:
                    add(Told(now, "Bound", [stimulus.uid]))
                elif kind is Gone:
                    add(entries.Gone(now, stimulus.kind, stimulus.namespace, stimulus.name, stimulus.uid))
                else:
                    add(Told(now, kind.__name__, plain(stimulus)))
                    if kind is Tick and raws and not scheduler.inbox:
                        raws.clear()  # they were read, and are not to be handled
            except Exception as error:  # noqa: BLE001 (whatever it is, the scheduler goes on)
                writer.fail(error)
            done = handle(stimulus, now)
            for each in decisions(done, now):
                add(each)
            return done

        return recorded

    def leads(self, now: float, seconds: float) -> None:
        """Record that this process leads from now on."""
        self.writer.add(Told(now, "Leads", [seconds]))

    def reconfigured(self, config: SchedulerConfiguration, now: float) -> None:
        """Record another configuration."""
        self.writer.add(Told(now, "Configured", [kept(config)]))

    def close(self) -> None:
        """Write what waits, and end."""
        self.writer.close()

    def _ended(self, why: str) -> None:
        self._raw.clear()
        log.error("the recording has ended, and the scheduler goes on", directory=str(self._directory), reason=why)

    def _tell_epoch(self, epoch: float | None, now: float) -> None:
        if epoch is not None and abs(epoch - (self._epoch or 0.0)) > _EPOCH:
            self._epoch = epoch
            self.writer.add(Told(now, "Epoch", [epoch]))


def plain(stimulus: Any) -> list[Any]:
    """Return what is in a stimulus, as plain data; questions and calls are those of the pod then."""
    found: list[Any] = []
    for name in stimulus.__struct_fields__:
        value = getattr(stimulus, name)
        if name == "uid":
            found.append(value)
            continue
        if name == "call":
            continue
        if name == "victim":
            value = [value.uid, value.terminating, value.preempted]
        elif name == "question":
            value = value.pod.uid
        elif name == "writes":
            value = [list(one.key) for one in value]
        elif name == "written":
            value = [[list(key), version] for key, version in value.items()]
        found.append(msgspec.to_builtins(value, enc_hook=repr))
    return found


def decisions(instructions: Iterable[Any], now: float) -> list[Decision]:
    """Return what was decided."""
    found: list[Decision] = []
    for one in instructions:
        kind = type(one)
        if kind is Bind or kind is BoundByPlugin:
            found.append(entries.Placed(now, one.pod.uid, one.node))
        elif kind is Failed:
            found.append(entries.Failed(now, one.pod.uid, one.reason, one.message))
        elif kind is Preempt:
            found.append(entries.Preempts(now, one.pod.uid, one.node, [victim.uid for victim in one.victims]))
    return found


class ShadowRecorder:
    """Records what `berth shadow` sees of a cluster, change by change. `written`: how many there were."""

    def __init__(
        self, directory: Path, of: str, decoder: Decoder, began: float, *, ended: Callable[[str], None]
    ) -> None:
        """`of`: the scheduler that is followed; `ended`: as of `Writer`. Raises OSError."""
        head = Head(0.0, berth=__version__, of=of, began=began, fresh=True)
        self._decoder, self._writer = decoder, Writer(directory, Limits(), head, ended=ended)
        self._writer.start()
        self.written = 0

    def write(self, change: Change) -> None:
        """Add a change; what can't be read is left out, as it is of the comparison."""
        writer, at = self._writer, change.at
        if writer.error is not None:
            return
        if change.synced:
            writer.add(Told(at, "Synced", []))
        elif change.gone is not None:
            writer.add(entries.Gone(at, change.kind, *change.gone))
        elif change.kind in KINDS:
            try:
                thing = self._decoder.of_kind(change.kind)(change.object)
            except _MALFORMED:
                return
            writer.add(Seen(at, thing, change.object, listed=change.listed))
        self.written += 1

    def close(self) -> None:
        """Write what waits, and end."""
        self._writer.close()
