"""Other live schedulers that serve the same pods, found by their Leases.

Two that hold one Lease take turns. Two with a Lease each (a scheduler in a shell, and one of the chart in another
namespace) both decide about every pod: each binds what the other has not seen, and nodes are filled twice.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from urllib.parse import urlencode

import msgspec
import structlog

from scheduler.framework.config import SchedulerConfiguration
from scheduler.kube.client import Client
from scheduler.kube.errors import ApiError, Unreachable
from scheduler.kube.lease import Elector
from scheduler.kube.machine import boottime
from scheduler.kube.resources import LEASES
from scheduler.kube.schedulers import Lease, LiveSchedulers
from scheduler.kube.wire import MALFORMED

LOOK_SECONDS = 60.0
_NOT_NODES = urlencode({"fieldSelector": "metadata.namespace!=kube-node-lease"})
"""There is a Lease for each node; none of them is a scheduler's."""

log = structlog.get_logger("rivals")


class _Leases(msgspec.Struct):
    items: list[Lease]


_leases = msgspec.json.Decoder(_Leases)


class Rivals:
    """Looks for them now and then, and says which there are. `own` holds our Lease."""

    def __init__(
        self,
        client: Client,
        own: Elector | None,
        config: SchedulerConfiguration,
        *,
        clock: Callable[[], float] = boottime,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self.found: dict[str, list[str]] = {}
        """Lease (namespace/name) → the schedulerNames that it has in common with us."""
        self._client = client
        self._own = own
        self._names = frozenset(profile.scheduler_name or "" for profile in config.profiles)
        self._clock = clock
        self._wall = wall
        self._known: dict[str, LiveSchedulers] = {}
        self._refused = ""

    async def run(self) -> None:
        """Look until cancelled."""
        while True:
            await self.look()
            await asyncio.sleep(LOOK_SECONDS)

    async def look(self) -> None:
        """Look once; what is new is logged."""
        try:
            leases = _leases.decode(await self._client.get(LEASES.path(), query=_NOT_NODES, tries=1)).items
        except (ApiError, Unreachable, *MALFORMED) as error:
            if str(error) != self._refused:
                log.info("it is not known if another scheduler serves the same pods", error=str(error)[:300])
            self._refused = str(error)
            return
        self._refused = ""
        there = {f"{lease.namespace}/{lease.name}": lease for lease in leases if self._is_of_others(lease)}
        self._known = {key: self._known.get(key) or LiveSchedulers("") for key in there}
        before, now = self.found, self._clock()
        for key, lease in there.items():
            self._known[key].observe(lease, now, self._wall())
        shared = {key: sorted(known.at(now) & self._names) for key, known in self._known.items()}
        self.found = {key: names for key, names in shared.items() if names}
        for key in self.found.keys() - before.keys():
            log.warning("another scheduler serves the same pods, and both bind them", lease=key, serves=self.found[key])

    def notes(self) -> dict[str, str]:
        """Warnings for /readyz?verbose."""
        said = [f"the holder of the Lease {key} serves {', '.join(names)}, too" for key, names in self.found.items()]
        return {"rivals": "; ".join(said)} if said else {}

    def _is_of_others(self, lease: Lease) -> bool:
        return self._own is None or (lease.namespace, lease.name) != self._own.place
