"""Patches beyond what the contract tests do on both servers."""

from __future__ import annotations

from typing import Any

import pytest

from podberth.apiserver.rules.patch import PatchError, json_patch, merge, strategic
from podberth.apiserver.rules.status import StatusError


@pytest.mark.parametrize(
    ("document", "operations", "want"),
    [
        ({"a": [1, 2]}, [{"op": "add", "path": "/a/1", "value": 9}], {"a": [1, 9, 2]}),
        ({"a": [1, 2]}, [{"op": "add", "path": "/a/-", "value": 9}], {"a": [1, 2, 9]}),
        ({"a": [1, 2]}, [{"op": "remove", "path": "/a/0"}], {"a": [2]}),
        ({"a": [1, 2]}, [{"op": "replace", "path": "/a/1", "value": 9}], {"a": [1, 9]}),
        ({"a~/b": 1}, [{"op": "remove", "path": "/a~0~1b"}], {}),
        ({"a": 1}, [{"op": "replace", "path": "", "value": {"b": 2}}], {"b": 2}),
        ({"a": {"b": 1}}, [{"op": "copy", "from": "/a", "path": "/c"}], {"a": {"b": 1}, "c": {"b": 1}}),
        ({"a": None}, [{"op": "test", "path": "/a", "value": None}], {"a": None}),
    ],
)
def test_json_patch(document: Any, operations: list[Any], want: Any) -> None:
    """RFC 6902, operation by operation."""
    assert json_patch(document, operations) == want


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "add", "path": "/a/3", "value": 1},
        {"op": "add", "path": "/a/01", "value": 1},
        {"op": "add", "path": "/x/y", "value": 1},
        {"op": "add", "path": "a", "value": 1},
        {"op": "remove", "path": "/a/2"},
        {"op": "remove", "path": "/b"},
        {"op": "test", "path": "/a/0", "value": 2},
        {"op": "move", "from": "/b", "path": "/c"},
        {"op": "dance", "path": "/a"},
        {"op": "remove", "path": ""},
    ],
)
def test_json_patch_refuses(operation: dict[str, Any]) -> None:
    """An operation that has nothing to work on fails."""
    with pytest.raises(PatchError):
        json_patch({"a": [1, 2]}, [operation])


@pytest.mark.parametrize(
    ("target", "patch", "want"),
    [
        ({"a": 1, "b": {"c": 2}}, {"b": {"c": None, "d": 3}}, {"a": 1, "b": {"d": 3}}),
        ({"a": [1]}, {"a": [2, 3]}, {"a": [2, 3]}),
        ({"a": 1}, {"a": {"b": {"c": None}}}, {"a": {"b": {}}}),
    ],
)
def test_merge(target: Any, patch: Any, want: Any) -> None:
    """RFC 7386: maps merge, null removes, the rest replaces."""
    assert merge(target, patch) == want


def containers(*names: str) -> dict[str, Any]:
    """A pod with these containers."""
    return {
        "spec": {"containers": [{"name": name, "image": "x", "env": [{"name": "A", "value": name}]} for name in names]}
    }


def test_nested_lists_merge() -> None:
    """Lists inside merged items merge by their own key."""
    patch = {"spec": {"containers": [{"name": "b", "env": [{"name": "B", "value": "1"}]}]}}
    merged = strategic("Pod", containers("a", "b"), patch)
    assert [item["name"] for item in merged["spec"]["containers"]] == ["a", "b"]
    assert merged["spec"]["containers"][1]["env"] == [{"name": "B", "value": "1"}, {"name": "A", "value": "b"}]


def test_directives() -> None:
    """$patch: replace takes a list or map as it is, $retainKeys drops the others."""
    replaced = {"spec": {"containers": [{"$patch": "replace"}, {"name": "z"}]}}
    assert strategic("Pod", containers("a"), replaced) == {"spec": {"containers": [{"name": "z"}]}}
    retained = {"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}}
    target = {"spec": {"strategy": {"type": "RollingUpdate", "rollingUpdate": {}}}}
    assert strategic("Deployment", target, retained) == {"spec": {"strategy": {"type": "Recreate"}}}
    with pytest.raises(StatusError, match="Unknown patch type found: dance"):
        strategic("Pod", {"spec": {}}, {"spec": {"$patch": "dance"}})


def test_order_keeps_what_it_does_not_name() -> None:
    """Items that $setElementOrder doesn't name keep their place before what they preceded."""
    order = [{"name": "d"}, {"name": "b"}]
    patch = {"spec": {"$setElementOrder/containers": order, "containers": [{"name": "d"}]}}
    merged = strategic("Pod", containers("a", "b", "c"), patch)
    assert [item["name"] for item in merged["spec"]["containers"]] == ["d", "a", "b", "c"]


def test_templates_merge_like_pods() -> None:
    """A workload's template has the merge keys of a pod."""
    target = {"spec": {"template": containers("a", "b")}}
    merged = strategic(
        "Deployment", target, {"spec": {"template": {"spec": {"containers": [{"name": "a", "image": "y"}]}}}}
    )
    assert [item["image"] for item in merged["spec"]["template"]["spec"]["containers"]] == ["y", "x"]
