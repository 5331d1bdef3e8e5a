"""What changed of each thing, for sums that catch up."""

from hypothesis import given, settings
from hypothesis import strategies as st

from podberth.cache.row_counts import REMEMBERED, RowCounts, Weights

CHANGES = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2)), max_size=12)


def counts_with(changes: list[tuple[int, int]], before: int) -> RowCounts:
    """Counts with these (thing, row) added, and so many changes of another thing before."""
    counts = RowCounts()
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
