"""Stops all evictions when too many nodes break promises at once: that is a mistake more often than a wish."""


class Breaker:
    """Counts nodes that began to break promises within `window` seconds and were not put right since.

    Open, it stays open until few enough of the nodes that opened it still break promises, however long that takes.
    """

    def __init__(self, share: float, window: float) -> None:
        self._share, self._window = share, window
        self._since: dict[str, float] = {}
        self.open = False

    @property
    def count(self) -> int:
        """Nodes that count at the moment."""
        return len(self._since)

    def limit(self, nodes: int) -> int:
        """How many of this many nodes may break promises at once; one always may."""
        return max(int(self._share * nodes), 1)

    def broke(self, node: str, now: float) -> None:
        """A node began to break promises (again)."""
        self._since[node] = now

    def mended(self, node: str) -> None:
        """A node keeps all promises again, or is gone."""
        self._since.pop(node, None)

    def look(self, nodes: int, now: float) -> bool:
        """Open or close; whether that changed anything."""
        if not self.open:
            for node in [node for node, since in self._since.items() if since + self._window <= now]:
                del self._since[node]
        was, self.open = self.open, len(self._since) > self.limit(nodes)
        return was != self.open
