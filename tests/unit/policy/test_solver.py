"""The solver against brute force."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.policy.solver import Solver, TooComplexError

LITERALS = 20
literals = st.integers(0, 2 * LITERALS - 1)


@settings(max_examples=300, deadline=None)
@given(
    st.lists(st.integers(1, 4), min_size=1, max_size=4),
    st.lists(st.lists(literals, min_size=1, max_size=4), max_size=14),
    st.lists(st.lists(literals, max_size=3), min_size=1, max_size=5),
)
def test_answers(sizes: list[int], clauses: list[list[int]], questions: list[list[int]]) -> None:
    """One solver, asked several questions in a row, says yes just when some choice of values makes all clauses hold."""
    solver = Solver(10**9, 10**9)
    groups = [solver.one_of(size, decided=True) for size in sizes]
    known = {literal ^ negated for group in groups for literal in group for negated in (0, 1)}
    clauses = [clause for clause in ([x for x in clause if x in known] for clause in clauses) if clause]
    for clause in clauses:
        solver.add(clause)
    for question in questions:
        wanted = [literal for literal in question if literal in known]
        truths = [
            {literal if literal in chosen else literal ^ 1 for group in groups for literal in group}
            for chosen in product(*groups)
        ]
        possible = [
            truth for truth in truths if all(truth & {*clause} for clause in clauses) and truth.issuperset(wanted)
        ]
        assert solver.solve(wanted) == bool(possible)
        if possible:
            assert {literal for literal in known if solver.holds(literal)} in possible


def pigeons(solver: Solver, number: int) -> None:
    """One pigeon more than there are holes: no solver of this kind is quick at it."""
    places = [solver.one_of(number - 1, decided=True) for _ in range(number)]
    for hole in zip(*places, strict=True):
        for i, one in enumerate(hole):
            for other in hole[:i]:
                solver.add([one ^ 1, other ^ 1])


def test_bound() -> None:
    """A question that costs too much is given up, and the next one is answered all the same."""
    solver = Solver(10**9, 2000)
    free = solver.one_of(2, decided=True)
    pigeons(solver, 7)
    with pytest.raises(TooComplexError):
        solver.solve([])
    solver.each = 10**8
    assert not solver.solve([free[0]])
    bounded = Solver(10, 10**9)
    pigeons(bounded, 7)
    with pytest.raises(TooComplexError):
        bounded.solve([])
