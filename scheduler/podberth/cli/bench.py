"""`berth bench`: workloads against any cluster."""

import asyncio
import secrets
import sys
import time
from collections.abc import Callable
from typing import Annotated

import msgspec
import typer

from podberth.cli.errors import FOUND, InputError
from podberth.cli.inputs import content, named
from podberth.cli.options import Context, Kubeconfig
from podberth.cli.output import Output, as_data, as_table
from podberth.kube.client import Client
from podberth.kube.connection import Connection
from podberth.kube.kubeconfig import connect
from podberth.kube.resources import NODES
from podberth.testing.workloads.driver import Driver, Figures, figures
from podberth.testing.workloads.objects import LABEL
from podberth.testing.workloads.workload import Mode, Workload, WorkloadError, read
from podberth.testing.workloads.writes import names

app = typer.Typer(add_completion=False)


class Result(msgspec.Struct, rename="camel", frozen=True):
    """One workload."""

    workload: str
    scheduler_name: str
    figures: Figures


@app.command()
def bench(
    files: Annotated[list[str], typer.Argument(help="Workload files; - is standard input.", show_default=False)],
    scheduler_name: Annotated[
        str, typer.Option("-s", "--scheduler-name", help="The scheduler to measure, as pods name it in schedulerName.")
    ],
    scale: Annotated[float, typer.Option(help="Multiply every count of the workloads by this.")] = 1.0,
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

    The scheduler has to run already. Of a workload's modes only `stream` is measured. The exit code is 0 when all
    measured pods were bound, 1 when some were not, 2 when the input is wrong.
    """
    if not 0 < scale <= 100:
        raise InputError(f"--scale: {scale:g}: expected more than 0 and at most 100")
    workloads = [_workload(file).scaled(scale) for file in files]
    connection = connect(kubeconfig, context)
    say: Callable[[str], None] = _say if sys.stderr.isatty() else lambda _: None
    results = asyncio.run(_run(connection, workloads, scheduler_name, yes, keep, say))
    _print(results, output)
    return FOUND if any(each.figures.bound < each.figures.pods for each in results) else 0


def _workload(file: str) -> Workload:
    raw = content(file)
    try:
        return read(raw)
    except WorkloadError as error:
        raise InputError("\n".join(f"{named(file)}: {line}" for line in str(error).splitlines())) from None


async def _run(
    connection: Connection,
    workloads: list[Workload],
    scheduler_name: str,
    among_real_nodes: bool,
    keep: bool,
    say: Callable[[str], None],
) -> list[Result]:
    """Raises InputError on a cluster with nodes of its own, kube's errors."""
    results = []
    async with Client(connection, qps=-1, timeout=120.0) as client:
        if not among_real_nodes:
            real = await names(client, NODES.path(), f"!{LABEL}")
            if real:
                raise InputError(
                    f"{connection.host} has nodes of its own ({real[0]}, {len(real)} in all), where pods of the "
                    "workload would run: expected a cluster without, or --among-real-nodes"
                )
        for workload in workloads:
            driver = Driver(client, workload, f"bench-{secrets.token_hex(3)}")
            try:
                say(f"{workload.name}: setting up")
                await driver.set_up()
                say(f"{workload.name}: measuring")
                timing = await driver.measure(scheduler_name, Mode.STREAM)
                results.append(Result(workload.name, scheduler_name, figures(timing)))
            finally:
                if not keep:
                    say(f"{workload.name}: removing")
                    await driver.tear_down()
    return results


def _say(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


def _print(results: list[Result], output: Output) -> None:
    if output is not Output.TABLE:
        as_data(results, output)
        return
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(box=SIMPLE_HEAD, header_style="dim", pad_edge=False, show_edge=False)
    for i, title in enumerate(("Workload", "Pods", "Bound", "Pods/s", "First s", "Bound after ms p50", "p99")):
        table.add_column(title, justify="left" if i == 0 else "right")
    for each in results:
        found = each.figures
        numbers = (found.rate, found.first_seconds, found.wait_p50, found.wait_p99)
        digits = (0, 2, 0, 0)
        cells = ["" if value is None else f"{value:,.{digit}f}" for value, digit in zip(numbers, digits, strict=True)]
        table.add_row(each.workload, f"{found.pods:,}", f"{found.bound:,}", *cells)
    as_table(table)
