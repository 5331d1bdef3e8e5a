"""The same thing again and again: made anew under its name, moved between two sides, bound by hand, never gone."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from bench.hostile.scenario import CROWD, Scenario, Write, gone, put
from bench.hostile.shapes.claims import claim, using
from bench.hostile.shapes.devices import DRIVER, asks, claim_of, published, user
from bench.hostile.shapes.gangs import group, member
from bench.hostile.shapes.selecting import service
from bench.hostile.shapes.terms import apart, needs, term
from bench.hostile.town import REQUIRED, TENANT, Object, namespace, node, pod


def _same_name(nodes: int) -> Iterator[Write]:
    """A pod that is deleted and made again, for this scheduler and for another one in turn."""
    for turn in range(3_000):
        made = pod("same", TENANT, {"app": f"same-{turn % 2}"}, cpu="1000")
        made["metadata"]["uid"] = f"same-{turn}"
        made["spec"]["schedulerName"] = "berth" if turn % 2 else "other"
        yield put(made, 0.5)
        yield gone(made, 0.5)


def _bound_by_hand(nodes: int) -> Iterator[Write]:
    """By who may write pods/binding: a node for each pod as soon as it comes, which for half of them is not there."""
    for i in range(3_000):
        made = pod(f"hand-{i}", TENANT, {"app": f"hand-{i % 10}"}, cpu="1m")
        yield put(made, 0.3)
        made["spec"]["nodeName"] = f"nowhere-{i}" if i % 2 else f"node-{i % nodes}"
        yield put(made, 0.3)
        if i % 3 == 0:
            yield gone(made, 0.3)


def _held(i: int, finalizers: list[str], label: str, *, going: bool) -> Object:
    made = apart([term(needs("In", [f"x{i}"]))], f"held-{i}")
    made["metadata"] |= {"finalizers": finalizers, "labels": {"app": label}}
    if going:
        made["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    return made


def _finalizers(nodes: int) -> Iterator[Write]:
    """Waiting pods that are deleted and stay, and change all the same."""
    many = [f"example.com/{k}" for k in range(20)]
    for i in range(3_000):
        for going in (False, True):
            yield put(_held(i, many, "held", going=going), 0.5)
    for i in range(3_000):
        yield put(_held(i, many[i % 20 :], str(i % 2), going=True), 0.5)


def _two_sides(nodes: int) -> Iterator[Write]:
    """A placed pod that changes sides, beside a Service and 500 pods of either side that wait for such a pod."""
    for i in range(1_000):
        terms = [term(needs("In", [f"side-{i % 2}"], "app"))]
        spec = {"affinity": {"podAffinity": {REQUIRED: terms}}}
        yield put(pod(f"wants-{i}", TENANT, {"app": f"wants-{i % 2}", "one": str(i)}, spec, cpu="900"), 0.5)
    for side in range(2):
        yield put(service(side, {"app": f"side-{side}"}))
    for turn in range(3_000):
        yield put(pod("turncoat", TENANT, {"app": f"side-{turn % 2}"}, {"nodeName": "node-0"}), 1)


def _services_change_sides(nodes: int) -> Iterator[Write]:
    """50 Services over 1,000 placed pods of two apps, and pods of these apps that come meanwhile."""
    for i in range(1_000):
        yield put(pod(f"placed-{i}", TENANT, {"app": f"side-{i % 2}", "one": str(i)}, {"nodeName": f"node-{i}"}), 0.3)
    for turn in range(2_000):
        yield put(service(turn % 50, {"app": f"side-{turn % 2}"}), 0.5)
        if turn % 4 == 0:
            yield put(pod(f"comes-{turn}", TENANT, {"app": f"side-{turn % 2}"}), 0.5)


def _reserved(nodes: int) -> Iterator[Write]:
    """By who may write resourceclaims/status: who has a claim that 300 waiting pods use, and what it was given."""
    yield from published(nodes)
    requests = [{"name": "r", "exactly": asks()}]
    yield put(claim_of(0, requests))
    for i in range(300):
        made = user(0)
        made["metadata"] |= {"name": f"user-{i}", "uid": f"user-{i}"}
        made["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "900"
        yield put(made, 1)
    for turn in range(1_500):
        made = claim_of(0, requests)
        if turn % 3:
            results = [{"request": "r", "driver": DRIVER, "pool": f"node-{turn % nodes}", "device": "d0"}]
            users = [{"resource": "pods", "name": f"user-{turn % 300}", "uid": f"user-{turn % 300}"}]
            made["status"] = {"allocation": {"devices": {"results": results}}, "reservedFor": users}
        yield put(made, 2)


def _claim_again(nodes: int) -> Iterator[Write]:
    """A claim that is deleted and made again, bound or not, beside 500 pods that use it."""
    for i in range(500):
        yield put(using(f"waits-{i}", range(1), cpu="900"), 0.5)
    for turn in range(1_000):
        made = claim(0, **({"volumeName": f"local-{turn % 500}"} if turn % 2 else {}))
        made["metadata"]["uid"] = f"claim-{turn}"
        made["status"] = {"phase": "Bound" if turn % 2 else "Pending"}
        yield put(made, 1)
        if turn % 5 == 0:
            yield gone(made, 1)


def _group_again(nodes: int) -> Iterator[Write]:
    """A group of 1,000 pods of which the last fits nowhere, deleted and made again."""
    for i in range(1_000):
        yield put(member(f"member-{i}", "again", cpu="1000" if i == 999 else "100m"), 0.3)
    for turn in range(300):
        made = group("again", 1_000)
        made["metadata"]["uid"] = f"again-{turn}"
        yield put(made, 5)
        yield gone(made, 5)


def _groups_of_nobody(nodes: int) -> Iterator[Write]:
    """3,000 pods of as many groups that are not there; a thousand of these come and go."""
    for i in range(3_000):
        yield put(member(f"member-{i}", f"{i}-" + "g" * 50), 0.5)
    for i in range(1_000):
        made = group(f"{i}-" + "g" * 50, 1)
        yield put(made, 0.5)
        yield gone(made, 0.5)


def _namespaces_again(nodes: int) -> Iterator[Write]:
    """20 namespaces that go and come with another label, beside 5,000 placed terms that select namespaces by it."""
    for i in range(100):
        terms = [
            term(
                needs("NotIn", [f"{i}-{k}"]),
                namespaceSelector={"matchExpressions": [needs("NotIn", [f"{i}-{k}"], "side")]},
            )
            for k in range(50)
        ]
        made = apart(terms, f"placed-{i}")
        made["spec"]["nodeName"] = f"node-{i}"
        yield put(made, 5)
    for turn in range(1_000):
        made = namespace(f"again-{turn % 20}", side=str(turn % 2))
        made["metadata"]["uid"] = f"again-{turn}"
        yield put(made, 1)
        yield gone(made, 1)


def _domains_move(nodes: int) -> Iterator[Write]:
    """By kubelets: the domain of five nodes, another one each time, beside 500 pods that spread over such domains."""
    for i in range(500):
        constraint = {
            "maxSkew": 1,
            "topologyKey": "example.com/pool",
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": f"spread-{i}"}},
        }
        spec = {"topologySpreadConstraints": [constraint]}
        yield put(pod(f"spread-{i}", TENANT, {"app": f"spread-{i}"}, spec, cpu="900"), 1)
    for turn in range(1_000):
        made = node(turn % 5)
        made["metadata"]["labels"]["example.com/pool"] = f"pool-{turn}"
        yield put(made, 2)


def _row(
    name: str, kind: str, shape: str, writes: Callable[[int], Iterator[Write]], objects: int, seconds: float
) -> Scenario:
    return Scenario(name, kind, shape, writes, objects, seconds, bounds=CROWD)


SCENARIOS = [
    _row(
        "same-name-3000",
        "Pod",
        "a pod deleted and made again 3,000 times, for two schedulers in turn",
        _same_name,
        3_000,
        4,
    ),
    _row(
        "bound-by-hand",
        "Pod",
        "3,000 pods that somebody binds as they come, half of them to no node",
        _bound_by_hand,
        3_000,
        4,
    ),
    _row("finalizers-hold", "Pod", "3,000 waiting pods that are deleted and stay, and change", _finalizers, 3_000, 6),
    _row(
        "turncoat",
        "Pod",
        "a placed pod whose labels change sides 3,000 times beside 1,000 pods that wait",
        _two_sides,
        3_000,
        5,
    ),
    _row(
        "services-change-sides",
        "Service",
        "50 Services that change between two apps of 500 placed pods, 2,000 times",
        _services_change_sides,
        2_000,
        4,
    ),
    _row("claim-users-flip", "ResourceClaim", "who has a claim of 300 pods, changed 1,500 times", _reserved, 1_500, 8),
    _row(
        "claim-again",
        "PersistentVolumeClaim",
        "a claim of 500 pods, changed or made again 1,000 times",
        _claim_again,
        1_000,
        4,
    ),
    _row(
        "group-again",
        "PodGroup",
        "a gang's group deleted and made again 300 times beside its 1,000 pods",
        _group_again,
        300,
        6,
    ),
    _row(
        "groups-of-nobody",
        "PodGroup",
        "3,000 pods of groups that are not there, 1,000 of which come and go",
        _groups_of_nobody,
        4_000,
        5,
    ),
    _row(
        "namespaces-again",
        "Namespace",
        "20 namespaces that go and come 1,000 times beside 5,000 placed terms that select namespaces",
        _namespaces_again,
        1_000,
        5,
    ),
    _row(
        "domains-move",
        "Node",
        "the domain of five nodes, changed 1,000 times beside 500 pods that spread",
        _domains_move,
        1_000,
        4,
    ),
]
