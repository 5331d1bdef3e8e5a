"""`berth demo`: a guided tour of a small cluster under the real scheduler."""

import asyncio
import os
import signal
from pathlib import Path
from typing import Annotated

import typer

from scheduler.cli.errors import FOUND, InputError
from scheduler.cli.errors import tell as complain

app = typer.Typer(add_completion=False)
PACE = 0.34
"""Seconds that the eye gets for a step, on a terminal."""


@app.command()
def demo(
    kubeconfig: Annotated[
        str | None, typer.Option(help="Play on this cluster, in a namespace of its own that is deleted again.")
    ] = None,
    context: Annotated[str | None, typer.Option(help="The kubeconfig's context.")] = None,
    out: Annotated[Path, typer.Option(help="Where the page goes.")] = Path("berth-demo.html"),
    page: Annotated[bool, typer.Option("--page/--no-page", help="Write the page, or do without.")] = True,
    fast: Annotated[bool, typer.Option("--fast", help="No pauses for the eye.")] = False,
    seed: Annotated[int, typer.Option(help="Decides ties between equally good nodes.")] = 0,
) -> None:
    """A small cluster told as a story: the real scheduler over real HTTP, with the reasons in numbers.

    Without --kubeconfig it brings its own API server and needs nothing. It takes about 25 seconds.
    """
    if context is not None and kubeconfig is None:
        raise InputError(f"--context {context}: goes with --kubeconfig")
    if page:
        _writable(out)
    from rich.console import Console

    from scheduler.demo.live import Terminal
    from scheduler.demo.mirror import LateError
    from scheduler.demo.recording import Recording, page_data
    from scheduler.demo.run import Options, elsewhere, embedded
    from scheduler.kube.config import connect
    from scheduler.kube.loop import loop_factory
    from scheduler.report.demo_page import demo_page
    from scheduler.telemetry import log

    log.configure("error")
    console = Console(highlight=False, emoji=False)
    options = Options(pace=PACE if console.is_terminal and not fast else 0.0, seed=seed)
    connection = connect(kubeconfig, context) if kubeconfig is not None else None
    terminal = Terminal(console)

    async def tell() -> Recording:
        story = asyncio.current_task()
        assert story is not None
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, story.cancel)
        if connection is None:
            return await embedded(terminal, options)
        return await elsewhere(connection, terminal, options, terminal.say)

    try:
        with terminal, asyncio.Runner(loop_factory=loop_factory()) as runner:
            recording = runner.run(tell())
    except LateError as error:
        complain([str(error)])
        raise typer.Exit(FOUND) from error
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None
    terminal.summary(recording)
    if page:
        out.write_text(demo_page(page_data(recording)), encoding="utf-8")
        terminal.say("")
        terminal.say(f"The whole story as a page, to click through: {out}")


def _writable(out: Path) -> None:
    """Complain now rather than after the story."""
    if out.is_dir():
        raise InputError(f"--out {out}: is a directory")
    if not out.parent.is_dir():
        raise InputError(f"--out {out}: there is no directory {out.parent}")
    if not os.access(out if out.exists() else out.parent, os.W_OK):
        raise InputError(f"--out {out}: may not be written")
