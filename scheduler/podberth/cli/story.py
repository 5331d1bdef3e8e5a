"""`berth story`: what has happened to a pod in a scheduler that is running."""

import asyncio
import sys
from collections.abc import Iterator
from typing import Annotated
from urllib.parse import urlencode

import msgspec
import typer

from podberth.cli import options
from podberth.cli.errors import FOUND, InputError, complain
from podberth.cli.live import until_answered
from podberth.cli.options import Context, RequestTimeout, seconds
from podberth.cli.output import Output, as_data
from podberth.cli.subject import place_of, pod_named
from podberth.engine.story import Timeline
from podberth.explain.report.wording import count, duration, printable, visible
from podberth.kube.client import Client
from podberth.kube.connection import Connection
from podberth.kube.errors import ApiError, Unreachable
from podberth.kube.kubeconfig import serving_port

app = typer.Typer(add_completion=False)
SERVER = "https://localhost:10259"
_PATH = "/debug/story"
_WIDTH = 11


@app.command()
def story(
    pod: Annotated[
        str | None,
        typer.Argument(
            help="The pod: its name, or namespace/name.",
            show_default=False,
            autocompletion=options.pods,
        ),
    ] = None,
    namespace: Annotated[str | None, options.of_namespace("The pod's namespace; without it, the context's.")] = None,
    uid: Annotated[str | None, typer.Option(help="The pod's UID, instead of its name.")] = None,
    server: Annotated[
        str, typer.Option(help="The serving port of the scheduler's process. kubectl port-forward makes a way to it.")
    ] = SERVER,
    certificate_authority: Annotated[
        str | None, typer.Option(help="CAs (PEM) that signed its certificate; without it, the system's.")
    ] = None,
    tls_server_name: Annotated[str | None, typer.Option(help="The name in its certificate, if it is another.")] = None,
    insecure_skip_tls_verify: Annotated[
        bool,
        typer.Option(
            "--insecure-skip-tls-verify",
            help="Do not look at its certificate: the token is sent to whoever answers there.",
        ),
    ] = False,
    token_file: Annotated[
        str | None, typer.Option(help="A file with the token to show; without it, the kubeconfig says who asks.")
    ] = None,
    kubeconfig: Annotated[str | None, typer.Option(help="The kubeconfig file.")] = None,
    context: Context = None,
    timeout: RequestTimeout = "15s",
    output: Annotated[Output, typer.Option("-o", "--output", help="The form of the answer.")] = Output.TABLE,
    points: Annotated[
        bool, typer.Option("--points", help="Show how long each extension point took in each attempt.")
    ] = False,
) -> int:
    """Show what has happened to a pod in the scheduler that is running: a line for each thing, with its time.

    Exit code: 0 when there is a story, 1 when the scheduler knows nothing of the pod, 2 when the input is wrong or the
    scheduler can't be asked.
    """
    if (pod is None) == (uid is None):
        raise InputError("name a pod, or give its --uid (see berth story --help)")
    asked = None if pod is None else pod_named(pod)
    inside = namespace if asked is None else place_of(asked, namespace)
    connection = serving_port(
        server,
        kubeconfig=kubeconfig,
        context=context,
        token_file=token_file,
        ca_file=certificate_authority,
        server_name=tls_server_name,
        verify=not insecure_skip_tls_verify,
    )
    query = {"uid": uid or ""}
    if asked is not None:
        query = {"pod": f"{inside or connection.namespace or 'default'}/{asked.name}"}
    try:
        raw = asyncio.run(_asked(connection, urlencode(query), seconds(timeout)))
        told = msgspec.json.decode(raw, type=Timeline)
    except ApiError as error:
        if error.status != 404 or error.message == "not found":
            raise InputError(f"{server}: {error.message or error}") from None
        complain([error.message])
        return FOUND
    except Unreachable as error:
        raise InputError(f"{server}: {error}{_hint(str(error))}") from None
    except msgspec.DecodeError as error:
        raise InputError(f"{server}: the answer is no story ({error}); is this the port of berth run?") from None
    if output is not Output.TABLE:
        as_data(msgspec.json.decode(raw), output)
    else:
        sys.stdout.writelines(f"{visible(line)}\n" for line in _lines(told, points=points))
    return 0


async def _asked(connection: Connection, query: str, limit: float) -> bytes:
    async with Client(connection, timeout=limit) as client:
        silence = until_answered(connection.host, limit)
        try:
            return await client.get(_PATH, query=query, tries=1)
        finally:
            silence.cancel()


def _hint(said: str) -> str:
    """Return what to do about it, where that is known."""
    if "certificate verify failed" in said.lower():
        return (
            "; give --certificate-authority FILE, or --insecure-skip-tls-verify where you trust the way there, "
            "as with kubectl port-forward"
        )
    return "; kubectl port-forward makes a way to the scheduler's port 10259"


def _lines(timeline: Timeline, *, points: bool = False) -> Iterator[str]:
    """Yield the story as lines of text. `points`: with a line for each extension point of each attempt."""
    pod = timeline.pod
    yield printable(f"{pod.namespace}/{pod.name}: {timeline.state}")
    yield printable(f"UID {pod.uid}, scheduled by {pod.scheduler_name}")
    if timeline.entries:
        yield f"Seen first at {_clock(timeline.entries[0].time)}. It is now {_clock(timeline.told_at)}."
    if not timeline.leads:
        leader = timeline.leader or "nobody"
        yield printable(f"This replica stands by and decides nothing: {leader} leads, and has the rest of the story.")
    if timeline.leads_since:
        since = _clock(timeline.leads_since)
        yield f"This replica leads since {since}. Another leader saw the first part, and what it did is not told here."
    if timeline.others:
        yield printable(f"Other pods had the same name: {', '.join(timeline.others)} (ask by --uid).")
    yield ""
    for i, entry in enumerate(timeline.entries):
        if timeline.left_out and i == timeline.left_out_after:
            yield f"{'…':>{_WIDTH}}  {_left_out(timeline.left_out)}"
        yield f"{duration(entry.seconds):>{_WIDTH}}  {printable(entry.text)}"
        if points:
            for point in entry.details.get("points", ()):
                spent = f"{1000 * point['seconds']:.3f} ms"
                yield printable(f"{'':>{_WIDTH}}    {point['point']:<12} {spent:>12}  {point['status']}")
    if timeline.left_out and timeline.left_out_after >= len(timeline.entries):
        yield f"{'…':>{_WIDTH}}  {_left_out(timeline.left_out)}"


def _left_out(number: int) -> str:
    return f"{count(number, 'entry' if number == 1 else 'entrie')} not kept, to make room"


def _clock(time: str) -> str:
    return f"{time[:19].replace('T', ' ')} UTC"
