"""How many more pods fit, as one page: self-contained, no script, no network."""

from scheduler.report.capacity_table import asks, headline
from scheduler.report.rendering import templates
from scheduler.whatif.capacity import Capacity

_MANY = 500


def page(answer: Capacity) -> str:
    """The page; all text is escaped on its way into it."""
    taking = [node for node in answer.nodes if node.pods]
    return (
        templates()
        .get_template("capacity.html")
        .render(
            title=headline(answer),
            asks=asks(answer),
            answer=answer,
            taking=taking[:_MANY],
            unshown=max(len(taking) - _MANY, 0),
            most=max((node.pods for node in taking), default=1),
        )
    )
