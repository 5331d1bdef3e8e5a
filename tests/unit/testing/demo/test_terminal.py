"""The story on a terminal."""

import io

from rich.console import Console

from podberth.testing.demo.terminal import Terminal
from tests.unit.testing.demo.conftest import Told


def test_the_terminal_prints_the_story(told: Told) -> None:
    """Every step has its line, in colours, and nothing moves the cursor."""
    console = Console(file=io.StringIO(), width=100, height=40, force_terminal=True)
    terminal = Terminal(console)
    for each in told.heard:
        terminal(each)
    terminal.summary(told.recording)
    written: io.StringIO = console.file  # type: ignore[assignment]
    text = written.getvalue()
    assert all(step.title in text for step in told.recording.steps if len(step.title) < 80)
    assert "\x1b[1;32m" in text
    assert "\x1b[?25" not in text
