"""Results by node are repaired for the rows that changed, made anew where there are many, and whole after a failure."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from podberth.cache.nodes import Nodes
from podberth.cache.per_node import ALL_ROWS, Bounded, PerNode


class Copied(PerNode):
    """The number of pods of each row, as it was when it was computed."""

    def __init__(self) -> None:
        super().__init__()
        self.values: list[int] = []
        self.fails = False

    def compute_all(self, nodes: Nodes, *asked: Any) -> None:
        """All rows."""
        if self.fails:
            raise RuntimeError("not now")
        self.values = nodes.pods[: nodes.rows].tolist()

    def compute_rows(self, nodes: Nodes, rows: set[int], *asked: Any) -> None:
        """Some rows."""
        for row in rows:
            if self.fails:
                raise RuntimeError("not now")
            self.values[row] = int(nodes.pods[row])


def some(rows: int) -> Nodes:
    nodes = Nodes()
    for i in range(rows):
        nodes.ensure_row(f"n{i}")
    return nodes


@given(
    st.integers(1, 20),
    st.lists(st.one_of(st.sets(st.integers(0, 19), max_size=5), st.sampled_from(["grow", "fail", "other"]))),
)
def test_always_right(rows: int, steps: list[set[int] | str]) -> None:
    """After any changes, new rows, failures and other nodes, as it would be computed now."""
    nodes, kept = some(rows), Copied()
    for step in steps:
        if step == "grow":
            nodes.ensure_row(f"more-{nodes.rows}")
        elif step == "other":
            nodes = some(rows)
        elif isinstance(step, set):
            for row in step & set(range(nodes.rows)):
                nodes.pods[row] += 1
                nodes.log.touch(row)
        kept.fails = step == "fail"
        try:
            kept.renew(nodes, nodes.log)
        except RuntimeError:
            kept.fails = False
            kept.renew(nodes, nodes.log)
        assert kept.values == nodes.pods[: nodes.rows].tolist()


def test_few_rows_are_repaired() -> None:
    """Up to one in eight, and one of however few; beyond, all are computed."""
    nodes, kept = some(16), Copied()
    assert kept.renew(nodes, nodes.log) is ALL_ROWS
    assert kept.renew(nodes, nodes.log) == set()
    for changed, wanted in (({3}, {3}), ({1, 2}, {1, 2}), ({1, 2, 3}, ALL_ROWS)):
        for row in changed:
            nodes.log.touch(row)
        assert kept.renew(nodes, nodes.log) == wanted
    few, kept = some(2), Copied()
    kept.renew(few, few.log)
    few.log.touch(1)
    assert kept.renew(few, few.log) == {1}


def test_bounded() -> None:
    """Those that were not asked for longest go."""
    kept: Bounded[str, int] = Bounded(2)
    kept.keep("a", 1)
    kept.keep("b", 2)
    assert kept.recall("a") == 1
    kept.keep("c", 3)
    assert (kept.recall("b"), sorted(map(str, kept))) == (None, ["a", "c"])


def test_nothing_is_half_repaired(monkeypatch: pytest.MonkeyPatch) -> None:
    """A row that could not be computed is computed the next time."""
    nodes, kept = some(16), Copied()
    kept.renew(nodes, nodes.log)
    nodes.pods[5] = 7
    nodes.log.touch(5)
    kept.fails = True
    with pytest.raises(RuntimeError):
        kept.renew(nodes, nodes.log)
    kept.fails = False
    assert kept.renew(nodes, nodes.log) == {5}
    assert kept.values[5] == 7
