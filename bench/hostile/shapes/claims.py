"""Claims, and pods that use them."""

from __future__ import annotations

from collections.abc import Iterator

from bench.hostile.scenario import CROWD, Scenario, Write, many, put
from bench.hostile.town import TENANT, Object, pod

_SELECTED = "volume.kubernetes.io/selected-node"


def claim(i: int, storage_class: str = "wait", selected: str = "", **more: object) -> Object:
    """A claim of the hostile tenant that waits."""
    metadata: Object = {"name": f"claim-{i}", "namespace": TENANT, "uid": f"claim-{i}"}
    if selected:
        metadata["annotations"] = {_SELECTED: selected}
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": storage_class,
        "resources": {"requests": {"storage": "1Gi"}},
        **more,
    }
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": metadata,
        "spec": spec,
        "status": {"phase": "Pending"},
    }


def using(name: str, claims: range, **requests: str) -> Object:
    """A pod that uses these claims."""
    volumes = [{"name": f"v{i}", "persistentVolumeClaim": {"claimName": f"claim-{i}"}} for i in claims]
    return pod(name, TENANT, {"app": name}, {"volumes": volumes}, **requests)


def _one_pod(count: int, storage_class: str) -> Iterator[Write]:
    for i in range(count):
        yield put(claim(i, storage_class), 0.1)
    yield put(using("worst", range(count)), 50)


def _pods(count: int, storage_class: str, each: int) -> Iterator[Write]:
    for i in range(count * each):
        yield put(claim(i, storage_class), 0.1)
    for i in range(count):
        yield put(using(f"user-{i}", range(i * each, (i + 1) * each)), 5)


def _flips(nodes: int) -> Iterator[Write]:
    yield put(claim(0))
    yield put(using("worst", range(1), cpu="1000"), 10)
    for turn in range(2_000):
        yield put(claim(0, selected=f"node-{turn % nodes}"), 1)


def _missing_then_there(nodes: int) -> Iterator[Write]:
    """2,000 pods wait for claims that are not there; then claims come that none of them means."""
    for i in range(2_000):
        yield put(using(f"user-{i}", range(100_000 + i, 100_001 + i)), 0.5)
    for i in range(1_000):
        yield put(claim(i), 1)


def _selector_of_many(nodes: int) -> Iterator[Write]:
    wanted = {"matchExpressions": [{"key": f"k{i}", "operator": "DoesNotExist"} for i in range(10_000)]}
    yield put(claim(0, "local", selector=wanted))
    yield put(using("worst", range(1)), 50)


SCENARIOS = [
    Scenario(
        "claims-wait-2000",
        "PersistentVolumeClaim",
        "2,000 claims that wait for their first pod, and one that uses all",
        lambda nodes: _one_pod(2_000, "wait"),
        2_000,
        2.0,
    ),
    Scenario(
        "claims-local-500",
        "PersistentVolumeClaim",
        "500 claims of local volumes, of which there are 500, and one pod that uses all",
        lambda nodes: _one_pod(500, "local"),
        500,
        2.0,
    ),
    Scenario(
        "claims-pods-300x20",
        "PersistentVolumeClaim",
        "300 pods that use 20 waiting claims each",
        lambda nodes: _pods(300, "wait", 20),
        6_000,
        4.0,
        bounds=CROWD,
    ),
    Scenario(
        "claims-pods-local-300",
        "PersistentVolumeClaim",
        "300 pods that use a claim of a local volume each",
        lambda nodes: _pods(300, "local", 1),
        300,
        3.0,
        bounds=CROWD,
    ),
    Scenario(
        "claim-selected-flips",
        "PersistentVolumeClaim",
        "the selected node of a claim, changed 2,000 times, 1 ms apart",
        _flips,
        2_000,
        3.0,
        bounds=CROWD,
    ),
    Scenario(
        "claims-missing-2000",
        "PersistentVolumeClaim",
        "2,000 pods that use claims that are not there, then 1,000 other claims",
        _missing_then_there,
        3_000,
        4.0,
        bounds=CROWD,
    ),
    Scenario(
        "claim-selector-10000",
        "PersistentVolumeClaim",
        "a claim of a local volume with 10,000 requirements",
        _selector_of_many,
    ),
    Scenario(
        "claims-5000",
        "PersistentVolumeClaim",
        "5,000 claims, 1 ms apart, that nobody uses",
        many(claim, 5_000, 1),
        5_000,
        6.0,
        bounds=CROWD,
    ),
    Scenario(
        "claims-shared-by-2000",
        "PersistentVolumeClaim",
        "2,000 pods that use the same claim, which nothing satisfies",
        lambda nodes: (
            put(made, 1) for made in [claim(0, "none"), *(using(f"user-{i}", range(1)) for i in range(2_000))]
        ),
        2_001,
        4.0,
        bounds=CROWD,
    ),
]
