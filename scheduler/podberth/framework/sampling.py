"""How many feasible nodes are scored, and which, when a configuration asks for fewer than all.

Mirrors kube-scheduler `schedule_one.go` (numFeasibleNodesToFind, findNodesThatPassFilters). Filters look at all nodes
at once, so a sample saves scoring only. It exists for configurations that ask for it (decision 4).
"""

import numpy as np
from msgspec import Struct

from podberth.cache.column import Bools
from podberth.framework.decision import Rows

ALL_NODES = 0
"""No percentage, or 0: kube-scheduler then derives one from the size of the cluster; here all nodes are scored."""
AT_LEAST = 100
"""Never fewer feasible nodes than that, if there are so many (minFeasibleNodesToFind)."""


class Rotation(Struct):
    """The row at which the next search begins, so that all nodes get their turn."""

    start: int = 0


def nodes_to_find(percentage: int, nodes: int) -> int:
    """Return how many feasible nodes end a search among this many."""
    if percentage == ALL_NODES or nodes < AT_LEAST:
        return nodes
    return max(nodes * percentage // 100, AT_LEAST)


def sample(feasible: Rows, candidates: Bools, wanted: int, nodes: int, rotation: Rotation) -> Rows:
    """The first `wanted` feasible rows that a search among `candidates` (bool[rows]) finds, in row order.

    Moves the rotation on by as many nodes as the search looked at, of the `nodes` that exist.
    """
    rows = np.flatnonzero(candidates)
    places = np.searchsorted(rows, feasible)
    order = (places - rotation.start % len(rows)) % len(rows)
    if len(feasible) <= wanted:
        looked_at, chosen = len(rows), feasible
    else:
        nearest = np.argsort(order)[:wanted]
        looked_at, chosen = int(order[nearest[-1]]) + 1, np.sort(feasible[nearest])
    rotation.start = (rotation.start + looked_at) % nodes
    return chosen
