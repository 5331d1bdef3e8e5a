"""Leases: by one a scheduler leads, or shows that it lives, and by those of others it finds who serves the same pods.

Two that hold one Lease take turns. Two with a Lease each (a scheduler in a shell, and one of the chart in another
namespace) both decide about every pod: each binds what the other has not seen, and nodes are filled twice. A scheduler
without a Lease of this kind shows itself only by pods that it binds before us.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Set

import msgspec
import structlog

from podberth.framework.config import SchedulerConfiguration, parse_duration
from podberth.kube.client import Client, list_items
from podberth.kube.errors import ApiError, Unreachable
from podberth.kube.lease import DURATION, RENEW_DEADLINE, RETRY, Candidate, Elector, LeaseLostError, own_identity
from podberth.kube.machine import boottime
from podberth.kube.objects import MALFORMED
from podberth.kube.resources import LEASES
from podberth.service.election import candidate, lease_namespace
from podberth.service.log import RateLimit
from podberth.service.schedulers import SCHEDULERS, Lease, LiveSchedulers, served

SUFFIX = "-heartbeat"
BEAT_DURATION, BEAT_DEADLINE, BEAT_RETRY = 30.0, 25.0, 10.0
FIRST_SECONDS = 5.0
"""A start is for the first bindings."""
LOOK_SECONDS = 60.0
MOST_READ = 2000
"""Leases that one look reads, whoever may write some."""
TAKEN = 3
"""The number of pods bound by somebody else between two looks, twice in a row, from which on it is said. After a change
of leaders there may be some, too, for less than a minute."""
MOST = 20
"""Rivals that are told at once."""
_NOT_NODES = "metadata.namespace!=kube-node-lease"
"""There is a Lease for each node; none of them is a scheduler's."""

log = structlog.get_logger("lease")


def candidacy(client: Client, config: SchedulerConfiguration) -> Candidate | None:
    """Return a candidate for the Lease; the client sends no write without it. None when there is no election."""
    wanted = config.leader_election
    if not wanted.leader_elect:
        return None
    namespace, otherwise = lease_namespace(client.connection, wanted.resource_namespace)
    elector = candidate(
        client,
        namespace,
        wanted.resource_name,
        duration=parse_duration(wanted.lease_duration) or DURATION,
        renew_deadline=parse_duration(wanted.renew_deadline) or RENEW_DEADLINE,
        retry=parse_duration(wanted.retry_period) or RETRY,
        annotations=lease_annotations(config),
        otherwise=otherwise,
    )
    client.fence = elector.left
    return elector


def lease_annotations(config: SchedulerConfiguration) -> dict[str, str]:
    """Return what the Lease says of its holder."""
    return {SCHEDULERS: ",".join(profile.scheduler_name or "" for profile in config.profiles)}


def heartbeat(client: Client, config: SchedulerConfiguration) -> Elector | None:
    """Return who keeps a Lease by which others see whom a scheduler that is not elected schedules for.

    Nothing depends on holding it, and it is not the Lease of the election, which another process may be waiting for.
    None where a scheduler is elected, whose own Lease says the same.
    """
    wanted = config.leader_election
    if wanted.leader_elect:
        return None
    namespace, otherwise = lease_namespace(client.connection, wanted.resource_namespace)
    name = wanted.resource_name + SUFFIX

    def problem(said: str) -> None:
        log.warning(
            "the heartbeat can't be written: policies that send pods here are said to have no live scheduler",
            namespace=namespace,
            lease=name,
            error=said[:300],
        )

    return Elector(
        client,
        namespace,
        name,
        own_identity(),
        duration=BEAT_DURATION,
        renew_deadline=BEAT_DEADLINE,
        retry=BEAT_RETRY,
        annotations=lease_annotations(config),
        otherwise=otherwise,
        on_problem=problem,
    )


async def beat(elector: Elector, first: float = FIRST_SECONDS) -> None:
    """Keep the Lease until cancelled, then give it back; where another process keeps it, wait for its end."""
    await asyncio.sleep(first)
    while True:
        try:
            await elector.run(_for_ever)
        except (LeaseLostError, ApiError, Unreachable) as error:
            log.info("the heartbeat stopped, it goes on in some seconds", reason=str(error)[:300])
            await asyncio.sleep(BEAT_RETRY)


async def _for_ever() -> None:
    await asyncio.Event().wait()


_lease = msgspec.json.Decoder(Lease)


class Rivals:
    """Looks for them now and then, and says which there are. `own` holds our Lease.

    `names`: our schedulerNames, which a reload changes. `taken`: how many pods that we wanted to bind were bound
    already.
    """

    def __init__(
        self,
        client: Client,
        own: Elector | None,
        names: Callable[[], Iterable[str]],
        taken: Callable[[], int] = lambda: 0,
        *,
        clock: Callable[[], float] = boottime,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self.found: dict[str, list[str]] = {}
        """Lease (namespace/name) → the schedulerNames that it has in common with us."""
        self.contested = 0
        """Pods that somebody else bound first between the last two looks, if it was so before, too; otherwise 0."""
        self._taken = taken
        self._taken_before = 0
        self._lost = 0
        self._client = client
        self._own = own
        self._names = names
        self._clock = clock
        self._wall = wall
        self._known: dict[str, LiveSchedulers] = {}
        self._refused = ""
        self._rate_limit = RateLimit()

    async def run(self) -> None:
        """Look until cancelled."""
        while True:
            await self.look()
            await asyncio.sleep(LOOK_SECONDS)

    async def look(self) -> None:
        """Look once; what is new is logged."""
        self._compare()
        ours = frozenset(self._names())
        try:
            there = await self._of_others(ours)
        except (ApiError, Unreachable, *MALFORMED) as error:
            if str(error) != self._refused:
                log.info("it is not known if another scheduler serves the same pods", error=str(error)[:300])
            self._refused = str(error)
            return
        self._refused = ""
        self._known = {key: self._known.get(key) or LiveSchedulers("") for key in there}
        before, now = self.found, self._clock()
        for key, lease in there.items():
            self._known[key].observe(lease, now, self._wall())
        shared = {key: sorted(known.at(now) & ours) for key, known in self._known.items()}
        self.found = {key: names for key, names in shared.items() if names}
        for key in self.found.keys() - before.keys():
            said = "another scheduler serves the same pods, and both bind them"
            self._rate_limit.write("rival", log.warning, said, lease=key, serves=self.found[key])

    async def _of_others(self, ours: Set[str]) -> dict[str, Lease]:
        """Return the Leases that say a name of ours and are not our own, by namespace/name."""
        found: dict[str, Lease] = {}
        read = 0
        async for raw in list_items(self._client, LEASES.path(), {"fieldSelector": _NOT_NODES}, tries=1):
            lease = _lease.decode(raw)
            if self._is_of_others(lease) and ours & (served(lease) or frozenset()):
                found[f"{lease.namespace}/{lease.name}"] = lease
            read += 1
            if read == MOST_READ or len(found) == MOST:
                break
        return found

    def _compare(self) -> None:
        taken = self._taken()
        before, self._lost = self._lost, taken - self._taken_before
        self._taken_before = taken
        was = self.contested
        self.contested = self._lost if min(before, self._lost) >= TAKEN else 0
        if self.contested and not was:
            said = "pods are bound by somebody else first: another scheduler may serve the same schedulerName"
            log.warning(said, pods=before + self._lost, seconds=2 * LOOK_SECONDS, serves=sorted(self._names()))

    def notes(self) -> dict[str, str]:
        """Return warnings for /readyz?verbose."""
        said = [f"the holder of the Lease {key} serves {', '.join(names)}, too" for key, names in self.found.items()]
        if self.contested:
            said.append(f"somebody else bound {self.contested} pods first in the last {LOOK_SECONDS:.0f} s")
        return {"rivals": "; ".join(said)} if said else {}

    def _is_of_others(self, lease: Lease) -> bool:
        return self._own is None or (lease.namespace, lease.name) != self._own.place
