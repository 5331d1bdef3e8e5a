"""The MetadataPolicies of the cluster as the evaluator wants them, kept up to date by one reflector.

A stored policy that can't be accepted (an older schema let it in) is not applied, and every review in its namespace
says so: the others enforce. `reviewer` asks `of`; `server` asks `unready` before it answers anything.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping

import msgspec
import structlog

from scheduler.kube.changes import Change, Deleted, Key
from scheduler.kube.client import Client
from scheduler.kube.errors import ApiError
from scheduler.kube.reflector import Reflector
from scheduler.kube.resources import METADATA_POLICIES, Resource
from scheduler.kube.wire import Meta
from scheduler.policy.parse import PolicyError, parse
from scheduler.policy.spec import Policies, Policy

log = structlog.get_logger("policies")


class Stored(msgspec.Struct):
    """A policy object: what it says, or why it can't be accepted."""

    namespace: str
    name: str
    uid: str
    resource_version: str
    policy: Policy | None = None
    problem: str = ""
    generation: int = 0


class Held(msgspec.Struct, frozen=True):
    """What applies in a namespace, and the names of the policies that should and can't."""

    policies: Policies
    refused: tuple[str, ...] = ()
    uids: Mapping[str, str] = {}
    """By policy name: counts are of this very object, not of the next one of that name."""


class _Meta(Meta):
    generation: int = 0


class _Head(msgspec.Struct):
    metadata: _Meta


_head = msgspec.json.Decoder(_Head).decode


NONE = Held(Policies())


class PolicyCache:
    """All policies, by namespace. `run` follows them until cancelled."""

    def __init__(
        self, client: Client, *, allowed_prefixes: tuple[str, ...] = (), on_change: Callable[[], None] = lambda: None
    ) -> None:
        self._allowed_prefixes = allowed_prefixes
        self._on_change = on_change
        self._stored: defaultdict[str, dict[str, Stored]] = defaultdict(dict)
        self._held: dict[str, Held] = {}
        self.reflector: Reflector[Stored] = Reflector(
            client,
            METADATA_POLICIES,
            self._decode,
            self._deliver,
            on_malformed=self._malformed,
            on_refused=self._refused,
        )

    async def run(self) -> None:
        """Follow the policies until cancelled."""
        await self.reflector.run()

    @property
    def unready(self) -> str | None:
        """Why no review can be answered yet. Once the first list was there, what is known stays good to answer with.

        A missing CRD counts as not ready, too: an API server may say 404 while it starts, and zero policies is a
        thing to know, not to guess.
        """
        if self.reflector.has_synced:
            return None
        if (refused := self.reflector.refused) is not None:
            return f"MetadataPolicies can't be listed: {refused.status} {refused.reason}"
        return f"MetadataPolicies not listed yet: {self.reflector.last_error or 'first list under way'}"

    def of(self, namespace: str) -> Held:
        """What applies in this namespace; nothing applies to objects without one."""
        return self._held.get(namespace, NONE)

    def uid(self, namespace: str, name: str) -> str | None:
        """The uid of a policy that is there."""
        found = self._stored.get(namespace, {}).get(name)
        return None if found is None else found.uid

    def counts(self) -> tuple[int, int]:
        """(accepted, refused) policies."""
        stored = [one for group in self._stored.values() for one in group.values()]
        accepted = sum(one.policy is not None for one in stored)
        return accepted, len(stored) - accepted

    def _decode(self, raw: msgspec.Raw) -> Stored:
        meta = _head(raw).metadata
        stored = Stored(meta.namespace, meta.name, meta.uid, meta.resource_version, generation=meta.generation)
        known = self._stored.get(meta.namespace, {}).get(meta.name)
        if known is not None and (known.uid, known.generation) == (meta.uid, meta.generation) and meta.generation:
            stored.policy, stored.problem = known.policy, known.problem  # a write of the status, which are many
            return stored
        try:
            stored.policy = parse(msgspec.json.decode(raw), self._allowed_prefixes)
        except PolicyError as error:
            stored.problem = error.line
        return stored

    def _deliver(self, changes: list[Change[Stored]], _replaced: bool) -> None:
        touched = set()
        for change in changes:
            if isinstance(change, Deleted):
                self._stored[change.namespace].pop(change.name, None)
                touched.add(change.namespace)
                continue
            stored = change.object
            known = self._stored[stored.namespace].get(stored.name)
            self._stored[stored.namespace][stored.name] = stored
            if known is not None and (known.uid, known.policy, known.problem) == (
                stored.uid,
                stored.policy,
                stored.problem,
            ):
                continue  # only its status, or a mark on it, changed
            touched.add(stored.namespace)
            if stored.policy is None:
                log.error(
                    "policy not accepted, not applied",
                    namespace=stored.namespace,
                    name=stored.name,
                    problem=stored.problem[:300],
                )
        for namespace in touched:
            self._rebuild(namespace)
        if touched:
            self._on_change()

    def _rebuild(self, namespace: str) -> None:
        stored = self._stored[namespace].values()
        if not stored:
            del self._stored[namespace]
            self._held.pop(namespace, None)
            return
        refused = tuple(sorted(one.name for one in stored if one.policy is None))
        accepted = Policies(one.policy for one in stored if one.policy is not None)
        self._held[namespace] = Held(accepted, refused, {one.name: one.uid for one in stored})

    def _malformed(self, _resource: Resource, key: Key | None, error: Exception) -> None:
        log.error("policy can't be read at all; what was known of it stays", key=key, error=type(error).__name__)

    def _refused(self, _resource: Resource, error: ApiError | None) -> None:
        if error is None:
            log.info("MetadataPolicies can be followed again")
        else:
            log.error("MetadataPolicies can't be followed", error=str(error)[:300], known=len(self.reflector))
