"""Why a pod group starts or not, as one page: self-contained, no script, no network."""

from scheduler.report import group_wording as wording
from scheduler.report.rendering import templates
from scheduler.report.wording import some
from scheduler.whatif.gangs.answer import GroupExplanation

_MANY = 500


def group_page(answer: GroupExplanation) -> str:
    """The page; all text is escaped on its way into it."""
    template = templates().get_template("group.html")
    return template.render(
        title=wording.headline(answer),
        answer=answer,
        wording=wording,
        some=some,
        domains=answer.domains[:_MANY],
        unshown=max(len(answer.domains) - _MANY, 0),
    )
