"""Shows the demo on a terminal: its text scrolls by above, and the picture of the cluster below is drawn again."""

from types import TracebackType
from typing import Self

from rich.console import Console
from rich.live import Live
from rich.text import Text

from podberth.testing.demo.lines import Lines
from podberth.testing.demo.picture import Picture
from podberth.testing.demo.recording import Act, Recording, Step

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
    """Prints each step of the demo, with a live picture where the console can draw one."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._picture = Picture()
        self._lines = Lines(self.say, min(console.width, 110), brief=console.is_terminal)
        self._live: Live | None = None
        if console.is_terminal:
            self._live = Live(console=console, auto_refresh=False, vertical_overflow="crop")

    def __enter__(self) -> Self:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()

    def __call__(self, told: Step | Act, recording: Recording) -> None:
        """Print the next step, and draw the cluster as it is after it."""
        self._lines(told)
        self._picture.nodes, self._picture.pods = recording.nodes, recording.pods
        if isinstance(told, Step):
            self._picture.show(told)
        if self._live is not None and recording.nodes:
            self._live.update(self._picture.draw(self._console.width), refresh=True)

    def summary(self, recording: Recording) -> None:
        """Print the numbers."""
        self._lines.summary(recording)

    def say(self, line: str, style: str = "") -> None:
        """Print one line without wrapping it. `style`: a key of STYLES."""
        self._console.print(Text(line, style=STYLES.get(style, "")), soft_wrap=True)
