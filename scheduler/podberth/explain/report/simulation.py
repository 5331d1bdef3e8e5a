"""Says what would happen on a cluster."""

from collections.abc import Iterator
from typing import Any

from podberth.explain.report.parts import BAD, GOOD, IN_JSON, Cell, Column, Report, Rows, line
from podberth.explain.report.wording import count, most_first, percent, some
from podberth.explain.simulate.outcome import GroupOutcome, Outcome, Placed, Quality, WorkloadOutcome

_MANY = 20
_FEW = 4


def report(found: Outcome, *, only_mine: bool = True) -> Report:
    """Return the nodes where pods go, the pods that wait and why, and how the cluster changes.

    `only_mine`: without the pods that waited before.
    """
    parts: list[Rows[Any]] = [
        _texts("Drained pod", ["From", "To"], [*_moves(found)]),
        _workloads(found),
        _groups(found),
        _texts("Pod", ["On", "Claim", "Gets"], [*_devices(found)], heading="Devices of their claims"),
        Rows(
            "Pods without a node",
            [Column("Waiting", called="Pod"), Column("Pods", number=True), Column("Why")],
            found.waiting,
            lambda each: (each.pod, f"{each.pods:,}", each.message),
            most=_MANY,
            how=IN_JSON,
        ),
        _texts("Preempted", ["On", "For"], [(each.pod, each.node, each.by) for each in found.preempted]),
        _texts("Waited before", ["Now"], [] if only_mine else [*_others(found)]),
        Rows(
            "The cluster",
            [Column("The cluster", called="What"), Column("before", number=True), Column("after", number=True)],
            [*_changes(found.before, found.after)],
            lambda each: each,
        ),
    ]
    placed = [each for each in found.placed if each.was is None]
    beyond = found.placed_in_all - len(found.placed)
    where = Rows("Where the pods go", [Column("Pod"), Column("Node")], placed, _placed, beyond=beyond)
    notes = (*found.notes, *_problems(found), *_about_others(found, only_mine=only_mine))
    return Report(
        by="Berth simulate",
        headline=_summary(found),
        verdict=GOOD if found.good else BAD,
        lines=[line(note, "yellow") for note in notes],
        parts=parts,
        on_page=[where],
        foot="Nothing was written: the scheduler's own engine ran on the cluster as it was.",
    )


def _texts(first: str, others: list[str], rows: list[tuple[str, ...]], heading: str = "") -> Rows[tuple[str, ...]]:
    """Return a table of texts; its heading is as a rule the title of its first column."""
    columns = [Column(first, called="Pod"), *map(Column, others)]
    return Rows(heading or first, columns, rows, lambda row: row, most=_MANY, how=IN_JSON)


def _moves(found: Outcome) -> Iterator[tuple[str, str, str]]:
    """Yield the pods that leave the drained nodes, and their new nodes."""
    if found.drained:
        yield from ((each.pod, each.was, each.node) for each in found.placed if each.was is not None)
        yield from ((each.pod, each.was, "no node") for each in found.waiting if each.was is not None)
        yield from ((each.pod, each.node, f"stays: {' and '.join(each.budgets)}") for each in found.blocked)


def _workloads(found: Outcome) -> Rows[WorkloadOutcome]:
    def cells(each: WorkloadOutcome) -> tuple[str, ...]:
        where = most_first(each.nodes).items()
        nodes = some([f"{node} ({number:,})" if number > 1 else node for node, number in where], _FEW)
        return each.workload, f"{each.wanted:,}", f"{each.placed:,}", f"{each.waiting:,}", nodes

    counts = [Column(title, number=True) for title in ("Pods", "Placed", "Without")]
    columns = [Column("Workload"), *counts, Column("Nodes")]
    return Rows("Workloads", columns, found.workloads, cells, most=_MANY, how=IN_JSON)


def _groups(found: Outcome) -> Rows[GroupOutcome]:
    def cells(each: GroupOutcome) -> tuple[str, ...]:
        together = "" if each.min_count is None else f"{each.min_count:,}"
        return each.group, f"{each.pods:,}", f"{each.bound:,}", together, _group_then(each)

    counts = [Column(title, number=True) for title in ("Pods", "Placed", "Together")]
    columns = [Column("Pod group"), *counts, Column("Then")]
    return Rows("Pod groups", columns, found.groups, cells, most=_MANY, how=IN_JSON)


def _devices(found: Outcome) -> Iterator[tuple[str, ...]]:
    """Yield the devices that the claims of placed pods get."""
    for each in found.placed:
        for claim, devices in each.devices.items():
            yield each.pod, each.node, claim, some(devices, _FEW)


def _others(found: Outcome) -> Iterator[tuple[str, str]]:
    others = found.others
    yield from ((each.pod, f"on {each.node}, by these changes") for each in others.freed)
    yield from ((each.pod, f"on {each.node}, as it would be anyway") for each in others.ready)
    yield from ((each.pod, f"waits: {each.message}") for each in others.waiting)


def _placed(each: Placed) -> tuple[Cell, ...]:
    later = " once its volumes are made" if each.waits_for_volumes else ""
    return each.pod, line(each.node).append(later, style="dim")


def _summary(found: Outcome) -> str:
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


def _group_then(each: GroupOutcome) -> str:
    """Return the outcome for a pod group, in words."""
    if not each.pods:
        return "has no pods"
    return "starts" if each.starts else f"waits: {each.message}"


def _problems(found: Outcome) -> Iterator[str]:
    """Yield what could not be done."""
    yield from (f"not simulated: {each}" for each in found.not_simulated)
    if found.lost:
        lost = "this pod" if len(found.lost) == 1 else "these pods"
        yield f"no controller creates {lost} again: {some(found.lost, 4)}"
    for budget, pods in found.overdrawn.items():
        yield f"the disruption budget {budget} forbids it, and is broken for {some(pods, 4)}"


def _about_others(found: Outcome, *, only_mine: bool) -> Iterator[str]:
    """Yield lines about the pods that waited before. `only_mine`: such pods are not listed."""
    others = found.others
    if others.freed:
        yield f"{count(len(others.freed), 'pod')} that waited before would get a node by these changes"
    if others.ready:
        yield f"{count(len(others.ready), 'pod')} that waited before would get a node anyway, and did so first"
    if others.waiting:
        listed = " (--all-pods lists them)" if only_mine else ""
        yield f"{count(len(others.waiting), 'pod')} that waited before would still wait{listed}"


def _changes(before: Quality, after: Quality) -> Iterator[tuple[str, str, str]]:
    """Yield (what, before, after) of a cluster."""
    yield "nodes in use", f"{before.nodes_in_use:,} of {before.nodes:,}", f"{after.nodes_in_use:,} of {after.nodes:,}"
    for name in after.allocated:
        yield f"{name} allocated", percent(before.allocated[name]), percent(after.allocated[name])
        yield f"{name} stranded", percent(before.stranded[name]), percent(after.stranded[name])
