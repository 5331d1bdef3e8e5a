"""Which nodes could be removed, on a terminal."""

from collections.abc import Iterator
from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, RenderableType
from rich.text import Text

from podberth.explain.removable import Kept, Movable, Removals
from podberth.explain.report.columns import number, plain_table
from podberth.explain.report.wording import count, printable, some

_MANY = 20
_FEW = 3


@dataclass
class RemovableTable:
    """What can go together, then each node by itself, and what keeps the others."""

    found: Removals

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        found = self.found
        yield Text(headline(found), style="bold green" if found.removable else "bold red")
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


def headline(found: Removals) -> str:
    """The answer in one line."""
    total = len(found.removable) + len(found.kept) + len(found.not_tried)
    if not found.removable:
        return f"none of {count(total, 'node')} could be removed (profile {found.profile})"
    moved = f", which moves {count(found.together_pods, 'pod')}" if found.together_pods else ""
    return (
        f"{len(found.removable):,} of {count(total, 'node')} could be removed by themselves, "
        f"{len(found.together):,} of them together{moved} (profile {found.profile})"
    )


def notes(found: Removals) -> list[str]:
    """Return what else to say."""
    untried = [f"not tried, to save time: {some(found.not_tried, _FEW)}"] if found.not_tried else []
    return [*found.notes, *untried]


def lands(node: Movable) -> str:
    """Return where the pods of a node would go."""
    return some(list(dict.fromkeys(node.moves.values())), _FEW)


def stops(node: Kept) -> tuple[str, str]:
    """A pod that keeps a node, and how many more; why it does."""
    pod, why = next(iter(node.stops.items()))
    more = f" and {len(node.stops) - 1:,} more" if len(node.stops) > 1 else ""
    return f"{pod}{more}", why


def _more(shown: int) -> Iterator[Text]:
    if shown > _MANY:
        yield Text(f"and {shown - _MANY:,} more; -o json has all", style="dim")
