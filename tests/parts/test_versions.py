"""What is left out on other versions of Python is there, so that a new name is noticed."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.parts.__main__ import BY_CHANCE, SLOW

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("folder", SLOW)
def test_folders_are_there(folder: str) -> None:
    """With tests in them."""
    assert list((ROOT / folder).glob("test_*.py"))


@pytest.mark.parametrize("test", BY_CHANCE)
def test_tests_are_there(test: str) -> None:
    """pytest says nothing of a test that is deselected and does not exist."""
    file, _, name = test.partition("::")
    tree = ast.parse((ROOT / "tests/unit" / file).read_text())
    assert name in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
