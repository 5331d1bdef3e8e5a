"""The simulated world: no seed of the budget violates an invariant, and a seed is a bug report."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import time
from functools import cache
from itertools import takewhile
from pathlib import Path
from unittest.mock import patch

import pytest
from aiohttp import connector

from tests.storm.__main__ import BUDGET, judged, run_of
from tests.storm.casting import EVICTOR, POLICIES
from tests.storm.found import FOUND, Found
from tests.storm.happenings import at
from tests.storm.judge import served_since
from tests.storm.judge_evictions import asked_for, latest_before
from tests.storm.mutants_groups import MUTANTS, named
from tests.storm.plan import Plan, plan
from tests.storm.results import depends_on
from tests.storm.seeds import CAUGHT_BY, OPEN, SCENES, UNCAUGHT, without_holes
from tests.storm.shrink import invariants, shrink
from tests.storm.towns import scene
from tests.storm.world import Outcome, run

SECONDS = 75.0
"""Of CPU: the seeds that there is no time for are those of the next machine, not a failure."""
LEAST = 50
PARTS = 10


@pytest.mark.parametrize("part", range(PARTS))
def test_no_invariant_is_violated(part: int) -> None:
    """The budget of CI: I1 to I6, who leads, and that all is well when the faults have ended."""
    began = time.process_time()
    seeds = takewhile(lambda seed: seed < LEAST or time.process_time() - began < SECONDS / PARTS, BUDGET[part::PARTS])
    failing = {}
    for seed in seeds:
        made = plan(seed)
        if wrong := judged(made, _ran(made)):
            failing[seed] = wrong
    assert not failing, f"make storm SEEDS={next(iter(failing))} shows and shrinks it"


@pytest.mark.parametrize("found", FOUND, ids=lambda found: found.name)
def test_found(found: Found) -> None:
    """What a seed found once stays mended."""
    assert _ran(found.scene).violations == []


def test_open_holes() -> None:
    """Each hole in the list is still there: once it is mended, its example belongs into FOUND."""
    for hole in OPEN:
        assert run(hole.example).violations, hole.name
        assert run(without_holes(hole.example)).violations == [], hole.name


@pytest.mark.parametrize("name", CAUGHT_BY)
def test_mutants(name: str) -> None:
    """Each bug that is put in is caught by what `make storm MUTANTS=1` has found for it."""
    made = run_of(CAUGHT_BY[name])
    with named(name).put_in():
        assert run(made, to_the_end=False).violations
    assert _ran(made).violations == []


@cache
def _ran(made: Plan) -> Outcome:
    """What came of a run without mutants: several tests ask for the same ones."""
    return run(made)


def test_no_mutant_is_forgotten() -> None:
    """Each is caught, or is in the list of those that nothing catches yet."""
    assert {one.name for one in MUTANTS} == CAUGHT_BY.keys() | UNCAUGHT.keys()
    assert not CAUGHT_BY.keys() & UNCAUGHT.keys()


@pytest.mark.parametrize("who", [(), (EVICTOR,), (POLICIES,)])
def test_the_same_seed_is_the_same_run(who: tuple[str, ...]) -> None:
    """Line by line, in this process and in others that hash differently; and all that these load is in the name of
    the file that keeps what seeds have told."""
    seed = next(seed for seed in BUDGET if plan(seed).cast == who and len(plan(seed).happenings) > 20)
    first, second = run(plan(seed), keep=True), run(plan(seed), keep=True)
    assert first.trace == second.trace
    assert len(first.trace) > 1000
    code = f"""
import sys
from tests.storm.plan import plan
from tests.storm.world import run

print(run(plan({seed})).digest)
print(*filter(None, (getattr(module, "__file__", "") for module in tuple(sys.modules.values()))), sep="\\n")
"""
    root, known = Path(__file__).parents[2], set(depends_on())
    for hashing in ("1", "2"):
        done = subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": hashing},
            cwd=root,
            capture_output=True,
            text=True,
            check=True,
        )
        digest, *files = done.stdout.split("\n")
        assert digest == first.digest
        loaded = {path.removeprefix(f"{root}/") for path in files}
        assert {path for path in loaded if path.startswith(("scheduler/", "tests/"))} <= known
        assert "tests/storm/world.py" in loaded


def test_a_slow_machine_makes_no_difference() -> None:
    """How long a run takes decides nothing: aiohttp counts by the simulated clock how long a connection is idle."""
    made = SCENES["policies"]
    with patch.object(connector, "monotonic", map((20.0).__mul__, itertools.count()).__next__):
        slow = run(made)
    assert slow.digest == _ran(made).digest


def test_what_is_left_out_leaves_the_rest() -> None:
    """A happening takes its chances from a generator of its own: others fall as they did."""
    work = at(1.0, "want", namespace="blue", name="w1", cpu=100, replicas=4)
    some = at(100.0, "requests", what="create pods/binding", chance=0.5, seconds=10.0, code=503)
    both = run(scene("part", work, some), keep=True)
    one = run(scene("part", work), keep=True)
    before = [line for line in both.trace if float(line.split()[0]) < 100.0]
    assert before == [line for line in one.trace if float(line.split()[0]) < 100.0]


def test_a_failing_run_shrinks() -> None:
    """To the happening that it fails for."""
    with named("no-uid").put_in():
        small = shrink(plan(0), lambda smaller: "I1" in invariants(run(smaller)))
    assert [happening.kind for happening in small.happenings] == ["want"]


def test_the_judge_does_not_count_what_nobody_could_have_heard() -> None:
    """An absence of the API server, and the backoff after it, makes longer what may be unknown (seed 20260)."""
    assert served_since(130.0, 100.0, []) == 100.0
    assert served_since(130.0, 100.0, [(10.0, 20.0)]) == 100.0
    assert served_since(130.0, 100.0, [(100.0, 120.0)]) == 100.0 + 20.0 + 20.0
    assert served_since(150.0, 100.0, [(20.0, 45.0), (100.0, 160.0)]) == 100.0 + (50.0 + 30.0) + (25.0 + 25.0)


def test_the_judge_blames_nobody_for_what_was_sent_later() -> None:
    """An eviction keeps away from those that are over or under way, and not from one that overtakes it (seed 30321)."""
    assert latest_before(10.0, []) == float("-inf")
    assert latest_before(10.0, [(1.0, 2.0), (3.0, 5.0)]) == 5.0
    assert latest_before(10.0, [(1.0, 2.0), (9.0, 12.0)]) == 12.0
    assert latest_before(10.0, [(1.0, 2.0), (10.5, 11.0)]) == 2.0


def test_an_eviction_is_of_a_uid() -> None:
    """V2 is about the pod that a request means. One for a pod that is gone is refused, though another has its name."""
    head = b"POST /api/v1/namespaces/green/pods/p1-1/eviction HTTP/1.1\r\nHost: api\r\n\r\n"
    assert asked_for(head + b'{"deleteOptions":{"preconditions":{"uid":"u-1"}}}') == ("green/p1-1", "u-1")
    assert asked_for(head + b"{}") == ("green/p1-1", "")
    assert asked_for(b"GET /api/v1/nodes HTTP/1.1\r\n\r\n") is None
