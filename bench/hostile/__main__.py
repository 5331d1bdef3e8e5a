"""`python -m bench.hostile` (`make hostile`): what legal objects at their largest cost, and whether bounds hold."""

from __future__ import annotations

import argparse
import sys

from bench.hostile import engines
from bench.hostile.row import Chosen, Row
from bench.hostile.shapes import SCENARIOS


def main() -> int:
    """Measure, print; 1 when a row is broken."""
    chosen = _options().parse_args()
    wanted = Chosen(tuple(int(n) for n in chosen.nodes.split(",")), tuple(filter(None, chosen.rows.split(","))))
    if chosen.profile:
        engines.profile(wanted, SCENARIOS)
        return 0
    found: list[Row] = []
    for row in engines.rows(wanted, SCENARIOS):
        found.append(row)
        print(line(row), flush=True)
    return 0 if all(row.held for row in found) else 1


def line(row: Row) -> str:
    """For the terminal, while it runs."""
    costs = "  ".join(f"{name} {value:,.1f}" for name, value in row.costs.items())
    return f"{'held  ' if row.held else 'BROKEN'} {row.name:<28} {row.bytes:>9,} B  {costs}  {row.note}"


def _options() -> argparse.ArgumentParser:
    options = argparse.ArgumentParser(prog="python -m bench.hostile", description=(__doc__ or "").partition("\n")[0])
    options.add_argument("--nodes", default="1000,5000", help="sizes of the cluster, comma-separated, smallest first")
    options.add_argument("--rows", default="", help="parts of names of rows, comma-separated; all without it")
    options.add_argument("--profile", action="store_true", help="print where the time of the rows goes")
    return options


if __name__ == "__main__":
    sys.exit(main())
