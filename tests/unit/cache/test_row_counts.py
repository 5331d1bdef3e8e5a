"""What is counted of each thing, and what changed of it, for sums that catch up."""

from collections import Counter

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from podberth.cache.row_counts import REMEMBERED, RowCounts, Weights

CHANGES = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2)), max_size=12)


STEPS = st.lists(st.tuples(st.sampled_from(["come", "go", "look"]), st.integers(0, 3), st.integers(0, 2)), max_size=30)


def net(counts: RowCounts) -> Counter[tuple[int, int]]:
    found: Counter[tuple[int, int]] = Counter()
    for number, row, count in zip(*map(np.ndarray.tolist, counts.everywhere()), strict=True):
        found[number, row] += count
    return +found


@settings(deadline=None)
@given(STEPS, st.sampled_from([1, 90]))
def test_what_is_counted_is_what_came_and_did_not_go(steps: list[tuple[str, int, int]], times: int) -> None:
    """However often it is looked at, and though journals are written anew without what went."""
    counts, should = RowCounts(), Counter[tuple[int, int]]()
    for step, number, row in steps:
        amount = times if step == "come" else -min(times, should[number, row])
        if step == "look":
            assert net(counts) == should
        elif amount:
            counts.add(number, row, amount)
            should[number, row] += amount
            should = +should
    assert net(counts) == should
    assert len(counts) == should.total()
    for number in range(4):
        assert dict(counts.rows_of(number)) == {row: count for (of, row), count in should.items() if of == number}
        assert counts.entries_of(number) <= max(2 * sum(n for (of, _), n in should.items() if of == number), 2 * 90)


def test_a_journal_does_not_grow_with_what_comes_and_goes() -> None:
    counts = RowCounts()
    counts.add(0, 7, 10)
    for i in range(5_000):
        counts.add(0, i % 5, 1)
        counts.add(0, i % 5, -1)
        if i % 100 == 0:
            assert net(counts) == {(0, 7): 10}
    assert counts.entries_of(0) < 300
    assert len(counts.everywhere().rows) < 4 * REMEMBERED


def counts_with(changes: list[tuple[int, int]], before: int) -> RowCounts:
    """Counts with these (thing, row) added, and so many changes of another thing before. They have been looked at."""
    counts = RowCounts()
    counts.everywhere()
    for i in range(before):
        counts.add(9, i % 2, 1)
    for number, row in changes:
        counts.add(number, row, 1)
    return counts


@settings(deadline=None)
@given(CHANGES, st.integers(0, 12), st.sampled_from([0, 2 * REMEMBERED - 6, 2 * REMEMBERED + 1]))
def test_the_changes_of_one_thing_are_those_of_all_that_are_its(
    changes: list[tuple[int, int]], behind: int, before: int
) -> None:
    """From any version that is remembered, also after the oldest were forgotten."""
    counts = counts_with(changes, before)
    version = max(counts.version - behind, 0)
    assert counts.worth_following(version)
    for number in range(4):
        its = [change for change in counts.since(version) if change[0] == number]
        assert counts.since_of(number, version) == its[::-1]
    weights = Weights()
    weights.set(1, 5)
    weights.set(2, 7)
    wanted = [(row, more, 5 if number == 1 else 7) for number, row, more in counts.since(version) if number in (1, 2)]
    assert sorted(weights.since(counts, version)) == sorted(wanted)
