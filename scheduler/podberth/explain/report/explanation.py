"""Says where a pod goes and why, in words for the page and the terminal, and draws it on a terminal."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from rich.console import Console, ConsoleOptions, RenderableType
from rich.text import Text

from podberth.explain.changes import AddNode
from podberth.explain.doubts import undecided
from podberth.explain.explanation import Explanation, FeasibleNode, RejectedNode, Remedy
from podberth.explain.report.terminal import indented, more, plain_table, section, text, to_copy
from podberth.explain.report.wording import asked, count, printable, some, spaced

MANY = 20
"""The number of nodes that are shown unless all are wanted."""
_FEW = 8
"""Rejected nodes shown when there are nodes that fit."""
_STYLES = {"fits": ("✓", "bold green"), "gated": ("∥", "bold yellow")}
_NO = ("✗", "bold red")
_WIDE = 140
"""The number of columns from which on there is room for long node names."""
_LONG = 28


def asks(answer: Explanation) -> str:
    """Return the requests of the pod, in words."""
    return f"asks for {asked(answer.pod.requests)}"


def headline(answer: Explanation) -> str:
    """Return the answer in one line."""
    pod = f"{answer.pod.namespace}/{answer.pod.name}"
    total, feasible = answer.nodes.total, answer.nodes.feasible
    unknown = undecided(answer)
    if unknown:
        return f"{pod} can't be decided: {unknown}"
    match answer.outcome:
        case "fits":
            choice = answer.choice
            if choice is not None and choice.node is not None:
                which = f"the best of {feasible:,} possible nodes" if feasible > 1 else "the only possible node"
                return f"{pod} goes to {choice.node}, {which} ({total:,} in all)"
            best = len(choice.best) if choice is not None else feasible
            return f"{pod} goes to one of {best:,} equally good nodes ({feasible:,} possible, {total:,} in all)"
        case "gated":
            return f"{pod} is not tried: {answer.cause}" if answer.cause else f"{pod} waits for its scheduling gates"
        case "unclaimed":
            return f"{pod} waits for the scheduler {answer.pod.scheduler_name}, and nobody seems to run it"
        case "terminating":
            return f"{pod} is being deleted, so no scheduler places it"
        case "failed":
            return f"{pod} could not be decided: a plugin failed"
    if not total:
        return f"{pod} fits nowhere: there are no nodes"
    where = f"fits on none of {count(total, 'node')}" if total > 1 else "does not fit on the only node"
    return f"{pod} {where}{f': {answer.cause}' if answer.cause else ''}"


def possible(answer: Explanation) -> str:
    """Return the condition under which the nodes of the answer are possible."""
    if answer.outcome == "gated":
        return "could go once it is tried" if answer.cause else "could go without its gates"
    return "could go if its scheduler ran" if answer.outcome == "unclaimed" else "can go"


def moved(answer: Explanation) -> str:
    """Return a note on a pod that is on a node already; empty for a pending pod."""
    node = answer.pod.node
    if node is None:
        return ""
    same = answer.choice is not None and node in answer.choice.best
    return (
        f"it is on {node} now; this is where it would go if it were scheduled again{': the same node' if same else ''}"
    )


def preempts(answer: Explanation) -> str:
    """Return whom the scheduler would remove for this pod; empty: nobody."""
    if answer.preemption is None:
        return ""
    victims = answer.preemption.victims
    return f"the scheduler would make room on {answer.preemption.node} by preempting {some(victims, 4)}"


def common_ending(names: Sequence[str]) -> str:
    """Return the domain that all names end in, empty when they share none or are too few to tell."""
    endings = {name[name.find(".") :] if "." in name else "" for name in names}
    return endings.pop() if len(endings) == 1 and len(names) > 1 else ""


def leads_to(remedy: Remedy) -> str:
    """Return the nodes to which the pod could go after a change."""
    if any(isinstance(change, AddNode) for change in remedy.changes):
        return "the new node" if len(remedy.nodes) == 1 else count(len(remedy.nodes), "node")
    if len(remedy.nodes) == 1:
        return remedy.nodes[0]
    return f"{count(len(remedy.nodes), 'node')}: {some(remedy.nodes, 3)}"


def besides(remedy: Remedy) -> str:
    """Return the effects of a change on other pods, in words; empty: none."""
    effects = remedy.effects
    if effects is None:
        return ""
    said = [
        f"{pod} then goes to {node}" if node else f"{pod} finds no other node" for pod, node in effects.moved.items()
    ]
    said += [f"an eviction of {pod} is refused now: {why}" for pod, why in effects.refused.items()]
    if effects.landed:
        said.append(f"{_others(effects.lands, effects.landed)} would get a node too")
    if effects.loses:
        said.append(f"{some(effects.loses, 3)} would find none any more")
    if effects.unmade:
        said.append(f"nobody makes {some(effects.unmade, 3)} again")
    if effects.relies:
        said.append(f"{some(effects.relies, 3)} asks for the label as it is and could not come back to the node")
    return "; ".join(said)


def _others(names: Sequence[str], number: int) -> str:
    return f"{', '.join(names)} and {number - len(names):,} more" if number > len(names) else ", ".join(names)


def telling(answer: Explanation) -> tuple[list[str], list[str]]:
    """Return the scoring plugins whose points differ between nodes, and those that give all nodes the same."""
    differ: list[str] = []
    same: list[str] = []
    for scorer in answer.scorers:
        points = {node.scores[scorer.plugin].weighted for node in answer.feasible}
        (differ if len(points) > 1 else same).append(scorer.plugin)
    return differ, same


def same_for_all(answer: Explanation, plugins: Sequence[str]) -> str:
    """Return the points that every node gets, in words."""
    first: FeasibleNode = answer.feasible[0]
    return ", ".join(f"{plugin} {first.scores[plugin].weighted}" for plugin in plugins)


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
            commands = [command for remedy in self.answer.remedies for command in remedy.commands]
            yield from to_copy(commands) if commands else ()
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
        """Return a line for each finding; those of plugins that kube-scheduler did not get to ask are dimmed."""
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

    def _short(self, text: str) -> str:
        return printable(text.replace(self._ending, "") if self._ending else text)
