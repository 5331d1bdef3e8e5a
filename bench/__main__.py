"""`python -m bench`: every workload for kube-scheduler, Berth and the bare binder, and one table (`make bench`)."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec

from bench import history, page
from bench.contenders import CONTENDERS, Contender
from bench.goals import goals, lines
from bench.null_server import NullServer
from bench.run import Row, Runner
from bench.table import tables
from podberth.testing.workloads.workload import Workload, WorkloadError, read
from tests.controlplane.build import NULL_SERVER, binaries
from tests.controlplane.cluster import POD_GROUPS, Cluster, ControlPlane
from tests.controlplane.once import BuildError, UnreachableError

WORKLOADS = Path(__file__).with_name("workloads")
FIRST = (
    "basic",
    "nodeaffinity",
    "affinity",
    "antiaffinity",
    "prefaffinity",
    "prefantiaffinity",
    "spread",
    "prefspread",
    "hetero",
)
"""The first table; the other files follow in the order of their names."""
QUICK = (*FIRST, "csi", "daemonset")
"""What a short run measures: the first table, and the two workloads where each pod is another one to the scheduler."""
QUICK_PODS = 0.2
SHORT_PODS, SHORT_MINUTES = 0.5, 12.0
"""At most a quarter of an hour for each run, and worth recording: the last workload may begin after these minutes."""
ALL_NODES = ("basic", "hetero")
"""Workloads for which kube-scheduler is also made to score all nodes."""


def main() -> int:
    """Run, print, and record if asked to."""
    chosen = _options().parse_args()
    if chosen.short and chosen.minutes is None:
        chosen.minutes = SHORT_MINUTES * chosen.runs
    try:
        workloads = planned(chosen)
    except WorkloadError as error:
        print(*(f"bench: {line}" for line in str(error).splitlines()), sep="\n", file=sys.stderr)
        return 2
    try:
        binaries()
        if chosen.ceiling:
            NULL_SERVER.command()
    except (BuildError, UnreachableError) as error:
        print(f"bench: no control plane: {error}", file=sys.stderr)
        return 1
    began, run = time.monotonic(), history.begin()
    rows: list[Row] = []

    def say(text: str) -> None:
        print(f"{time.monotonic() - began:6.0f} s  {text}", file=sys.stderr, flush=True)

    kinds = [kind for kind in CONTENDERS if kind.key in chosen.contenders.split(",")]
    if chosen.quick:
        kinds = [kind for kind in kinds if kind.key != "kube-all"]
    server: Cluster = NullServer() if chosen.ceiling else ControlPlane(apiserver_args=arguments(workloads))
    with tempfile.TemporaryDirectory(prefix="berth-bench-") as directory, server as cluster:
        contenders: list[Contender] = [kind(cluster, Path(directory)) for kind in kinds]
        runner = Runner(cluster, Path(directory), say)
        for done, workload in enumerate(workloads):
            if chosen.minutes is not None and time.monotonic() - began > 60 * chosen.minutes:
                say(f"{chosen.minutes:g} minutes are over, left out: {', '.join(w.name for w in workloads[done:])}")
                break
            rows += runner.run(
                workload,
                [each for each in contenders if each.key != "kube-all" or workload.name in ALL_NODES],
                chosen.runs,
            )
            if chosen.record:  # each time, so that a run that is cut short leaves what it has
                seconds = time.monotonic() - began
                page.write(
                    history.record(
                        run, rows, chosen.scale, of_all(chosen), seconds, ceiling=chosen.ceiling, runs=chosen.runs
                    )
                )
    print(tables(lines(rows), goals(ceiling=chosen.ceiling)))
    return 0


def arguments(workloads: Sequence[Workload]) -> list[str]:
    """What kube-apiserver is told for these workloads: gates, and the API of pod groups if any has some."""
    gates = sorted({gate for workload in workloads for gate in workload.gates})
    if not gates:
        return []
    return [f"--feature-gates={','.join(f'{gate}=true' for gate in gates)}", POD_GROUPS[1]]


def planned(chosen: argparse.Namespace) -> list[Workload]:
    """The workloads that the options ask for, at their size.

    Raises WorkloadError.
    """
    if not chosen.quick:
        names = chosen.workloads or (",".join(QUICK) if chosen.short else "")
        return [workload.scaled(chosen.scale, of_all(chosen)) for workload in load(names)]
    found = load(chosen.workloads or ",".join(QUICK))
    scaled = [workload.scaled(chosen.scale, of_all(chosen)) for workload in found]
    return [msgspec.structs.replace(workload, modes=workload.modes[:1]) for workload in scaled]


def of_all(chosen: argparse.Namespace) -> float:
    """What part of each workload's pods is measured."""
    part = QUICK_PODS if chosen.quick else SHORT_PODS if chosen.short else 1.0
    return float(chosen.pods * part)


def load(names: str) -> list[Workload]:
    """The workloads of these names (comma-separated; files of `bench/workloads`, or paths), or all of them.

    Raises WorkloadError.
    """
    there = {file.stem: file for file in sorted(WORKLOADS.glob("*.yaml"))}
    files = [there[name] for name in FIRST] + [file for name, file in there.items() if name not in FIRST]
    if names:
        for name in names.split(","):
            if name not in there and not Path(name).is_file():
                raise WorkloadError(f"{name}: no such workload: expected a file or one of {', '.join(there)}")
        files = [there.get(name, Path(name)) for name in names.split(",")]
    found = []
    for file in files:
        try:
            found.append(read(file.read_bytes()))
        except WorkloadError as error:
            raise WorkloadError("\n".join(f"{file}: {line}" for line in str(error).splitlines())) from None
    return found


def _options() -> argparse.ArgumentParser:
    options = argparse.ArgumentParser(prog="python -m bench", description=(__doc__ or "").partition("\n")[0])
    options.add_argument("--workloads", default="", help="comma-separated names or files; all without it")
    options.add_argument("--scale", type=float, default=1.0, help="multiplies every count")
    options.add_argument("--pods", type=float, default=1.0, help="multiplies the number of measured pods")
    options.add_argument("--runs", type=int, default=1, help="measures everything so many times, in turns: medians")
    options.add_argument("--contenders", default=",".join(kind.key for kind in CONTENDERS), help="comma-separated")
    options.add_argument(
        "--ceiling", action="store_true", help="on a server that does almost nothing: what schedulers do by themselves"
    )
    options.add_argument(
        "--quick",
        action="store_true",
        help="a fifth of the measured pods, each workload in its first mode, the first table with csi and daemonset, "
        "and no kube-scheduler that scores all nodes",
    )
    options.add_argument(
        "--short",
        action="store_true",
        help=f"half of the measured pods, the first table with csi and daemonset, and no further workload after "
        f"{SHORT_MINUTES:g} minutes for each of its runs",
    )
    options.add_argument("--minutes", type=float, help="begin no further workload after so many minutes")
    options.add_argument(
        "--record", action="store_true", help="write bench/history, docs/evidence/benchmarks.md and its chart"
    )
    return options


if __name__ == "__main__":
    sys.exit(main())
