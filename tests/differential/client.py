"""Ask kube-scheduler's own plugins: cases in, answers out, by way of the program in `oracle/`.

Gates that a case's configuration switches on for Berth, by `featureGates` of plugins, are on in kube-scheduler, too.
"""

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
        """{"id", "want"} of each case of pod groups, or {"id", "error"}. `options`: -topology."""
        return self._run(cases, "-groups", *options)

    def _run(self, cases: Iterable[Case], *options: str) -> list[Case]:
        given = list(cases)
        asked = [_without_gates(case) for case in given]
        found: dict[int, Case] = {}
        for gates in {gates for _, gates in asked}:
            numbers = [i for i, one in enumerate(asked) if one[1] == gates]
            switched = ("-gates", ",".join(f"{gate}=true" for gate in sorted(gates))) if gates else ()
            answers = self._ask((asked[i][0] for i in numbers), *options, *switched)
            for i, answer in zip(numbers, answers, strict=True):
                found[i] = answer | ({"config": given[i]["config"]} if "config" in answer else {})
        return [found[i] for i in range(len(given))]

    def _ask(self, cases: Iterable[Case], *options: str) -> list[Case]:
        lines = "".join(json.dumps(case) + "\n" for case in cases)
        done = subprocess.run([self._program, *options], input=lines, capture_output=True, text=True)
        if done.returncode != 0:
            raise RuntimeError(f"the oracle ended with {done.returncode}: {done.stderr[-2000:]}")
        return [json.loads(line) for line in done.stdout.splitlines()]


def _without_gates(case: Case) -> tuple[Case, frozenset[str]]:
    """The case with a configuration that kube-scheduler reads, and the gates that its own one switches on."""
    if "featureGates" not in case.get("config", ""):
        return case, frozenset()
    config, gates = json.loads(case["config"]), set[str]()
    for profile in config["profiles"]:
        arguments = profile.get("pluginConfig", [])
        for plugin in arguments:
            switched = plugin["args"].pop("featureGates", {})
            gates |= {gate for gate, is_on in switched.items() if is_on}
        profile["pluginConfig"] = [plugin for plugin in arguments if plugin["args"]]
    return {**case, "config": json.dumps(config)}, frozenset(gates)
