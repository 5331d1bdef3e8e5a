"""A simulation as one page with pictures: self-contained, no script, no network, dark or light as the system is."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from podberth.explain.outcome import Outcome
from podberth.explain.replay import Point
from podberth.explain.report import simulation_tables as words
from podberth.explain.report.chart import Chart, Line, line_chart
from podberth.explain.report.rendering import render
from podberth.explain.study import Study

_MANY, _OPEN = 500, 25


def outcome_page(outcome: Outcome, *, only_mine: bool = True) -> str:
    """Return what would happen on a cluster."""
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
    """Return what a trace showed, for each profile."""
    return render(
        "trace.html",
        title=f"{study.pods:,} pods on {study.nodes:,} nodes",
        profiles=[each.profile for each in study.profiles],
        figures=list(words.figures(study)),
        footnote=words.footnote(study),
        charts=list(_charts(study)),
    )


def _charts(study: Study) -> Iterator[Chart]:
    for name in study.profiles[0].saturation.end.allocated:
        for share in ("allocated", "stranded"):
            yield _saturation(study, f"{words.short(name)} {share}", _share_of(name, share))
    yield _saturation(study, "nodes in use", lambda point: point.quality.nodes_in_use, counts=True)
    if any(each.departures is not None for each in study.profiles):
        yield _departures(study, "nodes in use", lambda point: point.quality.nodes_in_use)
        yield _departures(study, "pods that wait", lambda point: point.waiting)


def _share_of(resource: str, share: str) -> Callable[[Point], float]:
    return lambda point: getattr(point.quality, share)[resource]


def _saturation(study: Study, what: str, value: Callable[[Point], float], *, counts: bool = False) -> Chart:
    lines = [Line(each.profile, [(p.x, value(p)) for p in each.saturation.points]) for each in study.profiles]
    measure = words.measured(study)
    return line_chart(f"Saturation: {what}", f"{measure} asked for / {measure} there", lines, counts=counts)


def _departures(study: Study, what: str, value: Callable[[Point], float]) -> Chart:
    """By the part of the events gone by: arrivals crowd at the end of the published time."""
    lines = []
    for each in study.profiles:
        if each.departures is not None:
            points = each.departures.points
            last = max(len(points) - 1, 1)
            lines.append(Line(each.profile, [(i / last, value(point)) for i, point in enumerate(points)]))
    return line_chart(f"Arrivals and departures: {what}", "event", lines, counts=True)


def _width(text: str) -> str | None:
    """The width of the bar for a percentage; None for what is no percentage."""
    return text.removesuffix(" %") if text.endswith(" %") else None
