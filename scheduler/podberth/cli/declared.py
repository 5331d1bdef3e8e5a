"""Options of services, declared without typer: it is imported for options that are not plain, and for help.

typer costs a start 25 ms of CPU, and 3 MB for as long as the service runs. `Option` says what typer's would; `typed`
gives typer a function whose options are declared so.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Annotated, Any, TypeVar, get_args, get_origin

Command = TypeVar("Command", bound=Callable[..., Any])


class Option:
    """An option of a command, in an `Annotated`: its names (none: that of the parameter) and what typer says of it."""

    def __init__(self, *names: str, help: str, metavar: str | None = None) -> None:
        self.names = names
        self.help = help
        self.metavar = metavar


def typed(command: Command) -> Command:
    """The command with typer's options in place of ours."""
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
