"""What policies cost a create: none, in the API server (native), and by the webhook; and the dearest legal ones.

`python -m bench.native_policies [--rounds N] [--at-once N] [--namespaces N]`. One control plane and one replica of the
admission server; three namespaces: one has no policies, one has ten in the API server, and one has the same ten at the
webhook. Creates go to the three in turn, so that whatever else the machine does hits all: one at a time, then many at
once. The API server's CPU time for each create is of its process, and is what a busy machine changes least. Then:

- `dearest`: policies at the bound of what is native, none of which matches, so that each of their criteria is asked.
- `elsewhere`: a create in a namespace without policies while more and more other namespaces have native ones.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from scheduler.policy import bounds
from scheduler.policy.native.compile import compile_namespace
from scheduler.policy.native.partition import MOST_UNITS
from scheduler.policy.parse import parse
from scheduler.policy.powers import Reserved
from scheduler.policy.spec import Policies
from tests.controlplane import namespaces
from tests.controlplane.api import Api
from tests.controlplane.cluster import ControlPlane
from tests.controlplane.wait import wait_for
from tests.integration.admission import POLICIES, Policed, policy
from tests.native.judge import PLURALS, ROOT

Object = dict[str, Any]
PROBE = "probe.example.com/native"
CONNECTIONS = 16


def ten() -> list[Object]:
    """Ten policies of four rules that write annotations, or reject what nobody creates here."""
    found = []
    for i in range(10):
        never = {"labelSelector": {"matchLabels": {f"never-{i}": "x"}}}
        tagged = {"annotationSelector": {"matchLabels": {f"tag-{i}": "x"}}}
        absent = {"annotationSelector": {"matchExpressions": [{"key": f"default-{i}", "operator": "DoesNotExist"}]}}
        other = {"labelSelector": {"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["web"]}]}}
        found.append(
            policy(
                f"policy-{i}",
                {"policyPredicate": never, "policyAction": {"reject": True, "message": "never"}},
                {"policyPredicate": tagged, "policyAction": {"reject": True}},
                {"policyPredicate": absent, "policyAction": {"updatedAnnotations": {f"default-{i}": "yes"}}},
                {"policyPredicate": other, "policyAction": {"reject": True}},
            )
        )
    return [*found, probe()]


def dearest() -> list[Object]:
    """Policies just within what is native: rules of sixteen criteria that all hold but the last."""
    found: list[Object] = []
    units = 0
    while True:
        number = len(found)
        keys = [{"key": f"k-{number}-{i}", "operator": "DoesNotExist"} for i in range(15)]
        last = {"key": "app", "operator": "NotIn", "values": ["web"]}
        predicate = {"labelSelector": {"matchExpressions": [*keys, last]}}
        made = policy(f"d{number:04}", *[{"policyPredicate": predicate, "policyAction": {"reject": True}}] * 8)
        units += bounds.price(parse(made)).units
        if units > MOST_UNITS - 20:
            return [*found, probe()]
        found.append(made)


def probe() -> Object:
    """A rule by which one sees that policies are in force."""
    predicate = {"labelSelector": {"matchExpressions": [{"key": PROBE, "operator": "Exists"}]}}
    return policy("probe", {"policyPredicate": predicate, "policyAction": {"reject": True}})


class Natively:
    """Applies policies as the operator would."""

    def __init__(self, api: Api) -> None:
        self._api = api

    def apply(self, namespace: str, documents: Iterable[Object]) -> None:
        """Write them, and wait until they are in force."""
        compiled = compile_namespace(Policies(map(parse, documents)), namespace, "bench", Reserved())
        assert not compiled.webhook, compiled.webhook
        for one in compiled.objects:
            self._api.create(f"{ROOT}/{PLURALS[one['kind']]}", one)
        self.wait(namespace)

    def wait(self, namespace: str) -> None:
        """Until an object is refused."""
        body = {"metadata": {"name": "probe", "labels": {PROBE: "x"}}}
        path = f"/api/v1/namespaces/{namespace}/configmaps"
        wait_for("policies to be in force", lambda: self._api.tell("POST", path, body, dryRun="All").status == 403, 60)


class Creates:
    """Creates pods as dry runs, and measures them."""

    def __init__(self, api: Api, cpu: Callable[[], float]) -> None:
        """`cpu`: seconds of CPU that the API server has used."""
        self._api, self._cpu = api, cpu
        self._number = 0

    def one(self, namespace: str) -> float:
        """Seconds of one create."""
        self._number += 1
        container = {"name": "main", "image": "registry.example/app"}
        body = {
            "metadata": {"name": f"p{self._number}", "labels": {"app": "web"}},
            "spec": {"schedulerName": "nobody", "containers": [container]},
        }
        start = time.perf_counter()
        told = self._api.tell("POST", f"/api/v1/namespaces/{namespace}/pods", body, dryRun="All")
        assert told.status == 201, told.body
        return time.perf_counter() - start

    def rounds(self, places: dict[str, str], rounds: int, each: int = 20) -> dict[str, tuple[list[float], float]]:
        """One at a time, in turn: seconds of each create, and the API server's CPU seconds of one."""
        took: dict[str, list[float]] = {name: [] for name in places}
        cpu = dict.fromkeys(places, 0.0)
        for _ in range(rounds):
            for name, namespace in places.items():
                before = self._cpu()
                took[name] += [self.one(namespace) for _ in range(each)]
                cpu[name] += self._cpu() - before
        return {name: (sorted(took[name]), cpu[name] / (rounds * each)) for name in places}

    def crowd(self, namespace: str, number: int) -> list[float]:
        """Many at once: seconds from the first until each is answered."""
        with ThreadPoolExecutor(CONNECTIONS) as threads:
            start = time.perf_counter()
            return sorted(threads.map(lambda _: self.one(namespace) and time.perf_counter() - start, range(number)))


def _quantile(found: list[float], share: float) -> float:
    return found[min(int(share * len(found)), len(found) - 1)]


def _print(title: str, found: dict[str, tuple[list[float], float]]) -> None:
    print(f"\n{title}")
    base = next(iter(found.values()))
    for name, (took, cpu) in found.items():
        p50, p99 = (_quantile(took, share) * 1e3 for share in (0.5, 0.99))
        ratio = p50 / (_quantile(base[0], 0.5) * 1e3)
        said = f"  {name:10} p50 {p50:8.2f} ms ({ratio:4.2f} x)   p99 {p99:8.2f} ms"
        print(said + (f"   API server {cpu * 1e3:6.2f} ms of CPU a create" if cpu else ""))


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m bench.native_policies", description=__doc__)
    parser.add_argument("--rounds", type=int, default=10, help="of 20 creates in each namespace")
    parser.add_argument("--at-once", type=int, default=200)
    parser.add_argument("--namespaces", type=int, default=200, help="others with native policies, at most")
    options = parser.parse_args()
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    with tempfile.TemporaryDirectory() as home, ControlPlane() as cluster:
        policed = Policed(cluster, Path(home))
        policed.prepare()
        free = "bench-none"
        policed.start("--count-interval=0", f"--exempt-namespace={free}", "--exempt-namespace=bench-native")
        policed.wait_registered()
        api = cluster.api
        for name in (free, "bench-native", "bench-dearest", "bench-webhook"):
            api.create("/api/v1/namespaces", {"metadata": {"name": name}})
        natively, creates = Natively(api), Creates(api, cluster.apiserver.cpu_seconds)
        for document in ten():
            api.create(POLICIES.format("bench-webhook"), document)
        natively.wait("bench-webhook")
        natively.apply("bench-native", ten())
        places = {"none": free, "native": "bench-native", "webhook": "bench-webhook"}
        creates.rounds(places, 1)
        _print("one at a time", creates.rounds(places, options.rounds))
        crowds: dict[str, list[float]] = {name: [] for name in places}
        for _ in range(3):
            for name, namespace in places.items():
                crowds[name] += creates.crowd(namespace, options.at_once)
        _print(f"{options.at_once} at once", {name: (sorted(found), 0.0) for name, found in crowds.items()})
        policed.unregister()
        natively.apply("bench-dearest", dearest())
        _print(
            f"the dearest native policies: {MOST_UNITS} units",
            creates.rounds({"none": free, "dearest": "bench-dearest"}, options.rounds),
        )
        done = 0
        for number in sorted({0, options.namespaces // 4, options.namespaces // 2, options.namespaces}):
            while done < number:
                natively.apply(namespaces.create(api, "other"), [probe()])
                done += 1
            found = creates.rounds({"none": free}, options.rounds)["none"]
            p50 = statistics.median(found[0]) * 1e3
            print(f"  {number:4} other namespaces: {found[1] * 1e3:6.2f} ms of CPU a create, p50 {p50:.2f} ms")


if __name__ == "__main__":
    main()
