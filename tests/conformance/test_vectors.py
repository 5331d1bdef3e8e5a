"""Every vector's answer is ours: cases as kube-scheduler 1.37's own plugins answered them, compared in every field."""

from __future__ import annotations

import json

import pytest

from podberth.explain.cases import answer
from tests.conformance.comparison import described
from tests.conformance.vectors import FAMILIES, Vector, family, own

RECORDED = [vector for name in FAMILIES for vector in family(name)]


@pytest.mark.parametrize("vector", [*own(), *RECORDED], ids=lambda vector: vector.id)
def test_a_vector_agrees(vector: Vector) -> None:
    """In every field that both sides say."""
    case = json.loads(vector.line)
    assert described(case, answer(case, json.loads), case["want"]) == []


def test_all_are_there() -> None:
    """As many as docs/equal.md says, each with a name of its own."""
    assert len(FAMILIES) == 15
    assert len({vector.id for vector in RECORDED}) == len(RECORDED) == 1315
