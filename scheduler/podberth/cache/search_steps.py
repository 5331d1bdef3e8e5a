"""Counts the steps of the searches that no limit of a single object bounds: for devices, for volumes, for victims, and
for plans of gangs.

A step is about a microsecond of one core. Everything else that an attempt does is bounded by what its pod may ask for
(`podberth/model/limits.py`), and counts nothing.
"""


class SearchCapError(Exception):
    """A search has used up its cap."""

    def __init__(self, what: str, cap: int) -> None:
        super().__init__(f"gave up looking for {what} after {cap:,} steps (about {cap / 1e6:g} s of one core)")


class SearchSteps:
    """Counts what all searches of one attempt have taken, so that the namespace of the pod can be charged for it."""

    __slots__ = ("taken",)

    def __init__(self) -> None:
        self.taken = 0
        """Steps since the engine set this to 0, at the beginning of an attempt."""

    def capped(self, what: str, cap: int) -> "CappedSearch":
        """Begin a search for `what` ("devices"), which may take so many steps."""
        return CappedSearch(self, what, cap)


class CappedSearch:
    """One search, which ends at its cap."""

    __slots__ = ("_all", "_cap", "_what", "taken")

    def __init__(self, every: SearchSteps, what: str, cap: int) -> None:
        self._all = every
        self._what = what
        self._cap = cap
        self.taken = 0
        """Steps that this search has taken."""

    def take(self, steps: int) -> None:
        """Count steps that were taken. Raises SearchCapError when there were more than the cap allows."""
        self.taken += steps
        self._all.taken += steps
        if self.taken > self._cap:
            raise SearchCapError(self._what, self._cap)
