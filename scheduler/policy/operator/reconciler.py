"""Make each policy's status true: read a namespace, judge it, write what differs. The leader's work.

A namespace that somebody named is looked at as a whole, since every policy of it can change what is true of another.
What is there is read anew each time; events only say where to look. Analyses are kept until a spec changes.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
import structlog

from scheduler.kube.client import Client
from scheduler.kube.errors import ApiError, Unreachable
from scheduler.kube.resources import METADATA_POLICIES
from scheduler.kube.writes import micro_time
from scheduler.policy.findings import Finding
from scheduler.policy.operator import judge, status
from scheduler.policy.operator.audit import Audit
from scheduler.policy.operator.judge import Stored
from scheduler.policy.operator.settings import Settings
from scheduler.policy.operator.status import Counts
from scheduler.policy.spec import Policies

GATHER_SECONDS = 0.1
"""After the first word of a change: `kubectl apply` of ten policies is one look."""
SETTLE_SECONDS = 2.0
"""Before an audit: policies are edited in bursts, and an audit reads the whole namespace."""
RETRY_SECONDS = 2.0
RESYNC_SECONDS = 300.0

log = structlog.get_logger("reconciler")
Revision = frozenset[tuple[str, int]]
"""Which specs were looked at: uid and generation of each policy."""


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
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.writes = 0
        self._client = client
        self._audit = audit
        self._settings = settings
        self._live = live
        self._leading = leading
        self._identity = identity
        self._clock = clock
        self._dirty: set[str] = set()
        self._everything = True
        self._awake = asyncio.Event()
        self._analysed: dict[str, tuple[Revision, Mapping[str, Sequence[Finding]]]] = {}
        self._known: dict[str, tuple[Revision, Policies]] = {}
        self._counted: dict[str, tuple[Revision, Mapping[str, Counts]]] = {}
        self._to_audit: set[str] = set()
        self._audit_awake = asyncio.Event()

    def mark(self, namespace: str | None) -> None:
        """Look at this namespace, or at all of them, soon."""
        if namespace is None:
            self._everything = True
        else:
            self._dirty.add(namespace)
        self._awake.set()

    async def lead(self) -> None:
        """Reconcile until cancelled; everything is looked at first."""
        self.mark(None)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._look_forever())
            tasks.create_task(self._resync_forever())
            if self._settings.audit_seconds:
                tasks.create_task(self._audit_forever())
                tasks.create_task(self._mark_audits_forever())

    # -- looking -------------------------------------------------------------------------------------------------

    async def _look_forever(self) -> None:
        while True:
            await self._awake.wait()
            await asyncio.sleep(GATHER_SECONDS)
            self._awake.clear()
            if not await self._look_at_all():
                self._awake.set()
                await asyncio.sleep(RETRY_SECONDS)

    async def _look_at_all(self) -> bool:
        """Look wherever somebody said; False when some of it has to be done again."""
        dirty, self._dirty = self._dirty, set()
        if self._everything:
            try:
                dirty |= set(await self.namespaces()) | self._known.keys()
                self._everything = False
            except (ApiError, Unreachable) as error:
                self._failed("", error)
        for namespace in sorted(dirty):
            try:
                await self.look(namespace)
            except (ApiError, Unreachable) as error:
                self._failed(namespace, error)
                self._dirty.add(namespace)
            except Exception:
                log.exception("bug: this namespace is left alone until it changes", namespace=namespace)
        return not (self._dirty or self._everything)

    def _failed(self, namespace: str, error: ApiError | Unreachable) -> None:
        """Say it, unless it is the CRD that is missing (`watch` says that) or somebody who was faster."""
        if not (isinstance(error, ApiError) and error.status in (404, 409)):
            log.error("could not look at policies, tries again", namespace=namespace, error=str(error)[:300])

    async def _resync_forever(self) -> None:
        while True:
            await asyncio.sleep(RESYNC_SECONDS)
            self.mark(None)

    async def look(self, namespace: str) -> None:
        """Make the statuses of one namespace true.

        Raises ApiError and Unreachable; a 409 when a policy changed meanwhile: then look again.
        """
        stored = judge.bounded(await self.read(namespace))
        revision = frozenset((one.uid, one.generation) for one in stored)
        if not stored:
            for kept in (self._analysed, self._known, self._counted):
                kept.pop(namespace, None)
            return
        if self._analysed.get(namespace, (None,))[0] != revision:
            # Seconds, for a policy set that tries hard.
            found = await asyncio.to_thread(judge.findings, stored, reserved=self._settings.reserved)
            self._analysed[namespace] = (revision, found)
            self._known[namespace] = (revision, Policies(one.policy for one in stored if one.policy is not None))
            self._want_audit(namespace)
        findings = self._analysed[namespace][1]
        counted_at, counted = self._counted.get(namespace, (None, {}))
        for one in stored:
            counts = counted.get(one.name) if counted_at == revision else None
            await self._tell(one, findings.get(one.name, ()), counts)

    async def _tell(self, one: Stored, found: Sequence[Finding], counts: Counts | None) -> None:
        """Write one policy's status if it differs, and tell of its problems."""
        conditions = judge.conditions(one, found, self._live(), self._settings.exempt)
        now = self._clock()
        change = status.change(one, conditions, counts, _stamp(now))
        if change is None or not self._leading():
            return
        path, body = status.patch(one, change.status)
        try:
            await self._client.patch(path, body)
        except ApiError as error:
            if error.status == 422:  # an older CRD, or a namesake: retrying would not help
                log.error("status refused", namespace=one.namespace, name=one.name, error=str(error)[:300])
                return
            if error.status != 404:
                raise
            return
        self.writes += 1
        log.info(
            "status written",
            namespace=one.namespace,
            name=one.name,
            conditions={condition.type: condition.reason for condition in conditions},
        )
        for condition in change.told:
            try:
                await self._client.create(*status.event(one, condition, self._identity, now))
            except (ApiError, Unreachable) as error:
                log.warning("event lost", namespace=one.namespace, name=one.name, error=str(error)[:300])

    async def read(self, namespace: str | None) -> list[Stored]:
        """The policies of one namespace, or of all, as the API server has them."""
        body = await self._client.get(METADATA_POLICIES.path(namespace))
        document: dict[str, Any] = msgspec.json.decode(body)
        return [judge.read(item, self._settings.allowed_prefixes) for item in document.get("items") or ()]

    async def namespaces(self) -> list[str]:
        """The namespaces that have policies and are ours to look at."""
        found: list[Stored] = []
        for namespace in self._settings.watched or (None,):
            found += await self.read(namespace)
        return sorted({one.namespace for one in found})

    # -- audits --------------------------------------------------------------------------------------------------

    def _want_audit(self, namespace: str) -> None:
        self._to_audit.add(namespace)
        self._audit_awake.set()

    async def _mark_audits_forever(self) -> None:
        while True:
            await asyncio.sleep(self._settings.audit_seconds)
            for namespace in self._known:
                self._want_audit(namespace)

    async def _audit_forever(self) -> None:
        while True:
            await self._audit_awake.wait()
            await asyncio.sleep(SETTLE_SECONDS)
            self._audit_awake.clear()
            while self._to_audit:
                namespace = self._to_audit.pop()
                revision, policies = self._known.get(namespace, (frozenset(), Policies()))
                if not policies.policies:
                    continue
                result = await self._audit.run(namespace, policies)
                log.info(
                    "audited",
                    namespace=namespace,
                    objects=result.total.objects,
                    rejected=result.total.rejected,
                    mutated=result.total.mutated,
                    problems=len(result.problems),
                )
                self._counted[namespace] = (revision, result.policies)
                self.mark(namespace)


def _stamp(moment: float) -> str:
    """A metav1.Time: RFC 3339 in UTC, whole seconds."""
    return f"{micro_time(moment)[:-8]}Z"
