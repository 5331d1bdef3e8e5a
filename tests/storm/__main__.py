"""`python -m tests.storm`: run seeds and say what was injected and survived; shrink what fails; try the mutants."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterable, Iterator, Sequence

from tests.storm.mutants import Mutant
from tests.storm.mutants_groups import MUTANTS
from tests.storm.plan import Plan, plan
from tests.storm.results import Results, Told, kept, report
from tests.storm.seeds import CAUGHT_BY, SCENES, UNCAUGHT, without_holes
from tests.storm.shrink import invariants, shrink
from tests.storm.world import Outcome, run

BUDGET = range(200)
"""The seeds that CI runs."""
TELL_SECONDS = 10.0
LIVE_SECONDS = 0.5
"""The same on a terminal."""
INTERRUPTED = 130
"""The exit code after Ctrl-C, as shells have it."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="make storm", description=__doc__)
    parser.add_argument("--seeds", type=seeds_of, default=BUDGET, help="seeds, as 7 or 0-9999 (default 0-199)")
    parser.add_argument("--trace", action="store_true", help="print the whole trace of each run")
    parser.add_argument("--no-shrink", action="store_true", help="leave failing runs as they are")
    parser.add_argument("--again", action="store_true", help="run seeds again that were run with this very code")
    parser.add_argument("--mutants", action="store_true", help="say by which seed each mutant is caught")
    given = parser.parse_args()
    seeds = given.seeds
    if given.mutants:
        return _mutants(seeds)
    anew = given.again or given.trace or len(seeds) == 1  # who asks for one seed wants to see it run
    return storm(seeds, None if anew else kept(), shrinks=not given.no_shrink, trace=given.trace)


def seeds_of(text: str) -> range:
    first, _, last = text.partition("-")
    if not first.isdecimal() or (last and not last.isdecimal()) or int(last or first) < int(first):
        raise argparse.ArgumentTypeError(f"{text}: want a number, or two with - between them, as 0-199")
    return range(int(first), int(last or first) + 1)


def judged(given: Plan, outcome: Outcome) -> set[str]:
    """The invariants that a run violates, if no open hole is to blame."""
    if not outcome.violations:
        return set()
    smaller = without_holes(given)
    return invariants(outcome) if smaller == given else invariants(run(smaller))


def storm(seeds: range, results: Results | None, *, shrinks: bool, trace: bool) -> int:
    """Run seeds, but those of which `results` knows already, and say what came of all of them."""
    found: list[Told] = []
    progress = Progress(len(seeds))
    known = {} if results is None else results.by_seed
    if already := sum(seed in known for seed in seeds):
        print(f"{already} of {len(seeds)} seeds were run before with this very code (AGAIN=1 runs them again)")
    code = 0
    try:
        for seed in seeds:
            told = known.get(seed)
            if told is None:
                told = _run(seed, results, progress, shrinks=shrinks, trace=trace)
            found.append(told)
            progress.tell(found)
    except KeyboardInterrupt:
        code = INTERRUPTED
    progress.clear()
    print(f"\n{report(found)}")
    if code and results is not None:
        print(f"ended at {len(found)} of {len(seeds)} seeds: the same command goes on from here")
    return code or int(any(told.violated for told in found))


def _run(seed: int, results: Results | None, progress: Progress, *, shrinks: bool, trace: bool) -> Told:
    began = time.process_time()
    made = plan(seed)
    outcome = run(made, keep=trace)
    if trace:
        print(*outcome.trace, sep="\n")
    violated = tuple(sorted(judged(made, outcome)))
    told = Told(
        seed,
        violated,
        bool(outcome.violations) and not violated,
        dict(outcome.happened),
        dict(outcome.hits),
        dict(outcome.survived),
        round(time.process_time() - began, 3),
    )
    if results is not None:
        results.add(told)
    if violated:
        progress.clear()
        _tell(without_holes(made), shrinks=shrinks)
    elif told.hole:
        progress.clear()
        print(f"seed {seed}: fails for a hole that is open ({', '.join(sorted(invariants(outcome)))})")
    return told


class Progress:
    """Says how far a run is: on a terminal in one line that is written again and again, elsewhere now and then."""

    def __init__(self, seeds: int) -> None:
        self.seeds_of = seeds
        self._live = sys.stdout.isatty()
        self._told = time.monotonic()

    def tell(self, found: Sequence[Told]) -> None:
        """These are done."""
        if time.monotonic() - self._told < (LIVE_SECONDS if self._live else TELL_SECONDS):
            return
        self._told = time.monotonic()
        bound = sum(told.survived.get("bound", 0) for told in found)
        failing = sum(bool(told.violated) for told in found)
        line = f"{len(found)} of {self.seeds_of} seeds, {bound} pods bound, {failing} failing"
        print(f"\r\x1b[K{line}" if self._live else f"… {line}", end="" if self._live else "\n", flush=True)

    def clear(self) -> None:
        """Something else is going to be printed."""
        if self._live:
            print("\r\x1b[K", end="", flush=True)


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
