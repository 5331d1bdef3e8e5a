"""Pod groups of thousands of pods: one that just does not fit, and many that wait for each other."""

from __future__ import annotations

from collections.abc import Iterator

from bench.hostile.scenario import CROWD, Scenario, Write, put
from bench.hostile.town import TENANT, Object, pod

_GANG = 5_000


def group(name: str, needed: int) -> Object:
    """A pod group that needs so many pods."""
    return {
        "apiVersion": "scheduling.k8s.io/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": name, "namespace": TENANT, "uid": f"uid-{name}"},
        "spec": {"schedulingPolicy": {"gang": {"minCount": needed}}},
    }


def member(name: str, of: str, cpu: str = "100m") -> Object:
    """A pod of a group."""
    return pod(name, TENANT, {"app": of}, {"schedulingGroup": {"podGroupName": of}}, cpu=cpu)


def _just_not() -> Iterator[Write]:
    """A gang whose last pod fits nowhere, and small changes that have it tried again."""
    yield put(group("large", _GANG))
    for i in range(_GANG - 1):
        yield put(member(f"large-{i}", "large"), 0.5)
    yield put(member("large-last", "large", cpu="1000"), 0.5)
    for i in range(20):
        made = member(f"large-{i}", "large")
        made["metadata"]["labels"]["news"] = f"n{i}"
        yield put(made, 400)


def _preempting(nodes: int, size: int, *, terms: bool) -> Iterator[Write]:
    """A gang of high priority whose pods each need most of a node, on which pods of lower priority run.

    With `terms`, amounts do not decide alone: its pods keep away from each other.
    """
    urgent = group("urgent", size)
    urgent["spec"]["priority"] = 1_000
    yield put(urgent)
    for i in range(size):
        made = member(f"urgent-{i}", "urgent", cpu="31500m")
        made["spec"]["priority"] = 1_000
        if terms:
            term = {"labelSelector": {"matchLabels": {"app": "urgent"}}, "topologyKey": "kubernetes.io/hostname"}
            required = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
            made["spec"]["affinity"] = {"podAntiAffinity": required}
        yield put(made, 1)


def wide_gang(nodes: int, rest: float) -> Iterator[Write]:
    """A gang that goes as a whole, with a pod on each node."""
    wide = group("wide", 1)
    wide["spec"] |= {"priority": -10, "disruptionMode": {"all": {}}}
    yield put(wide)
    for i in range(nodes):
        made = member(f"wide-{i}", "wide", cpu="1")
        made["spec"] |= {"priority": -10, "nodeName": f"node-{i}"}
        yield put(made, rest)


def _victims(nodes: int) -> Iterator[Write]:
    """Gangs that go as a whole, one with a pod on each node, and pods that would preempt them."""
    yield from wide_gang(nodes, 0.2)
    for i in range(3):
        yield put(pod(f"high-{i}", TENANT, {"app": "high"}, {"priority": 1_000}, cpu="31500m"), 500)


def _many() -> Iterator[Write]:
    """Gangs of ten, none of which fits by one pod."""
    for i in range(500):
        yield put(group(f"gang-{i}", 10), 1)
        for k in range(10):
            yield put(member(f"gang-{i}-{k}", f"gang-{i}", cpu="1000" if k == 9 else "100m"), 1)


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
