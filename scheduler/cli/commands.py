"""Which sub-commands there are. Each is a module of this package.

A sub-command's module is imported when it runs, so that `berth --help` waits neither for numpy nor for a cluster.
To add one: a module with a `typer.Typer()` named `app`, and its line in `COMMANDS`.
"""

from importlib import import_module
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

COMMANDS = {
    "demo": "A small cluster told as a story: the real scheduler over real HTTP, reasons in numbers, 20 seconds.",
    "run": "The scheduler: watch for pods that name one of our profiles, and bind them.",
    "evictor": "Keeps promises after scheduling: evicts pods whose node is no longer what they asked for, with care.",
    "explain": "Why a pod goes where it goes, or nowhere: every node, with numbers, and what would free it.",
    "story": "What has happened to a pod in the scheduler that is running: a line for each thing, with its time.",
    "config": "What a configuration comes to, all defaults filled in, and what is wrong with it.",
    "simulate": "What would happen: pods created, nodes added or drained; or a production trace played to its end.",
    "bench": "Run workloads against a cluster, and time its scheduler.",
    "admission": "The webhook server that enforces MetadataPolicies.",
    "operator": "Keeps the status of MetadataPolicies: what they do, what is wrong with them, whom they would hit.",
    "policy": "Try MetadataPolicies on objects, and find what is wrong with them.",
    "version": "Print the version.",
}
SERVICES = frozenset(("run", "evictor", "admission", "operator"))
"""Those that run until they are told to end: their usual options are read by `plain`."""


class Lazy(TyperGroup):
    """A group whose commands are known by name and summary until one of them runs."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands = {name: TyperCommand(name, help=summary) for name, summary in COMMANDS.items()}

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command itself in place of its stand-in."""
        name, command, rest = super().resolve_command(ctx, args)
        if name is not None and command is not None:
            command = typer.main.get_command(import_module(f"scheduler.cli.{name}").app)
            command.name = name
        return name, command, rest


app = typer.Typer(cls=Lazy, add_completion=False, pretty_exceptions_enable=False)


@app.callback()
def berth() -> None:
    """A second scheduler for Kubernetes: kube-scheduler's decisions, every node scored, explained with numbers."""
