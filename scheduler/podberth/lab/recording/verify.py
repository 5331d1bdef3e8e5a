"""Decides again what a recording says was decided.

A recording that reaches back to the start of its process is given to an engine, stimulus by stimulus: all that it says
has to be what was recorded. From a later segment on, the queue's backoffs and attempts are not known. Then it is
verified of each placement that its node was the best one by the recorded configuration, in the state that was recorded.
"""

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import msgspec
from msgspec import Struct, field
from msgspec.structs import astuple, replace

from podberth.app.extenders import ExtenderBinder
from podberth.engine import stimuli
from podberth.engine.engine import Engine
from podberth.engine.instructions import AskExtenders, Instruction, PostFilterWrite, RunCall
from podberth.engine.stimuli import Stimulus
from podberth.explain.shadow.answer import AGREED, DIFFER
from podberth.explain.shadow.shadow import Shadow
from podberth.framework.binding import Call, Write
from podberth.framework.config import ConfigError, decode
from podberth.framework.extenders import NodesAnswer, Question, in_order
from podberth.framework.profiles import annotated, build
from podberth.lab.recording.entries import Decision, Failed, Gone, Head, Placed, Preempts, PutObject, PutPod, Told
from podberth.lab.recording.log import LogError
from podberth.lab.recording.reading import DECIDED, Event, Part, thing_of
from podberth.lab.recording.recorder import decisions
from podberth.lab.recording.world import changes
from podberth.model.kinds import Decoder
from podberth.model.pod import Pod
from podberth.plugins.registry import registry

STIMULI = {name: each for name, each in vars(stimuli).items() if isinstance(each, type) and issubclass(each, Struct)}
"""Name → the class of a stimulus."""


class Differs(Struct, frozen=True):
    """What was decided otherwise. `at`: seconds since the recording began."""

    at: float
    recorded: list[Any]
    decided: list[Any]


class Verified(Struct):
    """What came of it. `whole`: an engine was given all; `unverified`: decisions that were not."""

    whole: bool
    stimuli: int = 0
    placed: int = 0
    failed: int = 0
    preemptions: int = 0
    differ: int = 0
    unverified: int = 0
    differences: list[Differs] = field(default_factory=list)

    def count(self, decision: Event) -> None:
        """Count a decision."""
        self.placed += isinstance(decision, Placed)
        self.failed += isinstance(decision, Failed)
        self.preemptions += isinstance(decision, Preempts)

    def differs(self, at: float, recorded: list[Any], decided: list[Any]) -> None:
        """Note a difference; the first hundred are kept."""
        self.differ += 1
        if len(self.differences) < 100:
            self.differences.append(Differs(round(at, 3), recorded, decided))


def verify(part: Part) -> Verified:
    """Decide again what a process of `berth run` has recorded. Raises ConfigError, LogError."""
    return by_engine(part) if part.head.fresh else one_by_one(part)


class Twin:
    """An engine that is given what another one was given."""

    def __init__(self, head: Head) -> None:
        """Raises ConfigError, if its plugins are not installed."""
        config = decode(head.configuration)
        frameworks = build(config, registry())
        binders = [ExtenderBinder(one, None) for one in in_order(config.extenders) if one.bind_verb]  # type: ignore[arg-type]
        self.engine = Engine(
            frameworks,
            seed=head.seed,
            initial_backoff=config.pod_initial_backoff_seconds,
            max_backoff=config.pod_max_backoff_seconds,
            extenders=config.extenders,
            binders=binders,
            verify=head.verify,
            let_go_beside=head.let_go_beside,
        )
        self.engine.cluster.devices.salt = head.salt
        self.decoder = Decoder(annotated(frameworks), limits=config.limits)
        self._calls: dict[str, Call] = {}
        self._questions: dict[str, Question] = {}
        self._writes: dict[str, tuple[Write, ...]] = {}

    def take(self, event: Event) -> list[Decision]:
        """Give it what an event says; return what it decides. Raises ConfigError, LogError."""
        try:
            stimulus = self._stimulus(event)
        except ConfigError:
            raise
        except (AttributeError, IndexError, StopIteration, TypeError, ValueError) as error:
            raise LogError(f"is damaged: {getattr(event, 'name', '')} at {event.at}: {error}") from None
        if stimulus is None:
            return []
        try:
            return self._decided(self.engine.handle(stimulus, event.at), event.at)
        except Exception:  # noqa: BLE001 (as the scheduler: what was recorded says that it broke)
            return []

    def _stimulus(self, event: Event) -> Stimulus | None:
        """Return what the engine was given; None for what is done by now, or answers what was not asked again."""
        match event:
            case PutObject() | PutPod():
                return stimuli.Put(thing_of(event, self.decoder), event.added)
            case Gone():
                self._calls.pop(event.uid, None)
                self._writes.pop(event.uid, None)
                return stimuli.Gone(event.kind, event.namespace, event.name, event.uid)
            case Told(name="Epoch"):
                self.engine.epoch = float(event.what[0])
            case Told(name="Leads"):
                self.engine.takes_over(event.at, float(event.what[0]), True)
            case Told(name="Configured"):
                config = decode(event.what[0])
                frameworks = build(config, registry())
                backoffs = config.pod_initial_backoff_seconds, config.pod_max_backoff_seconds
                self.engine.reconfigure(frameworks, *backoffs, event.at)
                self.decoder.follow(annotated(frameworks), config.limits)
            case Told():
                with suppress(KeyError):
                    return self._told(event)
        return None

    def _told(self, event: Told) -> Stimulus:
        """Return the stimulus of which `podberth.lab.recording.recorder.plain` has made this."""
        kind: Any = STIMULI[event.name]
        given, made = iter(event.what), dict[str, Any]()
        for name in kind.__struct_fields__:
            value: Any = self._calls.pop(made["uid"]) if name == "call" else next(given)
            match name:
                case "written":
                    value = {tuple(key): version for key, version in value}
                case "writes":
                    value = tuple(each for each in self._writes.get(made["uid"], ()) if list(each.key) in value)
                case "question":
                    value = self._questions.pop(value)
                case "answer" if kind is stimuli.ExtendersAnswered:
                    value = _answer(value)
                case "victim":
                    uid, terminating, preempted = value
                    placement = self.engine.cluster.placement(uid)
                    if placement is None:
                        raise KeyError(uid)
                    value = replace(placement.pod, terminating=terminating, preempted=preempted)
            made[name] = value
        stimulus: Stimulus = kind(**made)
        return stimulus

    def _decided(self, instructions: list[Instruction], now: float) -> list[Decision]:
        for one in instructions:
            match one:
                case RunCall(pod=pod, call=call):
                    self._calls[pod.uid] = call
                case AskExtenders(pod=pod, question=question):
                    self._questions[pod.uid] = question
                case PostFilterWrite(pod=pod, writes=writes):
                    self._writes[pod.uid] = writes
        return decisions(instructions, now)


def _answer(given: Any) -> Any:
    if "kept" in given:
        return msgspec.convert(given, NodesAnswer)
    return {node: (tuple(uids), overdrawn) for node, (uids, overdrawn) in given.items()}


def by_engine(part: Part) -> Verified:
    """Give all that a process was given to an engine, and compare. Raises ConfigError, LogError."""
    head, found, twin = part.head, Verified(True), Twin(part.head)
    recorded: list[Decision] = []
    again: list[Decision] = []

    def compare() -> None:
        one, other = ([_told(each, masked=head.masked) for each in each_of] for each_of in (recorded, again))
        if one != other:
            found.differs((recorded or again)[0].at - head.at, one, other)

    for event in part.events():
        if isinstance(event, DECIDED):
            found.count(event)
            recorded.append(event)
            continue
        compare()
        recorded, again = [], twin.take(event)
        found.stimuli += 1
    if recorded:  # else what the last stimulus came to may not have been written any more
        compare()
    return found


def _told(decision: Decision, *, masked: bool) -> list[Any]:
    """Return a decision as it is compared, and shown; masks hide messages."""
    _, *what = astuple(decision)
    return [type(decision).__name__, *(what[:-1] if masked and isinstance(decision, Failed) else what)]


def one_by_one(part: Part) -> Verified:
    """Look at each placement in the state that was recorded: was its node a best one?

    Nobody knows which room was kept for others when the first segment began. So while a pod waits that was nominated,
    or that is of a group, a placement on another node is not verified, and no difference. Raises ConfigError, LogError.
    """
    found, config = Verified(False), decode(part.head.configuration)
    frameworks = build(config, registry())
    decoder = Decoder(annotated(frameworks), limits=config.limits)
    shadows = {
        name: Shadow(each, name, decoder=decoder, began=part.head.began, exact=True)
        for name, each in frameworks.items()
    }
    nominated: set[str] = set()

    def follow(event: Told) -> None:
        """Judge by another configuration; what a profile places that is new is not verified."""
        if not event.what:
            raise LogError(f"is damaged: Configured at {event.at}: it holds none")
        now = decode(event.what[0])
        others = build(now, registry())
        decoder.follow(annotated(others), now.limits)
        for name in shadows.keys() & others.keys():
            shadows[name].follow(others[name])

    def noting() -> Iterator[Event]:
        for event in part.events():
            found.count(event)
            found.stimuli += not isinstance(event, DECIDED)
            if isinstance(event, Preempts) or (isinstance(event, PutPod) and event.nominated_node_name):
                nominated.add(event.uid)
            elif isinstance(event, Told) and event.name == "Configured":
                follow(event)
            yield event  # and what follows from it is judged before it goes on
            if isinstance(event, (Placed, Gone)) or (isinstance(event, PutPod) and event.node_name):
                nominated.discard(event.uid)

    agreed = 0
    for change in changes(noting(), part.head):
        for shadow in shadows.values():
            for one in shadow.see(change):
                agreed += one.verdict in AGREED
                if one.verdict in DIFFER and not nominated and not any(map(_of_group, shadow.world.waiting.values())):
                    found.differs(one.at, ["Placed", one.pod, one.node], [one.verdict, one.best])
    found.unverified = found.placed + found.failed - agreed - found.differ
    return found


def _of_group(pod: Pod) -> bool:
    return pod.scheduling_group is not None
