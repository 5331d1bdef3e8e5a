"""Selectors: results and errors at run time are those of Kubernetes' own compiler."""

from __future__ import annotations

import contextlib

import pytest

from podberth.cel import program as programs
from podberth.cel.errors import EvaluationError
from tests.conformance.selectors import DEVICES, EXPRESSIONS, LIMIT, differences, recorded, view
from tests.differential.generate.calls import calling
from tests.differential.generate.corners import corner
from tests.differential.generate.expressions import expression


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


ODD = (
    *('device["nope"] == 1', "device[1] == 1", "device in [device]", "{device: 1}.size() == 1", "type(device) == map"),
    *(
        "[1, 2].sortBy(x, device).size() == 2",
        "string(device) == ''",
        "int == int && int.a",
        "[1][true] == 1",
        "-'a' == 1",
    ),
    *("[1, [2]].max() == 1", "lists.range('a') == []", "optional.of(1).a == 1", "dyn(1).a.b", "device.driver.x"),
)


@pytest.mark.parametrize("seed", [0, 1])
def test_a_selector_of_any_types_ends_in_an_answer_or_an_error_of_its_own(seed: int) -> None:
    """No types are checked before it runs, and none of Python's exceptions comes out."""
    devices = [view(device) for device in DEVICES[:4]]
    made = [make(seed, number) for make in (expression, calling, corner) for number in range(250)]
    for program in map(programs.compile, (*ODD, *made)):
        for device in () if program.error else devices:
            with contextlib.suppress(EvaluationError):
                program.evaluate(device, 5_000)
