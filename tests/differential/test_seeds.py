"""Seeds name the same cases every time."""

from __future__ import annotations

import argparse

import pytest

from tests.differential.fuzz import seeds_of
from tests.differential.generate.changes import CHANGES, question
from tests.differential.generate.families import FAMILIES, case


@pytest.mark.parametrize("family", FAMILIES)
def test_a_case_is_its_name(family: str) -> None:
    """Made twice, it is the same; another number is another case."""
    assert case(family, 1, 2) == case(family, 1, 2)
    assert case(family, 1, 2)["objects"] != case(family, 1, 3)["objects"]


@pytest.mark.parametrize("plugin", CHANGES)
def test_a_question_is_its_name(plugin: str) -> None:
    """Made twice, it is the same, and something happens in it."""
    assert question(plugin, 1, 2) == question(plugin, 1, 2)
    assert {"old", "new"} & question(plugin, 1, 2).keys()


@pytest.mark.parametrize(
    ("text", "seeds"),
    [("7", [7]), ("0-2", [0, 1, 2]), ("1,4-6", [1, 4, 5, 6]), ("3-2", None), ("", None), ("-1", None)],
)
def test_seeds(text: str, seeds: list[int] | None) -> None:
    """Numbers and ranges; what is neither is refused."""
    if seeds is None:
        with pytest.raises(argparse.ArgumentTypeError, match="expected seeds"):
            seeds_of(text)
    else:
        assert seeds_of(text) == seeds
