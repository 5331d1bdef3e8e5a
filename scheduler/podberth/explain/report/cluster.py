"""Draws answers about many pods on a terminal: why they wait, which nodes could go, which pods would be evicted."""

from collections.abc import Iterator
from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from podberth.explain.pending import Cause, Pending
from podberth.explain.promises import BUDGET, EVICT, LEFT_ALONE, STAYS, WAITS, Plan, PlannedEviction
from podberth.explain.report.terminal import number, plain_table, text
from podberth.explain.report.wording import count, printable, some
from podberth.explain.simulate.removable import Kept, Movable, Removals

_MANY = 20
_OWNERS = 3


@dataclass
class PendingTable:
    """Causes with who waits for them, and what would free most."""

    answer: Pending
    everything: bool = False

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        answer = self.answer
        yield Text(pending_headline(answer), style="bold red" if answer.pods else "bold green")
        for note in answer.notes:
            yield Text(f"  {printable(note)}", style="yellow")
        if answer.causes:
            table = plain_table(
                number("Pods"), text("Why", share=3), text("Whose", share=2), text("What would free one", share=2)
            )
            shown = answer.causes if self.everything else answer.causes[:_MANY]
            for cause in shown:
                owners = some(owners_of(cause), len(cause.owners) if self.everything else _OWNERS)
                texts = [*(one.text for one in cause.remedies), *(one.text for one in cause.group_remedies)]
                helps = next(iter(texts), "")
                table.add_row(f"{cause.pods:,}", *map(printable, (why(cause), owners, helps)))
            yield table
            if len(answer.causes) > len(shown):
                yield Text(f"  … {len(answer.causes) - len(shown):,} more causes (--all shows them)", style="dim")
        if answer.changes:
            yield Text("Changes of the cluster that help most (each was tried for one pod of a kind)", style="bold")
            table = plain_table(number("Pods"), "Change")
            for change in answer.changes:
                table.add_row(f"{change.pods:,}", printable(change.text))
            yield table
        if answer.causes:
            pod = printable(answer.causes[0].example)
            yield Text(f"  berth explain {pod} says more of one pod, with commands", style="dim")
        if answer.not_explained:
            yield Text(f"  {count(answer.not_explained, 'pod')} of rarer kinds are not explained", style="dim")


def pending_headline(answer: Pending) -> str:
    """Return the answer in one line."""
    if not answer.pods:
        return "No pod waits"
    causes = count(len(answer.causes), "cause")
    return f"{count(answer.pods, 'pod')} {'wait' if answer.pods > 1 else 'waits'}, for {causes}"


def why(cause: Cause) -> str:
    """Return why the pods of a cause wait, with what more is known of the example."""
    return f"{cause.cause} ({cause.example}: {cause.detail})" if cause.detail else cause.cause


def owners_of(cause: Cause) -> list[str]:
    """Return the owners of the pods that wait: `ReplicaSet ns/web (3)`."""
    return [f"{owner} ({number:,})" if number > 1 else owner for owner, number in cause.owners.items()]


_FEW = 3


@dataclass
class RemovableTable:
    """The nodes that can go together, then each node by itself, and what keeps the others."""

    found: Removals

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        found = self.found
        yield Text(removable_headline(found), style="bold green" if found.removable else "bold red")
        for note in notes(found):
            yield Text(f"  {printable(note)}", style="yellow")
        if found.together:
            yield Text(f"  together, in this order: {printable(some(found.together, _MANY))}")
        if found.removable:
            table = plain_table("Could go by itself", number("Pods"), "They would land on")
            for each in found.removable[:_MANY]:
                table.add_row(printable(each.node), f"{each.pods:,}", printable(lands(each)))
            yield table
            yield from _more(len(found.removable))
        if found.kept:
            table = plain_table("Stays", number("Pods"), "Because of", "Why")
            for kept in found.kept[:_MANY]:
                table.add_row(printable(kept.node), f"{kept.pods:,}", *map(printable, stops(kept)))
            yield table
            yield from _more(len(found.kept))


def removable_headline(found: Removals) -> str:
    """Return the answer in one line."""
    total = len(found.removable) + len(found.kept) + len(found.not_tried)
    if not found.removable:
        return f"none of {count(total, 'node')} could be removed (profile {found.profile})"
    moved = f", which moves {count(found.together_pods, 'pod')}" if found.together_pods else ""
    return (
        f"{len(found.removable):,} of {count(total, 'node')} could be removed by themselves, "
        f"{len(found.together):,} of them together{moved} (profile {found.profile})"
    )


def notes(found: Removals) -> list[str]:
    """Return the remarks below the table."""
    untried = [f"not tried, to save time: {some(found.not_tried, _FEW)}"] if found.not_tried else []
    return [*found.notes, *untried]


def lands(node: Movable) -> str:
    """Return the nodes to which the pods of a node would go, in words."""
    return some(list(dict.fromkeys(node.moves.values())), _FEW)


def stops(node: Kept) -> tuple[str, str]:
    """Return the pod that keeps a node, with the number of others, and the reason."""
    pod, why = next(iter(node.stops.items()))
    more = f" and {len(node.stops) - 1:,} more" if len(node.stops) > 1 else ""
    return f"{pod}{more}", why


def _more(shown: int) -> Iterator[Text]:
    if shown > _MANY:
        yield Text(f"and {shown - _MANY:,} more; -o json has all", style="dim")


_STYLES = {EVICT: "bold", WAITS: "yellow", BUDGET: "yellow", STAYS: "yellow", LEFT_ALONE: "dim"}
_WORDS = {EVICT: "evict", WAITS: "evict later", BUDGET: "wait", STAYS: "stay", LEFT_ALONE: "leave alone"}


@dataclass
class PlanTable:
    """Every broken promise with what would be done about it."""

    plan: Plan

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        plan = self.plan
        nodes = f"{count(plan.broken_nodes, 'node')} of {plan.nodes:,}"
        if not plan.evictions:
            yield Text(f"✓ All promises of {count(plan.pods, 'pod')} are kept", style="bold green")
        else:
            broken = f"✗ {len(plan.evictions):,} of {count(plan.pods, 'promise')} broken, on {nodes}"
            yield Text(broken, style="bold red")
            if plan.breaker_open:
                text = (
                    f"The breaker would be open: {nodes} break promises, {plan.limit:,} may. Nothing would be evicted."
                )
                yield Padding(Text(text, style="bold yellow"), (0, 0, 0, 2))
            yield from (Text(""), Padding(_table(plan.evictions), (0, 0, 0, 2)))
        for problem in plan.unreadable:
            yield Padding(Text(printable(f"unreadable: {problem}"), style="yellow"), (0, 0, 0, 2))


def _table(evictions: list[PlannedEviction]) -> Table:
    table = plain_table()
    table.add_column("Pod", overflow="fold", min_width=12)
    table.add_column("On", overflow="fold", min_width=6)
    table.add_column("Broken", overflow="fold", ratio=2)
    table.add_column("Then", no_wrap=True)
    table.add_column("Where to, or why not", overflow="fold", ratio=2)
    for one in evictions:
        why = "; ".join(part for part in (f"to {one.target}" if one.target else "", one.text) if part)
        cells = (f"{one.namespace}/{one.name}", one.node, one.breach)
        style = _STYLES[one.action]
        table.add_row(*map(printable, cells), Text(_WORDS[one.action], style=style), printable(why))
    return table
