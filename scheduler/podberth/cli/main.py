"""The `berth` command, also run as `kubectl berth`. Next stage: `commands` lists the sub-commands."""

import os
import sys
from pathlib import Path

from podberth import __version__
from podberth.cli import SERVICES


def entry() -> None:
    """The console script."""
    name = Path(sys.argv[0]).name
    sys.exit(run(sys.argv[1:], "kubectl berth" if name.startswith("kubectl") else "berth"))


def complete() -> None:
    """The program that kubectl runs to complete `kubectl berth`."""
    from podberth.cli.options import for_kubectl

    print(for_kubectl(sys.argv[1:]))


def run(arguments: list[str], program: str = "berth") -> int:
    """Run one command line to its exit code."""
    if arguments in (["version"], ["--version"]):
        # Scripts ask this in passing; typer alone takes ten times as long to import as all the rest.
        print(f"berth {__version__}")
        return 0
    # No matrix is multiplied here, and NumPy's threads for that spin 0.1 s of CPU away when they start.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    from podberth.cli.errors import guard

    def invoke() -> int | None:
        if os.environ.get("_BERTH_COMPLETE"):
            from podberth.cli.options import offer

            return offer()
        from importlib import import_module

        if arguments and arguments[0] in SERVICES:
            from podberth.cli import services

            service = getattr(import_module(f"podberth.cli.{arguments[0]}"), arguments[0])
            given = services.read(arguments[1:], service)
            if given is not None:
                ended: int | None = service(**given)
                return ended
        import typer

        from podberth.cli.commands import app, explain_values

        command = explain_values(typer.main.get_command(app))
        with command.make_context(program, arguments or ["--help"]) as context:
            code: int | None = command.invoke(context)
        return code

    return guard(invoke)
