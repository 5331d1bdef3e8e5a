"""Adds this replica's counts to the statuses of the policies: slowly, by conditional writes, exact over restarts.

Every replica writes for itself, so counts reach the status without an operator, and no replica needs to know another.
A policy is written at most once a round, whatever the number of reviews; rounds follow each other after an interval,
policies within one after a gap. `tally` says what is written, and why that adds up.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime

import msgspec
import structlog

from podberth.kube.client import Client, read_answer
from podberth.kube.errors import ApiError, Unreachable
from podberth.kube.resources import METADATA_POLICIES
from podberth.policy.admission import tally
from podberth.policy.admission.tally import Key, Tallies
from podberth.policy.objects import JsonObject

GAP_SECONDS = 0.2
"""Between two policies: at most five reads and five writes a second, however many policies there are."""
TRIES = 5
"""The number of tries to write one policy's status in one round, when others write it at the same time."""
LAST_SECONDS = 5.0
"""Seconds for writing what is left when the replica ends."""


class _Policy(msgspec.Struct):
    status: tally.Counted | None = None


_policy = msgspec.json.Decoder(_Policy).decode

log = structlog.get_logger("counting")


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
            fields = tally.status(
                held.get("status") or {}, self._replica, mine, self._written.get(key, {}), self._wall()
            )
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
