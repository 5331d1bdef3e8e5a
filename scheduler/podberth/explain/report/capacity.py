"""Draws how many more pods, or gangs, fit, on a terminal."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, RenderableType
from rich.table import Table
from rich.text import Text

from podberth.explain.explanation import Limit
from podberth.explain.gangs.capacity import GangCapacity
from podberth.explain.report.terminal import more, number, plain_table
from podberth.explain.report.wording import asked, count, printable
from podberth.explain.simulate.capacity import Capacity, OneMore

_MANY = 20


@dataclass
class CapacityTable:
    """A text of the answer: one line, then nodes, limits, what is stranded, and what one more node adds."""

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
            yield from more(0 if self.everything else len(taking) - _MANY)
        if answer.limits:
            yield limits_table("What keeps the next one out", answer.limits[:_MANY])
        if answer.stranded:
            table = plain_table("Free, and of no use for it", number("In all"), number(""), "At most")
            for each in answer.stranded:
                share, most = f"{100 * each.share:.1f} %", f"{each.most} on {each.node}"
                table.add_row(printable(each.resource), each.free, share, printable(most))
            yield table
        if answer.one_more:
            yield one_more_table("Adds", answer.one_more)


def headline(answer: Capacity) -> str:
    """Return the answer in one line."""
    if not answer.fits:
        return f"No more pods like {answer.pod} fit"
    nodes = sum(node.pods > 0 for node in answer.nodes)
    least = "" if answer.exhausted else "At least "
    return f"{least}{count(answer.fits, 'more pod')} like {answer.pod} {'fit' if answer.fits > 1 else 'fits'}" + (
        f", on {count(nodes, 'node')} of {len(answer.nodes):,}"
    )


def asks(answer: Capacity) -> str:
    """Return the requests of each of the pods, in words."""
    return f"each asks for {asked(answer.requests, answer.claims)} (profile {answer.profile})"


def limits_table(title: str, limits: Sequence[Limit]) -> Table:
    """Return a table of the reasons for which the next pod does not fit, with the number of nodes."""
    table = plain_table(title, number("Nodes"))
    for limit in limits:
        table.add_row(printable(limit.reason), f"{limit.nodes:,}")
    return table


def one_more_table(adds: str, found: Sequence[OneMore]) -> Table:
    """Return a table of what one more node of each kind adds. `adds`: the title of that column."""
    table = plain_table("One more node like", number(adds), number("There are"))
    for one in found:
        table.add_row(printable(one.like), f"{one.adds:,}", f"{one.nodes:,}")
    return table


@dataclass
class GangCapacityTable:
    """A text of the answer: one line, then domains, limits, and what one more node adds."""

    answer: GangCapacity
    everything: bool = False

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        answer = self.answer
        yield Text(printable(gangs_headline(answer)), style="bold green" if answer.gangs else "bold red")
        yield Text(f"  {printable(gang_asks(answer))}", style="dim")
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


def gangs_headline(answer: GangCapacity) -> str:
    """Return the answer in one line."""
    of = count(answer.pods, "pod")
    if not answer.gangs:
        return f"No more gangs like {answer.group} fit, of {of} each"
    least = "" if answer.exhausted else "At least "
    fit = "fit" if answer.gangs > 1 else "fits"
    return f"{least}{count(answer.gangs, 'more gang')} like {answer.group} {fit}, of {of} each"


def gang_asks(answer: GangCapacity) -> str:
    """Return the requests of the pods of a gang, and how many of them start together, in words."""
    who = "each pod asks for" if answer.equal else "the pods of a gang ask for"
    what = asked(answer.requests, answer.claims)
    return f"{who} {what}; {answer.needed:,} start together (profile {answer.profile})"
