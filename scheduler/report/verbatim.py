"""Lines of a table's output that are to be copied."""

from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, RenderResult
from rich.segment import Segment


@dataclass
class AsItIs:
    """A line that stays whole: the terminal may wrap what is too wide for it, and what is copied is one line still."""

    text: str
    style: str = ""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield Segment(self.text, console.get_style(self.style))
        yield Segment.line()
