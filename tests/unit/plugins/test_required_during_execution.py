"""A pod never lands where the evictor would remove it."""

import json
from typing import Any

import pytest

from podberth.model.promise import ANNOTATION
from tests.builders import Object, node, node_selector, pod
from tests.unit.plugins.small import a_node, a_pod, plugin, rejected

NODES = [node("ssd", labels={"disk": "ssd"}), node("hdd", labels={"disk": "hdd"}), node("bare")]
MISMATCH = f"!node(s) didn't match Pod's annotation {ANNOTATION}"


def keeping(text: str | None, **spec: Any) -> Object:
    """A pod with this annotation."""
    made = pod("p", **spec)
    made["metadata"]["annotations"] = {} if text is None else {ANNOTATION: text}
    return made


@pytest.mark.parametrize(
    ("text", "spec", "all_pods", "out"),
    [
        (None, {"select": {"disk": "ssd"}}, False, ""),
        (None, {"select": {"disk": "ssd"}}, True, "hdd bare"),
        ("true", {"need": ["disk in ssd,hdd"]}, False, "bare"),
        ("false", {"select": {"disk": "ssd"}}, True, ""),
        (json.dumps(node_selector("disk notin hdd")), {}, False, "hdd"),
        (json.dumps(node_selector("@name in bare", "disk in hdd")), {}, False, "ssd"),
    ],
)
def test_filter(text: str | None, spec: dict[str, Any], all_pods: bool, out: str) -> None:
    """The same nodes that the evictor would take the pod off."""
    made = plugin("RequiredDuringExecution", allPods=all_pods)
    assert rejected(made, keeping(text, **spec), *NODES) == {name: [MISMATCH] for name in out.split()}


def test_unreadable_fits_nowhere() -> None:
    """Better not scheduled than misplaced; the message says what is wrong."""
    found = rejected(plugin("RequiredDuringExecution"), keeping("{}"), *NODES)
    assert set(found) == {"ssd", "hdd", "bare"}
    assert "missing the field nodeSelectorTerms" in found["ssd"][0]


@pytest.mark.parametrize(
    ("old", "new", "wakes"),
    [(None, NODES[0], True), (None, NODES[1], False), (NODES[1], NODES[0], True), (NODES[0], NODES[0], False)],
)
def test_wakes_when_the_labels_fit(old: Object | None, new: Object, wakes: bool) -> None:
    """They did before: then something else was in the way."""
    asks = a_pod(keeping(json.dumps(node_selector("disk in ssd"))))
    assert plugin("RequiredDuringExecution").node_hint(asks, old and a_node(old), a_node(new)) is wakes


@pytest.mark.parametrize(
    ("text", "all_pods", "alike"), [(None, False, True), ("true", False, False), (None, True, False)]
)
def test_pods_share_results_where_their_own_requirements_do_not_count(
    text: str | None, all_pods: bool, alike: bool
) -> None:
    made = plugin("RequiredDuringExecution", allPods=all_pods)
    one, other = (a_pod(keeping(text, select={"disk": disk})) for disk in ("ssd", "hdd"))
    assert (made.signature(one.shape) == made.signature(other.shape)) is alike
