"""Small objects that a tenant keeps writing, and crowds of which each is ordinary."""

from __future__ import annotations

from collections.abc import Iterator

from bench.hostile.scenario import CROWD, Scenario, Write, put
from bench.hostile.shapes.terms import needs
from bench.hostile.town import TENANT, Object, pod

_GATES = 1_000


def _nominated_small(nodes: int) -> Iterator[Write]:
    """By who may write pods/status: each names a node and would leave nearly all of it to others."""
    for i in range(2_000):
        spec = {"priority": 1_000, "nodeSelector": {"example.com/nowhere": "yes"}}
        made = pod(f"small-{i}", TENANT, {"app": f"small-{i}"}, spec, cpu=f"{1 + i % 50}m")
        made["status"] = {"nominatedNodeName": f"node-{i % nodes}"}
        yield put(made, 1)


def _services(nodes: int) -> Iterator[Write]:
    """A Service for each pod, and a pod for each Service."""
    for i in range(2_000):
        metadata = {"name": f"one-{i}", "namespace": TENANT, "uid": f"one-{i}"}
        spec: Object = {"selector": {"app": f"one-{i}"}, "ports": [{"port": 80}]}
        yield put({"kind": "Service", "metadata": metadata, "spec": spec}, 1)
        yield put(pod(f"one-{i}", TENANT, {"app": f"one-{i}"}), 1)


def _conditions(nodes: int) -> Iterator[Write]:
    """By who may write pods/status: conditions of a hundred waiting pods, others each time."""
    for turn in range(3_000):
        made = pod(f"waits-{turn % 100}", TENANT, {"app": "waits"}, cpu=f"{1_000 + turn % 100}")
        made["status"] = {
            "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Other", "message": f"turn {turn}"}]
        }
        yield put(made, 1)


def _ungated(nodes: int) -> Iterator[Write]:
    gates = [{"name": f"example.com/gate-{k}"} for k in range(_GATES)]
    for left in range(_GATES, -1, -1):
        yield put(pod("gated", TENANT, {"app": "gated"}, {"schedulingGates": gates[:left]}, cpu="1000"), 1)


def _budgets(nodes: int) -> Iterator[Write]:
    """Pods of low priority on a thousand nodes, budgets of thousands of values over them, and who would preempt."""
    values = [f"low-{i}" for i in range(5_000)]
    for i in range(50):
        metadata = {"name": f"budget-{i}", "namespace": TENANT, "uid": f"budget-{i}"}
        selector = {"matchExpressions": [needs("In", [*values, f"x{i}"], "app")]}
        budget: Object = {"kind": "PodDisruptionBudget", "metadata": metadata, "spec": {"selector": selector}}
        yield put(budget | {"status": {"disruptionsAllowed": 0}}, 5)
    for i in range(1_000):
        spec = {"nodeName": f"node-{i}", "priority": -10}
        yield put(pod(f"low-{i}", TENANT, {"app": f"low-{i}"}, spec, cpu="20"), 0.5)
    for i in range(3):
        yield put(pod(f"high-{i}", TENANT, {"app": "high"}, {"priority": 1_000 + i}, cpu="31500m"), 200)


def _groups(nodes: int) -> Iterator[Write]:
    for i in range(5_000):
        metadata = {"name": f"alone-{i}", "namespace": TENANT, "uid": f"alone-{i}"}
        spec = {"schedulingPolicy": {"gang": {"minCount": 1}}}
        yield put({"kind": "PodGroup", "metadata": metadata, "spec": spec}, 0.5)
        member = {"schedulingGroup": {"podGroupName": f"alone-{i}"}}
        yield put(pod(f"alone-{i}", TENANT, {"app": "alone"}, member, cpu="1m"), 0.5)


SCENARIOS = [
    Scenario(
        "nominated-small-2000",
        "Pod",
        "2,000 small pods that never fit and name a node as theirs, of high priority",
        _nominated_small,
        2_000,
        4.0,
        bounds=CROWD,
    ),
    Scenario(
        "services-of-one-2000",
        "Service",
        "2,000 Services, and a pod for each of them, 1 ms apart",
        _services,
        4_000,
        6.0,
        bounds=CROWD,
    ),
    Scenario(
        "pending-conditions-flip",
        "Pod",
        "conditions of 100 waiting pods, changed 3,000 times, 1 ms apart",
        _conditions,
        3_000,
        4.0,
        bounds=CROWD,
    ),
    Scenario(
        "gates-one-by-one",
        "Pod",
        "1,000 gates of a pod, taken away one after the other, 1 ms apart",
        _ungated,
        1_001,
        2.0,
        bounds=CROWD,
    ),
    Scenario(
        "preemptors-past-long-budgets",
        "PodDisruptionBudget",
        "50 budgets of 5,000 values each over a thousand pods, and 3 that would preempt them",
        _budgets,
        50,
        3.0,
        bounds=CROWD,
    ),
    Scenario(
        "groups-of-one-5000",
        "PodGroup",
        "5,000 pod groups of one pod each, half a millisecond apart",
        _groups,
        10_000,
        7.0,
        bounds=CROWD,
    ),
]
