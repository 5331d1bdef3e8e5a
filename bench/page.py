"""Write both pages of benchmarks and their charts from a recorded run: `python -m bench.page bench/history/FILE`."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from xml.sax.saxutils import escape

from bench import history
from bench.goals import Line, goals, lines
from bench.table import costs, summary

DOCS = Path(__file__).parents[1] / "docs"
PAGE = DOCS / "evidence" / "benchmarks.md"
FIRST_PAGE = DOCS / "benchmarks.md"
"""What is read first: a short table of either server."""
CHART = DOCS / "pictures" / "benchmarks.svg"
CEILING_CHART = DOCS / "pictures" / "ceiling.svg"
_APART = {"devices": ("dra",), "groups": ("gangs", "racks")}
"""What has a table of its own, and how the names of its workloads begin."""
_SERIES = (("kube", "kube-scheduler", "#b54708"), ("berth", "Berth", "#1570ef"), ("binder", "bare binder", "#98a2b3"))
_ROW, _BAR, _LEFT, _WIDE, _TOP = 44, 11, 190, 520, 44


def write(record: history.Record) -> None:
    """The figures between the pages' marks, and the chart. Devices and pod groups have tables of their own.

    A table of which the run measured no workload stays as it is. How long pods wait, the terminal says and the record.
    """
    found = lines(record.rows)
    apart = {mark: [line for line in found if line.workload.startswith(names)] for mark, names in _APART.items()}
    others = [line for line in found if not any(line in some for some in apart.values())]
    size = "" if record.scale == 1 else f", every count times {record.scale:g}"
    size += "" if record.measured == 1 else f", the measured pods times {record.measured:g}"
    size += "" if record.runs == 1 else f", each {record.runs} times: medians"
    spread = "" if record.runs == 1 else ", with the least and the most"
    command = "make bench-ceiling RECORD=1" if record.ceiling else "make bench RECORD=1"
    short = (
        f"`{command}` on {record.date}, commit {record.commit}, {record.cores} cores shared by everything, "
        f"Python {record.python}, {record.seconds / 60:.0f} minutes{size}"
    )
    head, short = f"{short}{spread}.", f"{short}."
    if record.ceiling:
        held = goals(ceiling=True)
        replace_between(PAGE, "ceiling", f"{head}\n\n{costs(found, held)}")
        replace_between(FIRST_PAGE, "ceiling", f"{short}\n\n{summary(others, held)}")
        CEILING_CHART.write_text(chart(others))
        return
    if others:
        replace_between(PAGE, "figures", f"{head}\n\n{costs(others, goals())}")
        replace_between(FIRST_PAGE, "figures", f"{short}\n\n{summary(others, goals())}")
        CHART.write_text(chart(others))
    for mark, some in apart.items():
        if some:
            replace_between(PAGE, mark, f"{head}\n\n{costs(some, goals())}")


def replace_between(page: Path, mark: str, text: str) -> None:
    """Replace what stands between `<!-- mark -->` and `<!-- /mark -->`."""
    before, start, rest = page.read_text().partition(f"<!-- {mark} -->\n")
    _, end, after = rest.partition(f"<!-- /{mark} -->")
    if not start or not end:
        raise ValueError(f"{page.name} has no <!-- {mark} --> … <!-- /{mark} -->")
    page.write_text(f"{before}{start}{text}\n{end}{after}")


def provenance(command: str) -> str:
    """When, from which commit and on how many cores a figure was made."""
    now = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    cores = len(os.sched_getaffinity(0))
    return f"`{command}` on {now}, commit {history.commit()}, {cores} cores, Python {platform.python_version()}."


def chart(found: Sequence[Line]) -> str:
    """Pods a second, a group of bars for each workload and mode."""
    rates = [row.figures.rate or 0.0 for line in found for row in line.rows.values()]
    most = max(rates, default=1.0) or 1.0
    height = _TOP + _ROW * len(found) + 10
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_LEFT + _WIDE + 70} {height}" '
        'font-family="system-ui, sans-serif" font-size="12">',
        "<style>text { fill: #667085; } .name { font-size: 13px; }</style>",
        "<title>Pods bound a second</title>",
    ]
    x = _LEFT
    for _, title, colour in _SERIES:
        parts.append(f'<rect x="{x}" y="14" width="12" height="12" fill="{colour}"/>')
        parts.append(f'<text x="{x + 18}" y="24">{escape(title)}</text>')
        x += 60 + 7 * len(title)
    for i, line in enumerate(found):
        y = _TOP + _ROW * i
        name = escape(f"{line.workload}, {line.mode}")
        parts.append(f'<text class="name" x="{_LEFT - 8}" y="{y + 22}" text-anchor="end">{name}</text>')
        for j, (key, _, colour) in enumerate(_SERIES):
            rate = line.rows[key].figures.rate if key in line.rows else None
            if rate is None:
                continue
            wide = _WIDE * rate / most
            top = y + 2 + (_BAR + 1) * j
            parts.append(f'<rect x="{_LEFT}" y="{top}" width="{wide:.1f}" height="{_BAR}" fill="{colour}"/>')
            parts.append(f'<text x="{_LEFT + wide + 5:.1f}" y="{top + 10}" font-size="10">{rate:.0f}</text>')
    return "\n".join([*parts, "</svg>"]) + "\n"


if __name__ == "__main__":
    write(history.read(Path(sys.argv[1])))
