"""Says why a pod group starts or not: in words for the page and the tour, and on a terminal."""

from collections.abc import Iterator
from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, RenderableType
from rich.text import Text

from podberth.explain.gangs.answer import GOOD, DomainRoom, GroupExplanation
from podberth.explain.report.terminal import indented, plain_table, section, text, to_copy
from podberth.explain.report.wording import count, printable, some


def headline(answer: GroupExplanation) -> str:
    """Return the answer in one line."""
    group = answer.group
    name = f"{group.namespace}/{group.name}"
    match answer.outcome:
        case "runs":
            return f"{name} runs: {count(group.running, 'pod')}"
        case "starts":
            rest = f"; {group.waiting - answer.fits:,} find none" if answer.fits < group.waiting else ""
            return f"{name} can start: {_of(answer)} find a node{rest}"
        case "unclaimed":
            return f"{name} fits, and waits for a scheduler that nobody seems to run"
        case "held":
            return f"{name} is not tried yet: {answer.cause}"
        case "failed":
            return f"{name} could not be decided: {answer.cause}"
    where = f" in one {group.topology_key}" if answer.domain else ""
    if not answer.domains and answer.cause:
        return f"{name} does not start: {answer.cause}"
    return f"{name} does not start: {_of(answer)} fit{where}"


def _of(answer: GroupExplanation) -> str:
    group = answer.group
    lacking = max(group.needed - group.running, 1)
    return f"{answer.fits:,} of {max(group.waiting, lacking):,} pods"


def facts(answer: GroupExplanation) -> str:
    """Return the description of the group, in words."""
    group = answer.group
    kind = "the policy basic" if group.min_count is None else f"{count(group.min_count, 'pod')} start together"
    parts = [kind, f"{group.waiting:,} wait", f"{group.running:,} run", f"priority {group.priority}"]
    if group.topology_key:
        parts.append(f"asks for one {group.topology_key}")
    return " · ".join((*parts, f"profile {answer.profile}"))


def stop(answer: GroupExplanation) -> str:
    """Return the pod that stops the group, and the reason, in words."""
    if answer.stopped is None:
        return ""
    more = answer.stopped.alike - 1
    alike = f" (and {count(more, 'more pod')} like it)" if more else ""
    return f"{answer.stopped.pod.partition('/')[2]} stops it{alike}: {answer.stopped.cause}"


def limits(domain: DomainRoom) -> str:
    """Return the reasons for which the next pod does not fit into a domain."""
    return ", ".join(f"{limit.reason} ({count(limit.nodes, 'node')})" for limit in domain.limits)


def then(answer: GroupExplanation, fits: int) -> str:
    """Return the effect of a change, in words."""
    return f"then {fits:,} of {answer.group.waiting:,} find a node"


_MANY = 20
_NAMED = 8


@dataclass
class GroupTable:
    """Headline, what stops it, domains, what would start it, and kube-scheduler's words."""

    answer: GroupExplanation
    everything: bool = False

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        answer = self.answer
        good = answer.outcome in GOOD
        style = "bold green" if good else "bold yellow" if answer.outcome == "held" else "bold red"
        sign = "✓" if good else "∥" if answer.outcome == "held" else "✗"
        yield Text(printable(f"{sign} {headline(answer)}"), style=style)
        yield indented(facts(answer), "dim")
        if said := stop(answer):
            yield indented(said, "red")
        for note in answer.notes:
            yield indented(note, "yellow")
        if answer.domains and (answer.outcome not in GOOD or self.everything):
            yield from self._domains()
        if answer.remedies:
            yield from self._remedies()
        elif answer.outcome == "unschedulable":
            yield from (Text(""), Text("No single small change would start it.", style="bold"))
        for ending in answer.endings:
            where = f" in {ending.domain}" if ending.domain else ""
            title = f"The end of {len(ending.pods):,} running pod{'s' * (len(ending.pods) > 1)} would start it{where}"
            yield from (Text(""), Text(printable(f"{title} (tried; the smallest set found)"), style="bold"))
            named = len(ending.pods) if self.everything else _NAMED
            yield indented(f"{some(ending.pods, named)} on {some(ending.nodes, _NAMED)}")
        if answer.message:
            yield from (Text(""), Text("In kube-scheduler's words", style="bold"))
            yield indented(answer.message, "dim")
            if answer.stopped is not None:
                yield indented(f"{answer.stopped.pod.partition('/')[2]}: {answer.stopped.message}", "dim")

    def _domains(self) -> Iterator[RenderableType]:
        answer = self.answer
        shown = answer.domains if self.everything else answer.domains[:_MANY]
        table = plain_table()
        table.add_column(printable(answer.group.topology_key or "Where"), overflow="fold")
        for title in ("Nodes", "Fit", "Short"):
            table.add_column(title, justify="right", no_wrap=True)
        table.add_column("What keeps the next one out", overflow="fold", ratio=1)
        for each in shown:
            numbers = ("?" if number is None else f"{number:,}" for number in (each.fits, each.short))
            table.add_row(printable(each.domain or "all nodes"), f"{each.nodes:,}", *numbers, printable(limits(each)))
        yield from section("Where its pods fit", table)
        if len(answer.domains) > len(shown):
            yield indented(f"… {len(answer.domains) - len(shown):,} more (--all shows them)", "dim")

    def _remedies(self) -> Iterator[RenderableType]:
        answer = self.answer
        table = plain_table(text("", share=3), text("", share=2), header=False)
        for remedy in answer.remedies:
            table.add_row(Text(printable(f"• {remedy.text}"), style="cyan"), Text(then(answer, remedy.fits)))
        yield from section("What would start it (each was tried)", table)
        commands = [remedy.commands for remedy in answer.remedies if remedy.commands]
        if commands:
            yield from to_copy([each for of in commands for each in (of if self.everything else of[:1])])
        more = 0 if self.everything else sum(len(of) - 1 for of in commands)
        if more:
            yield indented(f"… and {more:,} like these for other pods (--all shows them)", "dim")
