"""How many more pods fit, on a terminal."""

from collections.abc import Iterator
from dataclasses import dataclass

from rich.box import SIMPLE_HEAD
from rich.console import Console, ConsoleOptions, RenderableType
from rich.table import Table
from rich.text import Text

from scheduler.report.wording import count, printable
from scheduler.whatif.capacity import Capacity

_MANY = 20


@dataclass
class CapacityTable:
    """The answer in one line, then nodes, limits, what is stranded, and what one more node adds."""

    answer: Capacity
    everything: bool = False

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        answer = self.answer
        yield Text(printable(headline(answer)), style="bold green" if answer.fits else "bold red")
        asked = [f"{amount} {name}" for name, amount in answer.requests.items()]
        asked += [f"claim {name} ({what})" for name, what in answer.claims.items()]
        asks = printable(", ".join(asked)) or "nothing"
        yield Text(f"  each asks for {asks} (profile {answer.profile})", style="dim")
        for note in answer.notes:
            yield Text(f"  {printable(note)}", style="yellow")
        taking = [node for node in answer.nodes if node.pods]
        if taking:
            table = _table(("Node", "left"), ("More pods", "right"), ("Then", "left"))
            for node in taking if self.everything else taking[:_MANY]:
                table.add_row(printable(node.node), f"{node.pods:,}", printable(", ".join(node.limits)))
            yield table
            if len(taking) > _MANY and not self.everything:
                yield Text(f"  … {len(taking) - _MANY:,} more (--all shows them)", style="dim")
        if answer.limits:
            table = _table(("What keeps the next one out", "left"), ("Nodes", "right"))
            for limit in answer.limits[:_MANY]:
                table.add_row(printable(limit.reason), f"{limit.nodes:,}")
            yield table
        if answer.stranded:
            table = _table(
                ("Free, and of no use for it", "left"), ("In all", "right"), ("", "right"), ("At most", "left")
            )
            for each in answer.stranded:
                share, most = f"{100 * each.share:.1f} %", f"{each.most} on {each.node}"
                table.add_row(printable(each.resource), each.free, share, printable(most))
            yield table
        if answer.one_more:
            table = _table(("One more node like", "left"), ("Adds", "right"), ("There are", "right"))
            for more in answer.one_more:
                table.add_row(printable(more.like), f"{more.adds:,}", f"{more.nodes:,}")
            yield table


def headline(answer: Capacity) -> str:
    """The answer in one line."""
    if not answer.fits:
        return f"No more pods like {answer.pod} fit"
    nodes = sum(node.pods > 0 for node in answer.nodes)
    least = "" if answer.exhausted else "At least "
    return f"{least}{count(answer.fits, 'more pod')} like {answer.pod} {'fit' if answer.fits > 1 else 'fits'}" + (
        f", on {count(nodes, 'node')} of {len(answer.nodes):,}"
    )


def _table(*columns: tuple[str, str]) -> Table:
    table = Table(box=SIMPLE_HEAD, header_style="dim", pad_edge=False, show_edge=False)
    for title, justify in columns:
        table.add_column(title, overflow="fold", justify="right" if justify == "right" else "left")
    return table
