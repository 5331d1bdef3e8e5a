"""Bugs put in on purpose: each must be found by some seed within the budget that CI runs.

A mutant changes Berth as it runs, by replacing one function. Who adds an invariant or a fault looks here for what it
catches; who finds a bug that no seed finds adds it here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import ModuleType
from typing import Any
from unittest.mock import patch

import msgspec

from podberth.app.scheduler import Scheduler
from podberth.app.watch import Freshness
from podberth.app.writer import GONE, LOST, Bindings, Writer, _Failure, _Unknown
from podberth.engine.instructions import Bind
from podberth.engine.queue.scheduling_queue import SchedulingQueue
from podberth.engine.stimuli import BindFailed, Gone, Put, Stimulus
from podberth.kube import listwatch, writes
from podberth.kube.client import Client
from podberth.kube.cross_check import CrossCheck
from podberth.kube.errors import Unreachable
from podberth.kube.lease import Elector, Term
from podberth.kube.listwatch import KnownObjects, ListWatch, Pause, Phase
from podberth.kube.reflector import Reflector
from podberth.model.node import Node
from podberth.plugins.node_unschedulable import NodeUnschedulable


@dataclass(frozen=True)
class Mutant:
    """One bug."""

    name: str
    what: str
    put_in: Callable[[], Any]
    """A context manager: the bug is there while it lasts."""


MUTANTS: list[Mutant] = []


def mutant(what: str) -> Callable[[Callable[[], Iterator[None]]], None]:
    """Make a mutant of a generator that puts a bug in, yields, and takes it out."""

    def made(function: Callable[[], Iterator[None]]) -> None:
        MUTANTS.append(Mutant(function.__name__.replace("_", "-"), what, contextmanager(function)))

    return made


def was(owner: type | ModuleType, name: str) -> Callable[..., Any]:
    """What a mutant replaces, under whatever name."""
    found: Callable[..., Any] = getattr(owner, name)
    return found


def named(name: str) -> Mutant:
    """The mutant of that name. Raises ValueError when there is none."""
    for one in MUTANTS:
        if one.name == name:
            return one
    raise ValueError(f"no mutant {name}; there are {', '.join(one.name for one in MUTANTS)}")


# -- writes ----------------------------------------------------------------------------------------------------------


@mutant("the Binding does not name the pod's UID")
def no_uid() -> Iterator[None]:
    bind = writes.bind

    async def careless(client: Client, pod: writes.PodRef, node: str, **how: Any) -> Any:
        return await bind(client, msgspec.structs.replace(pod, uid=""), node, **how)

    with patch("podberth.app.writer.bind", careless):
        yield


def _settles(otherwise: Callable[[Any], Any]) -> Iterator[None]:
    """What a Binding's outcome is taken for: a failure, None for success, or Unknown."""
    send = Bindings._send

    async def sends(self: Bindings, posting: Any) -> Any:
        return otherwise(await send(self, posting))

    with patch.object(Bindings, "_send", sends):
        yield


@mutant("a Binding whose answer is lost counts as refused, and its room as free")
def forgets_on_timeout() -> Iterator[None]:
    yield from _settles(lambda found: _Failure(LOST, 0, "lost") if isinstance(found, _Unknown) else found)


@mutant("a Binding whose answer is lost counts as made")
def hopes_on_timeout() -> Iterator[None]:
    yield from _settles(lambda found: None if isinstance(found, _Unknown) else found)


@mutant("one look at a pod that is not bound settles what became of its Binding")
def settles_at_once() -> Iterator[None]:
    with patch("podberth.app.writer.SETTLED", 0.0), patch("podberth.app.writer.MOST_SENT", 0):
        yield


@mutant("an assumption ends after two seconds, with or without an answer")
def assumptions_expire() -> Iterator[None]:
    post = Bindings.post

    def impatient(self: Bindings, instruction: Bind) -> None:
        uid = instruction.pod.uid
        asyncio.get_running_loop().call_later(2.0, self._answer, BindFailed(uid, 0, "expired"))
        post(self, instruction)

    with patch.object(Bindings, "post", impatient):
        yield


@mutant("a Binding answered 404 counts as made")
def counts_404_as_bound() -> Iterator[None]:
    yield from _settles(lambda found: None if isinstance(found, _Failure) and found.why == GONE else found)


@mutant("a Binding answered 409 counts as made")
def ignores_409() -> Iterator[None]:
    yield from _settles(lambda found: None if isinstance(found, _Failure) and found.status == 409 else found)


@mutant("nobody is told of a Binding that was refused")
def swallows_refusals() -> Iterator[None]:
    with patch.object(Bindings, "_failed", lambda *_: None):
        yield


@mutant("a Binding that waits for its turn goes to a node that takes no pods any more")
def withdraws_nothing() -> Iterator[None]:
    with patch.object(Bindings, "withdraw", lambda *_: None):
        yield


@mutant("the Scheduled event is written twice")
def double_event() -> Iterator[None]:
    record = Writer._record

    def twice(self: Writer, pod: Any, **what: Any) -> None:
        record(self, pod, **what)
        if what.get("reason") == "Scheduled":
            record(self, pod, **what)

    with patch.object(Writer, "_record", twice):
        yield


@mutant("a request that ends without an answer keeps its slot")
def leaks_a_slot() -> Iterator[None]:
    request = Client.request

    async def leaky(self: Client, verb: str, path: str, **given: Any) -> bytes:
        try:
            return await request(self, verb, path, **given)
        except Unreachable:
            if (lane := given.get("lane")) is not None and self._lanes[lane.name].places.free > 0:
                self._lanes[lane.name].places.free -= 1
            raise

    with patch.object(Client, "request", leaky):
        yield


# -- the Lease -------------------------------------------------------------------------------------------------------


@mutant("the holder goes on for 40 s after its last renewal")
def renews_late() -> Iterator[None]:
    def late(self: Term, now: float) -> float:
        return 0.0 if self._led_from is None else max(self._led_from + 40.0 - now, 0.0)

    with patch.object(Term, "left", late):
        yield


@mutant("writes go out whoever holds the Lease, and who has lost it takes five seconds to end")
def no_fence() -> Iterator[None]:
    keep = Elector.keep

    async def slowly(self: Elector) -> None:
        try:
            await keep(self)
        finally:
            await asyncio.sleep(5.0)

    with (
        patch.object(Client, "_left", lambda *_: None),
        patch.object(Scheduler, "leading", property(lambda _: True)),
        patch.object(Elector, "keep", slowly),
    ):
        yield


@mutant("a Lease that was taken is taken back")
def takes_it_back() -> Iterator[None]:
    async def again(self: Elector) -> None:
        record = await self._read()
        if record is not None:
            self._record = record
            await self._renew_now()

    with (
        patch.object(Elector, "_look_again", again),
        patch.object(Term, "left", lambda self, now: 5.0 * (self._led_from is not None)),
    ):
        yield


# -- lists and watches -------------------------------------------------------------------------------------------------


@mutant("a new list does not delete what it does not hold")
def no_relist_repair() -> Iterator[None]:
    finish = KnownObjects.finish

    def forgetful(self: KnownObjects[Any], version: str) -> None:
        for key, known in self.known.items():
            self._fresh.setdefault(key, known)
        finish(self, version)

    with patch.object(KnownObjects, "finish", forgetful):
        yield


@mutant("a silent stream is never given up")
def waits_for_ever() -> Iterator[None]:
    made = Reflector.__init__

    def patient(self: Reflector[Any], *given: Any, **how: Any) -> None:
        made(self, *given, **{**how, "idle": 1e9})

    with patch.object(Reflector, "__init__", patient):
        yield


@mutant("after a 410 the watch begins at the same version again")
def ignores_410() -> Iterator[None]:
    def stubborn(self: ListWatch[Any], now: float) -> None:
        if self.phase is Phase.LISTING:
            self.phase = Phase.EMPTY
        self._pause(now)

    with patch.object(ListWatch, "_expired", stubborn):
        yield


@mutant("what a watch lost is never looked for")
def never_checks() -> Iterator[None]:
    with patch.object(CrossCheck, "turn", lambda *_: Pause(1e6)):
        yield


@mutant("what can't be seen is decided on all the same")
def decides_blindly() -> Iterator[None]:
    with patch.object(Freshness, "may_decide", property(lambda _: True)):
        yield


@mutant("an older state of an object replaces a newer one")
def takes_older_events() -> Iterator[None]:
    with patch.object(listwatch, "older", lambda *_: False):
        yield


@mutant("a DELETED event changes nothing")
def ignores_deletions() -> Iterator[None]:
    def deaf(self: KnownObjects[Any], raw: msgspec.Raw) -> None:
        """Not even the version."""

    with patch.object(KnownObjects, "delete", deaf):
        yield


# -- the cache and the queue -------------------------------------------------------------------------------------------


@mutant("a node that is deleted stays in the cache")
def keeps_deleted_nodes() -> Iterator[None]:
    receive = Scheduler.receive

    def keeps(self: Scheduler, stimulus: Stimulus) -> None:
        if not (isinstance(stimulus, Gone) and stimulus.kind == "Node"):
            receive(self, stimulus)

    with patch.object(Scheduler, "receive", keeps):
        yield


@mutant("a node's changes are not read after its first state")
def reads_nodes_once() -> Iterator[None]:
    receive = Scheduler.receive

    def once(self: Scheduler, stimulus: Stimulus) -> None:
        cached = {node.name for _, node in self.engine.cluster.nodes.live()}
        if not (isinstance(stimulus, Put) and isinstance(stimulus.thing, Node) and stimulus.thing.name in cached):
            receive(self, stimulus)

    with patch.object(Scheduler, "receive", once):
        yield


@mutant("cordoned nodes take pods")
def ignores_cordons() -> Iterator[None]:
    with patch.object(NodeUnschedulable, "filter", lambda *_: ()):
        yield


@mutant("nothing wakes a pod that found no room")
def wakes_nobody() -> Iterator[None]:
    with patch.object(SchedulingQueue, "wake", lambda *_, **__: None):
        yield
