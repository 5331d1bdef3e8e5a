"""What a study says, for a terminal and, with pictures, for a page."""

from collections.abc import Iterator, Sequence
from statistics import fmean, pstdev

from podberth.explain.report.parts import PLAIN, Column, Pictures, Report, Rows, line
from podberth.explain.report.wording import count, duration, percent
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


def report(study: Study, *, page: bool = False) -> Report:
    """Return a study in words, a column a profile; for a page, with pictures."""
    return Report(
        "Berth simulate",
        f"{study.world}: {count(study.pods, 'pod')} on {count(study.nodes, 'node')}",
        PLAIN,
        [line(FOOTNOTE, "dim")],
        [
            Rows(
                name,
                [Column(name), *(Column(each.profile, number=True) for each in played)],
                list(rows(played)),
                lambda row: [row[0], *row[1]],
            )
            for name, played in parts(study)
        ],
        [Pictures("Pictures", list(_pictures(study)))] if page else [],
    )


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
