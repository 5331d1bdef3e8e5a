"""The MetadataPolicies of the cluster, kept up to date by one reflector, which compares them with a list now and then.

A stored policy that can't be accepted (an older schema let it in) does not apply, and every review in its namespace has
a warning; the others apply. If the policies of a namespace cost too much, some of them do not apply (`bounds`): of
these only the price is kept, and they are requested again when there is room. Large policies are read in a thread
(`kube.reflector`). `reviewer` calls `of`; `server` calls `unready` before it answers anything.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from functools import partial

import msgspec
import structlog

from podberth.kube.client import Client
from podberth.kube.cross_check import EVERY_SECONDS
from podberth.kube.errors import ApiError, Unreachable
from podberth.kube.machine import MACHINE, Machine
from podberth.kube.objects import Change, Deleted, Key, Meta
from podberth.kube.reflector import Reflector, beside
from podberth.kube.resources import METADATA_POLICIES, Resource
from podberth.policy.admission.group import KnownPolicies, Stored, known, parsed
from podberth.service.log import RateLimit

KEPT_UNITS = 512
"""Policies of the first list that cost more are kept when it is known which ones apply. One may take 8 MB."""
GET_SECONDS, RETRY_SECONDS = 5.0, 1.0
NONE = KnownPolicies()

log = structlog.get_logger("policies")


class _Meta(Meta):
    generation: int = 0
    creation_timestamp: str | None = msgspec.field(name="creationTimestamp", default=None)


class _Head(msgspec.Struct):
    metadata: _Meta


_head = msgspec.json.Decoder(_Head).decode


class PolicyCache:
    """The policies of all namespaces. `run` watches them until cancelled."""

    def __init__(
        self,
        client: Client,
        allowed_prefixes: tuple[str, ...] = (),
        *,
        machine: Machine = MACHINE,
        check_seconds: float = EVERY_SECONDS,
    ) -> None:
        self._client = client
        self._allowed_prefixes = allowed_prefixes
        self._policies: defaultdict[str, dict[str, Stored]] = defaultdict(dict)
        """Namespace → name → policy."""
        self._held: dict[str, KnownPolicies] = {}
        self._missing: dict[tuple[str, str], Stored] = {}
        """Policies that apply and have to be requested, as only their price was kept."""
        self._first: set[tuple[str, str]] = set()
        """Those of the first list."""
        self._first_read = asyncio.Event()
        self._wake = asyncio.Event()
        self._rate_limit = RateLimit(clock=machine.monotonic)
        self.reflector: Reflector[Stored] = Reflector(
            client,
            METADATA_POLICIES,
            self._decode,
            self._deliver,
            decode_large=self._read_whole,
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

    def kept(self, namespace: str) -> list[str]:
        """Return the names of the policies of a namespace of which more than the price is kept."""
        return [one.name for one in self._policies.get(namespace, {}).values() if one.policy is not None]

    def counts(self) -> tuple[int, int]:
        """Return the number of policies that apply, and that are not accepted."""
        applied, refused = map(sum, zip((0, 0), *(held.counts for held in self._held.values()), strict=True))
        return applied, refused

    @property
    def left_out(self) -> int:
        """The number of policies that are accepted and not applied, as those of their namespace cost too much."""
        return sum(held.left_out for held in self._held.values())

    @property
    def closed(self) -> int:
        """The number of namespaces that admit no object, as a policy that rejects is left out there."""
        return sum(held.closed for held in self._held.values())

    def _stored(self, namespace: str, name: str) -> Stored | None:
        return self._policies.get(namespace, {}).get(name)

    # -- from the reflector --------------------------------------------------------------------------------------

    def _decode(self, raw: msgspec.Raw) -> Stored:
        meta = _head(raw).metadata
        held = self._stored(meta.namespace, meta.name)
        if held is not None and (held.uid, held.generation) == (meta.uid, meta.generation) and meta.generation:
            held.resource_version = meta.resource_version  # else it would look as if this event had been lost
            return held  # a write of the status, which are many
        return self._read_whole(raw)

    def _read_whole(self, raw: msgspec.Raw) -> Stored:
        meta = _head(raw).metadata
        stored = Stored(meta.namespace, meta.name, meta.uid, meta.resource_version, meta.generation)
        stored.created = meta.creation_timestamp or ""
        stored.learn(parsed(raw, self._allowed_prefixes))
        if stored.units > KEPT_UNITS and not self.reflector.has_synced:
            stored.policy = None
        return stored

    def _deliver(self, changes: list[Change[Stored]], _replaced: bool) -> None:
        touched = set()
        for change in changes:
            if isinstance(change, Deleted):
                self._policies[change.namespace].pop(change.name, None)
                touched.add(change.namespace)
                continue
            stored = change.object
            if self._stored(stored.namespace, stored.name) is not stored:
                self._learned(stored)
                touched.add(stored.namespace)
        self._settle(touched)

    def _learned(self, stored: Stored) -> None:
        self._policies[stored.namespace][stored.name] = stored
        if stored.problem:
            what, place = "a policy is not accepted and does not apply", stored.namespace
            self._rate_limit.write(
                (what, place), log.error, what, namespace=place, name=stored.name, problem=stored.problem[:300]
            )

    def _settle(self, touched: set[str]) -> None:
        for namespace in touched:
            before = self.of(namespace)
            held, missing = known(self._policies[namespace].values())
            self._held[namespace] = held
            if not self._policies[namespace]:
                del self._policies[namespace], self._held[namespace]
            # Somebody may edit the same policy all day.
            tell = log.debug if held.counts == before.counts else log.info
            tell("policies changed", namespace=namespace, accepted=held.counts[0], refused=held.counts[1])
            for stored in missing:
                key = namespace, stored.name
                self._missing[key] = stored
                if not self.reflector.has_synced:
                    self._first.add(key)
                self._wake.set()
            if held.left_out and (not before.left_out or (held.closed and not before.closed)):
                log.error(
                    "the policies of a namespace cost too much, some do not apply",
                    namespace=namespace,
                    left_out=held.left_out,
                    closed=held.closed,
                )

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

    # -- what was not kept ---------------------------------------------------------------------------------------

    async def _read_forever(self) -> None:
        """Request the policies that are missing, one after the other."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._missing:
                key, stored = next(iter(self._missing.items()))
                try:
                    raw = await self._get(stored)
                except (ApiError, Unreachable, TimeoutError, msgspec.MsgspecError) as error:
                    log.error("a policy could not be read, trying again", policy=key, error=str(error)[:300])
                    self._missing[key] = self._missing.pop(key)  # others first
                    await asyncio.sleep(RETRY_SECONDS)
                    continue
                if raw is not None:
                    stored.learn(await beside(partial(parsed, allowed_prefixes=self._allowed_prefixes), raw))
                if self._missing[key] is stored:
                    del self._missing[key]
                if raw is not None and self._stored(*key) is stored:
                    self._learned(stored)
                    self._settle({stored.namespace})
                self._first.discard(key)
                if not self._first:
                    self._first_read.set()

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
