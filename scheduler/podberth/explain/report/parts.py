"""What a report is made of, for a terminal and a page alike: a headline, lines below it, tables, offers, words.

Each kind of answer has one function that makes a `Report` of it; `terminal` and `pages` draw any of them. Texts with a
style are rich's; the page has a class for each style that is used.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

from rich.text import Text

from podberth.explain.report.wording import printable

GOOD, HELD, BAD, PLAIN = "good", "held", "bad", "plain"
"""Verdicts: what was asked about works out, is not tried yet, or does not; or nothing was that could."""
IN_JSON = "-o json has them all"

Thing = TypeVar("Thing")
Cell = Text | str


def line(said: str, style: str = "") -> Text:
    """Return a text on one line, without what steers a terminal."""
    return Text(printable(said), style=style)


class Column(NamedTuple):
    """A column of a table. `called`: its title on a page, where the table has a heading that says the rest.

    `share`: of the width that others leave; `least`: characters that it has in any case; `whole`: its cells are not
    folded. `aside`: a phone has no room for it, so that its texts stand above those of the last column there.
    """

    title: str
    number: bool = False
    called: str = ""
    share: int | None = None
    least: int | None = None
    whole: bool = False
    aside: bool = False
    style: str = ""


@dataclass(frozen=True)
class Rows(Generic[Thing]):
    """A table with a row for each thing: `cells` makes it. Without things it is not drawn. `most`: rows on a terminal;
    `how`: what shows all of them.

    `headed`: the heading stands above it on a terminal, too; else its first column says what it is. `beyond`: things
    that are not listed. `below`: lines about it.
    """

    heading: str
    columns: Sequence[Column]
    things: Sequence[Thing]
    cells: Callable[[Thing], Sequence[Cell]]
    most: int | None = None
    how: str = "--all shows them"
    headed: bool = False
    beyond: int = 0
    below: Sequence[Text] = ()


class Offer(NamedTuple):
    """A change that would help. `instead`: others that would, as well; `besides`: what else it does; `then`: its
    effect.
    """

    what: str
    then: str
    instead: str = ""
    besides: str = ""
    commands: Sequence[str] = ()


@dataclass(frozen=True)
class Offers:
    """Changes that would help. `most`: commands of each that a terminal shows."""

    heading: str
    offers: Sequence[Offer]
    most: int | None = None


@dataclass(frozen=True)
class Words:
    """Lines below a heading, either of which may be absent."""

    heading: str = ""
    lines: Sequence[Text] = ()


@dataclass(frozen=True)
class Pictures:
    """Pictures with captions, as SVG, which only a page shows."""

    heading: str
    pictures: Sequence[tuple[str, str]]


Part = Rows[Any] | Offers | Words | Pictures


@dataclass(frozen=True)
class Report:
    """An answer in words. `by`: the command that gave it; `verdict`: GOOD, HELD, BAD or PLAIN; `on_page`: what only a
    page has room for; `signed`: a terminal shows the verdict as a sign before the headline; `foot`: what a page ends
    with.
    """

    by: str
    headline: str
    verdict: str
    lines: Sequence[Text]
    parts: Sequence[Part]
    on_page: Sequence[Part] = ()
    signed: bool = False
    foot: str = "Nothing was written."
