"""Count what the policies of a namespace would do to the objects that are in it already; slowly, page by page.

`Audits` has the clock: a namespace is audited when its specs have changed, and once in a while. Those that cost much
have a queue of their own, so that ordinary namespaces never wait for them.

An object is judged as if it were created again with the labels and annotations that it has. A policy in mode warn or
observe counts what it would do if it enforced, which is what one wants to know before switching it on. Owners that
would not find what they make any more are named.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence

import msgspec
import structlog
from msgspec import structs

from podberth.kube.client import Client
from podberth.kube.errors import ApiError, Unreachable
from podberth.kube.resources import OWNERS, Resource
from podberth.policy import impact, objects
from podberth.policy.evaluate import admitted
from podberth.policy.objects import JsonObject, ShapeError
from podberth.policy.operator.judge import Revision, Stored, bounded, revision_of
from podberth.policy.operator.listing import pages
from podberth.policy.operator.status import MOST_EXAMPLES, Counts
from podberth.policy.options import NO_OPTIONS, Options
from podberth.policy.spec import Policies, cut

SLICE = 10_000
"""Criteria that are asked, about, before other tasks get a turn: some milliseconds."""
MOST_COST = 200_000_000
"""Criteria that are asked in one audit: a minute of a core. Objects beyond it are not looked at, which is said."""
MOST_PROBLEMS = 50
QPS, BURST = 5.0, 5
"""Limits of the client that lists: at most 500 objects a second are read."""
SETTLE_SECONDS = 2.0
"""Before an audit: policies are edited in bursts, and an audit reads the whole namespace."""
RETRY_SECONDS = 10.0
"""Before an audit that failed, or could not list all kinds, is tried again."""
HEAVY = 4_000
"""Criteria and writes of a namespace's policies: with more, an audit has to go to the other queue."""
REST_COST = 1_000_000
"""After an audit that cost so much, the namespace waits for a second before specs that change bring it another one."""

log = structlog.get_logger("audit")


class Total(msgspec.Struct):
    """Objects of a namespace: looked at, and hit by any policy."""

    objects: int = 0
    rejected: int = 0
    mutated: int = 0


class Result(msgspec.Struct):
    """The audit of one namespace. Rejections and changes by `total` are those of policies that enforce."""

    total: Total
    policies: dict[str, Counts]
    problems: list[str]
    unlisted: bool = False
    """Kinds could not be listed."""
    cost: int = 0
    """Criteria that were asked, about."""


class Audit:
    """Audits with one (slow) client."""

    def __init__(
        self,
        client: Client,
        kinds: Iterable[Resource],
        exempt: Collection[str],
        options: Options = NO_OPTIONS,
    ) -> None:
        self._client = client
        self._kinds = tuple(kinds)
        self._exempt = exempt
        self._options = options
        self._complained: set[str] = set()

    async def run(self, namespace: str, policies: Policies) -> Result:
        """Look at every object of a namespace. Kinds that can't be listed are told in `problems`."""
        tally = Tally(policies, structs.replace(self._options, namespace=namespace))
        if namespace in self._exempt:
            return tally.result
        listed = {(kind.group, kind.plural) for kind in self._kinds}
        beside = [kind for kind in OWNERS.values() if (kind.group, kind.plural) not in listed]
        for kind in (*self._kinds, *(beside if tally.writes_labels else ())):
            try:
                async for page in pages(self._client, kind, namespace):
                    if not await self._judge(tally, page.objects(), count=kind not in beside):
                        seen = tally.result.total.objects
                        told = f"objects after the first {seen} are not counted: the policies ask too much of each"
                        self._complain(tally, told, f"namespace {namespace}: {told}")
                        return tally.result
            except (ApiError, Unreachable, msgspec.MsgspecError) as error:
                tally.result.unlisted = True
                self._complain(tally, f"can't list {kind.plural} {kind.group}".rstrip() + f": {str(error)[:200]}")
        return tally.result

    async def _judge(self, tally: Tally, found: list[JsonObject], *, count: bool) -> bool:
        """Judge some objects, in slices; False once the audit has cost all that it may.

        `count`: whether they count as objects, or are looked at as owners only.
        """
        since = 0
        for obj in found:
            if tally.result.cost + tally.each > MOST_COST:
                return False
            if count:
                await self._work(tally, lambda: tally.add(obj))  # noqa: B023 - done at once
            if tally.writes_labels and (owner := impact.owner(obj)) is not None:
                await self._work(tally, lambda: tally.own(owner))
            since += tally.each
            if since >= SLICE:
                since = 0
                await asyncio.sleep(0)
        return True

    async def _work(self, tally: Tally, work: Callable[[], None]) -> None:
        """Do it here, or beside the loop where one object alone takes longer than a slice."""
        if tally.each < SLICE:
            work()
        else:
            await asyncio.to_thread(work)

    def _complain(self, tally: Tally, told: str, logged: str = "") -> None:
        """Say it in the result, and in the log the first time."""
        tally.problem(told)
        if (logged or told) not in self._complained:
            if len(self._complained) >= 1000:
                self._complained.clear()
            self._complained.add(logged or told)
            log.warning("left out of the audit", problem=logged or told)


class Audits:
    """When each namespace is audited. `read` reads its policies; `counted` is called when there are new counts."""

    def __init__(
        self,
        audit: Audit,
        read: Callable[[str], Awaitable[Sequence[Stored]]],
        counted: Callable[[str], None],
        seconds: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._audit = audit
        self._read = read
        self._on_counts = counted
        self._seconds = seconds
        self._clock = clock
        self._light: dict[str, float] = {}
        """Namespace → when it is due."""
        self._heavy: dict[str, float] = {}
        self._rested: dict[str, float] = {}
        self._again: set[str] = set()
        """Namespaces whose last audit could not list all kinds, and is tried again before it counts."""
        self._counted: dict[str, tuple[Revision, Mapping[str, Counts]]] = {}
        self._wanted = asyncio.Event()

    def of(self, namespace: str, revision: Revision) -> Mapping[str, Counts]:
        """Return the counts of a namespace's policies if they are of these very specs; else have it audited soon."""
        counted = self._counted.get(namespace)
        if counted is not None and counted[0] == revision:
            return counted[1]
        if self._seconds:
            due = max(self._clock() + SETTLE_SECONDS, self._rested.get(namespace, 0.0))
            if namespace not in self._heavy and self._light.get(namespace, due + 1.0) > due:
                self._light[namespace] = due
                self._wanted.set()
        return {}

    async def run(self) -> None:
        """Audit until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for queue in (self._light, self._heavy):
                tasks.create_task(self._forever(queue))

    async def _forever(self, queue: dict[str, float]) -> None:
        while True:
            namespace, due = min(queue.items(), key=lambda one: one[1], default=("", float("inf")))
            if due > self._clock():
                self._wanted.clear()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(min(due - self._clock(), self._seconds)):
                        await self._wanted.wait()
                continue
            del queue[namespace]
            try:
                await self._count(queue, namespace)
            except (ApiError, Unreachable) as error:
                log.warning("could not audit a namespace, trying again", namespace=namespace, error=str(error)[:300])
                queue[namespace] = self._clock() + RETRY_SECONDS
            except Exception:
                told = "auditing a namespace failed, this is a bug of Berth: it is not audited until it changes"
                log.exception(told, namespace=namespace)

    async def _count(self, queue: dict[str, float], namespace: str) -> None:
        stored = await self._read(namespace)
        if any(one.unread for one in stored):
            log.warning("a namespace is not audited, its policies are too large", namespace=namespace)
        policies = Policies(one.policy for one in bounded(stored) if one.policy is not None)
        if not policies.policies:
            self._counted.pop(namespace, None)
            self._rested.pop(namespace, None)
            self._again.discard(namespace)
            return
        if queue is self._light and weight(policies) > HEAVY:
            self._heavy[namespace] = self._clock()
            self._wanted.set()
            return
        result = await self._audit.run(namespace, policies)
        log.info(
            "audited",
            namespace=namespace,
            objects=result.total.objects,
            rejected=result.total.rejected,
            mutated=result.total.mutated,
            problems=len(result.problems),
        )
        self._rested[namespace] = self._clock() + result.cost / REST_COST
        if result.unlisted and namespace not in self._again:
            # An API server that has just started denies what it has not read the rights for yet.
            self._again.add(namespace)
            queue[namespace] = max(self._clock() + RETRY_SECONDS, self._rested[namespace])
            return
        self._again.discard(namespace)
        self._light[namespace] = self._clock() + self._seconds
        self._wanted.set()
        self._counted[namespace] = revision_of(stored), result.policies
        self._on_counts(namespace)


class Tally:
    """Adds up verdicts."""

    def __init__(self, policies: Policies, options: Options) -> None:
        self._policies = policies
        self._options = options
        self._enforced = policies.enforced()
        self.writes_labels = any(rule.action.labels for rule in self._enforced.enforcing)
        """Some policy writes labels, so owners may lose what they select by them."""
        problems: list[str] = []
        counts = {policy.name: Counts(problems=problems) for policy in policies.policies}
        self.each = weight(self._enforced)
        """The steps that it takes to judge one object."""
        self.result = Result(Total(), counts, problems)
        self._enforcing = {policy.name for policy in policies.policies if policy.mode == "enforce"}

    def own(self, owner: impact.Owner) -> None:
        """Note which policies take from this owner what it makes."""
        self.result.cost += self.each
        for write in impact.lost_by(owner, self._enforced, self._options):
            found = self.result.policies[write.rule.policy].lost
            if len(found) < MOST_EXAMPLES:
                found.append(f'{owner}, by label {write.key}="{cut(write.value, 63)}" of {write.rule.place}')

    def add(self, obj: JsonObject) -> None:
        """Judge one object; exempt ones do not count."""
        self.result.cost += self.each
        kind = objects.group_and_kind(obj)[1]
        try:
            verdict = admitted(self._policies, "CREATE", objects.check(obj), None, self._options)
        except ShapeError as error:
            self.problem(f"{kind}: {error}")
            return
        if verdict.exempt is not None:
            return
        mutated = any(effect.mutated for effect in verdict.effects if effect.policy in self._enforcing)
        total = self.result.total
        total.objects += 1
        total.rejected += not verdict.allowed
        total.mutated += mutated
        for counts in self.result.policies.values():
            counts.objects += 1
        for effect in verdict.effects:
            counts = self.result.policies[effect.policy]
            counts.rejected += effect.rejected
            counts.mutated += effect.mutated
            if effect.rejected and len(counts.examples) < MOST_EXAMPLES:
                metadata = obj["metadata"]
                counts.examples.append(f"{kind} {metadata.get('namespace', '')}/{metadata.get('name', '')}")

    def problem(self, told: str) -> None:
        """Note what was left out; each text once, and not too many."""
        problems = self.result.problems
        if told not in problems and len(problems) < MOST_PROBLEMS:
            problems.append(told)


def weight(policies: Policies) -> int:
    """Return what it takes to judge one object: all that the rules ask and write."""
    rules = (rule for policy in policies.policies for rule in policy.rules)
    return sum(
        1
        + len(rule.predicate.labels)
        + len(rule.predicate.annotations)
        + len(rule.action.labels)
        + len(rule.action.annotations)
        for rule in rules
    )
