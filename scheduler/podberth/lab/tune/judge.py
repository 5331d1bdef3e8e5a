"""The judgement: configurations side by side on periods that the search has not seen, with several seeds each.

All run on the same periods with the same seeds, so that differences are of pairs. Intervals say how much of a figure is
the luck of ties between equal nodes; how much periods differ is shown by the figures of each.
"""

from collections.abc import Callable, Mapping, Sequence
from math import sqrt

import msgspec

from podberth.lab.tune.goals import Goal
from podberth.lab.tune.trial import Course, Task
from podberth.lab.tune.workers import Workers

_STUDENT = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131)
"""The 97.5th percentile of Student's t by degrees of freedom, from 1; the normal distribution's 1.96 is its limit."""
Progress = Callable[[int, int], None]


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


class Judge:
    """Runs configurations on held-out periods with all seeds, and on training periods, as the search did, with one."""

    def __init__(self, course: Course, seeds: Sequence[int]) -> None:
        self._course, self._seeds = course, tuple(seeds)

    @property
    def pairs(self) -> int:
        """Return the number of pairs of a held-out period and a seed."""
        return len(self._seeds) * sum(period.held_out for period in self._course.periods)

    def judged(self, configurations: Mapping[str, bytes], workers: Workers, progress: Progress) -> list[Judged]:
        """Return the figures of configurations by name; the first one is the base."""
        handles = {
            (name, i, seed): workers.submit(Task(raw, i, self._seeds[seed]))
            for name, raw in configurations.items()
            for i, period in enumerate(self._course.periods)
            for seed in range(len(self._seeds) if period.held_out else 1)
        }
        values: dict[tuple[str, int, int], dict[str, float]] = {}
        for done, (key, handle) in enumerate(handles.items()):
            progress(done, len(handles))
            values[key] = workers.answer(handle)
        base = next(iter(configurations))
        return [self._of(name, base, values) for name in configurations]

    def _of(self, name: str, base: str, values: Mapping[tuple[str, int, int], Mapping[str, float]]) -> Judged:
        periods = self._course.periods
        training = [i for i, period in enumerate(periods) if not period.held_out]
        held_out = [i for i, period in enumerate(periods) if period.held_out]
        seeds = range(len(self._seeds))

        def over(goal: Goal, chosen: Sequence[int], against: str = "") -> Figure:
            means = [
                sum(
                    goal.better(values[name, i, seed][str(goal)], values[against, i, seed][str(goal)])
                    if against
                    else values[name, i, seed][str(goal)]
                    for i in chosen
                )
                / len(chosen)
                for seed in (seeds if chosen is held_out else (0,))
            ]
            return figure(means)

        return Judged(
            name,
            training={str(goal): over(goal, training) for goal in self._course.goals},
            held_out={str(goal): over(goal, held_out) for goal in self._course.goals},
            periods={
                period.name: {
                    str(goal): sum(found) / len(found)
                    for goal in self._course.goals
                    for found in [[values[name, i, seed][str(goal)] for seed in (seeds if period.held_out else (0,))]]
                }
                for i, period in enumerate(periods)
            },
            better={str(goal): over(goal, held_out, base) for goal in self._course.goals},
            wins={
                str(goal): sum(
                    goal.better(values[name, i, seed][str(goal)], values[base, i, seed][str(goal)]) > 0
                    for i in held_out
                    for seed in seeds
                )
                for goal in self._course.goals
            },
        )


def figure(values: Sequence[float]) -> Figure:
    """Return the mean of some values, and its 95 % interval by Student's distribution."""
    mean = sum(values) / len(values)
    if len(values) < 2:
        return Figure(mean, mean, mean)
    deviation = sqrt(sum((value - mean) ** 2 for value in values) / (len(values) - 1))
    times = _STUDENT[len(values) - 2] if len(values) - 2 < len(_STUDENT) else 2.131
    half = times * deviation / sqrt(len(values))
    return Figure(mean, mean - half, mean + half)
