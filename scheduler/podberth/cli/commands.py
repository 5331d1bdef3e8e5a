"""Which sub-commands there are. Each is a module of this package.

A sub-command's module is imported when it runs, so that `berth --help` waits neither for numpy nor for a cluster.
To add one: a module with a `typer.Typer()` named `app`, and its line in `COMMANDS`. Services have no `app`: they run
without typer when their options are plain.
"""

from importlib import import_module
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from podberth.cli.declared import typed
from podberth.cli.help_words import explain_values
from podberth.cli.plain import SERVICES

COMMANDS = {
    "demo": "Watch the real scheduler place pods on a small cluster, with its reasons in numbers; about 30 seconds.",
    "run": "Run the scheduler: bind pods whose schedulerName is one of its profiles.",
    "evictor": "Run the evictor: evict pods whose node is no longer what they asked for, when another can take them.",
    "explain": "Show why a pod goes to a node, or to none: every node with its numbers, and changes that would help.",
    "story": "Show what has happened to a pod in the running scheduler, a line for each event with its time.",
    "config": "Print a configuration with all defaults filled in, and find mistakes in it.",
    "simulate": "Show what would happen if pods were created, or nodes added or drained; or play a production trace.",
    "capacity": "Show how many more pods like one fit, on which nodes, and what limits them.",
    "shadow": "Follow a cluster, and say of each pod that another scheduler binds how Berth would have decided.",
    "dump": "Write the smallest file that explain, simulate and capacity need of a cluster.",
    "bench": "Create the nodes and pods of a workload in a cluster, and time its scheduler.",
    "admission": "Run the webhook server that enforces MetadataPolicies.",
    "operator": "Run the operator: it writes into the status of MetadataPolicies what they do, and what is wrong.",
    "policy": "Try MetadataPolicies on objects, and find mistakes in them.",
    "completion": "Print what makes bash, zsh or fish complete berth's command lines.",
    "version": "Print the version.",
}


def imported(name: str) -> typer.Typer:
    """Import a command, and make a service one."""
    module = import_module(f"podberth.cli.{name}")
    if name not in SERVICES:
        found: typer.Typer = module.app
        return found
    made = typer.Typer(add_completion=False)
    made.command()(typed(getattr(module, name)))
    return made


class Lazy(TyperGroup):
    """A group whose commands are known by name and summary until one of them runs."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands = {name: TyperCommand(name, help=summary) for name, summary in COMMANDS.items()}

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Import the command that was asked for; until then only its name and summary are known."""
        name, command, rest = super().resolve_command(ctx, args)
        if name is not None and command is not None:
            command = explain_values(typer.main.get_command(imported(name)))
            command.name = name
        return name, command, rest


app = typer.Typer(
    cls=Lazy,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback()
def berth() -> None:
    """A second scheduler for Kubernetes: it decides as kube-scheduler does, and explains each decision in numbers."""
