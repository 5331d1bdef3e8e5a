"""What once differed, as small as it got: replayed without the oracle."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.conformance.comparison import Case, described
from tests.differential.answers import answer

HERE = Path(__file__).parent
FOUND = [json.loads(line) for file in sorted(HERE.glob("found/*.jsonl")) for line in file.read_text().splitlines()]


@pytest.mark.parametrize("vector", FOUND, ids=lambda vector: vector["id"])
def test_what_once_differed_agrees(vector: Case) -> None:
    """The answer is kube-scheduler's."""
    assert described(vector, answer(vector), vector["want"]) == []
