"""Pod groups and devices in worlds."""

from __future__ import annotations

from typing import Any

from podberth.lab import Change, Result, run
from tests.builders import Object, node, pod
from tests.devices import claim, claiming, device, device_class, request, resource_slice
from tests.unit.lab.worlds import comes, configured, raw, world


def columns(result: Result, *names: str) -> list[tuple[Any, ...]]:
    """Return some columns of the decisions, row by row."""
    return list(zip(*(result.columns["decisions"][name] for name in names), strict=True))


def group(name: str, needed: int) -> Object:
    """A gang of scheduling.k8s.io."""
    return {
        "apiVersion": "scheduling.k8s.io/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"schedulingPolicy": {"gang": {"minCount": needed}}},
    }


def member(name: str, of: str) -> Object:
    """A pod of a gang that asks for two cores."""
    made = pod(name, "2")
    made["spec"]["schedulingGroup"] = {"podGroupName": of}
    return made


def test_a_gang_starts_as_a_whole() -> None:
    """It waits for its last pod, and then for room for all: the second gang until the first one has ended."""
    arrivals = [
        comes(member("a-0", "a"), 0, 100),
        comes(member("a-1", "a"), 5, 100),
        comes(member("b-0", "b"), 10, 50),
        comes(member("b-1", "b"), 10, 50),
    ]
    found = run(world([node("n", "4"), group("a", 2), group("b", 2)], *arrivals), configured())
    assert columns(found, "pod", "gang", "arrived", "bound", "ended") == [
        ("a-0", "a", 0.0, 5.0, 105.0),
        ("a-1", "a", 5.0, 5.0, 105.0),
        ("b-0", "b", 10.0, 105.0, 155.0),
        ("b-1", "b", 10.0, 105.0, 155.0),
    ]


def test_a_gang_may_come_with_its_group() -> None:
    """Changes happen before pods come."""
    arrivals = [comes(member(f"a-{i}", "a"), 3) for i in range(2)]
    found = run(world([node("n", "4")], *arrivals, changes=[Change(3, put=raw(group("a", 2)))]), configured())
    assert columns(found, "bound") == [(3.0,), (3.0,)]


def test_devices_are_given_and_given_back() -> None:
    """Two claims for one device: the second pod waits until the first one has ended."""
    there = [
        node("n", "4"),
        device_class(),
        resource_slice("s", device("gpu-0"), node="n"),
        claim("one", request()),
        claim("two", request()),
    ]
    arrivals = [comes(claiming(pod("x", "1"), "one"), 0, 60), comes(claiming(pod("y", "1"), "two"), 10, 60)]
    for _ in range(2):  # what one run has given is free for the next
        found = run(world(there, *arrivals), configured())
        assert columns(found, "pod", "node", "bound", "ended") == [("x", "n", 0.0, 60.0), ("y", "n", 60.0, 120.0)]
