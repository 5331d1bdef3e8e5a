"""Legal objects at their largest: how rows are judged, and what the search and each row take of an engine, in steps.

Steps are lines of Python and calls, counted, so that the answer is the same on every machine.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import count, islice
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings

from bench.hostile import page, town
from bench.hostile.engines import Town
from bench.hostile.machine import Machine
from bench.hostile.meters import Cpu, steps
from bench.hostile.recipe import LARGEST, Part, Place, Recipe, found, made
from bench.hostile.row import Row
from bench.hostile.scenario import ONE, Scenario, Write, one, put
from bench.hostile.search import climb, recipes
from bench.hostile.shapes import SCENARIOS
from podberth.kube.reflector import LARGE_BYTES

NODES = 100
TURN = 2.5 * ONE["turn_ms"] / 1000
"""Seconds of steps in one turn: more than a turn may take, as steps of decoding take less than they stand for."""
WRITES = 60
"""Of a crowd, so many are enough to see what each costs."""
CLIMB = 40
BROKEN: dict[str, str] = {}
"""Rows that are known to be broken, and why. One that is mended has to leave this list."""
EVERYTHING = [
    pytest.param(
        one, id=one.name, marks=[pytest.mark.xfail(reason=BROKEN[one.name], strict=True)] if one.name in BROKEN else []
    )
    for one in [*SCENARIOS, *found()]
]


@pytest.fixture(scope="module")
def small() -> Town:
    """A town in which each row can be counted; rows leave it as it is."""
    return Town(NODES)


def test_a_row_is_broken_by_what_is_above_its_bound_or_was_not_measured() -> None:
    """Equal is held; a bound that nobody measured is broken."""
    row = Row("scheduler", "Pod", "x", "", 1, 1, {"turn_ms": 20.0, "others_ms": 100.1}, {"turn_ms": 20.0})
    assert row.held
    assert msgspec.structs.replace(row, bounds={"others_ms": 100.0}).broken == ["others_ms"]
    assert msgspec.structs.replace(row, bounds={"memory_mb": 1.0}).broken == ["memory_mb"]


def test_the_table_holds_rows_to_their_bounds() -> None:
    """A part each; the end names the broken ones."""
    row = Row(
        "scheduler", "Pod", "x", "one | two", 1500, 2, {"turn_ms": 20.04, "p99_times": 1.5}, {"turn_ms": 20.0}, "n"
    )
    *_, shown, _, said = page.tables([row]).splitlines()
    assert shown == "| x | Pod | 2 | 1.5 | 20.0 ✗ ≤ 20 | 1.5 | **broken** | one / two (n) |"
    assert said == "0 of 1 rows held. Broken: x."


def test_the_page_has_the_worst_row_of_each_measure() -> None:
    """A broken row before one that costs more and may; what is not bounded is left out."""
    one = Row("scheduler", "Pod", "x", "one", 1, 1, {"turn_ms": 8.0, "total_ms": 99.0}, {"turn_ms": 5.0})
    more = Row("scheduler", "Pod", "y", "two", 1, 1, {"turn_ms": 9.0, "total_ms": 98.0}, {"turn_ms": 20.0})
    assert page.summary([more, one]).splitlines()[2:] == [
        "| scheduler | 2 | turn ms | 8.0 ✗ ≤ 5 | x | one |",
        "",
        "1 of 2 rows held. Broken: x.",
    ]


def test_others_wait_for_the_turn_of_a_hostile_object() -> None:
    """The machine's clock goes on by what a turn takes: who comes meanwhile waits for the rest of it."""

    class Fixed(Cpu):
        """Half a second for the decoding of the hostile pod, nothing for all else."""

        def end(self) -> float:
            return 0.5 if machine.doing == "decode Pod" else 0.0

    own = Town(20)
    machine = Machine(own.engine, own.decoder, Fixed())
    gated = town.pod("gated", town.TENANT, {}, {"schedulingGates": [{"name": "example.com/never"}]})
    others = map(town.encoded, map(town.ordinary, count()))
    machine.run(iter([put(gated)]), others, every=0.1, seconds=1.0)
    assert machine.turns.longest == pytest.approx(0.5)
    assert machine.turns.what == "decode Pod"
    # It comes at 0.25 s and ends at 0.75 s; those of 0.3, 0.4, … 0.7 s wait for that.
    assert sorted(machine.waits)[-5:] == pytest.approx([0.05, 0.15, 0.25, 0.35, 0.45])
    assert machine.waiting() == 0


def test_who_came_before_the_first_hostile_object_does_not_count() -> None:
    """They wait for what a process does the first time, hostile objects or not."""

    class Fixed(Cpu):
        """A second for the first cycle, nothing for all else."""

        first = True

        def end(self) -> float:
            took = 1.0 if self.first and machine.doing == "Cycle" else 0.0
            self.first = self.first and not took
            return took

    own = Town(20)
    machine = Machine(own.engine, own.decoder, Fixed())
    others = map(town.encoded, map(town.ordinary, count()))
    machine.run(iter(()), others, every=0.1, seconds=2.0)
    # The one of 0 s has the first cycle; those of 0.1 and 0.2 s wait for it, too, and come before 0.25 s.
    assert len(machine.waits) == len(range(3, 20))
    assert max(machine.waits) == pytest.approx(0.7)


def test_a_pod_that_came_just_before_the_cut_is_not_left_out() -> None:
    """It has waited for nobody yet. One that nobody served for so long is."""
    own = Town(1)
    machine = Machine(own.engine, own.decoder, Cpu(), patience=0.0)
    full = [town.encoded(town.pod(f"no-room-{i}", "others", {}, cpu="100")) for i in range(4)]
    machine.run(iter(()), iter(full), every=0.1, seconds=0.3)
    machine.now = 0.35
    assert [machine.waiting(seconds) for seconds in (0.0, 0.2, 0.3, 0.4)] == [3, 2, 1, 0]


def test_a_large_object_is_decoded_beside_the_loop() -> None:
    """That is no turn; but pods of others, which the same watch brings, wait for the object before them."""

    class Fixed(Cpu):
        """Half a second for what may take as long as it does, nothing for all else."""

        def begin(self, *, bounded: bool = True) -> None:
            self.cost = 0.0 if bounded else 0.5

        def end(self) -> float:
            return self.cost

    own = Town(20)
    machine = Machine(own.engine, own.decoder, Fixed())
    note = {"example.com/note": "x" * LARGE_BYTES}
    gated = town.pod("gated", town.TENANT, {}, {"schedulingGates": [{"name": "example.com/never"}]})
    gated["metadata"]["annotations"] = note
    others = map(town.encoded, map(town.ordinary, count()))
    machine.run(iter([put(gated)]), others, every=0.1, seconds=1.0)
    assert machine.turns.longest == 0.0
    assert (machine.beside.what, machine.beside.longest) == ("decode Pod", 0.5)
    # It comes at 0.25 s and is there at 0.75 s; those of 0.3, 0.4, … 0.7 s come after it.
    assert sorted(machine.waits)[-5:] == pytest.approx([0.05, 0.15, 0.25, 0.35, 0.45])
    assert machine.waiting() == 0


def test_a_fork_leaves_the_town_as_it_was(small: Town) -> None:
    """What one row does to the engine, the next one does not see."""
    before = len(small.engine.cluster)
    lost = Scenario("x", "Pod", "", one(lambda: town.pod("p", town.TENANT, {}, {"nodeName": "node-0"})))
    measured = small.measure(lost, 0.1, 0.02)
    assert measured.bound > 0
    assert len(small.engine.cluster) == before


def test_steps_are_the_same_each_time(small: Town) -> None:
    """A count, not a time."""
    scenario = next(one for one in SCENARIOS if one.name == "gates-20000")
    first, second = (small.measure(scenario, 0.1, 0.02, steps(1.0, 1.0)) for _ in range(2))
    assert first.turn == pytest.approx(second.turn, rel=0.02)
    assert first.turn > 0


@given(recipes)
@settings(max_examples=20, deadline=None, derandomize=True)
def test_recipes_are_fitted_to_an_object(recipe: Recipe) -> None:
    """What a search tries is no larger than the API server takes."""
    assert len(town.encoded(made(recipe))) <= 1.1 * LARGEST


def test_a_recipe_survives_its_file(tmp_path: Path) -> None:
    """What a search has found is read back as it was."""
    recipe = Recipe((Part(Place.APART, 700),), placed=3)
    file = tmp_path / "found.json"
    file.write_bytes(msgspec.json.encode(recipe))
    assert msgspec.json.decode(file.read_bytes(), type=Recipe) == recipe


@pytest.mark.parametrize("scenario", EVERYTHING)
def test_no_turn_is_long(small: Town, scenario: Scenario) -> None:
    """Whatever the object: nobody holds the loop for long. A crowd is cut short when that much is seen of it."""

    def first(nodes: int) -> Iterator[Write]:
        return islice(scenario.writes(nodes), WRITES)

    measured = small.measure(replace(scenario, writes=first), 0.3, 0.02, steps(TURN, 10 * TURN))
    assert measured.turn <= 1000 * TURN, f"{measured.what} takes more than {measured.turn:.0f} ms"


def test_a_search_finds_nothing_long(small: Town) -> None:
    """A short climb towards cost, the same each time."""
    (dearest, measured), *_ = climb(small, CLIMB, 12, lambda: steps(TURN, 10 * TURN))
    assert measured.turn <= 1000 * TURN, (
        f"{measured.what} takes more than {measured.turn:.0f} ms: {msgspec.json.encode(dearest)!r}"
    )
