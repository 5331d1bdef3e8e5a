"""How many small changes of the code the tests notice: `python -m tests.mutants plugins --sample 300`."""

from __future__ import annotations

import argparse
import hashlib
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from tests.mutants.mutations import Mutant, mutants
from tests.mutants.session import Warm, run

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "scheduler"
EQUIVALENT = Path(__file__).with_name("equivalent.txt")
UNIT = "tests/unit"
ANSWERS = ("tests/conformance/test_vectors.py", "tests/differential/test_found.py", "tests/differential/test_tables.py")
ROOMS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "plugins": (("plugins",), (f"{UNIT}/plugins", *ANSWERS)),
    "policy": (("policy/*.py", "policy/native"), (f"{UNIT}/policy/test_*.py",)),
    "framework": (("framework",), (f"{UNIT}/framework", f"{UNIT}/plugins", *ANSWERS)),
    "queue": (
        tuple(f"engine/{name}.py" for name in ("heaps", "nominator", "queue", "queued", "unschedulable_pods", "waves")),
        (f"{UNIT}/engine/test_*.py",),
    ),
    "cache": (("state",), (f"{UNIT}/state", f"{UNIT}/plugins", *ANSWERS)),
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
    """Mutants that do what the code does, by name, each with the reason."""
    found, reason = {}, ""
    for line in EQUIVALENT.read_text().splitlines():
        if line.startswith("# "):
            reason = line[2:]
        elif line:
            found[line] = reason
    return found


def judge(warm: Warm, chosen: Iterable[Mutant]) -> Iterator[tuple[Mutant, str | None]]:
    """(mutant, what killed it or None), without those that don't fit."""
    for mutant in chosen:
        try:
            yield mutant, warm.killer(mutant, (SOURCE / mutant.path).read_text())
        except ValueError as error:
            print(error, flush=True)


def main(argv: Sequence[str]) -> int:
    """The exit code: 1 if a mutant survives that is not in the list of equivalent ones."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("rooms", nargs="*", metavar="room", help=f"of {', '.join(ROOMS)}; all without")
    parser.add_argument("--files", default="*.py", help="only files of this name, such as weights.py")
    parser.add_argument("--sample", type=int, help="only so many of each room, chosen by --seed")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--named", type=Path, help="only mutants that this file names, such as an earlier output")
    parser.add_argument("--tests", nargs="+", help="these tests instead of the room's")
    parser.add_argument("--all", action="store_true", help="print what kills each mutant, too")
    given = parser.parse_args(argv)
    unknown = [room for room in given.rooms if room not in ROOMS]
    if unknown:
        parser.error(f'"{unknown[0]}" is no room: expected {", ".join(ROOMS)}')
    return max([_room(room, given) for room in given.rooms or ROOMS])


def _room(room: str, given: argparse.Namespace) -> int:
    known = equivalent()
    places, tests = ROOMS[room]
    found = [
        mutant
        for file in files(SOURCE, places, given.files)
        for mutant in mutants(str(file.relative_to(SOURCE)), file.read_text())
    ]
    if given.named:
        named = set(given.named.read_text().splitlines())
        found = [mutant for mutant in found if mutant.name in named]
    chosen = sample(found, given.sample, given.seed)
    count, began = Counter[str](), time.monotonic()

    def work(warm: Warm) -> None:
        for failed in warm.covered.failed:
            print(f"{failed} fails without any change")
        for mutant, killer in judge(warm, chosen):
            if killer is None:
                count["equivalent" if mutant.name in known else "survived"] += 1
            else:
                count["killed"] += 1
            if given.all or (killer is None and mutant.name not in known):
                print(f"{killer or 'SURVIVES'} {mutant.path}:{mutant.line}\n{mutant.name}", flush=True)

    run([str(file) for file in files(ROOT, given.tests or tests, "test_*.py")], SOURCE, work)
    judged = sum(count.values())
    share = 100 * count["killed"] / max(1, judged - count["equivalent"])
    print(
        f"{room}: {judged} of {len(found)} mutants, {count['killed']} killed, {count['survived']} survived, "
        f"{count['equivalent']} equivalent: {share:.1f} %, {time.monotonic() - began:.0f} s"
    )
    return 1 if count["survived"] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
