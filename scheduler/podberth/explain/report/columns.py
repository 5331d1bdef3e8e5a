"""Parts of answers on a terminal: tables, and lines and sections below a headline.

Tables have one line above the rows, numbers to the right, and long words that go on in the next line.
"""

from collections.abc import Iterator

from rich.box import SIMPLE_HEAD
from rich.console import RenderableType
from rich.padding import Padding
from rich.table import Column, Table
from rich.text import Text

from podberth.explain.report.wording import printable

INDENT = 2


def plain_table(*columns: Column | str, header: bool = True) -> Table:
    """A table without a frame; what is just a title is a column of text."""
    found = (text(column) if isinstance(column, str) else column for column in columns)
    return Table(*found, box=SIMPLE_HEAD, show_header=header, header_style="dim", pad_edge=False, show_edge=False)


def text(title: str, *, share: int | None = None) -> Column:
    """A column of text; those that have a share divide what is left of the width."""
    return Column(title, overflow="fold", ratio=share)


def number(title: str) -> Column:
    """A column of numbers."""
    return Column(title, overflow="fold", justify="right")


def more(rest: int, how: str = "--all shows them") -> Iterator[Text]:
    """A line about rows that are left out, where there are any. `how`: what shows them."""
    if rest > 0:
        yield Text(f"  … {rest:,} more ({how})", style="dim")


def indented(said: str, style: str = "") -> RenderableType:
    """Text below a headline."""
    return Padding(Text(printable(said), style=style), (0, 0, 0, INDENT))


def section(heading: str, body: RenderableType) -> Iterator[RenderableType]:
    """A heading in bold after an empty line, and what belongs below it."""
    yield from (Text(""), Text(printable(heading), style="bold"), Padding(body, (0, 0, 0, INDENT)))
