"""What came of a run: figures by name, and tables with units.

The tables are Arrow's (`pyarrow`, of the extra `podberth[lab]`), made when they are asked for. Figures need no extra.
"""

from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow

Column = list[Any]

COLUMNS: dict[str, dict[str, tuple[str, str]]] = {
    "decisions": {
        "pod": ("string", ""),
        "namespace": ("string", ""),
        "priority": ("int32", ""),
        "gang": ("string", ""),
        "node": ("string", ""),
        "arrived": ("float64", "s"),
        "bound": ("float64", "s"),
        "ended": ("float64", "s"),
        "waited": ("float64", "s"),
        "attempts": ("int32", "attempts"),
        "feasible": ("int32", "nodes"),
    },
    "utilisation": {
        "at": ("float64", "s"),
        "resource": ("string", ""),
        "unit": ("string", ""),
        "used": ("int64", "as the column unit says"),
        "allocatable": ("int64", "as the column unit says"),
        "nodes_in_use": ("int32", "nodes"),
        "waiting": ("int32", "pods"),
    },
    "fragmentation": {
        "at": ("float64", "s"),
        "resource": ("string", ""),
        "unit": ("string", ""),
        "free": ("int64", "as the column unit says"),
        "stranded": ("float64", "as the column unit says"),
    },
    "preemptions": {
        "at": ("float64", "s"),
        "victim": ("string", ""),
        "victim_priority": ("int32", ""),
        "node": ("string", ""),
        "for_pod": ("string", ""),
        "priority": ("int32", ""),
    },
    "moves": {
        "at": ("float64", "s"),
        "pod": ("string", ""),
        "from_node": ("string", ""),
        "to_node": ("string", ""),
        "bound": ("float64", "s"),
    },
}
"""Table → column → (Arrow's type, unit). A column with an empty unit is a name, or a number without one."""


class Result(Struct, frozen=True, dict=True):
    """What came of one run. Two runs of one world, configuration and seed have equal results."""

    world: str
    profile: str
    seed: int
    ended: float
    """Seconds until the last thing happened."""
    columns: dict[str, dict[str, Column]]
    """Table → column → values: what the tables are made of. `COLUMNS` has the types."""
    notes: tuple[str, ...] = ()
    """What the run could not do as a cluster would, a sentence each."""

    @cached_property
    def summary(self) -> dict[str, float]:
        """Return the figures of the whole run."""
        return self.figures()

    def figures(self, since: float = 0.0) -> dict[str, float]:
        """Return figures by name; docs/lab.md says what each is.

        Pods, preemptions and moves before `since` (s) do not count, nor do looks but for the last one: of `inf`, all
        is as it was in the end.
        """
        pods = self.columns["decisions"]
        arrived, bound, ended = (np.array(pods[name], dtype=np.float64) for name in ("arrived", "bound", "ended"))
        got = np.isfinite(bound)
        waited = np.where(got, bound, np.where(np.isfinite(ended), ended, self.ended)) - arrived
        priority, counted = np.array(pods["priority"], dtype=np.int64), arrived >= since
        found = {
            "pods": float(np.count_nonzero(counted)),
            "bound": float(np.count_nonzero(got & counted)),
            "preemptions": float(sum(at >= since for at in self.columns["preemptions"]["at"])),
            "moves": float(sum(at >= since for at in self.columns["moves"]["at"])),
            "end_s": self.ended,
            **_waiting("", waited[counted], got[counted]),
        }
        for each in np.unique(priority[counted]).tolist():
            chosen = counted & (priority == each)
            found |= _waiting(f"[{each}]", waited[chosen], got[chosen])
        return found | dict(self._looks(since))

    def _looks(self, since: float) -> Iterator[tuple[str, float]]:
        """Yield means over the looks, which are at equal distances."""
        used, free = self.columns["utilisation"], self.columns["fragmentation"]
        at, resources = np.array(used["at"], dtype=np.float64), np.array(used["resource"])
        seen = at >= min(since, at[-1])
        there = np.maximum(np.array(used["allocatable"], dtype=np.float64), 1)
        first = seen & (resources == resources[0])
        yield "nodes_in_use", float(np.array(used["nodes_in_use"])[first].mean())
        yield "waiting_pods", float(np.array(used["waiting"])[first].mean())
        for name in dict.fromkeys(used["resource"]):
            chosen = seen & (resources == name)
            yield f"used[{name}]", float((np.array(used["used"])[chosen] / there[chosen]).mean())
            yield f"stranded[{name}]", float((np.array(free["stranded"])[chosen] / there[chosen]).mean())

    @property
    def decisions(self) -> "pyarrow.Table":
        """A row for each pod that came, in the order of their arrival; `bound` is null of one that got no node."""
        return self.table("decisions")

    @property
    def utilisation(self) -> "pyarrow.Table":
        """A row for each look at the world and each resource: what is used of what there is."""
        return self.table("utilisation")

    @property
    def fragmentation(self) -> "pyarrow.Table":
        """A row for each look and each resource: what is free, and the part that no pod of the world's mix can use."""
        return self.table("fragmentation")

    @property
    def preemptions(self) -> "pyarrow.Table":
        """A row for each pod that had to go for another one."""
        return self.table("preemptions")

    @property
    def moves(self) -> "pyarrow.Table":
        """A row for each pod that was evicted and came again, and where it landed."""
        return self.table("moves")

    def table(self, name: str) -> "pyarrow.Table":
        """Return a table by its name, with the world, profile and seed in its metadata, and units in those of columns.

        Raises ImportError without the extra `podberth[lab]`, KeyError for a table that there is not.
        """
        import pyarrow

        fields = [
            pyarrow.field(column, getattr(pyarrow, kind)(), metadata={"unit": unit} if unit else None)
            for column, (kind, unit) in COLUMNS[name].items()
        ]
        about = {"world": self.world, "profile": self.profile, "seed": str(self.seed)}
        return pyarrow.table(self.columns[name], schema=pyarrow.schema(fields, metadata=about))

    def to_pandas(self, table: str = "decisions") -> "pandas.DataFrame":
        """Return a table as pandas has it."""
        return self.table(table).to_pandas()

    def to_polars(self, table: str = "decisions") -> "polars.DataFrame":
        """Return a table as polars has it."""
        import polars

        found = polars.from_arrow(self.table(table))
        assert isinstance(found, polars.DataFrame)
        return found


def _waiting(about: str, waited: NDArray[np.float64], bound: NDArray[np.bool_]) -> dict[str, float]:
    """Return how long some pods waited: one that got no node until it went, or all was over."""
    if not len(waited):
        return {}
    p50, p99 = np.percentile(waited, (50, 99), method="inverted_cdf").tolist()
    return {
        f"bound_share{about}": float(bound.mean()),
        f"waiting_p50_s{about}": p50,
        f"waiting_p99_s{about}": p99,
        f"waiting_mean_s{about}": float(waited.mean()),
    }
