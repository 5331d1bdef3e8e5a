"""A study as a table for a terminal, and as a page with pictures that needs no other file and no network."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean, pstdev

from rich.console import Console, ConsoleOptions, RenderableType
from rich.text import Text

from podberth.explain.report.pages import render
from podberth.explain.report.terminal import number, plain_table
from podberth.explain.report.wording import count, duration, percent, printable
from podberth.lab import pictures
from podberth.lab.study import Look, Played, Study

FOOTNOTE = (
    "Stranded: free room that pods of the world which would fit on the empty node can't use now; of shared GPUs, what "
    "a typical task is expected not to be able to use. Of arrivals and departures, all but the waiting times are means "
    "over time; of an inflation, all is as it was at its end."
)
_WAITS = {"waiting_p50_s": "median", "waiting_p99_s": "99 %", "waiting_mean_s": "mean"}
_COUNTS = {"nodes_in_use": "nodes in use", "waiting_pods": "pods that wait", "preemptions": "preemptions"}
Part = tuple[str, Sequence[Played]]
"""A title, and what was played under it."""
Row = tuple[str, Sequence[str]]
"""A title, and a cell for each profile."""


@dataclass
class StudyTable:
    """A study on a terminal, a column a profile."""

    study: Study

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        yield Text(printable(title(self.study)), style="bold")
        for name, played in parts(self.study):
            table = plain_table(name, *(number(printable(each.profile)) for each in played))
            for row, cells in rows(played):
                table.add_row(row, *cells)
            yield table
        yield Text(f"  {FOOTNOTE}", style="dim")


def study_page(study: Study) -> str:
    """Return the page. Raises ObjectError without the extra `podberth[lab]`."""
    return render(
        "study.html",
        package="podberth.lab",
        title=title(study),
        parts=[(name, [each.profile for each in played], list(rows(played))) for name, played in parts(study)],
        footnote=FOOTNOTE,
        pictures=list(_pictures(study)),
    )


def title(study: Study) -> str:
    """Return what was played."""
    return f"{study.world}: {count(study.pods, 'pod')} on {count(study.nodes, 'node')}"


def parts(study: Study) -> Iterator[Part]:
    """Yield the tables of a study."""
    seeds = f", {count(study.seeds, 'seed')}" if study.seeds > 1 else ""
    filled = f", until they ask for {study.fill:.0%} at some moment" if study.fill else ""
    yield f"Arrivals and departures{filled}{seeds}", study.departures
    if study.inflation:
        asked = short(study.measure).replace("GPU", "GPUs")
        yield f"Inflation, to {study.load:.0%} of all {asked} asked for{seeds}", study.inflation


def rows(played: Sequence[Played]) -> Iterator[Row]:
    """Yield the figures of each profile: means over the seeds, with their standard deviation if there are several."""

    def values(name: str) -> list[list[float]]:
        return [[figures[name] for figures in each.figures] for each in played]

    placed = zip(values("bound"), values("pods"), strict=True)
    yield "pods placed", [f"{fmean(bound):,.0f} of {fmean(pods):,.0f}" for bound, pods in placed]
    for name in played[0].figures[0]:
        kind, bracket, resource = name.rstrip("]").partition("[")
        if name in _WAITS:
            yield f"wait for a node, {_WAITS[name]}", [_seconds(fmean(each)) for each in values(name)]
        elif name in _COUNTS:
            yield _COUNTS[name], [f"{fmean(each):,.1f}" for each in values(name)]
        elif bracket and kind in ("used", "stranded"):
            yield f"{short(resource)} {kind}", [_share(each) for each in values(name)]


def _seconds(wait: float) -> str:
    return duration(wait) if wait else "0 s"


def _share(values: Sequence[float]) -> str:
    return percent(fmean(values)) + (f" ± {100 * pstdev(values):.1f}" if len(values) > 1 else "")


def short(resource: str) -> str:
    """Return a resource's name without its domain."""
    return {"cpu": "CPU"}.get(resource, resource.rpartition("/")[2].removesuffix("-milli").replace("gpu", "GPU"))


def _pictures(study: Study) -> Iterator[tuple[str, str]]:
    """Yield (caption, SVG), of the first seed."""
    resource = short(study.measure) or "CPU"
    for name, played in parts(study):
        for what, field, scale in (
            ("nodes in use", "nodes_in_use", 1),
            (f"{resource} used (%)", "used", 100),
            (f"{resource} stranded (%)", "stranded", 100),
        ):
            points = [
                {"profile": each.profile, "x": _part_of(look, each.looks), "y": scale * getattr(look, field)}
                for each in played
                for look in each.looks
            ]
            yield f"{name}: {what}", pictures.lines(points, "part of the time (%)", what)


def _part_of(look: Look, looks: Sequence[Look]) -> float:
    return 100 * look.at / max(looks[-1].at, 1e-9)
