"""Parts of answers on a terminal: tables, lines and sections below a headline, and lines that are to be copied.

What is drawn is a renderable of rich; colours and width are the business of its console.
"""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import IO

from rich.box import SIMPLE_HEAD
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.padding import Padding
from rich.segment import Segment
from rich.table import Column, Table
from rich.text import Text

from podberth.explain.report.wording import printable, visible

INDENT = 2
_ELSEWHERE = 120
"""The number of columns where there is no terminal."""


def console_for(stream: IO[str]) -> Console:
    """Return a console for a stream: colours on a terminal only, and there as wide as it is."""
    width = None if stream.isatty() or "COLUMNS" in os.environ else _ELSEWHERE
    return Console(file=stream, width=width, highlight=False, markup=False, emoji=False)


@dataclass
class Visible:
    """A renderable of rich without characters that a terminal obeys, whoever wrote them into a name."""

    drawn: RenderableType

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Segment]:
        for segment in console.render(self.drawn, options):
            yield segment if segment.control else Segment(visible(segment.text), segment.style)


def plain_table(*columns: Column | str, header: bool = True) -> Table:
    """Return a table without a frame; what is just a title is a column of text."""
    found = (text(column) if isinstance(column, str) else column for column in columns)
    return Table(*found, box=SIMPLE_HEAD, show_header=header, header_style="dim", pad_edge=False, show_edge=False)


def text(title: str, *, share: int | None = None) -> Column:
    """Return a column of text; those that have a share divide what is left of the width."""
    return Column(title, overflow="fold", ratio=share)


def number(title: str) -> Column:
    """Return a column of numbers."""
    return Column(title, overflow="fold", justify="right")


def more(rest: int, how: str = "--all shows them") -> Iterator[Text]:
    """Yield a line about rows that are left out, where there are any. `how`: what shows them."""
    if rest > 0:
        yield Text(f"  … {rest:,} more ({how})", style="dim")


def indented(said: str, style: str = "") -> RenderableType:
    """Return text to stand below a headline."""
    return Padding(Text(printable(said), style=style), (0, 0, 0, INDENT))


def section(heading: str, body: RenderableType) -> Iterator[RenderableType]:
    """Yield a heading in bold after an empty line, and what belongs below it."""
    yield from (Text(""), Text(printable(heading), style="bold"), Padding(body, (0, 0, 0, INDENT)))


@dataclass
class AsItIs:
    """A line that stays whole: the terminal may wrap what is too wide for it, and what is copied is one line still."""

    text: str
    style: str = ""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield Segment(self.text, console.get_style(self.style))
        yield Segment.line()


def to_copy(commands: Sequence[str]) -> Iterator[RenderableType]:
    """Yield shell commands below their heading, each on one line."""
    yield from (Text(""), Text("As commands, to be copied; nothing is run", style="bold"))
    yield from (AsItIs(f"{' ' * INDENT}{printable(command)}", "dim") for command in commands)
