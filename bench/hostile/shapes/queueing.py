"""Crowds of pods that wait, change, come and go."""

from __future__ import annotations

from collections.abc import Iterator

from bench.hostile.scenario import CROWD, Scenario, Write, gone, many, put
from bench.hostile.shapes.terms import apart, not_in, spread
from bench.hostile.town import TENANT, Object, node, of_app, pod


def _named(made: Object, i: int) -> Object:
    name = f"{made['metadata']['name']}-{i}"
    made["metadata"] |= {"name": name, "uid": f"{TENANT}/{name}"}
    return made


def _spread(i: int) -> Object:
    made = _named(spread(50), i)
    for k, constraint in enumerate(made["spec"]["topologySpreadConstraints"]):
        constraint["labelSelector"]["matchExpressions"][0]["values"] = [f"s{i}-{k}"]
    return made


def _never(i: int, **spec: object) -> Object:
    """Asks for more than any node has, each for something else, and with a label of its own."""
    return pod(f"never-{i}", TENANT, {"app": f"never-{i}"}, dict(spec), cpu=f"{1_000 + i}")


def _never_and_news(nodes: int) -> Iterator[Write]:
    """10,000 of them, and then what might wake them: nodes change, pods go."""
    for i in range(10_000):
        yield put(_never(i), 1)
    for i in range(200):
        changed = node(i)
        changed["metadata"]["labels"]["example.com/turn"] = "1"
        yield put(changed, 5)
    for i in range(200):
        app = i * 7_919 % 2_000
        yield gone(of_app(app, f"app-{app}-{i}"), 5)


def _flip_pending(nodes: int) -> Iterator[Write]:
    added: list[Object] = []
    for turn in range(500):
        added.append({"key": f"k{turn}", "operator": "Exists"})
        yield put(_never(0, tolerations=added), 1)


def _flip_labels(nodes: int) -> Iterator[Write]:
    for turn in range(2_000):
        made = _never(0)
        made["metadata"]["labels"]["turn"] = str(turn)
        yield put(made, 1)


def _create_and_delete(nodes: int) -> Iterator[Write]:
    for i in range(2_000):
        made = pod(f"brief-{i}", TENANT, {"app": f"brief-{i}"})
        yield put(made, 1)
        yield gone(made, 1)


def _nominated(nodes: int) -> Iterator[Write]:
    """By who may write pods/status: pods that name a node as theirs."""
    for i in range(2_000):
        made = pod(f"named-{i}", TENANT, {"app": f"named-{i}"}, {"priority": 1_000}, cpu="1000")
        made["status"] = {"nominatedNodeName": f"node-{i % nodes}"}
        yield put(made, 1)


def _preemptors(count: int, terms: int = 0) -> list[Object]:
    made = []
    for i in range(count):
        one = pod(
            f"high-{i}",
            TENANT,
            {"app": f"high-{i}"},
            {"priority": 1_000 + i % 7},
            cpu="31500m",
            memory=f"{60_000 + i}Mi",
        )
        if terms:
            one["spec"]["affinity"] = apart(not_in(terms, f"s{i}-"))["spec"]["affinity"]
        made.append(one)
    return made


def _budget(i: int) -> Object:
    metadata = {"name": f"budget-{i}", "namespace": TENANT, "uid": f"budget-{i}"}
    spec = {
        "minAvailable": 1,
        "selector": {"matchExpressions": [{"key": "zz", "operator": "NotIn", "values": [f"x{i}"]}]},
    }
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": metadata,
        "spec": spec,
        "status": {"disruptionsAllowed": 0},
    }


def _preempt_past_budgets(nodes: int) -> Iterator[Write]:
    """The tenant's own pods of low priority on all nodes, its budgets over them, and one pod that would have room."""
    for i in range(2_000):
        yield put(_budget(i), 1)
    for i in range(nodes):
        made = pod(f"low-{i}", TENANT, {"app": "low"}, {"nodeName": f"node-{i}", "priority": -10}, cpu="20")
        yield put(made, 0.2)
    for one in _preemptors(3):
        yield put(one, 200)


SCENARIOS = [
    Scenario(
        "crowd-anti-notin-1000x700",
        "Pod",
        "1,000 pods with 700 terms each (S1), no two alike, one after the other",
        lambda nodes: (put(_named(apart(not_in(700, f"s{i}-")), i), 20) for i in range(1_000)),
        1_000,
        22.0,
        bounds=CROWD,
    ),
    Scenario(
        "crowd-anti-notin-1000x20",
        "Pod",
        "1,000 pods with 20 such terms each, no two alike",
        lambda nodes: (put(_named(apart(not_in(20, f"s{i}-")), i), 10) for i in range(1_000)),
        1_000,
        12.0,
        bounds=CROWD,
    ),
    Scenario(
        "crowd-spread-1000x50",
        "Pod",
        "1,000 pods with 50 spread constraints each, no two alike",
        lambda nodes: (put(_spread(i), 10) for i in range(1_000)),
        1_000,
        12.0,
        bounds=CROWD,
    ),
    Scenario(
        "crowd-never-fits-10000",
        "Pod",
        "10,000 pods that no node takes, no two alike; then 200 nodes change and 200 pods go",
        _never_and_news,
        10_000,
        13.0,
        bounds=CROWD,
    ),
    Scenario(
        "crowd-never-fits-flush",
        "Pod",
        "the 10,000 come at once; five minutes later all of them are tried again",
        many(_never, 10_000, 0.01),
        10_000,
        320.0,
        0.1,
        bounds=CROWD,
    ),
    Scenario(
        "pending-labels-flip",
        "Pod",
        "labels of a waiting pod, changed 2,000 times, 1 ms apart",
        _flip_labels,
        2_000,
        3.0,
        bounds=CROWD,
    ),
    Scenario(
        "pending-tolerations-flip",
        "Pod",
        "tolerations added to a waiting pod 500 times, 1 ms apart",
        _flip_pending,
        500,
        1.0,
        bounds=CROWD,
    ),
    Scenario(
        "created-and-deleted",
        "Pod",
        "2,000 pods created and deleted 1 ms later",
        _create_and_delete,
        2_000,
        5.0,
        bounds=CROWD,
    ),
    Scenario(
        "nominated-2000",
        "Pod",
        "2,000 pods that never fit and name a node as theirs, of high priority",
        _nominated,
        2_000,
        4.0,
        bounds=CROWD,
    ),
    Scenario(
        "preemptor",
        "Pod",
        "one pod of high priority that fits nowhere without preemption on one of all nodes",
        lambda nodes: (put(one, 0) for one in _preemptors(1)),
    ),
    Scenario(
        "preemptors-200",
        "Pod",
        "200 of them, no two alike",
        lambda nodes: (put(one, 20) for one in _preemptors(200)),
        200,
        6.0,
    ),
    Scenario(
        "preemptors-with-terms-20",
        "Pod",
        "20 of them, with 20 anti-affinity terms each that every pod of a zone violates",
        lambda nodes: (put(one, 50) for one in _preemptors(20, terms=20)),
        20,
        3.0,
    ),
    Scenario(
        "preemptors-past-budgets",
        "PodDisruptionBudget",
        "2,000 budgets that each mean every pod of the namespace, a pod of it on each node, 3 that would preempt them",
        _preempt_past_budgets,
        2_000,
        4.0,
    ),
]
