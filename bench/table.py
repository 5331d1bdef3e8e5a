"""The tables of a run, as Markdown that also reads well on a terminal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from bench.goals import Goal, Goals, Line, Verdict
from bench.run import Row
from podberth.testing.workloads.workload import Mode

Cell = Callable[[Line], str]


def tables(lines: Sequence[Line], goals: Goals) -> str:
    """Two tables: what a pod costs, and how long it waits. A goal stands beside its figure, with whether it is met.

    Of several runs, figures are medians; measures that goals may be set for have their least and most beside them.
    """
    return "\n\n".join((_cost(lines, goals), _waits(lines, goals), _notes(lines, goals)))


def costs(lines: Sequence[Line], goals: Goals) -> str:
    """A shorter first table, for a page, and how many goals of both are met. A ratio without a goal is left out."""
    columns: list[tuple[str, Cell]] = [
        ("workload", _name),
        ("kube-scheduler pods/s", _of("kube", _rate)),
        ("Berth pods/s", _of("berth", _rate)),
        ("binder pods/s", _binder(_rate)),
        ("Berth / kube", _aimed("rate_to_kube", goals)),
        ("Berth / binder", _aimed("rate_to_binder", goals)),
        ("kube CPU ms/pod", _of("kube", _cpu)),
        ("Berth CPU", _of("berth", _cpu)),
        ("binder CPU", _binder(_cpu)),
        ("CPU Berth / kube", _aimed("cpu_to_kube", goals)),
        ("CPU Berth / binder", _aimed("cpu_to_binder", goals)),
    ]
    return f"{_table(lines, columns)}\n\n{_notes(lines, goals)}"


def summary(lines: Sequence[Line], goals: Goals) -> str:
    """A table with a row for each workload, its modes side by side, for a page that is read first.

    Its own goal stands behind the figures of both modes.
    """
    by_workload: dict[str, list[Line]] = {}
    for line in lines:
        by_workload.setdefault(line.workload, []).append(line)
    columns: list[tuple[str, Callable[[Line], str]]] = [
        ("kube-scheduler pods/s", _of("kube", _rate)),
        ("Berth pods/s", _of("berth", _rate)),
        ("binder pods/s", _binder(_rate)),
    ]
    ratios = {
        "rate_to_kube": "Berth / kube-scheduler",
        "rate_to_binder": "Berth / binder",
        "cpu_to_kube": "CPU Berth / kube-scheduler",
        "cpu_to_binder": "CPU Berth / binder",
    }
    cells = [["workload", *(title for title, _ in columns), *ratios.values()]]
    for workload, of_it in by_workload.items():
        both = len(of_it) == len(Mode)
        name = workload if both else f"{workload}, {of_it[0].mode}"
        figures = [", ".join(cell(line) for line in of_it) for _, cell in columns]
        cells.append([name, *figures, *(_with_goal(measure, of_it, goals) for measure in ratios)])
    return f"{_aligned(cells)}\n\n{_notes(lines, goals)}"


def _with_goal(measure: str, lines: Sequence[Line], goals: Goals) -> str:
    found = [(line, line.measures().get(measure), goals.of(line.workload, line.mode).get(measure)) for line in lines]
    shown = ", ".join(
        _short(value) if goal is None else f"{_short(value)} {line.verdict(measure, goal)}"
        for line, value, goal in found
        if value is not None
    )
    goal = found[0][2]
    return f"{shown} ({goal})" if shown and goal is not None else shown


def _cost(lines: Sequence[Line], goals: Goals) -> str:
    columns: list[tuple[str, Cell]] = [
        ("workload", _name),
        ("pods", _bound),
        ("kube-scheduler pods/s", _of("kube", _rate)),
        ("all nodes", _of("kube-all", _rate)),
        ("Berth pods/s", _of("berth", _rate)),
        ("binder pods/s", _binder(_rate)),
        ("Berth / kube", _held("rate_to_kube", goals)),
        ("Berth / binder", _held("rate_to_binder", goals)),
        ("kube CPU ms/pod", _of("kube", _cpu)),
        ("all nodes CPU", _of("kube-all", _cpu)),
        ("Berth CPU", _of("berth", _cpu)),
        ("binder CPU", _binder(_cpu)),
        ("CPU Berth / kube", _held("cpu_to_kube", goals)),
        ("CPU Berth / binder", _held("cpu_to_binder", goals)),
    ]
    return _table(lines, columns)


def _waits(lines: Sequence[Line], goals: Goals) -> str:
    columns: list[tuple[str, Cell]] = [
        ("workload", _name),
        ("kube RSS MB", _of("kube", _memory)),
        ("Berth RSS", _of("berth", _memory)),
        ("RSS ratio", _held("memory_to_kube", goals)),
        ("kube first s", _of("kube", _first)),
        ("Berth first", _of("berth", _first)),
        ("first ratio", _held("first_to_kube", goals)),
        ("kube create to bound ms p50 / p99", _of("kube", _wait)),
        ("Berth create to bound", _of("berth", _wait)),
        ("binder", _binder(_wait)),
        ("kube decision ms p50 / p99", _of("kube", _decision)),
        ("Berth decision p50", _held("decision_p50", goals)),
        ("p99", _held("decision_p99", goals)),
        ("Berth holds its loop ms p99", _of("berth", _loop_p99)),
        ("longest", _held("loop_longest", goals)),
        ("by the clock", _of("berth", _loop_wall)),
    ]
    return _table(lines, columns)


def _notes(lines: Sequence[Line], goals: Goals) -> str:
    found = Counter(verdict for line in lines for verdict in goals.verdicts(line))
    said = [f"{found[Verdict.MET]} of {found[Verdict.MET] + found[Verdict.MISSED]} goals met."]
    if found[Verdict.BEYOND]:
        said.append(
            f"{found[Verdict.BEYOND]} more ({Verdict.BEYOND}) are bound by the API server or its requests: the bare "
            "binder, which decides nothing, missed them too."
        )
    for line in lines:
        for row in (row for run in line.runs for row in run.values()):
            if row.figures.bound < row.figures.pods:
                said.append(
                    f"{line.workload}, {line.mode}: {row.contender} bound {row.figures.bound} of {row.figures.pods}."
                )
            if row.events_missing:
                said.append(f"{line.workload}, {line.mode}: {row.contender} left {row.events_missing} events out.")
    return "\n".join(said)


def _table(lines: Sequence[Line], columns: Sequence[tuple[str, Cell]]) -> str:
    cells = [[title for title, _ in columns]] + [[cell(line) for _, cell in columns] for line in lines]
    kept = [i for i in range(len(columns)) if i == 0 or any(row[i] for row in cells[1:])]
    cells = [[row[i] for i in kept] for row in cells]
    return _aligned(cells)


def _aligned(cells: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table of these rows, the first of which has the titles."""
    widths = [max(len(row[i]) for row in cells) for i in range(len(cells[0]))]
    rows = [
        " | ".join(t.ljust(w) if i == 0 else t.rjust(w) for i, (t, w) in enumerate(zip(row, widths, strict=True)))
        for row in cells
    ]
    rule = " | ".join("-" * w if i == 0 else "-" * (w - 1) + ":" for i, w in enumerate(widths))
    return "\n".join(f"| {row} |" for row in (rows[0], rule, *rows[1:]))


def _name(line: Line) -> str:
    return f"{line.workload}, {line.mode}"


def _bound(line: Line) -> str:
    return str(max(row.figures.pods for row in line.rows.values()))


def _of(contender: str, value: Callable[[Row], str]) -> Cell:
    return lambda line: value(line.rows[contender]) if contender in line.rows else ""


def _binder(value: Callable[[Row], str]) -> Cell:
    return lambda line: "" if line.yardstick is None else value(line.yardstick)


def _held(name: str, goals: Goals) -> Cell:
    def cell(line: Line) -> str:
        value = line.measures().get(name)
        if value is None:
            return ""
        goal: Goal | None = goals.of(line.workload, line.mode).get(name)
        shown, spread = _short(value), line.spread(name)
        if spread is not None:
            shown += f" ({_short(spread[0])} to {_short(spread[1])})"
        return shown if goal is None else f"{shown} {line.verdict(name, goal)} {goal}"

    return cell


def _aimed(name: str, goals: Goals) -> Cell:
    held = _held(name, goals)
    return lambda line: held(line) if name in goals.of(line.workload, line.mode) else ""


def _short(value: float) -> str:
    return f"{value:.2f}" if value < 100 else f"{value:.0f}"


def _rate(row: Row) -> str:
    return "" if row.figures.rate is None else f"{row.figures.rate:.0f}"


def _cpu(row: Row) -> str:
    return "" if row.cpu_ms is None else f"{row.cpu_ms:.2f}"


def _memory(row: Row) -> str:
    return f"{row.memory_mb:.0f}"


def _first(row: Row) -> str:
    return "" if row.figures.first_seconds is None else f"{row.figures.first_seconds:.2f}"


def _wait(row: Row) -> str:
    p50, p99 = row.figures.wait_p50, row.figures.wait_p99
    return "" if p50 is None or p99 is None else f"{p50:.0f} / {p99:.0f}"


def _decision(row: Row) -> str:
    p50, p99 = row.decision_p50, row.decision_p99
    return "" if p50 is None or p99 is None else f"{p50:.2f} / {p99:.2f}"


def _loop_p99(row: Row) -> str:
    return "" if row.held_p99 is None else f"{row.held_p99:.0f}"


def _loop_wall(row: Row) -> str:
    return "" if row.held_longest_wall is None else f"{row.held_longest_wall:.0f}"
