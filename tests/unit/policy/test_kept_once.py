"""What many policies have in common is kept once while they are analysed."""

import json
from typing import Any

from bench.hostile_policies import one, policy, required, rule
from podberth.model.selectors import Requirement
from podberth.policy.analyse import analyse
from podberth.policy.parse import parse
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
