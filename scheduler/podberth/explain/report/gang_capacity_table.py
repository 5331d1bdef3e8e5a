"""How many more gangs fit, on a terminal."""

from collections.abc import Iterator
from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, RenderableType
from rich.text import Text

from podberth.explain.gangs.capacity import GangCapacity
from podberth.explain.report.capacity_table import limits_table, one_more_table
from podberth.explain.report.columns import more, number, plain_table
from podberth.explain.report.wording import asked, count, printable

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
            yield from more(0 if self.everything else len(answer.domains) - _MANY)
        if answer.limits:
            yield limits_table("What keeps the next pod out", answer.limits)
        if answer.one_more:
            yield one_more_table("Adds gangs", answer.one_more)


def headline(answer: GangCapacity) -> str:
    """The answer in one line."""
    of = count(answer.pods, "pod")
    if not answer.gangs:
        return f"No more gangs like {answer.group} fit, of {of} each"
    least = "" if answer.exhausted else "At least "
    fit = "fit" if answer.gangs > 1 else "fits"
    return f"{least}{count(answer.gangs, 'more gang')} like {answer.group} {fit}, of {of} each"


def asks(answer: GangCapacity) -> str:
    """Return what the pods of a gang ask for, and how many of them start together."""
    who = "each pod asks for" if answer.equal else "the pods of a gang ask for"
    what = asked(answer.requests, answer.claims)
    return f"{who} {what}; {answer.needed:,} start together (profile {answer.profile})"
