"""Gangs that a profile of their own arranges: by levels of topology, with room that is kept for them."""

from __future__ import annotations

from collections.abc import Iterator

from bench.crowd import HOST, ZONE
from bench.hostile.scenario import CROWD, Scenario, Write, put
from bench.hostile.shapes.gangs import group, member, wide_gang
from bench.hostile.town import GANGS, TENANT, Object, pod


def _arranged(name: str, of: str, cpu: str = "100m") -> Object:
    made = member(name, of, cpu)
    made["spec"]["schedulerName"] = GANGS
    return made


def _by_host(annotation: bool) -> Iterator[Write]:
    """A gang that wants to be on one node, which has no room for it, and news of it."""
    made = group("close", 400)
    if annotation:
        made["metadata"]["annotations"] = {"podberth.dev/preferred-topology": HOST}
    else:
        made["spec"]["schedulingConstraints"] = {"topology": [{"key": HOST}]}
    yield put(made)
    for i in range(399):
        yield put(_arranged(f"close-{i}", "close"))
    yield put(_arranged("close-last", "close", cpu="1000"))
    for i in range(10):
        news = _arranged(f"close-{i}", "close")
        news["metadata"]["labels"]["news"] = f"n{i}"
        yield put(news, 300)


def _room_is_kept(nodes: int) -> Iterator[Write]:
    """On each node a pod that ends some time; a gang that needs half of all nodes, and some of its pods change."""
    for i in range(nodes):
        made = pod(f"ends-{i}", TENANT, {"app": "ends"}, {"nodeName": f"node-{i}", "restartPolicy": "Never"}, cpu="20")
        made["spec"]["activeDeadlineSeconds"] = 600 + i
        yield put(made, 0.1)
    size = nodes // 2
    yield put(group("waits", size))
    for i in range(size):
        yield put(_arranged(f"waits-{i}", "waits", cpu="25"), 0.2)
    for i in range(5):
        news = _arranged(f"waits-{i}", "waits", cpu="25")
        news["metadata"]["labels"]["news"] = f"n{i}"
        yield put(news, 1_500)


def _beside_a_wide_gang(nodes: int) -> Iterator[Write]:
    """A gang that goes as a whole, with a pod on each node, and pods that may not be where others of it are."""
    yield from wide_gang(nodes, 0.1)
    for i in range(3):
        made = pod(f"high-{i}", TENANT, {"app": "high"}, {"priority": 1_000 + i}, cpu="31500m")
        terms = [{"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": ZONE} for app in ("wide", f"x{i}")]
        made["spec"]["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
        yield put(made, 500)


def _priority_flips(nodes: int) -> Iterator[Write]:
    """Priority and mode of a gang with a pod on each node, beside pods that would preempt it."""
    for i in range(nodes):
        made = member(f"wide-{i}", "wide", cpu="1")
        made["spec"] |= {"priority": -10, "nodeName": f"node-{i}"}
        yield put(made, 0.1)
    for turn in range(200):
        made = group("wide", 1)
        made["spec"] |= {"priority": -10 - turn % 7, "disruptionMode": {"all" if turn % 2 else "single": {}}}
        yield put(made, 5)
        if turn % 10 == 0:
            yield put(pod(f"high-{turn}", TENANT, {"app": "high"}, {"priority": 1_000 + turn}, cpu="31900m"), 5)


SCENARIOS = [
    Scenario(
        "gang-on-one-host",
        "PodGroup",
        "a gang of 400 pods that have to be on one node, and do not fit there",
        lambda nodes: _by_host(annotation=False),
        400,
        5.0,
        bounds=CROWD,
    ),
    Scenario(
        "gang-close-by-annotation",
        "PodGroup",
        "a gang of 400 pods that prefer to be on one node of a rack of a zone, and do not fit there",
        lambda nodes: _by_host(annotation=True),
        400,
        5.0,
        bounds=CROWD,
    ),
    Scenario(
        "gang-room-is-kept",
        "Pod",
        "a gang that waits for half of the nodes while pods end there, so that room is kept for it",
        _room_is_kept,
        5_000,
        10.0,
        bounds=CROWD,
    ),
    Scenario(
        "preemptors-beside-a-wide-gang",
        "Pod",
        "three pods with anti-affinity that may remove a gang with a pod on each node, as a whole",
        _beside_a_wide_gang,
        5_000,
        8.0,
        bounds=CROWD,
    ),
    Scenario(
        "gang-priority-flips",
        "PodGroup",
        "priority and disruption mode of a gang with a pod on each node, changed 200 times beside 20 preemptors",
        _priority_flips,
        200,
        5.0,
        bounds=CROWD,
    ),
]
