"""What policies cost a create: none, in the API server (native), and by the webhook; and the dearest legal ones.

`python -m bench.native_policies [--rounds N] [--at-once N] [--crowds N] [--namespaces N] [--dry]`. One control plane
and one replica of the admission server, and namespaces that differ in who enforces which policies:

- `none`: no policies.
- `refusing`: ten policies that reject some objects, none of these, in an API server that stamps no pods (`--no-stamp`).
- `stamped`: the same, where every pod gets its class.
- `writing`: ten policies that write ten annotations of each pod.
- `webhook`: the same ten, by the webhook.

Creates go to all in turn, so that whatever else the machine does hits all: one at a time, then many at once. The API
server's CPU time is of its process, and is what a busy machine changes least; its ratio is the median of the rounds,
each against `none` in the same round. Then:

- `dearest`: policies at the bound of what fits, none of which matches, but each of which is looked at.
- `elsewhere`: a create in a namespace without policies while more and more other namespaces have native ones.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

from podberth.policy.keys import Reserved
from podberth.policy.native.policy_set import MOST_WORK, PolicySet, Source, policy_set
from podberth.policy.parse import parse
from tests.controlplane import namespaces
from tests.controlplane.api import Api
from tests.controlplane.cluster import ControlPlane
from tests.controlplane.wait import wait_for
from tests.integration.admission import POLICIES, Policed, policy
from tests.native.town import PLURALS, ROOT, SETS, enforce_natively

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


def refusing() -> list[Object]:
    """The same less the rules that write."""
    found = ten()
    for one in found:
        one["spec"]["rules"] = [rule for rule in one["spec"]["rules"] if rule["policyAction"].get("reject")]
    return found


def dearest() -> list[Object]:
    """Policies just within what fits: rules of sixteen criteria that all hold but the last."""

    def made(number: int) -> Object:
        keys = [{"key": f"k-{i}", "operator": "NotIn", "values": [f"v-{number}"]} for i in range(15)]
        last = {"key": "app", "operator": "NotIn", "values": ["web"]}
        predicate = {"labelSelector": {"matchExpressions": [*keys, last]}}
        return policy(f"d{number:04}", *[{"policyPredicate": predicate, "policyAction": {"reject": True}}] * 4)

    return up_to_the_bound(made)


def up_to_the_bound(made: Callable[[int], Object]) -> list[Object]:
    """As many policies of a kind as the API server enforces, and the probe."""
    found = [probe()]
    while not set_of("any", [*found, made(len(found))]).left:
        found.append(made(len(found)))
    return found


def set_of(namespace: str, documents: Iterable[Object], release: str = "bench") -> PolicySet:
    """What the operator writes for these policies."""
    sources = [Source(parse(one), f"uid-{one['metadata']['name']}", 1) for one in documents]
    return policy_set(sources, namespace, release, Reserved())


def probe() -> Object:
    """A rule by which one sees that policies are in force."""
    predicate = {"labelSelector": {"matchExpressions": [{"key": PROBE, "operator": "Exists"}]}}
    return policy("probe", {"policyPredicate": predicate, "policyAction": {"reject": True}})


class Natively:
    """Applies policies as the operator would: release `bench`, and `bare` where pods are not stamped."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._written: list[str] = []
        for release, stamp in (("bench", True), ("bare", False)):
            enforce_natively(api, stamp=stamp, release=release)

    def remove(self) -> None:
        """Take everything away again."""
        self.clear()
        for plural in PLURALS.values():
            for one in self._api.list(f"{ROOT}/{plural}", labelSelector="podberth.dev/release in (bench, bare)"):
                self._api.delete(f"{ROOT}/{plural}/{one['metadata']['name']}")

    def clear(self) -> None:
        """Take all sets away."""
        while self._written:
            self._api.delete(self._written.pop())

    def apply(self, namespace: str, documents: Iterable[Object], *, stamp: bool = True) -> None:
        """Write them, and wait until they are in force."""
        self.write(namespace, documents, stamp=stamp)
        self.wait(namespace)

    def write(self, namespace: str, documents: Iterable[Object], *, stamp: bool = True) -> None:
        """Write them; they are in force soon after."""
        made = set_of(namespace, documents, "bench" if stamp else "bare")
        assert made.document is not None and not made.left, made.left
        path = SETS.format(namespace)
        self._api.create(path, made.document)
        self._written.append(f"{path}/{made.document['metadata']['name']}")

    def wait(self, namespace: str) -> None:
        """Until an object is refused."""
        body = {"metadata": {"name": "probe", "labels": {PROBE: "x"}}}
        path = f"/api/v1/namespaces/{namespace}/configmaps"
        wait_for("policies to be in force", lambda: self._api.tell("POST", path, body, dryRun="All").status == 403, 60)


class Took(NamedTuple):
    """Seconds of each create, and the API server's CPU seconds of a create in each round."""

    each: list[float]
    cpu: list[float]


def cpu_seconds(pid: int) -> float:
    """The CPU time of all threads of a process, to the nanosecond (Linux); its clock ticks are ten creates long."""
    found = 0
    for task in Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(OSError):  # a thread that has just ended
            found += int((task / "schedstat").read_text().split()[0])
    return found / 1e9


class Creates:
    """Creates pods, and measures that."""

    def __init__(self, api: Api, cpu: Callable[[], float], *, dry: bool = True) -> None:
        """`cpu`: seconds of CPU that the API server has used. `dry`: nothing is stored, which leaves out what only
        etcd and watches take, and so makes ratios larger.
        """
        self._api, self._cpu = api, cpu
        self._query = {"dryRun": "All"} if dry else {}
        self._number = itertools.count()

    def one(self, namespace: str, body: Object | None = None) -> float:
        """Seconds of one create."""
        body = body or _pod(f"p{next(self._number)}")
        start = time.perf_counter()
        told = self._api.tell("POST", f"/api/v1/namespaces/{namespace}/pods", body, **self._query)
        assert told.status == 201, told.body
        return time.perf_counter() - start

    def rounds(
        self, places: dict[str, str], rounds: int, each: int = 20, body: Object | None = None
    ) -> dict[str, Took]:
        """One at a time, in turn."""
        found = {name: Took([], []) for name in places}
        for _ in range(rounds):
            for name, namespace in places.items():
                before = self._cpu()
                found[name].each.extend(self.one(namespace, body) for _ in range(each))
                found[name].cpu.append((self._cpu() - before) / each)
                self._clear(namespace)
        return found

    def crowd(self, namespace: str, number: int) -> Took:
        """Many at once: seconds from the first until each is answered."""
        with ThreadPoolExecutor(CONNECTIONS) as threads:
            before, start = self._cpu(), time.perf_counter()
            took = list(threads.map(lambda _: self.one(namespace) and time.perf_counter() - start, range(number)))
            found = Took(took, [(self._cpu() - before) / number])
        self._clear(namespace)
        return found

    def _clear(self, namespace: str) -> None:
        """Take away what was stored."""
        if not self._query:
            self._api.delete(f"/api/v1/namespaces/{namespace}/pods")


def _pod(name: str) -> Object:
    container = {"name": "main", "image": "registry.example/app"}
    spec = {"schedulerName": "nobody", "containers": [container]}
    return {"metadata": {"name": name, "labels": {"app": "web"}}, "spec": spec}


def quantile(found: Iterable[float], share: float) -> float:
    """Of figures in any order."""
    ordered = sorted(found)
    return ordered[min(int(share * len(ordered)), len(ordered) - 1)]


def ratio(found: Took, base: Took) -> float:
    """Of the API server's CPU time, by rounds."""
    return statistics.median(one / other for one, other in zip(found.cpu, base.cpu, strict=True))


def _print(title: str, found: dict[str, Took]) -> None:
    print(f"\n{title}")
    base = next(iter(found.values()))
    for name, took in found.items():
        p50, p99 = (quantile(took.each, share) * 1e3 for share in (0.5, 0.99))
        times = [p50 / (quantile(base.each, 0.5) * 1e3), p99 / (quantile(base.each, 0.99) * 1e3)]
        said = f"  {name:10} p50 {p50:8.2f} ms ({times[0]:4.2f} x)   p99 {p99:8.2f} ms ({times[1]:4.2f} x)"
        cpu = quantile(took.cpu, 0.25) * 1e3
        print(f"{said}   API server {cpu:5.2f} ms of CPU a create ({ratio(took, base):4.2f} x)")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m bench.native_policies", description=__doc__)
    parser.add_argument("--rounds", type=int, default=10, help="of 20 creates in each namespace")
    parser.add_argument("--at-once", type=int, default=200)
    parser.add_argument("--crowds", type=int, default=5, help="so often that many at once")
    parser.add_argument("--dry", action="store_true", help="store nothing")
    parser.add_argument("--namespaces", type=int, default=200, help="others with native policies, at most")
    options = parser.parse_args()
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    with tempfile.TemporaryDirectory() as home, ControlPlane() as cluster:
        policed = Policed(cluster, Path(home))
        policed.prepare()
        free = "bench-none"
        native = {name: f"bench-{name}" for name in ("refusing", "stamped", "writing")}
        exempt = [f"--exempt-namespace={name}" for name in (free, *native.values())]
        policed.start(*exempt)
        policed.wait_registered()
        api = cluster.api
        for name in (free, *native.values(), "bench-dearest", "bench-webhook"):
            api.create("/api/v1/namespaces", {"metadata": {"name": name}})
        natively, creates = Natively(api), Creates(api, lambda: cpu_seconds(cluster.apiserver.pid), dry=options.dry)
        for document in ten():
            api.create(POLICIES.format("bench-webhook"), document)
        natively.wait("bench-webhook")
        natively.apply(native["refusing"], refusing(), stamp=False)
        natively.apply(native["stamped"], refusing())
        natively.apply(native["writing"], ten())
        places = {"none": free, **native, "webhook": "bench-webhook"}
        creates.rounds(places, 1)
        _print("one at a time", creates.rounds(places, options.rounds))
        crowds = {name: Took([], []) for name in places}
        for _ in range(options.crowds):
            for name, namespace in places.items():
                found = creates.crowd(namespace, options.at_once)
                crowds[name].each.extend(found.each)
                crowds[name].cpu.extend(found.cpu)
        _print(f"{options.at_once} at once", crowds)
        policed.unregister()
        natively.apply("bench-dearest", dearest())
        _print(
            f"the dearest policies: {MOST_WORK} units of work",
            creates.rounds({"none": free, "dearest": "bench-dearest"}, options.rounds),
        )
        done = 0
        for number in sorted({0, options.namespaces // 4, options.namespaces // 2, options.namespaces}):
            while done < number:
                natively.apply(namespaces.create(api, "other"), [probe()])
                done += 1
            found = creates.rounds({"none": free}, options.rounds)["none"]
            p50, cpu = quantile(found.each, 0.5) * 1e3, quantile(found.cpu, 0.25) * 1e3
            print(f"  {number:4} other namespaces: {cpu:6.2f} ms of CPU a create, p50 {p50:.2f} ms")


if __name__ == "__main__":
    main()
