"""Draws reports as pages: self-contained, no network, dark or light as the reader's system is; only the demo's has a
script.

All text is escaped on its way into a template, and a value that is missing is an error.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from io import StringIO
from typing import Any

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape
from rich.console import Console
from rich.text import Text

from podberth.explain.report.parts import Cell, Report, Rows
from podberth.explain.report.wording import visible

_JOINT = re.compile(r"(?<=\w-)(?=\d)|(?<=\w[=:])(?=\w)")


def render(template: str, *, package: str = __package__, **values: Any) -> str:
    """Return a template with these values: a page that needs no other file and no network.

    `package`: whose it is; what it builds on is here.
    """
    environment = Environment(
        loader=ChoiceLoader([PackageLoader(each) for each in dict.fromkeys((package, __package__))]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
    )
    environment.filters["thousands"] = "{:,}".format
    environment.filters["breakable"] = breakable
    environment.policies["json.dumps_kwargs"] = {"ensure_ascii": False}  # the keys keep their order, too
    return visible(environment.get_template(template).render(**values))


def breakable(text: object) -> Markup:
    """Return a text whose names may go on in the next line after any dash, and labels and taints after their signs.

    By itself a browser takes no dash before a digit, and breaks `key=value:NoSchedule` anywhere.
    """
    return Markup(_JOINT.sub("<wbr>", escape(text)))


def demo_page(data: Mapping[str, Any]) -> str:
    """Return the page of a recording: `podberth.testing.demo.recording.page_data` makes the data."""
    return render("demo.html", data=data)


MOST = 500
"""The largest number of rows of one kind on a page."""
_OPEN = 25
"""The number of rows that are visible at once: the others are folded."""
_PLAIN = Console(file=StringIO())
_COLOURS = {"red": "no", "yellow": "also", "green": "best"}
"""Colours of texts on a terminal → what means the same on a page."""


def page(report: Report) -> str:
    """Return a report as a page."""
    return render(
        "report.html",
        report=report,
        parts=[part for part in (*report.parts, *report.on_page) if not isinstance(part, Rows) or part.things],
        cells=_cells,
        in_two=in_two,
        marked=_marked,
        class_of=_class_of,
    )


def in_two(rows: Sequence[Any]) -> tuple[Sequence[Any], Sequence[Any]]:
    """Return the visible rows, and the folded ones."""
    return rows[:_OPEN], rows[_OPEN:MOST]


def _cells(table: Rows[Any], thing: Any) -> Iterator[tuple[str, Markup]]:
    """Yield (class, contents) of each cell of a row. On a phone the last one has the texts of those without room."""
    aside, last = Markup(), len(table.columns) - 1
    for i, (column, cell) in enumerate(zip(table.columns, table.cells(thing), strict=True)):
        kind = "number" if column.number else "words" if i == last else "quiet" if column.style else ""
        shown = _marked(cell)
        yield (f"{kind} wide", shown) if column.aside else (kind, aside + shown if i == last else shown)
        if column.aside and not column.number:
            aside += Markup('<div class="narrow">{}</div>').format(shown)


def _marked(said: Cell) -> Markup:
    """Return a text with a class for each of its styles, and its lines apart."""
    if isinstance(said, str):
        return breakable(said)
    lines = said.split("\n", allow_blank=True)
    for each in lines:
        each.stylize_before(each.style)  # else a text without any other style is drawn without its own
    return Markup("<br>").join(Markup().join(map(_piece, each.render(_PLAIN))) for each in lines)


def _piece(segment: Any) -> Markup:
    style = segment.style
    colour = style.color.name if style and style.color else ""
    kind = "quiet" if style and style.dim else _COLOURS.get(colour, "")
    text = breakable(segment.text)
    return Markup('<span class="{}">{}</span>').format(kind, text) if kind else text


def _class_of(line: Text) -> str:
    """Return the class of a line below the headline."""
    style = str(line.style)
    return "lead" if style == "dim" else "note" if style.endswith("yellow") else "why"
