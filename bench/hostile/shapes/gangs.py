"""Pod groups of thousands of pods: one that just does not fit, and many that wait for each other."""

from __future__ import annotations

from collections.abc import Iterator

from bench.hostile.scenario import CROWD, Scenario, Write, put
from bench.hostile.town import TENANT, Object, pod

_GANG = 5_000


def _group(name: str, needed: int) -> Object:
    return {
        "apiVersion": "scheduling.k8s.io/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": name, "namespace": TENANT, "uid": f"uid-{name}"},
        "spec": {"schedulingPolicy": {"gang": {"minCount": needed}}},
    }


def _member(name: str, group: str, cpu: str = "100m") -> Object:
    return pod(name, TENANT, {"app": group}, {"schedulingGroup": {"podGroupName": group}}, cpu=cpu)


def _just_not() -> Iterator[Write]:
    """A gang whose last pod fits nowhere, and small changes that have it tried again."""
    yield put(_group("large", _GANG))
    for i in range(_GANG - 1):
        yield put(_member(f"large-{i}", "large"), 0.5)
    yield put(_member("large-last", "large", cpu="1000"), 0.5)
    for i in range(20):
        made = _member(f"large-{i}", "large")
        made["metadata"]["labels"]["news"] = f"n{i}"
        yield put(made, 400)


def _many() -> Iterator[Write]:
    """Gangs of ten, none of which fits by one pod."""
    for i in range(500):
        yield put(_group(f"gang-{i}", 10), 1)
        for k in range(10):
            yield put(_member(f"gang-{i}-{k}", f"gang-{i}", cpu="1000" if k == 9 else "100m"), 1)


SCENARIOS = [
    Scenario(
        "gang-5000-just-not",
        "Pod",
        "a gang of 5,000 pods of which the last one fits nowhere, and news of some of them",
        lambda nodes: _just_not(),
        _GANG,
        13.0,
        bounds=CROWD,
    ),
    Scenario(
        "gangs-500x10-just-not",
        "Pod",
        "500 gangs of ten pods, of each of which one pod fits nowhere",
        lambda nodes: _many(),
        5_000,
        10.0,
        bounds=CROWD,
    ),
]
