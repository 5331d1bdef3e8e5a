"""Objects that select pods: Services, ReplicaSets, StatefulSets, budgets."""

from __future__ import annotations

from collections.abc import Iterator

from bench.hostile.scenario import CROWD, Scenario, Write, gone, many, one, put
from bench.hostile.shapes.terms import needs
from bench.hostile.town import TENANT, Object, pod

_LABELS = {f"l{i}": "v" for i in range(5_000)}


def service(i: int, selector: dict[str, str]) -> Object:
    """A Service of the hostile tenant."""
    metadata = {"name": f"service-{i}", "namespace": TENANT, "uid": f"service-{TENANT}-{i}"}
    spec = {"selector": selector, "ports": [{"port": 80}]}
    return {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec}


def _set(i: int, requirements: list[Object], kind: str = "ReplicaSet") -> Object:
    metadata = {"name": f"set-{i}", "namespace": TENANT, "uid": f"set-{TENANT}-{i}"}
    spec: Object = {"selector": {"matchExpressions": requirements}}
    if kind == "PodDisruptionBudget":
        return {"apiVersion": "policy/v1", "kind": kind, "metadata": metadata, "spec": {"minAvailable": 1, **spec}}
    spec["template"] = {"metadata": {"labels": {"own": "1"}}, "spec": {"containers": [{"name": "c", "image": "a"}]}}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": metadata, "spec": {"replicas": 0, **spec}}


def _owned(i: int, kind: str) -> Object:
    made = pod(f"owned-{i}", TENANT, {**_LABELS, "own": str(i)})
    made["metadata"]["ownerReferences"] = [
        {"apiVersion": "apps/v1", "kind": kind, "name": "set-0", "uid": f"set-{TENANT}-0", "controller": True}
    ]
    return made


def _services_and_pods(nodes: int) -> Iterator[Write]:
    """Each Service selects every pod of the namespace by another label; then 20 such pods."""
    for i in range(5_000):
        yield put(service(i, {f"l{i}": "v"}), 0.5)
    for i in range(20):
        yield put(_owned(i, "ReplicaSet"), 20)


def _service_flips(nodes: int) -> Iterator[Write]:
    for turn in range(2_000):
        yield put(service(0, {"turn": str(turn)}), 1)


def _service_comes_and_goes(nodes: int) -> Iterator[Write]:
    """Beside 5,000 pods that no node takes: each change of a Service may wake them."""
    for i in range(5_000):
        yield put(pod(f"never-{i}", TENANT, {"app": f"never-{i}"}, cpu=f"{1_000 + i}"), 0.2)
    for i in range(500):
        yield put(service(i, {"app": "x"}), 2)
        yield gone(service(i, {"app": "x"}), 2)


def _set_and_pods(kind: str, requirements: list[Object]) -> Iterator[Write]:
    yield put(_set(0, requirements, kind))
    for i in range(20):
        yield put(_owned(i, kind), 20)


SCENARIOS = [
    Scenario(
        "services-5000",
        "Service",
        "5,000 Services that each mean all pods of the namespace; 20 pods",
        _services_and_pods,
        5_000,
        4.0,
        bounds=CROWD,
    ),
    Scenario(
        "service-large",
        "Service",
        "one Service with a selector of 12,000 labels",
        one(lambda: service(0, {f"{'k' * 40}{i}": "v" * 60 for i in range(12_000)})),
    ),
    Scenario(
        "service-flips",
        "Service",
        "a Service's selector, changed 2,000 times, 1 ms apart",
        _service_flips,
        2_000,
        3.0,
        bounds=CROWD,
    ),
    Scenario(
        "service-comes-and-goes",
        "Service",
        "500 Services made and deleted beside 5,000 pods that never fit",
        _service_comes_and_goes,
        500,
        4.0,
        bounds=CROWD,
    ),
    Scenario(
        "replicaset-20000",
        "ReplicaSet",
        "a ReplicaSet with 20,000 requirements and 20 pods of it",
        lambda nodes: _set_and_pods("ReplicaSet", [needs("NotIn", ["x"], f"k{i}") for i in range(20_000)]),
    ),
    Scenario(
        "statefulset-values",
        "StatefulSet",
        "a StatefulSet with one requirement of 50,000 values, and 20 pods of it",
        lambda nodes: _set_and_pods("StatefulSet", [needs("NotIn", [f"x{i}" for i in range(50_000)])]),
    ),
    Scenario(
        "replicasets-5000",
        "ReplicaSet",
        "5,000 ReplicaSets, 1 ms apart",
        many(lambda i: _set(i, [needs("NotIn", [f"x{i}"])]), 5_000, 1),
        5_000,
        6.0,
        bounds=CROWD,
    ),
    Scenario(
        "budgets-5000",
        "PodDisruptionBudget",
        "5,000 budgets that each mean all pods of the namespace",
        many(lambda i: _set(i, [needs("NotIn", [f"x{i}"])], "PodDisruptionBudget"), 5_000, 1),
        5_000,
        6.0,
        bounds=CROWD,
    ),
    Scenario(
        "budget-large",
        "PodDisruptionBudget",
        "one budget with 20,000 requirements",
        one(lambda: _set(0, [needs("NotIn", ["x"], f"k{i}") for i in range(20_000)], "PodDisruptionBudget")),
    ),
]
