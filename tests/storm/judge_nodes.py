"""What has happened to nodes, and when: a cache may not know it yet."""

from __future__ import annotations

from typing import TYPE_CHECKING

from podberth.apiserver.storage import Change

if TYPE_CHECKING:
    from tests.storm.world import World


class NodeNews:
    """Hears of nodes."""

    def __init__(self, world: World) -> None:
        self.changed: dict[str, float] = {}
        """Node → when something last happened to it."""
        self.gone: dict[str, float] = {}
        """Node → when it was deleted, while it is not there."""
        self.closed: dict[str, float] = {}
        """Node → when it was cordoned, while it is."""
        self._world = world
        server = world.server
        server.store.collection(server.registry.built_in("nodes").collection).listeners[self] = None

    def offer(self, change: Change) -> None:
        node = change.new.obj
        name = node["metadata"]["name"]
        self.changed[name] = self._world.now
        self._note(name, gone=change.type == "DELETED", closed=bool(node["spec"].get("unschedulable")))

    def restored(self) -> None:
        """The past is another one: nodes may be closed, open or gone, and no event has said so."""
        for name, *_ in self._world.plan.nodes:
            node = self._world.server.stored("nodes", name)
            self._note(name, gone=node is None, closed=node is not None and bool(node["spec"].get("unschedulable")))

    def _note(self, node: str, *, gone: bool, closed: bool) -> None:
        for since, holds in ((self.gone, gone), (self.closed, closed)):
            if holds:
                since.setdefault(node, self._world.now)
            else:
                since.pop(node, None)
