"""The decision alone: one engine, no sockets, each Cycle timed.

`python -m bench.decisions [--nodes N] [--placed N] [--pods N] [SHAPE …]` prints, for each shape of pod, the time from
`Cycle` to its instructions: choosing a node among all of them and assuming the pod there. `--profile` prints where the
time goes instead.
"""

from __future__ import annotations

import argparse
import cProfile
import pstats
import time
from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np

from scheduler.engine.engine import Engine
from scheduler.engine.instructions import Bind
from scheduler.engine.stimuli import Bound, Cycle, Put
from scheduler.framework.config import default_configuration
from scheduler.framework.profiles import build
from scheduler.model.kinds import Decoder
from scheduler.plugins.registry import registry
from tests.controlplane.api import Object
from tests.integration import objects
from tests.integration.objects import HOSTNAME, ZONE, node, pod

SCHEDULER = "berth"


def _preferring(kind: str) -> Object:
    term = {"labelSelector": {"matchLabels": {"app": "teal"}}, "topologyKey": HOSTNAME}
    preferred = [{"weight": 1, "podAffinityTerm": term}]
    return {kind: {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}


def _spread(when: str) -> list[Object]:
    selector = {"matchLabels": {"app": "teal"}}
    return [{"maxSkew": 5, "topologyKey": ZONE, "whenUnsatisfiable": when, "labelSelector": selector}]


def _labelled(count: int, **spec: Any) -> list[Object]:
    return [pod(f"teal-{i}", SCHEDULER, labels={"app": "teal"}, **spec) for i in range(count)]


def sizes(count: int, scheduler: str) -> list[Object]:
    """Every pod of a size that no other has, and nothing else."""
    return [pod(f"size-{i}", scheduler, cpu=f"{20 + i % 700}m", memory=f"{100 + i}Mi") for i in range(count)]


SHAPES: dict[str, Callable[[int], list[Object]]] = {
    "basic": lambda count: objects.plain(count, SCHEDULER),
    "nodeaffinity": lambda count: objects.node_affinity(count, SCHEDULER),
    "affinity": lambda count: objects.affinity(count, SCHEDULER),
    "antiaffinity": lambda count: objects.anti_affinity(count, SCHEDULER),
    "prefaffinity": lambda count: _labelled(count, affinity=_preferring("podAffinity")),
    "prefantiaffinity": lambda count: _labelled(count, affinity=_preferring("podAntiAffinity")),
    "spread": lambda count: _labelled(count, topologySpreadConstraints=_spread("DoNotSchedule")),
    "prefspread": lambda count: _labelled(count, topologySpreadConstraints=_spread("ScheduleAnyway")),
    "hetero": lambda count: objects.hetero(count, SCHEDULER),
    "sizes": lambda count: sizes(count, SCHEDULER),
}


class Bench:
    """An engine with nodes and placed pods."""

    def __init__(self, nodes: int, placed: int) -> None:
        self.engine = Engine(build(default_configuration(), registry()))
        self._decoder = Decoder()
        self._uid = 0
        for i in range(nodes):
            made = node(f"node-{i}", f"zone-{i % 10}", cpu="64", memory="512Gi", pods="250")
            made["metadata"]["uid"] = f"node-{i}"
            self.engine.handle(Put(self._decoder.node(msgspec.json.encode(made))), 0.0)
        for i, made in enumerate(objects.plain(placed, SCHEDULER)):
            made["spec"]["nodeName"] = f"node-{i % nodes}"
            self._put(made)

    def run(self, pods: list[Object]) -> list[float]:
        """Seconds of each Cycle, in order. The Binding of each pod is answered and its echo comes in 40 pods later."""
        engine = self.engine
        for made in pods:
            self._put(made)
        taken = []
        waiting: list[Bind] = []
        while engine.has_work:
            start = time.perf_counter()
            done = engine.handle(Cycle(), 1.0)
            taken.append(time.perf_counter() - start)
            waiting += [one for one in done if isinstance(one, Bind)]
            while len(waiting) > 40:
                self._confirm(waiting.pop(0))
        for one in waiting:
            self._confirm(one)
        return taken

    def _confirm(self, bind: Bind) -> None:
        self.engine.handle(Bound(bind.pod.uid), 1.0)
        self.engine.handle(Put(msgspec.structs.replace(bind.pod, node_name=bind.node)), 1.0)

    def _put(self, made: Object) -> None:
        self._uid += 1
        made["metadata"] |= {"namespace": "bench", "uid": f"pod-{self._uid}"}
        made["metadata"]["name"] += f"-{self._uid}"
        self.engine.handle(Put(self._decoder.pod(msgspec.json.encode(made))), 0.0)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shapes", nargs="*", metavar="SHAPE", default=[], help=f"of {', '.join(SHAPES)}")
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--placed", type=int, default=2000)
    parser.add_argument("--pods", type=int, default=1000)
    parser.add_argument("--profile", action="store_true")
    asked = parser.parse_args()
    print(
        f"{asked.nodes} nodes, {asked.placed} pods placed before, {asked.pods} pods a shape; milliseconds a decision\n"
    )
    print(f"{'shape':<18}{'p50':>8}{'p99':>8}{'mean':>8}{'most':>8}")
    for name in asked.shapes or SHAPES:
        bench = Bench(asked.nodes, asked.placed)
        pods = SHAPES[name](asked.pods)
        profile = cProfile.Profile()
        if asked.profile:
            profile.enable()
        taken = np.array(bench.run(pods)) * 1000
        profile.disable()
        p50, p99 = np.percentile(taken, [50, 99])
        print(f"{name:<18}{p50:>8.3f}{p99:>8.3f}{taken.mean():>8.3f}{taken.max():>8.3f}", flush=True)
        if asked.profile:
            pstats.Stats(profile).sort_stats("tottime").print_stats(30)


if __name__ == "__main__":
    main()
