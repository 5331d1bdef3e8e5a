"""`berth demo`: a guided tour of a small cluster under the real scheduler."""

import asyncio
import os
import signal
from pathlib import Path
from typing import Annotated

import typer

from podberth.cli.errors import FOUND, InputError, complain
from podberth.cli.inputs import STDIN

app = typer.Typer(add_completion=False)
PACE = 0.34
"""Seconds that the eye gets for a step, on a terminal."""


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="The file to write the page to.")] = Path("berth-demo.html"),
    page: Annotated[bool, typer.Option("--page/--no-page", help="Write an HTML page of the tour.")] = True,
    fast: Annotated[bool, typer.Option("--fast", help="Do not pause between the steps.")] = False,
    seed: Annotated[
        int, typer.Option(help="The number that decides which of several equally good nodes is taken.")
    ] = 0,
) -> None:
    """Watch the real scheduler place pods on a small cluster, with its reasons in numbers. It takes about 30 seconds.

    It starts an API server of its own and needs no cluster.
    """
    if page:
        _writable(out)
    from rich.console import Console

    from podberth.explain.report.pages import demo_page
    from podberth.kube.machine import loop_factory
    from podberth.service import log
    from podberth.testing.demo.play import LateError
    from podberth.testing.demo.recording import Recording, page_data
    from podberth.testing.demo.run import embedded
    from podberth.testing.demo.terminal import Terminal

    log.configure("error")
    console = Console(highlight=False, emoji=False)
    pace = PACE if console.is_terminal and not fast else 0.0
    terminal = Terminal(console)

    async def play() -> Recording:
        story = asyncio.current_task()
        assert story is not None
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, story.cancel)
        return await embedded(terminal, pace=pace, seed=seed)

    try:
        with asyncio.Runner(loop_factory=loop_factory()) as runner:
            recording = runner.run(play())
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
    if str(out) == STDIN:
        raise InputError(f"--out {out}: expected the name of a file: standard output has the story")
    if out.is_dir():
        raise InputError(f"--out {out}: is a directory")
    if not out.parent.is_dir():
        raise InputError(f"--out {out}: there is no directory {out.parent}")
    if not os.access(out if out.exists() else out.parent, os.W_OK):
        raise InputError(f"--out {out}: may not be written")
