"""Objects into a cluster, and the complaints about those that can't be read."""

import json
from typing import Any

import pytest

from podberth.explain.objects.documents import Document, ObjectError, read
from podberth.explain.objects.world import World
from tests.builders import node, pod

Object = dict[str, Any]


def world(*objects: Object) -> World:
    """A world of a dump's documents."""
    made = World()
    made.add_documents([Document(o["kind"], json.dumps(o).encode(), f"items[{i}]") for i, o in enumerate(objects)])
    return made


def broken(kind: str, path: str, value: Any) -> Object:
    """An object with one field of a wrong type."""
    made: Object = {"kind": kind, "metadata": {"name": "x", "namespace": "ns"}, "spec": {"containers": [{"name": "c"}]}}
    at: Any = made
    *steps, last = path.split(".")
    for step in steps:
        at = at[int(step)] if step.isdigit() else at.setdefault(step, {})
    at[last] = value
    return made


@pytest.mark.parametrize(
    ("kind", "path", "value", "want"),
    [
        ("Pod", "spec.containers", 5, "spec.containers: 5: expected a list"),
        ("Pod", "spec.nodeName", ["a"], "spec.nodeName: a list: expected text"),
        ("Pod", "spec.priority", "high", 'spec.priority: "high": expected a whole number'),
        ("Pod", "metadata.labels", {"a": "b", "c": 1}, "metadata.labels[c]: 1: expected text: put it in quotes"),
        ("Pod", "spec.nodeSelector", {"disk": True}, "spec.nodeSelector[disk]: true: expected text: put it in quotes"),
        ("Pod", "spec.tolerations", [{"key": "a"}, 3], "spec.tolerations[1]: 3: expected a mapping"),
        ("Pod", "spec.affinity", {"podAffinity": []}, "spec.affinity.podAffinity: a list: expected a mapping"),
        ("Pod", "spec.containers.0.image", 5, "spec.containers[0].image: 5: expected text: put it in quotes"),
        (
            "Pod",
            "spec.containers.0.ports",
            [{"hostPort": "80"}],
            'spec.containers[0].ports[0].hostPort: "80": expected a whole number',
        ),
        (
            "Pod",
            "spec.containers.0.resources",
            {"requests": {"cpu": []}},
            "spec.containers[0].resources.requests[cpu]: a list: expected a quantity such as 500m or 2Gi",
        ),
        ("Node", "spec.taints", "gpu", 'spec.taints: "gpu": expected a list'),
        ("Node", "spec.unschedulable", "yes", 'spec.unschedulable: "yes": expected true or false'),
        (
            "Node",
            "status.allocatable",
            {"cpu": None},
            "status.allocatable[cpu]: null: expected a value",
        ),
        ("Namespace", "metadata.labels", [], "metadata.labels: a list: expected a mapping"),
        ("Service", "spec.selector", {"app": 1}, "spec.selector[app]: 1: expected text: put it in quotes"),
    ],
)
def test_names_object_field_value_and_expectation(kind: str, path: str, value: Any, want: str) -> None:
    """A field of a wrong type is named with its whole path, also inside of parts that are decoded later."""
    with pytest.raises(ObjectError) as found:
        world(broken(kind, path, value))
    assert str(found.value) == f"{kind} ns/x (items[0]): {want}"


@pytest.mark.parametrize(
    ("objects", "want"),
    [
        pytest.param(
            [node("n"), node("n") | {"spec": {}, "metadata": {"name": "n", "uid": "2"}}],
            "Node n: is there twice",
            id="node",
        ),
        pytest.param([pod("p", uid="1"), pod("p", uid="2")], "Pod default/p: is there twice", id="pod"),
        pytest.param(
            [pod("p", on="n", uid="1"), pod("q", on="n", uid="1")],
            "Pod default/q: default/p has the same uid",
            id="uid",
        ),
        pytest.param([{"kind": "Pod", "metadata": {"namespace": "x"}}], "metadata.name: Required value", id="no name"),
        pytest.param(
            [{"kind": "Node", "metadata": 5}], "Node ? (items[0]): metadata: 5: expected a mapping", id="no metadata"
        ),
        pytest.param([{"kind": "Dump", "kinds": 5}], "items[0]: Dump: kinds: 5: expected a list of texts", id="kinds"),
        pytest.param(
            [{"kind": "ResourceQuota", "metadata": {"name": "q"}, "spec": {"scopes": 5}}],
            "items[0]: ResourceQuota q: spec.scopes: 5: expected a list",
            id="scopes of a quota",
        ),
        pytest.param(
            [{"kind": "LimitRange", "metadata": {"name": "l"}, "spec": {"limits": [None]}}],
            "items[0]: LimitRange l: spec.limits[0]: null: expected a value",
            id="a limit that is nothing",
        ),
    ],
)
def test_refuses(objects: list[Object], want: str) -> None:
    """Objects that exclude each other, or are none, are refused by name."""
    with pytest.raises(ObjectError) as found:
        world(*objects)
    assert want in str(found.value)


def test_the_same_object_from_two_files_counts_once() -> None:
    """The later version of an object with the same uid replaces the earlier one."""
    made = world(pod("p", uid="1"), pod("p", uid="1", on="n"), node("n"))
    assert list(made.placed) == ["default/p"]
    assert not made.waiting
    assert len(made.cluster) == 1


def test_a_pod_that_finished_meanwhile_is_taken_off() -> None:
    """A later version that is finished frees the node."""
    made = world(node("n"), pod("p", uid="1", on="n"), pod("p", uid="1", on="n", phase="Succeeded"))
    assert not len(made.cluster)
    assert list(made.finished) == ["default/p"]


def test_without_a_namespace_it_is_default() -> None:
    """Hand-written objects get the namespace that the API server would give them."""
    made = World()
    made.add_documents(read(b"{kind: Pod, metadata: {name: p}, spec: {}}"))
    assert list(made.waiting) == ["default/p"]
    assert made.waiting["default/p"].shape.namespace == "default"


def test_unreadable_quantities_of_nodes_are_named_and_the_rest_counts() -> None:
    """One absurd number does not take the node out of the answer."""
    made = world(node("n", cpu="lots", memory="4Gi"), node("m"))
    assert made.cluster.nodes.count == 2
    [problem] = made.problems
    assert problem.startswith('Node n: status.allocatable[cpu]: Invalid value: "lots"')


def test_nominated_pods_are_known() -> None:
    """A waiting pod with a nominated node keeps room there."""
    made = world(node("n"), pod("p", uid="1", status={"nominatedNodeName": "n"}))
    assert made.cluster.nominations.node_of.get("1") == "n"


def default_class(name: str, made: str | None = None, group: str = "storageclass.kubernetes.io") -> Object:
    """A StorageClass of claims that name none, and when it was made."""
    metadata: Object = {"name": name, "annotations": {f"{group}/is-default-class": "true"}}
    return {"kind": "StorageClass", "metadata": metadata | ({"creationTimestamp": made} if made else {})}


OLD, NEW = "2025-01-01T00:00:00Z", "2026-01-01T00:00:00Z"


@pytest.mark.parametrize(
    ("classes", "want"),
    [
        ([default_class("new", NEW), default_class("old", OLD)], "new"),
        ([default_class("b", NEW), default_class("a", NEW)], "a"),
        ([default_class("old", OLD, "storageclass.beta.kubernetes.io"), default_class("unknown")], "old"),
        ([{"kind": "StorageClass", "metadata": {"name": "usual"}}], ""),
    ],
)
def test_the_newest_default_class_counts(classes: list[Object], want: str) -> None:
    """Of several, as the API server chooses, whatever their order."""
    assert world(*classes).default_class == world(*reversed(classes)).default_class == want
