"""`python -m bench.waiting TRACE`: how long large gangs and small pods wait, with room kept for gangs and without.

Pods of a production trace (`openb_nodes.csv`, `openb_pods.csv`) come to nodes with eight GPUs, which they nearly fill.
Now and then a gang comes that needs a good part of all nodes at once. The engine decides in virtual time. Each pod ends
when the trace says so; what it has declared is that time, twice that time, or nothing. Prints a table, and draws a
picture with --svg.
"""

from __future__ import annotations

import argparse
import heapq
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path
from random import Random
from typing import Any, NamedTuple
from xml.sax.saxutils import escape

import msgspec
from msgspec.structs import replace

from podberth.explain.simulate.simulation import Simulation
from podberth.framework.config import decode
from podberth.framework.profiles import build
from podberth.lab.gpus import SHARED_GPU as GPU
from podberth.lab.traces.openb import NODES_FILE, PODS_FILE, read
from podberth.lab.world import Arrival, World
from podberth.model.kinds import Decoder
from podberth.model.wire import encode
from podberth.plugins.registry import registry

EPOCH = 1_767_225_600.0
NAME = "waiting"
_LONGEST = 6 * 3600.0
"""Pods of the trace that run for longer are left out."""
_RESOURCES = [{"name": name, "weight": weight} for name, weight in ((GPU, 8), ("cpu", 1), ("memory", 1))]
_PACKED = {
    "name": "NodeResourcesFit",
    "args": {"scoringStrategy": {"type": "MostAllocated", "resources": _RESOURCES}},
}
"""Full nodes are filled first, so that small pods leave as many whole nodes as they can."""
_COLOURS = ("#b54708", "#1570ef", "#98a2b3", "#039855")


class Coming(NamedTuple):
    """Pods that come together: one, or a gang."""

    at: float
    pods: list[dict[str, Any]]
    runs: float
    gpus: int


class Setting(NamedTuple):
    """What is compared. `declared`: how many times its real duration a pod says it takes; 0: it says nothing."""

    title: str
    reserves: bool
    declared: float


SETTINGS = (
    Setting("no room kept", False, 1.0),
    Setting("room kept, ends known", True, 1.0),
    Setting("room kept, twice the time declared", True, 2.0),
    Setting("room kept, ends unknown", True, 0.0),
)


@dataclass
class Waits:
    """What came of a run: seconds that each waited, and the share of all GPUs that was in use while pods came."""

    gangs: list[float] = field(default_factory=list)
    small: list[float] = field(default_factory=list)
    left: int = 0
    """Gangs that have not started by the end."""
    used: float = 0.0


def stream(world: World, nodes: int, pods: int, load: float, gang: int, every: int, seed: int) -> list[Coming]:
    """Pods of the trace in its order, so often that they ask for `load` of all GPUs; every so many, a gang comes.

    `gang`: how many whole nodes it needs.
    """
    dice = Random(seed)
    short = [one for one in world.arrivals if _gpus(one) and 0 < one.lasts <= _LONGEST][:pods]
    gang_runs = 1800.0
    asked = sum(_gpus(one) * one.lasts for one in short)
    gangs = len(short) // every
    asked += gangs * gang * 8000 * gang_runs
    span = asked / (load * nodes * 8000)
    found: list[Coming] = []
    at = 0.0
    for i, one in enumerate(short):
        at += dice.expovariate(len(short) / span)
        found.append(Coming(at, [msgspec.json.decode(one.pod)], max(round(one.lasts), 1), _gpus(one)))
        if i % every == every // 2:
            name = f"gang-{i // every}"
            members = [_member(name, j) for j in range(gang)]
            found.append(Coming(at, members, gang_runs, gang * 8000))
    return found


def _gpus(arrival: Arrival) -> int:
    container = msgspec.json.decode(arrival.pod)["spec"]["containers"][0]
    return int(container["resources"]["requests"].get(GPU, 0))


def _member(group: str, number: int) -> dict[str, Any]:
    resources = {"requests": {"cpu": "16", "memory": "64Gi", GPU: "8000"}, "limits": {GPU: "8000"}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"{group}-{number}", "namespace": _team(group)},
        "spec": {
            "schedulingGroup": {"podGroupName": group},
            "containers": [{"name": "main", "image": "worker", "resources": resources}],
        },
    }


def _team(group: str) -> str:
    """Gangs are of four namespaces, in turn."""
    return f"team-{int(group.partition('-')[2]) % 4}"


def run(nodes: Sequence[Mapping[str, Any]], coming: Sequence[Coming], setting: Setting) -> Waits:
    """One run in virtual time, until the last pod has come and all that started have ended."""
    simulation = _simulation(setting)
    decoder = Decoder()
    simulation.put_all(decoder.node(encode(each)) for each in nodes)
    runs: dict[str, float] = {}
    came: dict[str, float] = {}
    gpus: dict[str, int] = {}
    ends: list[tuple[float, str]] = []
    found, span = Waits(), coming[-1].at
    capacity = span * 8000 * len(nodes)

    def begin() -> None:
        """Pods that were bound run from now on."""
        for uid in simulation.newly_bound():
            pod, _ = simulation.bound[uid]
            started = datetime.fromtimestamp(EPOCH + simulation.now, UTC).isoformat()
            simulation.put(replace(pod, started=started))
            heapq.heappush(ends, (simulation.now + runs[uid], uid))
            found.used += gpus[uid] * max(min(runs[uid], span - simulation.now), 0) / capacity
            (found.gangs if pod.scheduling_group is not None else found.small).append(simulation.now - came[uid])

    def pass_time(until: float) -> None:
        while ends and ends[0][0] <= until:
            simulation.wait_until(ends[0][0])
            begin()
            if ends[0][0] > simulation.now:
                continue
            pod, _ = simulation.bound[heapq.heappop(ends)[1]]
            simulation.gone("Pod", pod.namespace, pod.name, pod.uid)
            simulation.work()
            begin()
        simulation.wait_until(until)
        begin()

    for each in coming:
        pass_time(each.at)
        group = each.pods[0]["spec"].get("schedulingGroup")
        if group is not None:
            simulation.put(decoder.of_kind("PodGroup")(encode(_group(group["podGroupName"], len(each.pods)))))
        for document in each.pods:
            pod = decoder.pod(encode(_declared(document, each.runs, setting)))
            runs[pod.uid], came[pod.uid], gpus[pod.uid] = each.runs, simulation.now, each.gpus // len(each.pods)
            simulation.put(pod)
        simulation.work()
        begin()
    while ends:
        pass_time(ends[0][0])
    members = len(next(each.pods for each in coming if len(each.pods) > 1))
    found.left = sum(len(each.pods) > 1 for each in coming) - len(found.gangs) // members
    return found


def _simulation(setting: Setting) -> Simulation:
    reservation = {"afterSeconds": 300, "forSeconds": 6 * 3600, "percentageOfNodes": 100}
    args = {"reservation": reservation} if setting.reserves else {}
    document = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"schedulerName": NAME, "pluginConfig": [{"name": "GangScheduling", "args": args}, _PACKED]}],
    }
    simulation = Simulation(build(decode(document), registry()))
    simulation.engine.epoch = EPOCH
    return simulation


def _group(name: str, members: int) -> dict[str, Any]:
    return {
        "kind": "PodGroup",
        "metadata": {"name": name, "namespace": _team(name), "uid": f"group-{name}"},
        "spec": {"schedulingPolicy": {"gang": {"minCount": members}}},
    }


def _declared(document: Mapping[str, Any], runs: float, setting: Setting) -> dict[str, Any]:
    """A pod as it is created."""
    spec = {**document["spec"], "schedulerName": NAME, "restartPolicy": "Never"}
    if setting.declared:
        spec["activeDeadlineSeconds"] = round(runs * setting.declared)
    return {**document, "metadata": {**document["metadata"], "uid": document["metadata"]["name"]}, "spec": spec}


def table(found: Sequence[tuple[Setting, Waits]]) -> str:
    """One line for each run."""
    lines = [
        "| run | gangs: mean wait | longest | small pods: mean wait | 95 % | longest | GPUs in use |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for setting, waits in found:
        gangs, small = sorted(waits.gangs), sorted(waits.small)
        cells = (_mean(gangs), _at(gangs, 1), _mean(small), _at(small, 0.95), _at(small, 1))
        title = setting.title + (f" ({waits.left} gangs never started)" if waits.left else "")
        lines.append(f"| {title} | {' | '.join(cells)} | {waits.used:.1%} |")
    return "\n".join(lines)


def _mean(waits: Sequence[float]) -> str:
    return f"{sum(waits) / len(waits) / 60:.1f} min" if waits else "-"


def _at(waits: Sequence[float], share: float) -> str:
    return f"{waits[min(int(share * len(waits)), len(waits) - 1)] / 60:.1f} min" if waits else "-"


_WIDE, _HIGH, _LEFT, _TOP, _GAP = 330, 200, 44, 66, 60


def picture(found: Sequence[tuple[Setting, Waits]]) -> str:
    """Two charts: the share of gangs, and of small pods, that waited no longer than so many minutes."""
    width = _LEFT + 2 * _WIDE + _GAP + 20
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {_TOP + _HIGH + 48}" '
        'font-family="sans-serif" font-size="12" fill="#344054">',
        f'<rect width="{width}" height="{_TOP + _HIGH + 48}" fill="#ffffff"/>',
    ]
    for i, (setting, _) in enumerate(found):
        begins = _LEFT + (0, 130, 290, 530)[i]
        parts.append(f'<rect x="{begins}" y="14" width="16" height="4" fill="{_COLOURS[i]}"/>')
        parts.append(f'<text x="{begins + 22}" y="20">{escape(setting.title)}</text>')
    for panel, title in enumerate(("gangs", "small pods")):
        left = _LEFT + panel * (_WIDE + _GAP)
        every = [waits.small if panel else waits.gangs for _, waits in found]
        most = max((max(waits, default=1.0) for waits in every), default=1.0) / 60 or 1.0
        parts.append(f'<text x="{left}" y="{_TOP - 14}" font-weight="bold">{title} that waited no longer</text>')
        for share in (0.0, 0.5, 1.0):
            y = _TOP + _HIGH * (1 - share)
            parts.append(f'<line x1="{left}" y1="{y}" x2="{left + _WIDE}" y2="{y}" stroke="#eaecf0"/>')
            parts.append(f'<text x="{left - 6}" y="{y + 4}" text-anchor="end">{share:.0%}</text>')
        for mark in range(5):
            x = left + _WIDE * mark / 4
            parts.append(f'<text x="{x}" y="{_TOP + _HIGH + 18}" text-anchor="middle">{most * mark / 4:.0f}</text>')
        parts.append(f'<text x="{left + _WIDE / 2}" y="{_TOP + _HIGH + 36}" text-anchor="middle">minutes</text>')
        for i, waits in enumerate(every):
            total = len(waits) + (0 if panel else found[i][1].left)
            points: list[tuple[int, int]] = [(left, _TOP + _HIGH)]
            done = 0
            for at, some in groupby(sorted(round(wait / 60 / most * _WIDE) for wait in waits)):
                points.append((left + at, points[-1][1]))
                done += len(list(some))
                points.append((left + at, round(_TOP + _HIGH * (1 - done / max(total, 1)))))
            points.append((left + _WIDE, points[-1][1]))
            path = " ".join(f"{x},{y}" for x, y in points)
            parts.append(f'<polyline points="{path}" fill="none" stroke="{_COLOURS[i]}" stroke-width="2"/>')
    return "\n".join([*parts, "</svg>"]) + "\n"


def main() -> int:
    """Run and report."""
    parser = argparse.ArgumentParser(prog="python -m bench.waiting", description=__doc__)
    parser.add_argument("trace", type=Path, help=f"the folder with {NODES_FILE} and {PODS_FILE}")
    parser.add_argument("--nodes", type=int, default=24)
    parser.add_argument("--pods", type=int, default=1500)
    parser.add_argument("--load", type=float, default=0.9, help="what all pods ask for, as a share of all GPUs")
    parser.add_argument("--gang", type=int, default=12, help="whole nodes that a gang needs")
    parser.add_argument("--every", type=int, default=150, help="pods between two gangs")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--svg", type=Path, help="draw the picture here")
    chosen = parser.parse_args()
    world = read(chosen.trace)
    there = [msgspec.json.decode(raw) for raw in world.objects]
    nodes = [each for each in there if each["status"]["allocatable"].get(GPU) == "8000"][: chosen.nodes]
    coming = stream(world, len(nodes), chosen.pods, chosen.load, chosen.gang, chosen.every, chosen.seed)
    found = []
    for setting in SETTINGS:
        found.append((setting, run(nodes, coming, setting)))
        print(f"{setting.title}: done", file=sys.stderr)
    print(table(found))
    if chosen.svg is not None:
        chosen.svg.write_text(picture(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
