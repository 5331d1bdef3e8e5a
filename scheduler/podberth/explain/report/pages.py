"""Answers as pages: self-contained, no script, no network, dark or light as the reader's system is."""

from collections.abc import Sequence
from typing import Any

from podberth.explain.capacity import Capacity
from podberth.explain.explanation import Explanation, FeasibleNode
from podberth.explain.gangs.answer import GroupExplanation
from podberth.explain.gangs.capacity import GangCapacity
from podberth.explain.pending import Pending
from podberth.explain.removable import Removals
from podberth.explain.report import (
    capacity_table,
    gang_capacity_table,
    group_wording,
    pending_table,
    removable_table,
    wording,
)
from podberth.explain.report.rendering import render

_MOST = 500
"""Nodes of each kind, or domains, on a page."""
_OPEN = 25
"""How many nodes, or domains, are in sight: the others are behind a fold."""
_COLOURS = 8


def explanation_page(answer: Explanation) -> str:
    """Return why a pod goes where it goes, or nowhere."""
    differ, same = wording.telling(answer)
    return render(
        "explain.html",
        answer=answer,
        wording=wording,
        colours={scorer.plugin: i % _COLOURS for i, scorer in enumerate(answer.scorers)},
        bars={node.node: _bar(node, answer) for node in answer.feasible[:_MOST]},
        feasible=_in_two(answer.feasible),
        rejected=_in_two(answer.rejected),
        unshown={"feasible": max(len(answer.feasible) - _MOST, 0), "rejected": max(len(answer.rejected) - _MOST, 0)},
        same=wording.same_for_all(answer, same) if same and answer.feasible else "",
        differ=differ,
    )


def pending_page(answer: Pending) -> str:
    """Return why several pods wait."""
    title = pending_table.headline(answer)
    owners_of, leads_to = pending_table.owners_of, wording.leads_to
    return render("pending.html", title=title, answer=answer, owners_of=owners_of, leads_to=leads_to)


def group_page(answer: GroupExplanation) -> str:
    """Return why a pod group starts or not."""
    return render(
        "group.html",
        title=group_wording.headline(answer),
        answer=answer,
        wording=group_wording,
        some=wording.some,
        domains=answer.domains[:_MOST],
        unshown=max(len(answer.domains) - _MOST, 0),
    )


def capacity_page(answer: Capacity) -> str:
    """Return how many more pods fit."""
    taking = [node for node in answer.nodes if node.pods]
    return render(
        "capacity.html",
        title=capacity_table.headline(answer),
        asks=capacity_table.asks(answer),
        answer=answer,
        taking=_in_two(taking),
        unshown=max(len(taking) - _MOST, 0),
        most=max((node.pods for node in taking), default=1),
    )


def gang_capacity_page(answer: GangCapacity) -> str:
    """Return how many more gangs fit."""
    named = [each for each in answer.domains if each.domain]
    return render(
        "gang_capacity.html",
        title=gang_capacity_table.headline(answer),
        asks=gang_capacity_table.asks(answer),
        answer=answer,
        domains=named[:_MOST],
        unshown=max(len(named) - _MOST, 0),
    )


def removable_page(answer: Removals) -> str:
    """Return which nodes could be removed."""
    return render(
        "removable.html",
        title=removable_table.headline(answer),
        answer=answer,
        notes=removable_table.notes(answer),
        lands=removable_table.lands,
        stops=removable_table.stops,
        most=_MOST,
        removable=_in_two(answer.removable),
        kept=_in_two(answer.kept),
        unshown={"removable": max(len(answer.removable) - _MOST, 0), "kept": max(len(answer.kept) - _MOST, 0)},
    )


def _in_two(nodes: Sequence[Any]) -> tuple[Sequence[Any], Sequence[Any]]:
    """The nodes in sight, and the ones behind a fold."""
    return nodes[:_OPEN], nodes[_OPEN:_MOST]


def _bar(node: FeasibleNode, answer: Explanation) -> list[tuple[str, float]]:
    """(plugin, width in percent of the best total) of each plugin that gave points."""
    best = answer.feasible[0].total or 1
    return [
        (plugin, round(100 * score.weighted / best, 2)) for plugin, score in node.scores.items() if score.weighted > 0
    ]
