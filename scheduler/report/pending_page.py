"""Why several pods wait, as one page: self-contained, no script, no network."""

from scheduler.report.pending_table import headline, owners_of
from scheduler.report.rendering import templates
from scheduler.report.wording import leads_to
from scheduler.whatif.pending import Pending


def pending_page(answer: Pending) -> str:
    """The page; all text is escaped on its way into it."""
    template = templates().get_template("pending.html")
    return template.render(title=headline(answer), answer=answer, owners_of=owners_of, leads_to=leads_to)
