"""How many small changes of the code the tests notice: `python -m tests.mutants plugins --sample 300`.

Without --sample, all mutants are tried, which takes hours. Prints each that survives, and the score of each room.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from tests.mutants.mutations import Mutant, mutants
from tests.mutants.session import BUDGET, Warm, run

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "scheduler" / "podberth"
HERE = Path(__file__).parent
MAPS = Path(sys.prefix) / "mutants"
"""`make clean` removes it with the virtual environment."""
EQUIVALENT = HERE / "equivalent.txt"
"""Mutants that nobody can notice, by name, below a line with the reason."""
NOTICED = HERE / "noticed.txt"
"""Mutants by name, each with the test that notices it: it is asked first, so a known sample costs seconds."""
ANSWERS = (
    "tests/conformance/test_vectors.py",
    *(f"tests/differential/test_{name}.py" for name in ("found", "mappings", "recorded", "tables")),
    *(f"tests/unit/{name}" for name in ("plugins", "framework", "explain", "engine/test_*.py")),
)
PACKAGES: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "plugins": (("plugins", "explain/plugins"), ANSWERS),
    "policy": (("policy/*.py", "policy/native"), ("tests/unit/policy/test_*.py",)),
    "framework": (("framework",), ANSWERS),
    "queue": (("engine/queue", "engine/preemption.py"), ("tests/unit/engine/test_*.py",)),
    "cache": (("cache",), (*ANSWERS, "tests/unit/cache")),
}
"""What is changed, and the tests that should notice."""


def files(home: Path, places: Iterable[str], named: str) -> Iterator[Path]:
    """The files of these folders, files and patterns."""
    for place in places:
        for found in sorted(home.glob(place)):
            yield from sorted(found.rglob(named)) if found.is_dir() else [found] * found.match(named)


def sample(all_of_them: Sequence[Mutant], number: int | None, seed: int) -> list[Mutant]:
    """That many, chosen by their names: new code does not change which of the old are in it."""
    if number is None:
        return [*all_of_them]

    def drawn(mutant: Mutant) -> bytes:
        return hashlib.sha256(f"{seed} {mutant.name}".encode()).digest()

    return sorted(sorted(all_of_them, key=drawn)[:number])


def equivalent() -> dict[str, str]:
    """Mutant → why nobody can notice it."""
    found, reason = {}, ""
    for line in EQUIVALENT.read_text().splitlines():
        if line.startswith("# "):
            reason = line[2:]
        elif line:
            found[line] = reason
    return found


def noticed() -> dict[str, str]:
    """Mutant → the test that noticed it."""
    lines = NOTICED.read_text().splitlines()
    return dict(zip(lines[::2], (line.strip() for line in lines[1::2]), strict=True))


def main(argv: Sequence[str]) -> int:
    """The exit code: 1 if a mutant survives that is not in the list of equivalent ones."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("rooms", nargs="*", metavar="room", help=f"of {', '.join(PACKAGES)}; all without")
    parser.add_argument(
        "--files", nargs="+", default=["*.py"], help="only these, such as binder.py or plugins/*/pools.py"
    )
    parser.add_argument("--sample", type=int, help="only so many of each room, chosen by --seed")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--named", type=Path, help="only mutants that this file names, such as an earlier output")
    parser.add_argument("--tests", nargs="+", help="these tests instead of the room's")
    parser.add_argument("--seconds", type=float, default=BUDGET, help="of CPU for the tests of one mutant")
    parser.add_argument("--record", action="store_true", help=f"write which tests notice them, into {NOTICED.name}")
    given = parser.parse_args(argv)
    unknown = [room for room in given.rooms if room not in PACKAGES]
    if unknown:
        parser.error(f'"{unknown[0]}" is no room: expected {", ".join(PACKAGES)}')
    return max([_room(room, given) for room in given.rooms or PACKAGES])


def _room(room: str, given: argparse.Namespace) -> int:
    cannot, known, began = equivalent(), noticed(), time.monotonic()
    places, tests = PACKAGES[room]
    changing = [*files(SOURCE, places, "*.py")]
    found = [
        mutant
        for file in changing
        if any(map(file.match, given.files))
        for mutant in mutants(str(file.relative_to(SOURCE)), file.read_text())
    ]
    if given.named:
        named = set(given.named.read_text().splitlines())
        found = [mutant for mutant in found if mutant.name in named]
    chosen = sample(found, given.sample, given.seed)
    asked = [mutant for mutant in chosen if mutant.name not in cannot]
    # First the few tests that are known to notice them; then, for what is left, all.
    easy = [mutant for mutant in asked if mutant.name in known]
    told = _judge({known[mutant.name].partition("::")[0] for mutant in easy}, changing, easy, known, given.seconds)
    told |= _judge(
        given.tests or tests, changing, [mutant for mutant in asked if told.get(mutant) is None], {}, given.seconds
    )
    survivors = [mutant for mutant, test in told.items() if test is None]
    if given.record:
        known = noticed() | {mutant.name: test for mutant, test in told.items() if test and "::" in test}
        NOTICED.write_text("".join(f"{name}\n    {known[name]}\n" for name in sorted(known)))
    killed = len(told) - len(survivors)
    print(
        f"{room}: {len(chosen)} of {len(found)} mutants: {killed} killed, {len(survivors)} survived, "
        f"{len(chosen) - len(asked)} equivalent; {100 * killed / max(1, len(told)):.1f} %, "
        f"{time.monotonic() - began:.0f} s"
    )
    return 1 if survivors else 0


def _judge(
    tests: Iterable[str], changing: Sequence[Path], asked: Sequence[Mutant], known: Mapping[str, str], seconds: float
) -> dict[Mutant, str | None]:
    """Mutant → what killed it; without those that can't be judged. `known`: the one test to ask, by mutant."""
    told: dict[Mutant, str | None] = {}
    sources = {path: (SOURCE / path).read_text() for path in {mutant.path for mutant in asked}}

    def work(warm: Warm) -> None:
        for mutant in asked:
            try:
                told[mutant] = warm.killer(mutant, sources[mutant.path], known.get(mutant.name, ""), seconds)
            except ValueError as error:
                print(error, flush=True)
                continue
            if told[mutant] is None and not known:
                print(f"SURVIVES {mutant.path}:{mutant.line}\n{mutant.name}", flush=True)

    places = [str(file) for file in files(ROOT, sorted(tests), "test_*.py")]
    if asked and places:
        run(places, SOURCE, changing, MAPS, work)
    return told


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
