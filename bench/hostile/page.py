"""The table of rows as Markdown, and docs/hostile.md with it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from bench.hostile.row import UNITS, Row
from bench.page import DOCS, provenance, replace_between

PAGE = DOCS / "hostile.md"


def tables(rows: Sequence[Row]) -> str:
    """A table for each part, and one line on what is held."""
    parts = dict.fromkeys(row.part for row in rows)
    shown = [f"### {part.capitalize()}\n\n{_table([row for row in rows if row.part == part])}" for part in parts]
    broken = [row.name for row in rows if not row.held]
    said = f"{len(rows) - len(broken)} of {len(rows)} rows held."
    return "\n\n".join([*shown, said + (f" Broken: {', '.join(broken)}." if broken else "")])


def line(row: Row) -> str:
    """For the terminal, while it runs: what is bounded, and what was broken."""
    costs = ", ".join(f"{_title(name)} {_figure(row, name)}" for name in row.bounds if name in row.costs)
    note = f" ({row.note})" if row.note else ""
    return f"{'held  ' if row.held else 'BROKEN'} {row.name}: {costs}{note}"


def record(rows: Sequence[Row], command: str) -> None:
    """Write the tables into the page."""
    replace_between(PAGE, "figures", f"{provenance(command)}\n\n{tables(rows)}")


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
