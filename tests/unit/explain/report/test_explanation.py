"""Tables as a person sees them: golden outputs of the story cluster, widths, long names, many nodes, colours."""

import io
import os
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from podberth.cli.output import PageOutput, as_report
from podberth.explain.explanation import Explanation
from podberth.explain.report.explanation import report
from podberth.explain.report.terminal import Drawn, console_for
from tests.builders import namespace, node, pod
from tests.unit.explain.story import BIG, DB, WEB, explained

GOLDEN = Path(__file__).parent / "golden"
GATED = pod("later", "250m", namespace="shop", gates=["quota"])


def drawn(answer: Explanation, width: int, *, everything: bool = False, colour: bool = False) -> str:
    """The table at a width, without trailing spaces."""
    console = Console(
        file=io.StringIO(), width=width, force_terminal=colour, color_system="truecolor" if colour else None
    )
    with console.capture() as captured:
        console.print(Drawn(report(answer, everything=everything, width=width)))
    return "".join(f"{line.rstrip()}\n" for line in captured.get().splitlines())


@pytest.mark.parametrize(
    ("name", "incoming", "width", "everything"),
    [
        ("big-100", BIG, 100, False),
        ("big-80", BIG, 80, False),
        ("db-100", DB, 100, False),
        ("web-100", WEB, 100, False),
        ("web-all-160", WEB, 160, True),
        ("gated-100", GATED, 100, False),
    ],
)
def test_golden(name: str, incoming: Any, width: int, everything: bool) -> None:
    """The story's pods look as before; BERTH_GOLDEN=write writes the files anew."""
    got = drawn(explained(incoming), width, everything=everything)
    path = GOLDEN / f"{name}.txt"
    if os.environ.get("BERTH_GOLDEN") == "write":
        path.write_text(got, encoding="utf-8")
    assert got == path.read_text(encoding="utf-8")


@pytest.mark.parametrize("width", [80, 100, 140, 200])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    """Long node names are folded, never cut off or run over."""
    long = [node(f"{'n' * 60}{i}.{'d' * 100}.internal", "1") for i in range(3)]
    text = drawn(explained(pod("p", "8"), long), width)
    assert max(map(len, text.splitlines())) <= width
    assert "".join(text.split()).count("n" * 8) >= len(long)


def test_a_shared_ending_of_long_names_is_told_once() -> None:
    """A shared ending such as `.eu-west-1.compute.internal` is not repeated on every line of a narrow terminal."""
    nodes = [node(f"ip-10-0-0-{i}.eu-west-1.compute.internal", "1") for i in range(3)]
    text = drawn(explained(pod("p", "8"), nodes), 100)
    assert text.count("compute.internal") == 1
    assert "node names end in .eu-west-1.compute.internal" in text
    assert drawn(explained(pod("p", "8"), nodes), 160).count("compute.internal") > 1


def test_many_nodes_are_summed_up() -> None:
    """Twenty of many, the counts by reason, and how to see the rest."""
    nodes = [node(f"n{i:04}", "1") for i in range(1500)]
    answer = explained(pod("p", "8"), nodes)
    text = drawn(answer, 100)
    assert "… 1,480 more (--all shows them)" in text
    assert "The 20 closest to fitting" in text
    assert "  1,500   Insufficient cpu" in text
    assert len(text.splitlines()) < 60
    assert "n1499" in drawn(answer, 100, everything=True)


def test_colours_only_where_asked() -> None:
    """The same words with and without colours; escape codes in the one only."""
    answer = explained(WEB)
    plain, coloured = drawn(answer, 100), drawn(answer, 100, colour=True)
    assert "\x1b[" in coloured
    assert "\x1b[" not in plain


def test_names_cannot_move_the_cursor() -> None:
    """Names of a dump's nodes are shown, not obeyed."""
    text = drawn(explained(pod("p", "8"), [node("a\x1b[2Jb", "1"), node("[red]c", "1")]), 100)
    assert "\x1b" not in text
    assert "a�[2Jb" in text
    assert "[red]c" in text


def test_without_a_terminal_the_width_is_fixed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file or a pipe gets 120 columns, unless COLUMNS says otherwise."""
    monkeypatch.delenv("COLUMNS", raising=False)
    assert console_for(io.StringIO()).width == 120
    monkeypatch.setenv("COLUMNS", "90")
    assert console_for(io.StringIO()).width == 90


@pytest.mark.parametrize("columns", ["0", "1", "2"])
def test_a_terminal_without_columns(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], columns: str
) -> None:
    """What is too narrow for any table is not believed."""
    monkeypatch.setenv("COLUMNS", columns)
    as_report(explained(pod("p", "8"), [node("n1", "1")]), PageOutput.TABLE, fitted=True)
    assert "n1" in capsys.readouterr().out


def test_commands_are_not_broken_by_the_terminals_width(capsys: pytest.CaptureFixture[str]) -> None:
    """Each is on one line, and is copied as one."""
    name = "n" * 200
    there = [namespace("default"), node("n", "9", cordoned=True), node(name, "9", cordoned=True)]
    as_report(explained(pod("p", select={"kubernetes.io/hostname": name}), there), PageOutput.TABLE, fitted=True)
    out = capsys.readouterr().out
    assert f"  kubectl uncordon {name}" in out.splitlines()
