"""The pods that a dry run of preemption takes away, of each row apart from the others.

Upstream has a copy of the state of PreFilter for each node, and takes pods out of it (PreFilterExtensions.RemovePod).
"""

from collections.abc import Callable, Sequence

import numpy as np

from podberth.cache.cluster import Placement
from podberth.cache.column import Bools, Ints
from podberth.framework.decision import Rows
from podberth.model.pod import Pod


class RemovedPods:
    """Rows that are tried, and the pods that are gone from each of them.

    Whatever is gone from one row is still there for the others, and the cluster counts all of it: a plugin subtracts
    it (`Plugin.filter_removed`).
    """

    def __init__(self, rows: Rows, placements: Sequence[Placement], owners: Rows) -> None:
        """`placements`: pods on these rows; `owners`: for each, where in `rows` its row is."""
        self.rows = rows
        self.gone: Bools = np.ones(len(placements), dtype=np.bool_)
        """For each of the placements, whether it is gone; it may be changed at any time."""
        self._owners = owners
        kinds: dict[tuple[int, int, bool], int] = {}
        self._examples: list[Pod] = []
        codes = []
        for placement in placements:
            pod = placement.pod
            code = kinds.setdefault((id(pod.shape), id(pod.labels), pod.terminating), len(kinds))
            if code == len(self._examples):
                self._examples.append(pod)
            codes.append(code)
        self._codes = np.array(codes, dtype=np.intp)
        self._counts: dict[int, tuple[object, Ints]] = {}
        """By the identity of what counts pods: that, and what it counts each placement for."""

    def count(self, of: object, each: Callable[[Pod], int]) -> Ints:
        """int64[rows that are tried]: sum up for each row what the pods that are gone count for.

        `each`: returns what a pod counts for, by its shape and labels. It is asked once for each `of`.
        """
        known = self._counts.get(id(of))
        if known is None:
            by_kind = np.array([each(pod) for pod in self._examples], dtype=np.int64)
            known = self._counts[id(of)] = of, by_kind[self._codes]
        amounts = np.where(self.gone, known[1], 0)
        return np.bincount(self._owners, weights=amounts, minlength=len(self.rows)).astype(np.int64)

    def on_nodes(self, mask: Bools, rows: int) -> Bools:
        """bool[rows]: spread out a mask over the rows that are tried; False elsewhere."""
        found = np.zeros(rows, dtype=np.bool_)
        found[self.rows] = mask
        return found
