"""The evidence of a search: the answer, its table, and a page with pictures that needs no other file and no network."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec
from rich.text import Text

from podberth.explain.report.parts import (
    GOOD,
    PLAIN,
    Cell,
    Column,
    Offer,
    Offers,
    Part,
    Pictures,
    Report,
    Rows,
    Words,
    line,
)
from podberth.explain.report.wording import count
from podberth.lab import pictures as drawing
from podberth.lab.tune.goals import KINDS, Goal, goal
from podberth.lab.tune.judge import Figure, Judged
from podberth.lab.tune.search import Candidate
from podberth.lab.tune.space import Value

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


def report(answer: Tuned, configuration: str = "") -> Report:
    """Return the answer in words; with the winner's YAML as a page has it: with pictures, and each period."""
    page: list[Part] = []
    if configuration:
        varied = [f"Varied: {', '.join(answer.varied)}."]
        if answer.idle:
            varied.append(f"Not varied, as nothing in this world is scored by it: {', '.join(answer.idle)}.")
        page = [
            Words("What the goals are", [line(f"{name}: {_says(answer, name)}") for name in _goals(answer)]),
            Pictures("Pictures", list(pictures(answer))),
            _by_period(answer),
            Words("What was varied", [line(each) for each in varied]),
            Offers("The configuration", [Offer("winner.yaml", "", commands=[configuration])]),
        ]
    return Report(
        "Berth tune",
        title(answer),
        PLAIN if answer.winner == BASE else GOOD,
        [line(about(answer), "dim"), line(answer.command, "dim"), *(line(note, "yellow") for note in answer.notes)],
        [_held_out(answer), _against(answer), _changed(answer)],
        page,
        foot="Pods were scheduled on virtual time. Nothing was written to a cluster.",
    )


def _goals(answer: Tuned) -> Sequence[str]:
    """Return the names of all goals that are measured, those of the search first."""
    return list(dict.fromkeys((*answer.goals, *answer.judged[0].held_out)))


def _says(answer: Tuned, name: str) -> str:
    each = goal(name)
    searched = "searched for; " if name in answer.goals else ""
    return f"{KINDS[each.kind].says} ({searched}{'more' if each.more_is_better else 'less'} is better)"


def _named(answer: Tuned, name: str) -> Text:
    return line(name, "bold" if name in answer.goals else "")


def _held_out(answer: Tuned) -> Rows[str]:
    def cells(name: str) -> Sequence[Cell]:
        return [_named(answer, name), *(with_interval(goal(name), each.held_out[name]) for each in answer.judged)]

    columns = [Column("Held out"), *(Column(called(each.name), number=True) for each in answer.judged)]
    below = [line(footnote(answer), "dim")]
    return Rows("On the held-out periods", columns, _goals(answer), cells, below=below)


def _against(answer: Tuned) -> Rows[str]:
    winner = answer.of(answer.winner)

    def cells(name: str) -> Sequence[Cell]:
        each, better = goal(name), winner.better[name]
        interval = f"{each.shown(better.low)} to {each.shown(better.high)}"
        return [_named(answer, name), each.shown(better.mean), interval, f"{winner.wins[name]} of {answer.pairs}"]

    titles = ("better by", "95 % interval", "in pairs")
    columns = [Column("Winner"), *(Column(each, number=True) for each in titles)]
    return Rows("Against the base, in pairs", columns, _goals(answer), cells)


def _changed(answer: Tuned) -> Rows[str]:
    def cells(name: str) -> Sequence[Cell]:
        return [name, *map(str, answer.changed[name])]

    columns = [Column("Changed"), Column("base", number=True), Column("winner", number=True)]
    return Rows("What changed", columns, list(answer.changed), cells)


def _by_period(answer: Tuned) -> Rows[PeriodSeen]:
    sides = [(side, answer.of(name)) for side, name in (("base", BASE), ("winner", answer.winner))]

    def cells(period: PeriodSeen) -> Sequence[Cell]:
        values = ((name, judged.periods[period.name][name]) for name in answer.goals for _, judged in sides)
        purpose = "held out" if period.held_out else "training"
        return [period.name, purpose, *(goal(name).shown(value) for name, value in values)]

    titles = (f"{name}, {side}" for name in answer.goals for side, _ in sides)
    columns = [Column("Period"), Column(""), *(Column(each, number=True) for each in titles)]
    return Rows("Period by period", columns, answer.periods, cells)


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
