"""Places in templates."""

import json
from typing import Any

import pytest

from podberth.testing.workloads.objects import Template, TemplateError, check, merged

WORDS = {"run": "r1", "pool": "p1"}
NUMBERS = {"count": 10, "nodes": 4}


@pytest.mark.parametrize(
    ("text", "index", "want"),
    [
        pytest.param("plain", 3, "plain", id="nothing to fill in"),
        pytest.param("$(run)-init", 3, "r1-init", id="the run"),
        pytest.param("$(pool)-node-$(i % nodes)", 7, "p1-node-3", id="a node in turn"),
        pytest.param("$(50 + i * 3)m", 2, "56m", id="multiplication binds tighter"),
        pytest.param("$(i // 4)-$(count - i)", 9, "2-1", id="division and difference"),
        pytest.param("$( i )", 5, "5", id="white space"),
        pytest.param('"quoted" $(i)', 1, '"quoted" 1', id="text that JSON escapes"),
    ],
)
def test_rendered(text: str, index: int, want: str) -> None:
    """A place is replaced wherever it stands, in keys and values."""
    rendered = json.loads(Template({text: {"list": [text]}}, WORDS, NUMBERS).render(index))
    assert rendered == {want: {"list": [want]}}


def test_numbers() -> None:
    """A text that is an `$int` place alone becomes a number, any other stays text."""
    made = Template({"port": "$int(8000 + i)", "text": "a $int(1)", "name": "$(i)"}, WORDS, NUMBERS).render(3)
    assert json.loads(made) == {"port": 8003, "text": "a $int(1)", "name": "3"}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        pytest.param("$(name)", "$(name): expected run, pool, or arithmetic", id="unknown name"),
        pytest.param("$(i ** 2)", "$(i ** 2): expected", id="unknown operator"),
        pytest.param("$(1.5 + i)", "$(1.5 + i): expected", id="a fraction"),
        pytest.param("$(i % 0)", "$(i % 0): division by zero", id="division by zero"),
        pytest.param("$(i +)", "$(i +): expected", id="half an expression"),
        pytest.param("$int(run)", "$int(): expected arithmetic", id="a word is no number"),
        pytest.param("$(open)", "$(open): expected", id="a builtin is no name"),
    ],
)
def test_refused(text: str, said: str) -> None:
    """A place that can't be filled in is named."""
    with pytest.raises(TemplateError) as error:
        check({"metadata": {"name": text}})
    assert str(error.value).startswith(said)


@pytest.mark.parametrize(
    ("under", "over", "want"),
    [
        pytest.param({"a": {"b": 1, "c": 2}}, {"a": {"b": 3}}, {"a": {"b": 3, "c": 2}}, id="mappings by key"),
        pytest.param({"a": [1, 2]}, {"a": [3]}, {"a": [3]}, id="lists as a whole"),
        pytest.param({"a": 1}, {"b": {"c": 2}}, {"a": 1, "b": {"c": 2}}, id="what is new"),
    ],
)
def test_merged(under: Any, over: Any, want: Any) -> None:
    """What is written goes over what is standard."""
    assert merged(under, over) == want
