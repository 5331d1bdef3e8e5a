"""Objects that are meant to be looked at again and again: by others' changes, by their own, and in a dry run."""

from __future__ import annotations

from collections.abc import Iterator

from bench.crowd import HOST, ZONE
from bench.hostile.scenario import CROWD, Scenario, Write, gone, one, put
from bench.hostile.shapes.claims import claim, using
from bench.hostile.shapes.gangs import group, member
from bench.hostile.shapes.selecting import service
from bench.hostile.shapes.terms import apart, needs, term
from bench.hostile.town import REQUIRED, TENANT, Object, node, pod


def _own_values() -> Object:
    """A spread constraint of thousands of labels that also counts by its own pods' values."""
    constraint = {
        "maxSkew": 1,
        "topologyKey": ZONE,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {f"k{i}": "" for i in range(90_000)}},
        "matchLabelKeys": ["app", "pod-template-hash"],
    }
    labels = {"app": "worst", "pod-template-hash": "x"}
    return pod("worst", TENANT, labels, {"topologySpreadConstraints": [constraint]})


def _own_values_wait(nodes: int) -> Iterator[Write]:
    """It waits, and pods of its namespace that may help come and go all the time."""
    made = _own_values()
    made["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "1000"
    made["spec"]["topologySpreadConstraints"][0]["topologyKey"] = "example.com/nowhere"
    yield put(made)
    for i in range(300):
        placed = pod(f"comes-{i}", TENANT, {"app": "worst"}, {"nodeName": f"node-{i}"})
        yield put(placed, 2)
        yield gone(placed, 2)


def _set_and_service(nodes: int) -> Iterator[Write]:
    """A ReplicaSet with as many requirements as fit, a Service that selects its pods too, and 20 of them."""
    requirements = [{"key": f"k{i}", "operator": "DoesNotExist"} for i in range(35_000)]
    metadata = {"name": "set-0", "namespace": TENANT, "uid": f"set-{TENANT}-0"}
    selector = {"matchLabels": {"own": "1"}, "matchExpressions": requirements}
    template = {"metadata": {"labels": {"own": "1"}}, "spec": {"containers": [{"name": "c", "image": "a"}]}}
    spec: Object = {"replicas": 0, "selector": selector, "template": template}
    yield put({"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": metadata, "spec": spec})
    for i in range(20):
        yield put(service(0, {"own": "1"} | ({"turn": "1"} if i % 2 else {})), 10)
        made = pod(f"owned-{i}", TENANT, {"own": "1", "turn": "1", "one": str(i)})
        made["metadata"]["ownerReferences"] = [
            {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "set-0", "uid": metadata["uid"], "controller": True}
        ]
        yield put(made, 10)


def _owner_of_a_shared_claim(nodes: int) -> Iterator[Write]:
    """A claim that a pod on each node uses, whose owner changes; and pods with a claim of their own."""
    bound = {"volumeName": "shared"}
    made = claim(0, **bound)
    made["spec"]["accessModes"] = ["ReadWriteMany"]
    yield put(made)
    for i in range(nodes):
        user = using(f"user-{i}", range(1))
        user["spec"]["nodeName"] = f"node-{i}"
        yield put(user, 0.1)
    for turn in range(200):
        owner = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": f"u{turn}", "controller": True}
        made["metadata"]["ownerReferences"] = [owner]
        yield put(made, 5)
        if turn % 10 == 0:
            yield put(claim(1 + turn))
            yield put(using(f"asks-{turn}", range(1 + turn, 2 + turn)), 5)


def _priorities(nodes: int) -> Iterator[Write]:
    """Pods of as many priorities as pods, placed and deleted, beside some that may preempt them."""
    for i in range(2_000):
        spec = {"nodeName": f"node-{i % nodes}", "priority": i - 2_500}
        yield put(pod(f"low-{i}", TENANT, {"app": "low"}, spec, cpu="1"), 0.5)
    for turn in range(500):
        spec = {"nodeName": f"node-{turn % nodes}", "priority": turn - 2_500}
        yield gone(pod(f"low-{turn}", TENANT, {"app": "low"}, spec, cpu="1"), 2)
        spec |= {"priority": -5_000 - turn}
        yield put(pod(f"lower-{turn}", TENANT, {"app": "low"}, spec, cpu="1"), 2)
        if turn % 100 == 0:
            high = {"priority": 1_000 + turn}
            yield put(pod(f"high-{turn}", TENANT, {"app": "high"}, high, cpu="31500m"), 2)


def _min_count_flips(nodes: int) -> Iterator[Write]:
    """What a gang of thousands needs, changed again and again while it waits or is tried."""
    for i in range(3_000):
        yield put(member(f"many-{i}", "many", cpu="1000" if i == 2_999 else "100m"), 0.2)
    for turn in range(300):
        yield put(group("many", 3_000 + turn % 2), 10)


def _nominations_flip(nodes: int) -> Iterator[Write]:
    """By who may write pods/status: the node that is kept for a pod with terms, another one each time."""
    made = apart([term(needs("Exists", key="app")) for _ in range(20)])
    made["spec"] |= {"priority": 1_000, "nodeSelector": {"example.com/nowhere": "yes"}}
    for i in range(1_000):
        yield put(pod(f"waits-{i}", TENANT, {"app": f"waits-{i}"}, cpu=f"{1_000 + i}"), 0.5)
    for turn in range(2_000):
        made["status"] = {"nominatedNodeName": f"node-{turn % nodes}"}
        yield put(made, 1)


def _nominated_for_one(nodes: int) -> Iterator[Write]:
    """By who may write pods/status: thousands of pods name one node, which goes and comes; and a preemptor there."""
    spec = {"priority": -1, "preemptionPolicy": "Never", "nodeSelector": {HOST: "node-0"}}
    for _ in range(2):
        for i in range(3_000):
            made = pod(f"kept-{i}", TENANT, {"app": "kept"}, spec, cpu="31500m")
            made["status"] = {"nominatedNodeName": "node-0"}
            yield put(made, 0.3)
        yield gone(node(0), 100)
        yield put(node(0), 100)
    high = {"priority": 1_000, "nodeSelector": {HOST: "node-0"}}
    yield put(pod("low", TENANT, {"app": "low"}, {"priority": -10, "nodeName": "node-0"}, cpu="30"), 100)
    yield put(pod("high", TENANT, {"app": "high"}, high, cpu="30"), 100)


def _promise() -> Object:
    """Node affinity of thousands of terms that is to hold for as long as the pod runs."""
    terms = [{"matchExpressions": [needs("In", [f"x{i}"], HOST)]} for i in range(8_000)]
    affinity = {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": terms}}}
    made = pod("worst", TENANT, {"app": "worst"}, {"affinity": affinity})
    made["metadata"]["annotations"] = {"podberth.dev/required-during-execution": "true"}
    return made


def _label_storm(nodes: int) -> Iterator[Write]:
    """A label of a placed pod with terms, another one a thousand times a second, beside pods that count such labels."""
    for i in range(50):
        constraint = {"maxSkew": 1, "topologyKey": HOST, "whenUnsatisfiable": "DoNotSchedule"}
        selector = {"labelSelector": {"matchExpressions": [needs("Exists", key="turn")]}}
        spec = {"topologySpreadConstraints": [{**constraint, **selector}], "nodeSelector": {HOST: "node-0"}}
        yield put(pod(f"counts-{i}", TENANT, {"turn": f"c{i}"}, spec), 1)
    made = apart([term(needs("In", [f"x{k}"])) for k in range(50)])
    made["spec"]["nodeName"] = "node-0"
    for turn in range(3_000):
        made["metadata"]["labels"]["turn"] = f"t{turn}"
        yield put(made, 1)


def _keys_of_its_own(nodes: int) -> Iterator[Write]:
    """70 placed pods with 300 labels each, and pods that ask for all of these keys, no two for the same values."""
    for i in range(70):
        labels = {f"k{k}": "v" for k in range(300)} | {"one": str(i)}
        yield put(pod(f"labelled-{i}", TENANT, labels, {"nodeName": f"node-{i}"}), 1)
    for i in range(100):
        made = apart([term(needs("In", ["v", f"x{i}-{k}"], f"k{k}")) for k in range(300)])
        made["metadata"] |= {"name": f"asks-{i}", "uid": f"{TENANT}/asks-{i}"}
        yield put(made, 20)


SCENARIOS = [
    Scenario(
        "spread-90000-labels-and-own",
        "Pod",
        "one spread constraint of 90,000 labels, with two labels of its own pods by matchLabelKeys",
        one(_own_values),
    ),
    Scenario(
        "spread-90000-labels-woken",
        "Pod",
        "such a pod that waits, beside 300 pods of its namespace that come and go",
        _own_values_wait,
        601,
        4.0,
        bounds=CROWD,
    ),
    Scenario(
        "replicaset-and-service",
        "ReplicaSet",
        "a ReplicaSet with 35,000 requirements, and a Service that selects its pods, too, and changes 20 times",
        _set_and_service,
        21,
        2.0,
    ),
    Scenario(
        "claim-owner-flips",
        "PersistentVolumeClaim",
        "a claim that a pod on each node uses, whose owner changes 200 times beside pods with claims",
        _owner_of_a_shared_claim,
        200,
        4.0,
        bounds=CROWD,
    ),
    Scenario(
        "priorities-churned",
        "Pod",
        "2,000 placed pods of as many priorities; 500 of them are exchanged for others beside 5 preemptors",
        _priorities,
        3_000,
        6.0,
        bounds=CROWD,
    ),
    Scenario(
        "gang-needs-flip",
        "PodGroup",
        "how many pods a gang of 3,000 needs, changed 300 times while it waits and is tried",
        _min_count_flips,
        300,
        8.0,
        bounds=CROWD,
    ),
    Scenario(
        "nomination-flips",
        "Pod",
        "a pod with 20 terms that names another node as kept for it 2,000 times, beside 1,000 that never fit",
        _nominations_flip,
        2_000,
        4.0,
        bounds=CROWD,
    ),
    Scenario(
        "nominated-3000-for-one",
        "Pod",
        "3,000 pods that name one node as theirs, which goes and comes twice, and a preemptor there",
        _nominated_for_one,
        6_000,
        4.0,
        bounds=CROWD,
    ),
    Scenario(
        "promise-8000-terms",
        "Pod",
        "8,000 node selector terms that are to hold while the pod runs",
        one(_promise),
    ),
    Scenario(
        "placed-label-storm",
        "Pod",
        "a label of a placed pod with 50 terms, changed 3,000 times, 1 ms apart, beside 50 pods that count such labels",
        _label_storm,
        3_000,
        4.0,
        bounds=CROWD,
    ),
    Scenario(
        "pods-ask-for-300-keys",
        "Pod",
        "100 pods with 300 terms each, each by another label key that 70 placed pods have, no two alike",
        _keys_of_its_own,
        170,
        4.0,
        bounds=CROWD,
    ),
]
