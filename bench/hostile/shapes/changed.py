"""Affinity by annotation, containers that come later, and what is changed in place by whoever may write a status."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from bench.crowd import ZONE
from bench.hostile.scenario import CROWD, Scenario, Write, gone, one, put
from bench.hostile.shapes.devices import asks, claim_of, published, user
from bench.hostile.shapes.terms import apart, not_in, term
from bench.hostile.town import REQUIRED, TENANT, Object, node, pod
from podberth.model.annotated import AFFINITY

_ALL_ANNOTATIONS = 256 << 10
"""Bytes that the annotations of an object may have together."""
_LONGEST = 64 << 10
"""An object of more bytes is decoded beside the loop."""


def _annotated(name: str, terms: list[Object]) -> Object:
    made = pod(name, TENANT, {"app": name})
    text = msgspec.json.encode({"podAntiAffinity": {REQUIRED: terms}}).decode()
    assert len(text) + len(AFFINITY) <= _ALL_ANNOTATIONS
    made["metadata"]["annotations"] = {AFFINITY: text}
    return made


def _labels(count: int) -> Object:
    return _annotated("worst", [{**term(), "labelSelector": {"matchLabels": {f"k{i}": "" for i in range(count)}}}])


def _counts_labels() -> Object:
    selector = {"matchLabels": {f"k{i}": "" for i in range(100_000)}}
    constraint = {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector}
    return pod("worst", TENANT, {"app": "worst"}, {"topologySpreadConstraints": [constraint]})


def _annotated_crowd(nodes: int) -> Iterator[Write]:
    """As large as is decoded on the loop, no two alike."""
    for i in range(200):
        made = _annotated(f"annotated-{i}", not_in(350, f"s{i}-"))
        raw = put(made).raw
        assert len(raw) <= _LONGEST
        yield put(made, 20)


def _debugged(nodes: int) -> Iterator[Write]:
    """A pod that runs, and gets containers for debugging by the thousand, some more each time."""
    for turn in range(20):
        made = pod("debugged", TENANT, {"app": "debugged"}, {"nodeName": "node-0"})
        made["spec"]["ephemeralContainers"] = [
            {"name": f"debug-{k}", "image": f"registry.example/debug:{k}", "command": ["sleep", "x" * 100]}
            for k in range(200 * (turn + 1))
        ]
        yield put(made, 20)


def _resized(nodes: int) -> Iterator[Write]:
    """Requests of a pod that runs, up and down; and what its kubelet says of it."""
    for turn in range(2_000):
        made = pod("resized", TENANT, {"app": "resized"}, {"nodeName": "node-0"}, cpu=f"{1 + turn % 500}m")
        given = {"cpu": f"{1 + (turn - 1) % 500}m", "memory": "100Mi"}
        reported = {"name": "main", "allocatedResources": given, "resources": {"requests": given}}
        required = {"ready": True, "restartCount": 0, "image": "", "imageID": ""}
        made["status"] = {"containerStatuses": [reported | required]}
        yield put(made, 1)


def _storm(nodes: int) -> Iterator[Write]:
    """By a kubelet that is out of its mind: conditions of a thousand pods that run, and of nothing that counts."""
    for turn in range(5_000):
        made = pod(f"runs-{turn % 1_000}", TENANT, {"app": "runs"}, {"nodeName": f"node-{turn % nodes}"}, cpu="1m")
        ready = {"type": "Ready", "status": "True" if turn % 2 else "False", "message": f"turn {turn}"}
        made["status"] = {"phase": "Running", "conditions": [ready]}
        yield put(made, 0.5)


def _tainted(nodes: int) -> Iterator[Write]:
    """Taints of one node, others each time, and two thousand pods that tolerate some and wait for others."""
    for i in range(2_000):
        spec = {"tolerations": [{"key": f"k{i % 50}", "operator": "Exists"}], "nodeSelector": {"rack": f"r{i}"}}
        yield put(pod(f"waits-{i}", TENANT, {"app": f"waits-{i % 50}"}, spec), 0.5)
    for turn in range(1_000):
        made = node(turn % 7)
        made["spec"] = {"taints": [{"key": f"k{turn % 60}", "value": f"v{turn}", "effect": "NoSchedule"}]}
        yield put(made, 2)


def _labelled_groups(nodes: int) -> Iterator[Write]:
    """Pod groups with names as long as names may be and 5,000 labels each, others each time, and a pod in each."""
    for turn in range(100):
        name = f"group-{turn % 10}-" + "x" * 240
        metadata: Object = {"name": name, "namespace": TENANT, "uid": name}
        metadata["labels"] = {f"example.com/{turn}-{k}": "x" * 60 for k in range(5_000)}
        spec = {"schedulingPolicy": {"gang": {"minCount": 2}}}
        yield put({"kind": "PodGroup", "metadata": metadata, "spec": spec}, 5)
        member = {"schedulingGroup": {"podGroupName": name}}
        yield put(pod(f"member-{turn}", TENANT, {"app": "member"}, member, cpu="1000"), 5)


def _recreated(nodes: int) -> Iterator[Write]:
    """One claim, deleted and made again under its name, and the pod that waits for it."""
    yield from published(nodes)
    yield put(user(0))
    for turn in range(300):
        made = claim_of(0, [{"name": "r", "exactly": asks(count=9)}])
        made["metadata"]["uid"] = f"gpus-0-{turn}"
        yield put(made, 10)
        yield gone(made, 10)


SCENARIOS = [
    Scenario(
        "annotation-terms-1500",
        "Pod",
        "affinity by annotation: 1,500 anti-affinity terms that select every pod, 256 KB",
        one(lambda: _annotated("worst", not_in(1_500))),
    ),
    Scenario(
        "annotation-labels-19000",
        "Pod",
        "affinity by annotation: one term of 19,000 labels, 256 KB",
        one(lambda: _labels(19_000)),
    ),
    Scenario(
        "anti-100000-labels",
        "Pod",
        "one anti-affinity term of 100,000 labels, 1.3 MB",
        one(lambda: apart([{**term(), "labelSelector": {"matchLabels": {f"k{i}": "" for i in range(100_000)}}}])),
    ),
    Scenario(
        "spread-100000-labels",
        "Pod",
        "one spread constraint of 100,000 labels, 1.3 MB",
        one(_counts_labels),
    ),
    Scenario(
        "annotation-crowd-200",
        "Pod",
        "200 pods with 350 terms each by annotation, no two alike, as large as is decoded on the loop",
        _annotated_crowd,
        200,
        6.0,
        bounds=CROWD,
    ),
    Scenario(
        "ephemeral-containers-4000",
        "Pod",
        "a pod that runs and gets 200 ephemeral containers more 20 times, up to 4,000",
        _debugged,
        20,
    ),
    Scenario(
        "pod-resized-2000",
        "Pod",
        "a pod that runs, resized in place 2,000 times, 1 ms apart",
        _resized,
        2_000,
        4.0,
        bounds=CROWD,
    ),
    Scenario(
        "pod-status-storm",
        "Pod",
        "conditions of 1,000 pods that run, changed 5,000 times, half a millisecond apart",
        _storm,
        5_000,
        4.0,
        bounds=CROWD,
    ),
    Scenario(
        "node-taints-flip",
        "Node",
        "taints of seven nodes, changed 1,000 times beside 2,000 pods that wait for labels",
        _tainted,
        3_000,
        4.0,
        bounds=CROWD,
    ),
    Scenario(
        "group-labels-5000",
        "PodGroup",
        "ten pod groups with 5,000 labels each, others ten times, and a hundred pods of theirs",
        _labelled_groups,
        200,
        2.0,
        bounds=CROWD,
    ),
    Scenario(
        "claim-recreated-300",
        "ResourceClaim",
        "a claim for more devices than a node has, deleted and made again 300 times, and its pod",
        _recreated,
        300,
        8.0,
        bounds=CROWD,
    ),
]
