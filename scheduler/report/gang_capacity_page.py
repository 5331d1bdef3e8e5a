"""How many more gangs fit, as one page: self-contained, no script, no network."""

from scheduler.report.gang_capacity_table import asks, headline
from scheduler.report.rendering import templates
from scheduler.whatif.gangs.capacity import GangCapacity

_MANY = 500


def gang_capacity_page(answer: GangCapacity) -> str:
    """The page; all text is escaped on its way into it."""
    template = templates().get_template("gang_capacity.html")
    named = [each for each in answer.domains if each.domain]
    return template.render(
        title=headline(answer),
        asks=asks(answer),
        answer=answer,
        domains=named[:_MANY],
        unshown=max(len(named) - _MANY, 0),
    )
