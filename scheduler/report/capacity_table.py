"""How many more pods fit, on a terminal."""

from collections.abc import Iterator
from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, RenderableType
from rich.text import Text

from scheduler.report.columns import number, plain_table
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
        yield Text(f"  {printable(asks(answer))}", style="dim")
        for note in answer.notes:
            yield Text(f"  {printable(note)}", style="yellow")
        taking = [node for node in answer.nodes if node.pods]
        if taking:
            table = plain_table("Node", number("More pods"), "Then")
            for node in taking if self.everything else taking[:_MANY]:
                table.add_row(printable(node.node), f"{node.pods:,}", printable(", ".join(node.limits)))
            yield table
            if len(taking) > _MANY and not self.everything:
                yield Text(f"  … {len(taking) - _MANY:,} more (--all shows them)", style="dim")
        if answer.limits:
            table = plain_table("What keeps the next one out", number("Nodes"))
            for limit in answer.limits[:_MANY]:
                table.add_row(printable(limit.reason), f"{limit.nodes:,}")
            yield table
        if answer.stranded:
            table = plain_table("Free, and of no use for it", number("In all"), number(""), "At most")
            for each in answer.stranded:
                share, most = f"{100 * each.share:.1f} %", f"{each.most} on {each.node}"
                table.add_row(printable(each.resource), each.free, share, printable(most))
            yield table
        if answer.one_more:
            table = plain_table("One more node like", number("Adds"), number("There are"))
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


def asks(answer: Capacity) -> str:
    """What each of the pods asks for."""
    asked = [f"{amount} {name}" for name, amount in answer.requests.items()]
    asked += [f"claim {name} ({what})" for name, what in answer.claims.items()]
    return f"each asks for {', '.join(asked) or 'nothing'} (profile {answer.profile})"
