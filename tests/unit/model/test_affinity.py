"""What a pod (anti-)affinity term means."""

from typing import Any

import msgspec
import pytest

from podberth.model import wire
from podberth.model.terms import AffinityTerm, parse_affinity_term
from tests.builders import term


def parsed(given: dict[str, Any], namespace: str = "own") -> AffinityTerm:
    return parse_affinity_term(msgspec.convert(given, wire.PodAffinityTerm), namespace, "here")


@pytest.mark.parametrize(
    ("given", "means", "means_not"),
    [
        (term("app"), ["own"], ["team", "other"]),
        (term("app", namespaces=["team"]), ["team"], ["own", "other"]),
        (term("app", namespaces_with="owner=x"), ["team"], ["own", "other"]),
        (term("app", namespaces=["own"], namespaces_with="owner=x"), ["own", "team"], ["other"]),
        (term("app", namespaces_with=""), ["own", "team", "other"], []),
        (term("app", namespaces=["own"], namespaces_with=""), ["own", "team", "other"], []),
        (term(None, namespaces_with=""), [], ["own", "team", "other"]),
    ],
)
def test_namespaces_and_their_selector_are_a_union(
    given: dict[str, Any], means: list[str], means_not: list[str]
) -> None:
    """Both absent stand for the pod's own namespace; `{}` for all; a null labelSelector for no pod."""
    labels = {"own": {}, "team": {"owner": "x"}, "other": {"owner": "y"}}
    found = [name for name in labels if parsed(given).selects(name, labels[name], {"app": "web"})]
    assert sorted(found) == sorted(means)
    assert not set(found) & set(means_not)


def test_equal_terms_are_one_key() -> None:
    """Counts are kept once for equal terms, whoever carries them."""
    one, other = parsed(term("app=a;b", "zone")), parsed(term("b;app=a", "zone"))
    assert one == other
    assert hash(one) == hash(other)
    assert one != parsed(term("app=a;b", "host"))
    assert one != parsed(term("app=a;b", "zone"), namespace="else")


def test_empty_lists_are_as_good_as_absent() -> None:
    """`namespaces: []` without a selector is the pod's own namespace."""
    assert parsed(term("app") | {"namespaces": []}).namespaces == {"own"}
