"""Why several pods wait, on a terminal."""

from collections.abc import Iterator
from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, RenderableType
from rich.text import Text

from podberth.explain.pending import Cause, Pending
from podberth.explain.report.columns import number, plain_table, text
from podberth.explain.report.wording import count, printable, some

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
            table = plain_table(
                number("Pods"), text("Why", share=3), text("Whose", share=2), text("What would free one", share=2)
            )
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
            table = plain_table(number("Pods"), "Change")
            for change in answer.changes:
                table.add_row(f"{change.pods:,}", printable(change.text))
            yield table
        if answer.causes:
            pod = printable(answer.causes[0].example)
            yield Text(f"  berth explain {pod} says more of one pod, with commands", style="dim")
        if answer.not_explained:
            yield Text(f"  {count(answer.not_explained, 'pod')} of rarer kinds are not explained", style="dim")


def headline(answer: Pending) -> str:
    """The answer in one line."""
    if not answer.pods:
        return "No pod waits"
    causes = count(len(answer.causes), "cause")
    return f"{count(answer.pods, 'pod')} {'wait' if answer.pods > 1 else 'waits'}, for {causes}"


def owners_of(cause: Cause) -> list[str]:
    """Return who waits: `ReplicaSet ns/web (3)`."""
    return [f"{owner} ({number:,})" if number > 1 else owner for owner, number in cause.owners.items()]
