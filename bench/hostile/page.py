"""The table of rows as Markdown, and docs/evidence/hostile.md with it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from bench.hostile.row import UNITS, Row
from bench.page import DOCS, provenance, replace_between

PAGE = DOCS / "evidence" / "hostile.md"


def tables(rows: Sequence[Row]) -> str:
    """A table for each part, and one line on what is held."""
    shown = [f"### {part.capitalize()}\n\n{_table(some)}" for part, some in _parts(rows)]
    return "\n\n".join([*shown, _said(rows)])


def summary(rows: Sequence[Row]) -> str:
    """For the page: of each measure that is bounded, the row with most of it, and the rows that are broken."""
    head = ["part", "rows", "measure", "most", "in row", "what it is"]
    cells = []
    for part, some in _parts(rows):
        for name in dict.fromkeys(name for row in some for name in row.bounds):
            bounded = [row for row in some if name in row.bounds and name in row.costs]
            most = max(bounded, key=lambda row: (name in row.broken, row.costs[name]), default=None)
            if most is not None:
                cells.append([part, str(len(some)), _title(name), _figure(most, name), most.name, most.shape])
    rule = ["---", "---:", "---", "---:", "---", "---"]
    return "\n".join(map(_line, [head, rule, *cells])) + f"\n\n{_said(rows)}"


def line(row: Row) -> str:
    """For the terminal, while it runs: what is bounded, and what was broken."""
    costs = ", ".join(f"{_title(name)} {_figure(row, name)}" for name in row.bounds if name in row.costs)
    note = f" ({row.note})" if row.note else ""
    return f"{'held  ' if row.held else 'BROKEN'} {row.name}: {costs}{note}"


def record(rows: Sequence[Row], command: str) -> None:
    """Write the summary into the page. The terminal has the tables of all rows."""
    replace_between(PAGE, "figures", f"{provenance(command)}\n\n{summary(rows)}")


def _parts(rows: Sequence[Row]) -> list[tuple[str, list[Row]]]:
    return [(part, [row for row in rows if row.part == part]) for part in dict.fromkeys(row.part for row in rows)]


def _said(rows: Sequence[Row]) -> str:
    broken = [row.name for row in rows if not row.held]
    return f"{len(rows) - len(broken)} of {len(rows)} rows held." + (f" Broken: {', '.join(broken)}." if broken else "")


def _table(rows: Sequence[Row]) -> str:
    measures = list(dict.fromkeys(name for row in rows for name in row.costs))
    head = ["row", "kind", "objects", "KB each", *map(_title, measures), "held", "what it is"]
    cells = [
        [
            row.name,
            row.kind,
            f"{row.objects:,}",
            f"{row.bytes / 1000:,.1f}",
            *(_figure(row, name) for name in measures),
            "held" if row.held else "**broken**",
            row.shape + (f" ({row.note})" if row.note else ""),
        ]
        for row in rows
    ]
    rule = ["---", "---", *["---:"] * (2 + len(measures)), "---", "---"]
    return "\n".join(map(_line, [head, rule, *cells]))


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |"


def _title(measure: str) -> str:
    name, _, unit = measure.rpartition("_")
    return f"{name.replace('_', ' ')} {UNITS.get(unit, unit)}".strip()


def _figure(row: Row, name: str) -> str:
    if name not in row.costs:
        return ""
    value, bound = row.costs[name], row.bounds.get(name)
    shown = f"{value:,.0f}" if value >= 100 or name.endswith("_count") else f"{value:.1f}"
    if bound is None:
        return shown
    return f"{shown} {'✗' if name in row.broken else '✓'} ≤ {bound:g}"
