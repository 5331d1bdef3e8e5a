"""Which node rows hold which container images, and how large these are there."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from podberth.cache.column import Ints


class Images:
    """Images by name."""

    def __init__(self) -> None:
        self.version = 0
        """Counts changes of what any row has."""
        self.by_name: dict[str, dict[int, int]] = {}
        """Image → row → size."""
        self.arrays: dict[str, tuple[NDArray[np.intp], Ints]] = {}
        """The answers of `where` that are kept."""

    def put(self, row: int, before: Mapping[str, int], after: Mapping[str, int]) -> None:
        """A row has these images now (name → size in bytes)."""
        if before == after:
            return
        self.version += 1
        for name in before:
            rows = self.by_name[name]
            del rows[row]
            self.arrays.pop(name, None)
            if not rows:
                del self.by_name[name]
        for name, size in after.items():
            self.by_name.setdefault(name, {})[row] = size
            self.arrays.pop(name, None)

    def where(self, name: str) -> tuple[NDArray[np.intp], Ints] | None:
        """(rows that hold the image, its size there in bytes), None when no node has it."""
        found = self.arrays.get(name)
        if found is None and name in self.by_name:
            sizes = self.by_name[name]
            found = self.arrays[name] = (
                np.fromiter(sizes.keys(), dtype=np.intp, count=len(sizes)),
                np.fromiter(sizes.values(), dtype=np.int64, count=len(sizes)),
            )
        return found
