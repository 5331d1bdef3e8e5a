"""Tells the demo on a terminal, in lines, one after the other. The page has the pictures."""

from textwrap import wrap

from rich.console import Console
from rich.text import Text

from podberth.testing.demo.recording import Act, Recording, Step

MARKS = {"scene": "·", "bound": "✓", "pending": "…", "gated": "…", "rejected": "✗", "change": "▸"}
STYLES = {
    "act": "bold cyan",
    "text": "italic",
    "scene": "bold",
    "bound": "bold green",
    "pending": "bold yellow",
    "gated": "bold yellow",
    "rejected": "bold red",
    "change": "bold magenta",
    "why": "",
    "number": "",
}


class Terminal:
    """Prints each step of the demo in lines, in colours where the console has them."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._width = max(min(console.width, 110), 40)
        self._act = 0

    def __call__(self, told: Step | Act) -> None:
        """Print the next step."""
        if isinstance(told, Act):
            self._act += 1
            self.say("")
            self._wrapped(f"{self._act}. {told.title}", "act", "", "   ")
            self._wrapped(told.text, "text", "   ", "   ")
        else:
            self._wrapped(told.title, told.kind, f"   {MARKS[told.kind]} ", "     ")
            for line in told.lines:
                hang = " " * (len(line) - len(line.lstrip()))
                self._wrapped(line.lstrip(), "why", f"     {hang}", f"     {hang}  ")

    def summary(self, recording: Recording) -> None:
        """Print the numbers at the end."""
        self.say("")
        self.say("In numbers", "act")
        wide = max((len(number) for number, _, _ in recording.summary), default=0)
        for number, what, note in recording.summary:
            text = f"{what} ({note})" if note else what
            self._wrapped(text, "number", f"   {number:>{wide}}  ", " " * (wide + 5))

    def say(self, line: str, style: str = "") -> None:
        """Print one line without wrapping it. `style`: a key of STYLES."""
        self._console.print(Text(line, style=STYLES.get(style, "")), soft_wrap=True)

    def _wrapped(self, text: str, style: str, first: str, rest: str) -> None:
        for line in wrap(text, self._width, initial_indent=first, subsequent_indent=rest, break_on_hyphens=False):
            self.say(line, style)
