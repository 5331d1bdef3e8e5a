"""Why several pods wait, on a terminal."""

from collections.abc import Iterator
from dataclasses import dataclass

from rich.box import SIMPLE_HEAD
from rich.console import Console, ConsoleOptions, RenderableType
from rich.table import Table
from rich.text import Text

from scheduler.report.wording import count, printable, some
from scheduler.whatif.pending import Cause, Pending

_MANY = 20
_OWNERS = 3


@dataclass
class PendingTable:
    """Causes with who waits for them, and what would free most."""

    answer: Pending
    everything: bool = False

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        answer = self.answer
        yield Text(headline(answer), style="bold red" if answer.pods else "bold green")
        for note in answer.notes:
            yield Text(f"  {printable(note)}", style="yellow")
        if answer.causes:
            table = _table()
            table.add_column("Pods", justify="right")
            table.add_column("Why", overflow="fold", ratio=3)
            table.add_column("Whose", overflow="fold", ratio=2)
            table.add_column("What would free one", overflow="fold", ratio=2)
            shown = answer.causes if self.everything else answer.causes[:_MANY]
            for cause in shown:
                owners = some(owners_of(cause), len(cause.owners) if self.everything else _OWNERS)
                texts = [*(one.text for one in cause.remedies), *(one.text for one in cause.group_remedies)]
                helps = next(iter(texts), "")
                table.add_row(f"{cause.pods:,}", *map(printable, (cause.cause, owners, helps)))
            yield table
            if len(answer.causes) > len(shown):
                yield Text(f"  … {len(answer.causes) - len(shown):,} more causes (--all shows them)", style="dim")
        if answer.changes:
            yield Text("Changes of the cluster that help most (each was tried for one pod of a kind)", style="bold")
            table = _table()
            table.add_column("Pods", justify="right")
            table.add_column("Change", overflow="fold")
            for change in answer.changes:
                table.add_row(f"{change.pods:,}", printable(change.text))
            yield table
        if answer.not_explained:
            yield Text(f"  {count(answer.not_explained, 'pod')} of rarer kinds are not explained", style="dim")


def headline(answer: Pending) -> str:
    """The answer in one line."""
    if not answer.pods:
        return "No pod waits"
    causes = count(len(answer.causes), "cause")
    return f"{count(answer.pods, 'pod')} {'wait' if answer.pods > 1 else 'waits'}, for {causes}"


def owners_of(cause: Cause) -> list[str]:
    """Who waits: `ReplicaSet ns/web (3)`."""
    return [f"{owner} ({number:,})" if number > 1 else owner for owner, number in cause.owners.items()]


def _table() -> Table:
    return Table(box=SIMPLE_HEAD, header_style="dim", pad_edge=False, show_edge=False)
