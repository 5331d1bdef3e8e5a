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


def _preempting(nodes: int, size: int, *, terms: bool) -> Iterator[Write]:
    """A gang of high priority whose pods each need most of a node, on which pods of lower priority run.

    With `terms`, amounts do not decide alone: its pods keep away from each other.
    """
    group = _group("urgent", size)
    group["spec"]["priority"] = 1_000
    yield put(group)
    for i in range(size):
        made = _member(f"urgent-{i}", "urgent", cpu="31500m")
        made["spec"]["priority"] = 1_000
        if terms:
            term = {"labelSelector": {"matchLabels": {"app": "urgent"}}, "topologyKey": "kubernetes.io/hostname"}
            required = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
            made["spec"]["affinity"] = {"podAntiAffinity": required}
        yield put(made, 1)


def _victims(nodes: int) -> Iterator[Write]:
    """Gangs that go as a whole, one with a pod on each node, and pods that would preempt them."""
    wide = _group("wide", 1)
    wide["spec"] |= {"priority": -10, "disruptionMode": {"all": {}}}
    yield put(wide)
    for i in range(nodes):
        made = _member(f"wide-{i}", "wide", cpu="1")
        made["spec"] |= {"priority": -10, "nodeName": f"node-{i}"}
        yield put(made, 0.2)
    for i in range(3):
        yield put(pod(f"high-{i}", TENANT, {"app": "high"}, {"priority": 1_000}, cpu="31500m"), 500)


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
    Scenario(
        "gang-200-preempts",
        "Pod",
        "a gang of 200 pods of high priority, each of which needs most of a node",
        lambda nodes: _preempting(nodes, 200, terms=False),
        200,
        5.0,
        bounds=CROWD,
    ),
    Scenario(
        "gang-20-preempts-with-terms",
        "Pod",
        "a gang of 20 pods of high priority that keep away from each other, each of which needs most of a node",
        lambda nodes: _preempting(nodes, 20, terms=True),
        20,
        8.0,
        bounds=CROWD,
    ),
    Scenario(
        "gang-as-victim",
        "Pod",
        "a gang that goes as a whole, with a pod on each node, and 3 pods that would preempt it",
        _victims,
        5_000,
        6.0,
        bounds=CROWD,
    ),
]
