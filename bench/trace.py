"""The real kube-scheduler on a trace, and Berth beside it: `python -m bench.trace DIRECTORY` (`make bench-trace`).

The saturation of `berth simulate --trace`, on the real API server: the trace's nodes, then its pods in their order,
over and over, until they have asked for so much of all GPUs. Who was bound where, in the order of the bindings, goes to
the file of --output, which `berth simulate --trace DIRECTORY --beside FILE` reads. Pods are created a few at a time, so
that each is decided in its turn.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import threading
import time
from pathlib import Path

import msgspec

from bench.contenders import CONTENDERS
from bench.page import DOCS, provenance, replace_between
from podberth.framework.profiles import build
from podberth.lab.gpus import plugins
from podberth.lab.study import (
    TRACE_PROFILES,
    Recorded,
    Study,
    beside,
    gpu_profiles,
    inflations,
    saturating,
    study,
)
from podberth.lab.study_report import figures, footnote, share_figures, shares_title, study_page
from podberth.lab.traces.openb import read
from podberth.lab.world import World
from tests.controlplane.api import Object
from tests.controlplane.build import binaries
from tests.controlplane.cluster import Cluster, ControlPlane

PODS = "/api/v1/namespaces/default/pods"
AT_ONCE = 100
"""Pods that may wait for a first decision: the queue is never empty, and its order is the trace's."""
PATIENCE = 300.0


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
    for number, suffix, _ in saturating(world, load):
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


def markdown(found: Study) -> str:
    """The figures as a table."""
    titles = [each.profile for each in found.profiles]
    lines = [f"| | {' | '.join(titles)} |", "| --- |" + " ---: |" * len(titles)]
    for title, cells in figures(found):
        shown = title if any(cells) else f"**{title}**"
        lines.append(f"| {shown} | {' | '.join(cells)} |")
    return "\n".join([*lines, "", footnote(found)])


def shares_markdown(found: Study) -> str:
    """The figures of the inflations as a table."""
    titles = [each.profile for each in found.shares]
    lines = [f"| {shares_title(found)} | {' | '.join(titles)} |", "| --- |" + " ---: |" * len(titles)]
    return "\n".join([*lines, *(f"| {title} | {' | '.join(cells)} |" for title, cells in share_figures(found))])


def main() -> int:
    """Run kube-scheduler, play the trace with Berth's profiles, print both."""
    options = argparse.ArgumentParser(prog="python -m bench.trace", description=(__doc__ or "").partition("\n")[0])
    options.add_argument("directory", type=Path)
    options.add_argument("--load", type=float, default=1.3, help="GPUs asked for over GPUs there, at the end")
    options.add_argument("--fill", type=float, default=0.6, help="as of berth simulate")
    options.add_argument("--contender", default="kube", choices=["kube", "kube-all", "berth"])
    options.add_argument("--beside", type=Path, help="a run written by --output, instead of a new one")
    options.add_argument("--output", type=Path, help="write who went where")
    options.add_argument("--page", type=Path, help="write the page with the pictures")
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
    others = beside(world, [found], next(iter(frameworks.values())), _say)
    ours = study(world, frameworks, chosen.load, chosen.fill, _say)
    whole = msgspec.structs.replace(ours, profiles=[*others, *ours.profiles])
    print(markdown(whole))
    if chosen.page is not None:
        chosen.page.write_text(study_page(whole))
    if chosen.record:
        said = provenance("make bench-trace RECORD=1")
        replace_between(DOCS / "evidence" / "quality.md", "figures", f"{said}\n\n{markdown(whole)}")
    return 0


def _shares(world: World, load: float, seeds: int, *, record: bool) -> int:
    """Measure what is allocated of single GPUs."""
    runs = inflations(world, build(gpu_profiles(world), plugins()), load, seeds, _say)
    text = shares_markdown(Study(0, 0, 0, load, 1.0, [], shares=runs))
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
