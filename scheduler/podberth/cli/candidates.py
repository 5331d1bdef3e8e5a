"""What may come next on a command line, for the completion of shells and of kubectl.

The protocol is that of kubectl's own completion: a line for each candidate, its description after a tab, and at the end
`:4`, or `:0` where files may follow. `podberth.cli.completion` has the shells' side of it.
"""

from collections.abc import Iterator, Sequence
from enum import Enum
from typing import Any

import typer

FILES, NOTHING = ":0", ":4"
_FILES = frozenset(
    (
        "filename",
        "file",
        "files",
        "cluster",
        "config",
        "kubeconfig",
        "policies",
        "trace",
        "beside",
        "cases",
        "out",
        "old",
        "record",
        "recorded",
    )
)
"""Parameters that name files."""


def lines(words: Sequence[str]) -> list[str]:
    """Return what is printed for the words after the program's name; the last of them is not complete yet."""
    from podberth.cli.commands import COMMANDS, app

    root: Any = typer.main.get_command(app)
    *before, incomplete = words or [""]
    command, rest = _walk(root, before, COMMANDS)
    option = _waiting(command, rest)
    if option is not None:
        found = list(_values(option))
        files = option.name in _FILES and not found
    elif incomplete.startswith("-"):
        found, files = list(_options(command)), False
    elif getattr(command, "commands", None):
        found, files = [(name, _line(each.help)) for name, each in command.commands.items()], False
    else:
        arguments = [each for each in command.params if each.param_type_name == "argument"]
        found, files = [], any(each.name in _FILES for each in arguments)
    kept = [(value, text) for value, text in found if value.startswith(incomplete)]
    return [*(f"{value}\t{text}" if text else value for value, text in kept), FILES if files else NOTHING]


def _walk(root: Any, words: Sequence[str], known: Any) -> tuple[Any, list[str]]:
    """The command that the words lead to, and the words that are its own."""
    from podberth.cli.commands import imported

    command: Any = root
    rest: list[str] = []
    for word in words:
        below = getattr(command, "commands", None) or {}
        if not word.startswith("-") and not rest and word in below:
            command = below[word]
            if command is not None and root.commands.get(word) is command and word in known:
                command = typer.main.get_command(imported(word))
        else:
            rest.append(word)
    return command, rest


def _waiting(command: Any, words: Sequence[str]) -> Any:
    """The option whose value comes next; None where none does."""
    last = [word for word in words[-2:] if word != "="]  # bash takes --output=json for three words
    for each in command.params if last and last[-1].startswith("-") else ():
        if last[-1] in each.opts and not getattr(each, "is_flag", False):
            return each
    return None


def _options(command: Any) -> Iterator[tuple[str, str]]:
    for each in command.params:
        if each.param_type_name == "option" and not each.hidden:
            for name in (*each.opts, *each.secondary_opts):
                if name.startswith("--"):
                    yield name, _line(each.help)
    yield "--help", "Show what a command does, and its options."


def _values(option: Any) -> Iterator[tuple[str, str]]:
    kind = option.type_descriptor.annotation
    if isinstance(kind, type) and issubclass(kind, Enum):
        yield from ((str(each.value), "") for each in kind)


def _line(text: str | None) -> str:
    """The first sentence."""
    first = " ".join((text or "").split("\n\n")[0].split())
    return first.partition(". ")[0].rstrip(".")
