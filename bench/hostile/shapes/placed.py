"""Pods that are on nodes: their terms are asked about each pod that comes, their labels and statuses may be changed."""

from __future__ import annotations

from collections.abc import Iterator

from bench.crowd import ZONE
from bench.hostile.scenario import CROWD, Scenario, Write, gone, many, put
from bench.hostile.shapes.terms import apart, needs, not_in, rather, term
from bench.hostile.town import TENANT, Object, pod


def _on(made: Object, i: int, node: str = "") -> Object:
    """The pod as number i, on a node that its writer has named: nobody has to schedule it."""
    name = f"{made['metadata']['name']}-{i}"
    made["metadata"] |= {"name": name, "uid": f"{TENANT}/{name}"}
    made["spec"]["nodeName"] = node or f"node-{i}"
    return made


def _flips(nodes: int) -> Iterator[Write]:
    """100 placed pods whose labels change 20 times each, never to what they were."""
    for turn in range(20):
        for i in range(100):
            yield put(_on(pod("flip", TENANT, {"app": "flip", "turn": f"{turn}-{i}"}), i), 0.5)


def _flips_of_large(nodes: int) -> Iterator[Write]:
    labels = {f"{'k' * 40}{i}": "v" * 60 for i in range(5_000)}
    for turn in range(30):
        yield put(_on(pod("flip", TENANT, {**labels, "turn": str(turn)}), 0), 10)


def _status(nodes: int) -> Iterator[Write]:
    """By who may write pods/status: conditions and statuses of containers that there are not."""
    for turn in range(30):
        made = _on(pod("status", TENANT, {"app": "status"}), 0)
        made["status"] = {
            "phase": "Running",
            "conditions": [{"type": f"example.com/c{i}", "status": "True"} for i in range(5_000)],
            "containerStatuses": [
                {"name": f"c{i}", "allocatedResources": {"cpu": f"{turn}m"}, "resources": {"requests": {"cpu": "1"}}}
                for i in range(5_000)
            ],
        }
        yield put(made, 20)


def _came_and_went(nodes: int) -> Iterator[Write]:
    for i in range(100):
        made = _on(apart(not_in(100, f"s{i}-")), i)
        yield put(made, 5)
        yield gone(made, 5)


def _die_at_once(nodes: int) -> Iterator[Write]:
    made = [
        _on(apart([{**one, "topologyKey": "example.com/k"} for one in not_in(700, f"s{i}-")]), i) for i in range(200)
    ]
    for one in made:
        yield put(one, 10)
    for one in made:
        yield gone(one)


def _with_containers(i: int, count: int) -> Object:
    """As many containers, no two alike."""
    containers = [
        {"name": f"c{k}", "image": f"registry.example/a:{i}-{k}", "resources": {"requests": {"cpu": f"{1 + k % 7}m"}}}
        for k in range(count)
    ]
    return _on(pod("large", TENANT, {"app": "large"}, {"containers": containers}), i)


SCENARIOS = [
    Scenario(
        "placed-containers-10x10000",
        "Pod",
        "10 placed pods with 10,000 containers each",
        many(lambda i: _with_containers(i, 10_000), 10, 5),
        10,
        2.0,
    ),
    Scenario(
        "placed-anti-1000x700-alike",
        "Pod",
        "1,000 placed pods with the same 700 anti-affinity terms by a key that no node has",
        many(lambda i: _on(apart([{**one, "topologyKey": "example.com/k"} for one in not_in(700)]), i), 1_000, 20),
        1_000,
        20.0,
        bounds=CROWD,
    ),
    Scenario(
        "placed-anti-200x700-distinct",
        "Pod",
        "200 placed pods with 700 anti-affinity terms each, no two alike, by a key that no node has",
        many(
            lambda i: _on(apart([{**one, "topologyKey": "example.com/k"} for one in not_in(700, f"s{i}-")]), i), 200, 20
        ),
        200,
        5.0,
        bounds=CROWD,
    ),
    Scenario(
        "placed-terms-die-at-once",
        "Pod",
        "200 placed pods with 700 distinct anti-affinity terms each, all deleted at once",
        _die_at_once,
        200,
        6.0,
        bounds=CROWD,
    ),
    Scenario(
        "placed-preferred-200x700-distinct",
        "Pod",
        "200 placed pods with 700 preferred terms each, no two alike, by zone, each for every pod",
        many(lambda i: _on(rather([{**one, "topologyKey": ZONE} for one in not_in(700, f"s{i}-")]), i), 200, 20),
        200,
        5.0,
        bounds=CROWD,
    ),
    Scenario(
        "placed-anti-in-200x700",
        "Pod",
        "200 placed pods with 700 terms each, each for one app of one team, no two alike",
        many(
            lambda i: _on(
                apart(
                    [
                        term(needs("In", [f"app-{k}"], "app"), needs("NotIn", [f"x{i}"]), per="example.com/k")
                        for k in range(700)
                    ]
                ),
                i,
            ),
            200,
            20,
        ),
        200,
        5.0,
        bounds=CROWD,
    ),
    Scenario(
        "placed-keys-200x700",
        "Pod",
        "200 placed pods with 700 preferred terms each, each by another topology key",
        many(
            lambda i: _on(rather([term(needs("Exists"), per=f"example.com/k{i}-{k}") for k in range(700)]), i), 200, 20
        ),
        200,
        5.0,
        bounds=CROWD,
    ),
    Scenario(
        "placed-terms-come-and-go",
        "Pod",
        "100 pods with 100 terms each, placed and deleted one after the other",
        _came_and_went,
        100,
        2.0,
        bounds=CROWD,
    ),
    Scenario(
        "placed-labels-flip",
        "Pod",
        "labels of 100 placed pods, changed 2,000 times to what nobody had",
        _flips,
        2_000,
        2.0,
        bounds=CROWD,
    ),
    Scenario(
        "placed-large-labels-flip", "Pod", "5,000 labels of one placed pod, changed 30 times", _flips_of_large, 30
    ),
    Scenario("placed-status-flip", "Pod", "a status of 5,000 conditions and containers, changed 30 times", _status, 30),
    Scenario(
        "placed-nowhere-5000",
        "Pod",
        "5,000 pods that name nodes that are not there",
        many(lambda i: _on(pod("lost", TENANT, {"app": "lost"}), i, f"nowhere-{i}"), 5_000, 1),
        5_000,
        6.0,
        bounds=CROWD,
    ),
    Scenario(
        "placed-ports-200x2000",
        "Pod",
        "200 placed pods with 2,000 host ports each, all on one node",
        many(
            lambda i: _on(
                pod(
                    "ports",
                    TENANT,
                    {},
                    {
                        "containers": [
                            {
                                "name": "c",
                                "image": "a",
                                "ports": [
                                    {"containerPort": 1, "hostPort": 1 + k, "hostIP": f"10.0.{i}.1"}
                                    for k in range(2_000)
                                ],
                            }
                        ]
                    },
                ),
                i,
                "node-0",
            ),
            200,
            10,
        ),
        200,
        3.0,
        bounds=CROWD,
    ),
]
