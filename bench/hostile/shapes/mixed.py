"""What is bounded alone, together: gangs with terms, claims, volumes; crowds of many namespaces; flips of statuses."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from bench.crowd import HOST, ZONE
from bench.hostile.scenario import CROWD, Scenario, Write, gone, one, put
from bench.hostile.shapes.claims import claim, using
from bench.hostile.shapes.devices import DRIVER, asks, claim_of, published, user
from bench.hostile.shapes.gangs import group, member
from bench.hostile.shapes.terms import apart, needs, not_in, rather, spread, term
from bench.hostile.town import APPS, PREFERRED, REQUIRED, TENANT, Object, namespace, pod

_SMALL = 64 << 10
"""An object of fewer bytes is decoded on the loop."""


def _named(made: Object, name: str, of: str = TENANT) -> Object:
    made["metadata"] |= {"name": name, "namespace": of, "uid": f"{of}/{name}"}
    return made


def _honouring() -> Object:
    """Constraints that count only nodes which the pod's own node affinity and tolerations let it have."""
    made = spread(500, "DoNotSchedule", nodeAffinityPolicy="Honor", nodeTaintsPolicy="Honor")
    terms = [{"matchExpressions": [needs("In", [f"x{i}"], HOST)]} for i in range(2_000)]
    terms.append({"matchExpressions": [needs("Exists", key=HOST)]})
    made["spec"]["affinity"] = {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": terms}}}
    made["spec"]["tolerations"] = [{"key": f"k{i}", "operator": "Exists"} for i in range(5_000)]
    return made


def _gang_apart(nodes: int) -> Iterator[Write]:
    """A gang whose pods keep away from each other by terms of which no two are alike; the last pod fits nowhere."""
    yield put(group("apart", 200))
    for i in range(200):
        made = member(f"apart-{i}", "apart", cpu="1000" if i == 199 else "100m")
        terms = [term(needs("In", ["apart", f"x{i}-{k}"], "app")) for k in range(200)]
        made["spec"]["affinity"] = {"podAntiAffinity": {REQUIRED: terms}}
        yield put(made, 1)


def _gang_with_devices(nodes: int) -> Iterator[Write]:
    """A gang whose pods have a claim each, with requests that each select one device; the last pod fits nowhere."""
    yield from published(nodes)
    yield put(group("claims", 100))
    for i in range(100):
        requests = [
            {"name": f"r{k}", "exactly": asks(f'device.attributes["{DRIVER}"].index == {k} || {i} == 1000')}
            for k in range(8)
        ]
        yield put(claim_of(i, requests), 1)
        made = user(i)
        made["spec"]["schedulingGroup"] = {"podGroupName": "claims"}
        if i == 99:
            made["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "1000"
        yield put(made, 1)


def _gang_with_volumes(nodes: int) -> Iterator[Write]:
    """A gang whose pods use five waiting claims each; the last pod fits nowhere."""
    yield put(group("volumes", 300))
    for i in range(300):
        for k in range(5):
            yield put(claim(5 * i + k), 0.1)
        made = using(f"volumes-{i}", range(5 * i, 5 * i + 5), **({"cpu": "1000"} if i == 299 else {}))
        made["spec"]["schedulingGroup"] = {"podGroupName": "volumes"}
        yield put(made, 1)


def _many_namespaces(nodes: int) -> Iterator[Write]:
    """Who may make namespaces has a lane for each: 500 of them with one costly pod each."""
    for i in range(500):
        name = f"{TENANT}-{i}"
        yield put(namespace(name, tier="small"), 1)
        yield put(_named(apart(not_in(700, f"s{i}-")), "worst", name), 9)


def _ports(nodes: int) -> Iterator[Write]:
    for i in range(1_000):
        ports = [{"containerPort": 1, "hostPort": 1 + k, "hostIP": f"10.{i // 250}.{i % 250}.1"} for k in range(100)]
        yield put(pod(f"ports-{i}", TENANT, {}, {"containers": [{"name": "c", "image": "a", "ports": ports}]}), 5)


def _resources(nodes: int) -> Iterator[Write]:
    for i in range(500):
        asked = {f"example.com/r{i}-{k}": "1" for k in range(200)}
        made = pod(f"resources-{i}", TENANT, {"app": "resources"}, None, **asked)
        made["spec"]["containers"][0]["resources"]["limits"] = asked
        yield put(made, 5)


def _images(nodes: int) -> Iterator[Write]:
    """As large as is decoded on the loop: images that nodes have, no two pods alike."""
    for i in range(300):
        containers = [{"name": f"c{k}", "image": f"registry.example/app-{(i + 3 * k) % APPS}:1"} for k in range(500)]
        made = pod(f"images-{i}", TENANT, {"app": "images"}, {"containers": containers})
        assert len(put(made).raw) <= _SMALL
        yield put(made, 10)


def _node_preferences(nodes: int) -> Iterator[Write]:
    for i in range(500):
        terms = [
            {"weight": 1 + k % 100, "preference": {"matchExpressions": [needs("NotIn", [f"node-{i}-{k}"], HOST)]}}
            for k in range(200)
        ]
        yield put(pod(f"picky-{i}", TENANT, {}, {"affinity": {"nodeAffinity": {PREFERRED: terms}}}), 10)


def _placed_for_some(nodes: int) -> Iterator[Write]:
    """By zone, preferred, each for a few apps of others: hardly two of others' apps are meant by the same terms."""
    for i in range(200):
        terms = [
            term(needs("In", [f"app-{(i + 7 * k) % APPS}", f"app-{3 * k % APPS}"], "app"), per=ZONE) for k in range(700)
        ]
        made = _named(rather(terms), f"some-{i}")
        made["spec"]["nodeName"] = f"node-{i}"
        yield put(made, 20)


def _budgets_flip(nodes: int) -> Iterator[Write]:
    """A pod of low priority on each node, budgets over them that change all the time, and pods that would preempt."""
    for i in range(nodes):
        low = {"nodeName": f"node-{i}", "priority": -10}
        yield put(pod(f"low-{i}", TENANT, {"app": "low", "one": f"{i}"}, low, cpu="20"), 0.3)
    for turn in range(2_000):
        metadata = {"name": f"budget-{turn % 200}", "namespace": TENANT, "uid": f"budget-{turn % 200}"}
        selector = {"matchExpressions": [needs("NotIn", [f"{turn}-{k}" for k in range(50)], "one")]}
        budget: Object = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": metadata}
        yield put(budget | {"spec": {"selector": selector}, "status": {"disruptionsAllowed": turn % 2}}, 1)
        if turn % 100 == 0:
            high = {"priority": 1_000 + turn}
            yield put(pod(f"high-{turn}", TENANT, {"app": "high"}, high, cpu="31500m"), 1)


def _terminating(nodes: int) -> Iterator[Write]:
    """Pods of low priority that are being deleted and stay, and pods of high priority that would have their room."""
    for i in range(nodes):
        made = pod(f"going-{i}", TENANT, {"app": "going"}, {"nodeName": f"node-{i}", "priority": -10}, cpu="20")
        made["metadata"] |= {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["example.com/never"]}
        yield put(made, 0.2)
    for i in range(50):
        spec = {"priority": 1_000 + i}
        yield put(pod(f"high-{i}", TENANT, {"app": f"high-{i}"}, spec, cpu=f"{31_000 + i}m"), 20)


def _claims_churn(nodes: int) -> Iterator[Write]:
    """Pods that wait for local volumes of which there are none left, while claims are made and deleted."""
    for i in range(300):
        yield put(claim(i, "local", resources={"requests": {"storage": "20Gi"}}), 0.5)
        yield put(using(f"waits-{i}", range(i, i + 1)), 0.5)
    for turn in range(2_000):
        made = claim(1_000 + turn, "local")
        yield put(made, 1)
        yield gone(made, 1)


def _large_claim_flips(nodes: int) -> Iterator[Write]:
    """Megabytes of labels on a claim that a pod waits for."""
    yield put(using("waits", range(1), cpu="1000"))
    for turn in range(30):
        made = claim(0)
        made["metadata"]["labels"] = {f"{'k' * 40}{i}": f"{turn}-{'v' * 40}" for i in range(12_000)}
        yield put(made, 20)


def _allocations_flip(nodes: int) -> Iterator[Write]:
    """By who may write resourceclaims/status: a claim that has other devices of others' nodes each time."""
    yield from published(nodes)
    requests = [{"name": f"r{k}", "exactly": asks()} for k in range(8)]
    users = [{"resource": "pods", "name": f"p{k}", "uid": f"p{k}"} for k in range(256)]
    for turn in range(1_000):
        made = claim_of(0, requests)
        results = [
            {"request": f"r{k}", "driver": DRIVER, "pool": f"node-{turn % nodes}", "device": f"d{k}"} for k in range(8)
        ]
        made["status"] = {"allocation": {"devices": {"results": results}}, "reservedFor": users}
        yield put(made, 2)
        if turn % 20 == 0:
            yield put(claim_of(1 + turn, [{"name": "r", "exactly": asks()}]))
            yield put(user(1 + turn), 2)


def _shares(nodes: int) -> Iterator[Write]:
    """Claims that take a thousandth each of devices that may be given to many."""
    yield from published(min(nodes, 10))
    devices = [
        {"name": f"s{k}", "allowMultipleAllocations": True, "capacity": {"memory": {"value": "100Gi"}}}
        for k in range(8)
    ]
    for i in range(10):
        pool = {"name": f"shared-{i}", "generation": 1, "resourceSliceCount": 1}
        spec = {"driver": DRIVER, "pool": pool, "nodeName": f"node-{i}", "devices": devices}
        yield put({"kind": "ResourceSlice", "metadata": {"name": f"shared-{i}", "uid": f"shared-{i}"}, "spec": spec})
    for i in range(500):
        asked = asks("device.allowMultipleAllocations") | {"capacity": {"requests": {"memory": f"{1 + i}Mi"}}}
        yield put(claim_of(i, [{"name": f"r{k}", "exactly": asked} for k in range(4)]), 1)
        yield put(user(i), 9)


def _crowd(
    name: str, kind: str, shape: str, writes: Callable[[int], Iterator[Write]], objects: int, seconds: float
) -> Scenario:
    return Scenario(name, kind, shape, writes, objects, seconds, bounds=CROWD)


SCENARIOS = [
    Scenario(
        "spread-honours-affinity",
        "Pod",
        "500 spread constraints that honour the pod's 2,001 node selector terms and 5,000 tolerations",
        one(_honouring),
    ),
    _crowd(
        "gang-apart-200x200",
        "Pod",
        "a gang of 200 pods with 200 terms each that keep them apart, of which the last pod fits nowhere",
        _gang_apart,
        200,
        5.0,
    ),
    _crowd(
        "gang-with-devices-100",
        "Pod",
        "a gang of 100 pods with a claim for eight devices each, of which the last pod fits nowhere",
        _gang_with_devices,
        100,
        6.0,
    ),
    _crowd(
        "gang-with-volumes-300",
        "Pod",
        "a gang of 300 pods with five waiting claims each, of which the last pod fits nowhere",
        _gang_with_volumes,
        300,
        5.0,
    ),
    _crowd(
        "namespaces-500x700",
        "Pod",
        "500 namespaces of one tenant, in each of them a pod with 700 terms (S1), no two alike",
        _many_namespaces,
        500,
        6.0,
    ),
    _crowd("ports-1000x100", "Pod", "1,000 pods with 100 host ports each, no two alike", _ports, 1_000, 6.0),
    _crowd(
        "resources-500x200",
        "Pod",
        "500 pods that ask for 200 resources each which nobody offers, no two alike",
        _resources,
        500,
        4.0,
    ),
    _crowd(
        "images-300x500",
        "Pod",
        "300 pods of 500 containers each with images that nodes have, no two pods alike",
        _images,
        300,
        4.0,
    ),
    _crowd(
        "node-preferred-500x200",
        "Pod",
        "500 pods with 200 preferred node terms each, no two alike",
        _node_preferences,
        500,
        6.0,
    ),
    _crowd(
        "placed-preferred-for-some",
        "Pod",
        "200 placed pods with 700 preferred terms each by zone, each for two apps of others",
        _placed_for_some,
        200,
        5.0,
    ),
    _crowd(
        "budgets-flip",
        "PodDisruptionBudget",
        "200 budgets over a pod on each node, changed 2,000 times beside 20 preemptors",
        _budgets_flip,
        2_000,
        6.0,
    ),
    _crowd(
        "preemptors-of-terminating",
        "Pod",
        "a pod on each node that is being deleted and stays, and 50 preemptors, no two alike",
        _terminating,
        5_000,
        4.0,
    ),
    _crowd(
        "claims-churn",
        "PersistentVolumeClaim",
        "2,000 claims that come and go beside 300 pods that wait for a local volume",
        _claims_churn,
        2_000,
        6.0,
    ),
    _crowd(
        "claim-large-flips",
        "PersistentVolumeClaim",
        "12,000 labels of a claim that a pod waits for, changed 30 times",
        _large_claim_flips,
        30,
        2.0,
    ),
    _crowd(
        "claim-allocations-flip",
        "ResourceClaim",
        "the eight devices and 256 users of a claim, changed 1,000 times beside 50 pods that ask for devices",
        _allocations_flip,
        1_000,
        6.0,
    ),
    _crowd(
        "devices-shares-500",
        "ResourceClaim",
        "500 pods with four shares each of 80 devices that may be given to many",
        _shares,
        500,
        6.0,
    ),
]
