"""The story, told once on the embedded server for all tests that look at it."""

import asyncio
import io
from dataclasses import dataclass, field

import pytest
from rich.console import Console

from podberth.testing.demo.recording import Act, Recording, Step
from podberth.testing.demo.run import embedded
from podberth.testing.demo.terminal import Terminal


@dataclass
class Told:
    """A story and all that was said of it."""

    recording: Recording
    lines: list[str] = field(default_factory=list)
    heard: list[Act | Step] = field(default_factory=list)

    def step(self, pod: str, kind: str) -> Step:
        """The last step of a kind about a pod."""
        return [step for step in self.recording.steps if step.pod == pod and step.kind == kind][-1]


@pytest.fixture(scope="session")
def told() -> Told:
    """The whole story over real HTTP, without pauses."""
    found = Told(Recording())
    said = io.StringIO()
    terminal = Terminal(Console(file=said, width=100))

    def hear(told: Act | Step) -> None:
        found.heard.append(told)
        terminal(told)

    found.recording = asyncio.run(embedded(hear))
    terminal.summary(found.recording)
    found.lines = said.getvalue().splitlines()
    return found
