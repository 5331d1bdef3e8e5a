"""The forms of an answer, and what prints them."""

import sys
from enum import StrEnum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import RenderableType


class Output(StrEnum):
    """For people, or for machines."""

    TABLE = "table"
    JSON = "json"
    YAML = "yaml"


class PageOutput(StrEnum):
    """For people, for machines, or as a page to pass on."""

    TABLE = "table"
    JSON = "json"
    YAML = "yaml"
    HTML = "html"


def as_data(answer: Any, output: Output | PageOutput) -> None:
    """Print an answer for machines: as YAML where that is asked for, else as JSON."""
    import msgspec

    if output in (Output.YAML, PageOutput.YAML):
        sys.stdout.write(yaml_of(msgspec.to_builtins(answer)))
        return
    sys.stdout.write(msgspec.json.format(msgspec.json.encode(answer)).decode() + "\n")


def yaml_of(document: Any, width: int = 80) -> str:
    """A document as YAML, in which what is there twice is written twice."""
    import yaml

    class Plain(yaml.SafeDumper):
        def ignore_aliases(self, data: Any) -> bool:
            return True

    return str(yaml.dump(document, Dumper=Plain, sort_keys=False, allow_unicode=True, width=width))


def as_table(table: "RenderableType") -> None:
    """Print what rich draws, as wide as the terminal, and without blanks at the ends of lines."""
    from scheduler.report.tables import console_for

    console = console_for(sys.stdout)
    with console.capture() as captured:
        console.print(table, crop=False)
    sys.stdout.writelines(f"{line.rstrip()}\n" for line in captured.get().splitlines())
