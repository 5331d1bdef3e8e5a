"""A simulation on a terminal: what would happen on a cluster, or what a trace showed."""

from collections.abc import Iterator
from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, RenderableType
from rich.text import Text

from podberth.explain.report.terminal import more, number, plain_table
from podberth.explain.report.wording import count, printable, some
from podberth.explain.simulate.outcome import GroupOutcome, Outcome, Quality

_MANY = 20
_FEW = 4


@dataclass
class OutcomeTable:
    """The nodes where pods go, the pods that wait and why, and how the cluster changes."""

    outcome: Outcome
    only_mine: bool = True

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        found = self.outcome
        yield Text(printable(summary(found)), style="bold green" if found.good else "bold red")
        for note in (*found.notes, *problems(found), *about_others(found, only_mine=self.only_mine)):
            yield Text(f"  {printable(note)}", style="yellow")
        if found.drained:
            yield from self._moves()
        if found.workloads:
            yield from self._workloads()
        if found.groups:
            yield from self._groups()
        yield from self._devices()
        if found.waiting:
            table = plain_table("Waiting", number("Pods"), "Why")
            for each in found.waiting[:_MANY]:
                table.add_row(printable(each.pod), f"{each.pods:,}", printable(each.message))
            yield table
            yield from _more(len(found.waiting) - _MANY)
        if found.preempted:
            table = plain_table("Preempted", "On", "For")
            for victim in found.preempted[:_MANY]:
                table.add_row(printable(victim.pod), printable(victim.node), printable(victim.by))
            yield table
            yield from _more(len(found.preempted) - _MANY)
        if not self.only_mine:
            yield from self._others()
        table = plain_table("The cluster", number("before"), number("after"))
        for title, before, after in changes(found.before, found.after):
            table.add_row(title, before, after)
        yield table

    def _moves(self) -> Iterator[RenderableType]:
        """Yield a table of the pods that leave the drained nodes, and of their new nodes."""
        moved = [(each.pod, each.was, each.node) for each in self.outcome.placed if each.was is not None]
        moved += [(each.pod, each.was, "no node") for each in self.outcome.waiting if each.was is not None]
        moved += [(each.pod, each.node, f"stays: {' and '.join(each.budgets)}") for each in self.outcome.blocked]
        table = plain_table("Drained pod", "From", "To")
        for pod, was, node in moved[:_MANY]:
            table.add_row(printable(pod), printable(was or ""), printable(node))
        if moved:
            yield table
        yield from _more(len(moved) - _MANY)

    def _workloads(self) -> Iterator[RenderableType]:
        table = plain_table("Workload", number("Pods"), number("Placed"), number("Without"), "Nodes")
        for each in self.outcome.workloads[:_MANY]:
            where = sorted(each.nodes.items(), key=lambda item: (-item[1], item[0]))
            nodes = some([f"{node} ({number:,})" if number > 1 else node for node, number in where], _FEW)
            counts = (f"{each.wanted:,}", f"{each.placed:,}", f"{each.waiting:,}")
            table.add_row(printable(each.workload), *counts, printable(nodes))
        yield table
        yield from _more(len(self.outcome.workloads) - _MANY)

    def _groups(self) -> Iterator[RenderableType]:
        table = plain_table("Pod group", number("Pods"), number("Placed"), number("Together"), "Then")
        for each in self.outcome.groups[:_MANY]:
            counts = (f"{each.pods:,}", f"{each.bound:,}", "" if each.min_count is None else f"{each.min_count:,}")
            table.add_row(printable(each.group), *counts, printable(group_then(each)))
        yield table
        yield from _more(len(self.outcome.groups) - _MANY)

    def _devices(self) -> Iterator[RenderableType]:
        """Yield a table of the devices that the claims of placed pods get."""
        rows = [
            (each.pod, each.node, claim, some(devices, _FEW))
            for each in self.outcome.placed
            for claim, devices in each.devices.items()
        ]
        if rows:
            table = plain_table("Pod", "On", "Claim", "Gets")
            for cells in rows[:_MANY]:
                table.add_row(*map(printable, cells))
            yield table
            yield from _more(len(rows) - _MANY)

    def _others(self) -> Iterator[RenderableType]:
        others = self.outcome.others
        table = plain_table("Waited before", "Now")
        rows = [(each.pod, f"on {each.node}, by these changes") for each in others.freed]
        rows += [(each.pod, f"on {each.node}, as it would be anyway") for each in others.ready]
        rows += [(each.pod, f"waits: {each.message}") for each in others.waiting]
        for pod, said in rows[:_MANY]:
            table.add_row(printable(pod), printable(said))
        if rows:
            yield table
            yield from _more(len(rows) - _MANY)


def summary(found: Outcome) -> str:
    """Return the outcome in one line."""
    wanted = sum(each.wanted for each in found.workloads)
    moved = sum(placed.was is not None for placed in found.placed)
    stuck = sum(each.was is not None for each in found.waiting)
    created = found.placed_in_all - moved
    parts = []
    if wanted or not found.drained:
        parts.append(f"{created:,} of {count(wanted, 'pod')} placed" if wanted else "no pods to place")
    if found.drained:
        parts.append(f"{moved:,} of {count(moved + stuck + len(found.blocked), 'drained pod')} moved")
    if found.waiting:
        parts.append(f"{found.waiting_in_all:,} without a node")
    if found.blocked:
        parts.append(f"{len(found.blocked):,} kept by disruption budgets")
    if found.preempted:
        parts.append(f"{len(found.preempted):,} preempted")
    drained = f" after draining {some(found.drained, 3)}" if found.drained else ""
    return f"{'; '.join(parts)}{drained} (profile {found.profile})"


def group_then(each: GroupOutcome) -> str:
    """Return the outcome for a pod group, in words."""
    if not each.pods:
        return "has no pods"
    return "starts" if each.starts else f"waits: {each.message}"


def problems(found: Outcome) -> Iterator[str]:
    """Yield what could not be done."""
    yield from (f"not simulated: {each}" for each in found.not_simulated)
    if found.lost:
        lost = "this pod" if len(found.lost) == 1 else "these pods"
        yield f"no controller creates {lost} again: {some(found.lost, 4)}"
    for budget, pods in found.overdrawn.items():
        yield f"the disruption budget {budget} forbids it, and is broken for {some(pods, 4)}"


def about_others(found: Outcome, *, only_mine: bool) -> Iterator[str]:
    """Yield lines about the pods that waited before. `only_mine`: such pods are not listed."""
    others = found.others
    if others.freed:
        yield f"{count(len(others.freed), 'pod')} that waited before would get a node by these changes"
    if others.ready:
        yield f"{count(len(others.ready), 'pod')} that waited before would get a node anyway, and did so first"
    if others.waiting:
        listed = " (--all-pods lists them)" if only_mine else ""
        yield f"{count(len(others.waiting), 'pod')} that waited before would still wait{listed}"


def changes(before: Quality, after: Quality) -> Iterator[tuple[str, str, str]]:
    """Yield (what, before, after) of a cluster."""
    yield "nodes in use", f"{before.nodes_in_use:,} of {before.nodes:,}", f"{after.nodes_in_use:,} of {after.nodes:,}"
    for name in after.allocated:
        yield f"{name} allocated", percent(before.allocated[name]), percent(after.allocated[name])
        yield f"{name} stranded", percent(before.stranded[name]), percent(after.stranded[name])


def percent(part: float) -> str:
    """Return a share as percent with one decimal."""
    return f"{100 * part:.1f} %"


def _more(rest: int) -> Iterator[RenderableType]:
    return more(rest, "-o json has them all")
