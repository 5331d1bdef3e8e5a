"""Worlds made of other worlds."""

from __future__ import annotations

import json

from podberth.lab import Change, run
from podberth.lab.traces.rows import gang
from podberth.lab.variations import filled, inflated, measure
from tests.builders import Object, node, pod
from tests.unit.lab.worlds import comes, configured, world


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


def member(name: str) -> Object:
    """A pod of a gang."""
    made = pod(name, "1")
    made["spec"]["schedulingGroup"] = {"podGroupName": "g"}
    return made


def test_inflation_knows_no_gangs() -> None:
    """Pods come one by one, and nobody makes their pod groups: each is placed by itself."""
    gangs = [Change(0.0, put=gang("g", 2))]
    there = world([node("a", "10")], *(comes(member(f"p{i}"), i) for i in range(2)), changes=gangs)
    assert run(there, configured()).summary["bound"] == 2
    assert run(inflated(there, 0.4, 0), configured()).summary["bound"] == 4
