"""The decision alone: one engine, no sockets, each Cycle of each workload timed, beside its goal.

`python -m bench.decisions [--record] [WORKLOAD …]`: at 5,000 nodes and 50,000 pods, and for the growth at 1,000 and
15,000 nodes, with ten pods a node. Each workload and size runs in a process of its own. `--profile` prints where the
time goes instead, for 5,000 nodes.
"""

from __future__ import annotations

import argparse
import cProfile
import gc
import pstats
import subprocess
import sys

import msgspec

from bench.__main__ import load
from bench.goals import Goal, Goals, goals
from bench.page import DOCS, provenance, replace_between
from bench.rehearsal import Rehearsal
from podberth.testing.workloads.driver import quantile
from podberth.testing.workloads.workload import Workload, WorkloadError

PAGE = DOCS / "evidence" / "scale.md"
SIZES = (1_000, 5_000, 15_000)
MIDDLE = 5_000
"""The size that the goals are for."""
FEWEST = 500
"""Workloads with fewer nodes are left out unless they are named: what they are about does not grow with nodes."""
A_NODE = 10
"""Placed pods for each node."""


class Taken(msgspec.Struct, rename="camel", frozen=True):
    """Milliseconds of the decisions of one workload at one size, CPU time unless it says otherwise."""

    workload: str
    nodes: int
    decisions: int
    shapes: int
    """How many shapes the measured pods had."""
    first: float
    p50: float
    p99: float
    most: float
    wall_p50: float
    wall_p99: float
    gang: int = 1
    """How many pods start together."""
    gang_cpu: float = 0.0
    """What all decisions about such a gang take together, on average."""


def measure(workload: Workload, nodes: int, pods: int) -> Taken:
    """Decide `pods` pods of a workload, or as many as it has, on `nodes` nodes, or as many as it has."""
    sized = workload.scaled(nodes / workload.nodes)
    rehearsal = Rehearsal(sized, A_NODE * sized.nodes)
    # As `berth run` does once it has listed everything.
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)
    taken = rehearsal.run(pods)
    cpu, wall = sorted(one.cpu for one in taken), sorted(one.wall for one in taken)
    return Taken(
        workload.name,
        sized.nodes,
        len(taken),
        rehearsal.shapes,
        taken[0].cpu,
        quantile(cpu, 0.5) or 0.0,
        quantile(cpu, 0.99) or 0.0,
        cpu[-1],
        quantile(wall, 0.5) or 0.0,
        quantile(wall, 0.99) or 0.0,
        rehearsal.gang,
        sum(cpu) * rehearsal.gang / rehearsal.came,
    )


def table(found: list[Taken], held: Goals) -> str:
    """Markdown: a line for each workload, goals beside the figures that they are for."""
    lines = [
        "| workload | shapes | p50 | p99 | first | most | p50 wall clock | p99 wall clock "
        "| p50 at 1,000 nodes | p50 at 15,000 nodes | growth |",
        "| --- | ---: " + "| ---: " * 9 + "|",
    ]
    by_workload: dict[str, dict[int, Taken]] = {}
    for one in found:
        by_workload.setdefault(one.workload, {})[one.nodes] = one
    for name, sizes in by_workload.items():
        middle = sizes.get(MIDDLE)
        if middle is None:
            continue
        goals_here = {**held.common, **held.workloads.get(name, {})}
        p50, p99 = goals_here["decision_p50"], goals_here["decision_p99"]
        cells = [
            name,
            f"{middle.shapes:,}",
            _held(middle.p50, p50),
            _held(middle.p99, p99),
            f"{middle.first:.2f}",
            f"{middle.most:.2f}",
            _held(middle.wall_p50, p50),
            _held(middle.wall_p99, p99),
            *_growth(sizes),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def gangs(found: list[Taken], held: Goals) -> str:
    """Markdown: what a whole gang takes, for the workloads that have some; empty if none has."""
    lines = ["", "| gangs | pods | CPU of one, ms | longest turn |", "| --- | ---: | ---: | ---: |"]
    there = [one for one in found if one.nodes == MIDDLE and one.gang > 1]
    for one in there:
        goal = held.workloads.get(one.workload, {}).get("gang_cpu")
        cpu = f"{one.gang_cpu:.1f}" if goal is None else _held(one.gang_cpu, goal, digits=1)
        lines.append(f"| {one.workload} | {one.gang:,} | {cpu} | {one.most:.2f} |")
    return "\n".join(lines) if there else ""


def _growth(sizes: dict[int, Taken]) -> tuple[str, str, str]:
    low, high = sizes.get(SIZES[0]), sizes.get(SIZES[-1])
    if low is None or high is None:
        return "", "", ""
    growth = high.p50 / low.p50
    return f"{low.p50:.3f}", f"{high.p50:.3f}", _held(growth, Goal(at_most=SIZES[-1] / SIZES[0]), digits=1)


def _held(value: float, goal: Goal, digits: int = 3) -> str:
    return f"{value:.{digits}f} {'✓' if goal.met(value) else '✗'} {goal}"


def profile(workload: Workload, nodes: int, pods: int) -> None:
    """Print where the time goes."""
    sized = workload.scaled(nodes / workload.nodes)
    rehearsal = Rehearsal(sized, A_NODE * sized.nodes)
    watched = cProfile.Profile()
    watched.enable()
    rehearsal.run(pods)
    watched.disable()
    pstats.Stats(watched).sort_stats("tottime").print_stats(40)


def main() -> int:
    """Print the table."""
    options = argparse.ArgumentParser(prog="python -m bench.decisions", description=(__doc__ or "").partition("\n")[0])
    options.add_argument("workloads", nargs="*", metavar="WORKLOAD", help="names or files; all without any")
    options.add_argument("--sizes", default=",".join(map(str, SIZES)), help="numbers of nodes, comma-separated")
    options.add_argument("--pods", type=int, default=1000, help="measured pods of each workload, at most")
    options.add_argument("--record", action="store_true", help="write the table into docs/evidence/scale.md")
    options.add_argument("--profile", action="store_true", help="print where the time goes")
    options.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    chosen = options.parse_args()
    try:
        workloads = load(",".join(chosen.workloads))
    except WorkloadError as error:
        print(*(f"bench: {line}" for line in str(error).splitlines()), sep="\n", file=sys.stderr)
        return 2
    sizes = [int(size) for size in chosen.sizes.split(",")]
    if chosen.profile:
        profile(workloads[0], MIDDLE, chosen.pods)
        return 0
    if chosen.one:
        sys.stdout.buffer.write(msgspec.json.encode(measure(workloads[0], sizes[0], chosen.pods)))
        return 0
    found = []
    names = chosen.workloads or [workload.name for workload in workloads if workload.nodes >= FEWEST]
    for name in names:
        for nodes in sizes:
            command = [sys.executable, "-m", "bench.decisions", name]
            command += ["--one", f"--sizes={nodes}", f"--pods={chosen.pods}"]
            done = subprocess.run(command, stdout=subprocess.PIPE, check=True)
            one = msgspec.json.decode(done.stdout, type=Taken)
            found.append(one)
            print(
                f"{one.workload:<18}{one.nodes:>7,} nodes{one.shapes:>7,} shapes   p50 {one.p50:.3f}   "
                f"p99 {one.p99:.3f}   first {one.first:.2f}   most {one.most:.2f}",
                file=sys.stderr,
                flush=True,
            )
    shown = table(found, goals()) + "\n" + gangs(found, goals())
    print(shown)
    if chosen.record:
        replace_between(PAGE, "decisions", f"{provenance('python -m bench.decisions --record')}\n\n{shown}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
