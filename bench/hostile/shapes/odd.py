"""What somebody thought of who wanted to be a nuisance: crowds on one node, kept nodes, flapping neighbours."""

from __future__ import annotations

from collections.abc import Iterator

from bench.crowd import ZONE
from bench.hostile.scenario import CROWD, Scenario, Write, gone, one, put
from bench.hostile.shapes.terms import apart, needs, not_in, term
from bench.hostile.town import REQUIRED, TENANT, Object, node, pod

_CROWD = 5_000


def _numbered(made: Object, i: int, on: str = "") -> Object:
    name = f"{made['metadata']['name']}-{i}"
    made["metadata"] |= {"name": name, "uid": f"{TENANT}/{name}"}
    if on:
        made["spec"]["nodeName"] = on
    return made


def _small(i: int, on: str) -> Object:
    """Placed by hand, with a label of its own."""
    return _numbered(pod("small", TENANT, {"app": "small", "own": str(i)}, cpu="1m"), i, on)


def _a_node_comes(nodes: int) -> Iterator[Write]:
    """5,000 pods name a node that is not there; it comes, goes, and comes again."""
    made = node(nodes)
    for i in range(_CROWD):
        yield put(_small(i, made["metadata"]["name"]), 0.2)
    for _ in range(3):
        yield put(made, 200)
        yield Write("Node", b"", 200, ("", made["metadata"]["name"], made["metadata"]["uid"]))


def _a_crowded_node_flips(nodes: int) -> Iterator[Write]:
    for i in range(_CROWD):
        yield put(_small(i, "node-0"), 0.2)
    for turn in range(200):
        made = node(0)
        made["metadata"]["labels"][ZONE] = f"zone-{turn % 10}"
        yield put(made, 5)


def _crowd_goes(nodes: int) -> Iterator[Write]:
    for i in range(_CROWD):
        yield put(_small(i, "node-0"), 0.2)
    for i in range(_CROWD):
        yield gone(_small(i, "node-0"), 0.3)


def _nominated_with_terms(nodes: int) -> Iterator[Write]:
    """By who may write pods/status: a node is kept for each, and nobody may be near them."""
    for i in range(50):
        made = _numbered(apart(not_in(20, f"s{i}-")), i)
        made["spec"] |= {"priority": 1_000}
        made["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "1000"}}
        made["status"] = {"nominatedNodeName": f"node-{i}"}
        yield put(made, 20)


def _namespaces_flap(nodes: int) -> Iterator[Write]:
    """100 placed pods with 100 terms each for namespaces by label; then labels of the tenant's namespace change."""
    for i in range(100):
        terms = [
            term(needs("NotIn", [f"{i}-{k}"]), namespaceSelector={"matchExpressions": [needs("NotIn", [f"{i}-{k}"])]})
            for k in range(100)
        ]
        yield put(_numbered(apart(terms), i, f"node-{i}"), 5)
    for turn in range(300):
        metadata = {"name": TENANT, "uid": TENANT, "labels": {"turn": str(turn)}}
        yield put({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}, 5)


def _gates_flap(nodes: int) -> Iterator[Write]:
    """A thousand pods whose gate goes, one after the other, and which then fit nowhere."""
    for i in range(1_000):
        gated = pod(f"gated-{i}", TENANT, {"own": str(i)}, {"schedulingGates": [{"name": "example.com/g"}]}, cpu="900")
        yield put(gated, 1)
    for i in range(1_000):
        yield put(pod(f"gated-{i}", TENANT, {"own": str(i)}, {}, cpu="900"), 1)


def _long_pods_flip(nodes: int) -> Iterator[Write]:
    """A pod with 700 terms that fits nowhere; its labels change 200 times."""
    for turn in range(200):
        made = apart(not_in(700))
        made["metadata"]["labels"]["turn"] = str(turn)
        yield put(made, 10)


def _own_keys(i: int) -> Object:
    keys = [f"k{k}" for k in range(20)]
    constraints = [
        {
            "maxSkew": 1_000 + k,
            "topologyKey": ZONE if k == 0 else f"example.com/z{k}",
            "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": {"matchExpressions": [needs("NotIn", [f"x{i}-{k}"])]},
            "matchLabelKeys": keys,
        }
        for k in range(50)
    ]
    labels = dict.fromkeys(keys, f"v{i}")
    return _numbered(pod("keys", TENANT, labels, {"topologySpreadConstraints": constraints}), i)


def _many_keys() -> Object:
    """1,000 constraints that each take the values of 40 labels of the pod."""
    keys = [f"k{k}" for k in range(40)]
    constraints = [
        {
            "maxSkew": 1 + k,
            "topologyKey": ZONE if k == 0 else f"example.com/z{k}",
            "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": {"matchExpressions": [needs("NotIn", [f"x{k}"])]},
            "matchLabelKeys": keys,
        }
        for k in range(1_000)
    ]
    return pod("keys", TENANT, dict.fromkeys(keys, "v"), {"topologySpreadConstraints": constraints})


def _affinity_to_each(i: int) -> Object:
    """Required affinity to pods of the pod itself, by each label that nodes have."""
    terms = [
        {"topologyKey": key, "labelSelector": {"matchLabels": {"own": str(i)}}}
        for key in ("kubernetes.io/hostname", ZONE, "topology.kubernetes.io/region", "example.com/rack")
    ]
    spec = {"affinity": {"podAffinity": {REQUIRED: terms}}}
    return _numbered(pod("lonely", TENANT, {"own": str(i)}, spec), i)


def _owners_flip(nodes: int) -> Iterator[Write]:
    for turn in range(40):
        made = pod("owned", TENANT, {"app": "owned"}, cpu="900")
        made["metadata"]["ownerReferences"] = [
            {"apiVersion": "v1", "kind": "ConfigMap", "name": f"o{turn}-{i}", "uid": f"o{turn}-{i}"}
            for i in range(5_000)
        ]
        yield put(made, 20)


SCENARIOS = [
    Scenario(
        "odd-node-comes-for-5000",
        "Pod",
        "5,000 pods that name one node, which comes and goes three times",
        _a_node_comes,
        _CROWD,
        4.0,
        bounds=CROWD,
    ),
    Scenario(
        "odd-crowded-node-flips",
        "Pod",
        "5,000 pods on one node, whose zone changes 200 times",
        _a_crowded_node_flips,
        _CROWD,
        4.0,
        bounds=CROWD,
    ),
    Scenario(
        "odd-crowd-goes",
        "Pod",
        "5,000 pods on one node, all deleted one after the other",
        _crowd_goes,
        _CROWD,
        4.0,
        bounds=CROWD,
    ),
    Scenario(
        "odd-nominated-with-terms",
        "Pod",
        "50 pods that a node is kept for, with 20 anti-affinity terms each that select every pod",
        _nominated_with_terms,
        50,
        4.0,
        bounds=CROWD,
    ),
    Scenario(
        "odd-namespaces-flap",
        "Namespace",
        "labels of a namespace, changed 300 times beside 10,000 placed terms that select namespaces",
        _namespaces_flap,
        400,
        5.0,
        bounds=CROWD,
    ),
    Scenario(
        "odd-gates-flap",
        "Pod",
        "1,000 pods whose gates go, and which fit nowhere",
        _gates_flap,
        1_000,
        4.0,
        bounds=CROWD,
    ),
    Scenario(
        "odd-long-pod-flips",
        "Pod",
        "labels of a pod with 700 terms, changed 200 times",
        _long_pods_flip,
        200,
        4.0,
        bounds=CROWD,
    ),
    Scenario(
        "odd-match-label-keys-1000x50",
        "Pod",
        "1,000 pods with 50 constraints and 20 matchLabelKeys each, no two alike",
        lambda nodes: (put(_own_keys(i), 5) for i in range(1_000)),
        1_000,
        7.0,
        bounds=CROWD,
    ),
    Scenario(
        "odd-match-label-keys-of-one",
        "Pod",
        "one pod with 1,000 constraints and 40 matchLabelKeys each",
        one(_many_keys),
    ),
    Scenario(
        "odd-affinity-to-itself-1000",
        "Pod",
        "1,000 pods, each with required affinity to itself by four labels of nodes",
        lambda nodes: (put(_affinity_to_each(i), 5) for i in range(1_000)),
        1_000,
        7.0,
        bounds=CROWD,
    ),
    Scenario("odd-owners-flip", "Pod", "5,000 owners of a pod, others 40 times", _owners_flip, 40, 3.0),
]
