"""What help says of the values of options: `FILE`, `NUMBER`. typer would name Python's types.

A word that an option declares by itself stays.
"""

from functools import partial
from typing import Any

_FILES = (
    *("--filename", "--cluster", "--config", "--kubeconfig", "--certificate-authority"),
    *("--cases", "--old", "--policies", "--mask-table", "--out", "--page", "--beside"),
)
_WORDS = {
    **dict.fromkeys(_FILES, "FILE"),
    "--context": "NAME",
    "--scheduler": "NAME",
    "--namespace": "NAME",
    "--drain": "NODE",
    "--trace": "DIRECTORY",
    "--request-timeout": "TIME",
    "--for": "TIME",
    "--selector": "LABELS",
}
_NUMBERS = ("int", "float")
_HYPHEN = "\N{NON-BREAKING HYPHEN}"


def explain_values(command: Any) -> Any:
    """The command or group, changed so that its help names no type of Python and keeps no line break of the source.

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
    """The help of a command, whose lines end between words: a hyphen ends no line, as it may be in an option's name."""
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
