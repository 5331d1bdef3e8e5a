"""Reports about pods: events, conditions and nominations, and lines of the log. No pod waits for any of them.

There is an event for each pod that is bound and for each that is not. Written one by one, it costs as much as the
Binding itself: a task, a record of TLS, two system calls and a turn of the loop each. So events that come within a
moment go out together, one behind the other on a connection.

A storm of unschedulable pods has tens of thousands of conditions to write, and a rate that takes minutes for them. So
there is one place for each pod, in which the newest word replaces the one before. For both, namespaces take turns.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Collection, Coroutine, Sized
from itertools import count
from typing import Any, Generic, TypeVar

import structlog
from msgspec import Struct

from podberth.engine.instructions import (
    Carries,
    ClearNomination,
    Failed,
    GroupTried,
    Misbehaved,
    Nominate,
    PatchCondition,
    PermitWaited,
    Verified,
    VictimsChosen,
)
from podberth.engine.stimuli import Gone, Stimulus, Unwritten
from podberth.framework.status import PluginError
from podberth.framework.verify import Summary
from podberth.kube.client import Client
from podberth.kube.errors import ApiError, Unreachable
from podberth.kube.flow import EVENT, STATUS
from podberth.kube.writes import (
    CHANGED,
    Event,
    PodRef,
    condition_patch,
    live_pod,
    meta_time,
    nomination_patch,
    patch_status,
    pod_path,
    record,
    record_all,
)
from podberth.model.pod import Pod
from podberth.service.log import RateLimit

log = structlog.get_logger("writer")

MOST = 20_000
"""The largest number of objects with a waiting write."""
FEW = 200
"""The number of objects of each namespace that may wait however many wait in all; fewer where the namespaces are so
many that these would be more than `MOST` together.
"""
GATHER_SECONDS = 0.02
"""Seconds that a write waits for others, with which it shares a connection."""
TOGETHER = 16
"""The largest number of writes on one connection at a time."""
CONNECTIONS = 8
TRUST = 3
"""The number of incomplete answers in a row after which writes go one by one: a proxy may not take a request before it
has answered the one before.
"""
_ALREADY_EXISTS = "AlreadyExists"
"""The reason of an answer that says that an event was written, and the answer to that lost."""
_LATER = frozenset((401, 406, 408, 409, 415, 429))
"""Status codes after which the client retries by itself (new credentials, JSON instead of protobuf, a pause), or whose
text has to be read: a 409 may say that the event exists, or that a quota could not be charged.
"""
AT_ONCE = STATUS.width
"""The largest number of statuses that are written at a time."""
BESIDE_BINDINGS = 2
"""The largest number of conditions that are written at a time while pods are being bound."""
LATELY_SECONDS = 1.0
"""Seconds after a Binding for which pods count as being bound: in a stream of Bindings there is often a moment with
none under way, in which conditions would take all places.
"""
REST, LONGEST_REST = 3.0, 1.0
"""While pods are being bound, the place of a condition stays empty for this many times the duration of its write, and
for at most this many seconds. A large pod, or a busy API server, makes writes slow, and then fewer are sent.
"""
TRIES = 3
"""The largest number of tries of a status whose pod has a newer version than it names."""
FETCH = "Fetch"
_Waiting = TypeVar("_Waiting")


def about(pod: Pod) -> dict[str, str]:
    """Return the fields of a log line about a pod."""
    return {"pod": pod.key, "profile": pod.scheduler_name}


def ref(pod: Pod | Gone) -> PodRef:
    """Return the reference to a pod for a request: by UID, at no certain version."""
    return PodRef(pod.namespace, pod.name, pod.uid)


def share(namespaces: int) -> int:
    """Return the number of objects of each namespace that may wait while `MOST` wait in all.

    So at least one of each may wait, and up to `MOST` namespaces have at most twice `MOST` writes waiting in one queue.
    """
    return max(min(FEW, MOST // max(namespaces, 1)), 1)


class UnderWay:
    """A set of running tasks, which `drain` ends."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Start a task, which runs until it is done or drained."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def drain(self, seconds: float) -> int:
        """Wait for all tasks, and for those that they start; return how many did not end in time and were cancelled."""
        until = self._clock() + seconds
        while self._tasks and (left := until - self._clock()) > 0:
            await asyncio.wait(self._tasks, timeout=left)
        late = [task for task in self._tasks if not task.done()]
        for task in late:
            task.cancel()
        await asyncio.gather(*late, return_exceptions=True)
        return len(late)


class WaitingWrites(Generic[_Waiting]):
    """The waiting writes by namespace and key, mostly a UID. Namespaces take turns."""

    def __init__(self) -> None:
        self._by_namespace: OrderedDict[str, OrderedDict[str, _Waiting]] = OrderedDict()
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def crowds(self, namespace: str) -> bool:
        """Return whether a namespace may add no more writes while `MOST` wait in all."""
        return len(self._by_namespace.get(namespace, ())) >= share(len(self._by_namespace))

    def put(self, namespace: str, key: str, wanted: _Waiting) -> None:
        """Add a write, in place of the one that waited for the same object."""
        objects = self._by_namespace.setdefault(namespace, OrderedDict())
        self._count += key not in objects
        objects[key] = wanted

    def get(self, namespace: str, key: str) -> _Waiting | None:
        """Return the waiting write of an object."""
        objects = self._by_namespace.get(namespace)
        return None if objects is None else objects.get(key)

    def take(self, namespace: str, key: str) -> _Waiting | None:
        """Remove and return the waiting write of an object."""
        objects = self._by_namespace.get(namespace)
        found = None if objects is None else objects.pop(key, None)
        if found is not None:
            self._count -= 1
            if not objects:
                del self._by_namespace[namespace]
        return found

    def next(self, busy: Collection[str] = ()) -> _Waiting | None:
        """Remove and return the first write of the namespace whose turn it is. `busy`: keys that are being written
        now.
        """
        for namespace, objects in self._by_namespace.items():
            for key in objects:
                if key not in busy:
                    found = self.take(namespace, key)
                    if namespace in self._by_namespace:
                        self._by_namespace.move_to_end(namespace)
                    return found
        return None


class Events:
    """The events that wait or are being written. A namespace with many of them delays and drops only its own.

    Events wait for a moment for others, with which they share a connection: the server handles the requests of one
    connection one after the other.
    """

    def __init__(self, client: Client, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.written = self.dropped = 0
        self._client = client
        self._under_way = UnderWay(clock)
        self._waiting: WaitingWrites[Event] = WaitingWrites()
        self._arrivals = count()
        self._workers = 0
        self._sending = 0
        self._unanswered = 0
        """The number of connections in a row that did not answer everything."""

    def write(self, event: Event) -> None:
        """Queue an event; it is dropped and counted when too many wait, as pods matter more."""
        if len(self._waiting) + self._sending >= MOST and self._waiting.crowds(event.about.namespace):
            self.dropped += 1
            return
        self._add(event)
        if not self._workers or (self._workers < CONNECTIONS and len(self._waiting) >= TOGETHER * self._workers):
            self._workers += 1
            self._under_way.start(self._work())

    def _add(self, event: Event) -> None:
        self._waiting.put(event.about.namespace, str(next(self._arrivals)), event)

    async def drain(self, seconds: float) -> int:
        """Wait until all events are written; return how many are dropped: those that were not sent in time, and those
        that were cut off while they were sent.
        """
        await self._under_way.drain(seconds)
        self._workers = 0  # one that was cancelled before its first step does not run its `finally`
        left = len(self._waiting)
        self._waiting = WaitingWrites()
        self.dropped += left
        return left

    async def _work(self) -> None:
        try:
            await asyncio.sleep(GATHER_SECONDS)
            while self._waiting:
                together = self._client.protobuf and self._unanswered < TRUST
                # An event that goes by itself waits for its turn when it is sent.
                turns = await self._client.turns(EVENT, min(len(self._waiting), TOGETHER)) if together else 1
                events = [event for _ in range(turns) if (event := self._waiting.next()) is not None]
                self._sending += len(events)
                try:
                    await self._write(events, together)
                except asyncio.CancelledError:  # some may be written: how many, nobody knows
                    for event in events:
                        self._add(event)
                    raise
                finally:
                    self._sending -= len(events)
        finally:
            self._workers -= 1

    async def _write(self, events: list[Event], together: bool) -> None:
        """Write events on one connection, and those that were not taken that way one by one."""
        statuses: list[int] = []
        if events and together:
            try:
                statuses = await record_all(self._client, events)
            except Unreachable as error:
                self.dropped += len(events)
                log.info("events not written", count=len(events), error=str(error))
                return
            self._unanswered = 0 if len(statuses) == len(events) else self._unanswered + 1
        again = events[len(statuses) :]
        for event, status in zip(events, statuses, strict=False):
            if status == 201:
                self.written += 1
            elif status >= 500 or 200 <= status < 300 or status in _LATER:  # 200 is a page of what stands between
                again.append(event)
            else:  # for good; most often its namespace is being deleted
                self.dropped += 1
                log.debug("event not written", **_of(event), status=status)
        for event in again:
            await self._write_one(event)

    async def _write_one(self, event: Event) -> None:
        try:
            await record(self._client, event)
        except (ApiError, Unreachable) as error:
            refused = error if isinstance(error, ApiError) else None
            if refused is not None and refused.reason == _ALREADY_EXISTS:
                self.written += 1
                return
            self.dropped += 1
            ending = refused is not None and refused.has_cause("NamespaceTerminating")
            (log.debug if ending else log.info)("event not written", **_of(event), error=str(error))
        else:
            self.written += 1


def _of(event: Event) -> dict[str, str]:
    return {"pod": f"{event.about.namespace}/{event.about.name}", "profile": event.controller}


class _Wanted(Struct):
    """A status to write for a pod. `nominated`: the node to name, empty to clear it, None to leave it."""

    pod: Pod
    condition: tuple[str, str] | None
    """(reason, message) of PodScheduled=False."""
    nominated: str | None


class Statuses:
    """Writes conditions and nominations of waiting pods: the newest of each pod only, and only as long as it waits.

    Nominations, which free or keep nodes, go first; the waiting write of a pod that is about to be bound is dropped.
    While Bindings (`bindings`) are under way, few conditions are written at a time, with pauses (`REST`): each costs
    the API server several times what a Binding does. Each write names the version of the pod that it was decided on:
    after a Binding it would be refused (kubernetes/kubernetes#139602). `answer` gets Unwritten for what could not be
    written.
    """

    def __init__(
        self,
        client: Client,
        answer: Callable[[Stimulus], None],
        under_way: UnderWay,
        bindings: Sized,
        *,
        wall: Callable[[], float] = time.time,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        self.written = 0
        """The number of conditions that were written."""
        self.dropped = 0
        """The number of writes that found no place, or whose pod was bound meanwhile."""
        self._client = client
        self._answer = answer
        self._under_way = under_way
        self._bindings = bindings
        self._wall = wall
        self._clock = clock
        self._sleep = sleep
        self._urgent: WaitingWrites[_Wanted] = WaitingWrites()
        self._ordinary: WaitingWrites[_Wanted] = WaitingWrites()
        self._busy: set[str] = set()
        self._conditions = 0
        """The number of conditions that are being written, or whose place stays empty."""
        self._bound_at = -LATELY_SECONDS
        """The time at which a pod was last about to be bound."""
        self._workers = 0
        self.carries: Carries = {
            Nominate: lambda said: self.want(said.pod, None, said.node),
            ClearNomination: lambda said: self.want(said.pod, None, ""),
            PatchCondition: lambda said: self.want(said.pod, (said.reason, said.message), said.nominated),
        }

    def __len__(self) -> int:
        return len(self._urgent) + len(self._ordinary)

    def want(self, pod: Pod, condition: tuple[str, str] | None, nominated: str | None) -> None:
        """Queue a status, merged with the one that waits for the pod. If there is no place, the engine is told so, and
        the pod's next attempt queues it again.
        """
        at = pod.namespace, pod.uid
        before = self._urgent.get(*at) or self._ordinary.get(*at)
        wanted = _Wanted(pod, condition, nominated)
        if before is not None:
            wanted.condition = condition or before.condition
            wanted.nominated = before.nominated if nominated is None else nominated
        there = self._ordinary if wanted.nominated is None else self._urgent
        if before is None and len(self) >= MOST and there.crowds(pod.namespace):
            self.dropped += 1
            self._answer(Unwritten(pod.uid))
            return
        if there is self._urgent:
            self._ordinary.take(*at)
        there.put(*at, wanted)
        self._start_worker()

    def _start_worker(self) -> None:
        """Start a worker if there is a write to do for which none is running."""
        if self._workers < AT_ONCE and (self._urgent or (self._ordinary and self._may_write_condition())):
            self._workers += 1
            self._under_way.start(self._work())

    def _may_write_condition(self) -> bool:
        return self._conditions < (BESIDE_BINDINGS if self._binding() else AT_ONCE)

    def _binding(self) -> bool:
        """Return whether pods are being bound, now or until a moment ago."""
        return bool(self._bindings) or self._clock() - self._bound_at < LATELY_SECONDS

    def drop(self, pod: Pod) -> None:
        """Drop the waiting status of a pod that is about to be bound."""
        self._bound_at = self._clock()
        for waiting in (self._urgent, self._ordinary):
            if waiting.take(pod.namespace, pod.uid) is not None:
                self.dropped += 1
                self._answer(Unwritten(pod.uid))

    def _next(self) -> _Wanted | None:
        wanted = self._urgent.next(self._busy)
        if wanted is None and self._may_write_condition():
            wanted = self._ordinary.next(self._busy)
        return wanted

    async def _work(self) -> None:
        try:
            while (wanted := self._next()) is not None:
                uid, ordinary = wanted.pod.uid, wanted.nominated is None
                self._busy.add(uid)
                self._conditions += ordinary
                self._start_worker()  # after the last Binding, nothing else starts the workers that stopped for it
                began = self._clock()
                try:
                    done = await self._write(wanted)
                except Exception:
                    log.exception("a pod's status was not written", **about(wanted.pod))
                    done = False
                finally:
                    self._busy.discard(uid)
                    self._conditions -= ordinary
                if not done:
                    self._answer(Unwritten(uid))
                if ordinary and self._binding():
                    self._conditions += 1
                    self._under_way.start(self._rest(min(REST * (self._clock() - began), LONGEST_REST)))
        finally:
            self._workers -= 1

    async def _rest(self, seconds: float) -> None:
        try:
            await self._sleep(seconds)
        finally:
            self._conditions -= 1
        self._start_worker()

    async def _write(self, wanted: _Wanted) -> bool:
        """Write a status; return True if it is written or not needed any more, else False."""
        pod, version = wanted.pod, wanted.pod.resource_version
        for _ in range(TRIES):
            path, body = _patch(wanted, version, self._wall())
            try:
                await patch_status(self._client, path, body)
            except ApiError as error:
                if error.status == 404:
                    return True
                problem = error
                if error.status not in CHANGED:
                    break
                newer = await self._version_now(pod)
                if newer is None:
                    return True
                if not newer or newer == version:
                    break  # its version is not why it was refused
                version = newer
            except Unreachable as error:
                log.warning("status not written", **about(pod), error=str(error))
                return False
            else:
                self.written += wanted.condition is not None
                return True
        log.warning("status not written", **about(pod), error=str(problem))
        return False

    async def _version_now(self, pod: Pod) -> str | None:
        """Return the version of the pod as it is now; None: it does not wait any more. Empty: unknown."""
        try:
            live = live_pod(await self._client.get(pod_path(ref(pod)), lane=STATUS, tries=2))
        except ApiError as error:
            return None if error.status == 404 else ""
        except Unreachable:
            return ""
        meta = live.metadata
        waits = meta.uid == pod.uid and not live.spec.node_name and meta.deletion_timestamp is None
        return meta.resource_version if waits else None


def _patch(wanted: _Wanted, version: str, now: float) -> tuple[str, bytes]:
    pod = wanted.pod
    at_version = PodRef(pod.namespace, pod.name, pod.uid, version)
    if wanted.condition is None:
        return nomination_patch(at_version, wanted.nominated or "")
    reason, message = wanted.condition
    was = pod.condition
    since = was[3] if was is not None and was[0] == "False" and was[3] else meta_time(now)
    return condition_patch(
        at_version,
        status="False",
        reason=reason,
        message=message,
        transition=since,
        generation=pod.generation or None,
        nominated=wanted.nominated,
        at_version=True,
    )


class Reports:
    """Logs instructions that need no request: failed attempts, failing plugins, decisions that differ (`--verify`)."""

    def __init__(self) -> None:
        self._misbehaved = RateLimit()
        self.carries: Carries = {
            Misbehaved: self.misbehaved,
            Verified: self.verified,
            **dict.fromkeys((PermitWaited, GroupTried, VictimsChosen), lambda _: None),  # the meter counts them
        }

    def failed(self, failed: Failed) -> None:
        """Log a failed attempt; at debug level if the line before about this pod said the same."""
        (log.debug if failed.repeated else log.info)(
            "not scheduled",
            **about(failed.pod),
            reason=failed.reason,
            attempt=failed.attempts,
            message=failed.message[:1024],
        )

    def misbehaved(self, misbehaved: Misbehaved) -> None:
        """Log a plugin that failed at a point where no pod fails with it."""
        error = misbehaved.error
        where = {"plugin": error.plugin, "point": error.point, "pod": misbehaved.pod.key}
        self._misbehaved.write((error.plugin, error.point), log.error, "plugin failed", **where, error=error.text)

    def plugin_failed(self, error: PluginError) -> None:
        """Log a third-party plugin that raised, at any point. Another line names the pod."""
        if error.point == FETCH:
            return  # of a source; that is said once, where it is refreshed
        kind = (error.plugin, error.point, error.at)
        facts = {"plugin": error.plugin, "point": error.point, "at": error.at}
        self._misbehaved.write(kind, log.error, "a plugin raised an exception", **facts, error=error.text)

    def verified(self, verified: Verified) -> None:
        """Log two lines for a difference: what differs, and the dump for a bug report. Without a difference, log
        nothing.
        """
        difference = verified.difference
        if difference is None:
            return
        of_verification = structlog.get_logger("verify")
        of_verification.error(
            "a decision differs from a second one without kept results",
            **about(verified.pod),
            differs=list(difference.what),
            decided=_facts(difference.kept),
            second_decision=_facts(difference.rebuilt),
            nodes=list(difference.nodes),
            fault_in=difference.blame,
            numbers=list(difference.numbers),
            done="the second decision is used, and all kept results are dropped",
        )
        of_verification.error("for the report of a decision that differs", **about(verified.pod), dump=difference.dump)


def _facts(summary: Summary) -> dict[str, Any]:
    if summary.message:
        return {"message": summary.message, "plugins": list(summary.plugins)}
    return {"best": list(summary.best), "of": summary.count, "total": summary.total}
