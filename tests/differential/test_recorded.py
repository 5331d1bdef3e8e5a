"""The chosen questions of `tests/vectors/boundaries`: each notices mutants that no other vector notices."""

from __future__ import annotations

import pytest

from tests.conformance.comparison import Case
from tests.differential import recorded, replay

RECORDED = recorded.all_of_them()


@pytest.mark.parametrize("vector", RECORDED, ids=lambda vector: vector["id"])
def test_an_answer_is_kube_schedulers(vector: Case) -> None:
    assert replay.differences(vector) == []


def test_each_kind_is_there() -> None:
    """And each question has a name of its own."""
    assert {vector["kind"] for vector in RECORDED} == replay.KINDS.keys()
    assert len({vector["id"] for vector in RECORDED}) == len(RECORDED)
