"""Which node rows hold which container images, and how large these are there."""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from scheduler.state.column import Ints

OnNode = Sequence[tuple[Sequence[str], int]]
"""(names of one image, its size in bytes) of all images of a node."""


class Images:
    """Images by name."""

    def __init__(self) -> None:
        self._sizes: dict[str, dict[int, int]] = {}
        self._arrays: dict[str, tuple[NDArray[np.intp], Ints]] = {}
        """As `_sizes`, for images that were asked for."""

    def put(self, row: int, before: OnNode, after: OnNode) -> None:
        """A row has these images now."""
        if before == after:
            return
        for names, _ in before:
            for name in names:
                rows = self._sizes.get(name)
                if rows is not None and rows.pop(row, None) is not None:
                    self._arrays.pop(name, None)
                    if not rows:
                        del self._sizes[name]
        for names, size in after:
            for name in names:
                self._sizes.setdefault(name, {})[row] = size
                self._arrays.pop(name, None)

    def where(self, name: str) -> tuple[NDArray[np.intp], Ints] | None:
        """(rows that hold the image, its size there in bytes), None when no node has it."""
        found = self._arrays.get(name)
        if found is None:
            sizes = self._sizes.get(name)
            if sizes is None:
                return None
            found = self._arrays[name] = (
                np.fromiter(sizes.keys(), dtype=np.intp, count=len(sizes)),
                np.fromiter(sizes.values(), dtype=np.int64, count=len(sizes)),
            )
        return found

    def by_name(self) -> Mapping[str, Mapping[int, int]]:
        """Image → row → size."""
        return self._sizes

    def arrays(self) -> Mapping[str, tuple[NDArray[np.intp], Ints]]:
        """The answers of `where` that are kept."""
        return self._arrays
