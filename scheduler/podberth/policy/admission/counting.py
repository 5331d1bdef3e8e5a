"""Counts what this replica does for each policy, and adds it to the policies' statuses, exact over restarts.

A status holds the sums of all replicas, and beside them, for each replica that wrote lately, how far that replica's own
counts are in the sums. Both change in one conditional write, so a replica whose write was answered by nobody reads
the object again and knows what is left to add: nothing is added twice, and nothing but what a killed replica
had not written yet is lost.

Every replica writes for itself, so counts reach the status without an operator, and no replica needs to know another.
A policy is written at most once a round, whatever the number of reviews; rounds follow each other after an interval,
policies within one after a gap.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import structlog

from podberth.kube.client import Client, read_answer
from podberth.kube.errors import ApiError, Unreachable
from podberth.kube.resources import METADATA_POLICIES
from podberth.policy.evaluate import Effect
from podberth.policy.objects import JsonObject
from podberth.policy.options import Pass

FIELDS = ("matched", "rejected", "mutated")
KEPT_FOR = timedelta(hours=1)
"""The time after which the entry of a silent replica is removed: its counts are in the sums."""
WROTE_LAST = 8
"""The number of entries that stay whatever their times say: those written last, at the end of the list. A clock of a
writer or reader may be wrong by more than `KEPT_FOR`.
"""
MOST_REPLICAS = 32
GAP_SECONDS = 0.2
"""Between two policies: at most five reads and five writes a second, however many policies there are."""
TRIES = 5
"""The number of tries to write one policy's status in one round, when others write it at the same time."""
LAST_SECONDS = 5.0
"""Seconds for writing what is left when the replica ends."""
Key = tuple[str, str, str]
"""Namespace, name and uid of a policy: one that is deleted and created again starts from zero."""

log = structlog.get_logger("counting")


class Tally(msgspec.Struct):
    """Counts that only grow, and when each last grew (seconds since the epoch)."""

    matched: int = 0
    rejected: int = 0
    mutated: int = 0
    times: dict[str, float] = msgspec.field(default_factory=dict)

    def counts(self) -> dict[str, int]:
        """Return the three counts by field."""
        return {"matched": self.matched, "rejected": self.rejected, "mutated": self.mutated}


class Tallies:
    """The counts of this replica since its start. `wall` is a clock: seconds since the epoch."""

    def __init__(self, wall: Callable[[], float] = time.time) -> None:
        self.of: dict[Key, Tally] = {}
        self._wall = wall

    def add(self, effects: Iterable[Effect], uids: Mapping[str, str], pass_: Pass) -> None:
        """Count one review. The mutating pass tells what matched; the validating one only adds rejections."""
        now = self._wall()
        for effect in effects:
            key = (effect.namespace, effect.policy, uids.get(effect.policy, ""))
            tally = self.of.get(key)
            if tally is None:
                tally = self.of[key] = Tally()
            if pass_ == "mutate":
                tally.matched += 1
                tally.times["matched"] = now
            if effect.rejected:
                tally.rejected += 1
                tally.times["rejected"] = now
            if effect.mutated:
                tally.mutated += 1
                tally.times["mutated"] = now


class _Entry(msgspec.Struct):
    replica: str | None = None
    time: str | None = None
    matched: int | None = None
    rejected: int | None = None
    mutated: int | None = None


class _Sum(msgspec.Struct, rename="camel"):
    count: int | None = None
    last_time: str | None = None


class Counted(msgspec.Struct):
    """The fields that `status` reads of the status of a policy."""

    counted: list[_Entry] | None = None
    matched: _Sum | None = None
    rejected: _Sum | None = None
    mutated: _Sum | None = None


class _Policy(msgspec.Struct):
    status: Counted | None = None


_policy = msgspec.json.Decoder(_Policy).decode


def stamp(moment: datetime) -> str:
    """Return a time as a metav1.Time."""
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def status(held: Mapping[str, Any], replica: str, mine: Tally, written: Mapping[str, int], now: datetime) -> JsonObject:
    """Return the fields to write into the status `held`, which is a `Counted`, so that `mine` is in the sums.

    The entry of this replica says how much of `mine` the sums hold already. If it is not there any more, `written` says
    it: what they held of it when this replica last wrote.
    """
    entries = list(held.get("counted") or ())
    own = next((one for one in entries if one.get("replica") == replica), written)
    found: JsonObject = {}
    for field, count in mine.counts().items():
        before = held.get(field) or {}
        more = count - int(own.get(field) or 0)
        if more > 0:
            last = max(str(before.get("lastTime") or ""), stamp(datetime.fromtimestamp(mine.times[field], UTC)))
            found[field] = {"count": int(before.get("count") or 0) + more, "lastTime": last}
    oldest = stamp(now - KEPT_FOR)
    others = [one for one in entries if one.get("replica") != replica]
    late = max(len(others) - WROTE_LAST, 0)
    kept = [one for one in others[:late] if str(one.get("time") or "") >= oldest] + others[late:]
    found["counted"] = [*kept[-(MOST_REPLICAS - 1) :], {"replica": replica, **mine.counts(), "time": stamp(now)}]
    return found


class Counting:
    """Writes `tallies` under the name `replica`, which must be this process' alone (`own_identity`).

    `exists(key)`: whether that policy is still there; what was counted for others is forgotten.
    """

    def __init__(
        self,
        client: Client,
        tallies: Tallies,
        replica: str,
        seconds: float,
        exists: Callable[[Key], bool],
        *,
        wall: Callable[[], datetime] = lambda: datetime.now(UTC),
        rng: Callable[[], float] = random.random,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.writes = 0
        self.failures = 0
        self._client = client
        self._tallies = tallies
        self._replica = replica
        self._seconds = seconds
        self._exists = exists
        self._wall = wall
        self._rng = rng
        self._sleep = sleep
        self._written: dict[Key, dict[str, int]] = {}
        self._complained = ""

    async def run(self) -> None:
        """Write, round after round, until cancelled."""
        while True:
            await self._sleep(self._seconds * (0.8 + 0.4 * self._rng()))  # replicas that start together spread out
            await self.round(GAP_SECONDS)

    async def end(self) -> None:
        """Write what is left, as far as it can be done quickly."""
        try:
            async with asyncio.timeout(LAST_SECONDS):
                await self.round(0.0)
        except TimeoutError:
            log.warning(
                "the counts of the last seconds are lost, they were not written in time", policies=len(self.due())
            )

    def due(self) -> list[Key]:
        """Return the policies whose counts are not known to be written."""
        return [key for key, counted in self._tallies.of.items() if counted.counts() != self._written.get(key)]

    async def round(self, gap: float) -> None:
        """Write each policy that is due, `gap` seconds apart. What fails is due again in the next round."""
        for key in [key for key in self._tallies.of if not self._exists(key)]:
            self._forget(key)
        for key in self.due():
            try:
                await self._write(key)
            except (ApiError, Unreachable) as error:
                self.failures += 1
                if str(error) != self._complained:
                    log.error("counts could not be written, trying again", policy=key[:2], error=str(error)[:300])
                self._complained = str(error)
            else:
                self._complained = ""
            await self._sleep(gap)

    async def _write(self, key: Key) -> None:
        """Bring one policy's status up to date; a policy that is gone, or another of its name, is forgotten."""
        namespace, name, uid = key
        for _ in range(TRIES):
            held = await self._read(namespace, name)
            if held is None or held["metadata"].get("uid", "") != uid:
                self._forget(key)
                return
            mine = self._tallies.of[key]
            counts = mine.counts()  # reviews go on being counted while this is under way
            fields = status(held.get("status") or {}, self._replica, mine, self._written.get(key, {}), self._wall())
            metadata = {"uid": uid, "resourceVersion": held["metadata"]["resourceVersion"]}
            body = msgspec.json.encode({"metadata": metadata, "status": fields})
            try:
                await self._client.patch(METADATA_POLICIES.path(namespace, name, "status"), body)
            except ApiError as error:
                if error.status != 409:
                    raise
                continue  # somebody was faster: look again
            self.writes += 1
            self._written[key] = counts
            return

    def _forget(self, key: Key) -> None:
        self._tallies.of.pop(key, None)
        self._written.pop(key, None)

    async def _read(self, namespace: str, name: str) -> JsonObject | None:
        try:
            body = await self._client.get(METADATA_POLICIES.path(namespace, name))
        except ApiError as error:
            if error.status == 404:
                return None
            raise
        read_answer(body, _policy)
        found: JsonObject = msgspec.json.decode(body)
        return found
