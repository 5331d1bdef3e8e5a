"""One row of the table of `make hostile`: a legal object at its largest, what it cost whom, and what it may cost.

Whoever measures yields rows: `PARTS` in `bench.hostile.__main__` names the functions, `rows(chosen, say)`; `say`
is told what goes on.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

Say = Callable[[str], None]
"""Told what goes on."""
UNITS = {"ms": "ms", "mb": "MB", "times": "×", "count": ""}
"""The last word of a measure's name → the unit that its figures are shown with."""


class Chosen(msgspec.Struct, frozen=True):
    """What the caller asked for."""

    nodes: tuple[int, ...] = (1_000, 5_000)
    """Sizes of the cluster, the one that bounds are for last."""
    names: tuple[str, ...] = ()
    """Rows whose name contains one of these; all of them without any."""

    def wants(self, name: str) -> bool:
        """Whether a row of this name is asked for."""
        return not self.names or any(part in name for part in self.names)


class Row(msgspec.Struct, rename="camel", frozen=True):
    """One object, or a crowd of them, and what came of it.

    `costs` and `bounds` are by measure: a short name whose last word is the unit (`turn_ms`, `memory_mb`,
    `growth_times`, `unbound_count`). A row is held when no cost is above its bound and every bound has its cost.
    """

    part: str
    """The table that it belongs to: "scheduler", "admission", "operator", "ports" …"""
    kind: str
    """What the tenant writes: "Pod", "Service", "MetadataPolicy" …"""
    name: str
    """Short and unique within the part: `pod-anti-notin-700`."""
    shape: str
    """In plain words, what the object is made of."""
    bytes: int
    """Of JSON, for one object."""
    objects: int
    """How many of them the tenant writes."""
    costs: dict[str, float]
    bounds: dict[str, float]
    note: str = ""
    """What a reader has to know to judge the row: what was cut short, where most of it went."""

    @property
    def broken(self) -> list[str]:
        """The measures that are above their bound, or that a bound waits for and nobody took."""
        return [name for name, most in self.bounds.items() if not self.costs.get(name, float("inf")) <= most]

    @property
    def held(self) -> bool:
        """Whether every bound is kept."""
        return not self.broken
