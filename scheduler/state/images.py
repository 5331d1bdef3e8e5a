"""Which node rows hold which container images, and how large these are there."""

from collections.abc import Mapping, Sequence, Set

import numpy as np
from numpy.typing import NDArray

from scheduler.state.column import Ints
from scheduler.state.effort import Effort

OnNode = Sequence[tuple[Sequence[str], int]]
"""(names of one image, its size in bytes) of all images of a node."""


_MANY = 1000
"""A row with more names of images than these is kept by itself, so that its change costs no look at each of them."""
_ROWS_PER_STEP = 12
"""Each of these rows is asked for an image that somebody asks for: so many rows take about a microsecond."""
_MOST_ABSENT = 1 << 15
"""Images that no row has are remembered up to this number: more than the largest legal pod can name."""


class Images:
    """Images by name. Rows with very many images cost nobody but those who ask about images (`effort`)."""

    def __init__(self, effort: Effort | None = None) -> None:
        self._effort = Effort() if effort is None else effort
        self.version = 0
        """Counts changes of what any row has."""
        self._sizes: dict[str, dict[int, int]] = {}
        self._of_row: dict[int, dict[str, int]] = {}
        """Row → image → size, of rows with very many."""
        self._arrays: dict[str, tuple[NDArray[np.intp], Ints]] = {}
        """The answers of `where`, for images that were asked for."""
        self._absent: set[str] = set()
        """Images that were asked for and that no row has, while there are rows that have to be asked one by one."""

    def put(self, row: int, before: OnNode, after: OnNode) -> None:
        """A row has these images now."""
        if before == after:
            return
        self.version += 1
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
        of_row = {name: size for names, size in after for name in names}
        if len(of_row) > _MANY:
            self._of_row[row] = of_row
            self._forget(of_row)
            return
        for name, size in of_row.items():
            self._sizes.setdefault(name, {})[row] = size
            self._arrays.pop(name, None)
            self._absent.discard(name)

    def _forget(self, names: Mapping[str, int]) -> None:
        """Where these images are has changed."""
        for name in names.keys() & self._arrays.keys():
            del self._arrays[name]
        self._absent -= names.keys()

    def where(self, name: str) -> tuple[NDArray[np.intp], Ints] | None:
        """(rows that hold the image, its size there in bytes), None when no node has it.

        Raises SliceOver once the answer is kept.
        """
        found = self._arrays.get(name)
        if found is None and name not in self._absent:
            sizes = self._rows_of(name)
            if sizes:
                found = self._arrays[name] = (
                    np.fromiter(sizes.keys(), dtype=np.intp, count=len(sizes)),
                    np.fromiter(sizes.values(), dtype=np.int64, count=len(sizes)),
                )
            if self._of_row:
                if not sizes:
                    self._note_absent(name)
                self._effort.charge(1 + len(self._of_row) // _ROWS_PER_STEP)
        return found

    def _note_absent(self, name: str) -> None:
        if len(self._absent) >= _MOST_ABSENT:
            self._absent.clear()
        self._absent.add(name)

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

    def absent(self) -> Set[str]:
        """The images that are remembered as being on no row."""
        return self._absent
