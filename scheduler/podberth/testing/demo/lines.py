"""The story as plain lines, one after the other: for pipes and logs, and above the picture on a terminal."""

from collections.abc import Callable
from textwrap import wrap

from podberth.testing.demo.recording import Act, Recording, Step

MARKS = {"scene": "·", "bound": "✓", "pending": "…", "gated": "…", "rejected": "✗", "change": "▸"}


class Lines:
    """Tells the story through `say`, a line and its style a call, in lines of at most `width` characters.

    `brief`: of a bound pod only why the winner won, where a picture shows the rest.
    """

    def __init__(self, say: Callable[[str, str], None], width: int, *, brief: bool = False) -> None:
        self._say = say
        self._brief = brief
        self._width = max(width, 40)
        self._act = 0

    def __call__(self, told: Step | Act) -> None:
        if isinstance(told, Act):
            self._act += 1
            self._say("", "")
            self._wrapped(f"{self._act}. {told.title}", "act", "", "   ")
            self._wrapped(told.text, "text", "   ", "   ")
        else:
            self._wrapped(told.title, told.kind, f"   {MARKS[told.kind]} ", "     ")
            for line in told.lines[-1:] if self._brief and told.kind == "bound" else told.lines:
                hang = " " * (len(line) - len(line.lstrip()))
                self._wrapped(line.lstrip(), "why", f"     {hang}", f"     {hang}  ")

    def summary(self, recording: Recording) -> None:
        """The numbers at the end."""
        self._say("", "")
        self._say("In numbers", "act")
        wide = max((len(number) for number, _, _ in recording.summary), default=0)
        for number, what, note in recording.summary:
            text = f"{what} ({note})" if note else what
            self._wrapped(text, "number", f"   {number:>{wide}}  ", " " * (wide + 5))

    def _wrapped(self, text: str, style: str, first: str, rest: str) -> None:
        for line in wrap(text, self._width, initial_indent=first, subsequent_indent=rest, break_on_hyphens=False):
            self._say(line, style)
