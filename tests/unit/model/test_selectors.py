"""Selectors as apimachinery's `labels` and component-helpers' `nodeaffinity` read them."""

from typing import Any

import msgspec
import pytest

from podberth.model import wire
from podberth.model.selectors import (
    EVERYTHING,
    NOTHING,
    SelectorError,
    is_label_value,
    is_qualified_name,
    parse_go_int,
    parse_label_selector,
    parse_node_selector,
    parse_node_selector_term,
    parse_requirement,
)
from tests.builders import node_selector, node_term, requirement, selector

MAX = 2**63 - 1


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("0", 0),
        ("007", 7),
        ("+5", 5),
        ("-5", -5),
        ("-0", 0),
        (str(MAX), MAX),
        (str(-MAX - 1), -MAX - 1),
        (str(MAX + 1), None),
        ("99999999999999999999", None),
        ("1_000", None),
        ("0x10", None),
        ("1.5", None),
        ("", None),
        (" 1", None),
        ("1\n", None),
        ("+", None),
        ("--1", None),
        ("١", None),
        ("²", None),
    ],
)
def test_numbers_parse_as_in_go(text: str, number: int | None) -> None:
    """strconv.ParseInt with base 10 and 64 bits."""
    assert parse_go_int(text) == number


@pytest.mark.parametrize(
    ("text", "accepted", "refused"),
    [
        ("k in a,b", ["a", "b"], ["c", "", None]),
        ("k in ", [""], ["a", None]),
        ("k in 7", ["7"], ["007", "+7"]),
        ("k notin a,b", ["c", "", None], ["a", "b"]),
        ("k", ["a", ""], [None]),
        ("!k", [None], ["a", ""]),
        ("k > 5", ["6", "007", "9223372036854775807"], ["5", "-6", "abc", "1_000", "", "9223372036854775808", None]),
        ("k > 0", ["1", "01"], ["0", "-0", "+", None]),
        ("k < 5", ["4", "-9223372036854775808", "004"], ["5", "x", "-9223372036854775809", "", None]),
        ("k > 007", ["8"], ["7"]),
    ],
)
def test_operators(text: str, accepted: list[str | None], refused: list[str | None]) -> None:
    """What each operator says of a value, of no value, and of numbers that are none."""
    given = requirement(text)
    parsed = parse_requirement(given["key"], given["operator"], given.get("values", ()), "here")
    assert [parsed.accepts(value) for value in accepted] == [True] * len(accepted)
    assert [parsed.accepts(value) for value in refused] == [False] * len(refused)


@pytest.mark.parametrize(
    ("key", "operator", "values", "names"),
    [
        ("k", "Foo", ["a"], "here.operator"),
        ("k", "In", [], "here.values"),
        ("k", "NotIn", [], "here.values"),
        ("k", "Exists", ["a"], "here.values"),
        ("k", "DoesNotExist", ["a"], "here.values"),
        ("k", "Gt", ["1", "2"], "here.values"),
        ("k", "Gt", [], "here.values"),
        ("k", "Lt", ["1_000"], "here.values"),
        ("k", "Gt", [" 1"], "here.values"),
        ("k", "Gt", ["-1"], "here.values"),
        ("a/b/c", "Exists", [], "here.key"),
        ("", "Exists", [], "here.key"),
        ("UPPER.com/x", "Exists", [], "here.key"),
        ("k", "In", ["bad value!"], "here.values"),
        ("k", "In", ["x" * 64], "here.values"),
    ],
)
def test_bad_requirements_name_the_field(key: str, operator: str, values: list[str], names: str) -> None:
    """labels.NewRequirement refuses the same."""
    with pytest.raises(SelectorError, match=names):
        parse_requirement(key, operator, values, "here")


@pytest.mark.parametrize("text", ["", "a", "0", "a_b-c.D", "x" * 63])
def test_label_values(text: str) -> None:
    """Empty, or at most 63 characters of a name."""
    assert is_label_value(text)


@pytest.mark.parametrize("text", ["-a", "a-", "_", "x" * 64, "a\n", "é", "a b", "-1", "+1"])
def test_what_is_no_label_value(text: str) -> None:
    """Neither signs nor spaces at the ends, nor anything beyond ASCII."""
    assert not is_label_value(text)


@pytest.mark.parametrize("text", ["a", "example.com/a", "a/B_c.d", "x" * 253 + "/a"])
def test_label_keys(text: str) -> None:
    """An optional DNS prefix and a name."""
    assert is_qualified_name(text)


@pytest.mark.parametrize("text", ["a/b/c", "/a", "a/", "", "é", "A.b/c", "a..b/c", "x" * 254 + "/a", "a\n"])
def test_what_is_no_label_key(text: str) -> None:
    """Two slashes, empty parts, capitals in the prefix."""
    assert not is_qualified_name(text)


def label_selector(given: dict[str, Any] | None) -> Any:
    wired = None if given is None else msgspec.convert(given, wire.LabelSelector)
    return parse_label_selector(wired, "here")


def test_null_selects_nothing_and_empty_everything() -> None:
    """The trap: the two differ by a pair of braces."""
    assert label_selector(None) == NOTHING
    assert label_selector({}) == EVERYTHING
    assert not NOTHING.matches({})
    assert EVERYTHING.matches({})
    assert EVERYTHING.is_everything
    assert not NOTHING.is_everything


def test_labels_and_expressions_are_anded() -> None:
    """matchLabels and matchExpressions hold together."""
    both = label_selector({"matchLabels": {"app": "db"}} | (selector("tier notin gold") or {}))
    assert [both.matches(found) for found in ({"app": "db"}, {"app": "db", "tier": "gold"}, {"tier": "x"})] == [
        True,
        False,
        False,
    ]


def test_equal_selectors_are_equal_however_they_are_written() -> None:
    """Counts are shared by equality."""
    assert label_selector({"matchLabels": {"app": "db"}}) == label_selector(selector("app in db"))
    assert label_selector(selector("a;b")) == label_selector(selector("b;a"))


def test_numeric_operators_are_not_for_pods() -> None:
    """metav1.LabelSelector has no Gt and Lt."""
    with pytest.raises(SelectorError, match=r"here\.matchExpressions\[0\]\.operator"):
        label_selector(selector("a > 1"))


def node_selector_of(given: dict[str, Any]) -> Any:
    return parse_node_selector(msgspec.convert(given, wire.NodeSelector), "here")


def test_null_empty_and_broken_terms_match_nothing() -> None:
    """They are left out, and the others still count."""
    terms = [None, {}, node_term("k > x"), node_term("zone in a")]
    assert [str(term) for term in node_selector_of({"nodeSelectorTerms": terms}).terms] == [
        "topology.kubernetes.io/zone in (a)"
    ]


@pytest.mark.parametrize(
    ("terms", "names"),
    [
        (["@name in a"], {"a"}),
        (["@name in a", "@name in b"], {"a", "b"}),
        (["@name in a;@name in b"], set()),
        (["@name in a", "zone in x"], None),
        (["@name in a", ""], None),
        (["@name notin a"], None),
        (["@name in a", "@name in b;@name in c"], {"a"}),
        (["@name in a;zone in x"], {"a"}),
        ([], None),
    ],
)
def test_names_that_prefilter_narrows_by(terms: list[str], names: set[str] | None) -> None:
    """The union over terms of the intersection within one, unless a term names no node."""
    assert node_selector_of(node_selector(*terms)).names == names


@pytest.mark.parametrize(
    "fields",
    [
        [{"key": "metadata.name", "operator": "Exists"}],
        [{"key": "metadata.name", "operator": "In", "values": ["a", "b"]}],
        [{"key": "metadata.name", "operator": "NotIn", "values": []}],
        [{"key": "metadata.name", "operator": "Gt", "values": ["1"]}],
    ],
)
def test_match_fields_know_in_and_notin_with_one_value(fields: list[dict[str, Any]]) -> None:
    """Anything else is an error of the term, which then matches nothing."""
    term = parse_node_selector_term(msgspec.convert({"matchFields": fields}, wire.NodeSelectorTerm), "here")
    assert (term.error or "").startswith("here.matchFields[0]")
