"""Tables on a terminal: one line above the rows, numbers to the right, and long words go on in the next line."""

from rich.box import SIMPLE_HEAD
from rich.table import Column, Table


def plain_table(*columns: Column | str, header: bool = True) -> Table:
    """A table without a frame; what is just a title is a column of text."""
    found = (text(column) if isinstance(column, str) else column for column in columns)
    return Table(*found, box=SIMPLE_HEAD, show_header=header, header_style="dim", pad_edge=False, show_edge=False)


def text(title: str, *, share: int | None = None) -> Column:
    """A column of text; those that have a share divide what is left of the width."""
    return Column(title, overflow="fold", ratio=share)


def number(title: str) -> Column:
    return Column(title, overflow="fold", justify="right")
