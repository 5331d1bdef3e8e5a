"""Chooses the few generated questions that notice most mutants, and records kube-scheduler's answers to them.

`python -m tests.mutants.boundaries --seeds 5000-5009` asks kube-scheduler's plugins everything that
`tests/differential` can generate from these seeds, and looks which mutants of `plugins` Berth's answers differ with.
The questions that notice mutants which `tests/vectors` does not notice are written to `tests/vectors/boundaries`,
beside those that are there already. `--mutants` names a file with the mutants to try, `--random` tries so many of them.
"""

from __future__ import annotations

import argparse
import os
import pickle
import random
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from tests.conformance import vectors
from tests.conformance.comparison import Case
from tests.controlplane import build
from tests.differential import recorded, replay
from tests.differential.client import Oracle
from tests.differential.fuzz import seeds_of
from tests.mutants.__main__ import PACKAGES, SOURCE, files, sample
from tests.mutants.mutations import Mutant, compiled, mutants, replaced
from tests.mutants.session import Functions, Lines, in_child

LONGEST = 3.0
"""Seconds of CPU after which a question counts as noticing the mutant: it may have no end."""
PATIENCE = 0.7
"""Seconds of CPU that a mutant's questions may take together."""
ENOUGH = 2
"""Questions that notice a mutant, after which no more are asked about it."""


class Asked:
    """Questions with their answers, and what is learned of them: which lines they run, and how long each takes."""

    def __init__(self, cases: Sequence[Case]) -> None:
        self.cases = cases
        self._lines = defaultdict[tuple[str, int], set[int]](set)
        self._seconds: list[float] = []
        replay.differences(cases[0])  # imports what it imports
        watched = Lines((f"{SOURCE}{os.sep}",))
        for number, case in enumerate(cases):
            began = time.process_time()
            assert not replay.differences(case), f"{case['id']} differs without any change"
            self._seconds.append(time.process_time() - began)
            for hit in watched.since():
                self._lines[hit].add(number)
        watched.end()
        self._functions = Functions((f"{SOURCE}{os.sep}",))
        self._good = Counter[int]()

    def noticing(self, mutant: Mutant, dice: random.Random) -> list[int]:
        """The numbers of some questions that notice the mutant, those first that noticed others."""
        path = f"{SOURCE}{os.sep}{mutant.path}"
        lines = range(mutant.line, mutant.last + 1)
        running = set[int]().union(*(self._lines.get((path, line), ()) for line in lines))
        if not running:
            return []
        source = Path(path).read_text()
        changed = [*replaced(compiled(source, path, None), compiled(source, path, mutant))]
        order = sorted(running, key=lambda n: (-self._good[n], self._seconds[n] * dice.random()))

        def ask() -> list[int]:
            self._functions.change(changed)
            return [*self._differing(order)]

        status, said = in_child(ask, 2 * LONGEST + PATIENCE)
        found: list[int] = order[:1] if status else pickle.loads(said)
        self._good.update(found)
        return found

    def _differing(self, order: Iterable[int]) -> Iterator[int]:
        began, found = time.process_time(), 0
        for number in order:
            if found == ENOUGH or time.process_time() - began > PATIENCE:
                return
            try:
                differs = bool(replay.differences(self.cases[number]))
            except Exception:  # noqa: BLE001 (a mutant may raise anything)
                differs = True
            if differs:
                found += 1
                yield number


def fewest(noticed: Mapping[str, Collection[int]]) -> list[int]:
    """Few questions that notice all of these mutants together: each time the one that notices most of what is left."""
    left, chosen = {name: {*numbers} for name, numbers in noticed.items() if numbers}, list[int]()
    while left:
        ((best, _),) = Counter(number for numbers in left.values() for number in numbers).most_common(1)
        chosen.append(best)
        left = {name: numbers for name, numbers in left.items() if best not in numbers}
    return sorted(chosen)


def main(arguments: Sequence[str] | None = None) -> int:
    """Generate, ask, choose, write."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants.boundaries", description=__doc__)
    parser.add_argument("--seeds", type=seeds_of, required=True, metavar="5000-5009")
    parser.add_argument("--mutants", type=Path, help="a file with the names of those to try; default: all of plugins")
    parser.add_argument("--random", type=int, help="so many of these")
    given = parser.parse_args(arguments)
    oracle = Oracle(build.ORACLE.command())
    old = [one for name in vectors.FAMILIES for one in recorded.plain(name)] + recorded.all_of_them()
    pool = [*old, *recorded.generated(oracle, given.seeds)]
    print(f"{len(pool) - len(old)} questions, beside {len(old)} that are recorded", flush=True)
    asked, dice = Asked(pool), random.Random(1)
    found = [
        mutant
        for file in files(SOURCE, PACKAGES["plugins"][0], "*.py")
        for mutant in mutants(str(file.relative_to(SOURCE)), file.read_text())
    ]
    if given.mutants:
        names = set(given.mutants.read_text().splitlines())
        found = [mutant for mutant in found if mutant.name in names]
    noticed = {mutant.name: asked.noticing(mutant, dice) for mutant in sample(found, given.random, 1)}
    fresh = {name: numbers for name, numbers in noticed.items() if numbers and min(numbers) >= len(old)}
    chosen = fewest(fresh)
    recorded.add([pool[number] for number in chosen])
    known = sum(map(bool, noticed.values()))
    print(f"{len(noticed)} mutants: {known} noticed, {len(fresh)} of them by {len(chosen)} new questions")
    return 0


if __name__ == "__main__":
    sys.exit(main())
