"""Pods that find no node: what an attempt costs, on an engine alone (`python -m bench.no_node`).

5,000 nodes with ten placed pods each. For each sort of pod: the first attempt, then the median of those of equal pods
while nothing changes, and of pods of which no two are alike. In the end a crowd: 30,000 equal pods that fit nowhere,
and right behind them one that fits; how long it takes until it is assumed, all of them tried before it.
"""

from __future__ import annotations

import argparse
import gc
import sys
import time
from collections.abc import Callable
from typing import Any

import msgspec

from podberth.engine.engine import Engine
from podberth.engine.instructions import Bind, Instruction
from podberth.engine.stimuli import Cycle, Put, Stimulus, Tick
from podberth.framework.config import ProfileConfig, SchedulerConfiguration
from podberth.framework.profiles import build
from podberth.model.kinds import Decoder
from podberth.plugins.registry import registry
from podberth.testing.workloads.driver import quantile

NAME = "bench"
HOST, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
A_NODE = 10
CROWD = 30_000
GOALS = {"equal": 0.2, "new": 3.0, "crowd": 2.0}
"""Milliseconds of an attempt, and seconds until the one that fits is bound."""
Object = dict[str, Any]


def a_pod(name: str, cpu: str = "10m", *, node: str = "", app: str = "", **spec: Any) -> Object:
    """A pod of one container; `node`: where it is placed."""
    made: Object = {
        "metadata": {"name": name, "namespace": "default", "uid": name, "labels": {"app": app} if app else {}},
        "spec": {
            "schedulerName": NAME,
            "containers": [{"name": "c", "resources": {"requests": {"cpu": cpu, "memory": "50Mi"}}}],
            **spec,
        },
    }
    if node:
        made["spec"]["nodeName"] = node
    return made


def apart(app: str) -> Object:
    """Anti-affinity of an app's pods by host."""
    term = {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": HOST}
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


SORTS: dict[str, tuple[Callable[[str], Object], Callable[[str, int], Object]]] = {
    "too large": (lambda name: a_pod(name, "9"), lambda name, i: a_pod(name, f"{9000 + i}m")),
    "too large, of a higher priority": (
        lambda name: a_pod(name, "9", priority=10),
        lambda name, i: a_pod(name, f"{9000 + i}m", priority=10),
    ),
    "anti-affinity, one on each node": (
        lambda name: a_pod(name, app="full", affinity=apart("full")),
        lambda name, i: a_pod(name, f"{10 + i}m", app="full", affinity=apart("full")),
    ),
    "no such label": (
        lambda name: a_pod(name, nodeSelector={"no": "such"}),
        lambda name, i: a_pod(name, nodeSelector={"no": f"such{i}"}),
    ),
}
"""Name → (a pod equal to all others, a pod like no other)."""


class Place:
    """One engine with its nodes and placed pods; on each node one pod of the app `full`."""

    def __init__(self, nodes: int) -> None:
        self.engine = Engine(build(SchedulerConfiguration(profiles=[ProfileConfig(scheduler_name=NAME)]), registry()))
        self._decoder = Decoder()
        self._now = 0.0
        for i in range(nodes):
            amounts = {"cpu": "4", "memory": "32Gi", "pods": "110"}
            labels = {HOST: f"n{i}", ZONE: f"z{i % 10}"}
            document = {"metadata": {"name": f"n{i}", "uid": f"n{i}", "labels": labels}}
            self.handle(Put(self._decoder.node(msgspec.json.encode({**document, "status": {"allocatable": amounts}}))))
        for i in range(A_NODE * nodes):
            full: Object = {"app": "full", "affinity": apart("full")} if i < nodes else {}
            self.put(a_pod(f"placed-{i}", node=f"n{i % nodes}", **full))
        while self.engine.queue.has_pending_work:
            self.handle(Tick())
        gc.collect()
        gc.freeze()
        gc.set_threshold(50_000, 20, 20)

    def handle(self, stimulus: Stimulus) -> list[Instruction]:
        """Apply it, a tenth of a millisecond later."""
        self._now += 0.0001
        return self.engine.handle(stimulus, self._now)

    def put(self, document: Object) -> None:
        """A pod came or changed."""
        self.handle(Put(self._decoder.pod(msgspec.json.encode(document))))

    def tried(self, document: Object) -> float:
        """CPU milliseconds until a new pod has been tried."""
        self.put(document)
        began = time.thread_time()
        while self.engine.has_work:
            self.handle(Cycle())
        return 1000 * (time.thread_time() - began)


def crowd(nodes: int, count: int) -> tuple[float, float]:
    """CPU seconds: from the first of a crowd until one that came behind it is assumed, and per pod of it in ms."""
    place = Place(nodes)
    made, _ = SORTS["anti-affinity, one on each node"]
    began = time.thread_time()
    for i in range(count):
        place.put(made(f"crowd-{i}"))
    place.put(a_pod("fits"))
    while not any(isinstance(one, Bind) and one.pod.name == "fits" for one in place.handle(Cycle())):
        pass
    spent = time.thread_time() - began
    return spent, 1000 * spent / count


def main() -> int:
    """Print a table."""
    options = argparse.ArgumentParser(prog="python -m bench.no_node", description=(__doc__ or "").partition("\n")[0])
    options.add_argument("--nodes", type=int, default=5_000, help="how many nodes there are (default: 5000)")
    options.add_argument("--pods", type=int, default=300, help="pods of each sort (default: 300)")
    options.add_argument("--crowd", type=int, default=CROWD, help="pods of the crowd (default: 30000)")
    chosen = options.parse_args()
    print(
        f"| sort | first ms | equal p50 ≤ {GOALS['equal']} | new p50 ≤ {GOALS['new']} |\n| --- | ---: | ---: | ---: |"
    )
    for name, (equal, new) in SORTS.items():
        place = Place(chosen.nodes)
        first, *others = [place.tried(equal(f"equal-{i}")) for i in range(chosen.pods)]
        alone = sorted(place.tried(new(f"new-{i}", i)) for i in range(chosen.pods))
        p50 = [quantile(sorted(found), 0.5) or 0.0 for found in (others, alone)]
        print(f"| {name} | {first:.2f} | {p50[0]:.3f} | {p50[1]:.3f} |", flush=True)
    seconds, each = crowd(chosen.nodes, chosen.crowd)
    said = f"{seconds:.2f} s (≤ {GOALS['crowd']:g}), {each:.3f} ms each"
    print(f"\n{chosen.crowd:,} that fit nowhere and one that fits: {said}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
