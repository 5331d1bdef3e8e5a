"""Selectors: results and errors at run time are those of Kubernetes' own compiler."""

from __future__ import annotations

from tests.conformance.selectors import DEVICES, EXPRESSIONS, LIMIT, differences, recorded, view


def test_every_expression_agrees() -> None:
    """A thousand expressions, right and wrong ones, on a dozen devices."""
    devices = [view(device) for device in DEVICES]
    answers = recorded()
    assert len(EXPRESSIONS) == len(answers)
    found = [
        line
        for expression, want in zip(EXPRESSIONS, answers, strict=True)
        for line in differences(expression, devices, want)
    ]
    assert found == []


def test_the_corpus_has_all_kinds_of_answers() -> None:
    """Enough of each, or the comparison would say little."""
    answers = recorded()
    given = [one for answer in answers for several in answer.get("answers", ()) for one in several]
    assert sum("compile" in answer for answer in answers) > 300
    assert sum(one["matches"] for one in given) > 900
    assert sum("error" in one for one in given) > 700
    assert sum(one.get("error") == LIMIT for one in given) > 6
