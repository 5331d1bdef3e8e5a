"""When each namespace is audited: after its specs changed, and once in a while.

Audits that cost little for each object and those that cost much have a queue of their own each, so that ordinary
namespaces never wait for the others; and each namespace pays for what its last audit took (`turns`).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping

import structlog

from podberth.kube.errors import ApiError, Unreachable
from podberth.policy.operator.audit import Audit, weight
from podberth.policy.operator.judge import Stored, bounded
from podberth.policy.operator.reading import Read
from podberth.policy.operator.status import Counts
from podberth.policy.operator.turns import Turns
from podberth.policy.spec import Policies

SETTLE_SECONDS = 2.0
"""Before an audit: policies are edited in bursts, and an audit reads the whole namespace."""
RETRY_SECONDS = 10.0
HEAVY = 4_000
"""Criteria and writes of a namespace's policies: with more, an audit has to go to the other queue."""

log = structlog.get_logger("reconciler")
Revision = frozenset[tuple[str, int]]
"""The specs that were looked at: uid and generation of each policy."""


class Counting:
    """`read` reads a namespace's policies; `counted` is called when there are new counts for them."""

    def __init__(
        self,
        audit: Audit,
        read: Callable[[str], Awaitable[Read]],
        counted: Callable[[str], None],
        seconds: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._audit = audit
        self._read = read
        self._on_counts = counted
        self._seconds = seconds
        self._light, self._heavy = Turns(clock), Turns(clock)
        self._counted: dict[str, tuple[Revision, Mapping[str, Counts]]] = {}
        self._known: set[str] = set()

    def want(self, namespace: str) -> None:
        """Audit a namespace once its policies have settled."""
        if self._seconds:
            self._known.add(namespace)
            self._light.want(namespace, after=SETTLE_SECONDS)

    def forget(self, namespace: str) -> None:
        """A namespace has no policies any more."""
        self._known.discard(namespace)
        self._counted.pop(namespace, None)

    def of(self, namespace: str, revision: Revision) -> Mapping[str, Counts]:
        """The counts of a namespace's policies, where they are of these very specs."""
        counted = self._counted.get(namespace)
        return counted[1] if counted is not None and counted[0] == revision else {}

    async def run(self) -> None:
        """Audit until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._again_forever())
            tasks.create_task(self._forever(self._light))
            tasks.create_task(self._forever(self._heavy))

    async def _again_forever(self) -> None:
        while True:
            await asyncio.sleep(self._seconds)
            for namespace in sorted(self._known):
                self._light.want(namespace)

    async def _forever(self, turns: Turns) -> None:
        while True:
            namespace = await turns.next()
            try:
                await self._count(turns, namespace)
            except (ApiError, Unreachable) as error:
                log.warning("could not audit a namespace, trying again", namespace=namespace, error=str(error)[:300])
                turns.want(namespace, after=RETRY_SECONDS)
            except Exception:
                log.exception(
                    "auditing a namespace failed, this is a bug of Berth: it is not audited until it changes",
                    namespace=namespace,
                )
            finally:
                turns.done(namespace)

    async def _count(self, turns: Turns, namespace: str) -> None:
        read = await self._read(namespace)
        turns.charge(namespace, size=read.size)
        if any(one.unread for one in read.policies):
            log.warning("a namespace is not audited, its policies are too large", namespace=namespace)
            return
        policies = Policies(one.policy for one in bounded(read.policies) if one.policy is not None)
        if not policies.policies:
            return
        if turns is self._light and weight(policies) > HEAVY:
            self._heavy.want(namespace)
            return
        result = await self._audit.run(namespace, policies)
        turns.charge(namespace, steps=result.cost)
        log.info(
            "audited",
            namespace=namespace,
            objects=result.total.objects,
            rejected=result.total.rejected,
            mutated=result.total.mutated,
            problems=len(result.problems),
        )
        self._counted[namespace] = revision_of(read.policies), result.policies
        self._on_counts(namespace)


def revision_of(stored: Iterable[Stored]) -> Revision:
    """Return which specs these are."""
    return frozenset((one.uid, one.generation) for one in stored)
