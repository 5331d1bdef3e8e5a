"""Answers as pages: self-contained, no network, dark or light as the reader's system is; only the demo's has a script.

All text is escaped on its way into a template, and a value that is missing is an error.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from podberth.explain.explanation import Explanation, FeasibleNode
from podberth.explain.gangs.answer import GroupExplanation
from podberth.explain.gangs.capacity import GangCapacity
from podberth.explain.pending import Pending
from podberth.explain.report import capacity, cluster, explanation, group, wording
from podberth.explain.report.wording import visible
from podberth.explain.simulate.capacity import Capacity
from podberth.explain.simulate.removable import Removals

_JOINT = re.compile(r"(?<=\w-)(?=\d)|(?<=\w[=:])(?=\w)")


def render(template: str, *, package: str = __package__, **values: Any) -> str:
    """Return a template with these values: a page that needs no other file and no network.

    `package`: whose it is; what it builds on is here.
    """
    environment = Environment(
        loader=ChoiceLoader([PackageLoader(each) for each in dict.fromkeys((package, __package__))]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
    )
    environment.filters["thousands"] = "{:,}".format
    environment.filters["breakable"] = breakable
    environment.policies["json.dumps_kwargs"] = {"ensure_ascii": False}  # the keys keep their order, too
    return visible(environment.get_template(template).render(**values))


def breakable(text: object) -> Markup:
    """Return a text whose names may go on in the next line after any dash, and labels and taints after their signs.

    By itself a browser takes no dash before a digit, and breaks `key=value:NoSchedule` anywhere.
    """
    return Markup(_JOINT.sub("<wbr>", escape(text)))


def demo_page(data: Mapping[str, Any]) -> str:
    """Return the page of a recording: `podberth.testing.demo.recording.page_data` makes the data."""
    return render("demo.html", data=data)


MOST = 500
"""The largest number of rows of one kind on a page."""
_OPEN = 25
"""The number of rows that are visible at once: the others are folded."""
_COLOURS = 8


def explanation_page(answer: Explanation) -> str:
    """Return the page about one decision."""
    differ, same = explanation.telling(answer)
    return render(
        "explain.html",
        answer=answer,
        wording=explanation,
        colours={scorer.plugin: i % _COLOURS for i, scorer in enumerate(answer.scorers)},
        bars={node.node: _bar(node, answer) for node in answer.feasible[:MOST]},
        feasible=in_two(answer.feasible),
        rejected=in_two(answer.rejected),
        unshown={"feasible": max(len(answer.feasible) - MOST, 0), "rejected": max(len(answer.rejected) - MOST, 0)},
        same=explanation.same_for_all(answer, same) if same and answer.feasible else "",
        differ=differ,
    )


def pending_page(answer: Pending) -> str:
    """Return the page about all waiting pods."""
    title = cluster.pending_headline(answer)
    owners_of, leads_to = cluster.owners_of, explanation.leads_to
    return render("pending.html", title=title, answer=answer, why=cluster.why, owners_of=owners_of, leads_to=leads_to)


def group_page(answer: GroupExplanation) -> str:
    """Return the page about a pod group."""
    return render(
        "group.html",
        title=group.headline(answer),
        answer=answer,
        wording=group,
        some=wording.some,
        domains=answer.domains[:MOST],
        unshown=max(len(answer.domains) - MOST, 0),
    )


def capacity_page(answer: Capacity) -> str:
    """Return the page about how many more pods fit."""
    taking = [node for node in answer.nodes if node.pods]
    return render(
        "capacity.html",
        title=capacity.headline(answer),
        asks=capacity.asks(answer),
        answer=answer,
        taking=in_two(taking),
        unshown=max(len(taking) - MOST, 0),
        most=max((node.pods for node in taking), default=1),
    )


def gang_capacity_page(answer: GangCapacity) -> str:
    """Return the page about how many more gangs fit."""
    named = [each for each in answer.domains if each.domain]
    return render(
        "gang_capacity.html",
        title=capacity.gangs_headline(answer),
        asks=capacity.gang_asks(answer),
        answer=answer,
        domains=named[:MOST],
        unshown=max(len(named) - MOST, 0),
    )


def removable_page(answer: Removals) -> str:
    """Return the page about the nodes that could be removed."""
    return render(
        "removable.html",
        title=cluster.removable_headline(answer),
        answer=answer,
        notes=cluster.notes(answer),
        lands=cluster.lands,
        stops=cluster.stops,
        most=MOST,
        removable=in_two(answer.removable),
        kept=in_two(answer.kept),
        unshown={"removable": max(len(answer.removable) - MOST, 0), "kept": max(len(answer.kept) - MOST, 0)},
    )


def in_two(rows: Sequence[Any]) -> tuple[Sequence[Any], Sequence[Any]]:
    """Return the visible rows, and the folded ones."""
    return rows[:_OPEN], rows[_OPEN:MOST]


def _bar(node: FeasibleNode, answer: Explanation) -> list[tuple[str, float]]:
    """Return (plugin, width in percent of the best total) of each plugin that gave points."""
    best = answer.feasible[0].total or 1
    return [
        (plugin, round(100 * score.weighted / best, 2)) for plugin, score in node.scores.items() if score.weighted > 0
    ]
