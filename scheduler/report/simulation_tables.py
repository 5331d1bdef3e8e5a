"""A simulation on a terminal: what would happen on a cluster, or what a trace showed."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.box import SIMPLE_HEAD
from rich.console import Console, ConsoleOptions, RenderableType
from rich.table import Table
from rich.text import Text

from scheduler.report.wording import count, printable, some
from scheduler.whatif.plan import Outcome
from scheduler.whatif.quality import Quality
from scheduler.whatif.replay import Compaction
from scheduler.whatif.study import ProfileStudy, Study

_MANY = 20


@dataclass
class OutcomeTable:
    """Where the pods go, which pods wait and why, and how the cluster changes."""

    outcome: Outcome

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        found = self.outcome
        yield Text(printable(summary(found)), style="bold red" if found.waiting else "bold green")
        for note in found.notes:
            yield Text(f"  {printable(note)}", style="yellow")
        if found.lost:
            yield Text(f"  no controller creates these pods again: {printable(some(found.lost, 4))}", style="yellow")
        if found.placed:
            table = _table("Node", "Pods", "Which")
            by_node = Counter(placed.node for placed in found.placed)
            for node, number in by_node.most_common(_MANY):
                names = [placed.pod for placed in found.placed if placed.node == node]
                table.add_row(printable(node), f"{number:,}", printable(some(names, 3)))
            yield table
            if len(by_node) > _MANY:
                yield Text(f"  … {len(by_node) - _MANY:,} more nodes (-o json has them all)", style="dim")
        if found.waiting:
            table = _table("Waiting", "Pods", "Why")
            reasons = Counter(waiting.message for waiting in found.waiting)
            for message, number in reasons.most_common(_MANY):
                names = [waiting.pod for waiting in found.waiting if waiting.message == message]
                table.add_row(printable(some(names, 2)), f"{number:,}", printable(message))
            yield table
        if found.preempted:
            table = _table("Preempted", "On", "For")
            for victim in found.preempted[:_MANY]:
                table.add_row(printable(victim.pod), printable(victim.node), printable(victim.by))
            yield table
        table = _table("The cluster", "before", "after")
        for title, before, after in changes(found.before, found.after):
            table.add_row(title, before, after)
        yield table


@dataclass
class StudyTable:
    """A trace's figures, a column a profile."""

    study: Study

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        found = self.study
        yield Text(f"{found.pods:,} pods on {found.nodes:,} nodes", style="bold")
        table = _table("", *(printable(each.profile) for each in found.profiles))
        for title, cells in figures(found):
            table.add_row(title, *cells, style="bold" if not any(cells) else "")
        yield table
        yield Text(f"  {footnote(found)}", style="dim")


def summary(found: Outcome) -> str:
    """One line."""
    moved = sum(placed.was is not None for placed in found.placed)
    parts = [f"{count(len(found.placed), 'pod')} placed" + (f", {moved:,} of them moved" if moved else "")]
    if found.waiting:
        parts.append(f"{len(found.waiting):,} without a node")
    if found.preempted:
        parts.append(f"{len(found.preempted):,} preempted")
    drained = f" after draining {some(found.drained, 3)}" if found.drained else ""
    return f"{'; '.join(parts)}{drained} (profile {found.profile})"


def changes(before: Quality, after: Quality) -> Iterator[tuple[str, str, str]]:
    """(what, before, after) of a cluster."""
    yield "nodes in use", f"{before.nodes_in_use:,} of {before.nodes:,}", f"{after.nodes_in_use:,} of {after.nodes:,}"
    for name in after.allocated:
        yield f"{name} allocated", percent(before.allocated[name]), percent(after.allocated[name])
        yield f"{name} stranded", percent(before.stranded[name]), percent(after.stranded[name])


def figures(study: Study) -> Iterator[tuple[str, Sequence[str]]]:
    """Rows of a study: a title, and a cell for each profile; empty where a profile has no such figure."""
    profiles = study.profiles
    yield f"Saturation, to {study.load:.0%} of all GPUs asked for", [""] * len(profiles)
    yield "pods placed", [f"{each.saturation.placed:,} of {each.saturation.arrived:,}" for each in profiles]
    ends = [each.saturation.end for each in profiles]
    yield "nodes in use", [f"{end.nodes_in_use:,}" for end in ends]
    for name in ends[0].allocated:
        yield f"{short(name)} allocated", [percent(end.allocated[name]) for end in ends]
        yield f"{short(name)} stranded", [percent(end.stranded[name]) for end in ends]
        yield f"{short(name)} load, std. deviation", [percent(end.load_spread[name]) for end in ends]
    yield "regret, points a decision", [_regret(each) for each in profiles]
    yield "not the best node", [percent(each.regret.missed / max(each.regret.decisions, 1)) for each in profiles]
    if not any(each.departures for each in profiles):
        return
    yield f"Arrivals and departures, lifetimes × {study.stretch:,.0f}", [""] * len(profiles)
    runs = [each.departures for each in profiles]
    yield "pods placed", [f"{run.placed:,} of {run.arrived:,}" if run else "" for run in runs]
    yield "most waiting at a look", [f"{max(p.waiting for p in run.points):,}" if run else "" for run in runs]
    yield "nodes in use at the most pods", [f"{run.end.nodes_in_use:,}" if run else "" for run in runs]
    for name in ends[0].allocated:
        yield (
            f"{short(name)} stranded at the most pods",
            [percent(run.end.stranded[name]) if run else "" for run in runs],
        )
    fewest = [each.compaction for each in profiles]
    pods = next(each.pods for each in fewest if each)
    yield "Compaction", [""] * len(profiles)
    yield f"nodes that hold the {pods:,} pods", [_fewest(each) for each in fewest]


def footnote(study: Study) -> str:
    """What has to be known to read the figures."""
    return (
        "Stranded: free room that pods of the trace which would fit on the empty node can't use now. Regret: best "
        "total of the profile's scores over all nodes minus that of the chosen node; of schedulers recorded elsewhere "
        f"by the default profile's scores. As published, at most {study.together:,} pods of the trace are there "
        "together."
    )


def short(resource: str) -> str:
    """A resource's name without its domain."""
    return {"cpu": "CPU"}.get(resource, resource.rpartition("/")[2].removesuffix("-milli").replace("gpu", "GPU"))


def percent(part: float) -> str:
    """One decimal."""
    return f"{100 * part:.1f} %"


def _fewest(found: Compaction | None) -> str:
    if found is None:
        return ""
    return f"more than {found.of:,}" if found.nodes is None else f"{found.nodes:,} of {found.of:,}"


def _regret(each: ProfileStudy) -> str:
    return f"{each.regret.total / max(each.regret.decisions, 1):.2f}"


def _table(*titles: str) -> Table:
    table = Table(box=SIMPLE_HEAD, header_style="dim", pad_edge=False, show_edge=False)
    for i, title in enumerate(titles):
        table.add_column(title, overflow="fold", justify="left" if i == 0 or len(titles) == 3 else "right")
    return table
