"""Reconcile one namespace: read its policies from the index, judge them, have them enforced, write their statuses.

A namespace is looked at as a whole, since every policy of it can change what is true of another. Its passes come one
after the other, and whoever asks before one begins shares it: `kubectl apply` of ten policies is one pass. Nothing is
remembered that is not in the API as well, but for the analysis of specs that have not changed.

No namespace waits for what another one costs: after a pass a namespace rests for some times what was computed for it,
and an analysis that takes long is done beside the passes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import kopf
import msgspec
import structlog

from podberth.kube.client import Client
from podberth.kube.errors import ApiError, Unreachable
from podberth.kube.machine import MACHINE, Machine
from podberth.kube.objects import Version, read_version
from podberth.kube.resources import METADATA_POLICIES
from podberth.kube.writes import meta_time
from podberth.policy.operator import judge, status
from podberth.policy.operator.enforcement import Enforcer
from podberth.policy.operator.judge import Judged, Revision, Stored, Told, revision_of
from podberth.policy.operator.settings import Settings
from podberth.policy.operator.status import Counts, Enforcement

GATHER_SECONDS = 0.1
"""Before a pass: what else changes meanwhile is part of it."""
RETRY_SECONDS = 2.0
PASSES, LARGE_PASSES = 16, 2
"""Namespaces that are looked at side by side, and those among them that take a lot of memory."""
REST, LONGEST_REST = 4.0, 30.0
"""A namespace rests for so many times what its pass took to compute: a fifth of the operator is all that it gets."""
QUICK = 300_000
"""Steps of an analysis that a pass waits for; what takes more is done beside the passes."""
MOST_EVENTS = 10
"""Events that are posted in one pass."""
LARGE = 16_384
"""Bytes of a spec that the index does not keep: it is read again when its namespace is looked at."""
MOST_BYTES, MOST_TEXTS = 4_000_000, 80_000
"""The specs of a namespace that are looked at: bytes, and keys and values, each of which takes many times its length
once it is read."""

log = structlog.get_logger("reconcile")


class Entry(msgspec.Struct, frozen=True):
    """A policy as the index has it: the document as JSON, and the bytes and texts of its spec."""

    uid: str
    version: Version
    name: str
    raw: bytes
    size: int
    texts: int

    @property
    def whole(self) -> bool:
        """Return whether `raw` has the spec."""
        return self.size <= LARGE


def entry(document: Mapping[str, Any]) -> Entry:
    """Return the part of a policy that the index keeps, whatever an older CRD may have let in."""
    spec = msgspec.json.encode(document.get("spec"))
    meta = {field: value for field, value in document["metadata"].items() if field != "managedFields"}
    kept = {**document, "metadata": meta}
    if len(spec) > LARGE:
        del kept["spec"]
    version = read_version(meta["resourceVersion"])
    return Entry(meta["uid"], version, meta["name"], msgspec.json.encode(kept), len(spec), spec.count(b'"') // 2)


class _Namespace:
    """The passes of one namespace, and what is known of it."""

    __slots__ = "certain", "judged", "lock", "long", "name", "next", "rested", "soon"

    def __init__(self, name: str) -> None:
        self.name = name
        self.lock = asyncio.Lock()
        self.next: asyncio.Task[None] | None = None
        """The pass that has not begun yet."""
        self.certain = False
        """That pass is tried again until it succeeds."""
        self.soon: tuple[float, asyncio.Handle] | None = None
        """When somebody wants a pass that nobody waits for."""
        self.rested = 0.0
        """When it has rested from its last pass."""
        self.judged: tuple[Revision, Judged] | None = None
        self.long: asyncio.Task[None] | None = None
        """Its analysis that takes long."""


class Reconciler:
    """`policies(namespace)` returns what the index has, once it is `complete`, `live` the live schedulers (None:
    unknown).
    """

    def __init__(
        self,
        client: Client,
        settings: Settings,
        policies: Callable[[str], Iterable[Entry]],
        complete: asyncio.Event,
        enforcer: Enforcer,
        live: Callable[[], frozenset[str] | None],
        counts: Callable[[str, Revision], Mapping[str, Counts]],
        *,
        identity: str,
        machine: Machine = MACHINE,
    ) -> None:
        self._client = client
        self._settings = settings
        self._policies = policies
        self._complete = complete
        self._enforcer = enforcer
        self._live = live
        self._counts = counts
        self._identity = identity
        self._machine = machine
        self._namespaces: dict[str, _Namespace] = {}
        self._places, self._large = asyncio.Semaphore(PASSES), asyncio.Semaphore(LARGE_PASSES)
        self._quick, self._slow = asyncio.Lock(), asyncio.Lock()
        self._refused: set[tuple[str, int]] = set()
        """Uid and generation of the policies whose status the API server refuses."""

    # -- when a namespace is looked at -------------------------------------------------------------------------------

    async def look(self, namespace: str) -> None:
        """Wait for a pass that begins after this call; but not for one that is tried again until it succeeds.

        Raises kopf.TemporaryError when the API server is in the way.
        """
        about = self._about(namespace)
        if not about.certain:
            await self._wait(about)

    def look_soon(self, namespace: str, after: float = 0.0) -> None:
        """Have a pass in some seconds, for which nobody waits, and which is tried again until it succeeds."""
        about, due = self._about(namespace), self._machine.monotonic() + after
        if about.soon is None or about.soon[0] > due:
            if about.soon is not None:
                about.soon[1].cancel()
            about.soon = due, asyncio.get_running_loop().call_later(after, self._begin, about)

    def _about(self, namespace: str) -> _Namespace:
        return self._namespaces.setdefault(namespace, _Namespace(namespace))

    async def _wait(self, about: _Namespace) -> None:
        if about.next is None:
            about.next = asyncio.create_task(self._turn(about))
        await asyncio.shield(about.next)

    def _begin(self, about: _Namespace) -> None:
        about.soon, about.certain = None, True
        asyncio.ensure_future(self._wait(about)).add_done_callback(partial(self._ended, about.name))

    def _ended(self, namespace: str, task: asyncio.Task[None]) -> None:
        if task.cancelled() or (error := task.exception()) is None:
            return
        if isinstance(error, kopf.TemporaryError):
            log.error("a namespace is looked at again", namespace=namespace, error=str(error)[:300])
            self.look_soon(namespace, RETRY_SECONDS)
        else:
            told = "looking at a namespace failed, this is a bug of Berth: it is left alone until it changes"
            log.error(told, namespace=namespace, exc_info=error)

    async def _turn(self, about: _Namespace) -> None:
        try:
            async with about.lock:
                rest = about.rested - self._machine.monotonic()
                if rest > GATHER_SECONDS:
                    about.certain = False
                    self.look_soon(about.name, rest)
                    return
                await asyncio.sleep(GATHER_SECONDS)
                await self._complete.wait()
                large = sum(one.size for one in self._policies(about.name)) > LARGE
                async with self._large if large else self._places:
                    about.next, about.certain = None, False
                    await self._pass(about)
        except (ApiError, Unreachable) as error:
            raise kopf.TemporaryError(str(error)[:300], delay=RETRY_SECONDS) from error
        finally:
            if about.next is asyncio.current_task():
                about.next = None

    # -- one pass ----------------------------------------------------------------------------------------------------

    async def _pass(self, about: _Namespace) -> None:
        namespace, began = about.name, self._machine.monotonic()
        watched = not self._settings.watched or namespace in self._settings.watched
        stored = judge.bounded(await self.read(namespace)) if watched else []
        computed = self._machine.monotonic() - began
        enforced = await self._enforcer.enforce(namespace, stored)
        if enforced.again:
            self.look_soon(namespace, enforced.again)
        if enforced.pending:
            return
        if not stored:
            about.judged = None
            if about.next is None and about.soon is None:
                self._namespaces.pop(namespace)
            return
        began = self._machine.monotonic()
        judged = await self._judge(about, stored)
        computed += self._machine.monotonic() - began
        if computed > GATHER_SECONDS:
            about.rested = self._machine.monotonic() + min(REST * computed, LONGEST_REST)
        await self._tell(namespace, stored, judged, enforced.ways)

    async def read(self, namespace: str) -> list[Stored]:
        """Return the policies of a namespace, by name. Raises ApiError and Unreachable."""
        entries = sorted(self._policies(namespace), key=lambda one: one.name)
        if why := too_large(sum(one.size for one in entries), sum(one.texts for one in entries)):
            return [judge.unread(msgspec.json.decode(one.raw, type=judge.Unread), why) for one in entries]
        raw = [one.raw if one.whole else await self._whole(namespace, one) for one in entries]
        there = [one for one in raw if one is not None]
        return await asyncio.to_thread(read_all, there, self._settings.allowed_prefixes) if there else []

    async def _whole(self, namespace: str, one: Entry) -> bytes | None:
        try:
            return await self._client.get(METADATA_POLICIES.path(namespace, one.name))
        except ApiError as error:
            if error.status == 404:
                return None
            raise

    async def _judge(self, about: _Namespace, stored: Sequence[Stored]) -> Judged | None:
        """Return the analysis of these policies; None while a long one is under way."""
        revision = revision_of(stored)
        if about.judged is not None and about.judged[0] == revision:
            return about.judged[1]
        if about.long is not None:
            return None
        judged = await self._think(self._quick, stored, QUICK, QUICK)
        if judged.decided:
            about.judged = revision, judged
            return judged
        about.long = asyncio.create_task(self._think_long(about))
        return None

    async def _think(self, lock: asyncio.Lock, stored: Sequence[Stored], total: int, each: int) -> Judged:
        """Ask the analysis, off the loop, and one at a time: what it takes of memory is bounded too."""
        async with lock:
            return await asyncio.to_thread(judge.findings, stored, self._settings.reserved, total, each)

    async def _think_long(self, about: _Namespace) -> None:
        """Analyse with all of the budget, which takes longer than a pass."""
        again = RETRY_SECONDS
        try:
            stored = judge.bounded(await self.read(about.name))
            judged = await self._think(self._slow, stored, judge.TOTAL, judge.EACH)
            about.judged, again = (revision_of(stored), judged), 0.0
            if not judged.decided:
                told = "the policies of a namespace are not analysed in full, it would take too long"
                log.warning(told, namespace=about.name, steps=judged.steps)
        except (ApiError, Unreachable) as error:
            log.error("a namespace is analysed again", namespace=about.name, error=str(error)[:300])
        finally:
            about.long = None
        self.look_soon(about.name, again)

    async def _tell(
        self, namespace: str, stored: Sequence[Stored], judged: Judged | None, ways: Mapping[str, Enforcement]
    ) -> None:
        """Write the statuses that differ, and post Events of new problems, the first few."""
        counted = self._counts(namespace, revision_of(stored))
        events = 0
        for one in stored:
            told: Told | None = judge.WAITING if judged is None else judged.told.get(one.name, judge.NOTHING_TOLD)
            if judged is None and one.status.get("observedGeneration") == one.generation:
                told = None  # what was said of this very spec stays until there is more to say
            events += await self.report(one, told, counted.get(one.name), ways.get(one.name), MOST_EVENTS - events)
        if events > MOST_EVENTS:
            left = events - MOST_EVENTS
            log.warning("some events are not posted, there are too many at once", namespace=namespace, left=left)

    async def report(
        self,
        one: Stored,
        told: Told | None,
        counts: Counts | None = None,
        enforcement: Enforcement | None = None,
        events: int = MOST_EVENTS,
    ) -> int:
        """Write one policy's status if it differs, and some Events of its problems; how many those are.

        `told` None: the conditions that it has stay.
        """
        conditions = () if told is None else judge.conditions(one, told, self._live(), self._settings.exempt)
        if counts is not None:
            conditions = (*conditions, judge.owners_intact(counts.lost, counts.problems))
        change = status.change(one, conditions, counts, meta_time(self._machine.wall()), enforcement)
        if change is None:
            return 0
        try:
            await self._client.patch(*status.patch(one, change.status))
        except ApiError as error:
            if error.status == 404:
                return 0
            if error.status == 409:  # somebody wrote it, and the index has that in a moment
                self.look_soon(one.namespace, RETRY_SECONDS)
                return 0
            if error.status != 422:
                raise
            # An older CRD, or a spec that today's would not let in: an Event can be posted all the same, once.
            log.error("the API server refused a status", namespace=one.namespace, name=one.name, error=str(error)[:300])
            if (one.uid, one.generation) in self._refused:
                return 0
            self._refused.add((one.uid, one.generation))
            return await self._post(one, change.told, events)
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
        for condition in told[: max(events, 0)]:
            try:
                await self._client.create(*status.event(one, condition, self._identity, self._machine.wall()))
            except (ApiError, Unreachable) as error:
                log.warning("an event was not written", namespace=one.namespace, name=one.name, error=str(error)[:300])
        return len(told)


def too_large(size: int, texts: int) -> str:
    """Return why policies of so many bytes and texts are not looked at; empty when they are."""
    if size <= MOST_BYTES and texts <= MOST_TEXTS:
        return ""
    return (
        f"the policies of this namespace are too large together to be looked at: {size} bytes and {texts} texts, "
        f"want {MOST_BYTES} and {MOST_TEXTS} at most in all"
    )


def read_all(raw: Iterable[bytes], allowed_prefixes: tuple[str, ...] = ()) -> list[Stored]:
    """Return the policies that these documents are."""
    return [judge.read(msgspec.json.decode(one), allowed_prefixes) for one in raw]
