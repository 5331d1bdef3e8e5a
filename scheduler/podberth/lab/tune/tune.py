"""One search from its world to its answer: what `berth tune` does, for notebooks too."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from pathlib import Path

import msgspec

from podberth.explain.lint.checks import lint
from podberth.explain.objects.documents import ObjectError
from podberth.framework.config import ProfileConfig, SchedulerConfiguration
from podberth.lab.tune.evidence import BASE, DEFAULT, PeriodSeen, Tuned, name_of
from podberth.lab.tune.goals import KINDS, Bound, Goal, Price, Yardstick
from podberth.lab.tune.judge import judged
from podberth.lab.tune.search import Candidate, Search
from podberth.lab.tune.space import Space, document, packed, space
from podberth.lab.tune.trial import Course, periods_of
from podberth.lab.tune.workers import with_workers
from podberth.lab.variations import filled
from podberth.lab.world import World
from podberth.model.annotated import NOTHING_READ
from podberth.model.node import Node
from podberth.plugins.registry import registry

Progress = Callable[[str, int, int], None]
"""Is told what is being done, how much of it is done, and how much there is."""


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """What a search is for. `fill`: as `variations.filled` says; 0 leaves lifetimes alone."""

    goals: tuple[Goal, ...]
    bounds: tuple[Bound, ...] = ()
    prices: tuple[Price, ...] = ()
    vary: tuple[str, ...] = ()
    periods: int = 6
    held_out: int = 2
    fill: float = 0.0
    trials: int = 200
    seed: int = 0
    at_once: int = 16
    seeds: int = 5
    shown: int = 4
    """The number of trials of the front that are judged, the winner among them."""


class Tuning:
    """A search that is ready to begin: what is varied is known, and nothing has been run."""

    def __init__(
        self, world: World, base: SchedulerConfiguration, profile: str, asked: Asked, study: Path | None = None
    ) -> None:
        """`study`: the file by which a search goes on where it ended. Raises ObjectError, ConfigError."""
        self._asked, self._profile = asked, profile
        self._world = filled(world, asked.fill) if asked.fill else world
        goals = self._measured()
        periods = periods_of(self._world, asked.periods, asked.held_out)
        self.course = Course(periods, goals, asked.prices, profile)
        self.space: Space = space(base, profile, self._world).narrowed(asked.vary)
        self.search = Search(
            self.course,
            self.space,
            asked.goals,
            asked.bounds,
            file=study,
            seed=asked.seed,
            at_once=asked.at_once,
        )

    def _measured(self) -> tuple[Goal, ...]:
        """Return the goals that each run is measured by: those that are asked for, then all that mean something."""
        asked = self._asked
        whole = Yardstick(self._world, asked.prices)
        named = [*asked.goals, *(bound.goal for bound in asked.bounds)]
        for goal in named:
            whole.check(goal)
        return tuple(dict.fromkeys((*named, *_that_mean_something(whole))))

    def carried_out(self, jobs: int, dask: str | None, progress: Progress, command: str = "") -> Tuned:
        """Search, judge and return the answer.

        Ends early by KeyboardInterrupt: the study file has all that is known.
        """

        def work(executor: Executor) -> Tuned:
            self.search.go_on(executor, self._asked.trials, lambda done, of: progress("trials", done, of))
            return self._judged(executor, progress, command)

        return with_workers(self.course, self.search.name, jobs, dask, work)

    def _judged(self, executor: Executor, progress: Progress, command: str) -> Tuned:
        asked, course, base = self._asked, self.course, self.space.base
        front = self.search.front()
        chosen = self.search.chosen(front)
        usual = SchedulerConfiguration(profiles=[ProfileConfig(scheduler_name=self._profile)])
        configurations = {BASE: base}
        if document(usual)["profiles"] != document(base).get("profiles"):
            configurations[DEFAULT] = usual
        for each in _some(front, chosen, asked.shown):
            configurations[name_of(each)] = self.space.configuration(each.values)
        figures = judged(
            course,
            self.search.name,
            {name: packed(each) for name, each in configurations.items()},
            range(asked.seed, asked.seed + asked.seeds),
            executor,
            lambda done, of: progress("runs of the judgement", done, of),
        )
        notes = []
        if any(bound.missed(chosen.measured) > 0 for bound in asked.bounds):
            notes.append(f"no trial keeps to {' and '.join(map(str, asked.bounds))}: the winner misses it by the least")
        if chosen.number:
            found = lint(configurations[name_of(chosen)], registry())
            notes += [f"berth config lint says of the winner: {each.path}: {each.what}" for each in found]
        return Tuned(
            world=self._world.name,
            nodes=sum(isinstance(thing, Node) for thing in self._world.decoded(NOTHING_READ).objects),
            pods=len(self._world.arrivals),
            command=command,
            seed=asked.seed,
            seeds=asked.seeds,
            trials=len(self.search.done),
            goals=[str(each) for each in asked.goals],
            bounds=[str(each) for each in asked.bounds],
            periods=[PeriodSeen(each.name, each.counted, each.held_out) for each in course.periods],
            varied=[str(each) for each in self.space.settings],
            idle=list(self.space.idle),
            changed=self.space.changed(chosen.values),
            winner=name_of(chosen),
            judged=figures,
            pairs=asked.seeds * asked.held_out,
            configurations={name: document(each) for name, each in configurations.items()},
            searched=list(self.search.done),
            notes=notes,
        )


def _that_mean_something(whole: Yardstick) -> Iterator[Goal]:
    """Yield the goals, without anything that they are of, that mean something in a world."""
    for kind in KINDS:
        try:
            whole.check(Goal(kind))
        except ObjectError:
            continue
        yield Goal(kind)


def _some(front: Sequence[Candidate], chosen: Candidate, number: int) -> list[Candidate]:
    """Return so many trials of the front in its order, at equal distances, the chosen one among them; not the base."""
    others = [each for each in front if each.number not in (0, chosen.number)]
    room = max(number - 1, 0)
    picked = others if len(others) <= room else [others[i * (len(others) - 1) // max(room - 1, 1)] for i in range(room)]
    wanted = {each.number for each in picked} | {chosen.number}
    return [each for each in front if each.number in wanted and each.number]
