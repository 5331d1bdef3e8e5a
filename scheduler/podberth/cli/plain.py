"""Reads simple options of the services without typer: `--name value` with a text or a whole number.

typer, and pydantic, which it needs to read an int, cost 0.12 s of CPU, and 10 MB for as long as the service runs. When
an option is not simple, typer reads all of them, so all error messages are typer's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, get_type_hints

SERVICES = frozenset(("run", "evictor", "admission", "operator"))
"""Commands that run until they get a signal to end: each is a function of that name in a module of that name."""

_TEXT = (str, str | None)


def read(arguments: Iterable[str], command: Callable[..., Any]) -> dict[str, str | int] | None:
    """Keyword arguments for a command's function; None unless all are `--name value` or `--name=value` of one word or
    one whole number.
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
