"""A simulation as one page with pictures: self-contained, no script, no network, dark or light as the system is.

Line charts are inline SVG: points scaled into a box, with axes and a few ticks. Colours come from the page's CSS.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from podberth.explain.report import simulation_tables as words
from podberth.explain.report.pages import MOST, in_two, render
from podberth.explain.simulate.outcome import Outcome
from podberth.explain.simulate.trace import Point, Study

WIDTH, HEIGHT = 640, 240
_LEFT, _RIGHT, _TOP, _BOTTOM = 52, 24, 12, 34


@dataclass(frozen=True)
class Line:
    """A named series of (x, y)."""

    name: str
    points: Sequence[tuple[float, float]]


@dataclass(frozen=True)
class Tick:
    """A mark on an axis, in pixels, and its text."""

    at: float
    text: str


@dataclass(frozen=True)
class Chart:
    """Lines in one box, ready for the template: `paths` are `points` attributes of SVG polylines."""

    title: str
    x_title: str
    paths: Sequence[tuple[str, str]]
    x_ticks: Sequence[Tick]
    y_ticks: Sequence[Tick]
    width: int = WIDTH
    height: int = HEIGHT
    left: int = _LEFT
    right: int = WIDTH - _RIGHT
    bottom: int = HEIGHT - _BOTTOM


def line_chart(title: str, x_title: str, lines: Sequence[Line], *, counts: bool = False) -> Chart:
    """Return a chart: x in percent, from the first point to the last; y in counts or percent, from 0."""
    xs = [x for line in lines for x, _ in line.points] or [0.0]
    ys = [y for line in lines for _, y in line.points] or [0.0]
    low, high = min(xs), max(xs)
    y_step = max(_step(max(ys)), 1 if counts else 0.01)
    top = y_step * max(math.ceil(max(ys) / y_step - 1e-9), 1)
    y_format = "{:,.0f}" if counts else "{:.0%}"
    wide, tall = WIDTH - _LEFT - _RIGHT, HEIGHT - _TOP - _BOTTOM

    def across(x: float) -> float:
        return _LEFT + wide * (x - low) / ((high - low) or 1)

    def up(y: float) -> float:
        return _TOP + tall * (1 - y / top)

    return Chart(
        title=title,
        x_title=x_title,
        paths=[(line.name, " ".join(f"{across(x):.1f},{up(y):.1f}" for x, y in line.points)) for line in lines],
        x_ticks=[Tick(across(x), f"{x:.0%}") for x in _multiples(max(_step(high - low), 0.01), low, high)],
        y_ticks=[Tick(up(y), y_format.format(y)) for y in _multiples(y_step, 0.0, top)],
    )


def _step(span: float) -> float:
    """Return the least of 1, 2, 5 × 10ⁿ, at least a millionth, that divides a span into at most five parts."""
    wanted = max(span / 5, 1e-6)
    power: float = 10 ** math.floor(math.log10(wanted))
    return next(power * times for times in (1, 2, 5, 10) if power * times >= wanted * (1 - 1e-9))


def _multiples(step: float, low: float, high: float) -> Sequence[float]:
    return [step * i for i in range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)]


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


def study_page(study: Study) -> str:
    """Return the page about a trace, for each profile."""
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
    """Return a chart over the events in their order: by time, arrivals crowd at the end of what was published."""
    lines = []
    for each in study.profiles:
        if each.departures is not None:
            points = each.departures.points
            last = max(len(points) - 1, 1)
            lines.append(Line(each.profile, [(i / last, value(point)) for i, point in enumerate(points)]))
    return line_chart(f"Arrivals and departures: {what}", "event", lines, counts=True)


def _width(text: str) -> str | None:
    """Return the width of the bar for a percentage; None for what is no percentage."""
    return text.removesuffix(" %") if text.endswith(" %") else None
