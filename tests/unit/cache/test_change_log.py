"""What a log of changes remembers, and from when on it says that it does not know."""

from random import Random

import pytest

from podberth.cache.kept_results import ChangeLog


@pytest.mark.parametrize("kept", [1, 7, 100])
def test_it_tells_what_changed_or_that_it_does_not_know(kept: int) -> None:
    """The last `kept` changes are always known, those before twice as many never."""
    log: ChangeLog[int] = ChangeLog(start=5, kept=kept)
    chance, all_changes = Random(kept), list[int]()
    for _ in range(5 * kept):
        all_changes.append(chance.randrange(10))
        log.touch(all_changes[-1])
        for ago in range(len(all_changes) + 1):
            found = log.since(log.version - ago)
            if ago <= kept:
                assert found is not None
            if ago > 2 * kept:
                assert found is None
            if found is not None:
                assert found == set(all_changes[len(all_changes) - ago :])


def test_of_before_its_start_nothing_is_known() -> None:
    """A log that replaces another one begins later, so that readers of the other one compute everything."""
    log: ChangeLog[int] = ChangeLog(start=5)
    assert log.since(4) is None
    assert log.since(5) == set()
