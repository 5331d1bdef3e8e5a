"""What the admission server costs: creates with and without webhooks on the real API server, then memory over time.

`python -m bench.admission [--concurrency N] [--rounds N] [--rate N] [--reviews N]`. One replica, ten policies of four
rules. Creates go to a policed namespace and to an exempt one in turn, so that whatever else the machine does hits both:
one at a time; evenly spaced at a rate; and N at once.
Three clocks: the client's (a create, from request to answer), the API server's (one webhook call, its own histogram),
and the replica's (one review, from its last byte to the answer). Then reviews are posted to the replica directly, over
loopback TLS, and its resident set is printed on the way. Client, API server, etcd and replica share the machine's
cores, so each load also says how many were busy, how many of them with something else, and for how long the replica was
ready to run and had none. What lies between the replica's clock and the API server's, less what it is when creates come
one at a time, is queueing: for cores, for the replica's one thread, and for connections (the API server keeps 25 open
to a webhook; each call of a burst beyond that begins with a TLS handshake).
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import ssl
import tempfile
import time
from collections.abc import Callable, Coroutine, Iterable
from pathlib import Path
from typing import Any

import aiohttp

from tests.controlplane import namespaces
from tests.controlplane.cluster import ControlPlane
from tests.controlplane.process import Process
from tests.integration.admission import Policed, Replica, policy

FREE = "bench-free"
QOS = "scheduler.alpha.kubernetes.io/qos"
CONNECTIONS = 8
HISTOGRAM = "apiserver_admission_webhook_admission_duration_seconds"


def policies() -> list[dict[str, Any]]:
    """Ten policies of four rules: defaults, requirements, a route by QoS."""
    found = []
    for i in range(10):
        rules: list[dict[str, Any]] = [
            {
                "policyPredicate": {"labelSelector": {"matchLabels": {f"never-{i}": "x"}}},
                "policyAction": {"reject": True, "message": "never"},
            },
            {
                "policyPredicate": {
                    "labelSelector": {"matchExpressions": [{"key": f"default-{i}", "operator": "DoesNotExist"}]}
                },
                "policyAction": {"updatedLabels": {f"default-{i}": "yes"}},
            },
            {
                "policyPredicate": {"annotationSelector": {"matchLabels": {QOS: "BestEffort"}}},
                "policyAction": {"updatedAnnotations": {f"example.com/tier-{i}": "best-effort"}},
            },
            {
                "policyPredicate": {
                    "labelSelector": {"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["web"]}]}
                },
                "policyAction": {"reject": True},
            },
        ]
        found.append(policy(f"policy-{i}", *rules))
    return found


def pod(name: str) -> dict[str, Any]:
    """A pod that nobody schedules."""
    variables = [{"name": f"V{i}", "value": "x"} for i in range(20)]
    container = {"name": "main", "image": "registry.example/app", "env": variables}
    return {
        "metadata": {"name": name, "labels": {"app": "web"}, "annotations": {"example.com/note": "x" * 200}},
        "spec": {"schedulerName": "nobody", "containers": [container]},
    }


class Client:
    """Creates over as many connections as there are creates at once."""

    def __init__(self, cluster: ControlPlane, concurrency: int) -> None:
        context = ssl.create_default_context(cafile=cluster.ca)
        self._url = cluster.url
        self._number = 0
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=concurrency, ssl=context),
            headers={"Authorization": f"Bearer {cluster.admin_token}", "Content-Type": "application/json"},
        )

    async def create(self, namespace: str) -> float:
        """Create a pod; milliseconds it took."""
        self._number += 1
        body = json.dumps(pod(f"p-{self._number}")).encode()
        began = time.perf_counter()
        async with self._session.post(f"{self._url}/api/v1/namespaces/{namespace}/pods", data=body) as response:
            answer = await response.read()
        took = time.perf_counter() - began
        if response.status != 201:
            raise RuntimeError(f"create failed: {response.status} {answer[:300]!r}")
        return took * 1000

    async def close(self) -> None:
        """End the connections."""
        await self._session.close()


def quantile(values: Iterable[float], part: float) -> float:
    """The value that this part of them does not exceed."""
    ordered = sorted(values)
    return ordered[min(int(part * len(ordered)), len(ordered) - 1)]


async def bursts(cluster: ControlPlane, replica: Replica, namespace: str, concurrency: int, rounds: int) -> int:
    """Creates at once, in turn policed and free; the number of policed ones."""
    client = Client(cluster, concurrency)
    took: dict[str, list[float]] = {FREE: [], namespace: []}
    spent: dict[str, list[float]] = {FREE: [0.0, 0.0], namespace: [0.0, 0.0]}
    processes: list[Process] = [cluster.apiserver, replica]
    for turn in range(rounds + 1):
        for where in took:
            before = [process.cpu_seconds() for process in processes]
            found = await asyncio.gather(*(client.create(where) for _ in range(concurrency)))
            if turn:  # the first warms connections and caches up
                took[where] += found
                for i, process in enumerate(processes):
                    spent[where][i] += 1000 * (process.cpu_seconds() - before[i]) / (concurrency * rounds)
            await asyncio.to_thread(cluster.api.delete, f"/api/v1/namespaces/{where}/pods")
    await client.close()
    print(f"\n{rounds} rounds of {concurrency} creates at once, milliseconds as the client sees them")
    print_added(took[FREE], took[namespace])
    for title, where in (("without webhooks", FREE), ("with both", namespace)):
        print(f"  CPU ms a create, {title:<17} API server {spent[where][0]:.2f}, replica {spent[where][1]:.2f}")
    return concurrency * (rounds + 1)


async def paced(cluster: ControlPlane, namespace: str, clients: int, rate: float, seconds: float) -> int:
    """Creates that begin evenly spaced, whatever the answers do, on as many connections; the number of policed ones."""
    client = Client(cluster, clients)
    took: dict[str, list[float]] = {FREE: [], namespace: []}

    async def one(where: str) -> None:
        took[where].append(await client.create(where))

    began, tasks = time.perf_counter(), []
    for i in range(int(rate * seconds)):
        await asyncio.sleep(max(began + i / rate - time.perf_counter(), 0))
        tasks.append(asyncio.create_task(one((FREE, namespace)[i % 2])))
    await asyncio.gather(*tasks)
    await client.close()
    for where in took:
        await asyncio.to_thread(cluster.api.delete, f"/api/v1/namespaces/{where}/pods")
    print(f"\n{rate:g} creates a second, evenly spaced, by up to {clients} clients, milliseconds as they see them")
    print_added(took[FREE], took[namespace])
    return len(took[namespace])


def print_added(free: list[float], policed: list[float]) -> None:
    """Both, and the difference."""
    print(f"  {'':<18}{'p50':>9}{'p99':>9}")
    for title, values in (("without webhooks", free), ("with both", policed)):
        print(f"  {title:<18}{quantile(values, 0.5):>9.1f}{quantile(values, 0.99):>9.1f}")
    added = [quantile(policed, part) - quantile(free, part) for part in (0.5, 0.99)]
    print(f"  {'added, both':<18}{added[0]:>9.1f}{added[1]:>9.1f}")
    print(f"  {'added per review':<18}{added[0] / 2:>9.1f}{added[1] / 2:>9.1f}")


Buckets = dict[float, float]
"""Of a histogram: how many took at most so many seconds. The bucket of None is the sum of all seconds."""


def histogram(lines: Iterable[str], name: str, *wanted: str) -> dict[str, Buckets]:
    """A histogram in Prometheus' text format, by its label `name` or `endpoint`; lines must hold what is wanted."""
    found: dict[str, Buckets] = {}
    for line in lines:
        if line.startswith((f"{name}_bucket", f"{name}_sum")) and all(word in line for word in wanted):
            labels = dict(re.findall(r'(\w+)="([^"]*)"', line))
            rows = found.setdefault(labels.get("endpoint") or labels["name"].partition(".")[0], {})
            rows[float(labels.get("le", "nan").replace("+Inf", "inf"))] = float(line.rpartition(" ")[2])
    return found


def since(now: dict[str, Buckets], before: dict[str, Buckets]) -> dict[str, Buckets]:
    """What was added."""

    def row(rows: Buckets, old: Buckets) -> Buckets:
        known = {str(le): count for le, count in old.items()}  # nan, the sum's key, equals nothing
        return {le: count - known.get(str(le), 0.0) for le, count in rows.items()}

    return {name: row(rows, before.get(name, {})) for name, rows in now.items()}


def spread(rows: Buckets) -> tuple[int, float, float, float]:
    """(count, mean, p50, p99), milliseconds; quantiles are interpolated within their bucket, as PromQL does it."""
    total = sum(seconds for le, seconds in rows.items() if le != le)
    counts = sorted((le, count) for le, count in rows.items() if le == le)
    count = counts[-1][1]

    def part(wanted: float) -> float:
        low, below = 0.0, 0.0
        for le, upto in counts:
            if upto >= wanted * count:
                return low if le == float("inf") else low + (le - low) * (wanted * count - below) / max(upto - below, 1)
            low, below = le, upto
        return low

    return int(count), 1000 * total / max(count, 1), 1000 * part(0.5), 1000 * part(0.99)


class Load:
    """What one load did to everybody: histograms of API server and replica, and who used and waited for cores."""

    def __init__(self, cluster: ControlPlane, replica: Replica) -> None:
        self._cluster = cluster
        self._replica = replica
        self._before = self._read()

    def _read(self) -> dict[str, Any]:
        lines = self._cluster.api.text("/metrics").splitlines()
        wanted = ('operation="CREATE"', 'rejected="false"')
        own = [f"{name} {value!r}" for name, value in self._replica.metrics().items()]
        return {
            "calls": histogram(lines, HISTOGRAM, *wanted),
            "reviews": histogram(own, "berth_admission_review_seconds"),
            "cpu": self._replica.cpu_seconds(),
            "waited": waited(self._replica),
            "machine": machine_seconds(),
            "ours": sum(one.cpu_seconds() for one in (self._cluster.apiserver, self._cluster.etcd, self._replica))
            + time.process_time(),
            "wall": time.perf_counter(),
        }

    def show(self) -> None:
        """Print it."""
        now, before = self._read(), self._before
        print(f"\n  {'milliseconds':<46}{'calls':>7}{'mean':>9}{'p50':>9}{'p99':>9}")
        titles = (("calls", "API server, asking"), ("reviews", "replica, from last byte to answer,"))
        for key, title in titles:
            for name, rows in sorted(since(now[key], before[key]).items()):
                count, *figures = spread(rows)
                print(f"  {f'{title} {name}':<46}{count:>7}" + "".join(f"{figure:>9.2f}" for figure in figures))
        count = sum(spread(rows)[0] for rows in since(now["reviews"], before["reviews"]).values())
        spent, lost = (1000 * (now[key] - before[key]) / max(count, 1) for key in ("cpu", "waited"))
        print(f"  replica, a review: {spent:.2f} ms of CPU, {lost:.2f} ms ready to run and without a core")
        wall = now["wall"] - before["wall"]
        busy, ours = ((now[key] - before[key]) / wall for key in ("machine", "ours"))
        print(f"  cores busy: {busy:.1f} of {os.cpu_count()}, of which this benchmark {ours:.1f}")


def waited(process: Process) -> float:
    """Seconds for which its threads were ready to run and had no core (Linux, schedstat)."""
    tasks = Path(f"/proc/{process.pid}/task").glob("*/schedstat")
    return sum(int(task.read_text().split()[1]) for task in tasks) / 1e9


def machine_seconds() -> float:
    """CPU seconds that this machine has spent on anything (Linux)."""
    fields = list(map(int, Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]))
    return (sum(fields) - fields[3] - fields[4]) / os.sysconf("SC_CLK_TCK")


async def memory(replica: Replica, namespace: str, reviews: int) -> None:
    """Post reviews to the replica directly and print its resident set on the way."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    url = f"https://127.0.0.1:{replica.port}"
    done = 0
    began, cpu = time.perf_counter(), replica.cpu_seconds()
    print(f"\n{reviews} reviews posted to the replica directly over {CONNECTIONS} connections")
    print(f"  {'reviews':>9}{'RSS MB':>9}")
    print(f"  {0:>9}{resident(replica):>9.1f}")
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=context, limit=CONNECTIONS)) as session:

        async def work(_: int) -> None:
            nonlocal done
            while done < reviews:
                done += 1
                number = done
                body = review(namespace, number)
                path = "/mutate" if number % 2 else "/validate"
                headers = {"Content-Type": "application/json"}
                async with session.post(url + path, data=body, headers=headers) as response:
                    if response.status != 200 or b'"allowed":true' not in await response.read():
                        raise RuntimeError(f"review failed: {response.status}")
                if number % max(reviews // 10, 1) == 0:
                    print(f"  {number:>9}{resident(replica):>9.1f}", flush=True)

        await asyncio.gather(*map(work, range(CONNECTIONS)))
    spent = 1000 * (replica.cpu_seconds() - cpu) / reviews
    print(f"  {reviews / (time.perf_counter() - began):.0f} reviews a second, {spent:.2f} ms of the replica's CPU each")


def review(namespace: str, number: int) -> bytes:
    """A review as the API server makes it, each with a uid, name and content of its own."""
    obj = {"apiVersion": "v1", "kind": "Pod", **pod(f"p-{number}")}
    obj["metadata"]["annotations"][f"example.com/{number}"] = "x" * (number % 500)
    obj["metadata"]["annotations"][QOS] = "BestEffort"
    kind = {"group": "", "version": "v1", "kind": "Pod"}
    request = {
        "uid": f"uid-{number}",
        "kind": kind,
        "namespace": namespace,
        "name": f"p-{number}",
        "operation": "CREATE",
        "userInfo": {"username": f"user-{number}"},
        "object": obj,
        "oldObject": None,
    }
    document = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
    return json.dumps(document).encode()


def resident(process: Process) -> float:
    """Resident memory now, MB (Linux)."""
    status = Path(f"/proc/{process.pid}/status").read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS")) / 1024


def main() -> None:
    """Run all of it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--concurrency", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--rate", type=float, default=50.0)
    parser.add_argument("--reviews", type=int, default=100_000)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="berth-bench-") as home, ControlPlane() as cluster:
        policed = Policed(cluster, Path(home))
        policed.prepare()
        cluster.api.create("/api/v1/namespaces", {"metadata": {"name": FREE}})
        namespace = namespaces.create(cluster.api, "bench")
        replica = policed.start(f"--exempt-namespace={FREE}")
        try:
            policed.wait_registered()
            policed.enforce(namespace, *policies())
            loads: list[Callable[[], Coroutine[Any, Any, int]]] = [
                lambda: bursts(cluster, replica, namespace, 1, 200),
                lambda: paced(cluster, namespace, arguments.concurrency, arguments.rate, 20.0),
                lambda: bursts(cluster, replica, namespace, arguments.concurrency, arguments.rounds),
            ]
            for load in loads:
                watched = Load(cluster, replica)
                asyncio.run(load())
                watched.show()
            asyncio.run(memory(replica, namespace, arguments.reviews))
        finally:
            for process in policed.started:
                process.kill()


if __name__ == "__main__":
    main()
