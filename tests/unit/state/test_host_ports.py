"""Host ports by row, of pods with few and with thousands: the same answers, for what they cost."""

from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.model.containers import ANY_IP
from scheduler.model.once import Once
from scheduler.state import ports
from scheduler.state.effort import Effort, SliceOver
from scheduler.state.ports import HostPorts

ROWS = 4
a_port = st.tuples(
    st.sampled_from((ANY_IP, "10.0.0.1", "10.0.0.2")), st.sampled_from(("TCP", "UDP")), st.integers(1, 3)
)
some = st.lists(a_port, min_size=1, max_size=5).map(Once)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(0, ROWS - 1), some), max_size=12), st.data(), st.sampled_from((0, 2, 64)))
def test_what_is_counted_together_is_counted_apart(held: list[Any], data: Any, few: int) -> None:
    """Whatever counts as few: conflicts are those of each pair, also after some pods left."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ports, "FEW", few)
        kept = HostPorts()
        for row, of in held:
            kept.charge(row, of, 1)
        for _ in range(2):
            wanted = data.draw(some)
            should = [
                sum(
                    one[1:] == other[1:] and (one[0] == other[0] or ANY_IP in (one[0], other[0]))
                    for there, of in held
                    if there == row
                    for one in wanted
                    for other in of
                )
                for row in range(ROWS)
            ]
            assert kept.users(wanted, ROWS, Effort()).tolist() == should
            assert [kept.users_on(wanted, row) for row in range(ROWS)] == [number > 0 for number in should]
            by_row = {row: dict(Counter(p for there, of in held if there == row for p in of)) for row, _ in held}
            assert kept.by_row() == by_row
            while held and data.draw(st.booleans()):
                row, of = held.pop()
                kept.charge(row, of, -1)


def _list(start: int) -> Any:
    return Once((ANY_IP, "TCP", number) for number in range(start, start + 2000))


def test_long_lists_are_compared_once() -> None:
    """Pods of one kind on a hundred rows: one entry a row, and one comparison, of which a slice may be the end."""
    kept, effort, wanted = HostPorts(), Effort(), _list(1)
    for row in range(100):
        kept.charge(row, _list(1001 if row % 2 else 5001), 1)
    slices = 0
    while True:
        effort.begin(1)
        try:
            found = kept.users(wanted, 100, effort)
            break
        except SliceOver:
            slices += 1
    assert slices == 2
    assert found.tolist() == [0, 1000] * 50
    assert kept.users_on(wanted, 1)
    assert not kept.users_on(wanted, 0)
    assert kept.compared == 2
    assert kept.kept().on_rows == 100


def test_little_is_remembered_of_what_was_wanted() -> None:
    """Wanted lists, and comparisons with pods that went, do not pile up."""
    kept = HostPorts()
    for i in range(50):
        kept.charge(0, _list(2 * i + 1), 1)
        kept.users(_list(2 * i), 1, Effort())
        kept.charge(0, _list(2 * i + 1), -1)
    found = kept.kept()
    assert found.wanted <= 8
    assert (found.held, found.on_rows, found.compared) == (0, 0, 0)
