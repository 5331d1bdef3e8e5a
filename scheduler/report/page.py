"""An explanation as one page: self-contained, no script, no network, dark or light as the reader's system is."""

from collections.abc import Sequence
from typing import Any

from scheduler.report import wording
from scheduler.report.rendering import templates
from scheduler.whatif.explanation import Explanation, FeasibleNode

_MOST = 500
"""Nodes of each kind on the page."""
_OPEN = 25
"""Of these, the ones in sight."""
_COLOURS = 8


def page(answer: Explanation) -> str:
    """The page; all text is escaped on its way into it."""
    environment = templates()
    differ, same = wording.telling(answer)
    return environment.get_template("explain.html").render(
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


def _in_two(nodes: Sequence[Any]) -> tuple[Sequence[Any], Sequence[Any]]:
    """Those in sight, and those behind a fold."""
    return nodes[:_OPEN], nodes[_OPEN:_MOST]


def _bar(node: FeasibleNode, answer: Explanation) -> list[tuple[str, float]]:
    """(plugin, width in percent of the best total) of each plugin that gave points."""
    best = answer.feasible[0].total or 1
    return [
        (plugin, round(100 * score.weighted / best, 2)) for plugin, score in node.scores.items() if score.weighted > 0
    ]
