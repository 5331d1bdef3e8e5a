"""Lists the sub-commands. Each is a module of this package.

A sub-command's module is imported when it runs, so that `berth --help` waits neither for numpy nor for a cluster.
To add one: a module with a `typer.Typer()` named `app`, and its line in `COMMANDS`. Services have no `app`: they run
without typer when their options are plain.

Help says `FILE` or `NUMBER` of the values of options, where typer would name Python's types. A word that an option
declares by itself stays.
"""

from functools import partial
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from podberth.cli import SERVICES

_FILES = (
    *("--filename", "--cluster", "--config", "--kubeconfig", "--certificate-authority"),
    *("--cases", "--old", "--policies", "--mask-table", "--out", "--page"),
)
_WORDS = {
    **dict.fromkeys(_FILES, "FILE"),
    "--context": "NAME",
    "--scheduler": "NAME",
    "--namespace": "NAME",
    "--drain": "NODE",
    "--trace": "DIRECTORY",
    "--results": "DIRECTORY",
    "--study": "FILE",
    "--prices": "FILE",
    "--goal": "GOAL",
    "--min": "GOAL=NUMBER",
    "--max": "GOAL=NUMBER",
    "--dask": "ADDRESS",
    "--request-timeout": "TIME",
    "--for": "TIME",
    "--selector": "LABELS",
}
_NUMBERS = ("int", "float")
_HYPHEN = "\N{NON-BREAKING HYPHEN}"


def explain_values(command: Any) -> Any:
    """Return the command or group, changed so that its help names no type of Python and keeps no line break of the
    source.

    Lines are folded between words. typer's own help draws a table, which cuts what is longer than its column.
    """
    command.rich_markup_mode = None
    for parameter in command.params:
        if parameter.param_type_name == "argument":
            parameter.display_type_rich = partial(_given, _word(parameter))
        elif parameter.metavar is None:
            parameter.metavar = _word(parameter)
    if command.help:
        parts = [" ".join(part.split()) for part in command.help.split("\n\n")]
        command.short_help, command.help = parts[0], "\n\n".join(parts)
    made = command.get_help_option

    def help_option(context: Any) -> Any:
        option = made(context)
        if option is not None:
            option.help = "Show this help."
        return option

    command.get_help_option = help_option
    command.get_help = partial(_help, command)
    for each in getattr(command, "commands", {}).values():
        explain_values(each)
    return command


def _given(word: str, ctx: Any) -> str:
    """Return what typer asks an argument for, to show it."""
    return word


def _help(command: Any, context: Any) -> str:
    """Return the help of a command. No line ends at a hyphen, which may be in an option's name."""
    formatter = context.make_formatter()
    write_text, write_list = formatter.write_text, formatter.write_dl

    def whole(text: str) -> str:
        return text.replace("-", _HYPHEN)

    formatter.write_text = lambda text: write_text(whole(text))
    formatter.write_dl = lambda rows: write_list([(whole(name), whole(text)) for name, text in rows])
    command.format_help(context, formatter)
    return str(formatter.getvalue().rstrip("\n").replace(_HYPHEN, "-"))


def _word(parameter: Any) -> str:
    """Return what stands for a value; nothing for a switch, and for an argument, which is called by its name."""
    descriptor = parameter.type_descriptor
    if descriptor.is_choice:
        return "|".join(str(getattr(choice, "value", choice)) for choice in descriptor.choices)
    kind = parameter.display_type(None).strip("<>").removeprefix("list[").removesuffix("]").partition(" ")[0]
    if kind == "bool" or parameter.param_type_name == "argument":
        return ""
    if kind in _NUMBERS:
        return "NUMBER"
    name = max(parameter.opts, key=len)
    return _WORDS.get(name, "FILE" if name.endswith("-file") else "TEXT")


COMMANDS = {
    "demo": "Watch the real scheduler place pods on a small cluster, with its reasons in numbers; about 30 seconds.",
    "run": "Run the scheduler: bind pods whose schedulerName is one of its profiles.",
    "evictor": "Run the evictor: evict pods whose node is no longer what they asked for, when another can take them.",
    "explain": "Show why a pod goes to a node, or to none: every node with its numbers, and changes that would help.",
    "story": "Show what has happened to a pod in the running scheduler, a line for each event with its time.",
    "config": "Print a configuration with all defaults filled in, and find mistakes in it.",
    "simulate": "Show what would happen if pods were created, or nodes added or drained; or play a production trace.",
    "tune": "Search the configuration that is best for goals that you name, and judge it on periods it has not seen.",
    "capacity": "Show how many more pods like one fit, on which nodes, and what limits them.",
    "shadow": "Follow a cluster, and say of each pod that another scheduler binds how Berth would have decided.",
    "replay": "Show what is in a recording of berth run or berth shadow, verify it, or ask about any second of it.",
    "dump": "Write the smallest file that explain, simulate and capacity need of a cluster.",
    "plugin": "Make a package to begin a plugin of your own with.",
    "bench": "Create the nodes and pods of a workload in a cluster, and time its scheduler.",
    "admission": "Run the webhook server that enforces MetadataPolicies.",
    "operator": "Run the operator: it writes into the status of MetadataPolicies what they do, and what is wrong.",
    "policy": "Try MetadataPolicies on objects, and find mistakes in them.",
    "version": "Print the version.",
}


def imported(name: str) -> typer.Typer:
    """Import a command, and make a service one."""
    module = import_module(f"podberth.cli.{name}")
    if name not in SERVICES:
        found: typer.Typer = module.app
        return found
    from podberth.cli.services import typed

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
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback()
def berth() -> None:
    """A second scheduler for Kubernetes: it decides as kube-scheduler does, and explains each decision in numbers."""
