"""Host ports by row: the conflicts are those of each pair of ports."""

from collections import Counter
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from podberth.cache.nodes import HostPorts
from podberth.model.shape import ANY_IP

ROWS = 4
a_port = st.tuples(
    st.sampled_from((ANY_IP, "10.0.0.1", "10.0.0.2")), st.sampled_from(("TCP", "UDP")), st.integers(1, 3)
)
some = st.lists(a_port, min_size=1, max_size=5).map(tuple)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(0, ROWS - 1), some), max_size=12), st.data())
def test_what_is_counted_together_is_counted_apart(held: list[Any], data: Any) -> None:
    """Also after some pods left."""
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
        assert kept.users(wanted, ROWS).tolist() == should
        assert [kept.users_on(wanted, row) for row in range(ROWS)] == should
        by_row = {row: dict(Counter(p for there, of in held if there == row for p in of)) for row, _ in held}
        assert kept.by_row() == by_row
        while held and data.draw(st.booleans()):
            row, of = held.pop()
            kept.charge(row, of, -1)
