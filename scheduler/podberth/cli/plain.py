"""Options of services, declared and read without typer.

typer, and pydantic, which it needs to read an int, cost a start 0.12 s of CPU, and 10 MB for as long as the service
runs. `Option` says what typer's would; `typed` gives typer a function whose options are declared so. `read` reads what
is simple, `--name value` with a text or a whole number. When an option is not simple, and for help, typer reads all of
them, so all error messages are typer's.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from functools import wraps
from typing import Annotated, Any, TypeVar, get_args, get_origin, get_type_hints

Command = TypeVar("Command", bound=Callable[..., Any])
SERVICES = frozenset(("run", "evictor", "admission", "operator"))
"""Commands that run until they get a signal to end: each is a function of that name in a module of that name."""
_TEXT = (str, str | None)


class Option:
    """An option of a command, in an `Annotated`: its names (none: that of the parameter) and what typer says of it."""

    def __init__(self, *names: str, help: str, metavar: str | None = None) -> None:
        self.names = names
        self.help = help
        self.metavar = metavar


def typed(command: Command) -> Command:
    """Return the command with typer's options in place of ours."""
    import typer

    def replaced(parameter: inspect.Parameter) -> inspect.Parameter:
        if get_origin(parameter.annotation) is not Annotated:
            return parameter
        kind, *said = get_args(parameter.annotation)
        options = [
            typer.Option(*each.names, help=each.help, metavar=each.metavar) if isinstance(each, Option) else each
            for each in said
        ]
        return parameter.replace(annotation=Annotated[(kind, *options)])

    @wraps(command)
    def called(*arguments: Any, **options: Any) -> Any:
        return command(*arguments, **options)

    signature = inspect.signature(command)
    called.__signature__ = signature.replace(parameters=[*map(replaced, signature.parameters.values())])  # type: ignore[attr-defined]
    return called  # type: ignore[return-value]


def read(arguments: Iterable[str], command: Callable[..., Any]) -> dict[str, str | int] | None:
    """Return keyword arguments for a command's function; None unless all are `--name value` or `--name=value` of one
    word or one whole number.
    """
    kinds = get_type_hints(command)
    kinds.pop("return", None)
    found: dict[str, str | int] = {}
    words = iter(arguments)
    for word in words:
        option, assigned, value = word.partition("=")
        name = option.removeprefix("--").replace("-", "_")
        if option != f"--{name.replace('_', '-')}" or name not in kinds:
            return None
        if not assigned:
            value = next(words, "--")
            if value.startswith("--"):
                return None
        if kinds[name] in _TEXT:
            found[name] = value
        elif kinds[name] is int and value.isascii() and value.isdecimal():
            found[name] = int(value)
        else:
            return None
    return found
