"""Claims that keep a device because nobody who led saw their pod go: the API does not tell who they were for.

A pod that is not bound is taken out of its claim, which keeps the device for the next attempt. Whoever leads when the
pod goes frees it. If nobody leads then, or the leader dies before it has done so, the next one finds a claim that has a
device and no user, and such a claim may be anybody's. kube-scheduler never frees it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from podberth.apiserver.storage import Change
from tests.storm.actors import node_of

if TYPE_CHECKING:
    from tests.storm.world import World

SOON_SECONDS = 30.0
"""Whoever led when a pod went has freed its claims by then."""

Key = tuple[str, str]
"""Namespace and name of a claim."""


class LeftAlone:
    """Remembers such claims until somebody uses them again."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._went: dict[Key, tuple[float, frozenset[str]]] = {}
        """Claim → when a pod that named it went unbound, and who led then."""
        self._alone: set[Key] = set()
        server = world.server
        server.store.collection(server.registry.built_in("pods").collection).listeners[self] = None

    def offer(self, change: Change) -> None:
        """A pod has changed."""
        pod = change.new.obj
        if change.type == "DELETED" and not node_of(pod):
            for one in pod["spec"].get("resourceClaims", ()):
                key = pod["metadata"]["namespace"], one["resourceClaimName"]
                self._went[key] = self._world.now, self.leaders()

    def look(self) -> None:
        """Now and then: who led when a pod went, and leads no more."""
        now, leaders = self._world.now, self.leaders()
        for key, (when, led) in list(self._went.items()):
            if not led & leaders:
                self._alone.add(key)
            if not led & leaders or now - when > SOON_SECONDS:
                del self._went[key]

    def used(self, key: Key) -> None:
        """Somebody uses a claim: what becomes of it is known again."""
        self._alone.discard(key)

    def __contains__(self, key: Key) -> bool:
        return key in self._alone

    def leaders(self) -> frozenset[str]:
        """Who leads now."""
        return frozenset(
            berth.user
            for berth in self._world.berths
            if berth.alive and not berth.loop.still and berth.scheduler is not None and berth.scheduler.leading
        )
