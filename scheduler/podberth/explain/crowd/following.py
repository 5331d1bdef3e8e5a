"""What a plugin would answer while equal pods are placed one after the other, without asking it about each of them.

A plugin that looks at more than one node (affinity, spread) says what each placed pod changes for the others. It is
asked about kinds of rows instead of rows: rows of one kind agree in all `columns`, and where that matters, they have
taken equally many of the pods. So the plugin's answer is the same for all of them.

Next stage: `podberth.explain.crowd.ahead` puts the answers of all plugins together.
"""

from abc import ABC, abstractmethod
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from podberth.cache.column import Bools, Codes, Ints


class Kinds(NamedTuple):
    """Kinds of rows that may take another pod. `rows`: one row of each; `sizes`: how many rows it has."""

    rows: NDArray[np.intp]
    sizes: Ints

    def of(self, which: Bools) -> "Kinds":
        """The kinds for which `which` (bool[kinds]) is true."""
        return Kinds(self.rows[which], self.sizes[which])


class Following(ABC):
    """What one plugin answers about one pod and its equals, as they are placed."""

    columns: list[Ints]
    """int64[rows] each: rows that agree in all of them are of one kind."""
    by_pods = False
    """Whether the answer for a row depends on how many of the equals it has itself."""
    moves = False
    """Whether scores change with each pod that is placed."""

    def settled(self) -> Bools | None:
        """bool[rows]: which rows it rejects for good. None: this changes as pods are placed, or it scores."""
        return None

    @abstractmethod
    def rejected(self, kinds: Kinds) -> Bools | None:
        """bool[kinds]: which it rejects now; None: it rejects none."""

    @abstractmethod
    def raw(self, kinds: Kinds) -> Ints | None:
        """int64[kinds]: the scores before they are normalised, of the kinds that take a pod; None: it takes no part."""

    @abstractmethod
    def placed(self, row: int) -> None:
        """One of the equals was placed."""


def columns_of(codes: Codes, labelled: Bools) -> tuple[list[Ints], bool]:
    """The columns by which rows differ in one label, and whether each node with the label has a value of its own.

    Values that are each node's own make no kinds: how many of the pods the row has says as much.
    """
    here = codes[labelled]
    if len(set(here.tolist())) == len(here):
        return [(codes >= 0).astype(np.int64)], True
    return [codes.astype(np.int64)], False
