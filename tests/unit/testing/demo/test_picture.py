"""The picture on a terminal, in several widths."""

import io

import pytest
from rich.console import Console

from podberth.testing.demo.recording import NodeCard, PodCard, Step
from podberth.testing.demo.terminal import Picture, Terminal
from tests.unit.testing.demo.conftest import Told


def drawn(picture: Picture, width: int) -> list[str]:
    """The picture as text."""
    console = Console(file=io.StringIO(), width=width, force_terminal=False)
    console.print(picture.draw(width))
    written: io.StringIO = console.file  # type: ignore[assignment]
    return written.getvalue().splitlines()


def replay(told: Told, *, until: str) -> Picture:
    """The picture after the last step about a pod."""
    picture = Picture()
    picture.nodes, picture.pods = told.recording.nodes, told.recording.pods
    for step in told.recording.steps:
        picture.show(step)
        if step.pod == until:
            break
    return picture


@pytest.mark.parametrize("width", [40, 80, 100, 160])
def test_fits_the_terminal(told: Told, width: int) -> None:
    """No line is wider than the terminal, and every node is there."""
    lines = drawn(replay(told, until="web-1"), width)
    assert max(map(len, lines)) <= width
    assert all(any(f" {node} " in line for line in lines) for node in told.recording.nodes)


def test_shows_points_of_the_latest_decision(told: Told) -> None:
    """The winner is marked, with its total."""
    step = told.step("web-1", "bound")
    assert step.verdict is not None
    lines = drawn(replay(told, until="web-1"), 100)
    assert any(line.startswith(f" ✓ {step.node} ") and line.endswith(f" {step.verdict.winner.total}") for line in lines)


def test_shows_who_waits(told: Told) -> None:
    """A pending pod is below the cluster."""
    assert any("waiting:  report-0" in line for line in drawn(replay(told, until="report-0"), 100))


def test_an_opened_node_loses_its_mark(told: Told) -> None:
    """c3 is cordoned until the story opens it."""
    before = [line for line in drawn(replay(told, until="db-0"), 100) if "c3" in line]
    after = [line for line in drawn(replay(told, until="nobody"), 100) if "c3" in line]
    assert "⊘" in before[0]
    assert "⊘" not in after[0]


def test_a_big_cluster_is_cut() -> None:
    """A thousand nodes do not fill a thousand lines."""
    picture = Picture()
    picture.nodes = {f"n{i}": NodeCard(f"n{i}", "", 4000, 0, 0, [], False, {}) for i in range(1000)}
    lines = drawn(picture, 80)
    assert len(lines) < 60
    assert "… and 976 more nodes" in lines[-1]


def test_an_overfull_node_keeps_its_bar_in_bounds() -> None:
    """Pods of others may ask for more than a node has."""
    picture = Picture()
    picture.nodes = {"n": NodeCard("n", "a", 1000, 0, 0, [], False, {})}
    picture.pods = {f"p{i}": PodCard(f"p{i}", "others", 900, 0, 0, False) for i in range(3)}
    picture.show(Step(0, "scene", "", puts=dict.fromkeys(picture.pods, "n")))
    assert max(map(len, drawn(picture, 40))) <= 40


def test_the_terminal_prints_the_story_above_its_picture(told: Told) -> None:
    """Every step has its line, and control characters end with the picture."""
    console = Console(file=io.StringIO(), width=100, height=40, force_terminal=True, color_system=None)
    with Terminal(console) as terminal:
        for each in told.heard:
            terminal(each, told.recording)
    terminal.summary(told.recording)
    written: io.StringIO = console.file  # type: ignore[assignment]
    text = written.getvalue()
    assert all(step.title in text for step in told.recording.steps if len(step.title) < 80)
    assert text.rstrip().endswith(")")
    assert "\x1b[?25h" in text
