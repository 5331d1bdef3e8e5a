"""The MetadataPolicies of the cluster, kept up to date by one reflector, which compares them with a list now and then.

A stored policy that can't be accepted (an older schema let it in) does not apply, and every review in its namespace has
a warning; the others apply. If the policies of a namespace cost too much, some of them do not apply (`bounds`). Long
policies are read in a worker, one namespace after the other, and apply once they are read. `reviewer` calls `of`;
`server` calls `unready` before it answers anything.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, defaultdict
from collections.abc import Callable

import msgspec
import structlog

from podberth.kube.client import Client
from podberth.kube.cross_check import EVERY_SECONDS
from podberth.kube.errors import ApiError, Unreachable
from podberth.kube.machine import MACHINE, Machine
from podberth.kube.objects import Change, Deleted, Key, Meta
from podberth.kube.reflector import Reflector
from podberth.kube.resources import METADATA_POLICIES, Resource
from podberth.policy.admission import jobs
from podberth.policy.admission.aside import Aside, WorkError
from podberth.policy.admission.group import Group, Stored
from podberth.policy.admission.judging import KnownPolicies
from podberth.policy.admission.natives import Natives
from podberth.service.log import RateLimit

LONG_BYTES = 8 << 10
"""Policies of this many bytes or more are read by a worker, as they take milliseconds."""
WAITING_BYTES = 4 << 20
"""The largest sum of bytes of policies that are kept while they wait to be read; others are requested again in their
turn.
"""
GET_SECONDS, RETRY_SECONDS = 5.0, 1.0

log = structlog.get_logger("policies")


class _Meta(Meta):
    generation: int = 0
    creation_timestamp: str | None = msgspec.field(name="creationTimestamp", default=None)


class _Enforcement(msgspec.Struct):
    way: str = ""
    generation: int = 0


class _Status(msgspec.Struct):
    enforcement: _Enforcement | None = None


class _Head(msgspec.Struct):
    metadata: _Meta
    status: _Status | None = None


_head = msgspec.json.Decoder(_Head).decode


NONE = KnownPolicies()


class _Unread(msgspec.Struct, eq=False):
    """A policy that has to be read. Without its bytes it is requested again."""

    stored: Stored
    raw: bytes | None


class PolicyCache:
    """The policies of all namespaces. `run` watches them until cancelled."""

    def __init__(
        self,
        client: Client,
        aside: Aside,
        *,
        on_change: Callable[[], None] = lambda: None,
        machine: Machine = MACHINE,
        check_seconds: float = EVERY_SECONDS,
        leave_native: bool = False,
    ) -> None:
        self._leave_native = leave_native
        self._natives = Natives(client, self._enforced, machine)
        self._clock = machine.monotonic
        self._left: dict[str, float] = {}
        self._client = client
        self._aside = aside
        self._on_change = on_change
        self._groups: defaultdict[str, Group] = defaultdict(Group)
        self._held: dict[str, KnownPolicies] = {}
        self._counts: dict[str, tuple[int, int, int]] = {}
        """Namespace → its part of `_totals`."""
        self._totals = (0, 0, 0)
        self._versions = 0
        self._unread: OrderedDict[str, dict[str, _Unread]] = OrderedDict()
        self._unread_bytes = 0
        self._rate_limit = RateLimit(clock=machine.monotonic)
        self._wake = asyncio.Event()
        self._first: set[tuple[str, str]] = set()
        self._first_read = asyncio.Event()
        self.reflector: Reflector[Stored] = Reflector(
            client,
            METADATA_POLICIES,
            self._decode,
            self._deliver,
            on_malformed=self._malformed,
            on_refused=self._refused,
            check_seconds=check_seconds,
            on_lost=self._lost,
            rng=machine.chance,
            clock=machine.monotonic,
        )

    async def run(self) -> None:
        """Follow the policies until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            if self._leave_native:
                tasks.create_task(self._natives.run())
            tasks.create_task(self._read_forever())
            tasks.create_task(self.reflector.run())

    async def wait_known(self) -> None:
        """Wait until every policy of the first list was read."""
        await self.reflector.wait_synced()
        if self._first:
            await self._first_read.wait()

    @property
    def unready(self) -> str | None:
        """Return the reason for which no review can be answered yet; None: reviews can be answered.

        After the first list, reviews are answered from the policies that are known, however old they are.
        Without the CRD it is not ready either: an API server may answer 404 while it starts, and then nobody knows
        whether there are policies.
        """
        if self.reflector.has_synced:
            return f"{len(self._first)} MetadataPolicies are still being read" if self._first else None
        if (refused := self.reflector.refused) is not None:
            return f"MetadataPolicies can't be listed: {refused.status} {refused.reason}"
        return f"MetadataPolicies not listed yet: {self.reflector.last_error or 'first list under way'}"

    def of(self, namespace: str) -> KnownPolicies:
        """Return the policies that apply in this namespace; none apply to objects without one."""
        return self._held.get(namespace, NONE)

    @property
    def left(self) -> tuple[str, ...]:
        """The namespaces whose policies the API server enforces by itself: nobody need ask us about them."""
        now = self._clock()
        for namespace in [one for one, until in self._left.items() if until <= now]:
            log.warning("nobody says who enforces the policies of a namespace, it is judged here", namespace=namespace)
            del self._left[namespace]
        return tuple(sorted(self._left))

    def uid(self, namespace: str, name: str) -> str | None:
        """Return the uid of a policy that is there."""
        found = self._stored(namespace, name)
        return None if found is None else found.uid

    def kept(self, namespace: str) -> list[str]:
        """Return the names of the policies of a namespace of which more than the price is kept."""
        group = self._groups.get(namespace)
        return [] if group is None else [one.name for one in group.stored.values() if one.spec]

    def counts(self) -> tuple[int, int]:
        """Return (accepted, refused) policies. Asked after each change, so nobody goes through thousands of
        namespaces.
        """
        return self._totals[:2]

    @property
    def left_out(self) -> int:
        """The number of policies that are accepted and not applied, as those of their namespace cost too much."""
        return self._totals[2]

    @property
    def closed(self) -> int:
        """The number of namespaces that admit no object, as a policy that rejects is left out there."""
        return sum(held.closed for held in self._held.values())

    def _stored(self, namespace: str, name: str) -> Stored | None:
        group = self._groups.get(namespace)
        return None if group is None else group.stored.get(name)

    # -- from the reflector --------------------------------------------------------------------------------------

    def _decode(self, raw: msgspec.Raw) -> Stored:
        head = _head(raw)
        meta = head.metadata
        stored = Stored(meta.namespace, meta.name, meta.uid, meta.resource_version, meta.generation)
        stored.created = meta.creation_timestamp or ""
        stored.seen = self._clock()
        said = None if head.status is None else head.status.enforcement
        if self._leave_native and said is not None and said.generation == meta.generation:
            stored.native, stored.ours = said.way == "Native", said.way == "Webhook"
            stored.left = said.way == "None" or (stored.native and self._natives.enforces(meta.namespace, meta.name))
        known = self._stored(meta.namespace, meta.name)
        if known is not None and (known.uid, known.generation) == (meta.uid, meta.generation) and meta.generation:
            if (known.native, known.left, known.ours) == (stored.native, stored.left, stored.ours):
                known.resource_version = meta.resource_version  # else it would look as if this event had been lost
                return known  # a write of the status, which are many
            return msgspec.structs.replace(
                known,
                resource_version=meta.resource_version,
                native=stored.native,
                left=stored.left,
                ours=stored.ours,
            )
        size = len(memoryview(raw))
        if size < LONG_BYTES:
            stored.learn(jobs.parsed(raw, self._aside.terms.allowed_prefixes))
        else:
            self._want(stored, bytes(raw) if self._unread_bytes + size <= WAITING_BYTES else None)
        return stored

    def _deliver(self, changes: list[Change[Stored]], _replaced: bool) -> None:
        touched = set()
        for change in changes:
            if isinstance(change, Deleted):
                self._forget(change.namespace, change.name)
                self._groups[change.namespace].remove(change.name)
                touched.add(change.namespace)
                continue
            stored = change.object
            unread = self._unread.get(stored.namespace, {}).get(stored.name)
            if unread is not None and unread.stored is stored:
                continue
            self._forget(stored.namespace, stored.name)
            if self._stored(stored.namespace, stored.name) is not stored:
                self._learned(stored)
                touched.add(stored.namespace)
        self._settle(touched)

    def _learned(self, stored: Stored) -> None:
        self._groups[stored.namespace].put(stored)
        if stored.problem:
            what, place = "a policy is not accepted and does not apply", stored.namespace
            self._rate_limit.write(
                (what, place), log.error, what, namespace=place, name=stored.name, problem=stored.problem[:300]
            )

    def _settle(self, touched: set[str]) -> None:
        for namespace in touched:
            group = self._groups[namespace]
            if not group.stored:
                self._count(namespace, (0, 0, 0))
                del self._groups[namespace]
                self._held.pop(namespace, None)
                self._left.pop(namespace, None)
                continue
            until = group.left_until(namespace in self._left) if self._leave_native else 0.0
            if until:
                self._left[namespace] = until
            else:
                self._left.pop(namespace, None)
            before = self._held.get(namespace, NONE)
            self._versions += 1
            held, missing = group.settle(self._versions)
            self._held[namespace] = held
            self._count(namespace, group.counts)
            for stored in missing:
                self._want(stored, None)
            if (held.left_out and not before.left_out) or (held.closed and not before.closed):
                log.error(
                    "the policies of a namespace cost too much, some do not apply",
                    namespace=namespace,
                    left_out=held.left_out,
                    closed=held.closed,
                )
        if touched:
            self._on_change()

    def _count(self, namespace: str, now: tuple[int, int, int]) -> None:
        before = self._counts.pop(namespace, (0, 0, 0))
        if any(now):
            self._counts[namespace] = now
        gone = [-one for one in before]
        accepted, refused, left_out = map(sum, zip(self._totals, gone, now, strict=True))
        self._totals = accepted, refused, left_out

    def _enforced(self, namespace: str) -> None:
        """Something else is enforced by the API server there ("": anywhere)."""
        touched = set()
        for place in (namespace,) if namespace else {*self._groups, *self._unread}:
            held = list(self._groups[place].stored.values()) if place in self._groups else []
            unread = [one.stored for one in self._unread.get(place, {}).values()]
            for stored in (*held, *unread):
                left = self._natives.enforces(place, stored.name)
                if stored.native and stored.left != left:
                    stored.left = left
                    touched.add(place)
                    if not left:
                        log.warning(
                            "a policy is judged here: its status says Native, but the API server has no objects for it",
                            namespace=place,
                            name=stored.name,
                        )
            if place in touched:
                for stored in held:
                    self._groups[place].put(stored)
        self._settle(touched)

    def _malformed(self, _resource: Resource, key: Key | None, error: Exception) -> None:
        what = "a policy can't be read, its last readable version stays in use"
        self._rate_limit.write((what, key[0] if key else ""), log.error, what, key=key, error=str(error)[:300])

    def _refused(self, _resource: Resource, error: ApiError | None) -> None:
        if error is None:
            log.info("MetadataPolicies can be watched again")
        else:
            log.error("MetadataPolicies can't be watched", error=str(error)[:300], known=len(self.reflector))

    def _lost(self, _resource: Resource, policies: int) -> None:
        log.warning("the watch of MetadataPolicies lost events, listing again", policies=policies)

    # -- reading aside -------------------------------------------------------------------------------------------

    def _want(self, stored: Stored, raw: bytes | None) -> None:
        first = not self.reflector.has_synced or (stored.namespace, stored.name) in self._first
        self._forget(stored.namespace, stored.name)
        self._unread.setdefault(stored.namespace, {})[stored.name] = _Unread(stored, raw)
        if first:
            self._first.add((stored.namespace, stored.name))
        self._unread_bytes += len(raw or b"")
        self._wake.set()

    def _forget(self, namespace: str, name: str) -> _Unread | None:
        waiting = self._unread.get(namespace, {})
        found = waiting.pop(name, None)
        if found is not None:
            self._unread_bytes -= len(found.raw or b"")
            self._first.discard((namespace, name))
            if not self._first and self.reflector.has_synced:
                self._first_read.set()
            if not waiting:
                del self._unread[namespace]
        return found

    async def _read_forever(self) -> None:
        """Read one policy of each namespace that has unread ones, over and over."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._unread:
                namespace, waiting = next(iter(self._unread.items()))
                unread = next(iter(waiting.values()))
                try:
                    await self._read(unread)
                except (ApiError, Unreachable, TimeoutError, WorkError, msgspec.MsgspecError) as error:
                    name = unread.stored.name
                    log.error(
                        "a policy could not be read, trying again",
                        namespace=namespace,
                        name=name,
                        error=str(error)[:300],
                    )
                    await asyncio.sleep(RETRY_SECONDS)
                if namespace in self._unread:
                    self._unread.move_to_end(namespace)

    async def _read(self, unread: _Unread) -> None:
        stored = unread.stored
        raw = unread.raw
        if raw is None:
            raw = await self._get(stored)
        parsed = None if raw is None else await self._aside.parse(stored.namespace, raw)
        if self._unread.get(stored.namespace, {}).get(stored.name) is not unread:
            return  # it is gone, or changed once more: whatever there is to read now is in the queue
        self._forget(stored.namespace, stored.name)
        if parsed is None:
            return
        stored.learn(parsed)
        self._learned(stored)
        self._settle({stored.namespace})

    async def _get(self, stored: Stored) -> bytes | None:
        """Return the bytes of a policy if it is still the same object; else None, as a watch event is on its way."""
        path = METADATA_POLICIES.path(stored.namespace, stored.name)
        try:
            async with asyncio.timeout(GET_SECONDS):
                raw = await self._client.get(path, tries=1)
        except ApiError as error:
            if error.status == 404:
                return None
            raise
        meta = _head(raw).metadata
        return raw if (meta.uid, meta.generation) == (stored.uid, stored.generation) else None
