"""What the figures are held to: `goals.yaml`, read and compared."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec
import yaml

from bench.run import Row
from scheduler.workloads.workload import Mode

FILE = Path(__file__).with_name("goals.yaml")


class Goal(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """One bound."""

    at_least: float | None = None
    at_most: float | None = None

    def met(self, value: float) -> bool:
        """Whether a figure is within it."""
        return (self.at_least is None or value >= self.at_least) and (self.at_most is None or value <= self.at_most)

    def __str__(self) -> str:
        return f"≥ {self.at_least:g}" if self.at_least is not None else f"≤ {self.at_most:.3g}"


class Goals(msgspec.Struct, forbid_unknown_fields=True):
    """Measure → goal, for all workloads and for single ones."""

    common: dict[str, Goal]
    workloads: dict[str, dict[str, Goal]]
    ceiling: dict[str, dict[str, Goal]] = {}
    """For workloads on a server that does almost nothing."""

    def of(self, workload: str, mode: Mode) -> dict[str, Goal]:
        """The goals of one workload. The first binding counts from a start, which a stream does not measure."""
        found = {**self.common, **self.workloads.get(workload, {})}
        if mode is Mode.STREAM:
            found.pop("first_to_kube", None)
        return found

    def of_ceiling(self) -> Goals:
        """The goals that hold where the server does almost nothing. No others do there."""
        return Goals({}, self.ceiling)


def goals() -> Goals:
    """The file."""
    return msgspec.convert(yaml.safe_load(FILE.read_text()), Goals)


class Line(msgspec.Struct):
    """One workload in one mode: everybody's rows, by contender."""

    workload: str
    mode: Mode
    rows: dict[str, Row]

    def measures(self) -> dict[str, float]:
        """Berth's figures in the terms of the goals; what was not measured is left out."""
        berth, found = self.rows.get("berth"), {}
        if berth is None:
            return {}
        for name, other, mine, theirs in (
            ("rate_to_kube", "kube", _rate, _rate),
            ("rate_to_binder", "binder", _rate, _rate),
            ("cpu_to_kube", "kube", _cpu, _cpu),
            ("cpu_to_binder", "binder", _cpu, _cpu),
            ("memory_to_kube", "kube", _memory, _memory),
            ("first_to_kube", "kube", _first, _first),
        ):
            row = self.rows.get(other)
            a, b = mine(berth), theirs(row) if row is not None else None
            if a is not None and b:
                found[name] = a / b
        own = {
            "decision_p50": berth.decision_p50,
            "decision_p99": berth.decision_p99,
            "loop_longest": berth.held_longest,
        }
        return found | {name: value for name, value in own.items() if value is not None}

    def out_of_reach(self, goal: Goal) -> bool:
        """Whether not even the bare binder has the ratio to kube-scheduler that is asked for."""
        binder, kube = (self.rows[key].figures.rate if key in self.rows else None for key in ("binder", "kube"))
        return bool(binder and kube and not goal.met(binder / kube))


def lines(rows: Sequence[Row]) -> list[Line]:
    """Rows gathered by workload and mode, in the order they came."""
    found: dict[tuple[str, Mode], Line] = {}
    for row in rows:
        line = found.setdefault((row.workload, row.mode), Line(row.workload, row.mode, {}))
        line.rows[row.contender] = row
    return list(found.values())


def _rate(row: Row) -> float | None:
    return row.figures.rate


def _cpu(row: Row) -> float | None:
    return row.cpu_ms


def _memory(row: Row) -> float | None:
    return row.memory_mb


def _first(row: Row) -> float | None:
    return row.figures.first_seconds
