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
from podberth.engine.stimuli import Bound, Cycle, Gone, Put, Stimulus, Tick
from podberth.framework.config import SchedulerConfiguration
from podberth.framework.profiles import annotated
from podberth.framework.runtime import Framework
from podberth.kube.machine import MACHINE, Machine
from podberth.lab.recording import entries
from podberth.lab.recording.entries import Decision, Head, Told
from podberth.lab.recording.log import Limits
from podberth.lab.recording.writer import Annotations, Given, Read, Seen, Writer
from podberth.model.kinds import KINDS, Decoder, Modelled
from podberth.service.metrics import Asked

if TYPE_CHECKING:
    from podberth.explain.shadow.shadow import Change

log = structlog.get_logger("recording")

_LASTING = frozenset((Put, Gone, Bound, Cycle, Tick))
"""Stimuli that hold nothing which may change, so that the thread may read them later."""
_EPOCH = 0.001
"""Seconds by which the calendar may be off."""
_MALFORMED = (msgspec.MsgspecError, ValueError, ArithmeticError, RecursionError)


def kept(config: SchedulerConfiguration) -> dict[str, Any]:
    """Return of a configuration what decides: no keys, names of files, nor how the API server is reached."""
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
        self._directory, self._head, self._epoch = directory, head, 0.0
        self.writer = Writer(
            directory,
            limits,
            head,
            _read_by(frameworks),
            ended=self._ended,
            made=self._made,
            patient=patient,
            wall=machine.wall,
        )

    def read(self, kind: str, thing: Modelled, raw: bytes) -> None:
        """Keep the bytes of an object until it is known what they say."""
        self.writer.hand(Read(kind, thing, raw))

    def follow(self, scheduler: Scheduler, handle: Handle) -> Handle:
        """Return what handles stimuli from now on."""
        engine, writer, hand = scheduler.engine, self.writer, self.writer.hand
        self._head.salt = engine.cluster.devices.salt
        scheduler.instruments += [
            Asked(RECORDS, lambda: {(): float(writer.error is None)}),
            Asked(RECORDED_BYTES, lambda: {(): float(writer.written)}),
        ]
        writer.start()
        log.info("records", directory=str(self._directory))

        def recorded(stimulus: Stimulus, now: float) -> list[Instruction]:
            """Every stimulus passes here."""
            given = stimulus if type(stimulus) in _LASTING else self._told(stimulus, now)
            epoch, done = engine.epoch, list[Instruction]()
            try:
                done = handle(stimulus, now)
            finally:
                hand((given, now, epoch, done))
            return done

        return recorded

    def _told(self, stimulus: Stimulus, now: float) -> Told | None:
        try:
            return Told(now, type(stimulus).__name__, plain(stimulus))
        except Exception as error:  # noqa: BLE001 (whatever it is, the scheduler goes on)
            self.writer.fail(error)
            return None

    def _made(self, given: Any) -> Iterable[Given]:
        """Return what is written of a stimulus, and of what came of it."""
        if type(given) is not tuple:
            return (given,)
        stimulus, now, epoch, done = given
        found: list[Given] = []
        if epoch is not None and abs(epoch - self._epoch) > _EPOCH:
            self._epoch = epoch
            found.append(Told(now, "Epoch", [epoch]))
        kind = type(stimulus)
        if kind is Told:
            found.append(stimulus)
        elif kind is Put:
            found.append(Seen(now, stimulus.thing, stimulus.added))
        elif kind is Gone:
            found.append(entries.Gone(now, stimulus.kind, stimulus.namespace, stimulus.name, stimulus.uid))
        else:
            found.append(Told(now, kind.__name__, plain(stimulus)))
        if done:
            found += decisions(done, now)
        return found

    def leads(self, now: float, seconds: float) -> None:
        """Record that this process leads from now on."""
        self.writer.hand(Told(now, "Leads", [seconds]))

    def reconfigured(self, config: SchedulerConfiguration, frameworks: Mapping[str, Framework], now: float) -> None:
        """Record another configuration; from now on objects keep the annotations that its plugins read."""
        self.writer.hand(Annotations(_read_by(frameworks)))
        self.writer.hand(Told(now, "Configured", [kept(config)]))

    def close(self) -> None:
        """Write what waits, and end."""
        self.writer.close()

    def _ended(self, why: str) -> None:
        log.error("the recording has ended, and the scheduler goes on", directory=str(self._directory), reason=why)


def _read_by(frameworks: Mapping[str, Framework]) -> frozenset[str]:
    """Return the keys of the annotations that plugins read."""
    read = annotated(frameworks)
    return read.of_nodes | read.of_pods


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
        read = decoder.annotated
        self._decoder = decoder
        self._writer = Writer(directory, Limits(), head, read.of_nodes | read.of_pods, ended=ended)
        self._writer.start()
        self.written = 0

    def write(self, change: Change) -> None:
        """Add a change; what can't be read is left out, as it is of the comparison."""
        writer, at = self._writer, change.at
        if writer.error is not None:
            return
        if change.synced:
            writer.hand(Told(at, "Synced", []))
        elif change.gone is not None:
            writer.hand(entries.Gone(at, change.kind, *change.gone))
        elif change.kind in KINDS:
            try:
                thing = self._decoder.of_kind(change.kind)(change.object)
            except _MALFORMED:
                return
            writer.hand(Read(change.kind, thing, change.object))
            writer.hand(Seen(at, thing, listed=change.listed))
        self.written += 1

    def close(self) -> None:
        """Write what waits, and end."""
        self._writer.close()
