"""How many more gangs fit, on a terminal."""

from collections.abc import Iterator
from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, RenderableType
from rich.text import Text

from scheduler.report.columns import number, plain_table
from scheduler.report.wording import count, printable
from scheduler.whatif.gangs.capacity import GangCapacity

_MANY = 20


@dataclass
class GangCapacityTable:
    """The answer in one line, then domains, limits, and what one more node adds."""

    answer: GangCapacity
    everything: bool = False

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        answer = self.answer
        yield Text(printable(headline(answer)), style="bold green" if answer.gangs else "bold red")
        yield Text(f"  {printable(asks(answer))}", style="dim")
        for note in answer.notes:
            yield Text(f"  {printable(note)}", style="yellow")
        if any(each.domain for each in answer.domains):
            table = plain_table("Domain", number("Gangs"), number("Pods"))
            for domain in answer.domains if self.everything else answer.domains[:_MANY]:
                table.add_row(printable(domain.domain), f"{domain.gangs:,}", f"{domain.pods:,}")
            yield table
            if len(answer.domains) > _MANY and not self.everything:
                yield Text(f"  … {len(answer.domains) - _MANY:,} more (--all shows them)", style="dim")
        if answer.limits:
            table = plain_table("What keeps the next pod out", number("Nodes"))
            for limit in answer.limits:
                table.add_row(printable(limit.reason), f"{limit.nodes:,}")
            yield table
        if answer.one_more:
            table = plain_table("One more node like", number("Adds gangs"), number("There are"))
            for more in answer.one_more:
                table.add_row(printable(more.like), f"{more.adds:,}", f"{more.nodes:,}")
            yield table


def headline(answer: GangCapacity) -> str:
    """The answer in one line."""
    of = count(answer.pods, "pod")
    if not answer.gangs:
        return f"No more gangs like {answer.group} fit, of {of} each"
    least = "" if answer.exhausted else "At least "
    fit = "fit" if answer.gangs > 1 else "fits"
    return f"{least}{count(answer.gangs, 'more gang')} like {answer.group} {fit}, of {of} each"


def asks(answer: GangCapacity) -> str:
    asked = [f"{amount} {name}" for name, amount in answer.requests.items()]
    asked += [f"claim {name} ({what})" for name, what in answer.claims.items()]
    who = "each pod asks for" if answer.equal else "the pods of a gang ask for"
    together = f"{answer.needed:,} start together"
    return f"{who} {', '.join(asked) or 'nothing'}; {together} (profile {answer.profile})"
