"""Bugs put into the evictor, the admission server and the operator; `mutants` says how, and what for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from unittest.mock import patch

import msgspec

from podberth.app.evictor import evictions
from podberth.app.evictor.watcher import Watcher
from podberth.evictor.evictor import Evictor
from podberth.evictor.followed import Broken
from podberth.evictor.gates import Owners
from podberth.kube import writes
from podberth.kube.client import Client
from podberth.kube.cross_check import CrossCheck
from podberth.kube.listwatch import Pause
from podberth.kube.objects import Change, Deleted
from podberth.policy.admission.cache import PolicyCache
from podberth.policy.admission.group import Stored
from podberth.policy.operator.reconcile import Reconciler
from tests.storm.mutants import MUTANTS, mutant, named, was

__all__ = ["MUTANTS", "named"]

# -- the evictor -----------------------------------------------------------------------------------------------------


@mutant("an eviction does not name the pod's UID")
def evicts_any_uid() -> Iterator[None]:
    eviction = writes.eviction

    def careless(pod: writes.PodRef) -> tuple[str, bytes]:
        path, body = eviction(pod)
        found = msgspec.json.decode(body)
        found.get("deleteOptions", {}).pop("preconditions", None)
        return path, msgspec.json.encode(found)

    with patch.object(evictions, "eviction", careless):
        yield


@mutant("a pod is evicted as soon as its promise is seen to be broken")
def evicts_without_grace() -> Iterator[None]:
    start = was(Evictor, "_start")

    def hasty(self: Evictor, broken: Broken, now: float) -> None:
        start(self, broken, now)
        self._wake_at(broken, now)

    with patch.object(Evictor, "_start", hasty):
        yield


@mutant("a pod is deleted where it should be evicted")
def deletes_outright() -> Iterator[None]:
    async def outright(client: Client, pod: writes.PodRef, *, dry_run: bool) -> None:
        await client.request("DELETE", writes.pod_path(pod), tries=1)

    with patch.object(evictions, "evict", outright):
        yield


@mutant("the API is not asked whether the promise is still broken")
def looks_once() -> Iterator[None]:
    with (
        patch.object(Evictor, "_is_still_broken", lambda *_: True),
        patch.object(CrossCheck, "turn", lambda *_: Pause(1e6)),
    ):
        yield


@mutant("successors of evicted pods are evicted like any other")
def spares_nobody() -> Iterator[None]:
    with patch.object(Owners, "spared", lambda *_: None):
        yield


@mutant("an evictor that begins does not read what earlier ones did")
def forgets_the_past() -> Iterator[None]:
    async def nothing(_: Client) -> list[evictions.PastEviction]:
        return []

    with patch.object(evictions, "read_past_evictions", nothing):
        yield


@mutant("labels of nodes are looked at once")
def follows_nobody() -> Iterator[None]:
    deliver = was(Watcher, "_deliver")

    def once(self: Watcher, kind: str, changes: list[Change[Any]]) -> None:
        known = self.__dict__.setdefault("_seen", set())
        names = {change.object.name for change in changes if kind == "Node" and not isinstance(change, Deleted)}
        if not names or names - known:
            deliver(self, kind, changes)
        known |= names

    with patch.object(Watcher, "_deliver", once):
        yield


# -- policies --------------------------------------------------------------------------------------------------------


@mutant("a policy that is deleted stays in force")
def keeps_deleted_policies() -> Iterator[None]:
    deliver = was(PolicyCache, "_deliver")

    def keeps(self: PolicyCache, changes: list[Change[Stored]], replaced: bool) -> None:
        deliver(self, [change for change in changes if not isinstance(change, Deleted)], replaced)

    with patch.object(PolicyCache, "_deliver", keeps):
        yield


@mutant("a policy is in force as it was first read")
def reads_policies_once() -> Iterator[None]:
    deliver = was(PolicyCache, "_deliver")

    def once(self: PolicyCache, changes: list[Change[Stored]], replaced: bool) -> None:
        new = [
            one
            for one in changes
            if isinstance(one, Deleted) or self._stored(one.object.namespace, one.object.name) is None
        ]
        deliver(self, new, replaced)

    with patch.object(PolicyCache, "_deliver", once):
        yield


@mutant("a replica answers reviews before it knows the policies")
def answers_cold() -> Iterator[None]:
    async def known(self: PolicyCache) -> None:
        """At once."""

    with patch.object(PolicyCache, "unready", None), patch.object(PolicyCache, "wait_known", known):
        yield


@mutant("what a watch of policies lost is never looked for")
def checks_no_policies() -> Iterator[None]:
    made = PolicyCache.__init__

    def unchecked(self: PolicyCache, *given: Any, **how: Any) -> None:
        made(self, *given, **how)
        setattr(self.reflector, "_check", None)  # noqa: B010

    with patch.object(PolicyCache, "__init__", unchecked):
        yield


@mutant("the operator looks at a policy when it begins, and not when it changes")
def ignores_changes() -> Iterator[None]:
    wait = was(Reconciler, "_wait")

    async def deaf(self: Reconciler, about: Any) -> None:
        if about.judged is None:
            await wait(self, about)

    with patch.object(Reconciler, "_wait", deaf):
        yield
