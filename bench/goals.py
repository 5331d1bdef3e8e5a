"""What the figures are held to: `goals.yaml`, read and compared."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from statistics import median, median_low
from typing import Any, TypeVar

import msgspec
import yaml

from bench.run import Row
from podberth.testing.workloads.workload import Mode

FILE = Path(__file__).with_name("goals.yaml")
Struct = TypeVar("Struct", bound=msgspec.Struct)


class Goal(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """One bound. `or_else`: a measure whose goal is enough, if that is met; the two count as one."""

    at_least: float | None = None
    at_most: float | None = None
    or_else: str = ""

    def met(self, value: float) -> bool:
        """Whether a figure is within it."""
        return (self.at_least is None or value >= self.at_least) and (self.at_most is None or value <= self.at_most)

    def __str__(self) -> str:
        return f"≥ {self.at_least:g}" if self.at_least is not None else f"≤ {self.at_most:.3g}"


class Verdict(StrEnum):
    """What came of a goal, as the tables show it."""

    MET = "✓"
    MISSED = "✗"
    BEYOND = "○"
    """Missed, and so it was by the bare binder in the same runs: for a rate, the API server is what is waited for. It
    counts neither as met nor as missed.
    """


class Goals(msgspec.Struct, forbid_unknown_fields=True):
    """Measure → goal, for all workloads and for single ones."""

    common: dict[str, Goal]
    workloads: dict[str, dict[str, Goal]]

    def of(self, workload: str, mode: Mode) -> dict[str, Goal]:
        """The goals of one workload. The first binding counts from a start, which a stream does not measure."""
        found = {**self.common, **self.workloads.get(workload, {})}
        if mode is Mode.STREAM:
            found.pop("first_to_kube", None)
        return found

    def verdicts(self, line: Line) -> list[Verdict]:
        """Return what came of each goal for which there is a figure. Two of which one is enough count as one."""
        wanted, measures = self.of(line.workload, line.mode), line.measures()
        found = {name: line.verdict(name, goal) for name, goal in wanted.items() if name in measures}
        for name, goal in wanted.items():
            if name in found and goal.or_else in found:
                both = {found[name], found.pop(goal.or_else)}
                found[name] = next(one for one in Verdict if one in both)
        return list(found.values())


def goals(*, ceiling: bool = False) -> Goals:
    """Return the goals of the file: those on a real API server, or on one that does almost nothing."""
    found = yaml.safe_load(FILE.read_text())
    apart = found.pop("ceiling")
    return msgspec.convert(apart if ceiling else found, Goals)


class Line(msgspec.Struct):
    """One workload in one mode. `runs`: everybody's rows by contender, once for each time that it was measured."""

    workload: str
    mode: Mode
    runs: list[dict[str, Row]]

    @property
    def rows(self) -> dict[str, Row]:
        """By contender, the median of each figure."""
        keys = dict.fromkeys(key for run in self.runs for key in run)
        return {key: median_row([run[key] for run in self.runs if key in run]) for key in keys}

    @property
    def yardstick(self) -> Row | None:
        """The row of the bare binder that makes all the writes that these pods need."""
        return _yardstick(self.rows)

    def measures(self) -> dict[str, float]:
        """Berth's figures in the terms of the goals, the median of the runs; what was not measured is left out."""
        return {name: median(values) for name, values in self._by_run().items()}

    def spread(self, name: str) -> tuple[float, float] | None:
        """The least and the most that a measure came to; None of a single run."""
        values = self._by_run().get(name, ())
        return (min(values), max(values)) if len(values) > 1 else None

    def verdict(self, name: str, goal: Goal) -> Verdict:
        """Return what came of a goal. Raises KeyError if there is no figure for it."""
        if goal.met(self.measures()[name]):
            return Verdict.MET
        reached = [ratio for run in self.runs if (ratio := _to_kube(run, _yardstick(run)).get(name)) is not None]
        return Verdict.BEYOND if reached and not goal.met(median(reached)) else Verdict.MISSED

    def _by_run(self) -> dict[str, list[float]]:
        found: dict[str, list[float]] = {}
        for run in self.runs:
            for name, value in _measures(run).items():
                found.setdefault(name, []).append(value)
        return found


def lines(rows: Sequence[Row]) -> list[Line]:
    """Rows gathered by workload and mode, in the order they came. A contender's second row is of the second run."""
    found: dict[tuple[str, Mode], Line] = {}
    for row in rows:
        line = found.setdefault((row.workload, row.mode), Line(row.workload, row.mode, []))
        run = next((run for run in line.runs if row.contender not in run), None)
        if run is None:
            line.runs.append(run := {})
        run[row.contender] = row
    return list(found.values())


def median_row(rows: Sequence[Row]) -> Row:
    """The median of each figure by itself. What is not known in all of them is not known."""
    return _median_struct(rows)


def _median_struct(structs: Sequence[Struct]) -> Struct:
    first = structs[0]
    changes = {name: _median([getattr(one, name) for one in structs]) for name in first.__struct_fields__}
    return msgspec.structs.replace(first, **changes)


def _median(values: list[Any]) -> Any:
    if isinstance(values[0], msgspec.Struct):
        return _median_struct(values)
    if isinstance(values[0], str) or None in values:
        return values[0] if values.count(values[0]) == len(values) else None
    return median(values) if isinstance(values[0], float) else median_low(values)


def _measures(rows: Mapping[str, Row]) -> dict[str, float]:
    """One run's figures in the terms of the goals."""
    berth = rows.get("berth")
    if berth is None:
        return {}
    found, binder = _to_kube(rows, berth), _yardstick(rows)
    for name in ("rate", "cpu"):
        if (ratio := _ratio(_FIGURES[name], berth, binder)) is not None:
            found[f"{name}_to_binder"] = ratio
    own = {
        "decision_p50": berth.decision_p50,
        "decision_p99": berth.decision_p99,
        "loop_longest": berth.held_longest,
    }
    return found | {name: value for name, value in own.items() if value is not None}


def _to_kube(rows: Mapping[str, Row], row: Row | None) -> dict[str, float]:
    """A row's ratios to kube-scheduler in the same run."""
    ratios = {f"{name}_to_kube": _ratio(figure, row, rows.get("kube")) for name, figure in _FIGURES.items()}
    return {name: ratio for name, ratio in ratios.items() if ratio is not None}


def _ratio(figure: Callable[[Row], float | None], row: Row | None, beside: Row | None) -> float | None:
    a, b = (None if one is None else figure(one) for one in (row, beside))
    return a / b if a is not None and b else None


def _yardstick(rows: Mapping[str, Row]) -> Row | None:
    return rows.get("claim-binder", rows.get("binder"))


_FIGURES: dict[str, Callable[[Row], float | None]] = {
    "rate": lambda row: row.figures.rate,
    "cpu": lambda row: row.cpu_ms,
    "memory": lambda row: row.memory_mb,
    "first": lambda row: row.figures.first_seconds,
}
