"""5,000 plain pods on 5,000 nodes: kube-scheduler, then Berth, on the same API server; prints both and the ratio.

`python -m bench.first_table [--nodes N] [--pods N]`. Each scheduler finds the backlog when it starts. The rate is
(n-1) / (last - first binding) as a watch sees them; CPU is the process' whole user and system time until the last pod
is bound and its event written; memory is its peak resident set. Nobody's absolute figures hold on a shared machine, the
ratios do.
"""

from __future__ import annotations

import argparse
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.controlplane import namespaces
from tests.controlplane.api import Api
from tests.controlplane.cluster import Cluster, ControlPlane
from tests.controlplane.process import Process
from tests.controlplane.wait import wait_for
from tests.integration.berth import Harbour
from tests.integration.objects import NODES, nodes, plain, pods_path

PATIENCE = 240.0
"""Seconds that one scheduler gets for all pods."""


@dataclass(frozen=True)
class Row:
    """What one scheduler did."""

    scheduler: str
    bound: int
    rate: float
    cpu_ms: float
    memory_mb: float
    first: float


class Bindings:
    """A watch that notes when each pod of a namespace is bound."""

    def __init__(self, api: Api, namespace: str, count: int) -> None:
        self.times: list[float] = []
        self._count = count
        self._api = api
        self._path = pods_path(namespace)
        self._since = api.get(self._path, limit=1)["metadata"]["resourceVersion"]
        self._thread = threading.Thread(target=self._follow, daemon=True)
        self._thread.start()

    def wait(self, process: Process) -> list[float]:
        """The moments, in order, once all are bound, or what there is after the patience."""
        deadline = time.monotonic() + PATIENCE
        while self._thread.is_alive() and time.monotonic() < deadline:
            process.check()
            self._thread.join(0.5)
        return self.times

    def _follow(self) -> None:
        watching = self._api.watch(
            self._path, resourceVersion=self._since, fieldSelector="spec.nodeName!=", idle=PATIENCE
        )
        for event in watching:
            if event["type"] == "ADDED":
                self.times.append(time.monotonic())
                if len(self.times) == self._count:
                    break
        watching.close()


def measure(cluster: Cluster, title: str, name: str, pods: int, start: Callable[[], Process]) -> Row:
    """Create the backlog, start the scheduler, and wait until all is bound and told."""
    api = cluster.api
    namespace = namespaces.create(api, "bench")
    api.create_many(pods_path(namespace), plain(pods, name))
    watch = Bindings(api, namespace, pods)
    started = time.monotonic()
    process = start()
    times = watch.wait(process)
    wait_for(f"{len(times)} events of {title}", lambda: _events(api, namespace) >= len(times), PATIENCE, 0.2)
    row = Row(
        scheduler=title,
        bound=len(times),
        rate=(len(times) - 1) / (times[-1] - times[0]) if len(times) > 1 else 0.0,
        cpu_ms=1000 * process.cpu_seconds() / max(len(times), 1),
        memory_mb=process.peak_memory_mb(),
        first=times[0] - started if times else float("nan"),
    )
    process.stop()
    return row


def clear(api: Api) -> None:
    """Remove all pods, so that the next scheduler finds the nodes as the first one did."""
    for namespace in {pod["metadata"]["namespace"] for pod in api.list("/api/v1/pods")}:
        api.delete(pods_path(namespace))
    wait_for("the pods to be gone", lambda: not api.get("/api/v1/pods", limit=1)["items"], PATIENCE, 0.2)


def compare(cluster: Cluster, count: int, pods: int, home: Path) -> tuple[Row, Row]:
    """kube-scheduler's row and Berth's, on nodes that this makes."""
    cluster.api.create_many(NODES, nodes(count, "bench"))
    harbour = Harbour(home)
    try:
        kube = measure(cluster, "kube-scheduler", "kube", pods, lambda: harbour.kube_scheduler(cluster, "kube")[0])
        clear(cluster.api)
        berth = measure(cluster, "Berth", "berth", pods, lambda: harbour.berth(cluster, "berth", synced=False))
    finally:
        harbour.close()
    return kube, berth


def table(kube: Row, berth: Row) -> str:
    """Both rows and the ratio, for a terminal or a Markdown page."""
    lines = [
        "| scheduler | bound | pods/s | CPU ms/pod | peak RSS MB | first binding s |",
        "| --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    lines += [
        f"| {row.scheduler} | {row.bound} | {row.rate:.0f} | {row.cpu_ms:.2f} | {row.memory_mb:.0f} | {row.first:.2f} |"
        for row in (kube, berth)
    ]
    pairs = [(getattr(berth, what), getattr(kube, what)) for what in ("rate", "cpu_ms", "memory_mb", "first")]
    ratios = " | ".join(f"{mine / theirs:.2f}" if theirs else "" for mine, theirs in pairs)
    lines.append(f"| Berth / kube-scheduler | | {ratios} |")
    return "\n".join(lines)


def _events(api: Api, namespace: str) -> int:
    page = api.get(f"/apis/events.k8s.io/v1/namespaces/{namespace}/events", limit=1)
    return len(page["items"]) + int(page["metadata"].get("remainingItemCount", 0))


def main() -> None:
    """Run it on a control plane of its own."""
    options = argparse.ArgumentParser(prog="python -m bench.first_table", description=__doc__.splitlines()[0])
    options.add_argument("--nodes", type=int, default=5000)
    options.add_argument("--pods", type=int, default=5000)
    chosen = options.parse_args()
    with tempfile.TemporaryDirectory() as home, ControlPlane() as cluster:
        rows = compare(cluster, chosen.nodes, chosen.pods, Path(home))
    print(f"{chosen.pods} plain pods on {chosen.nodes} nodes\n")
    print(table(*rows))


if __name__ == "__main__":
    main()
