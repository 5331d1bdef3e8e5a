"""The oracle against answers that are known, and Berth against the oracle."""

from __future__ import annotations

import json

import pytest

from tests.conformance import vectors
from tests.conformance.comparison import Case, described
from tests.differential import fuzz, hints, recorded
from tests.differential.client import Oracle
from tests.differential.generate import changing
from tests.differential.generate.families import FAMILIES
from tests.differential.test_found import FOUND

SEEDS = range(1000, 1004)


ASKED = 3


def wrong(oracle: Oracle, cases: list[Case]) -> list[str]:
    """Where the oracle's answers are not those written in the cases.

    A case that differs is asked again: kube-scheduler's dry runs of preemption end a moment after enough candidates are
    found, so on a busy machine there may be one more.
    """
    lines: list[str] = []
    for _ in range(ASKED):
        answers = oracle.answers({key: value for key, value in case.items() if key != "want"} for case in cases)
        told = [
            described(case, case["want"], answer.get("want", answer))
            for case, answer in zip(cases, answers, strict=True)
        ]
        lines = [line for told_of in told for line in told_of]
        cases = [case for case, told_of in zip(cases, told, strict=True) if told_of]
        if not cases:
            break
    return lines


def test_our_own_vectors(oracle: Oracle) -> None:
    """What the fast tests compare with is what the plugins say."""
    assert wrong(oracle, [json.loads(vector.line) for vector in vectors.own()] + FOUND) == []


@pytest.mark.parametrize("family", vectors.FAMILIES)
def test_a_family_of_vectors(family: str, oracle: Oracle) -> None:
    """Answers that another program made from the same plugins."""
    assert wrong(oracle, [json.loads(vector.line) for vector in vectors.family(family)]) == []


def test_chosen_questions(oracle: Oracle) -> None:
    """Those of `tests/vectors/boundaries`. What the engine does varies from run to run: `groups` asks that again."""
    states: list[Case] = []
    for vector in recorded.of_kind("changing"):
        same: Case = {field: vector[field] for field in ("config", "nominees") if field in vector}
        for number, state in enumerate(changing.states_of(vector["steps"])):
            states.append({**same, **state, "id": f"{vector['id']}, step {number}"})
    assert wrong(oracle, recorded.of_kind("one") + states) == []
    asked = recorded.of_kind("hint")
    assert [answer.get("queue", False) for answer in oracle.hints(asked)] == [one["want"] for one in asked]


@pytest.mark.parametrize("family", FAMILIES)
def test_generated_cases(family: str, oracle: Oracle) -> None:
    """Valid cases, and Berth says the same of each; `make differential` makes many more."""
    verdicts = [verdict for seed in SEEDS for verdict in fuzz.run(oracle, seed, [family])]
    assert len(verdicts) == len(SEEDS) * fuzz.PER_SEED
    assert [text for verdict in verdicts for text in verdict.texts] == []
    assert sum(verdict.kind == "failed" for verdict in verdicts) < len(verdicts) // 4


def test_queueing_hints(oracle: Oracle) -> None:
    """What wakes a pod upstream wakes it here; waking more than that is allowed, and costs a look."""
    outcomes = [outcome for seed in SEEDS[:2] for outcome in hints.run(oracle, seed)]
    assert [outcome for outcome in outcomes if outcome.kind in ("stuck", "refused")] == []
    assert {outcome.kind for outcome in outcomes} >= {"woken", "left"}


def test_a_case_that_is_not_valid(oracle: Oracle) -> None:
    """It is refused, with the API server's words, and the next one is answered."""
    good = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "default"}}
    good["spec"] = {"containers": [{"name": "c", "image": "i"}]}
    bad = {**good, "spec": {"containers": []}}
    first, second = oracle.vectors({"id": name, "objects": [], "pod": pod} for name, pod in (("a", bad), ("b", good)))
    assert "spec.containers: Required value" in first["error"]
    assert second["want"] == {"feasible": [], "message": "no nodes available to schedule pods"}
