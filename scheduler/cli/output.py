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


class PageOutput(StrEnum):
    """For people, for machines, or as a page to pass on."""

    TABLE = "table"
    JSON = "json"
    HTML = "html"


def as_json(answer: Any) -> None:
    """Print an answer as JSON."""
    import msgspec

    sys.stdout.write(msgspec.json.format(msgspec.json.encode(answer)).decode() + "\n")


def as_table(table: "RenderableType") -> None:
    """Print what rich draws, as wide as the terminal, and without blanks at the ends of lines."""
    from scheduler.report.tables import console_for

    console = console_for(sys.stdout)
    with console.capture() as captured:
        console.print(table)
    sys.stdout.writelines(f"{line.rstrip()}\n" for line in captured.get().splitlines())
