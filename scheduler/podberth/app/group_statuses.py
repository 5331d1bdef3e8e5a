"""Writes conditions of pod groups: the newest word of each group only, and only where it says something new.

A gang that does not fit is tried again and again, and most attempts say the same. So there is one place for each group,
in which the newest word replaces the one before, namespaces take turns, and what the API has already is not written.
Nobody waits for a condition, so those of a moment share a connection, as events do (`reporting`).
Each write names the version of the group that it goes by: PodGroupInitiallyScheduled never goes back from True, also
when another scheduler wrote that a moment ago. Upstream: `schedule_one_podgroup.go`, updatePodGroupCondition.

Groups of scheduler-plugins have a phase instead: Pending, then Scheduling. The later ones say what became of pods that
run; scheduler-plugins' controller writes them, and they are left alone.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import structlog
from msgspec import Struct

from podberth.app.reporting import GATHER_SECONDS, MOST, TOGETHER, TRUST, UnderWay, WaitingWrites
from podberth.engine.instructions import Carries, DisruptGroup, SetGroupCondition
from podberth.kube.client import MERGE_PATCH, STRATEGIC_MERGE_PATCH, Client, read_answer
from podberth.kube.errors import ApiError, Unreachable
from podberth.kube.flow import STATUS
from podberth.kube.objects import older, read_version
from podberth.kube.resources import BY_KIND
from podberth.kube.writes import CHANGED, meta_time, object_patch, shorten
from podberth.model.kinds import Decoder
from podberth.model.pod_group import DISRUPTION_TARGET, INITIALLY_SCHEDULED, NATIVE, GroupCondition, PodGroup
from podberth.service.log import RateLimit

log = structlog.get_logger("writer")

AT_ONCE = 2
"""Connections. Groups are fewer than pods, whose conditions are written in the same lane."""
REMEMBERED = 1_000
"""Groups of which it is kept what the API answered last. The watch shows the same a moment later."""
TRIES = 3
"""Tries of a write that meets a newer version of its group."""
PAUSE, LONGEST_PAUSE = 1.0, 30.0
"""Seconds before a write is tried again that the API server did not answer, doubling."""
MESSAGE_BYTES = 32 << 10
"""The API server refuses longer messages of conditions."""
PREEMPTED = "PreemptionByScheduler"
_AGAIN = CHANGED | {401, 406, 408, 415, 429}
"""Answers after which a condition is written by itself: then its newest version is read, or the client knows what to do
(renew its credentials, wait)."""
_BEFORE = {"Pending": ("",), "Scheduling": ("", "Pending", "PreScheduling", "Unknown")}
"""Phase → those that it may follow."""


class _Wanted(Struct):
    """The conditions that are to be written of a group."""

    group: PodGroup
    conditions: dict[str, tuple[str, str, str]]
    """Type → (status, reason, message)."""


class GroupStatuses:
    """Writes a few at a time. What the API server did not answer is written again, unless there is something newer."""

    def __init__(
        self,
        client: Client,
        under_way: UnderWay,
        *,
        wall: Callable[[], float] = time.time,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.written = self.dropped = 0
        self._client = client
        self._under_way = under_way
        self._wall = wall
        self._sleep = sleep
        self._rate_limit = RateLimit(clock=clock)
        self._waiting: WaitingWrites[_Wanted] = WaitingWrites()
        self._answered: dict[str, PodGroup] = {}
        """UID → the group as the API answered to the last write, which the watch may not show yet."""
        self._busy: set[str] = set()
        self._workers = 0
        self._unanswered = 0
        """Connections in a row that did not answer everything."""
        self._decoder = Decoder()
        self.carries: Carries = {SetGroupCondition: self.set_condition, DisruptGroup: self.disrupt}

    def __len__(self) -> int:
        return len(self._waiting)

    def set_condition(self, instruction: SetGroupCondition) -> None:
        """Set PodGroupInitiallyScheduled."""
        said = instruction.status, instruction.reason, shorten(instruction.message, MESSAGE_BYTES)
        self._want(instruction.group, INITIALLY_SCHEDULED, said)

    def disrupt(self, instruction: DisruptGroup) -> None:
        """Set DisruptionTarget."""
        said = "True", PREEMPTED, shorten(instruction.message, MESSAGE_BYTES)
        self._want(instruction.group, DISRUPTION_TARGET, said)

    def _want(self, group: PodGroup, kind: str, said: tuple[str, str, str]) -> None:
        uid, namespace = group.uid, group.namespace
        group = self._newest(group)
        wanted = self._waiting.get(namespace, uid)
        if wanted is None:
            if uid not in self._busy and _change(group, {kind: said}, "") is None:
                return
            if len(self._waiting) >= MOST and self._waiting.crowds(namespace):
                self.dropped += 1
                return
            wanted = _Wanted(group, {})
            self._waiting.put(namespace, uid, wanted)
        elif _takes_back(wanted.conditions.get(kind), said, kind):
            return
        wanted.group = group
        wanted.conditions[kind] = said
        if self._workers < AT_ONCE:
            self._workers += 1
            self._under_way.start(self._work())

    def _newest(self, group: PodGroup) -> PodGroup:
        """Return the group as the watch shows it, or as the API answered since then."""
        answered = self._answered.get(group.uid)
        if answered is None:
            return group
        if older(read_version(group.resource_version), read_version(answered.resource_version)):
            return answered
        del self._answered[group.uid]
        return group

    async def _work(self) -> None:
        pause = PAUSE
        try:
            await asyncio.sleep(GATHER_SECONDS)
            while some := await self._next():
                self._busy.update(one.group.uid for one in some)
                try:
                    left = [one for one in await self._together_or_not(some) if not await self._alone(one)]
                finally:
                    self._busy.difference_update(one.group.uid for one in some)
                if not left:
                    pause = PAUSE
                    continue
                for wanted in left:
                    self._put_back(wanted)
                await self._sleep(pause)
                pause = min(2 * pause, LONGEST_PAUSE)
        finally:
            self._workers -= 1

    async def _next(self) -> list[_Wanted]:
        """Return what is written next: several together, which have had their turn; or one, which waits for it when
        sent.
        """
        turns = 1
        if len(self._waiting) > 1 and self._unanswered < TRUST:
            turns = await self._client.turns(STATUS, min(len(self._waiting), TOGETHER))
        some: list[_Wanted] = []
        while len(some) < turns and (wanted := self._waiting.next(self._busy)) is not None:
            some.append(wanted)
        return some

    async def _together(self, some: list[_Wanted]) -> list[_Wanted]:
        """Write them on one connection. Returns those that are still to be written, each by itself.

        A patch that was carried out though its answer was lost is found to be there then, by the group's version.
        """
        now = meta_time(self._wall())
        patches = [(one, change) for one in some if (change := _change(one.group, one.conditions, now)) is not None]
        if len(some) == 1 or not patches:
            return [one for one, _ in patches]
        try:
            requests = [_status_patch(one.group, change) for one, change in patches]
            answers = await self._client.patch_many(requests, lane=STATUS)
        except Unreachable:
            return [one for one, _ in patches]
        self._unanswered = 0 if len(answers) == len(patches) else self._unanswered + 1
        left = [one for one, _ in patches[len(answers) :]]
        for (one, _), (status, body) in zip(patches, answers, strict=False):
            if status == 200:
                try:
                    self._remember(self._decoded(one.group, body))
                    self.written += 1
                    continue
                except Unreachable:
                    pass  # a page of what stands between: it was not written
            if status in _AGAIN or status < 400 or status >= 500:
                left.append(one)
            elif status != 404:
                self._tell(one.group, str(ApiError.from_answer(status, body)))
        return left

    async def _together_or_not(self, some: list[_Wanted]) -> list[_Wanted]:
        """Do as `_together`; what is wrong with one group keeps no other from being written."""
        try:
            return await self._together(some)
        except Exception:
            log.exception("statuses of pod groups were not written together", **_about(some[0].group))
            return some

    async def _alone(self, wanted: _Wanted) -> bool:
        """Do as `_write`; what is wrong with one group keeps no other from being written."""
        try:
            return await self._write(wanted)
        except Exception:
            log.exception("a pod group's status was not written", **_about(wanted.group))
            return True

    def _put_back(self, wanted: _Wanted) -> None:
        namespace, uid = wanted.group.namespace, wanted.group.uid
        newer = self._waiting.get(namespace, uid)
        if newer is None:
            self._waiting.put(namespace, uid, wanted)
            return
        for kind, said in wanted.conditions.items():
            if kind not in newer.conditions or _takes_back(said, newer.conditions[kind], kind):
                newer.conditions[kind] = said

    async def _write(self, wanted: _Wanted) -> bool:
        """False: the API server did not answer."""
        group = wanted.group
        problem = ""
        for _ in range(TRIES):
            change = _change(group, wanted.conditions, meta_time(self._wall()))
            if change is None:
                return True
            try:
                await self._patch(group, change)
            except ApiError as error:
                problem = str(error)
                if error.status == 404:
                    return True
                if error.status >= 500:
                    break
                if error.status not in CHANGED:
                    self._tell(group, problem)
                    return True
            except Unreachable as error:
                problem = str(error)
                break
            else:
                self.written += 1
                return True
            try:
                newer = await self._now_there(group)
            except (ApiError, Unreachable) as error:
                problem = str(error)
                break
            if newer is None:
                return True
            if newer.resource_version == group.resource_version:
                break  # its version is not why it was refused
            group = newer
        self._tell(group, problem)
        return False

    def _tell(self, group: PodGroup, problem: str) -> None:
        what = "pod group's status not written"
        self._rate_limit.write(what, log.warning, what, **_about(group), error=problem)

    async def _patch(self, group: PodGroup, change: Mapping[str, Any]) -> None:
        path, body, how = _status_patch(group, change)
        answer = await self._client.patch(path, body, how, lane=STATUS)
        self._remember(self._decoded(group, answer))

    def _decoded(self, group: PodGroup, raw: bytes) -> PodGroup | None:
        """Return an answer of the API server about a group; None: it is about another one. Raises Unreachable."""
        found = read_answer(raw, self._decoder.of_kind(group.kind))
        return found if isinstance(found, PodGroup) and found.uid == group.uid else None

    async def _now_there(self, group: PodGroup) -> PodGroup | None:
        """Return the group as it is now; None: this very one is gone. Raises ApiError, Unreachable."""
        path = BY_KIND[group.kind].path(group.namespace, group.name)
        try:
            raw = await self._client.get(path, lane=STATUS, tries=2)
        except ApiError as error:
            if error.status == 404:
                return None
            raise
        return self._decoded(group, raw)

    def _remember(self, answered: PodGroup | None) -> None:
        if answered is None:
            return
        self._answered.pop(answered.uid, None)
        self._answered[answered.uid] = answered
        if len(self._answered) > REMEMBERED:
            del self._answered[next(iter(self._answered))]


def _status_patch(group: PodGroup, change: Mapping[str, Any]) -> tuple[str, bytes, str]:
    """Return path, body and content type of a patch of the status."""
    path, body = object_patch(
        BY_KIND[group.kind],
        group.namespace,
        group.name,
        uid=group.uid,
        resource_version=group.resource_version,
        change=change,
        subresource="status",
    )
    return path, body, STRATEGIC_MERGE_PATCH if group.key.api == NATIVE else MERGE_PATCH


def _takes_back(there: tuple[str, ...] | None, said: tuple[str, ...], kind: str) -> bool:
    """Return whether this would turn a condition back that is final."""
    return kind == INITIALLY_SCHEDULED and there is not None and there[0] == "True" and said[0] != "True"


def _change(group: PodGroup, wanted: Mapping[str, tuple[str, str, str]], now: str) -> Mapping[str, Any] | None:
    """Return the patch of a group as it is; None: nothing has to be written."""
    if group.key.api != NATIVE:
        return _phase(group, wanted, now)
    found = []
    for kind, said in wanted.items():
        was = group.condition(kind)
        if was is not None:
            if _takes_back((was.status,), said, kind):
                continue
            if (was.status, was.reason, was.message, was.observed_generation) == (*said, group.generation):
                continue
        found.append(_condition(group, kind, said, was, now))
    return {"status": {"conditions": found}} if found else None


def _condition(
    group: PodGroup, kind: str, said: tuple[str, str, str], was: GroupCondition | None, now: str
) -> Mapping[str, Any]:
    status, reason, message = said
    kept = was is not None and was.status == status and was.last_transition
    made: dict[str, Any] = {
        "type": kind,
        "status": status,
        "reason": reason,
        "message": message,
        "lastTransitionTime": kept or now,
    }
    return made | ({"observedGeneration": group.generation} if group.generation else {})


def _phase(group: PodGroup, wanted: Mapping[str, tuple[str, str, str]], now: str) -> Mapping[str, Any] | None:
    said = wanted.get(INITIALLY_SCHEDULED)
    if said is None:
        return None
    phase = "Scheduling" if said[0] == "True" else "Pending"
    if group.phase not in _BEFORE[phase]:
        return None
    started = {"scheduleStartTime": now} if phase == "Scheduling" else {}
    return {"status": {"phase": phase, **started}}


def _about(group: PodGroup) -> dict[str, str]:
    return {"pod_group": str(group.key), "api": group.key.api}
