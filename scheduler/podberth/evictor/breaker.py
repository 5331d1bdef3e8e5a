"""Stops all evictions when too many nodes break promises at once: that is a mistake more often than a wish."""

SAID_AGAIN_SECONDS = 10.0


class Breaker:
    """Counts nodes that began to break promises within `window` seconds and were not put right since.

    Open, it stays open until few enough of the nodes that opened it still break promises, however long that takes.
    """

    def __init__(self, share: float, window: float) -> None:
        self._share, self._window = share, window
        self._since: dict[str, float] = {}
        self._said = (0, 0)
        self._said_at = 0.0
        self.open = False

    def limit(self, nodes: int) -> int:
        """Return how many of this many nodes may break promises at once; one always may."""
        return max(int(self._share * nodes), 1)

    def broke(self, node: str, now: float) -> None:
        """A node began to break promises (again)."""
        self._since[node] = now

    def mended(self, node: str) -> None:
        """A node keeps all promises again, or is gone."""
        self._since.pop(node, None)

    def look(self, nodes: int, now: float) -> str:
        """Open or close; what there is to say of it, empty for nothing new.

        While it is open the count is said again when it is another one, but not more often than every ten seconds.
        """
        if not self.open:
            for node in [node for node, since in self._since.items() if since + self._window <= now]:
                del self._since[node]
        was, self.open = self.open, len(self._since) > self.limit(nodes)
        if not (was or self.open):
            return ""
        if was == self.open and (self._said == self._figures(nodes) or now < self._said_at + SAID_AGAIN_SECONDS):
            return ""
        self._said, self._said_at = self._figures(nodes), now
        count, limit = self._said
        what = f"{count} of {nodes} nodes break promises at once, {limit} may"
        if self.open:
            return f"{what}: nothing is evicted until their labels are put back, or --max-changed is raised"
        return f"{what}: evictions go on when the grace is over once more"

    def next_word(self, nodes: int) -> float | None:
        """Return when `look` has another count to tell of (engine time); None: it has none."""
        return self._said_at + SAID_AGAIN_SECONDS if self.open and self._said != self._figures(nodes) else None

    def _figures(self, nodes: int) -> tuple[int, int]:
        return len(self._since), self.limit(nodes)
