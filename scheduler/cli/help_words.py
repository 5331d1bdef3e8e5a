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


def explain_values(command: Any) -> Any:
    """The command or group, changed so that its help names no type of Python and keeps no line break of the source."""
    for parameter in command.params:
        if parameter.metavar is None:
            parameter.display_type_rich = partial(_given, _word(parameter))
    if command.help:
        command.help = "\n\n".join(" ".join(part.split()) for part in command.help.split("\n\n"))
    made = command.get_help_option

    def help_option(context: Any) -> Any:
        option = made(context)
        if option is not None:
            option.display_type_rich, option.help = partial(_given, ""), "Show this help."
        return option

    command.get_help_option = help_option
    for each in getattr(command, "commands", {}).values():
        explain_values(each)
    return command


def _given(word: str, ctx: Any) -> str:
    """What typer asks a parameter for, to show it."""
    return word


def _word(parameter: Any) -> str:
    """What stands for a value; nothing for a switch, and for an argument, which is called by its name."""
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
