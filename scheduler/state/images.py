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
        self.version = 0
        """Counts changes of what any row has."""
        self.by_name: dict[str, dict[int, int]] = {}
        """Image → row → size."""
        self.arrays: dict[str, tuple[NDArray[np.intp], Ints]] = {}
        """The answers of `where` that are kept."""

    def put(self, row: int, before: OnNode, after: OnNode) -> None:
        """A row has these images now."""
        if before == after:
            return
        self.version += 1
        for name in _sizes(before):
            rows = self.by_name[name]
            del rows[row]
            self.arrays.pop(name, None)
            if not rows:
                del self.by_name[name]
        for name, size in _sizes(after).items():
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


def _sizes(images: OnNode) -> Mapping[str, int]:
    return {name: size for names, size in images for name in names}
