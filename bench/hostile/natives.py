"""A tenant's worst policies where the API server enforces them by itself: what its own creates cost, and others'.

One real API server (kube-apiserver), and policies as the operator writes them. S2 to S4 of the findings that made the
admission server bounded: many policies, objects with much in them, selectors with many values. The API server evaluates
CEL with CPU time that all tenants share, so two things are bounded: what one create costs, to what the object that is
stored in the end costs without policies (four times), and what creates of others cost, to what they cost before. Both
are ratios, as milliseconds of another process say how fast the machine is. CPU is of the API server's process, medians
of pairs of rounds. What others' creates cost drifts with the machine by more than the bound, so each
round of them is paired with one on a second API server, on which nobody has policies.
"""

from __future__ import annotations

import statistics
import threading
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from bench.hostile import town
from bench.hostile.row import Chosen, Row
from bench.native_policies import Creates, Natively, Took, cpu_seconds, dearest, quantile, ratio, up_to_the_bound
from tests.controlplane.api import Api
from tests.controlplane.cluster import ControlPlane
from tests.integration.admission import policy

Object = dict[str, Any]
FREE = "others"
OWN_TIMES = 4.0
"""What one create may cost, to one of what is stored in the end, without policies."""
OTHERS_TIMES = 1.2
ROUNDS, EACH, PAIRS = 15, 20, 40
BESIDE = 100
"""Creates of others beside a tenant that creates as fast as it can."""
THREADS = 4


class Shape(NamedTuple):
    """A tenant's policies, the pod that it creates, and in how many namespaces it does that."""

    said: str
    policies: Callable[[], list[Object]]
    pod: Callable[[], Object]
    namespaces: int = 1
    large: bool = False
    """Whether the pod costs much by itself."""
    stored: Callable[[], Object] | None = None
    """The pod as policies change it, where they make it a larger one: it would cost much without them, too."""


def small() -> Object:
    """A pod as others create them."""
    return _pod({"app": "web"}, [{"name": "main", "image": "x"}])


def containers(number: int) -> Object:
    """A pod of so many containers that all ask for something, so that its class takes a look at each."""
    asks = {"limits": {"cpu": "1", "memory": "1Gi"}}
    return _pod({"app": "web"}, [{"name": f"c{i}", "image": "x", "resources": asks} for i in range(number)])


def labelled(number: int) -> Object:
    """A pod with as many labels and annotations."""
    made = small()
    made["metadata"]["labels"] |= {f"label-{i}": "x" * 60 for i in range(number)}
    made["metadata"]["annotations"] = {f"note-{i}": "x" * 100 for i in range(number)}
    return made


def of_many_values() -> list[Object]:
    """Selectors of 32 values each, all but the first of which are compared in vain, up to the bound."""

    def made(number: int) -> Object:
        criteria = [
            {"key": "app", "operator": "NotIn", "values": [f"v-{number}-{i}-{j}" for j in range(32)]} for i in range(15)
        ]
        last = {"key": "app", "operator": "NotIn", "values": ["web"]}
        predicate = {"labelSelector": {"matchExpressions": [*criteria, last]}}
        return policy(f"v{number:04}", {"policyPredicate": predicate, "policyAction": {"reject": True}})

    return up_to_the_bound(made)


def all_there() -> list[Object]:
    """Rules that ask for keys, all of which the pod of `of_all_keys` has, but for the last."""

    def made(number: int) -> Object:
        keys = [{"key": f"k-{number}-{i}", "operator": "Exists"} for i in range(15)]
        last = {"key": "app", "operator": "NotIn", "values": ["web"]}
        predicate = {"labelSelector": {"matchExpressions": [*keys, last]}}
        return policy(f"k{number:04}", {"policyPredicate": predicate, "policyAction": {"reject": True}})

    return up_to_the_bound(made)


def of_all_keys() -> Object:
    """A pod with all the labels that `all_there` asks for."""
    asked = [
        one["key"]
        for document in all_there()
        for rule in document["spec"]["rules"]
        for one in rule["policyPredicate"]["labelSelector"]["matchExpressions"]
    ]
    found = small()
    found["metadata"]["labels"] |= {key: "x" for key in asked if key.startswith("k-")}
    return found


def writing() -> list[Object]:
    """Rules that write as many annotations as the bound lets them."""

    def made(number: int) -> Object:
        notes = {f"written-{number}-{i}": "x" * 60 for i in range(32)}
        return policy(f"w{number:04}", {"policyPredicate": {}, "policyAction": {"updatedAnnotations": notes}})

    return up_to_the_bound(made)


def written() -> Object:
    """A pod that brings all the annotations that `writing` would write."""
    actions = [rule["policyAction"] for document in writing() for rule in document["spec"]["rules"]]
    made = small()
    made["metadata"]["annotations"] = {
        key: value for action in actions for key, value in action.get("updatedAnnotations", {}).items()
    }
    return made


SHAPES: dict[str, Shape] = {
    "native-dearest": Shape("criteria up to the bound, all asked (S2)", dearest, small),
    "native-dearest-20": Shape("the same in twenty namespaces at once", dearest, small, 20),
    "native-values": Shape("selectors of many values up to the bound, all compared (S4)", of_many_values, small),
    "native-all-there": Shape("criteria up to the bound, of which the pod meets nearly all", all_there, of_all_keys),
    "native-writes": Shape("annotations up to the bound, all written", writing, small, stored=written),
    "native-containers-2000": Shape(
        "pods of 2,000 containers, whose class is worked out (S3)", dearest, lambda: containers(2_000), large=True
    ),
    "native-labels-1000": Shape(
        "pods of 1,000 labels and annotations (S3)", dearest, lambda: labelled(1_000), large=True
    ),
}


def rows(chosen: Chosen, say: Callable[[str], None]) -> Iterator[Row]:
    """Every shape on one control plane; its policies go before the next one."""
    wanted = {name: shape for name, shape in SHAPES.items() if chosen.wants(name)}
    if not wanted:
        return
    with ControlPlane() as cluster, ControlPlane() as unpoliced:
        creates, plain = (_creates(one) for one in (cluster, unpoliced))
        for name, shape in wanted.items():
            say(name)
            yield _row(cluster.api, creates, plain, name, shape, max(ROUNDS // 3, 1) if shape.large else ROUNDS)


def _creates(cluster: ControlPlane) -> Creates:
    """Of an API server that has warmed up."""
    cluster.api.create("/api/v1/namespaces", {"metadata": {"name": FREE}})
    creates = Creates(cluster.api, lambda: cpu_seconds(cluster.apiserver.pid))
    creates.rounds({FREE: FREE}, 2, EACH)
    return creates


def _row(api: Api, creates: Creates, plain: Creates, name: str, shape: Shape, rounds: int) -> Row:
    before = _times(creates, plain)
    natively, documents, pod = Natively(api), shape.policies(), shape.pod()
    stored = pod if shape.stored is None else shape.stored()
    own = [f"{name}-{number}" for number in range(shape.namespaces)]
    for namespace in own:
        api.create("/api/v1/namespaces", {"metadata": {"name": namespace}})
        natively.write(namespace, documents)
    for namespace in own:
        natively.wait(namespace)
    try:
        after = _times(creates, plain)
        each = 1 if shape.large else EACH
        found = {FREE: Took([], []), own[0]: Took([], [])}
        for _ in range(rounds):
            for place, body in ((FREE, stored), (own[0], pod)):
                took = creates.rounds({place: place}, 1, each, body)[place]
                found[place].each.extend(took.each)
                found[place].cpu.extend(took.cpu)
        beside = {place: _beside(creates, place, pod) for place in (FREE, own[0])}
    finally:
        natively.remove()
    costs = {
        "own_cpu_ms": 1e3 * statistics.median(found[own[0]].cpu),
        "own_more_ms": 1e3 * (statistics.median(found[own[0]].cpu) - statistics.median(found[FREE].cpu)),
        "own_times": ratio(found[own[0]], found[FREE]),
        "others_cpu_times": after / before,
        "unpoliced_p99_ms": 1e3 * quantile(beside[FREE], 0.99),
        "others_p99_ms": 1e3 * quantile(beside[own[0]], 0.99),
    }
    held = {"own_times": OWN_TIMES, "others_cpu_times": OTHERS_TIMES}
    largest = max(len(town.encoded(one)) for one in documents)
    return Row("native policies", "MetadataPolicy", name, shape.said, largest, len(documents), costs, held)


def _beside(creates: Creates, place: str, pod: Object) -> list[float]:
    """Seconds of others' creates while the tenant creates in this namespace as fast as it can."""
    stop = threading.Event()

    def work() -> None:
        while not stop.is_set():
            creates.one(place, pod)

    threads = [threading.Thread(target=work) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    try:
        return [creates.one(FREE) for _ in range(BESIDE)]
    finally:
        stop.set()
        for thread in threads:
            thread.join(60)


def _times(creates: Creates, plain: Creates) -> float:
    """What a create of others costs, to what it costs on the other API server: median of rounds in turn."""
    pairs = [[one.rounds({FREE: FREE}, 1, EACH)[FREE].cpu[0] for one in (creates, plain)] for _ in range(PAIRS)]
    return statistics.median(here / there for here, there in pairs)


def _pod(labels: dict[str, str], made: list[Object]) -> Object:
    return {"metadata": {"name": "pod", "labels": labels}, "spec": {"schedulerName": "nobody", "containers": made}}
