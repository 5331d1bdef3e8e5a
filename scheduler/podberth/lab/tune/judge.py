"""The judgement: configurations side by side on periods that the search has not seen, with several seeds each.

All run on the same periods with the same seeds, so that differences are of pairs. Intervals say how much of a figure is
the luck of ties between equal nodes; how much periods differ is shown by the figures of each.
"""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from math import sqrt
from statistics import fmean, stdev

import msgspec

from podberth.lab.tune.goals import Goal
from podberth.lab.tune.trial import Course, Task, carried_out

_STUDENT = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131)
"""The 97.5th percentile of Student's t by degrees of freedom, from 1; the normal distribution's 1.96 is its limit."""
Progress = Callable[[int, int], None]
Values = Mapping[tuple[int, int], Mapping[str, float]]
"""(Number of the period, seed) → goal → value."""


class Figure(msgspec.Struct, rename="camel", frozen=True):
    """A mean over periods and seeds, and its 95 % interval over the seeds; equal to it if there is one seed."""

    mean: float
    low: float
    high: float


class Judged(msgspec.Struct, rename="camel", frozen=True):
    """The figures of one configuration by goal."""

    name: str
    training: dict[str, Figure]
    held_out: dict[str, Figure]
    periods: dict[str, dict[str, float]]
    """Period → goal → mean over the seeds; of a training period, with the seed of the search."""
    better: dict[str, Figure]
    """Goal → by how much it is better than the base on held-out periods, in pairs."""
    wins: dict[str, int]
    """Goal → in how many pairs of a held-out period and a seed it is better than the base."""


def judged(
    course: Course,
    name: str,
    configurations: Mapping[str, bytes],
    seeds: Sequence[int],
    executor: Executor,
    progress: Progress,
) -> list[Judged]:
    """Return the figures of configurations by name; the first one is the base. `name`: that of the course.

    They run on held-out periods with all seeds, and on training periods, as the search did, with the first one.
    """
    runs = {
        (each, i, seed): executor.submit(carried_out, Task(name, raw, i, seed))
        for i, period in reversed(list(enumerate(course.periods)))  # the longest first, so that none is waited for long
        for each, raw in configurations.items()
        for seed in (seeds if period.held_out else seeds[:1])
    }
    values: dict[str, dict[tuple[int, int], dict[str, float]]] = {each: {} for each in configurations}
    for done, ((each, i, seed), run) in enumerate(runs.items()):
        progress(done, len(runs))
        values[each][i, seed] = run.result()
    base = next(iter(values.values()))
    return [_judged(course, each, found, base) for each, found in values.items()]


def _judged(course: Course, name: str, found: Values, base: Values) -> Judged:
    held_out = [key for key in found if course.periods[key[0]].held_out]
    training = [key for key in found if not course.periods[key[0]].held_out]

    def pairs(goal: Goal) -> dict[tuple[int, int], float]:
        return {key: goal.better(found[key][str(goal)], base[key][str(goal)]) for key in held_out}

    def values(goal: Goal, keys: Sequence[tuple[int, int]]) -> dict[tuple[int, int], float]:
        return {key: found[key][str(goal)] for key in keys}

    return Judged(
        name,
        training={str(goal): over_seeds(values(goal, training)) for goal in course.goals},
        held_out={str(goal): over_seeds(values(goal, held_out)) for goal in course.goals},
        periods={
            period.name: {
                str(goal): fmean(values(goal, [key for key in found if key[0] == i]).values()) for goal in course.goals
            }
            for i, period in enumerate(course.periods)
        },
        better={str(goal): over_seeds(pairs(goal)) for goal in course.goals},
        wins={str(goal): sum(better > 0 for better in pairs(goal).values()) for goal in course.goals},
    )


def over_seeds(values: Mapping[tuple[int, int], float]) -> Figure:
    """Return the figure of values by period and seed: for each seed, the mean over the periods."""
    return figure(
        [fmean(values[key] for key in values if key[1] == seed) for seed in {seed: None for _, seed in values}]
    )


def figure(values: Sequence[float]) -> Figure:
    """Return the mean of some values, and its 95 % interval by Student's distribution."""
    mean = fmean(values)
    if len(values) < 2:
        return Figure(mean, mean, mean)
    times = _STUDENT[min(len(values) - 2, len(_STUDENT) - 1)]
    half = times * stdev(values) / sqrt(len(values))
    return Figure(mean, mean - half, mean + half)
