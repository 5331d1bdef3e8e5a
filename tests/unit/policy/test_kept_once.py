"""What many policies have in common is kept once while they are analysed."""

import json
from typing import Any

import pytest

from bench.hostile_policies import one, policy, required, rule, sorts
from podberth.model.selectors import Requirement
from podberth.policy import analyse as analysing
from podberth.policy.analyse import analyse
from podberth.policy.parse import parse
from podberth.policy.questions import Questions
from podberth.policy.spec import Policies, Policy


def test_examples_that_are_equal_are_one_object() -> None:
    """A finding for each pair of rules: each shows an object of hundreds of labels, and nearly all show the same."""
    report = analyse(Policies(map(parse, required(128))))
    examples = [finding.example for finding in report.findings if finding.example is not None]
    assert len(examples) > 1000
    assert len({id(example) for example in examples}) == len({json.dumps(example) for example in examples}) < 10


def test_criteria_that_are_equal_are_one_object() -> None:
    """Files repeat what others say: 150 policies may list the same values."""

    def criteria(policies: list[Policy]) -> list[Requirement]:
        return [found for made in policies for rule in made.rules for found in rule.predicate.labels]

    def documents() -> list[Any]:
        listed = [rule([one("k", "NotIn", *(f"v{i}" for i in range(32)))])]
        exact: Any = [
            {"policyPredicate": {"labelSelector": {"matchLabels": {"a": "b"}}}, "policyAction": {"reject": True}}
        ]
        return [json.loads(json.dumps(policy(f"p{i}", listed + exact))) for i in range(20)]

    kept: dict[Requirement, Requirement] = {}
    shared = [parse(document, criteria=kept) for document in documents()]
    assert shared == [parse(document) for document in documents()]
    assert len({id(criterion) for criterion in criteria(shared)}) == len(kept) == 2


def test_values_that_both_worlds_list_are_one_object(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pods and other objects are told apart by the same values, as long as nobody asks for a pod's class."""
    found: list[Questions] = []

    def kept(*given: Any) -> Questions:
        found.append(Questions(*given))
        return found[-1]

    monkeypatch.setattr(analysing, "Questions", kept)
    analyse(Policies(map(parse, sorts(16))), total=1)
    pods, others = (questions.space.boxes for questions in found)
    listed = [(box[axis].values, others[rule][axis].values) for rule, box in pods.items() for axis in box]
    assert len(listed) > 100
    assert all(one is other for one, other in listed)
