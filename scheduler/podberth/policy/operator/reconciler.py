"""Make each policy's status true: read a namespace, judge it, write what differs. The leader's work.

A namespace that somebody named is looked at as a whole, since every policy of it can change what is true of another.
The policies are read again each time; events only say where to look. The result of an analysis is kept until a spec
changes.

No namespace waits for what another one costs. Each has its turn, in which no more than some megabytes are read, a
fraction of a second is spent on the analysis, and some statuses are written; what remains is for its next turn, which
comes when its share has paid for the last (`turns`). An analysis that takes longer goes on in a second queue, of which
nobody else waits for the end. Next door: `counting` audits.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, TypeVar

import structlog

from podberth.kube.client import Client
from podberth.kube.errors import ApiError, Unreachable
from podberth.kube.writes import meta_time
from podberth.policy.operator import judge, reading, status
from podberth.policy.operator.audit import Audit
from podberth.policy.operator.counting import Counting, Revision, revision_of
from podberth.policy.operator.enforcer import Enforcer
from podberth.policy.operator.judge import Judged, Stored, Told
from podberth.policy.operator.reading import Read
from podberth.policy.operator.settings import Settings
from podberth.policy.operator.status import Counts
from podberth.policy.operator.turns import Turns
from podberth.policy.operator.ways import Enforcement

GATHER_SECONDS = 0.1
"""After the first word of a change: `kubectl apply` of ten policies is one look."""
RETRY_SECONDS = 2.0
RESYNC_SECONDS = 300.0
WORKERS = 2
"""Namespaces that are looked at side by side: each waits for the API server most of the time."""
QUICK = 300_000
"""Steps of an analysis that everybody behind in the queue waits for; what takes more goes to the other queue."""
COMPILED = 10
"""Bytes that are charged for each byte of admission policies: the API server compiles them, too."""
TURN_WRITES, TURN_EVENTS = 20, 10
"""Statuses that are written, and Events that are posted, in one turn of a namespace."""

log = structlog.get_logger("reconciler")
Found = TypeVar("Found")


class Reconciler:
    """`live` tells the live schedulers (None: unknown), `leading` is asked before each write."""

    def __init__(
        self,
        client: Client,
        audit: Audit,
        settings: Settings,
        live: Callable[[], frozenset[str] | None],
        leading: Callable[[], bool],
        *,
        identity: str,
        enforcer: Enforcer | None = None,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._enforcer = enforcer
        self.writes = 0
        self._client = client
        self._settings = settings
        self._live = live
        self._leading = leading
        self._identity = identity
        self._clock = clock
        self.turns = Turns(monotonic)
        """Namespaces that are to be looked at."""
        self.long = Turns(monotonic)
        """Namespaces whose analysis takes longer than a turn."""
        self._quick, self._slow = asyncio.Lock(), asyncio.Lock()
        self._everything = asyncio.Event()
        self._absent = 0
        """The API server has said so many times in a row that there is no such kind as MetadataPolicies."""
        self._judged: dict[str, tuple[Revision, Judged]] = {}
        self._refused: set[tuple[str, int]] = set()
        """Uid and generation of the policies whose status the API server refuses."""
        self._pending: dict[str, Revision] = {}
        """Namespaces that the second queue is to analyse."""
        self._counting = Counting(audit, self.read, self.turns.want, settings.audit_seconds, monotonic)

    def mark(self, namespace: str | None) -> None:
        """Look at this namespace, or at all of them, soon."""
        if namespace is None:
            self._everything.set()
        else:
            self.turns.want(namespace, after=GATHER_SECONDS)

    async def lead(self) -> None:
        """Reconcile until cancelled; everything is looked at first."""
        self.mark(None)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._find_forever())
            tasks.create_task(self._resync_forever())
            tasks.create_task(self._think_forever())
            for _ in range(WORKERS):
                tasks.create_task(self._look_forever())
            if self._settings.audit_seconds:
                tasks.create_task(self._counting.run())

    # -- looking -------------------------------------------------------------------------------------------------

    async def _find_forever(self) -> None:
        while True:
            await self._everything.wait()
            await asyncio.sleep(GATHER_SECONDS)
            self._everything.clear()
            if not await self._find():
                self._everything.set()
                await asyncio.sleep(RETRY_SECONDS)

    async def _find(self) -> bool:
        """Want every namespace that has policies, or had them; False when that could not be found out."""
        try:
            found = await reading.namespaces(self._client, self._settings.watched)
            self._absent = 0
        except (ApiError, Unreachable) as error:
            self._failed("", error)
            if not (isinstance(error, ApiError) and error.status == 404):
                return False
            self._absent += 1
            if not self._gone:
                return False
            found = set()
        ours = frozenset() if self._enforcer is None else self._enforcer.namespaces
        for namespace in sorted(found | ours | self._judged.keys()):
            self.turns.want(namespace)
        return True

    @property
    def _gone(self) -> bool:
        """Return whether the CRD is deleted, and its policies with it; a first 404 may come from an API server that
        starts.
        """
        return self._absent > 1

    async def _look_forever(self) -> None:
        while True:
            namespace = await self.turns.next()
            try:
                await self.look_at(namespace)
            finally:
                self.turns.done(namespace)

    async def look_at(self, namespace: str) -> None:
        """One turn of a namespace; it gets another one where something is left to do."""
        if await self._tried(self.turns, namespace, self.look(namespace)) is False:
            self.turns.want(namespace)

    async def _tried(self, turns: Turns, namespace: str, work: Coroutine[Any, Any, Found]) -> Found | None:
        """Return what comes of this; None when it failed, and is tried again unless that is a fault of Berth."""
        try:
            return await work
        except (ApiError, Unreachable) as error:
            self._failed(namespace, error)
            turns.want(namespace, after=RETRY_SECONDS)
        except Exception:
            log.exception(
                "looking at a namespace failed, this is a bug of Berth: it is left alone until it changes",
                namespace=namespace,
            )
        return None

    def _failed(self, namespace: str, error: ApiError | Unreachable) -> None:
        """Say it, unless it is the CRD that is missing (`watch` says that) or somebody who was faster."""
        if not (isinstance(error, ApiError) and error.status in (404, 409)):
            log.error(
                "could not look at the policies of a namespace, trying again",
                namespace=namespace,
                error=str(error)[:300],
            )

    async def _resync_forever(self) -> None:
        while True:
            await asyncio.sleep(RESYNC_SECONDS)
            self.mark(None)

    async def look(self, namespace: str) -> bool:
        """Make the statuses of one namespace true; False when more of them are left than a turn may write.

        Raises ApiError and Unreachable; a 409 when a policy changed meanwhile: then look again.
        """
        read = await self.read(namespace)
        self.turns.charge(namespace, size=read.size)
        watched = not self._settings.watched or namespace in self._settings.watched
        stored = judge.bounded(read.policies) if watched else []
        revision = revision_of(stored)
        ways = await self._enforce(namespace, stored)
        if not stored:
            self._judged.pop(namespace, None)
            self._counting.forget(namespace)
            return True
        kept = self._judged.get(namespace)
        if kept is None or kept[0] != revision:
            kept = None
            if self._pending.get(namespace) != revision:
                judged = await self._judge(self._quick, self.turns, namespace, stored, QUICK, QUICK)
                if judged.decided:
                    self._keep(namespace, revision, judged)
                    kept = revision, judged
                else:
                    self._pending[namespace] = revision
                    self.long.want(namespace)
        return await self._tell_all(namespace, stored, None if kept is None else kept[1], revision, ways)

    async def _enforce(self, namespace: str, stored: Sequence[Stored]) -> Mapping[str, Enforcement]:
        """Have the API server enforce what it can; who enforces each policy, as far as that is known now."""
        found = None if self._enforcer is None else await self._enforcer.enforce(namespace, stored)
        if found is None:
            return {}
        self.turns.charge(namespace, size=COMPILED * found.size, writes=found.writes)
        if found.again:
            self.turns.want(namespace, after=found.again)
        return found.ways

    async def _judge(
        self, lock: asyncio.Lock, turns: Turns, namespace: str, stored: Sequence[Stored], total: int, each: int
    ) -> Judged:
        """Ask the analysis, off the loop, and one at a time in each queue: what it takes of memory is bounded too."""
        async with lock:
            judged = await asyncio.to_thread(judge.findings, stored, judge.within(total, each), self._settings.reserved)
        turns.charge(namespace, steps=judged.steps)
        return judged

    async def _think_forever(self) -> None:
        while True:
            namespace = await self.long.next()
            try:
                await self._tried(self.long, namespace, self.analyse(namespace))
            finally:
                self._pending.pop(namespace, None)
                self.long.done(namespace)

    async def analyse(self, namespace: str) -> None:
        """The analysis of a namespace that takes longer than a turn, with all of its budget."""
        read = await self.read(namespace)
        self.long.charge(namespace, size=read.size)
        stored = judge.bounded(read.policies)
        judged = await self._judge(self._slow, self.long, namespace, stored, judge.TOTAL, judge.EACH)
        if not judged.decided:
            log.warning(
                "the policies of a namespace are not analysed in full, it would take too long",
                namespace=namespace,
                steps=judged.steps,
            )
        self._keep(namespace, revision_of(stored), judged)
        self.turns.want(namespace)

    def _keep(self, namespace: str, revision: Revision, judged: Judged) -> None:
        self._judged[namespace] = revision, judged
        self._counting.want(namespace)

    async def _tell_all(
        self,
        namespace: str,
        stored: Sequence[Stored],
        judged: Judged | None,
        revision: Revision,
        ways: Mapping[str, Enforcement],
    ) -> bool:
        """Write as many statuses as a turn may; False when some are left. `judged` None: that is under way."""
        counted = self._counting.of(namespace, revision)
        before, events = self.writes, TURN_EVENTS
        left = False
        for one in stored:
            left = self.writes - before >= TURN_WRITES
            if left:
                break
            told: Told | None = judge.WAITING if judged is None else judged.told.get(one.name, judge.NOTHING_TOLD)
            if judged is None and one.status.get("observedGeneration") == one.generation:
                told = None  # what was said of this very spec stays until there is more to say
            events -= await self.report(one, told, counted.get(one.name), max(events, 0), ways.get(one.name))
        if events < 0:
            log.warning(
                "some events are not posted, there are too many for one turn", namespace=namespace, left=-events
            )
        self.turns.charge(namespace, writes=self.writes - before)
        return not left

    async def report(
        self,
        one: Stored,
        told: Told | None,
        counts: Counts | None,
        events: int = TURN_EVENTS,
        enforcement: Enforcement | None = None,
    ) -> int:
        """Write one policy's status if it differs, and some Events of its problems; how many those are.

        `told` None: the conditions that it has stay.
        """
        conditions = () if told is None else judge.conditions(one, told, self._live(), self._settings.exempt)
        if counts is not None:
            conditions = (*conditions, judge.owners_intact(counts.lost))
        now = self._clock()
        change = status.change(one, conditions, counts, meta_time(now), enforcement)
        if change is None or not self._leading():
            return 0
        path, body = status.patch(one, change.status)
        try:
            await self._client.patch(path, body)
        except ApiError as error:
            if error.status == 404:
                return 0
            if error.status != 422:
                raise
            # An older CRD, or a spec that today's would not let in: an Event can be posted all the same, once.
            log.error("the API server refused a status", namespace=one.namespace, name=one.name, error=str(error)[:300])
            if (one.uid, one.generation) in self._refused:
                return 0
            self._refused.add((one.uid, one.generation))
            return await self._post(one, change.told, events)
        self.writes += 1
        log.info(
            "status written",
            namespace=one.namespace,
            name=one.name,
            conditions={condition.type: condition.reason for condition in conditions},
            enforced=None if enforcement is None else enforcement.way,
        )
        return await self._post(one, change.told, events)

    async def _post(self, one: Stored, told: Sequence[judge.Condition], events: int) -> int:
        """Post Events of the first of these conditions; how many there are."""
        for condition in told[:events]:
            try:
                await self._client.create(*status.event(one, condition, self._identity, self._clock()))
            except (ApiError, Unreachable) as error:
                log.warning("an event was not written", namespace=one.namespace, name=one.name, error=str(error)[:300])
        return len(told)

    async def read(self, namespace: str) -> Read:
        """The policies of one namespace, as the API server has them."""
        try:
            return await reading.read(self._client, namespace, self._settings.allowed_prefixes)
        except ApiError as error:
            if error.status == 404 and self._gone:
                return Read((), 0)
            raise

    async def namespaces(self) -> list[str]:
        """The namespaces that have policies and are ours to look at."""
        return sorted(await reading.namespaces(self._client, self._settings.watched))
