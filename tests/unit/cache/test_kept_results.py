"""Results by node are repaired for the rows that changed, made anew where there are many, and whole after a failure."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from podberth.cache.kept_results import Bounded, KeptByRow
from podberth.cache.nodes import Nodes


class Copied(KeptByRow):
    """The number of pods of each row, as it was when it was computed."""

    def __init__(self) -> None:
        self.values: list[int] = []
        self.fails = False
        self.repaired: list[set[int]] = []

    def compute(self, asked: Any) -> None:
        """All rows."""
        if self.fails:
            raise RuntimeError("not now")
        (nodes,) = asked
        self.values = nodes.pods[: nodes.rows].tolist()

    def apply(self, changes: set[int], asked: Any) -> None:
        """Some rows."""
        (nodes,) = asked
        self.repaired.append(changes)
        for row in changes:
            if self.fails:
                raise RuntimeError("not now")
            self.values[row] = int(nodes.pods[row])

    def follow(self, nodes: Nodes) -> set[int] | None:
        """The rows that were computed again; None: all were."""
        self.repaired = []
        return None if self.renew((nodes, nodes.rows), nodes.log, (nodes,)) else set().union(*self.repaired)


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
            kept.follow(nodes)
        except RuntimeError:
            kept.fails = False
            kept.follow(nodes)
        assert kept.values == nodes.pods[: nodes.rows].tolist()


def test_few_rows_are_repaired() -> None:
    """Up to one in eight, and one of however few; beyond, all are computed."""
    nodes, kept = some(16), Copied()
    assert kept.follow(nodes) is None
    assert kept.follow(nodes) == set()
    for changed, wanted in (({3}, {3}), ({1, 2}, {1, 2}), ({1, 2, 3}, None)):
        for row in changed:
            nodes.log.touch(row)
        assert kept.follow(nodes) == wanted
    few, kept = some(2), Copied()
    kept.follow(few)
    few.log.touch(1)
    assert kept.follow(few) == {1}


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
    kept.follow(nodes)
    nodes.pods[5] = 7
    nodes.log.touch(5)
    kept.fails = True
    with pytest.raises(RuntimeError):
        kept.follow(nodes)
    kept.fails = False
    assert kept.follow(nodes) == {5}
    assert kept.values[5] == 7
