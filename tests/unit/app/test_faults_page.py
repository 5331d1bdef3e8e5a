"""docs/evidence/faults.md: a row for each fault, and each test that it names is there."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[3] / "docs" / "evidence" / "faults.md"
FAULTS, UPSTREAM = 52, 10
LINK = re.compile(r"\[(test_\w+)\]\(([^)]+)\)")
INVARIANTS = {"I1", "I2", "I3", "I4", "I5", "I6"}


def _rows() -> dict[int, list[str]]:
    """Number → fault, what is expected, tests, invariants."""
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in PAGE.read_text().splitlines()]
    numbered = [(int(row[0]), row[1:]) for row in rows if row and row[0].isdecimal()]
    assert len({number for number, _ in numbered}) == len(numbered)
    return dict(numbered)


@cache
def _tests(file: Path) -> frozenset[str]:
    """Names of the functions of a module of tests."""
    found = ast.walk(ast.parse(file.read_text()))
    return frozenset(one.name for one in found if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef))


def test_every_fault_has_a_row() -> None:
    """In their order, each with what is expected."""
    rows = _rows()
    assert list(rows) == list(range(1, FAULTS + 1))
    assert {number for number, row in rows.items() if len(row) != 4 or not row[0] or not row[1]} == set()


@pytest.mark.parametrize("number", range(1, FAULTS + 1))
def test_tests_are_there(number: int) -> None:
    """A row names tests that there are, or says what is missing, and knows no other invariants than the page."""
    _, _, tests, invariants = _rows()[number]
    named = LINK.findall(tests)
    assert named or tests.startswith("open:")
    for name, target in named:
        file = (PAGE.parent / target).resolve()
        assert file.is_file(), target
        assert name in _tests(file), f"{name} is not in {target}"
    left = re.sub(r"(; )?open: .+", "", LINK.sub("", tests))
    assert left.replace(",", "").strip() == "", left
    assert set(re.findall(r"\w+", invariants)) <= INVARIANTS


def test_upstream_bugs_are_there() -> None:
    """Ten of them; each test that is named exists."""
    section = PAGE.read_text().partition("\n## Upstream bugs\n")[2].partition("\n## ")[0]
    rows = [line for line in section.splitlines() if line.startswith("| #")]
    assert len({row.split("|")[1].strip() for row in rows}) == UPSTREAM == len(rows)
    for row in rows:
        tests = row.split("|")[3].strip()
        assert LINK.findall(tests) or tests.startswith("none")
        for name, target in LINK.findall(tests):
            assert name in _tests((PAGE.parent / target).resolve()), name


def test_what_is_open_is_listed() -> None:
    """The section about what is still open has the rows that say so, and no others."""
    section = PAGE.read_text().partition("\n## Still open\n")[2].partition("\n## ")[0]
    listed = {int(number) for number in re.findall(r"(?m)^- \*\*(\d+):\*\*", section)}
    assert listed == {number for number, row in _rows().items() if "open:" in row[2]}
