"""Ask kube-scheduler's own plugins: cases in, answers out, by way of the program in `oracle/`."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterable
from pathlib import Path

from tests.conformance.comparison import Case


class Oracle:
    """The built program. Each call starts it anew: it keeps nothing between cases anyway."""

    def __init__(self, program: Path) -> None:
        self._program = program

    def answers(self, cases: Iterable[Case]) -> list[Case]:
        """{"id", "want"} of each case as it is, or {"id", "error"} when it can't be read."""
        return self._run(cases)

    def vectors(self, cases: Iterable[Case]) -> list[Case]:
        """Each case with the API server's defaults and its `want`, or {"id", "error"} when it is not valid."""
        return self._run(cases, "-default")

    def hints(self, questions: Iterable[Case]) -> list[Case]:
        """{"id", "queue"} of each question to a queueing hint, or {"id", "error"}."""
        return self._run(questions, "-hints")

    def groups(self, cases: Iterable[Case], *options: str) -> list[Case]:
        """{"id", "want"} of each case of pod groups, or {"id", "error"}. `options`: -topology, -composite."""
        return self._run(cases, "-groups", *options)

    def _run(self, cases: Iterable[Case], *options: str) -> list[Case]:
        lines = "".join(json.dumps(case) + "\n" for case in cases)
        done = subprocess.run([self._program, *options], input=lines, capture_output=True, text=True)
        if done.returncode != 0:
            raise RuntimeError(f"the oracle ended with {done.returncode}: {done.stderr[-2000:]}")
        return [json.loads(line) for line in done.stdout.splitlines()]
