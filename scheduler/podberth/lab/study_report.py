"""A study as a table for a terminal, and as a page with pictures: self-contained, no script, no network.

Line charts are inline SVG: points scaled into a box, with axes and a few ticks. Colours come from the page's CSS.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean, pstdev

from rich.console import Console, ConsoleOptions, RenderableType
from rich.text import Text

from podberth.explain.report.pages import render
from podberth.explain.report.terminal import number, plain_table
from podberth.explain.report.wording import duration, percent, printable
from podberth.lab.study import Compaction, Point, ProfileStudy, Study

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
    """Return a chart with the x axis, in percent, from the first point to the last; the y axis, counts or percent, from
    0.
    """
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
    """Return the least of 1, 2 or 5 times a power of ten that divides a span into five parts at most; at least a
    millionth.
    """
    wanted = max(span / 5, 1e-6)
    power: float = 10 ** math.floor(math.log10(wanted))
    return next(power * times for times in (1, 2, 5, 10) if power * times >= wanted * (1 - 1e-9))


def _multiples(step: float, low: float, high: float) -> Sequence[float]:
    return [step * i for i in range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)]


@dataclass
class StudyTable:
    """A trace's figures, a column a profile."""

    study: Study

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        found = self.study
        yield Text(f"{found.pods:,} pods on {found.nodes:,} nodes", style="bold")
        table = plain_table("", *(number(printable(each.profile)) for each in found.profiles))
        for title, cells in figures(found):
            table.add_row(title, *cells, style="bold" if not any(cells) else "")
        yield table
        if found.shares:
            table = plain_table(shares_title(found), *(number(printable(each.profile)) for each in found.shares))
            for title, cells in share_figures(found):
                table.add_row(title, *cells)
            yield table
        yield Text(f"  {footnote(found)}", style="dim")


def figures(study: Study) -> Iterator[tuple[str, Sequence[str]]]:
    """Yield rows of a study: a title, and a cell for each profile; empty where a profile has no such figure."""
    profiles = study.profiles
    yield f"Saturation, to {study.load:.0%} of all {measured(study)} asked for", [""] * len(profiles)
    yield "pods placed", [f"{each.saturation.placed:,} of {each.saturation.arrived:,}" for each in profiles]
    ends = [each.saturation.end for each in profiles]
    yield "nodes in use", [f"{end.nodes_in_use:,}" for end in ends]
    for name in ends[0].allocated:
        yield f"{short(name)} allocated", [percent(end.allocated[name]) for end in ends]
        yield f"{short(name)} stranded", [percent(end.stranded[name]) for end in ends]
        yield f"{short(name)} load, std. deviation", [percent(end.load_spread[name]) for end in ends]
    yield "regret, points a decision", [_regret(each) for each in profiles]
    yield "not the best node", [percent(each.regret.missed / max(each.regret.decisions, 1)) for each in profiles]
    if not any(each.departures for each in profiles):
        return
    yield f"Arrivals and departures, lifetimes × {study.stretch:,.0f}", [""] * len(profiles)
    runs = [each.departures for each in profiles]
    yield "pods placed", [f"{run.placed:,} of {run.arrived:,}" if run else "" for run in runs]
    yield "pods that waited and got a node", [f"{run.waits.waited:,}" if run and run.waits else "" for run in runs]
    for name, of in (("median", "median"), ("99 %", "p99"), ("longest", "longest")):
        yield f"wait for a node, {name}", [_wait(getattr(run.waits, of)) if run and run.waits else "" for run in runs]
    yield "most waiting at a look", [f"{max(p.waiting for p in run.points):,}" if run else "" for run in runs]
    yield "nodes in use at the most pods", [f"{run.end.nodes_in_use:,}" if run else "" for run in runs]
    for name in ends[0].allocated:
        yield (
            f"{short(name)} stranded at the most pods",
            [percent(run.end.stranded[name]) if run else "" for run in runs],
        )
    fewest = [each.compaction for each in profiles]
    pods = next(each.pods for each in fewest if each)
    yield "Compaction", [""] * len(profiles)
    yield f"nodes that hold the {pods:,} pods", [_fewest(each) for each in fewest]


def share_figures(study: Study) -> Iterator[tuple[str, Sequence[str]]]:
    """Yield rows of the inflations: a title, and a cell for each of their profiles, means over the seeds."""
    runs = study.shares
    yield "pods placed", [f"{fmean(each.placed):,.0f} of {fmean(each.pods):,.0f}" for each in runs]
    yield "GPUs allocated", [_spread(each.allocated) for each in runs]
    yield "GPUs idle and fragmented", [_spread(each.fragmented) for each in runs]


def shares_title(study: Study) -> str:
    """Return the title of the inflations' figures."""
    seeds = len(study.shares[0].allocated)
    return f"Shares of single GPUs: tasks ask for {study.load:.0%} of all, {seeds} random order{'s' * (seeds > 1)}"


def _spread(shares: Sequence[float]) -> str:
    """Return the mean, and with several values their standard deviation."""
    return percent(fmean(shares)) + (f" ± {100 * pstdev(shares):.1f}" if len(shares) > 1 else "")


def footnote(study: Study) -> str:
    """Return the note under the figures that explains them."""
    return (
        "Stranded: free room that pods of the trace which would fit on the empty node can't use now. Regret: best "
        "total of the profile's scores over all nodes minus that of the chosen node; of schedulers recorded elsewhere "
        f"by the default profile's scores. As published, at most {study.together:,} pods of the trace are there "
        "together."
    )


def short(resource: str) -> str:
    """Return a resource's name without its domain."""
    return {"cpu": "CPU"}.get(resource, resource.rpartition("/")[2].removesuffix("-milli").replace("gpu", "GPU"))


def measured(study: Study) -> str:
    """Return the resource by which the load of a trace is measured."""
    name = short(study.measure)
    return "GPUs" if name == "GPU" else name or "resources"


def _wait(seconds: float) -> str:
    return duration(seconds) if seconds else "0 s"


def _fewest(found: Compaction | None) -> str:
    if found is None:
        return ""
    return f"more than {found.of:,}" if found.nodes is None else f"{found.nodes:,} of {found.of:,}"


def _regret(each: ProfileStudy) -> str:
    return f"{each.regret.total / max(each.regret.decisions, 1):.2f}"


def study_page(study: Study) -> str:
    """Return the page about a trace, for each profile."""
    return render(
        "trace.html",
        title=f"{study.pods:,} pods on {study.nodes:,} nodes",
        profiles=[each.profile for each in study.profiles],
        figures=list(figures(study)),
        shares_title=shares_title(study) if study.shares else "",
        shares=[each.profile for each in study.shares],
        share_figures=list(share_figures(study)) if study.shares else [],
        footnote=footnote(study),
        charts=list(_charts(study)),
    )


def _charts(study: Study) -> Iterator[Chart]:
    for name in study.profiles[0].saturation.end.allocated:
        for share in ("allocated", "stranded"):
            yield _saturation(study, f"{short(name)} {share}", _share_of(name, share))
    yield _saturation(study, "nodes in use", lambda point: point.quality.nodes_in_use, counts=True)
    if any(each.departures is not None for each in study.profiles):
        yield _departures(study, "nodes in use", lambda point: point.quality.nodes_in_use)
        yield _departures(study, "pods that wait", lambda point: point.waiting)


def _share_of(resource: str, share: str) -> Callable[[Point], float]:
    return lambda point: getattr(point.quality, share)[resource]


def _saturation(study: Study, what: str, value: Callable[[Point], float], *, counts: bool = False) -> Chart:
    lines = [Line(each.profile, [(p.x, value(p)) for p in each.saturation.points]) for each in study.profiles]
    measure = measured(study)
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
