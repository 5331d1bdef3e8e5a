"""An explanation on a terminal, as a renderable of rich. Colours and width are the console's business."""

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import IO

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

from podberth.explain.doubts import undecided
from podberth.explain.explanation import Explanation, RejectedNode
from podberth.explain.report.columns import indented, more, plain_table, section, text, to_copy
from podberth.explain.report.wording import (
    asks,
    besides,
    common_ending,
    count,
    headline,
    leads_to,
    moved,
    possible,
    preempts,
    printable,
    same_for_all,
    some,
    spaced,
    telling,
    visible,
)

MANY = 20
"""The number of nodes that are shown unless all are wanted."""
_FEW = 8
"""Rejected nodes shown when there are nodes that fit."""
_STYLES = {"fits": ("✓", "bold green"), "gated": ("∥", "bold yellow")}
_NO = ("✗", "bold red")
_ELSEWHERE = 120
"""The number of columns where there is no terminal."""
_WIDE = 140
"""The number of columns from which on there is room for long node names."""
_LONG = 28


def console_for(stream: IO[str]) -> Console:
    """Return a console for a stream: colours on a terminal only, and there as wide as it is."""
    width = None if stream.isatty() or "COLUMNS" in os.environ else _ELSEWHERE
    return Console(file=stream, width=width, highlight=False, markup=False, emoji=False)


@dataclass
class Visible:
    """A renderable of rich without characters that a terminal obeys, whoever wrote them into a name."""

    drawn: RenderableType

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Segment]:
        for segment in console.render(self.drawn, options):
            yield segment if segment.control else Segment(visible(segment.text), segment.style)


@dataclass
class ExplanationTable:
    """The whole answer: headline, scores or rejections, what would help, kube-scheduler's words.

    `everything`: all nodes and all scores. Long node names lose an ending that they share where room is short.
    """

    answer: Explanation
    everything: bool = False
    _ending: str = field(default="", init=False)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        names = [node.node for node in self.answer.feasible] + [node.node for node in self.answer.rejected]
        roomy = options.max_width >= _WIDE or max(map(len, names), default=0) <= _LONG
        self._ending = "" if roomy else common_ending(names)
        yield from self._heading()
        if self.answer.feasible:
            yield from self._scores()
        if self.answer.rejected:
            yield from self._rejections()
        if self._ending:
            yield indented(f"node names end in {self._ending}", "dim")
        if self.answer.remedies:
            yield from self._remedies()
            yield from self._commands(options.max_width)
        elif self.answer.rejected and self.answer.outcome == "unschedulable":
            yield from (Text(""), Text("No single small change would free it.", style="bold"))
        if self.answer.message and self.answer.outcome != "gated" and not undecided(self.answer):
            yield from (Text(""), Text("In kube-scheduler's words", style="bold"))
            yield indented(self.answer.message, "dim")

    def _heading(self) -> Iterator[RenderableType]:
        answer = self.answer
        sign, style = _STYLES.get(answer.outcome, _NO)
        yield Text(printable(f"{sign} {headline(answer)}"), style=style)
        yield indented(f"{asks(answer)} · priority {answer.pod.priority} · profile {answer.profile}", "dim")
        if answer.outcome == "unclaimed":
            yield indented(f"{answer.profile} would place it: see below")
        if answer.choice is not None and len(answer.feasible) > 1 and answer.outcome == "fits":
            yield indented(self._short(answer.choice.text))
        for line in (moved(answer), preempts(answer), *answer.notes):
            if line and line != answer.cause:
                yield indented(line, "yellow")
        if answer.promise is not None:
            style = "dim" if answer.promise.state in ("kept", "waiting") else "bold yellow"
            yield indented(f"promise {answer.promise.state}: {answer.promise.text}", style)
        if answer.verdict is not None and answer.verdict.detail != answer.cause:
            said = answer.verdict.detail or answer.verdict.reason
            yield indented(f"{answer.verdict.plugin or 'PreFilter'}: {said}", "red")

    def _scores(self) -> Iterator[RenderableType]:
        answer = self.answer
        differ, same = telling(answer)
        if self.everything:
            differ, same = [scorer.plugin for scorer in answer.scorers], []
        shown = answer.feasible if self.everything else answer.feasible[:MANY]
        weights = {scorer.plugin: scorer.weight for scorer in answer.scorers}
        table = plain_table()
        table.add_column("", justify="right", style="dim", no_wrap=True)
        table.add_column("Node", overflow="fold", min_width=8)
        table.add_column("Points", justify="right", no_wrap=True)
        for plugin in differ:
            table.add_column(f"{spaced(plugin)} ×{weights[plugin]}", justify="right", overflow="fold", min_width=6)
        for node in shown:
            style = "bold green" if node.rank == 1 else ""
            cells = [Text(self._short(node.node), style=style), Text(f"{node.total:,}", style="bold")]
            for plugin in differ:
                score = node.scores[plugin]
                cell = Text(f"{score.weighted:,}")
                if score.raw != score.weighted:
                    cell.append(f" ({score.raw:,})", style="dim")
                cells.append(cell)
            table.add_row(f"{node.rank:,}", *cells)
        yield from section(f"Where it {possible(answer)}: {count(len(answer.feasible), 'node')}", table)
        yield from more(len(answer.feasible) - len(shown))
        for node in shown[:_FEW]:
            for claim, devices in node.devices.items():
                yield indented(self._short(f"on {node.node}, {claim} gets {some(devices, 4)}"))
        if differ:
            yield indented("points after weighting, (raw score) where it differs", "dim")
        if same:
            yield indented(f"the same on every node: {same_for_all(answer, same)}", "dim")

    def _rejections(self) -> Iterator[RenderableType]:
        answer = self.answer
        most = len(answer.rejected) if self.everything else _FEW if answer.outcome == "fits" else MANY
        shown = answer.rejected[:most]
        table = plain_table()
        table.add_column("Node", overflow="fold", min_width=8)
        table.add_column("Rejected by", overflow="fold", min_width=10)
        table.add_column("Why", overflow="fold", ratio=1)
        for node in shown:
            table.add_row(self._short(node.node), Text(printable(node.plugin), style="red"), self._why(node))
        heading = f"Where it can't go: {count(len(answer.rejected), 'node')}"
        if len(shown) == len(answer.rejected):
            yield from section(heading, table)
            return
        summary = plain_table()
        summary.add_column("Nodes", justify="right", no_wrap=True)
        summary.add_column("Reason", overflow="fold")
        summary.add_column("Plugin", style="dim", overflow="fold")
        for each in answer.summary:
            summary.add_row(f"{each.nodes:,}", printable(each.reason), printable(each.plugin))
        yield from section(heading, summary)
        yield from section(f"The {len(shown)} closest to fitting", table)
        yield from more(len(answer.rejected) - len(shown))

    def _why(self, node: RejectedNode) -> Text:
        """Return a line for each finding; those of later plugins, which were not asked by kube-scheduler, are
        dimmed.
        """
        text = Text("\n").join(Text(self._short(finding.detail)) for finding in node.findings)
        for finding in node.also:
            text.append(f"\nand {self._short(f'{finding.plugin}: {finding.detail}')}", style="dim")
        return text

    def _remedies(self) -> Iterator[RenderableType]:
        table = plain_table(text("", share=3), text("", share=2), header=False)
        for remedy in self.answer.remedies:
            what = Text(f"• {self._short(remedy.text)}", style="cyan")
            if remedy.instead:
                what.append(f" (or {self._short(some(remedy.instead, 2))})", style="dim")
            if said := besides(remedy):
                what.append(f"\n  {self._short(said)}", style="yellow")
            table.add_row(what, Text(f"then {self._short(leads_to(remedy))}"))
        yield from section("What would free it (each was tried)", table)

    def _commands(self, width: int) -> Iterator[RenderableType]:
        with_commands = [remedy for remedy in self.answer.remedies if remedy.commands]
        if with_commands:
            yield from (Text(""), Text("As commands, to be copied; nothing is run", style="bold"))
        for remedy in with_commands:
            for command in remedy.commands:
                yield from to_copy(command, width)

    def _short(self, text: str) -> str:
        return printable(text.replace(self._ending, "") if self._ending else text)
