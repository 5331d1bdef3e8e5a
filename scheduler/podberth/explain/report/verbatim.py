"""Lines of a table's output that are to be copied."""

from collections.abc import Iterator
from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, RenderResult
from rich.segment import Segment

from podberth.explain.report.columns import INDENT
from podberth.explain.report.wording import folded, printable


@dataclass
class AsItIs:
    """A line that stays whole: the terminal may wrap what is too wide for it, and what is copied is one line still."""

    text: str
    style: str = ""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield Segment(self.text, console.get_style(self.style))
        yield Segment.line()


def to_copy(command: str, width: int) -> Iterator[AsItIs]:
    """A shell command below a heading, on as many lines as the width of the terminal asks for."""
    for line in folded(printable(command), width - INDENT):
        yield AsItIs(f"{' ' * INDENT}{line}", "dim")
