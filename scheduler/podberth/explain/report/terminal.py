"""Draws reports on a terminal, and has the parts of which other tables are made: columns, lines that are to be copied.

What is drawn is a renderable of rich; colours and width are the business of its console.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO, Any

from rich.box import SIMPLE_HEAD
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.padding import Padding
from rich.segment import Segment
from rich.table import Column, Table
from rich.text import Text

from podberth.explain.report import parts
from podberth.explain.report.parts import BAD, GOOD, HELD, PLAIN, Offer, Offers, Report, Rows, Words
from podberth.explain.report.wording import printable, visible

INDENT = 2
_ELSEWHERE, _LEAST = 120, 20
"""The number of columns where there is no terminal, and where somebody says that there are fewer: rich draws no table
in one or two."""
_VERDICTS = {GOOD: ("✓", "bold green"), HELD: ("∥", "bold yellow"), BAD: ("✗", "bold red"), PLAIN: ("", "bold")}


def console_for(stream: IO[str]) -> Console:
    """Return a console for a stream: colours on a terminal only, and there as wide as it is."""
    width = None if stream.isatty() or "COLUMNS" in os.environ else _ELSEWHERE
    console = Console(file=stream, width=width, highlight=False, markup=False, emoji=False)
    if console.width < _LEAST:
        console.width = _LEAST
    return console


@dataclass
class Visible:
    """A renderable of rich without characters that a terminal obeys, whoever wrote them into a name."""

    drawn: RenderableType

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Segment]:
        for segment in console.render(self.drawn, options):
            yield segment if segment.control else Segment(visible(segment.text), segment.style)


def _table(*columns: Column, header: bool = True) -> Table:
    """Return a table without a frame."""
    return Table(*columns, box=SIMPLE_HEAD, show_header=header, header_style="dim", pad_edge=False, show_edge=False)


# --- reports ----------------------------------------------------------------------------------------------------------


@dataclass
class Drawn:
    """A report as rich draws it."""

    report: Report

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        report = self.report
        sign, style = _VERDICTS[report.verdict]
        yield Text(printable(f"{sign} {report.headline}" if report.signed else report.headline), style=style)
        yield from map(_indented, report.lines)
        for part in report.parts:
            match part:
                case Rows():
                    yield from rows(part)
                case Offers():
                    yield from _offers(part)
                case Words(heading, lines):
                    yield from _heading(heading) if heading else ()
                    yield from map(_indented, lines)


def rows(part: Rows[Any]) -> Iterator[RenderableType]:
    """Yield a table, with what is above and below it; nothing of one without rows."""
    if not part.things:
        return
    table = _table(*map(_column, part.columns))
    for thing in part.things[: part.most]:
        table.add_row(*(Text(printable(cell)) if isinstance(cell, str) else cell for cell in part.cells(thing)))
    if part.headed:
        yield from _section(part.heading, table)
    else:
        yield table
    rest = part.beyond + (0 if part.most is None else max(len(part.things) - part.most, 0))
    if rest > 0:
        yield Text(f"  … {rest:,} more ({part.how})", style="dim")
    yield from map(_indented, part.below)


def _column(one: parts.Column) -> Column:
    return Column(
        printable(one.title),
        justify="right" if one.number else "left",
        overflow="fold",
        ratio=one.share,
        min_width=one.least,
        no_wrap=one.whole,
        style=one.style,
    )


def _offers(part: Offers) -> Iterator[RenderableType]:
    table = _table(Column(overflow="fold", ratio=3), Column(overflow="fold", ratio=2), header=False)
    for offer in part.offers:
        table.add_row(_offer(offer), Text(printable(offer.then)))
    yield from _section(part.heading, table)
    shown = [command for offer in part.offers for command in offer.commands[: part.most]]
    if shown:
        yield from _heading("As commands, to be copied; nothing is run")
        yield from (AsItIs(f"{' ' * INDENT}{printable(command)}", "dim") for command in shown)
    rest = sum(len(offer.commands) for offer in part.offers) - len(shown)
    if rest:
        yield _indented(Text(f"… and {rest:,} like these for other pods (--all shows them)", style="dim"))


def _offer(offer: Offer) -> Text:
    what = Text(printable(f"• {offer.what}"), style="cyan")
    if offer.instead:
        what.append(printable(f" (or {offer.instead})"), style="dim")
    if offer.besides:
        what.append(f"\n  {printable(offer.besides)}", style="yellow")
    return what


def _heading(heading: str) -> Iterator[RenderableType]:
    yield from (Text(""), Text(printable(heading), style="bold"))


def _section(heading: str, body: RenderableType) -> Iterator[RenderableType]:
    yield from (*_heading(heading), Padding(body, (0, 0, 0, INDENT)))


def _indented(said: Text) -> RenderableType:
    return Padding(said, (0, 0, 0, INDENT))


@dataclass
class AsItIs:
    """A line that stays whole: the terminal may wrap what is too wide for it, and what is copied is one line still."""

    text: str
    style: str = ""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield Segment(self.text, console.get_style(self.style))
        yield Segment.line()
