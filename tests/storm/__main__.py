"""`python -m tests.storm`: run seeds and say what was injected and survived; shrink what fails; try the mutants."""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator

from tests.storm.mutants import Mutant
from tests.storm.mutants_groups import MUTANTS
from tests.storm.plan import Plan, plan
from tests.storm.seeds import CAUGHT_BY, SCENES, UNCAUGHT, without_holes
from tests.storm.shrink import invariants, shrink
from tests.storm.world import Outcome, run

BUDGET = range(200)
"""The seeds that CI runs."""
TELL_SECONDS = 10.0


def main() -> int:
    parser = argparse.ArgumentParser(prog="make storm", description=__doc__)
    parser.add_argument("--seeds", default="0-199", help="seeds, as 7 or 0-9999 (default 0-199)")
    parser.add_argument("--trace", action="store_true", help="print the whole trace of each run")
    parser.add_argument("--no-shrink", action="store_true", help="leave failing runs as they are")
    parser.add_argument("--mutants", action="store_true", help="say by which seed each mutant is caught")
    given = parser.parse_args()
    seeds = _seeds(given.seeds)
    if given.mutants:
        return _mutants(seeds)
    return _storm(seeds, shrinks=not given.no_shrink, trace=given.trace)


def _seeds(text: str) -> range:
    first, _, last = text.partition("-")
    if not first.isdecimal() or (last and not last.isdecimal()):
        sys.exit(f"--seeds {text}: want a number, or two with - between them, as 0-199")
    return range(int(first), int(last or first) + 1)


def judged(given: Plan, outcome: Outcome) -> set[str]:
    """The invariants that a run violates, if no open hole is to blame."""
    if not outcome.violations:
        return set()
    smaller = without_holes(given)
    return invariants(outcome) if smaller == given else invariants(run(smaller))


def _storm(seeds: Iterable[int], *, shrinks: bool, trace: bool) -> int:
    happened, hits, failing, holes = Counter[str](), Counter[str](), list[int](), 0
    began, told, runs, survived = time.process_time(), time.monotonic(), 0, Counter[str]()
    for seed in seeds:
        made = plan(seed)
        outcome = run(made, keep=trace)
        runs += 1
        survived += outcome.survived
        happened += outcome.happened
        hits += outcome.hits
        if trace:
            print(*outcome.trace, sep="\n")
        if judged(made, outcome):
            failing.append(seed)
            _tell(without_holes(made) if without_holes(made) != made else made, shrinks=shrinks)
        elif outcome.violations:
            holes += 1
            print(f"seed {seed}: fails for a hole that is open ({', '.join(sorted(invariants(outcome)))})")
        if time.monotonic() - told > TELL_SECONDS:
            told = time.monotonic()
            print(f"… {runs} runs, {survived['bound']} pods bound, {len(failing)} failing", flush=True)
    seconds = time.process_time() - began
    done = ", ".join(f"{count} pods {what}" for what, count in sorted(survived.items()))
    print(f"\n{runs} runs, {done}, {runs / seconds:.1f} runs a second of CPU")
    print("what happened:")
    for kind, count in happened.most_common():
        print(f"  {count:6} {kind}")
    print("requests and events that went wrong:")
    for effect, count in hits.most_common():
        print(f"  {count:6} {effect}")
    print(f"failing: {len(failing)} {failing}; for open holes: {holes}")
    return 1 if failing else 0


def _tell(failing: Plan, *, shrinks: bool) -> None:
    outcome = run(failing)
    print(f"seed {failing.seed} FAILS:")
    if shrinks:
        wanted = invariants(outcome)
        failing = shrink(failing, lambda smaller: bool(wanted & invariants(run(smaller))))
        outcome = run(failing)
    print(*(f"  {happening}" for happening in failing.happenings), sep="\n")
    print(*(f"  → {violation}" for violation in outcome.violations[:5]), sep="\n", flush=True)


def _mutants(seeds: Iterable[int]) -> int:
    """A table: mutant → the scene or seed that catches it, and what it violates. What caught it last is tried first."""
    missed = 0
    print("| mutant | the bug | caught by | violated |\n| --- | --- | --- | --- |")
    for one in MUTANTS:
        known = CAUGHT_BY.get(one.name)
        row = next(_caught(one, [*([] if known is None else [known]), *seeds]), None)
        missed += row is None and one.name not in UNCAUGHT
        print(f"| {one.name} | {one.what} | {row or 'nothing yet | '} |", flush=True)
    return 1 if missed else 0


def _caught(one: Mutant, runs: Iterable[int | str]) -> Iterator[str]:
    for by in runs:
        made = run_of(by)
        with one.put_in():
            outcome = run(made)
        if outcome.violations and not run(made).violations:
            named = f"scene `{by}`" if isinstance(by, str) else f"seed {by}"
            yield f"{named} | {', '.join(sorted(invariants(outcome)))}"


def run_of(by: int | str) -> Plan:
    """The plan of a scene or of a seed, without what an open hole does not survive."""
    return SCENES[by] if isinstance(by, str) else without_holes(plan(by))


if __name__ == "__main__":
    sys.exit(main())
