"""Selectors through Kubernetes' own compiler and through ours.

`python -m tests.differential.selectors --seeds 0-19` compares generated ones; with `--record` the answers to the corpus
are written anew. Exit code 0: no difference; 1: some.
"""

from __future__ import annotations

import argparse
import gzip
import json
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

from tests.conformance.selectors import ANSWERS, DEVICES, EXPRESSIONS, Answer, asked, differences, view
from tests.controlplane import build
from tests.differential.generate.calls import calling
from tests.differential.generate.corners import corner
from tests.differential.generate.expressions import expression

PER_SEED = 250
"""Of each of the three kinds."""
_ORDERS = 12
"""How often the same question is asked: Go goes over a map in any order."""


class Compiler:
    """The built program."""

    def __init__(self, program: Path) -> None:
        self._program = program

    def answers(self, expressions: Iterable[str], orders: int = _ORDERS) -> list[Answer]:
        """What it says of each expression, for each device all the answers that it gave."""
        given = list(expressions)
        devices = [asked(text, DEVICES) for text in given]
        lines = "".join(
            json.dumps({"expression": text, "devices": some * (orders if _goes_over(text) else 1)}) + "\n"
            for text, some in zip(given, devices, strict=True)
        )
        done = subprocess.run([self._program], input=lines, capture_output=True, text=True)
        if done.returncode != 0:
            raise RuntimeError(f"the compiler ended with {done.returncode}: {done.stderr[-2000:]}")
        answers = map(json.loads, done.stdout.rstrip("\n").split("\n") if done.stdout else ())
        return [_grouped(answer, len(some)) for answer, some in zip(answers, devices, strict=True)]

    def declarations(self) -> str:
        """The functions that the environment declares, one overload a line."""
        done = subprocess.run([self._program, "-functions"], capture_output=True, text=True, check=True)
        return done.stdout


def _goes_over(text: str) -> bool:
    """Whether there may be a loop over a map, and not one that takes the cost limit each time."""
    loops = any(f".{macro}" in text for macro in ("all(", "exists", "map(", "filter(", "transform"))
    return loops and "00)" not in text and ("device" in text or "{" in text)


def _grouped(answer: Answer, devices: int) -> Answer:
    given = answer.get("answers")
    if given is None:
        return answer
    several = []
    for number in range(devices):
        one = given[number::devices]
        several.append([found for index, found in enumerate(one) if found not in one[:index]])
    return {"answers": several}


def compare(compiler: Compiler, expressions: list[str]) -> list[str]:
    """All differences, as lines."""
    devices = [view(device) for device in DEVICES]
    answers = compiler.answers(expressions)
    return [line for text, want in zip(expressions, answers, strict=True) for line in differences(text, devices, want)]


def generated(seed: int) -> list[str]:
    """The expressions of a seed."""
    return [make(seed, number) for make in (expression, calling, corner) for number in range(PER_SEED)]


def record(compiler: Compiler) -> None:
    """Write what the compiler says of the corpus."""
    answers = compiler.answers(EXPRESSIONS, 40)
    text = "".join(json.dumps(answer, ensure_ascii=False, separators=(",", ":")) + "\n" for answer in answers)
    ANSWERS.write_bytes(gzip.compress(text.encode(), mtime=0))
    print(f"{len(answers)} answers in {ANSWERS.stat().st_size} bytes")


def main() -> int:
    """Compare, or record."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", default="0-3")
    parser.add_argument("--record", action="store_true")
    options = parser.parse_args()
    compiler = Compiler(build.CEL.command())
    if options.record:
        record(compiler)
    first, _, last = options.seeds.partition("-")
    found: list[str] = []
    for seed in range(int(first), int(last or first) + 1):
        found += compare(compiler, generated(seed))
    print("\n".join(found))
    print(f"{len(found)} differences")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
