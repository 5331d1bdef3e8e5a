"""A long run of seeds goes on where it was ended, and counts nothing that other code has told."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from unittest.mock import patch

import pytest

from tests.storm import __main__ as storm
from tests.storm.plan import Plan
from tests.storm.results import Results, Told, state
from tests.storm.world import Outcome


class Runs:
    """In place of runs: seeds that are run, of which one violates something, and one is interrupted once."""

    def __init__(self, violates: str = "", interrupted: str = "") -> None:
        self.seeds: list[str] = []
        self._violates = violates
        self._interrupted = interrupted

    def __call__(self, plan: Plan, *, keep: bool = False) -> Outcome:
        self.seeds.append(plan.seed)
        if plan.seed == self._interrupted:
            self._interrupted = ""
            raise KeyboardInterrupt
        violations = ["I1: twice"] if plan.seed == self._violates else []
        bound = Counter(bound=2)
        return Outcome(plan, violations, "", Counter(kill=1), Counter({"code=500": 3}), bound, 1, [])


def _storm(path: Path, runs: Runs, seeds: range) -> int:
    with patch.object(storm, "run", runs):
        return storm.storm(seeds, Results(path), shrinks=False, trace=False)


def test_a_run_goes_on_where_it_was_ended(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What was done is not done again, and is counted; a seed that failed before fails the whole run."""
    path, runs = tmp_path / "deep" / "results", Runs(violates="11", interrupted="12")
    assert _storm(path, runs, range(10, 15)) == 130
    assert "ended at 2 of 5 seeds" in capsys.readouterr().out
    runs.seeds.clear()
    assert _storm(path, runs, range(10, 15)) == 1
    assert runs.seeds == ["12", "13", "14"]
    told = capsys.readouterr().out
    assert "2 of 5 seeds were run before" in told
    assert "5 runs, 10 pods bound" in told
    assert "15 code=500" in told
    assert "failing: 1 [11]" in told


def test_other_ranges_share_what_is_known(tmp_path: Path) -> None:
    """Parts of a range may be run one by one."""
    path, runs = tmp_path / "results", Runs()
    assert _storm(path, runs, range(2)) == 0
    assert _storm(path, runs, range(4, 6)) == 0
    runs.seeds.clear()
    assert _storm(path, runs, range(6)) == 0
    assert runs.seeds == ["2", "3"]


def test_a_line_that_was_cut_off_counts_for_nothing(tmp_path: Path) -> None:
    """A run was killed while it wrote; what is written later has a line of its own."""
    path = tmp_path / "results"
    Results(path).add(Told(1, ("I1",)))
    Results(path).add(Told(2))
    path.write_bytes(path.read_bytes()[:-3])
    results = Results(path)
    assert results.by_seed == {1: Told(1, ("I1",))}
    results.add(Told(2, hole=True))
    results.add(Told(3))
    assert Results(path).by_seed == {1: Told(1, ("I1",)), 2: Told(2, hole=True), 3: Told(3)}


def test_each_state_of_the_code_has_results_of_its_own(tmp_path: Path) -> None:
    """Code and the storm's own modules count. What no seed loads does not: tests, scenes, mutants, commands."""
    ran = ("scheduler/podberth/engine/queue.py", "scheduler/podberth/policy/schema.json", "tests/storm/judge.py")
    aside = ("tests/storm/test_storm.py", "tests/storm/found.py", "tests/storm/mutants_groups.py")
    commands = ("scheduler/podberth/cli/run.py", "scheduler/podberth/explain/lint/rules.py")
    for path in (*ran, *aside, *commands):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text("before")
    before = state(tmp_path)
    for path in (*aside, *commands):
        (tmp_path / path).write_text("after")
        assert state(tmp_path) == before
    for path in ran:
        (tmp_path / path).write_text("after")
        assert state(tmp_path) != before
        (tmp_path / path).write_text("before")
    assert state() == state()
