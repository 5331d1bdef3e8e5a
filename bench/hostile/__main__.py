"""`python -m bench.hostile` (`make hostile`): what legal objects at their largest cost, and whether bounds hold.

The end says how many rows are held; the exit code is 1 when one is broken.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator

from bench.hostile import engines, live, natives, others, page, ports
from bench.hostile.meters import Cpu
from bench.hostile.recipe import found
from bench.hostile.row import Chosen, Row, Say
from bench.hostile.scenario import ONE
from bench.hostile.search import search
from bench.hostile.shapes import SCENARIOS
from tests.controlplane.build import binaries
from tests.controlplane.once import BuildError, UnreachableError


def _scheduler(chosen: Chosen, say: Say) -> Iterator[Row]:
    return engines.rows(chosen, [*SCENARIOS, *found()], say)


PARTS: dict[str, Callable[[Chosen, Say], Iterator[Row]]] = {
    "scheduler": _scheduler,
    "live": live.rows,
    "admission": others.admission,
    "native": natives.rows,
    "ports": ports.rows,
    "operator": others.policies,
}
"""Who measures what. `live` and `native` need a control plane (make controlplane)."""
SEARCHED = 1_000
"""Nodes of the town that a search looks in."""


def main() -> int:
    """Measure, print, and record if asked to."""
    options = _options().parse_args()
    chosen = Chosen(_numbers(options.nodes), tuple(filter(None, options.rows.split(","))))
    began = time.monotonic()

    def say(text: str) -> None:
        print(f"{time.monotonic() - began:6.0f} s  {text}", file=sys.stderr, flush=True)

    unknown = [part for part in options.parts.split(",") if part not in PARTS]
    if unknown:
        print(f"hostile: --parts: no part {unknown[0]}: expected some of {', '.join(PARTS)}", file=sys.stderr)
        return 2
    if options.profile:
        engines.profile(chosen, [*SCENARIOS, *found()])
        return 0
    if options.search:
        kinds = search(engines.Town(SEARCHED), options.search, ONE["turn_ms"], Cpu, say)
        print(f"{kinds} kinds of pods take turns of more than {ONE['turn_ms']:g} ms: see bench/hostile/found.")
        return 1 if kinds else 0
    parts = options.parts.split(",")
    if "live" in parts:
        try:
            binaries()
        except (BuildError, UnreachableError) as error:
            print(f"hostile: no control plane: {error}", file=sys.stderr)
            return 1
    rows: list[Row] = []
    for part in parts:
        for row in PARTS[part](chosen, say):
            rows.append(row)
            say(page.line(row))
    print(page.tables(rows))
    if options.record:
        page.record(rows, "make hostile RECORD=1")
    return 0 if rows and all(row.held for row in rows) else 1


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(number) for number in text.split(","))


def _options() -> argparse.ArgumentParser:
    options = argparse.ArgumentParser(prog="python -m bench.hostile", description=(__doc__ or "").partition("\n")[0])
    options.add_argument("--parts", default=",".join(PARTS), help="what to measure, comma-separated; all without it")
    options.add_argument(
        "--nodes", default="1000,5000", help="sizes of the engine's cluster, comma-separated, smallest first"
    )
    options.add_argument("--rows", default="", help="parts of names of rows, comma-separated; all without it")
    options.add_argument("--record", action="store_true", help="write a summary into docs/evidence/hostile.md")
    options.add_argument(
        "--profile", action="store_true", help="print where the time of the engine's rows goes instead"
    )
    options.add_argument(
        "--search", type=float, default=0.0, metavar="MINUTES", help="look for dearer pods instead, for so long"
    )
    return options


if __name__ == "__main__":
    sys.exit(main())
