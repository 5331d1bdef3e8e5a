"""The solver against brute force."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from podberth.policy.solver import ExhaustedError, Solver, TooComplexError

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
    groups = [solver.one_of(size) for size in sizes]
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


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.integers(1, 5), min_size=1, max_size=4),
    st.lists(st.lists(literals, min_size=1, max_size=4), max_size=14),
    st.lists(st.lists(literals, max_size=3), min_size=1, max_size=5),
)
def test_groups_say_what_pairwise_clauses_say(
    sizes: list[int], clauses: list[list[int]], questions: list[list[int]]
) -> None:
    """Groups answer as the textbook's encoding does: a clause for each pair of values, and one that names all."""
    native, pairwise = Solver(10**9, 10**9), Solver(10**9, 10**9)
    names: dict[int, tuple[int, int]] = {}
    for size in sizes:
        facts = native.one_of(size)
        free = [pairwise.one_of(2)[0] for _ in range(size)]
        pairwise.add(free)
        for i, one in enumerate(free):
            for other in free[:i]:
                pairwise.add([one ^ 1, other ^ 1])
        for fact, twin in zip(facts, free, strict=True):
            names[len(names)] = fact, twin

    def told(clause: list[int], side: int) -> list[int]:
        return [names[x >> 1][side] ^ (x & 1) for x in clause if x >> 1 in names]

    for clause in clauses:
        if told(clause, 0):
            native.add(told(clause, 0))
            pairwise.add(told(clause, 1))
    for question in questions:
        assert native.solve(told(question, 0)) == pairwise.solve(told(question, 1))


def pigeons(solver: Solver, number: int) -> None:
    """One pigeon more than there are holes: no solver of this kind is quick at it."""
    places = [solver.one_of(number - 1) for _ in range(number)]
    for hole in zip(*places, strict=True):
        for i, one in enumerate(hole):
            for other in hole[:i]:
                solver.add([one ^ 1, other ^ 1])


def test_bound() -> None:
    """A question that costs too much is given up, and the next one is answered all the same."""
    solver = Solver(10**9, 2000)
    free = solver.one_of(2)
    pigeons(solver, 7)
    with pytest.raises(TooComplexError):
        solver.solve([])
    solver.each = 10**8
    assert not solver.solve([free[0]])


def test_bound_on_all_questions() -> None:
    """Once the whole budget is spent, every question is given up."""
    solver = Solver(1000, 10**9)
    free = solver.one_of(2)
    pigeons(solver, 7)
    with pytest.raises(ExhaustedError):
        solver.solve([])
    assert solver.exhausted
    with pytest.raises(ExhaustedError):
        solver.solve([free[0]])


def test_bound_on_what_is_kept() -> None:
    """Facts and clauses are charged before they are kept, so a solver that is too small never grows."""
    solver = Solver(10**9, 10**9, room=1000)
    solver.one_of(10)
    kept = solver.kept
    with pytest.raises(ExhaustedError):
        solver.one_of(10_000)
    assert kept < 100
    assert solver.choice(0) is None
    assert solver.exhausted


def test_a_group_costs_what_it_has_facts() -> None:
    """Of ten times as many values, ten times as much is kept, and a question about them takes ten times as long."""
    few, many = Solver(10**9, 10**9), Solver(10**9, 10**9)
    for solver, number in ((few, 1000), (many, 10_000)):
        facts = solver.one_of(number)
        assert solver.solve([facts[-1]])
        assert solver.solve([fact ^ 1 for fact in facts[:-1]])
        assert solver.holds(facts[-1])
    assert many.kept <= 10.1 * few.kept
    assert many.work <= 10.5 * few.work


def test_learned_clauses_are_bounded() -> None:
    """What was learned is let go of when it takes more room than there is, and answers stay right."""
    solver = Solver(10**9, 10**9)
    free = solver.one_of(2)
    pigeons(solver, 6)
    solver.room = solver.kept + 200
    solver.learned_room = 200
    gave_up = 0
    for _ in range(100):
        try:
            assert not solver.solve([free[0]])
            break
        except TooComplexError:
            gave_up += 1
            assert sum(map(len, solver.learned)) < 300
    assert gave_up
    solver.room = 10**6
    assert not solver.solve([free[1]])
