"""A simulation as one page: self-contained, no script, no network, dark or light as the system is."""

from podberth.explain.report import simulation_tables as words
from podberth.explain.report.pages import MOST, in_two, render
from podberth.explain.simulate.outcome import Outcome


def outcome_page(outcome: Outcome, *, only_mine: bool = True) -> str:
    """Return the page about a simulation of a cluster."""
    moved = [each for each in outcome.placed if each.was is not None]
    stuck = [each for each in outcome.waiting if each.was is not None]
    return render(
        "simulation.html",
        title=words.summary(outcome),
        good=outcome.good,
        notes=[*outcome.notes, *words.problems(outcome), *words.about_others(outcome, only_mine=only_mine)],
        workloads=outcome.workloads[:MOST],
        groups=outcome.groups[:MOST],
        group_then=words.group_then,
        moved=moved[:MOST],
        stuck=stuck[:MOST],
        blocked=outcome.blocked[:MOST],
        placed=in_two([each for each in outcome.placed if each.was is None]),
        waiting=in_two(outcome.waiting),
        preempted=outcome.preempted[:MOST],
        others=None if only_mine else outcome.others,
        unshown=max(outcome.placed_in_all - len(moved) - MOST, 0),
        changes=[
            (title, before, after, _width(before), _width(after))
            for title, before, after in words.changes(outcome.before, outcome.after)
        ],
    )


def _width(text: str) -> str | None:
    """Return the width of the bar for a percentage; None for what is no percentage."""
    return text.removesuffix(" %") if text.endswith(" %") else None
