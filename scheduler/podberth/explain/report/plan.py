"""A plan of evictions on a terminal, as a renderable of rich."""

from collections.abc import Iterator
from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from podberth.explain.promises import BUDGET, EVICT, LEFT_ALONE, STAYS, WAITS, Plan, PlannedEviction
from podberth.explain.report.columns import plain_table
from podberth.explain.report.wording import count, printable

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
