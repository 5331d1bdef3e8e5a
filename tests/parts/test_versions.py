"""What is left out on other versions of Python, or is a part of its own, is there: a new name is noticed."""

from __future__ import annotations

import ast
from pathlib import Path, PurePath

import pytest

from tests.parts.__main__ import BY_CHANCE, OF_THEIR_OWN, on_this_version, outermost
from tests.parts.places import END_TO_END, REAL, WHOLE, may_be_real

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    "folder", [*(one for folders in OF_THEIR_OWN.values() for one in folders), *REAL, WHOLE, END_TO_END]
)
def test_folders_are_there(folder: PurePath) -> None:
    """With tests in them."""
    assert list((ROOT / folder).glob("test_*.py"))


@pytest.mark.parametrize("test", BY_CHANCE)
def test_tests_are_there(test: str) -> None:
    """pytest says nothing of a test that is deselected and does not exist."""
    file, _, name = test.partition("::")
    tree = ast.parse((ROOT / "tests/unit" / file).read_text())
    assert name in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


def test_each_fast_test_is_in_one_part() -> None:
    """One part has what no other part names."""
    commands = [part.argv for part in on_this_version()]
    left_out = [word.removeprefix("--ignore=") for word in commands[0] if word.startswith("--ignore=")]
    named = [word for argv in commands[1:] for word in argv if word.startswith("tests/")]
    assert sorted(left_out) == sorted(set(named)) == sorted(named)


@pytest.mark.parametrize(
    ("here", "own", "run"),
    [
        (["3.9", "3.11", "3.12"], "3.13", ["3.9"]),
        (["3.11", "3.12", "3.14"], "3.13", ["3.11", "3.14"]),
        (["3.12"], "3.11", ["3.12"]),
        ([], "3.11", []),
    ],
)
def test_only_the_outermost_versions_are_run(here: list[str], own: str, run: list[str]) -> None:
    """The oldest and the newest; those between them are not."""
    assert outermost(here, own) == run


@pytest.mark.parametrize(
    ("file", "may"), [("tests/integration/test_a.py", True), ("tests/unit/chart/test_a.py", False)]
)
def test_where_tests_on_real_processes_are(file: str, may: bool) -> None:
    """Elsewhere no part would run them: collecting fails."""
    assert may_be_real(PurePath(file)) is may
