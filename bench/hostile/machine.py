"""A core of its own for one engine: its clock goes on by the CPU time of each turn, and skips what would be idle.

It does what the shell of `berth run` does, news before decisions, and what an API server would answer. So a figure is
what a pod waits for the scheduler on a machine that does nothing else, whatever else this machine does meanwhile.
Large objects are decoded beside the loop, on a core of their own: that is no turn, but what comes after one on the
watch of its kind waits for it.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import msgspec

from bench.hostile.meters import Meter
from bench.hostile.scenario import Write
from podberth.engine.engine import Engine
from podberth.engine.instructions import Bind, Instruction, PatchCondition, PreBindWrite, Preempt
from podberth.engine.stimuli import Bound, Cycle, Gone, PreBindWritten, Put, Stimulus, Tick
from podberth.kube.reflector import LARGE_BYTES
from podberth.model.kinds import Decoder
from podberth.model.pod import Pod
from podberth.service.loop import worked

T = TypeVar("T")

ANSWER = 0.005
"""Seconds after which the API server has answered a write and the watch has brought its echo."""
MOST_IN_FLIGHT = 160
"""As `berth run` has it."""


class Turns:
    """What the turns of the loop cost."""

    def __init__(self) -> None:
        self.count = 0
        self.total = 0.0
        self.longest = 0.0
        self.what = ""
        """What the longest one did."""

    def add(self, what: str, spent: float) -> None:
        """Count a turn."""
        self.count += 1
        self.total += spent
        if spent > self.longest:
            self.longest, self.what = spent, what


class Machine:
    """Runs writes of a hostile tenant and pods of others against one engine."""

    def __init__(self, engine: Engine, decoder: Decoder, meter: Meter, patience: float = 60.0) -> None:
        """`patience`: seconds, on the machine's own clock, that the last pods may take to be bound."""
        self._engine, self._decoder, self._meter, self._patience = engine, decoder, meter, patience
        self._decoder_beside = decoder.beside()
        self.now = 0.0
        self.turns = Turns()
        self.beside = Turns()
        """What decoding took beside the loop."""
        self._held: dict[str, float] = {}
        """Until when the watch of a kind waits for a large object."""
        self.waits: list[float] = []
        """Seconds from the arrival of each pod of others to its binding, of those that came since `since`."""
        self.since = 0.0
        """When the first hostile object comes. Who came before it has waited for what a process does the first time,
        with or without hostile objects. That is some ten pods, just as many as make the 99th percentile of a thousand.
        """
        self._arrived: dict[str, float] = {}
        self._raw: dict[str, bytes] = {}
        self._heap: list[tuple[float, int, Callable[[], None]]] = []
        self._number = 0
        self.doing = ""

    def waiting(self, longer: float = 0.0) -> int:
        """Pods of others that are not bound, and came so many seconds ago."""
        return sum(self.now - came >= longer for came in self._arrived.values())

    def run(self, writes: Iterator[Write], others: Iterator[bytes], every: float, seconds: float) -> None:
        """Apply the writes once others' first pods have come; others come at their own pace."""
        self.since = min(0.25, seconds / 4)
        self._next_write(writes, self.since)
        self._next_other(others, every, 0.0, seconds)
        until = seconds + self._patience
        while self.now < until:
            due = self._engine.next_tick()
            ticks = due is not None and due <= self.now
            if ticks:
                self._handle("Tick", Tick())
            if self._heap and self._heap[0][0] <= self.now:
                heapq.heappop(self._heap)[2]()
            elif self._may_work():
                self._work()
            elif not ticks:
                first = self._heap[0][0] if self._heap else None
                if first is None and (due is None or not self._arrived):
                    return
                self.now = min(at for at in (first, due) if at is not None)

    def _may_work(self) -> bool:
        engine = self._engine
        return (engine.has_work and engine.in_flight < MOST_IN_FLIGHT) or engine.queue.has_pending_work

    def _work(self) -> None:
        engine = self._engine
        if engine.has_work and engine.in_flight < MOST_IN_FLIGHT:
            self._handle("Cycle", Cycle())
        else:
            self._handle("Tick", Tick())

    def _at(self, when: float, do: Callable[[], None]) -> None:
        self._number += 1
        heapq.heappush(self._heap, (when, self._number, do))

    def _next_write(self, writes: Iterator[Write], at: float) -> None:
        write = next(writes, None)
        if write is None:
            return
        at += write.after / 1000

        def apply() -> None:
            if len(write.raw) > LARGE_BYTES:
                self._write(write)
            else:
                self._in_order(write.kind, lambda: self._write(write))
            self._next_write(writes, at)

        self._at(at, apply)

    def _next_other(self, others: Iterator[bytes], every: float, at: float, until: float) -> None:
        raw = next(others, None)
        if raw is None or at > until:
            return

        def arrive() -> None:
            self._in_order("Pod", lambda: self._put_other(raw, at))
            self._next_other(others, every, at + every, until)

        self._at(at, arrive)

    def _in_order(self, kind: str, do: Callable[[], None]) -> None:
        """What comes after a large object on the watch of a kind waits for it, and for none that comes later."""
        held = self._held.get(kind, 0.0)
        if held > self.now:
            self._at(held, do)
        else:
            do()

    def _put_other(self, raw: bytes, came: float) -> None:
        pod = self._turn("decode of an ordinary pod", lambda: self._decoder.pod(raw))
        self._arrived[pod.uid] = came
        self._handle("Put of an ordinary pod", Put(pod, added=True))

    def _write(self, write: Write) -> None:
        if write.key is not None:
            self._raw.pop(write.key[2], None)
            self._handle(f"Gone {write.kind}", Gone(write.kind, *write.key))
            return
        self._apply(write.kind, write.raw)

    def _apply(self, kind: str, raw: bytes) -> None:
        def put(thing: Any) -> None:
            if isinstance(thing, Pod):
                self._raw[thing.uid] = raw
            self._handle(f"Put {kind}", Put(thing))

        self._decode(f"decode {kind}", kind, raw, put)

    def _decode(self, what: str, kind: str, raw: bytes, then: Callable[[Any], None]) -> None:
        """As the reflector does: in one turn, or for a large object beside the loop, one after the other."""
        if len(raw) <= LARGE_BYTES:
            then(self._turn(what, lambda: self._decoder.of_kind(kind)(raw)))
            return
        self._meter.begin(bounded=False)
        thing = self._decoder_beside.of_kind(kind)(raw)
        spent = self._meter.end()
        self.beside.add(what, spent)
        self._held[kind] = max(self.now, *self._held.values(), 0.0) + spent
        self._at(self._held[kind], lambda: then(thing))

    def _turn(self, what: str, work: Callable[[], T]) -> T:
        self.doing = what
        self._meter.begin()
        done = work()
        worked(1)
        self.interrupt()
        return done

    def interrupt(self) -> None:
        """End the turn that is under way, if one is: no more of it will be seen."""
        if self.doing:
            spent = self._meter.end()
            self.now += spent
            self.turns.add(self.doing, spent)
            self.doing = ""

    def _handle(self, what: str, stimulus: Stimulus) -> None:
        for one in self._turn(what, lambda: self._engine.handle(stimulus, self.now)):
            self._follow(one)

    def _follow(self, one: Instruction) -> None:
        """What the API server would do."""
        match one:
            case Bind(pod, node):
                arrived = self._arrived.pop(pod.uid, None)
                if arrived is not None and arrived >= self.since:
                    self.waits.append(self.now - arrived)
                self._at(self.now + ANSWER, lambda: self._confirm(pod, node))
            case PreBindWrite(pod):
                self._at(self.now + ANSWER, lambda: self._handle("PreBindWritten", PreBindWritten(pod.uid, {})))
            case Preempt(_, _, victims):
                for victim in victims:
                    going = Gone("Pod", victim.namespace, victim.name, victim.uid)
                    self._at(self.now + ANSWER, lambda going=going: self._handle("Gone Pod", going))  # type: ignore[misc]
            case PatchCondition(pod, reason, message, nominated):
                raw = self._raw.get(pod.uid)
                if raw is not None:
                    said = {"type": "PodScheduled", "status": "False", "reason": reason, "message": message}
                    status = {"conditions": [said], "nominatedNodeName": nominated or pod.nominated_node_name}
                    echo = b'%b,"status":%b}' % (raw[:-1], msgspec.json.encode(status))
                    self._at(self.now + ANSWER, lambda: self._echo(pod.uid, echo))

    def _confirm(self, pod: Pod, node: str) -> None:
        raw = self._raw.pop(pod.uid, None)
        self._handle("Bound", Bound(pod.uid))

        def put(echo: Pod) -> None:
            self._handle("Put of a bound pod", Put(echo))

        if raw is None:
            put(msgspec.structs.replace(pod, node_name=node))
        else:
            bound = raw.replace(b'"spec":{', b'"spec":{"nodeName":"%b",' % node.encode(), 1)
            self._decode("decode of a bound pod", "Pod", bound, put)

    def _echo(self, uid: str, raw: bytes) -> None:
        def put(echo: Pod) -> None:
            self._handle("Put of a status echo", Put(echo))

        if uid in self._raw:
            self._decode("decode of a status echo", "Pod", raw, put)
