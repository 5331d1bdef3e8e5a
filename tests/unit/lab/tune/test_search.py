"""A search is the same on any workers and after any interruption, and learns; what it finds is judged in pairs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from podberth.explain.objects.documents import ObjectError
from podberth.lab.tune.goals import bound
from podberth.lab.tune.judge import Figure, figure, judged
from podberth.lab.tune.search import Candidate, Search
from podberth.lab.tune.space import packed
from podberth.lab.tune.trial import Task, carried_out, learn, periods_of
from tests.builders import node, pod
from tests.unit.lab.tune.courses import FRAGMENTATION, PACKING, Computed, course, small, varied
from tests.unit.lab.worlds import comes, configured, world

BOUNDS = (bound("fragmentation=2", least=False),)


def search(file: Path | None = None, **options: Any) -> Search:
    """Return a search for two goals with a bound."""
    return Search(course(), varied(), (PACKING, FRAGMENTATION), options.pop("bounds", BOUNDS), file=file, **options)


def silent(done: int, of: int) -> None:
    """Take the progress and say nothing."""


def test_one_seed_one_search() -> None:
    """Two searches of one seed have equal trials, those of another seed differ; the base comes first."""
    first, again, other = search(), search(), search(seed=1)
    for each in (first, again, other):
        each.go_on(Computed(), 45, silent)
    assert first.done == again.done
    assert first.done[1:] != other.done[1:]
    assert first.done[0].values == varied().begin()


def test_an_interruption_changes_nothing(tmp_path: Path) -> None:
    """Ctrl-C in the middle, and once more: with its file, a search ends as one that nobody interrupted."""
    whole = search()
    whole.go_on(Computed(), 50, silent)
    file = tmp_path / "study.journal"
    for answers in (7, 60):
        with pytest.raises(KeyboardInterrupt):
            search(file).go_on(Computed(answers), 50, silent)
    rest = search(file)
    assert 30 <= len(rest.done) < 40
    workers = Computed()
    rest.go_on(workers, 50, silent)
    assert rest.done == whole.done
    assert len(workers.tasks) < 2 * 25, "what was known is not run again"
    assert search(file).done == whole.done


def test_it_learns() -> None:
    """The trials of the end are better than those that were drawn at random."""
    found = search(bounds=())
    found.go_on(Computed(), 100, silent)
    sums = [each.measured["packing"] + each.measured["fragmentation"] for each in found.done]
    assert sum(sums[-30:]) < 0.8 * sum(sums[1:31])


def test_the_front_and_the_choice() -> None:
    """The front keeps to the bounds, and no trial beats another of it; the choice is near the best of all goals."""
    found = search()
    found.go_on(Computed(), 60, silent)
    front = found.front()
    assert all(each.measured["fragmentation"] <= 2 for each in front)
    pairs = [(each.measured["packing"], each.measured["fragmentation"]) for each in front]
    assert pairs == sorted(pairs), "the best of the first goal comes first"
    assert [second for _, second in pairs] == sorted((second for _, second in pairs), reverse=True)
    assert len(set(pairs)) == len(pairs)
    chosen = found.chosen(
        [
            Candidate(1, {}, {"packing": 0.0, "fragmentation": 10.0}),
            Candidate(2, {}, {"packing": 1.0, "fragmentation": 1.0}),
            Candidate(3, {}, {"packing": 10.0, "fragmentation": 0.0}),
        ]
    )
    assert chosen.number == 2


def test_a_bound_that_nothing_keeps() -> None:
    """The front is what misses it by the least."""
    found = search(bounds=(bound("packing=-1", least=False),))
    found.go_on(Computed(), 10, silent)
    least = min(each.measured["packing"] for each in found.done)
    assert [each.measured["packing"] for each in found.front()] == [least]


@pytest.mark.parametrize("change", ["seed", "at_once", "bounds", "goals", "world", "vary"])
def test_the_file_of_another_search(tmp_path: Path, change: str) -> None:
    """A file is refused if anything that the results follow from is not the same."""
    file = tmp_path / "study.journal"
    search(file).go_on(Computed(), 2, silent)
    there, space, goals = course(), varied(), (PACKING, FRAGMENTATION)
    there = course(small(25)) if change == "world" else there
    space = space.narrowed(["weight.*"]) if change == "vary" else space
    goals = goals[:1] if change == "goals" else goals  # type: ignore[assignment]
    with pytest.raises(ObjectError, match="is of another search"):
        Search(
            there,
            space,
            goals,
            () if change == "bounds" else BOUNDS,
            file=file,
            **{change: 3} if change in ("seed", "at_once") else {},
        )


@pytest.mark.parametrize("content", ["not a journal\n", '{"op_code": 4}\n', "[]\n"])
def test_a_file_that_is_no_study(tmp_path: Path, content: str) -> None:
    """Anything else is named, and not overwritten."""
    file = tmp_path / "notes.txt"
    file.write_text(content)
    with pytest.raises(ObjectError, match=r"--study: .*notes.txt: expected a file that berth tune has made"):
        search(file)
    assert file.read_text() == content


def test_a_torn_end(tmp_path: Path) -> None:
    """A process that ended while it wrote leaves half a line; the search goes on without it."""
    file = tmp_path / "study.journal"
    search(file).go_on(Computed(), 20, silent)
    whole = search()
    whole.go_on(Computed(), 25, silent)
    lines = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(b"".join(lines[:-1]) + lines[-1][:9])
    rest = search(file)
    assert len(rest.done) == 19
    rest.go_on(Computed(), 25, silent)
    assert rest.done == whole.done


# --- periods ----------------------------------------------------------------------------------------------------------


def test_periods() -> None:
    """As many pods come in each; those that are there at its begin come first, and do not count; the last judges."""
    found = periods_of(small(), 3, 1)
    assert [each.counted for each in found] == [8, 8, 8]
    assert [each.held_out for each in found] == [False, False, True]
    assert [len(each.world.arrivals) for each in found] == [8, 13, 13]
    assert all(each.at < found[1].warm for each in found[1].world.arrivals[:5])
    assert found[0].name == "0 to 80 s"


def test_pods_that_come_at_once_are_parted() -> None:
    """A dump has no time: each period has all nodes, and its part of the pods."""
    there = world([node("a")], *(comes(pod(f"p{i}", "1")) for i in range(7)))
    found = periods_of(there, 2, 1)
    assert [len(each.world.arrivals) for each in found] == [4, 3]
    assert found[1].name == "pods 2 of 2"


def test_too_few_pods() -> None:
    """A world in which nothing comes can't be divided."""
    with pytest.raises(ObjectError, match="--periods: 3: 4 pods come in this world: expected 2 in each period"):
        periods_of(small(4), 3, 1)


# --- judging ----------------------------------------------------------------------------------------------------------


def test_figures() -> None:
    """Student's interval of three values, and of one."""
    assert figure([1.0]) == Figure(1.0, 1.0, 1.0)
    found = figure([1.0, 2.0, 3.0])
    assert (found.mean, round(found.high, 3)) == (2.0, 4.484)


def test_judged_in_pairs() -> None:
    """Base and candidate run on the same periods with the same seeds; held-out periods are apart from training."""
    there, space = course(), varied()
    better = space.configuration({**space.begin(), "weight.NodeResourcesFit": 7})
    executor = Computed()
    base, found = judged(
        there, "course", {"base": packed(space.base), "7": packed(better)}, (0, 1, 2), executor, silent
    )
    assert len(executor.tasks) == 2 * (2 + 3), "training periods have one seed, the held-out one has all"
    assert base.held_out["packing"].mean - found.held_out["packing"].mean == 6
    assert found.better["packing"] == Figure(6.0, 6.0, 6.0)
    assert (found.wins["packing"], found.wins["fragmentation"]) == (3, 0)
    assert found.training["fragmentation"].mean == pytest.approx(3.05)
    assert found.held_out["fragmentation"].mean == pytest.approx(3.2)


def test_a_task_by_itself() -> None:
    """A task of a real run has a number for each goal, the same each time; packing packs."""
    learn("course", course().packed())
    spread, full, again = (
        carried_out(Task("course", packed(configured(strategy)), 1, 0))
        for strategy in ("LeastAllocated", "MostAllocated", "MostAllocated")
    )
    assert full["packing"] < spread["packing"]
    assert full == again
    assert msgspec.json.decode(packed(varied().base))["kind"] == "KubeSchedulerConfiguration"
