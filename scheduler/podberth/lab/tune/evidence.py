"""The evidence of a search: the answer, its table, and a page with pictures that needs no other file and no network."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from podberth.explain.report.pages import render
from podberth.explain.report.terminal import number, plain_table
from podberth.explain.report.wording import count, printable
from podberth.lab import pictures as drawing
from podberth.lab.tune.goals import KINDS, Goal, goal
from podberth.lab.tune.judge import Figure, Judged
from podberth.lab.tune.search import Candidate
from podberth.lab.tune.space import Value

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType

BASE, DEFAULT = "base", "default"


class PeriodSeen(msgspec.Struct, rename="camel", frozen=True):
    """A period of the world, and how many pods came in it."""

    name: str
    pods: int
    held_out: bool


class Tuned(msgspec.Struct, rename="camel", frozen=True):
    """What a search found. Field names are stable; fields may be added."""

    world: str
    nodes: int
    pods: int
    command: str
    seed: int
    seeds: int
    trials: int
    goals: list[str]
    bounds: list[str]
    periods: list[PeriodSeen]
    varied: list[str]
    idle: list[str]
    changed: dict[str, tuple[Value, Value]]
    """Setting → its value in the base, and in the winner."""
    winner: str
    """The name of the winner in `judged`."""
    judged: list[Judged]
    """The base first, then the default where the base is not that, then the front."""
    pairs: int
    """The number of pairs of a held-out period and a seed."""
    configurations: dict[str, dict[str, Any]]
    """Name → KubeSchedulerConfiguration, for each in `judged`."""
    searched: list[Candidate]
    """All trials, with what they measured on the training periods."""
    notes: list[str] = []

    def of(self, name: str) -> Judged:
        """Return the figures of one configuration."""
        return next(each for each in self.judged if each.name == name)


class Row(NamedTuple):
    goal: str
    says: str
    cells: list[str]


def name_of(candidate: Candidate) -> str:
    """Return the name of a trial in the answer; the first one is the base."""
    return str(candidate.number) if candidate.number else BASE


def called(name: str) -> str:
    """Return what a configuration is called in headings."""
    return name if name in (BASE, DEFAULT) else f"trial {name}"


def title(answer: Tuned) -> str:
    """Return the answer in one line: what the winner is worth on held-out periods."""
    winner, base = answer.of(answer.winner), answer.of(BASE)
    if answer.winner == BASE:
        return f"None of {answer.trials:,} trials is better than the base on the training periods"
    parts = []
    for name in answer.goals:
        now, before = (goal(name).shown(each.held_out[name].mean) for each in (winner, base))
        parts.append(f"{name} {now} instead of {before}")
    return f"Trial {answer.winner} of {answer.trials:,} on held-out periods: {', '.join(parts)}"


def about(answer: Tuned) -> str:
    """Return what was searched, on what."""
    held_out = sum(period.held_out for period in answer.periods)
    bounds = f", with {' and '.join(answer.bounds)}" if answer.bounds else ""
    return (
        f"{answer.world}: {count(answer.pods, 'pod')} on {count(answer.nodes, 'node')}; {answer.trials:,} trials for "
        f"{' and '.join(answer.goals)}{bounds} on {len(answer.periods) - held_out} periods, judged on {held_out} later "
        f"ones with {count(answer.seeds, 'seed')}; search seed {answer.seed}."
    )


def footnote(answer: Tuned) -> str:
    """Return what the figures of the first table are."""
    by = ", ".join(f"{period.name} ({period.pods:,} pods)" for period in answer.periods if period.held_out)
    return (
        f"Means over {by}, and over {count(answer.seeds, 'seed')}, with the 95 % interval over the seeds: how much the "
        f"choice among equal nodes matters. The training periods alone chose the winner, {called(answer.winner)}."
    )


def with_interval(each: Goal, found: Figure) -> str:
    """Return a mean with half of its interval."""
    half = (found.high - found.low) / 2
    return f"{each.shown(found.mean)} ± {each.shown(half).partition(' ')[0]}" if half else each.shown(found.mean)


def rows(answer: Tuned) -> Iterator[Row]:
    """Yield a row for each goal, those of the search first, with the held-out figures of each configuration."""
    first = answer.judged[0].held_out
    for name in (*answer.goals, *(name for name in first if name not in answer.goals)):
        each = goal(name)
        searched = "searched for; " if name in answer.goals else ""
        better = "more is better" if each.more_is_better else "less is better"
        says = f"{KINDS[each.kind].says} ({searched}{better})"
        yield Row(name, says, [with_interval(each, judged.held_out[name]) for judged in answer.judged])


def against(answer: Tuned) -> Iterator[tuple[str, ...]]:
    """Yield a row for each goal: base, winner, by how much it is better in pairs, the interval, and in how many."""
    base, winner = answer.of(BASE), answer.of(answer.winner)
    for row in rows(answer):
        each, name = goal(row.goal), row.goal
        better = winner.better[name]
        yield (
            name,
            each.shown(base.held_out[name].mean),
            each.shown(winner.held_out[name].mean),
            each.shown(better.mean),
            f"{each.shown(better.low)} to {each.shown(better.high)}",
            f"{winner.wins[name]} of {answer.pairs}",
        )


def by_period(answer: Tuned) -> Iterator[list[str]]:
    """Yield a row for each period: its name, what it was for, and each goal of base and winner."""
    base, winner = answer.of(BASE), answer.of(answer.winner)
    for period in answer.periods:
        cells = [
            goal(name).shown(judged.periods[period.name][name]) for name in answer.goals for judged in (base, winner)
        ]
        yield [period.name, "held out" if period.held_out else "training", *cells]


@dataclass
class TunedTable:
    """The answer on a terminal."""

    answer: Tuned

    def __rich_console__(self, console: "Console", options: "ConsoleOptions") -> "Iterator[RenderableType]":
        from rich.text import Text

        found = self.answer
        yield Text(printable(title(found)), style="bold")
        yield Text(printable(about(found)))
        table = plain_table("Held out", *(number(called(each.name)) for each in found.judged))
        for row in rows(found):
            table.add_row(printable(row.goal), *row.cells, style="bold" if row.goal in found.goals else "")
        yield table
        table = plain_table("Winner", number("better by"), number("95 % interval"), number("in pairs"))
        for name, _, _, better, interval, pairs in against(found):
            table.add_row(printable(name), better, interval, pairs, style="bold" if name in found.goals else "")
        yield table
        table = plain_table("Changed", number("base"), number("winner"))
        for name, (old, new) in found.changed.items():
            table.add_row(printable(name), str(old), str(new))
        yield table
        for note in found.notes:
            yield Text(f"  {printable(note)}", style="yellow")


def page(answer: Tuned, configuration: str) -> str:
    """Return the page. `configuration`: the winner's YAML."""
    return render(
        "tune.html",
        package="podberth.lab.tune",
        title=title(answer),
        about=about(answer),
        answer=answer,
        called=called,
        rows=list(rows(answer)),
        footnote=footnote(answer),
        against=list(against(answer)),
        by_period=list(by_period(answer)),
        pictures=list(pictures(answer)),
        configuration=configuration,
    )


def pictures(answer: Tuned) -> Iterator[tuple[str, str]]:
    """Yield (caption, SVG): the first goal against each other one, in training and held out; of one goal, each trial in
    its order.
    """
    first, *others = answer.goals
    if not others:
        points = [
            _point(answer, name_of(each), first, first, {"": each.measured}) | {"x": each.number}
            for each in answer.searched
        ]
        yield f"{first}, training, by trial", drawing.dots(points, "trial", _title(first), _COLOURS)
    for other in others:
        axes = _title(first), _title(other), _COLOURS
        training = [_point(answer, name_of(each), first, other, {"": each.measured}) for each in answer.searched]
        yield f"{first} and {other}, training", drawing.dots(training, *axes)
        yield (
            f"{first} and {other}, held out",
            drawing.dots(
                [
                    _point(
                        answer,
                        each.name,
                        first,
                        other,
                        {
                            "": {name: found.mean for name, found in each.held_out.items()},
                            "low": {name: found.low for name, found in each.held_out.items()},
                            "high": {name: found.high for name, found in each.held_out.items()},
                        },
                    )
                    for each in answer.judged
                ],
                *axes,
            ),
        )


_COLOURS = {"trial": drawing.GREY, "front": "#1570ef", BASE: "#b54708", DEFAULT: "#6938ef", "winner": "#067647"}


def _point(
    answer: Tuned, name: str, across: str, up: str, values: Mapping[str, Mapping[str, float]]
) -> dict[str, str | float]:
    """Return a configuration in a picture of two goals. `values`: goal → value by what follows x and y."""
    front = name in (each.name for each in answer.judged)
    usual = name in (BASE, DEFAULT)
    kind = name if usual else "winner" if name == answer.winner else "front" if front else "trial"
    found: dict[str, str | float] = {"kind": kind, "trial": called(name)}
    for end, measured in values.items():
        found |= {f"{axis}{end}": _scaled(which, measured[which]) for axis, which in (("x", across), ("y", up))}
    return found


def _scaled(name: str, value: float) -> float:
    """Return a value as it is shown: shares in percent."""
    return value * (100 if KINDS[goal(name).kind].unit == "%" else 1)


def _title(name: str) -> str:
    return f"{name} ({KINDS[goal(name).kind].unit or 'price'})"
