"""The placements of a group that prefers to be in one domain: at the level that it names, and at each broader one.

After Kueue's topology-aware scheduling: a domain is named by its values at its level and at all broader ones, and a
group that fits into no domain of a level is tried at the next broader level, in as few domains as possible.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from podberth.cache.column import Column, Ints
from podberth.cache.nodes import Nodes
from podberth.framework.decision import Rows
from podberth.framework.interface import Placement

Path = tuple[str, ...]
ANYWHERE = "/*"
"""Ends the names of the last placements: the broadest ones once more, without their domains. Where a placement has
domains, pods fill one domain after the other, and pods of many kinds may fit only if nodes are taken as they come. So
what is preferred keeps no group from starting.
"""


def by_level(
    levels: Sequence[str], required: str | None, preferred: str, running: Sequence[int], nodes: Nodes
) -> list[Placement]:
    """Return the placements, those of the narrowest level first, each level ordered by name, and `ANYWHERE`.

    `required`: no placement is broader than a domain of this level; None: the last one is the whole cluster.
    `running`: rows of the group's pods that run: each placement has all of them.
    """
    narrowest, broadest = levels.index(preferred), 0 if required is None else levels.index(required)
    tree = _Tree(levels[: narrowest + 1], nodes)
    paths = tree.paths_of(running)
    leaves = [Placement(_name(path), rows, 0, path) for path, rows, _ in tree.domains(narrowest + 1)]
    found: list[Placement] = []
    for depth in range(narrowest, broadest - 1, -1):
        wanted = {None if path is None else path[: depth + 1] for path in paths}
        if len(wanted) > 1 or None in wanted:
            continue  # the group runs in several domains of this level, or in none
        if depth == narrowest:
            found += [one for one in leaves if not wanted or one.path in wanted]
            continue
        for path, rows, inside in tree.domains(depth + 1):
            if not wanted or path in wanted:
                found.append(Placement(_name(path), rows, narrowest - depth, path, tuple(leaves[inside])))
    if required is None:
        alive = np.flatnonzero(nodes.alive[: nodes.rows])
        found.append(Placement("", alive, narrowest + 1, (), tuple(leaves)))
    broadest_level = max((one.level for one in found), default=0)
    anywhere = [one for one in found if one.level == broadest_level and one.domains]
    return found + [Placement(f"{one.name}{ANYWHERE}", one.rows, one.level + 1, one.path) for one in anywhere]


def _name(path: Path) -> str:
    """Return the name of a domain. A value may be empty, and the empty name is that of the whole cluster."""
    return "/".join(path) or '""'


class _Tree:
    """The nodes that have all of some labels, ordered by the values of the first, then of the second, and so on."""

    def __init__(self, keys: Sequence[str], nodes: Nodes) -> None:
        columns = [column for key in keys if (column := nodes.topology(key)) is not None]
        rows: Rows = np.flatnonzero(nodes.alive[: nodes.rows])
        for column in columns:
            rows = rows[column.codes[rows] >= 0]
        if len(columns) < len(keys):
            rows = rows[:0]
        self._values = [column.values for column in columns]
        places = [_by_value(column, rows) for column in columns]
        order = np.lexsort(places[::-1]) if places else rows
        self._rows = rows[order]
        self._codes = [column.codes[self._rows] for column in columns]
        self._narrowest = self._starts(len(columns))

    def paths_of(self, rows: Sequence[int]) -> set[Path | None]:
        """Return the paths of some nodes; None is among them if one of the nodes lacks a label."""
        wanted = set(rows)
        here = [i for i, row in enumerate(self._rows.tolist()) if row in wanted] if wanted else []
        at = np.array(here, dtype=np.intp)
        found: set[Path | None] = set(self._paths(at, len(self._codes)))
        return found if len(at) == len(wanted) else {*found, None}

    def domains(self, length: int) -> Iterator[tuple[Path, Rows, slice]]:
        """Yield (path, rows, which of the narrowest domains are in it) of each domain whose path has this length."""
        starts = self._starts(length)
        if not len(starts):
            return  # no node has all of the labels
        inside = np.searchsorted(self._narrowest, starts).tolist()
        begins = starts.tolist()
        ends = [*begins[1:], len(self._rows)]
        after = [*inside[1:], len(self._narrowest)]
        paths = self._paths(starts, length)
        for path, start, end, first, last in zip(paths, begins, ends, inside, after, strict=True):
            rows = self._rows[start:end]
            yield path, rows if length == len(self._codes) else np.sort(rows), slice(first, last)

    def _paths(self, at: Rows, length: int) -> list[Path]:
        """Return the first values of the paths of some nodes, column by column: each domain may have one node."""
        pairs = zip(self._values[:length], self._codes[:length], strict=True)
        return list(zip(*[[str(values[code]) for code in codes[at].tolist()] for values, codes in pairs], strict=True))

    def _starts(self, length: int) -> Rows:
        """Return the indexes at which a domain with this many levels begins."""
        if not len(self._rows):
            return self._rows
        differ = np.zeros(len(self._rows), dtype=np.bool_)
        differ[0] = True
        for codes in self._codes[:length]:
            differ[1:] |= codes[1:] != codes[:-1]
        return np.flatnonzero(differ)


def _by_value(column: Column[str], rows: Rows) -> Ints:
    """Return for each row the place of its value among all values in order."""
    codes = column.codes[rows]
    there = np.flatnonzero(np.bincount(codes, minlength=len(column.values))).tolist()
    places = np.zeros(len(column.values), dtype=np.int64)
    places[sorted(there, key=lambda code: str(column.values[code]))] = np.arange(len(there))
    found: Ints = places[codes]
    return found
