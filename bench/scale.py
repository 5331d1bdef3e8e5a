"""The engine alone, from 1,000 to 50,000 nodes and 10,000 to 500,000 pods: memory and decision time.

`python -m bench.scale [--record] [--sizes 1000x10000,…]`. No API server and no network: placed pods are decoded from
JSON as a watch would bring them, then pods of four kinds are decided, each on all nodes. Each size runs in a process of
its own, so that its memory is its own.
"""

from __future__ import annotations

import argparse
import gc
import subprocess
import sys
import time
from pathlib import Path

import msgspec

from bench.crowd import HOST, ZONE, crowd, rendered
from bench.page import provenance, replace_between
from podberth.engine.engine import Engine
from podberth.engine.instructions import Bind
from podberth.engine.stimuli import Bound, Cycle, Gone, Put
from podberth.framework.config import ProfileConfig, SchedulerConfiguration
from podberth.framework.profiles import build
from podberth.model.kinds import Decoder
from podberth.plugins.registry import registry
from podberth.testing.workloads import objects
from podberth.testing.workloads.driver import quantile

PAGE = Path(__file__).parents[1] / "docs" / "evidence" / "scale.md"
SIZES = (
    (1_000, 10_000),
    (1_000, 100_000),
    (5_000, 50_000),
    (5_000, 500_000),
    (15_000, 150_000),
    (15_000, 500_000),
    (50_000, 500_000),
)
DECISIONS = 400
NAME = "scale"


class Kind(msgspec.Struct, rename="camel", frozen=True):
    """Decisions of one kind of pod, in milliseconds of CPU: the first of its shape, and those after it."""

    first: float
    p50: float
    p99: float


class Size(msgspec.Struct, rename="camel", frozen=True):
    """One size. Memory is the resident set in MB; `load` seconds to decode and apply all nodes and placed pods."""

    nodes: int
    pods: int
    memory: float
    load: float
    kinds: dict[str, Kind]


KINDS = {
    "plain": {},
    "antiaffinity": {
        "affinity": {
            "podAntiAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [
                    {"labelSelector": {"matchLabels": {"app": "new"}}, "topologyKey": HOST}
                ]
            }
        }
    },
    "spread": {
        "topologySpreadConstraints": [
            {
                "maxSkew": 5,
                "topologyKey": ZONE,
                "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": {"matchLabels": {"app": "new"}},
            }
        ]
    },
    "hetero": {
        "affinity": {
            "podAntiAffinity": {
                "preferredDuringSchedulingIgnoredDuringExecution": [
                    {
                        "weight": 100,
                        "podAffinityTerm": {
                            "labelSelector": {"matchLabels": {"app": "app-$(i % 97)"}},
                            "topologyKey": HOST,
                        },
                    }
                ]
            }
        }
    },
}
"""What is decided: `hetero` is another shape every time."""


def measure(nodes: int, pods: int) -> Size:
    """Fill an engine, then decide."""
    frameworks = build(SchedulerConfiguration(profiles=[ProfileConfig(scheduler_name=NAME)]), registry())
    engine, decoder = Engine(frameworks), Decoder()
    began = time.process_time()
    per_node = -(-pods // nodes)
    room = {"cpu": str(max(4, per_node)), "memory": f"{max(32, 4 * per_node)}Gi", "pods": str(per_node + 200)}
    for raw in rendered(objects.node({}, room), nodes, nodes, NAME):
        engine.handle(Put(decoder.node(raw)), 0.0)
    for raw in crowd(pods, nodes, NAME, {}):
        engine.handle(Put(decoder.pod(raw)), 0.0)
    assert len(engine.cluster) == pods
    gc.collect()
    gc.freeze()
    load = time.process_time() - began
    kinds = {kind: _decide(engine, decoder, kind, nodes) for kind in KINDS}
    return Size(nodes, pods, _resident(), load, kinds)


def _decide(engine: Engine, decoder: Decoder, kind: str, nodes: int) -> Kind:
    """Decisions one by one; the pods are removed afterwards, so that kinds do not see each other."""
    over = {"metadata": {"labels": {"app": "app-$(i % 97)" if kind == "hetero" else "new"}}, "spec": KINDS[kind]}
    requests = {"cpu": "$(50 + i)m", "memory": "$(100 + 3 * i)Mi"} if kind == "hetero" else {}
    took, placed = [], []
    for i, raw in enumerate(rendered(objects.pod(f"{kind}-$(i)", NAME, over, requests), DECISIONS, nodes, NAME)):
        pod = decoder.pod(raw)
        pod.uid = f"{kind}-{i}"
        engine.handle(Put(pod), float(i))
        began = time.thread_time()
        instructions = engine.handle(Cycle(), float(i))
        took.append(1000 * (time.thread_time() - began))
        bind = instructions[0]
        assert isinstance(bind, Bind), instructions
        engine.handle(Bound(pod.uid), float(i))
        placed.append(pod)
    for pod in placed:
        engine.handle(Gone("Pod", pod.namespace, pod.name, pod.uid), float(DECISIONS))
    later = sorted(took[1:])
    return Kind(took[0], quantile(later, 0.5) or 0.0, quantile(later, 0.99) or 0.0)


def _resident() -> float:
    status = Path("/proc/self/status").read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS")) / 1024


def table(sizes: list[Size]) -> str:
    """Markdown."""
    kinds = list(KINDS)
    lines = [
        "| nodes | pods | memory MB | load s | " + " | ".join(f"{kind} first / p50 / p99 ms" for kind in kinds) + " |",
        "| ---: | ---: | ---: | ---: |" + " ---: |" * len(kinds),
    ]
    for size in sizes:
        cells = [f"{size.kinds[k].first:.2f} / {size.kinds[k].p50:.2f} / {size.kinds[k].p99:.2f}" for k in kinds]
        lines.append(f"| {size.nodes:,} | {size.pods:,} | {size.memory:.0f} | {size.load:.1f} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> int:
    """Run every size and print the table."""
    options = argparse.ArgumentParser(prog="python -m bench.scale", description=(__doc__ or "").partition("\n")[0])
    options.add_argument("--sizes", default=",".join(f"{nodes}x{pods}" for nodes, pods in SIZES))
    options.add_argument("--record", action="store_true", help="write the figures into docs/evidence/scale.md")
    options.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    chosen = options.parse_args()
    wanted = [tuple(map(int, size.split("x"))) for size in chosen.sizes.split(",")]
    if chosen.one:
        sys.stdout.buffer.write(msgspec.json.encode(measure(*wanted[0])))
        return 0
    sizes = []
    for nodes, pods in wanted:
        command = [sys.executable, "-m", "bench.scale", "--one", f"--sizes={nodes}x{pods}"]
        done = subprocess.run(command, stdout=subprocess.PIPE, check=True)
        sizes.append(msgspec.json.decode(done.stdout, type=Size))
        print(table(sizes[-1:]).splitlines()[-1], file=sys.stderr, flush=True)
    print(table(sizes))
    if chosen.record:
        replace_between(PAGE, "figures", f"{provenance('python -m bench.scale --record')}\n\n{table(sizes)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
