"""What nobody would write: reports of thousands of containers, labels by the thousand on thousands of pods, long names.

Many are just small enough to be decoded on the loop, where nobody else is read meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from bench.crowd import HOST
from bench.hostile.scenario import CROWD, Scenario, Write, one, put
from bench.hostile.shapes.devices import DRIVER, asks, claim_of, published
from bench.hostile.shapes.terms import apart, needs, spec_of, term
from bench.hostile.town import TENANT, Object, node, pod

_THEN = "2026-01-01T00:00:00Z"
_SMALL = 64 << 10
"""An object of fewer bytes is decoded on the loop."""


def _small(make: Callable[[int], Object], count: int, after: float) -> Callable[[int], Iterator[Write]]:
    """So many objects that are decoded on the loop."""

    def writes(nodes: int) -> Iterator[Write]:
        for i in range(count):
            found = put(make(i), after)
            assert len(found.raw) <= _SMALL
            yield found

    return writes


def _reported(i: int, count: int, turn: int = 0) -> Object:
    """By a kubelet: what each of so many containers has and uses, more in each turn."""
    asked = {"requests": {"cpu": "1m", "memory": "1Mi"}}
    containers = [{"name": f"c{k}", "image": "a", "resources": asked} for k in range(count)]
    made = pod(f"reported-{i}", TENANT, {"app": "reported"}, {"nodeName": f"node-{i}", "containers": containers})
    given = {"cpu": f"{1 + turn}m", "memory": "1Mi"}
    said = {"allocatedResources": given, "resources": {"requests": given}}
    said |= {"ready": True, "restartCount": 0, "image": "", "imageID": ""}
    statuses = [{"name": f"c{k}", **said} for k in range(count)]
    made["status"] = {"phase": "Running", "containerStatuses": statuses}
    return made


def _reports_flip(nodes: int) -> Iterator[Write]:
    for turn in range(60):
        yield put(_reported(turn % 10, 3_000, turn), 60)


def _resources(i: int) -> Object:
    amounts = {f"a.b/{k:x}": f"{1 + i}e0" for k in range(1_650)}
    resources = {"requests": amounts, "limits": amounts}
    return pod(
        f"many-{i}", TENANT, {"app": "many"}, {"containers": [{"name": "c", "image": "a", "resources": resources}]}
    )


def _beside_the_containers() -> Object:
    """What a pod has many of that is in no container, and that no scheduler reads."""
    return spec_of(
        {
            "readinessGates": [{"conditionType": f"example.com/{k}"} for k in range(8_000)],
            "hostAliases": [{"ip": "192.0.2.1", "hostnames": [f"h{k}"]} for k in range(8_000)],
            "imagePullSecrets": [{"name": f"s{k}"} for k in range(5_000)],
        }
    )


def _labelled(i: int, count: int) -> Object:
    labels = {f"{k:x}": "" for k in range(count)} | {"own": f"{i}"}
    return pod(f"labelled-{i}", TENANT, labels, {"nodeName": f"node-{i % 1_000}"})


def _long_names(i: int) -> Object:
    """Names, keys and values as long as they may be."""
    prefix = ".".join(("d" * 63, "e" * 63, "f" * 63, "g" * 50))
    labels = {f"{prefix}/{'k' * 60}{k}": "v" * 59 + f"{i % 1_000:04}" for k in range(20)}
    return pod(f"{i:05}-" + "x" * 247, TENANT, labels, {"nodeSelector": dict(list(labels.items())[:5])})


def _managed_fields(i: int) -> Object:
    made = pod("managed", TENANT, {"app": "managed", "turn": f"{i}"}, {"nodeName": "node-0"})
    made["metadata"]["managedFields"] = [
        {
            "manager": f"m{k}",
            "operation": "Update",
            "apiVersion": "v1",
            "fieldsType": "FieldsV1",
            "fieldsV1": {f"f:{j}": {} for j in range(100)},
        }
        for k in range(45)
    ]
    return made


def _annotations(i: int) -> Object:
    made = pod("annotated", TENANT, {"app": "annotated"}, cpu="1000")
    made["metadata"]["annotations"] = {f"example.com/{k}": "\u4e2d\U0001f600\u0007" * 30 + str(i) for k in range(150)}
    return made


def _device_statuses(nodes: int) -> Iterator[Write]:
    """By a driver: conditions and data of the devices of a claim, and what its class has configured."""
    yield from published(10)
    for turn in range(200):
        made = claim_of(0, [{"name": f"r{k}", "exactly": asks()} for k in range(8)])
        here = [{"driver": DRIVER, "pool": "node-1", "device": f"d{k}"} for k in range(8)]
        parameters = {"driver": "x.example", "parameters": {"a": ["x" * 100] * 90}}
        said = [
            {"type": f"c{j}", "status": "True", "reason": "r", "message": str(turn), "lastTransitionTime": _THEN}
            for j in range(8)
        ]
        made["status"] = {
            "allocation": {
                "devices": {
                    "results": [{"request": f"r{k}", **device} for k, device in enumerate(here)],
                    "config": [{"source": "FromClaim", "requests": [], "opaque": parameters}] * 32,
                }
            },
            "devices": [{**device, "conditions": said, "data": {"x": "y" * 10_000}} for device in here],
        }
        yield put(made, 10)


def _budget(i: int, selector: Object, **status: object) -> Object:
    metadata = {"name": f"budget-{i}", "namespace": TENANT, "uid": f"budget-{i}"}
    spec = {"minAvailable": 1, "selector": selector}
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": metadata,
        "spec": spec,
        "status": status,
    }


def _budget_flips(turn: int) -> Object:
    return _budget(0, {"matchLabels": {f"{k:x}": f"{turn:x}" for k in range(4_000)}})


def _disrupted(nodes: int) -> Iterator[Write]:
    """By who may write poddisruptionbudgets/status: 20,000 pods that are said to be on their way; and preemptors."""
    for i in range(1_000):
        low = {"nodeName": f"node-{i}", "priority": -10}
        yield put(pod(f"low-{i}", TENANT, {"app": "low"}, low, cpu="20"), 0.3)
    for turn in range(100):
        counted = {"disruptionsAllowed": turn, "currentHealthy": 0, "desiredHealthy": 0, "expectedPods": 0}
        out = {f"low-{k}": _THEN for k in range(20_000)}
        yield put(_budget(turn % 10, {"matchLabels": {"app": "low"}}, **counted, disruptedPods=out), 20)
        if turn % 20 == 0:
            yield put(pod(f"high-{turn}", TENANT, {"app": "high"}, {"priority": 1_000 + turn}, cpu="31500m"))


def _backoffs_end_together(nodes: int) -> Iterator[Write]:
    """5,000 pods for three nodes, with terms that every pod violates; each second, news of one node for all of them."""
    for i in range(5_000):
        made = apart([term(needs("NotIn", [f"s{i}-{k}"])) for k in range(5)], f"waits-{i}")
        made["spec"]["nodeSelector"] = {HOST: f"node-{i % 3}"}
        yield put(made, 0.5)
    for turn in range(20):
        made = node(turn % 3)
        made["metadata"]["labels"]["turn"] = str(turn)
        made["status"]["allocatable"]["cpu"] = f"{32 + turn % 2}"
        yield put(made, 1_000)


def _crowd(
    name: str,
    shape: str,
    writes: Callable[[int], Iterator[Write]],
    objects: int,
    seconds: float,
    *,
    kind: str = "Pod",
    every: float = 0.005,
) -> Scenario:
    return Scenario(name, kind, shape, writes, objects, seconds, every, bounds=CROWD)


SCENARIOS = [
    Scenario(
        "reported-4500",
        "Pod",
        "a pod on a node, of whose 4,500 containers its kubelet has reported",
        one(lambda: _reported(0, 4_500)),
    ),
    _crowd(
        "reports-flip", "ten such pods with 3,000 containers, reports of which change 60 times", _reports_flip, 60, 4
    ),
    _crowd(
        "reports-small",
        "500 such pods with 220 containers, as large as is decoded on the loop",
        _small(lambda i: _reported(i, 220), 500, 5),
        500,
        4,
    ),
    _crowd(
        "resources-300x1650",
        "300 pods with 1,650 resources each, as large as is decoded on the loop",
        _small(_resources, 300, 10),
        300,
        5,
    ),
    Scenario(
        "beside-the-containers",
        "Pod",
        "8,000 readiness gates, as many host aliases, and 5,000 pull secrets",
        one(_beside_the_containers),
    ),
    _crowd(
        "labelled-2000x4000",
        "2,000 pods on nodes with 4,000 labels each, one of which no other pod has",
        _small(lambda i: _labelled(i, 4_000), 2_000, 4),
        2_000,
        10,
    ),
    _crowd(
        "labelled-2000x250",
        "2,000 pods on nodes with 250 labels each, one of which no other pod has",
        _small(lambda i: _labelled(i, 250), 2_000, 2),
        2_000,
        5,
    ),
    _crowd(
        "names-of-253",
        "2,000 pods with names, keys and values as long as they may be",
        _small(_long_names, 2_000, 1),
        2_000,
        4,
    ),
    _crowd(
        "managed-fields-flip",
        "managedFields of 4,500 fields of a pod, written 1,000 times, 2 ms apart",
        _small(_managed_fields, 1_000, 2),
        1_000,
        4,
    ),
    _crowd(
        "annotations-of-unicode",
        "150 annotations that JSON escapes, changed 1,000 times, 2 ms apart",
        _small(_annotations, 1_000, 2),
        1_000,
        4,
    ),
    _crowd(
        "claim-device-statuses",
        "what drivers say of eight devices of a claim, and their configuration, changed 200 times",
        _device_statuses,
        200,
        4,
        kind="ResourceClaim",
    ),
    _crowd(
        "budget-selector-flips",
        "4,000 labels that a budget selects by, others 300 times, 10 ms apart",
        _small(_budget_flips, 300, 10),
        300,
        5,
        kind="PodDisruptionBudget",
    ),
    _crowd(
        "budgets-disrupted",
        "ten budgets that name 20,000 pods as disrupted, changed 100 times beside 5 preemptors",
        _disrupted,
        100,
        4,
        kind="PodDisruptionBudget",
    ),
    _crowd(
        "backoffs-end-together",
        "5,000 pods for three nodes that fit nowhere, woken together 20 times",
        _backoffs_end_together,
        5_000,
        24,
        every=0.02,
    ),
]
