"""`berth bench`: workloads against any cluster."""

import asyncio
import secrets
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from podberth.cli.errors import FOUND, InputError
from podberth.cli.inputs import STDIN, content, named
from podberth.cli.options import Context, Kubeconfig
from podberth.cli.output import Output, as_cells, as_data
from podberth.kube.client import Client
from podberth.kube.connection import Connection
from podberth.kube.kubeconfig import connect
from podberth.kube.resources import NODES
from podberth.testing.workloads.allocation import AllocationError
from podberth.testing.workloads.driver import Driver, Figures, figures
from podberth.testing.workloads.objects import LABEL
from podberth.testing.workloads.scheduler_perf import Case, chosen_by, read_cases
from podberth.testing.workloads.workload import Mode, WorkloadError
from podberth.testing.workloads.writes import names

app = typer.Typer(add_completion=False)


class Result(msgspec.Struct, rename="camel", frozen=True):
    """One workload."""

    workload: str
    scheduler_name: str
    figures: Figures
    threshold: float | None = None
    """Pods a second that the file wants at least; None: it wants no rate."""


@app.command()
def bench(
    files: Annotated[list[str], typer.Argument(help="Workload files; - is standard input.", show_default=False)],
    scheduler_name: Annotated[
        str, typer.Option("-s", "--scheduler-name", help="The scheduler to measure, as pods name it in schedulerName.")
    ],
    scale: Annotated[float, typer.Option(help="Multiply every count of Berth's own workloads by this.")] = 1.0,
    case: Annotated[
        list[str] | None,
        typer.Option("--case", help="Of scheduler_perf's files only this TestCase or TestCase/workload; repeatable."),
    ] = None,
    labels: Annotated[
        str,
        typer.Option(
            help="Of scheduler_perf's files the workloads with these labels; -label: without it. Not with --case."
        ),
    ] = "performance",
    yes: Annotated[
        bool,
        typer.Option(
            "--among-real-nodes", help="Run even if the cluster has real nodes. They will get pods of the workload."
        ),
    ] = False,
    keep: Annotated[bool, typer.Option("--keep", help="Do not delete what was created.")] = False,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
    output: Annotated[Output, typer.Option("-o", "--output", help="The form of the answer.")] = Output.TABLE,
) -> int:
    """Create the nodes and pods of workloads in new namespaces, time the bindings, and delete it all again.

    Files are Berth's own (bench/workloads) or scheduler_perf's (performance-config.yaml). The scheduler has to run
    already. Of a workload's modes only `stream` is measured. The exit code is 0 when all measured pods were bound, 1
    when some were not or the rate is below the file's threshold, 2 when the input is wrong.
    """
    if not 0 < scale <= 100:
        raise InputError(f"--scale: {scale:g}: expected more than 0 and at most 100")
    workloads = [one for file in files for one in _read(file, scale, labels, case or [])]
    connection = connect(kubeconfig, context)
    say: Callable[[str], None] = _say if sys.stderr.isatty() else lambda _: None
    results: list[Result] = []
    try:
        asyncio.run(_run(connection, workloads, scheduler_name, yes, keep, say, results))
    finally:
        if results:
            _print(results, output)
    return FOUND if any(map(_is_short, results)) else 0


def _read(file: str, scale: float, labels: str, names: list[str]) -> list[Case]:
    """Return the workloads of a file at their size. Raises InputError."""
    directory = Path() if file == STDIN else Path(file).parent
    try:
        found = read_cases(content(file), directory, chosen_by(labels, names), scale)
    except WorkloadError as error:
        raise InputError("\n".join(f"{named(file)}: {line}" for line in str(error).splitlines())) from None
    if not found:
        wanted = f"--case {', '.join(names)}" if names else f"--labels {labels}"
        raise InputError(f"{named(file)}: {wanted}: expected what at least one of its workloads is")
    return found


def _is_short(result: Result) -> bool:
    """Return whether pods were left, or the rate is below the threshold."""
    done = result.figures
    return done.bound < done.pods or (result.threshold is not None and (done.rate or 0.0) < result.threshold)


async def _run(
    connection: Connection,
    workloads: list[Case],
    scheduler_name: str,
    among_real_nodes: bool,
    keep: bool,
    say: Callable[[str], None],
    results: list[Result],
) -> None:
    """Run them all. `results` gets that of each as soon as it is known: the next one may fail, or be interrupted.

    Raises InputError on a cluster with nodes of its own, or where claims find no devices; kube's errors.
    """
    async with Client(connection, qps=-1, timeout=120.0) as client:
        if not among_real_nodes:
            real = await names(client, NODES.path(), f"!{LABEL}")
            if real:
                raise InputError(
                    f"{connection.host} has nodes of its own ({real[0]}, {len(real)} in all), where pods of the "
                    "workload would run: expected a cluster without, or --among-real-nodes"
                )
        for one in workloads:
            workload = one.workload
            driver = Driver(client, workload, f"bench-{secrets.token_hex(3)}")
            try:
                say(f"{workload.name}: setting up")
                await driver.set_up()
                say(f"{workload.name}: measuring")
                timing = await driver.measure(scheduler_name, Mode.STREAM)
                results.append(Result(workload.name, scheduler_name, figures(timing), one.threshold))
            except AllocationError as error:
                raise InputError(f"{workload.name}: {error}") from None
            finally:
                if not keep:
                    say(f"{workload.name}: removing")
                    await driver.tear_down()


def _say(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


def _print(results: list[Result], output: Output) -> None:
    if output is not Output.TABLE:
        as_data(results, output)
        return
    wants = any(each.threshold is not None for each in results)
    wanted = ["wanted"] if wants else []
    titles = ("Pods", "Bound", "Pods/s", *wanted, "First s", "Bound after ms p50", "p99")
    rows = []
    for each in results:
        found = each.figures
        threshold = [(each.threshold, 0)] if wants else []
        numbers = ((found.rate, 0), *threshold, (found.first_seconds, 2), (found.wait_p50, 0), (found.wait_p99, 0))
        cells = ("" if value is None else f"{value:,.{digits}f}" for value, digits in numbers)
        rows.append((each.workload, f"{found.pods:,}", f"{found.bound:,}", *cells))
    as_cells(["Workload"], titles, rows)
