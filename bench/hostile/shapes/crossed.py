"""Objects of several kinds that meet: each is no more than large by itself."""

from __future__ import annotations

from collections.abc import Iterator

from bench.crowd import HOST
from bench.hostile.scenario import CROWD, Scenario, Write, gone, one, put
from bench.hostile.shapes.devices import DRIVER, asks, asks_for, claim_of, published, user
from bench.hostile.shapes.terms import apart, needs, not_in, spread, term
from bench.hostile.town import TENANT, Object, namespace, node, pod


def _everything() -> Object:
    """Some of all that a pod may have."""
    made = apart(not_in(200))
    terms = [{"matchExpressions": [needs("NotIn", [f"x{k}"], HOST)]} for k in range(300)]
    made["spec"]["affinity"]["nodeAffinity"] = {
        "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}
    }
    amounts = {f"a.io/r{k}": "1" for k in range(1_000)}
    made["spec"] |= {
        "topologySpreadConstraints": spread(100)["spec"]["topologySpreadConstraints"],
        "tolerations": [{"key": f"k{k}", "operator": "Exists"} for k in range(2_000)],
        "containers": [
            {
                "name": f"c{k}",
                "image": f"registry.example/a:{k}",
                "ports": [{"containerPort": 1 + k, "hostPort": 1 + k, "protocol": "TCP"}],
                "resources": {"requests": amounts, "limits": amounts} if not k else {},
            }
            for k in range(1_000)
        ],
        "volumes": [{"name": f"v{k}", "csi": {"driver": f"d{k}.example"}} for k in range(500)],
    }
    return made


def _large_victim(nodes: int) -> Iterator[Write]:
    """Names its node, and a pod of high priority has to take it away and give it back in a dry run."""
    amounts = {f"a.io/{k:x}": "1" for k in range(30_000)}
    made = pod("many", TENANT, {"app": "many"}, {"nodeName": "node-0", "priority": -10})
    made["spec"]["containers"][0]["resources"] = {"requests": amounts | {"cpu": "20"}, "limits": amounts}
    yield put(made)
    for i in range(5):
        high = {"priority": 1_000 + i, "nodeSelector": {HOST: "node-0"}}
        yield put(pod(f"high-{i}", TENANT, {"app": "high"}, high, cpu=f"{31_000 + i}m"), 50)


def _common_terms_die(nodes: int) -> Iterator[Write]:
    """200 placed pods whose 700 terms each name the label that everybody has; all of them go at once."""
    made = []
    for i in range(200):
        terms = [
            term({"key": "app", "operator": "Exists"}, needs("NotIn", [f"s{i}-{k}"]), topologyKey="example.com/k")
            for k in range(700)
        ]
        one_of = apart(terms)
        one_of["metadata"] |= {"name": f"common-{i}", "uid": f"{TENANT}/common-{i}"}
        one_of["spec"]["nodeName"] = f"node-{i}"
        made.append(one_of)
    for each in made:
        yield put(each, 10)
    for each in made:
        yield gone(each)


def _namespaces_beside_selectors(nodes: int) -> Iterator[Write]:
    """A thousand pods wait for pods of namespaces by label; labels of a namespace change."""
    for i in range(1_000):
        selector = {"matchExpressions": [needs("In", [f"x{i}"])]}
        waiting = pod(f"waits-{i}", TENANT, {"app": f"waits-{i}"}, {})
        waiting["spec"]["affinity"] = {
            "podAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [
                    term(needs("Exists", key="app"), namespaceSelector=selector)
                ]
            }
        }
        yield put(waiting, 1)
    for turn in range(300):
        yield put(namespace(TENANT, turn=str(turn)), 5)


def _large_status(nodes: int) -> Iterator[Write]:
    """By a kubelet: thousands of conditions, addresses and attached volumes, others each time."""
    for turn in range(30):
        made = node(0)
        made["status"] |= {
            "conditions": [{"type": f"C{k}", "status": "True", "message": str(turn)} for k in range(3_000)],
            "addresses": [{"type": "Hostname", "address": f"h{k}"} for k in range(3_000)],
            "volumesAttached": [{"name": f"v{turn}-{k}", "devicePath": ""} for k in range(3_000)],
            "volumesInUse": [f"v{turn}-{k}" for k in range(3_000)],
        }
        yield put(made, 10)


def _csi_churn(nodes: int) -> Iterator[Write]:
    """CSINodes with a hundred drivers each, and capacities by the thousand, that change all the time."""
    for turn in range(1_000):
        drivers = [{"name": f"d{k}-{turn % 7}.example", "nodeID": "n", "allocatable": {"count": k}} for k in range(100)]
        name = f"node-{turn % 50}"
        yield put(
            {"kind": "CSINode", "metadata": {"name": name, "uid": f"csi-{name}"}, "spec": {"drivers": drivers}}, 1
        )
        capacity = {
            "kind": "CSIStorageCapacity",
            "metadata": {"name": f"c{turn}", "namespace": TENANT, "uid": f"c{turn}"},
            "storageClassName": "wait",
            "capacity": f"{turn}Gi",
            "nodeTopology": {"matchExpressions": [needs("NotIn", [f"x{turn}"], HOST)]},
        }
        yield put(capacity, 1)


def _full_claim(nodes: int) -> Iterator[Write]:
    """32 requests with eight alternatives each, and constraints over all of them."""
    yield from published(nodes)
    alternatives = [{"name": f"a{k}", **asks(f'device.attributes["{DRIVER}"].index >= {k}')} for k in range(8)]
    requests = [{"name": f"r{k}", "firstAvailable": alternatives} for k in range(32)]
    constraints = [{"matchAttribute": f"{DRIVER}/{name}"} for name in ("index", "model", "node")] * 10
    yield from asks_for([claim_of(0, requests, constraints=constraints)])


def _own_selectors(nodes: int) -> Iterator[Write]:
    """30 claims with 4 expressions each that nobody else has: more than used to be kept for everybody together."""
    yield from published(nodes)
    claims = [
        claim_of(i, [{"name": "r", "exactly": asks(*(f'device.driver != "x{i}-{k}"' for k in range(4)), count=9)}])
        for i in range(30)
    ]
    yield from asks_for(claims, 50)


def _large_slices(nodes: int) -> Iterator[Write]:
    """By a driver: slices of 128 devices with 32 attributes each, made anew all the time; and a pod that asks."""
    yield from published(nodes)
    asked = claim_of(0, [{"name": "r", "exactly": asks('device.attributes["x.example"].a0 == "never"')}])
    yield put(asked)
    yield put(user(0))
    for turn in range(30):
        devices = [
            {"name": f"d{k}", "attributes": {f"a{j}": {"string": f"{turn}-{k}-{'v' * 40}"} for j in range(32)}}
            for k in range(128)
        ]
        pool = {"name": "large", "generation": 1 + turn, "resourceSliceCount": 1}
        spec = {"driver": "x.example", "pool": pool, "nodeName": "node-0", "devices": devices}
        yield put({"kind": "ResourceSlice", "metadata": {"name": "large", "uid": "large"}, "spec": spec}, 30)


def _taint_rules(nodes: int) -> Iterator[Write]:
    """A hundred rules that taint every device, and go again; pods that ask meanwhile."""
    yield from published(nodes)
    yield from asks_for([claim_of(0, [{"name": "r", "exactly": asks(count=9)}])])
    for turn in range(100):
        taint = {"key": f"k{turn % 10}", "effect": "NoSchedule", "value": str(turn)}
        metadata = {"name": f"rule-{turn % 10}", "uid": f"rule-{turn % 10}"}
        selector = {"driver": DRIVER}
        yield put(
            {"kind": "DeviceTaintRule", "metadata": metadata, "spec": {"deviceSelector": selector, "taint": taint}}, 20
        )


SCENARIOS = [
    Scenario("everything-at-once", "Pod", "a pod with some of all that a pod may have", one(_everything)),
    Scenario(
        "placed-resources-30000",
        "Pod",
        "a pod that asks for 30,000 resources and names its node; 5 pods of high priority that have to take its place",
        _large_victim,
        6,
    ),
    Scenario(
        "placed-common-terms-die",
        "Pod",
        "200 placed pods with 700 distinct terms each for the label that everybody has, all deleted at once",
        _common_terms_die,
        200,
        6.0,
        bounds=CROWD,
    ),
    Scenario(
        "namespace-flips-beside-1000",
        "Namespace",
        "labels of a namespace, changed 300 times beside 1,000 pods that wait for pods of namespaces by label",
        _namespaces_beside_selectors,
        1_300,
        4.0,
        bounds=CROWD,
    ),
    Scenario(
        "node-status-large",
        "Node",
        "3,000 conditions, addresses, attached volumes and volumes in use on one node, 30 times others",
        _large_status,
        30,
    ),
    Scenario(
        "csi-churn",
        "CSINode",
        "1,000 changes of CSINodes with 100 drivers each, and 1,000 storage capacities",
        _csi_churn,
        2_000,
        4.0,
        bounds=CROWD,
    ),
    Scenario(
        "devices-requests-32x8",
        "ResourceClaim",
        "32 requests of eight alternatives each, with 30 constraints over all of them",
        _full_claim,
        1,
        6.0,
        bounds=CROWD,
    ),
    Scenario(
        "devices-selectors-120",
        "ResourceClaim",
        "30 claims of nine devices with four expressions each, which are all different",
        _own_selectors,
        30,
        8.0,
        bounds=CROWD,
    ),
    Scenario(
        "devices-slices-large",
        "ResourceSlice",
        "a slice of 128 devices with 32 attributes each, made anew 30 times, and a pod that asks",
        _large_slices,
        30,
        6.0,
        bounds=CROWD,
    ),
    Scenario(
        "devices-taint-rules",
        "DeviceTaintRule",
        "rules that taint every device, changed 100 times, and a pod that asks",
        _taint_rules,
        100,
        8.0,
        bounds=CROWD,
    ),
]
