"""The real kube-scheduler on a trace, and Berth beside it: `python -m bench.trace DIRECTORY` (`make bench-trace`).

A saturation, on the real API server: the trace's nodes, then its pods in their order, over and over, until they have
asked for so much of all GPUs. Who was bound where, in the order of the bindings, goes to the file of --output, which
--beside reads instead of a new run. Pods are created a few at a time, so that each is decided in its turn.

Each scheduler's bindings, Berth's own too, are measured in one way: how the cluster is used at the end, and the points
of the default profile's scores that each choice gave away.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
from msgspec.structs import replace

from bench.contenders import CONTENDERS
from bench.page import DOCS, provenance, replace_between
from podberth.explain.rejections import given_away
from podberth.explain.report.wording import percent
from podberth.explain.simulate.outcome import Quality, quality
from podberth.explain.simulate.simulation import Simulation
from podberth.framework.profiles import build
from podberth.framework.runtime import Framework
from podberth.lab.gpus import plugins
from podberth.lab.study import TRACE_PROFILES, profiles_for, study
from podberth.lab.study_report import parts, rows, short
from podberth.lab.traces.openb import read
from podberth.lab.variations import measure
from podberth.lab.world import World
from podberth.model.annotated import NOTHING_READ
from podberth.model.node import Node
from podberth.model.pod import Pod
from tests.controlplane.api import Object
from tests.controlplane.build import binaries
from tests.controlplane.cluster import Cluster, ControlPlane

PODS = "/api/v1/namespaces/default/pods"
AT_ONCE = 100
"""Pods that may wait for a first decision: the queue is never empty, and its order is the trace's."""
PATIENCE = 300.0


class Recorded(msgspec.Struct, frozen=True):
    """A saturation that a scheduler decided: pods and their nodes, in the order of the bindings."""

    scheduler: str
    load: float
    placements: list[tuple[str, str]]


class Measured(msgspec.Struct, frozen=True):
    """How a scheduler used the cluster, and what its choices gave away.

    `impossible`: decisions for a node that is not feasible when they are replayed in the order in which we saw them.
    """

    scheduler: str
    arrived: int
    placed: int
    end: Quality
    given_away: int
    missed: int
    impossible: int


def repeated(world: World, load: float) -> Iterator[tuple[int, str]]:
    """Yield (number of the arrival, suffix of its pod's name) until all have asked for `load` times all GPUs."""
    found, resource = world.decoded(NOTHING_READ), measure(world)
    there = sum(thing.allocatable.get(resource, 0) for thing in found.objects if isinstance(thing, Node))
    asked, turn = 0, 0
    while True:
        for number, pod in enumerate(found.arrivals):
            if asked >= load * there:
                return
            asked += pod.shape.requests.get(resource, 0)
            yield number, f"-{turn}" if turn else ""
        turn += 1


def saturated(world: World, framework: Framework, load: float) -> Recorded:
    """Let one of Berth's profiles decide a saturation."""
    simulation = _simulation(world, framework)
    for number, suffix in repeated(world, load):
        simulation.put(_pod(world, framework, number, suffix))
        simulation.work()
    placements = [(pod.name, node) for pod, node in simulation.bound.values()]
    return Recorded(framework.profile.name, load, placements)


def measured(world: World, framework: Framework, found: Recorded) -> Measured:
    """Look at the decisions of a saturation one by one, in the state that the earlier ones made."""
    simulation = _simulation(world, framework)
    arrived = {
        world.decoded(NOTHING_READ).arrivals[each[0]].name + each[1]: each for each in repeated(world, found.load)
    }
    total = missed = impossible = 0
    for name, node in found.placements:
        pod = _pod(world, framework, *arrived[name])
        decision = framework.decide(pod, simulation.cluster, score_always=True)
        lost = given_away(decision, simulation.cluster.nodes.row_of(node))
        impossible += lost is None
        total += lost or 0
        missed += bool(lost)
        simulation.put(replace(pod, node_name=node))
    end = quality(simulation.cluster, world.decoded(NOTHING_READ).mix)
    return Measured(found.scheduler, len(arrived), len(found.placements), end, total, missed, impossible)


def _simulation(world: World, framework: Framework) -> Simulation:
    simulation = Simulation({framework.profile.name: framework})
    simulation.put_all(world.decoded(NOTHING_READ).objects)
    return simulation


def _pod(world: World, framework: Framework, number: int, suffix: str) -> Pod:
    pod = world.decoded(NOTHING_READ).arrivals[number]
    return replace(pod, name=pod.name + suffix, uid=pod.uid + suffix, scheduler_name=framework.profile.name)


class Verdicts:
    """A watch that notes who is bound where, in order, and who was told that no node fits."""

    def __init__(self, cluster: Cluster) -> None:
        self.placements: list[tuple[str, str]] = []
        self.refused: set[str] = set()
        self._bound: set[str] = set()
        self._cluster = cluster
        self._since = cluster.api.get(PODS, limit=1)["metadata"]["resourceVersion"]
        threading.Thread(target=self._follow, daemon=True).start()

    @property
    def decided(self) -> int:
        """How many have a verdict."""
        return len(self._bound) + len(self.refused - self._bound)

    def wait(self, count: int) -> None:
        """Until that many have one."""
        until = time.monotonic() + PATIENCE
        while self.decided < count:
            if time.monotonic() > until:
                raise TimeoutError(f"{self.decided} of {count} pods were decided in {PATIENCE:g} s")
            time.sleep(0.02)

    def _follow(self) -> None:
        for event in self._cluster.api.watch(PODS, resourceVersion=self._since, idle=2 * PATIENCE):
            pod = event["object"]
            name, node = pod["metadata"]["name"], pod["spec"].get("nodeName")
            if node and name not in self._bound:
                self._bound.add(name)
                self.placements.append((name, node))
            elif any(_refuses(condition) for condition in pod["status"].get("conditions", ())):
                self.refused.add(name)


def _refuses(condition: Object) -> bool:
    return bool(condition["type"] == "PodScheduled" and condition["status"] == "False")


def run(cluster: Cluster, world: World, kind: str, load: float, home: Path) -> Recorded:
    """One scheduler, one saturation."""
    contender = next(each for each in CONTENDERS if each.key == kind)(cluster, home)
    cluster.api.create_many("/api/v1/nodes", [msgspec.json.decode(raw) for raw in world.objects])
    verdicts = Verdicts(cluster)
    contender.start()
    waiting = []
    created = 0
    for number, suffix in repeated(world, load):
        pod = msgspec.json.decode(world.arrivals[number].pod)
        metadata = {"name": pod["metadata"]["name"] + suffix, "namespace": "default"}
        spec = {**pod["spec"], "schedulerName": contender.scheduler_name}
        waiting.append({**pod, "metadata": metadata, "spec": spec})
        if len(waiting) == AT_ONCE // 2:
            verdicts.wait(created - AT_ONCE // 2)
            created += cluster.api.create_many(PODS, waiting, connections=1)
            waiting = []
            if sys.stderr.isatty():
                print(f"\r{created} pods created", end="", file=sys.stderr)
    created += cluster.api.create_many(PODS, waiting, connections=1)
    verdicts.wait(created)
    return Recorded(contender.title, load, verdicts.placements)


def markdown(found: Sequence[Measured], load: float) -> str:
    """The figures as a table."""
    lines = [("pods placed", [f"{each.placed:,} of {each.arrived:,}" for each in found])]
    lines.append(("nodes in use", [f"{each.end.nodes_in_use:,}" for each in found]))
    for name in found[0].end.allocated:
        lines.append((f"{short(name)} allocated", [percent(each.end.allocated[name]) for each in found]))
        lines.append((f"{short(name)} stranded", [percent(each.end.stranded[name]) for each in found]))
        lines.append((f"{short(name)} load, std. deviation", [percent(each.end.load_spread[name]) for each in found]))
    decisions = [max(each.placed - each.impossible, 1) for each in found]
    lost = zip(found, decisions, strict=True)
    lines.append(("regret, points a decision", [f"{each.given_away / of:.2f}" for each, of in lost]))
    missed = zip(found, decisions, strict=True)
    lines.append(("not the best node", [percent(each.missed / of) for each, of in missed]))
    return _table(f"Saturation, to {load:.0%} of all GPUs asked for", [each.scheduler for each in found], lines)


def _table(title: str, columns: Sequence[str], lines: Sequence[tuple[str, Sequence[str]]]) -> str:
    heading = [f"| {title} | {' | '.join(columns)} |", "| --- |" + " ---: |" * len(columns)]
    return "\n".join([*heading, *(f"| {name} | {' | '.join(cells)} |" for name, cells in lines)])


def main() -> int:
    """Run kube-scheduler, play the trace with Berth's profiles, print both."""
    options = argparse.ArgumentParser(prog="python -m bench.trace", description=(__doc__ or "").partition("\n")[0])
    options.add_argument("directory", type=Path)
    options.add_argument("--load", type=float, default=1.3, help="GPUs asked for over GPUs there, at the end")
    options.add_argument("--contender", default="kube", choices=["kube", "kube-all", "berth"])
    options.add_argument("--beside", type=Path, help="a run written by --output, instead of a new one")
    options.add_argument("--output", type=Path, help="write who went where")
    options.add_argument("--shares", type=int, default=0, metavar="SEEDS", help="inflate shares of GPUs only")
    options.add_argument("--record", action="store_true", help="write the figures into docs/evidence/quality.md")
    chosen = options.parse_args()
    world = read(chosen.directory)
    if chosen.shares:
        return _shares(world, chosen.load, chosen.shares, record=chosen.record)
    if chosen.beside is not None:
        found = msgspec.json.decode(chosen.beside.read_bytes(), type=Recorded)
    else:
        binaries()
        with tempfile.TemporaryDirectory(prefix="berth-bench-") as home, ControlPlane() as cluster:
            found = run(cluster, world, chosen.contender, chosen.load, Path(home))
    if chosen.output is not None:
        chosen.output.write_bytes(msgspec.json.encode(found) + b"\n")
    frameworks = build(TRACE_PROFILES, plugins())
    default = next(iter(frameworks.values()))
    figures = [
        measured(world, default, found),
        *(measured(world, each, saturated(world, each, chosen.load)) for each in frameworks.values()),
    ]
    text = markdown(figures, chosen.load)
    print(text)
    if chosen.record:
        said = provenance("make bench-trace RECORD=1")
        replace_between(DOCS / "evidence" / "quality.md", "figures", f"{said}\n\n{text}")
    return 0


def _shares(world: World, load: float, seeds: int, *, record: bool) -> int:
    """Measure what is allocated of single GPUs, and what becomes of pods that come and go."""
    found = study(world, profiles_for(world), load, 0.6, seeds, _say)
    tables = (_table(title, [each.profile for each in played], list(rows(played))) for title, played in parts(found))
    text = "\n\n".join(tables)
    print(text)
    if record:
        said = provenance(f"python -m bench.trace TRACE --shares {seeds} --record")
        replace_between(DOCS / "evidence" / "quality.md", "shares", f"{said}\n\n{text}")
    return 0


def _say(text: str) -> None:
    if sys.stderr.isatty():
        print(f"\r{text:<80}", end="", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
