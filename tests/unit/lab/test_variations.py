"""Worlds made of other worlds."""

from __future__ import annotations

import json

from podberth.lab.variations import filled, inflated, measure, sampled
from tests.builders import node, pod
from tests.unit.lab.worlds import comes, world


def test_a_sample() -> None:
    """Placed pods go with their nodes, and other objects stay."""
    nodes = [node(f"n{i}") for i in range(10)]
    placed = [pod(f"on{i}", "1", on=f"n{i}") for i in range(10)]
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s", "namespace": "default"}, "spec": {}}
    there = world([*nodes, *placed, service], *(comes(pod(f"p{i}", "1"), i) for i in range(10)))
    found = sampled(there, 0.3, 0.5, 0)
    documents = [json.loads(raw) for raw in found.objects]
    left = {each["metadata"]["name"] for each in documents if each["kind"] == "Node"}
    assert len(left) == 3
    assert {each["spec"]["nodeName"] for each in documents if each["kind"] == "Pod"} == left
    assert len(documents) == 7
    assert len(found.arrivals) == 5
    assert sampled(there, 0.3, 0.5, 0) == found
    assert sampled(there, 1, 1, 0) == there


def test_fill() -> None:
    """Lifetimes grow until the pods of some moment ask for the share; a world that is as full stays."""
    there = world([node("a", "10")], *(comes(pod(f"p{i}", "1"), 10.0 * i, 1) for i in range(20)))
    found = filled(there, 0.5)
    assert {round(each.lasts) for each in found.arrivals} == {40}
    assert filled(found, 0.4) == found


def test_inflation() -> None:
    """Each pod comes once, in an order by the seed; then others are drawn until so much was asked for; all stay."""
    there = world(
        [node("a", "10", others={"x.test/gpu": "4"}), node("without", "10")],
        *(comes(pod(f"p{i}", "1", others={"x.test/gpu": "1"} if i % 2 else {}), i, 5) for i in range(6)),
    )
    assert measure(there) == "x.test/gpu"
    found = inflated(there, 1.5, 0)
    names = [json.loads(each.pod)["metadata"]["name"] for each in found.arrivals]
    assert sorted(names[:6]) == [f"p{i}" for i in range(6)]
    assert len(set(names)) == len(names) > 6
    asked = [json.loads(each.pod)["spec"]["containers"][0]["resources"]["requests"] for each in found.arrivals]
    assert sum("x.test/gpu" in each for each in asked) == 6, "one and a half times the four there are"
    assert [(each.at, each.lasts) for each in found.arrivals] == [(i, float("inf")) for i in range(len(names))]
    assert [json.loads(raw)["metadata"]["name"] for raw in found.objects] == ["a"]
    assert inflated(there, 1.5, 0) == found != inflated(there, 1.5, 1)
    assert measure(world([node("a")], comes(pod("x")))) == ""
