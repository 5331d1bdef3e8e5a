"""Asks for claims that were written for a pod and that the watch never shows.

A claim that Berth makes for extended resources may be deleted again at once. If the watch loses both events, nothing
tells that its devices are free: no list has the claim, and none ever had. All else that a watch loses is found by
comparison (`podberth.kube.cross_check`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import islice

import structlog

from podberth.cache.devices import Devices
from podberth.engine.stimuli import Gone, Stimulus
from podberth.kube.client import Client
from podberth.kube.errors import ApiError, Unreachable
from podberth.kube.resources import BY_KIND
from podberth.model.devices import CLAIM, ClaimKey

EVERY_SECONDS = 20.0
AT_ONCE = 16
"""Claims that are asked for at a time; the others have their turn the next time."""

log = structlog.get_logger("objects")


class UnshownClaims:
    """The claims of one scheduler that the API does not show yet. `devices` gives its columns as they are now."""

    def __init__(self, client: Client, devices: Callable[[], Devices], receive: Callable[[Stimulus], None]) -> None:
        self._client = client
        self._devices = devices
        self._receive = receive
        self._before: dict[ClaimKey, str] = {}

    async def run(self) -> None:
        """Look now and then, until cancelled."""
        while True:
            await asyncio.sleep(EVERY_SECONDS)
            await self.look()

    async def look(self) -> None:
        """Ask for claims that were not shown the last time either."""
        unshown = self._devices().unshown()
        late = [key for key, version in unshown.items() if self._before.get(key) == version]
        self._before = unshown
        for key in islice(late, AT_ONCE):
            if await self._is_gone(key):
                log.warning("a claim is gone, and its watch has not said so", claim="/".join(key))
                self._receive(Gone(CLAIM, *key, ""))

    async def _is_gone(self, key: ClaimKey) -> bool:
        try:
            await self._client.get(BY_KIND[CLAIM].path(*key))
        except ApiError as error:
            return error.status == 404
        except Unreachable:
            pass  # asked again the next time
        return False
