"""Which node rows hold which container images, and how large these are there."""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from scheduler.state.column import Ints

OnNode = Sequence[tuple[Sequence[str], int]]
"""(names of one image, its size in bytes) of all images of a node."""


_MANY = 1000
"""A row with more images than these is kept by itself, so that its change costs no look at each image."""
_ROWS = 16
"""So many of these rows at most: each of them is asked for each image."""


class Images:
    """Images by name."""

    def __init__(self) -> None:
        self._sizes: dict[str, dict[int, int]] = {}
        self._of_row: dict[int, dict[str, int]] = {}
        """Row → image → size, of some rows with very many."""
        self._arrays: dict[str, tuple[NDArray[np.intp], Ints]] = {}
        """The answers of `where`, for images that were asked for."""

    def put(self, row: int, before: OnNode, after: OnNode) -> None:
        """A row has these images now."""
        if before == after:
            return
        of_row = self._of_row.pop(row, None)
        if of_row is not None:
            self._forget(of_row)
        else:
            for names, _ in before:
                for name in names:
                    rows = self._sizes.get(name)
                    if rows is not None and rows.pop(row, None) is not None:
                        self._arrays.pop(name, None)
                        if not rows:
                            del self._sizes[name]
        if len(after) > _MANY and len(self._of_row) < _ROWS:
            of_row = self._of_row[row] = {name: size for names, size in after for name in names}
            self._forget(of_row)
            return
        for names, size in after:
            for name in names:
                self._sizes.setdefault(name, {})[row] = size
                self._arrays.pop(name, None)

    def _forget(self, names: Mapping[str, int]) -> None:
        """Where these images are has changed."""
        for name in names.keys() & self._arrays.keys():
            del self._arrays[name]

    def where(self, name: str) -> tuple[NDArray[np.intp], Ints] | None:
        """(rows that hold the image, its size there in bytes), None when no node has it."""
        found = self._arrays.get(name)
        if found is None:
            sizes = self._rows_of(name)
            if not sizes:
                return None
            found = self._arrays[name] = (
                np.fromiter(sizes.keys(), dtype=np.intp, count=len(sizes)),
                np.fromiter(sizes.values(), dtype=np.int64, count=len(sizes)),
            )
        return found

    def by_name(self) -> Mapping[str, Mapping[int, int]]:
        """Image → row → size."""
        names = {*self._sizes, *(name for of_row in self._of_row.values() for name in of_row)}
        return {name: self._rows_of(name) for name in names}

    def _rows_of(self, name: str) -> Mapping[int, int]:
        sizes = self._sizes.get(name, {})
        more = {row: of_row[name] for row, of_row in self._of_row.items() if name in of_row}
        return {**sizes, **more} if more else sizes

    def arrays(self) -> Mapping[str, tuple[NDArray[np.intp], Ints]]:
        """The answers of `where` that are kept."""
        return self._arrays
