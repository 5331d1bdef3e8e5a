"""The annotation, read strictly; what a node has to meet, and what of it is missing."""

import json
from typing import Any

import pytest

from podberth.model import wire
from podberth.model.kinds import Decoder
from podberth.model.pod import Pod
from podberth.model.promise import ANNOTATION, MOST_BYTES, MOST_TERMS, parse_promise
from podberth.model.shape import required
from tests import builders
from tests.builders import node_selector


def pod(text: str | None, **spec: Any) -> Pod:
    """A decoded pod with this annotation."""
    made = builders.pod("p", **spec)
    if text is not None:
        made["metadata"]["annotations"] = {ANNOTATION: text}
    return Decoder().pod(wire.encode(made))


@pytest.mark.parametrize(
    ("text", "spec", "by_profile", "wanted"),
    [
        (None, {"select": {"a": "b"}}, False, None),
        (None, {"select": {"a": "b"}}, True, "a in (b)"),
        (None, {}, True, None),
        ("true", {}, False, None),
        ("true", {"select": {"a": "b"}, "need": ["c", "!d"]}, False, "a in (b) and ((c exists) or (d does not exist))"),
        ("false", {"select": {"a": "b"}}, True, None),
        (json.dumps(node_selector("a in b,c; d > 3")), {"select": {"x": "y"}}, True, "a in (b, c) and d > 3"),
        (json.dumps(node_selector("@name in n1")), {}, False, "metadata.name = n1"),
    ],
)
def test_what_is_required(text: str | None, spec: dict[str, Any], by_profile: bool, wanted: str | None) -> None:
    """A selector stands for itself; true and the profile stand for what the pod asks for when it is scheduled."""
    found = required(pod(text, **spec).shape, by_profile=by_profile)
    assert (None if found is None else str(found)) == wanted


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("yes", 'want "true", "false" or a NodeSelector'),
        ("", 'want "true", "false" or a NodeSelector'),
        ("[]", "expected a mapping"),
        ("{}", "missing the field nodeSelectorTerms"),
        ('{"nodeSelectorTerm":[]}', "unknown field nodeSelectorTerm"),
        ('{"nodeSelectorTerms":[]}', "0 terms: want 1 to"),
        ('{"nodeSelectorTerms":[{}]}', "nodeSelectorTerms[0]: Required value"),
        ('{"nodeSelectorTerms":[{"matchExpressions":[]}]}', "nodeSelectorTerms[0]: Required value"),
        (json.dumps(node_selector("a in b", "/c")), "nodeSelectorTerms[1].matchExpressions[0].key: Invalid value"),
        (json.dumps(node_selector("a in b")).replace('["b"]', "[]"), "matchExpressions[0].values: Invalid value"),
        (json.dumps(node_selector("a > x")), "must be an integer"),
        (json.dumps(node_selector("a")).replace("Exists", "exists"), "operator: Unsupported value"),
        (json.dumps(node_selector(*["a"] * (MOST_TERMS + 1))), f"{MOST_TERMS + 1} terms"),
        ("[" * 5000, "want"),
        ("x" * (MOST_BYTES + 1), "Too long"),
        ('{"nodeSelectorTerms":[{"matchExpressions":[{"key":"\\ud800","operator":"Exists"}]}]}', "want"),
    ],
)
def test_unreadable(text: str, says: str) -> None:
    """One line that names the annotation, the field and what was expected; never an exception."""
    promise = parse_promise(text)
    assert promise is not None and promise.problem is not None
    assert promise.problem.startswith(ANNOTATION) and says in promise.problem
    assert len(promise.problem) < 400
    assert required(pod(None).shape, by_profile=True) is None


@pytest.mark.parametrize(
    ("terms", "labels", "missing"),
    [
        (["a in b"], {"a": "b"}, []),
        (["a in b"], {"a": "c"}, ["a in (b)"]),
        (["a in b; c"], {}, ["a in (b)", "c exists"]),
        (["a in b; c", "d"], {}, ["d exists"]),
        (["a in b", "c"], {"c": ""}, []),
        (["a notin b"], {}, []),
        (["@name in other"], {}, ["metadata.name = other"]),
    ],
)
def test_what_is_missing(terms: list[str], labels: dict[str, str], missing: list[str]) -> None:
    """The requirements of the nearest term; one term that is met is enough."""
    wanted = required(pod(json.dumps(node_selector(*terms))).shape)
    assert wanted is not None
    assert [str(one) for one in wanted.broken("n", labels)] == missing
    assert wanted.holds("n", labels) is not bool(missing)


def test_pods_without_it_share_a_shape() -> None:
    """Other annotations, also ones that mention it, make no other shape; the annotation does."""
    decoder = Decoder()

    def shape(**annotations: str) -> object:
        made = builders.pod("p")
        made["metadata"]["annotations"] = annotations
        return decoder.pod(wire.encode(made)).shape

    assert shape() is shape(x="y") is shape(note=ANNOTATION)
    assert shape(**{ANNOTATION: "true"}) is not shape()
