"""Decides again what a recording says was decided.

A recording that reaches back to the start of its process is given to an engine, stimulus by stimulus: all that it says
has to be what was recorded. From a later segment on, the queue's backoffs and attempts are not known. Then each pod
that was placed is decided once more in the state that was recorded, which tells its node again, but not its turn.
Nominations and reservations are not known then: a node that was kept for somebody else may make a decision differ.
"""

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from podberth.app.extenders import ExtenderBinder
from podberth.engine.engine import Engine
from podberth.engine.instructions import (
    AskExtenders,
    Bind,
    BoundByPlugin,
    Failed,
    Instruction,
    PostFilterWrite,
    Preempt,
    RunCall,
)
from podberth.engine.schedule_one import Choice
from podberth.engine.stimuli import (
    BindFailed,
    BindWithdrawn,
    Bound,
    Broke,
    CallEnded,
    CallFailed,
    Compared,
    Cycle,
    ExtendersAnswered,
    ExtendersFailed,
    Follows,
    Gone,
    PostFilterWriteFailed,
    PreBindWriteFailed,
    PreBindWritten,
    Put,
    Refreshed,
    Stimulus,
    TakenOut,
    TakingOut,
    Tick,
    Unwritten,
    VictimStays,
)
from podberth.explain.objects.world import World
from podberth.framework.binding import Call, Write
from podberth.framework.config import SchedulerConfiguration, decode
from podberth.framework.decision import fit_error
from podberth.framework.extenders import NodesAnswer, Question, in_order
from podberth.framework.profiles import annotated, build
from podberth.framework.runtime import Framework
from podberth.framework.status import PluginError
from podberth.lab.recording.entries import Head, Kind
from podberth.lab.recording.reading import Event, KnownPod
from podberth.model.kinds import Decoder
from podberth.model.pod import Pod
from podberth.plugins.registry import registry

Fact = tuple[Any, ...]
"""(PLACED, UID, node), (FAILED, UID, reason, message) or (PREEMPTS, UID, node, UIDs of victims)."""
FACTS = (Kind.PLACED, Kind.FAILED, Kind.PREEMPTS)
_PLAIN = {
    each.__name__: each
    for each in (
        BindFailed,
        BindWithdrawn,
        Broke,
        Compared,
        Follows,
        Refreshed,
        TakingOut,
        Unwritten,
    )
}
"""The stimuli that hold plain data only."""


class Difference(Struct, frozen=True):
    """What was decided otherwise. `at`: seconds since the recording began."""

    at: float
    recorded: list[Any]
    decided: list[Any]


class Verified(Struct):
    """What came of it. `whole`: an engine was given all; `alone`: decisions that can't be decided one by one."""

    whole: bool
    stimuli: int = 0
    placed: int = 0
    failed: int = 0
    preemptions: int = 0
    differ: int = 0
    alone: int = 0
    differences: list[Difference] = field(default_factory=list)

    def count(self, facts: Iterable[Fact]) -> None:
        """Count decisions."""
        for fact in facts:
            self.placed += fact[0] is Kind.PLACED
            self.failed += fact[0] is Kind.FAILED
            self.preemptions += fact[0] is Kind.PREEMPTS

    def differs(self, at: float, recorded: Iterable[Fact], decided: Iterable[Fact]) -> None:
        """Note a difference; the first hundred are kept."""
        self.differ += 1
        if len(self.differences) < 100:
            told = [[[fact[0].name, *fact[1:]] for fact in facts] for facts in (recorded, decided)]
            self.differences.append(Difference(round(at, 3), *told))


def configured(head: Head) -> SchedulerConfiguration:
    """Return the configuration by which was decided. Raises ConfigError."""
    return decode(head.configuration)


class Twin:
    """An engine that is given what another one was given."""

    def __init__(self, head: Head) -> None:
        """Raises ConfigError, if its plugins are not installed."""
        config = configured(head)
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
        self._names: dict[str, tuple[str, str]] = {}
        self._calls: dict[str, Call] = {}
        self._questions: dict[str, Question] = {}
        self._writes: dict[str, tuple[Write, ...]] = {}

    def take(self, event: Event) -> list[Fact] | None:
        """Give it what an event says; return what it decides, None if the event is none for an engine."""
        match event.kind:
            case Kind.EPOCH:
                self.engine.epoch = event.what[0]
            case Kind.LEADS:
                self.engine.takes_over(event.at, event.what[0], True)
            case Kind.CONFIGURED:
                self._configure(msgspec.json.decode(event.what[0]), event.at)
            case kind if kind not in FACTS and kind is not Kind.HEAD:
                stimulus = self._stimulus(event)
                if stimulus is None:
                    return []
                try:
                    return self._facts(self.engine.handle(stimulus, event.at))
                except Exception:  # noqa: BLE001 (as the scheduler: what was recorded says that it broke)
                    return []
        return None

    def _configure(self, document: dict[str, Any], now: float) -> None:
        config = decode(document)
        frameworks = build(config, registry())
        self.engine.reconfigure(frameworks, config.pod_initial_backoff_seconds, config.pod_max_backoff_seconds, now)
        self.decoder.follow(annotated(frameworks), config.limits)

    def _stimulus(self, event: Event) -> Stimulus | None:
        match event.kind:
            case Kind.POD | Kind.OBJECT:
                assert event.known is not None
                if event.kind is Kind.POD:
                    self._names[event.known.uid] = (event.known.namespace, event.known.name)
                return Put(event.known.thing(self.decoder), event.added)
            case Kind.POD_GONE:
                uid = event.what[0]
                self._calls.pop(uid, None)
                self._writes.pop(uid, None)
                return Gone("Pod", *self._names.pop(uid, ("", "")), uid)
            case Kind.OBJECT_GONE:
                return Gone(*event.what)
            case Kind.CYCLE:
                return Cycle()
            case Kind.TICK:
                return Tick()
            case Kind.BOUND:
                return Bound(event.what[0])
        return self._rare(event.what[0], list(event.what[1:]))

    def _rare(self, name: str, given: list[Any]) -> Stimulus | None:
        if name in _PLAIN:
            made: Stimulus = _PLAIN[name](*given)
            return made
        uid = given[0]
        match name:
            case "PreBindWritten":
                return PreBindWritten(uid, _versions(given[1]))
            case "PreBindWriteFailed":
                return PreBindWriteFailed(uid, given[1], given[2], _versions(given[3]))
            case "TakenOut":
                return TakenOut(uid, _versions(given[1]))
            case "PostFilterWriteFailed":
                keys = {tuple(key) for key in given[1]}
                return PostFilterWriteFailed(uid, tuple(each for each in self._writes.get(uid, ()) if each.key in keys))
            case "CallEnded" if uid in self._calls:
                return CallEnded(uid, self._calls.pop(uid), given[1])
            case "CallFailed" if uid in self._calls:
                return CallFailed(uid, self._calls.pop(uid), given[1])
            case "ExtendersAnswered" if uid in self._questions:
                return ExtendersAnswered(self._questions.pop(uid), _answer(given[1]))
            case "ExtendersFailed" if uid in self._questions:
                return ExtendersFailed(self._questions.pop(uid), given[1])
            case "VictimStays":
                placement = self.engine.cluster.placement(uid[0])
                if placement is not None:
                    return VictimStays(replace(placement.pod, terminating=uid[1], preempted=uid[2]))
        return None

    def _facts(self, instructions: list[Instruction]) -> list[Fact]:
        found: list[Fact] = []
        for one in instructions:
            uid = one.pod.uid
            match one:
                case Bind(node=node) | BoundByPlugin(node=node):
                    found.append((Kind.PLACED, uid, node))
                case Failed(reason=reason, message=message):
                    found.append((Kind.FAILED, uid, reason, message))
                case Preempt(node=node, victims=victims):
                    found.append((Kind.PREEMPTS, uid, node, tuple(victim.uid for victim in victims)))
                case RunCall(call=call):
                    self._calls[uid] = call
                case AskExtenders(question=question):
                    self._questions[uid] = question
                case PostFilterWrite(writes=writes):
                    self._writes[uid] = writes
        return found


def _versions(given: list[Any]) -> dict[Any, str]:
    return {tuple(key): version for key, version in given}


def _answer(given: Any) -> Any:
    if isinstance(given, dict) and "kept" in given:
        return msgspec.convert(given, NodesAnswer)
    return {node: (tuple(uids), overdrawn) for node, (uids, overdrawn) in given.items()}


def by_engine(events: Iterator[Event], *, masked: bool = False) -> Verified:
    """Give all events of a process to an engine, and compare. `masked`: messages hold masks and are not compared."""
    head = next(events)
    found, twin, began = Verified(True), Twin(head.what[0]), head.at
    recorded: list[Fact] = []
    decided: list[Fact] = []
    at = began
    for event in events:
        if event.kind in FACTS:
            recorded.append((event.kind, *event.what))
            continue
        _compare(found, at - began, recorded, decided, masked=masked)
        recorded, at = [], event.at
        decided = twin.take(event) or []
        found.stimuli += 1
    # What the last stimulus came to may not have been written any more.
    if recorded:
        _compare(found, at - began, recorded, decided, masked=masked)
    return found


def _compare(found: Verified, at: float, recorded: list[Fact], decided: list[Fact], *, masked: bool) -> None:
    found.count(recorded)
    if masked:
        recorded, decided = ([fact[:3] for fact in facts] for facts in (recorded, decided))
    if recorded != decided:
        found.differs(at, recorded, decided)


class Again:
    """Decides each pod that was placed once more, in the state that was recorded."""

    def __init__(self, head: Head) -> None:
        """Raises ConfigError."""
        config = configured(head)
        self.frameworks: dict[str, Framework] = build(config, registry())
        self.world = World(Decoder(annotated(self.frameworks), limits=config.limits))
        self._choice = Choice(head.seed)
        self._names: dict[str, tuple[str, str]] = {}

    def take(self, event: Event) -> None:
        """Take in an event that is no decision."""
        match event.kind:
            case Kind.POD | Kind.OBJECT:
                assert event.known is not None
                thing = event.known.thing(self.world.decoder)
                if isinstance(event.known, KnownPod):
                    self._names[thing.uid] = (thing.namespace, thing.name)
                    if self.world.cluster.placement(thing.uid) is not None and not event.known.state.node:
                        return  # it is assumed, and this says nothing else yet
                self.world.add(thing)
                self.world.problems.clear()
            case Kind.POD_GONE:
                uid = event.what[0]
                self.world.gone("Pod", *self._names.pop(uid, ("", "")), uid)
            case Kind.OBJECT_GONE:
                self.world.gone(*event.what)
            case Kind.EPOCH:
                self.world.cluster.devices.wall = event.what[0] + event.at

    def decide(self, fact: Fact) -> Fact | None:
        """Return what is decided in place of a fact; None if that can't be decided for itself."""
        pod = self._waiting(fact[1])
        framework = None if pod is None else self.frameworks.get(pod.scheduler_name)
        if pod is None or framework is None or pod.scheduling_group is not None or fact[0] is not Kind.PLACED:
            return None
        cluster = self.world.cluster
        try:
            decision = framework.decide_quickly(pod, cluster)
        except PluginError as error:
            return Kind.FAILED, pod.uid, error.plugin, str(error)
        if not len(decision.feasible):
            return Kind.FAILED, pod.uid, "Unschedulable", fit_error(decision)
        return Kind.PLACED, pod.uid, cluster.nodes.names[self._choice.row(decision)]

    def place(self, fact: Fact) -> None:
        """Place a pod where it was placed."""
        pod = self._waiting(fact[1])
        if pod is not None:
            self.world.add(replace(pod, node_name=fact[2]))

    def _waiting(self, uid: str) -> Pod | None:
        pod = self.world.waiting.get("/".join(self._names.get(uid, ())))
        return pod if pod is not None and pod.uid == uid else None


def one_by_one(events: Iterator[Event]) -> Verified:
    """Decide each pod that was placed once more."""
    head = next(events)
    found, again, began = Verified(False), Again(head.what[0]), head.at
    for event in events:
        if event.kind not in FACTS:
            again.take(event)
            found.stimuli += 1
            continue
        fact = (event.kind, *event.what)
        found.count([fact])
        decided = again.decide(fact)
        if decided is None:
            found.alone += 1
        elif decided != fact:
            found.differs(event.at - began, [fact], [decided])
        if event.kind is Kind.PLACED:
            again.place(fact)
    return found
