"""A simulation as one page with pictures: self-contained, no script, no network, dark or light as the system is."""

from collections.abc import Sequence
from typing import Any

from scheduler.report import simulation_tables as words
from scheduler.report.chart import Chart, Line, line_chart
from scheduler.report.rendering import render
from scheduler.whatif.outcome import Outcome
from scheduler.whatif.replay import Run
from scheduler.whatif.study import Study

_MANY, _OPEN = 500, 25


def outcome_page(outcome: Outcome, *, only_mine: bool = True) -> str:
    """What would happen on a cluster."""
    moved = [each for each in outcome.placed if each.was is not None]
    stuck = [each for each in outcome.waiting if each.was is not None]
    return render(
        "simulation.html",
        title=words.summary(outcome),
        good=outcome.good,
        notes=[*outcome.notes, *words.problems(outcome), *words.about_others(outcome, only_mine=only_mine)],
        workloads=outcome.workloads[:_MANY],
        groups=outcome.groups[:_MANY],
        group_then=words.group_then,
        moved=moved[:_MANY],
        stuck=stuck[:_MANY],
        blocked=outcome.blocked[:_MANY],
        placed=_in_two([each for each in outcome.placed if each.was is None]),
        waiting=_in_two(outcome.waiting),
        preempted=outcome.preempted[:_MANY],
        others=None if only_mine else outcome.others,
        unshown=max(outcome.placed_in_all - len(moved) - _MANY, 0),
        changes=[
            (title, before, after, _width(before), _width(after))
            for title, before, after in words.changes(outcome.before, outcome.after)
        ],
    )


def _in_two(rows: Sequence[Any]) -> tuple[Sequence[Any], Sequence[Any]]:
    """Those in sight, and those behind a fold."""
    return rows[:_OPEN], rows[_OPEN:_MANY]


def study_page(study: Study) -> str:
    """What a trace showed, for each profile."""
    return render(
        "trace.html",
        title=f"{study.pods:,} pods on {study.nodes:,} nodes",
        profiles=[each.profile for each in study.profiles],
        figures=list(words.figures(study)),
        footnote=words.footnote(study),
        charts=list(_charts(study)),
    )


def _charts(study: Study) -> list[Chart]:
    saturations = [(each.profile, each.saturation) for each in study.profiles]
    departures = [(each.profile, each.departures) for each in study.profiles if each.departures is not None]
    names = list(study.profiles[0].saturation.end.allocated)
    charts = []
    for name in names:
        what = words.short(name)
        charts.append(
            line_chart(
                f"Saturation: {what} allocated",
                "GPU asked for / GPU there",
                [Line(who, [(p.x, p.quality.allocated[name]) for p in run.points]) for who, run in saturations],
            )
        )
        charts.append(
            line_chart(
                f"Saturation: {what} stranded",
                "GPU asked for / GPU there",
                [Line(who, [(p.x, p.quality.stranded[name]) for p in run.points]) for who, run in saturations],
            )
        )
    charts.append(
        line_chart(
            "Saturation: nodes in use",
            "GPU asked for / GPU there",
            [Line(who, [(p.x, p.quality.nodes_in_use) for p in run.points]) for who, run in saturations],
            counts=True,
        )
    )
    if departures:
        charts.append(
            line_chart(
                "Arrivals and departures: nodes in use",
                "event",
                [Line(who, _by_event(run, "in use")) for who, run in departures],
                counts=True,
            )
        )
        charts.append(
            line_chart(
                "Arrivals and departures: pods that wait",
                "event",
                [Line(who, _by_event(run, "waiting")) for who, run in departures],
                counts=True,
            )
        )
    return charts


def _by_event(run: Run, what: str) -> list[tuple[float, float]]:
    """By the part of the events gone by: arrivals crowd at the end of the published time."""
    last = max(len(run.points) - 1, 1)
    return [(i / last, p.quality.nodes_in_use if what == "in use" else p.waiting) for i, p in enumerate(run.points)]


def _width(text: str) -> str | None:
    """The bar of a percentage."""
    return text.removesuffix(" %") if text.endswith(" %") else None
