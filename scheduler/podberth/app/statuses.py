"""Writes conditions and nominations of waiting pods: the newest of each pod only, and only as long as it waits.

A storm of unschedulable pods has tens of thousands of conditions to write, and a rate that takes minutes for them. So
there is one place for each pod, in which the newest word replaces the one before; namespaces take turns; nominations,
which free or keep nodes, go first; and a pod that is about to be bound loses its place. While Bindings are under way,
few conditions are written at a time, and less than half of the time: each costs the API server several times what a
Binding does. Each write names the version of the pod that it was decided on: after a Binding it would be refused
(kubernetes/kubernetes#139602).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sized

import structlog
from msgspec import Struct

from podberth.app.naming import about, ref
from podberth.app.under_way import UnderWay
from podberth.app.waiting_writes import MOST, WaitingWrites
from podberth.engine.stimuli import Stimulus, Unwritten
from podberth.kube import live_pod
from podberth.kube.answers import read_answer
from podberth.kube.client import Client
from podberth.kube.errors import ApiError, Unreachable
from podberth.kube.flow import STATUS
from podberth.kube.writes import (
    CHANGED,
    PodRef,
    condition_patch,
    meta_time,
    nomination_patch,
    patch_status,
    pod_path,
)
from podberth.model.pod import Pod

log = structlog.get_logger("writer")

AT_ONCE = STATUS.width
BESIDE_BINDINGS = 2
"""Conditions that are written at a time while pods are being bound."""
LATELY_SECONDS = 1.0
"""So long after a Binding pods count as being bound: between two Bindings of a stream there is nearly always a moment
with none under way, in which all places would be taken."""
REST, LONGEST_REST = 3.0, 1.0
"""While pods are being bound, the place of a condition stays empty for so many times as long as its write took, and so
many seconds at most. A large pod, or a busy API server, makes writes slow, and then they are few."""
TRIES = 3
"""How often a write is tried that meets a newer version of its pod."""


class _Wanted(Struct):
    """What is to be written of a pod. `nominated`: the node to name, empty to clear it, None to leave it."""

    pod: Pod
    condition: tuple[str, str] | None
    """(reason, message) of PodScheduled=False."""
    nominated: str | None


class Statuses:
    """Writes a few at a time. `answer` gets Unwritten for what could not be written.

    `bindings`: those that are under way. `clock`: seconds for how long a write takes.
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
        """Conditions that were written."""
        self.dropped = 0
        """Writes for which there was no room, or whose pod was bound meanwhile."""
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
        """Conditions that are being written, or whose place rests."""
        self._bound_at = -LATELY_SECONDS
        """When a pod was last about to be bound."""
        self._workers = 0

    def __len__(self) -> int:
        return len(self._urgent) + len(self._ordinary)

    def want(self, pod: Pod, condition: tuple[str, str] | None, nominated: str | None) -> None:
        """Write this, in place of what waits to be written of the pod. If there is no room, the pod has to say it again
        at its next attempt."""
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
        """If there is something to do that nobody does."""
        if self._workers < AT_ONCE and (self._urgent or (self._ordinary and self._may_write_condition())):
            self._workers += 1
            self._under_way.start(self._work())

    def _may_write_condition(self) -> bool:
        return self._conditions < (BESIDE_BINDINGS if self._binding() else AT_ONCE)

    def _binding(self) -> bool:
        """Return whether pods are being bound, now or until a moment ago."""
        return bool(self._bindings) or self._clock() - self._bound_at < LATELY_SECONDS

    def drop(self, pod: Pod) -> None:
        """The pod is about to be bound: nobody needs to know any more why it was not."""
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
                self._start_worker()  # when the last Binding is done, nobody else would start those that stepped back
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
        """Return whether it is written, or need not be any more."""
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
        """The version of the pod as it is now; None: it does not wait any more. Empty: nobody can tell."""
        try:
            live = read_answer(await self._client.get(pod_path(ref(pod)), lane=STATUS, tries=2), live_pod.decode)
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
