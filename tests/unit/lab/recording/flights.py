"""A scheduler on virtual time that is recorded: an engine, a server that says yes, and pods that come and go."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from podberth.app.scheduler import Handle, Scheduler
from podberth.engine.engine import Engine
from podberth.engine.instructions import Bind, Instruction, Preempt
from podberth.engine.stimuli import Bound, Cycle, Gone, Put, Stimulus, Tick
from podberth.framework.config import SchedulerConfiguration, decode
from podberth.framework.profiles import annotated, build
from podberth.kube.machine import Machine
from podberth.lab.recording.log import Limits
from podberth.lab.recording.recorder import Recorder
from podberth.model import wire
from podberth.model.kinds import Decoder
from podberth.plugins.registry import registry
from podberth.service.metrics import Instrument
from tests.builders import Object, configuration, node, pod, profile

EPOCH = 1_790_000_000.0


@dataclass
class Parts:
    """What a recorder reads of a scheduler."""

    engine: Engine
    instruments: list[Instrument] = field(default_factory=list)
    inbox: int = 0


class Flight:
    """One process. `now`: its clock, which whoever flies moves."""

    def __init__(self, directory: Path, *, limits: Limits | None = None, config: SchedulerConfiguration | None = None):
        self.now = 100.0
        self.config = config or decode(configuration(profile()))
        frameworks = build(self.config, registry())
        self.engine = Engine(frameworks, seed=3)
        self.engine.cluster.devices.salt = "0.5"
        self.decoder = Decoder(annotated(frameworks))
        self.objects: dict[tuple[str, str], Object] = {}
        self._version = 1000
        self.placed: dict[str, str] = {}
        machine = Machine(monotonic=lambda: self.now, wall=lambda: EPOCH + self.now)
        self.recorder = Recorder(
            directory, limits or Limits(), self.config, frameworks, seed=3, machine=machine, patient=True
        )
        self.parts = Parts(self.engine)
        self.handle: Handle = self.recorder.follow(cast(Scheduler, self.parts), self.engine.handle)

    def put(self, made: Object) -> None:
        """An object is created or changed, as a watch shows it."""
        kind, name = str(made["kind"]), str(made["metadata"]["name"])
        added = (kind, name) not in self.objects
        self.objects[kind, name] = made
        self._version += 1
        raw = wire.encode({**made, "metadata": {**made["metadata"], "resourceVersion": str(self._version)}})
        thing = self.decoder.of_kind(kind)(raw)
        self.recorder.read(kind, thing, raw)
        self.tell(Put(thing, added))

    def gone(self, kind: str, name: str) -> None:
        """It is deleted."""
        meta = self.objects.pop((kind, name))["metadata"]
        self.tell(Gone(kind, meta.get("namespace", ""), name, meta.get("uid", "")))

    def reload(self, config: SchedulerConfiguration, plugins: Mapping[str, Any] | None = None) -> None:
        """Another configuration is read, maybe with other plugins."""
        frameworks = build(config, plugins or registry())
        self.recorder.reconfigured(config, frameworks, self.now)
        backoffs = config.pod_initial_backoff_seconds, config.pod_max_backoff_seconds
        self.engine.reconfigure(frameworks, *backoffs, self.now)
        self.decoder.follow(annotated(frameworks), config.limits)

    def tell(self, stimulus: Stimulus) -> None:
        """Give the engine a stimulus, and do what it says."""
        self._carry_out(self.handle(stimulus, self.now))

    def work(self) -> None:
        """Schedule until nothing is active."""
        due = self.engine.next_tick()
        if due is not None and due <= self.now:
            self.tell(Tick())
        while self.engine.has_work:
            self.tell(Cycle())

    def _carry_out(self, instructions: list[Instruction]) -> None:
        for one in instructions:
            match one:
                case Bind(pod=known, node=where):
                    self.placed[known.name] = where
                    self.tell(Bound(known.uid))
                    made = self.objects["Pod", known.name]
                    self.put({**made, "spec": {**made["spec"], "nodeName": where}, "status": {"phase": "Pending"}})
                case Preempt(victims=victims):
                    for victim in victims:
                        self.gone("Pod", victim.name)

    def written(self) -> None:
        """Return once all that has happened is in the file."""
        self.recorder.writer.flush()

    def close(self) -> None:
        """SIGTERM."""
        self.recorder.close()


def busy(flight: Flight, pods: int = 60, *, first: int = 0, nodes: int = 4) -> None:
    """Pods come every second, some too large, some important, and end; a node goes and comes again."""
    if not first:
        for i in range(nodes):
            flight.put(node(f"n{i}", "4", zone="ab"[i % 2]))
    for i in range(first, first + pods):
        flight.now += 0.37
        made: dict[str, Any] = pod(f"p{i}", "900m" if i % 7 else "9")
        made["spec"]["priority"] = 100 * (i % 11 == 0)
        made["spec"]["containers"][0] |= {"env": [{"name": "TOKEN", "value": "s3cret"}], "command": ["s3cret"]}
        made["metadata"]["annotations"] = {"note": "s3cret"}
        flight.put(made)
        flight.work()
        if ("Pod", f"p{i - 20}") in flight.objects:
            flight.gone("Pod", f"p{i - 20}")
            flight.work()
        if i % 25 == 24:
            flight.gone("Node", "n1")
            flight.put(node("n9", "4"))
            flight.work()
            flight.gone("Node", "n9")
            flight.put(node("n1", "4", zone="b"))
