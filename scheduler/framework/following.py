"""What a plugin says of nodes while equals of one pod are placed one after the other, without being asked for each pod.

`scheduler.framework.ahead` puts these answers together. Rows of one kind get the same answers: they agree in all
`columns`, and have taken as many of the pods where that matters.
"""

from abc import ABC, abstractmethod
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from scheduler.model.pod import Pod
from scheduler.state.cluster import Cluster
from scheduler.state.column import Bools, Codes, Ints


class Kinds(NamedTuple):
    """Kinds of rows that may take another pod. `rows`: one row of each; `sizes`: how many rows it has."""

    rows: NDArray[np.intp]
    sizes: Ints

    def of(self, which: Bools) -> "Kinds":
        """Some of them."""
        return Kinds(self.rows[which], self.sizes[which])


class Following(ABC):
    """One plugin's part for one pod's equals."""

    columns: list[Ints]
    """int64[rows] each: rows that agree in all of them are of one kind."""
    by_pods = False
    """Whether the answer for a row depends on how many of the equals it has itself."""
    moves = False
    """Whether scores change with each pod that is placed."""

    def settled(self) -> Bools | None:
        """bool[rows]: which take no pod, if pods that are placed change nothing and it gives no scores; else None."""
        return None

    @abstractmethod
    def rejected(self, kinds: Kinds) -> Bools | None:
        """bool[kinds]: which take no pod now; None: none of them."""

    @abstractmethod
    def raw(self, kinds: Kinds) -> Ints | None:
        """int64[kinds]: the scores before they are normalised, of the kinds that take a pod; None: it takes no part."""

    @abstractmethod
    def placed(self, row: int) -> None:
        """One of the equals was placed."""


class Followed(ABC):
    """A plugin of which this can be known."""

    @abstractmethod
    def following(self, pod: Pod, cluster: Cluster) -> Following | None:
        """What it says of nodes while equals of the pod are placed; None: each pod has to be decided.

        Raises SliceOver.
        """


def columns_of(codes: Codes, labelled: Bools) -> tuple[list[Ints], bool]:
    """The columns by which rows differ in one label, and whether each node with the label has a value of its own.

    Values that are each node's own make no kinds: how many of the pods the row has says as much.
    """
    here = codes[labelled]
    if len(set(here.tolist())) == len(here):
        return [(codes >= 0).astype(np.int64)], True
    return [codes.astype(np.int64)], False
