"""`make differential SEEDS=0-199`: generated cases through kube-scheduler's own plugins and through Berth.

Each seed gives `PER_SEED` cases of every family. A difference is shrunk and written to `found/`, where the fast tests
replay it. Queueing hints are asked as well: a change that wakes a pod upstream has to wake it here.
Exit code 0: no difference; 1: some.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from tests.controlplane import build
from tests.differential import hints
from tests.differential.client import Oracle
from tests.differential.generate.changes import CHANGES
from tests.differential.generate.families import FAMILIES, case
from tests.differential.shrink import shrink
from tests.differential.verdict import Verdict, judge

PER_SEED = 8
FOUND = Path(__file__).parent / "found"
KINDS = ("bound", "pending", "preempting", "failed", "refused", "different")


def run(oracle: Oracle, seed: int, families: Iterable[str] = FAMILIES) -> list[Verdict]:
    """The verdicts on a seed's cases."""
    cases = [case(family, seed, number) for family in families for number in range(PER_SEED)]
    return judge(oracle, oracle.vectors(cases))


def family_of(name: str) -> str:
    """The family of a case's name."""
    return name.partition("-")[0]


def seeds_of(text: str) -> list[int]:
    """`0-199`, `7` or `1,4-6`. Raises ArgumentTypeError."""
    found: list[int] = []
    for part in text.split(","):
        match = re.fullmatch(r"(\d+)(?:-(\d+))?", part)
        seeds = range(int(match[1]), int(match[2] or match[1]) + 1) if match else ()
        if not seeds:
            raise argparse.ArgumentTypeError(f"expected seeds as in 0-199 or 1,4-6, not {text!r}")
        found += seeds
    return found


def keep(oracle: Oracle, verdict: Verdict) -> Path:
    """Shrink the case of a difference and write it to `found/`; the file."""
    family, seed, number = verdict.id.split("-")
    smallest = shrink(oracle, case(family, int(seed), int(number)), verdict.fields[0])
    file = FOUND / f"{verdict.id}.jsonl"
    file.write_text(json.dumps(smallest, separators=(",", ":"), sort_keys=True) + "\n")
    return file


def main(arguments: Sequence[str] | None = None) -> int:
    """Run, report, keep what differs."""
    parser = argparse.ArgumentParser(prog="python -m tests.differential.fuzz", description=__doc__)
    parser.add_argument("--seeds", type=seeds_of, default="0-199", metavar="0-199")
    parser.add_argument("--families", default="", help="only these, and no queueing hints; default: all")
    chosen = parser.parse_args(arguments)
    families = chosen.families.split(",") if chosen.families else list(FAMILIES)
    if unknown := set(families) - set(FAMILIES):
        parser.error(f"--families: no such family: {', '.join(sorted(unknown))}; there are {', '.join(FAMILIES)}")
    oracle = Oracle(build.ORACLE.command())
    counts: Counter[tuple[str, str]] = Counter()
    different: list[Verdict] = []
    waking: list[hints.Outcome] = []
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        done = [pool.submit(run, oracle, seed, families) for seed in chosen.seeds]
        asked = [] if chosen.families else [pool.submit(hints.run, oracle, seed) for seed in chosen.seeds]
        for number, one in enumerate(done, start=1):
            for verdict in one.result():
                counts[family_of(verdict.id), verdict.kind] += 1
                if verdict.kind in ("different", "refused"):
                    different.append(verdict)
            _progress(f"seed {number} of {len(done)}, {counts.total():,} cases, {len(different)} differences")
        waking += [outcome for one in asked for outcome in one.result()]
    _progress("")
    _report(chosen.seeds, families, counts)
    for verdict in different:
        print("\n".join(verdict.texts))
        if verdict.kind == "different":
            print(f"kept, as small as it gets, in {keep(oracle, verdict)}", flush=True)
    stuck = [outcome for outcome in waking if outcome.kind in ("stuck", "refused")]
    if waking:
        _report_hints(waking)
    for outcome in stuck:
        print(outcome.text)
    return 1 if different or stuck else 0


def _report_hints(waking: list[hints.Outcome]) -> None:
    counts = Counter((family_of(outcome.id), outcome.kind) for outcome in waking)
    print(f"\n{'queueing hints':24}" + "".join(f"{kind:>10}" for kind in hints.KINDS))
    for plugin in [*CHANGES, "all"]:
        row = [sum(n for (p, k), n in counts.items() if k == kind and plugin in (p, "all")) for kind in hints.KINDS]
        print(f"{plugin:24}" + "".join(f"{n:10,}" for n in row))


def _report(seeds: list[int], families: list[str], counts: Counter[tuple[str, str]]) -> None:
    print(f"{'family':18}{'cases':>8}" + "".join(f"{kind:>12}" for kind in KINDS))
    for family in [*families, "all"]:
        row = {k: sum(n for (f, kind), n in counts.items() if kind == k and family in (f, "all")) for k in KINDS}
        print(f"{family:18}{sum(row.values()):8,}" + "".join(f"{n:12,}" for n in row.values()))
    print(f"seeds {seeds[0]} to {seeds[-1]} ({len(seeds)}), {PER_SEED} cases of each family a seed")


def _progress(line: str) -> None:
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\x1b[K{line}")
        sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main())
