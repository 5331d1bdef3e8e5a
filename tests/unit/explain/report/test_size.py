"""Pages stay small, however large the cluster is: a browser lays out every row that is there."""

import re

import pytest
from msgspec.structs import replace

from podberth.explain.explanation import Explanation
from podberth.explain.report import report_of
from podberth.explain.report.pages import page
from podberth.explain.simulate.capacity import NodeRoom
from tests.unit.explain.report.test_browser import CAPACITY
from tests.unit.explain.story import BIG, WEB, explained

NODES = 5_000
MOST = 600
"""Rows of a table in one page."""


def rows(text: str) -> int:
    """Table rows of a page."""
    return len(re.findall("<tr", text))


@pytest.mark.parametrize("field", ["rejected", "feasible"])
def test_an_explanation_of_many_nodes(field: str) -> None:
    """The closest ones, or the best ones, and how many more there are."""
    answer: Explanation = explained(BIG if field == "rejected" else WEB)
    some = getattr(answer, field)
    many = [replace(some[i % len(some)], node=f"node-{i}") for i in range(NODES)]
    text = page(report_of(replace(answer, **{field: many})))
    assert rows(text) < MOST
    assert f"and {NODES - 500:,} more" in text


def test_a_capacity_of_many_nodes() -> None:
    """Those that take most."""
    text = page(report_of(replace(CAPACITY, nodes=[NodeRoom(f"node-{i}", 7, []) for i in range(NODES)])))
    assert rows(text) < MOST
    assert f"{NODES - 500:,}" in text
    assert "<summary>475 more</summary>" in text, "25 are in sight"
