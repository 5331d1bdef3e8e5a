"""Selectors: the grammar's edges."""

from __future__ import annotations

import pytest

from podberth.apiserver.resources import Registry
from podberth.apiserver.rules.selectors import Selection, label_selector, parse_labels
from podberth.apiserver.rules.status import StatusError


@pytest.mark.parametrize(
    ("text", "labels", "want"),
    [
        ("a in (x, y)", {"a": "y"}, True),
        ("a in (x,)", {"a": ""}, True),
        ("a notin (x)", {}, True),
        ("!a", {"a": ""}, False),
        ("a.b/c-d_e=f", {"a.b/c-d_e": "f"}, True),
        ("a>5", {"a": "6"}, True),
        ("a>5", {"a": "1_000"}, False),
        ("a>5", {"a": "99999999999999999999"}, False),
        ("a<5", {}, False),
        ("a=b , c", {"a": "b", "c": "d"}, True),
    ],
)
def test_label_texts(text: str, labels: dict[str, str], want: bool) -> None:
    """A labelSelector parameter selects what it says."""
    matches = parse_labels(text)
    assert matches is not None
    assert matches(labels) is want


@pytest.mark.parametrize("text", ["a in", "a in (", "a in (x", "=b", "a=b=c", "a b", "a,,b", "a>x", "(", "a in (x;y)"])
def test_bad_label_texts(text: str) -> None:
    """A selector that can't be read is a 400."""
    if text == "a in (x;y)":
        matches = parse_labels(text)
        assert matches is not None
        assert matches({"a": "x;y"})
        return
    with pytest.raises(StatusError) as refused:
        parse_labels(text)
    assert refused.value.code == 400


def test_selector_objects() -> None:
    """No selector selects nothing, an empty one everything."""
    assert label_selector(None)({}) is False
    assert label_selector({})({}) is True
    with pytest.raises(ValueError, match="not a valid label selector operator"):
        label_selector({"matchExpressions": [{"key": "a", "operator": "Near"}]})


def test_fields() -> None:
    """Field values are compared as text; escapes are undone; absent booleans are false."""
    nodes, pods = Registry().built_in("nodes"), Registry().built_in("pods")
    assert Selection(nodes, fields="spec.unschedulable=false").accepts("n", {"metadata": {}, "spec": {}})
    assert Selection(nodes, fields="spec.unschedulable=true").accepts(
        "n", {"metadata": {}, "spec": {"unschedulable": True}}
    )
    assert Selection(pods, fields=r"metadata.name=a\,b").accepts("x/a,b", {"metadata": {"name": "a,b"}})
    with pytest.raises(StatusError, match="invalid selector"):
        Selection(pods, fields="metadata.name")
