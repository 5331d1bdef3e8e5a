"""What kube-scheduler's own tests of devices ask: Berth says what its plugins say."""

from __future__ import annotations

import gzip
import json

import pytest

from tests.conformance.comparison import Case, described
from tests.differential.client import Oracle
from tests.differential.tables import OFF, RECORDED
from tests.differential.verdict import judged

RECORDS = [json.loads(line) for line in gzip.decompress(RECORDED.read_bytes()).splitlines()]


@pytest.mark.parametrize("vector", RECORDS, ids=lambda vector: vector["id"])
def test_a_case_of_upstream(vector: Case) -> None:
    """The same node, devices, scores and words."""
    assert judged(vector).texts == ()


def test_the_tables_are_whole() -> None:
    """As many cases as upstream has, few of which are about what is off by default."""
    assert sum(vector["id"].startswith("allocator/") for vector in RECORDS) == 277
    assert sum(bool(OFF & set(vector["gates"])) for vector in RECORDS) == 45


def test_the_recorded_answers(oracle: Oracle) -> None:
    """Are what the plugins say."""
    answers = oracle.answers({key: value for key, value in vector.items() if key != "want"} for vector in RECORDS)
    wrong = []
    for vector, answer in zip(RECORDS, answers, strict=True):
        now, then = answer["want"], vector["want"]
        wrong += [vector["id"]] if now.get("errors") != then.get("errors") else []
        wrong += described(vector, now, then)
    assert wrong == []
