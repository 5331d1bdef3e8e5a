"""What a kubelet may write of its own node, and a namespace's labels where a tenant may change them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from bench.hostile.scenario import CROWD, Scenario, Write, put
from bench.hostile.town import TENANT, Object, namespace, node, pod


def _changed(i: int = 0, labels: dict[str, str] | None = None, **status: Any) -> Object:
    made = node(i)
    made["metadata"]["labels"] |= labels or {}
    made["status"] |= status
    return made


def _images(count: int, salt: str = "") -> list[Object]:
    return [{"names": [f"registry.example/{salt}image-{i}:1"], "sizeBytes": 1 << 20} for i in range(count)]


def _flips(count: int, make: Any) -> Any:
    def writes(nodes: int) -> Iterator[Write]:
        for turn in range(count):
            yield put(make(turn), 10 if count < 500 else 1)

    return writes


def _room(count: int) -> Object:
    amounts = {"cpu": "32", "memory": "64Gi", "pods": "250"} | {f"example.com/r{i}": "1" for i in range(count)}
    return {"allocatable": amounts, "capacity": amounts}


def _beside_waiting(nodes: int) -> Iterator[Write]:
    """5,000 pods wait for labels; a node's labels change."""
    for i in range(5_000):
        yield put(
            pod(f"picky-{i}", TENANT, {"app": f"picky-{i}"}, {"nodeSelector": {"example.com/turn": f"never-{i}"}}), 0.2
        )
    for turn in range(300):
        yield put(_changed(0, {"example.com/turn": str(turn)}), 5)


def _tainted(nodes: int) -> Iterator[Write]:
    made = node(0)
    made["spec"] = {"taints": [{"key": f"k{i}", "effect": "PreferNoSchedule"} for i in range(12_000)]}
    yield put(made)


def _namespaces(nodes: int) -> Iterator[Write]:
    for turn in range(500):
        yield put(namespace(TENANT, tier=str(turn)), 2)


def _large_namespace(nodes: int) -> Iterator[Write]:
    for turn in range(20):
        yield put(namespace(TENANT, **{f"{'k' * 40}{i}": "v" * 60 for i in range(5_000)}, turn=str(turn)), 20)


def _images_of_many(nodes: int) -> Iterator[Write]:
    """40 nodes with 10,000 images each, and a pod whose 4,000 containers name some of these and others."""
    for i in range(40):
        yield put(_changed(i, images=_images(10_000, f"{i}/")), 40)
    names = [f"registry.example/{i % 80}/image-{i // 80}:1" for i in range(4_000)]
    containers = [{"name": f"c{i}", "image": name} for i, name in enumerate(names)]
    yield put(pod("worst", TENANT, {"app": "worst"}, {"containers": containers}), 40)


def _many_namespaces(nodes: int) -> Iterator[Write]:
    for i in range(2_000):
        yield put(namespace(f"extra-{i}", tier="small"), 1)


SCENARIOS = [
    Scenario(
        "node-images-10000",
        "Node",
        "10,000 images on one node, 30 times others",
        _flips(30, lambda turn: _changed(0, images=_images(10_000, f"{turn}/"))),
        30,
    ),
    Scenario(
        "node-images-on-40",
        "Node",
        "10,000 images on each of 40 nodes, and a pod with 4,000 containers that asks about them",
        _images_of_many,
        41,
        3.0,
    ),
    Scenario(
        "node-labels-10000",
        "Node",
        "10,000 labels on one node",
        _flips(1, lambda turn: _changed(0, {f"example.com/l{i}": "v" * 60 for i in range(10_000)})),
    ),
    Scenario(
        "node-labels-flip",
        "Node",
        "a label of one node, changed 1,000 times",
        _flips(1_000, lambda turn: _changed(0, {"example.com/turn": str(turn)})),
        1_000,
        2.0,
        bounds=CROWD,
    ),
    Scenario(
        "node-label-keys-flip",
        "Node",
        "a label of one node with another key each time, 1,000 times",
        _flips(1_000, lambda turn: _changed(0, {f"example.com/turn-{turn}": "x"})),
        1_000,
        2.0,
        bounds=CROWD,
    ),
    Scenario(
        "node-resources-10000",
        "Node",
        "10,000 extended resources on one node",
        _flips(1, lambda turn: _changed(0, **_room(10_000))),
    ),
    Scenario(
        "node-resources-flip",
        "Node",
        "1,000 extended resources on one node, others each of 30 times",
        _flips(
            30,
            lambda turn: _changed(
                0, **{k: {f"{n}-{turn}" if "/" in n else n: q for n, q in v.items()} for k, v in _room(1_000).items()}
            ),
        ),
        30,
    ),
    Scenario("node-taints-12000", "Node", "12,000 taints on one node (who may write them)", _tainted),
    Scenario(
        "node-allocatable-flip",
        "Node",
        "the CPU of one node, up and down 1,000 times",
        _flips(
            1_000, lambda turn: _changed(0, allocatable={"cpu": str(16 + turn % 16), "memory": "64Gi", "pods": "250"})
        ),
        1_000,
        2.0,
        bounds=CROWD,
    ),
    Scenario(
        "node-flips-beside-5000",
        "Node",
        "labels of one node, changed 300 times beside 5,000 pods that wait for labels",
        _beside_waiting,
        5_300,
        4.0,
        bounds=CROWD,
    ),
    Scenario(
        "namespace-flips",
        "Namespace",
        "labels of a namespace, changed 500 times, 2 ms apart",
        _namespaces,
        500,
        2.0,
        bounds=CROWD,
    ),
    Scenario(
        "namespace-large-flips", "Namespace", "5,000 labels of a namespace, changed 20 times", _large_namespace, 20
    ),
    Scenario(
        "namespaces-2000", "Namespace", "2,000 namespaces, 1 ms apart", _many_namespaces, 2_000, 3.0, bounds=CROWD
    ),
]
