"""What a trial is made of: one configuration, one period of the world, one seed; and how a world becomes periods.

Held-out periods are the last ones: who tunes on the past wants to know what the future is like. A period begins with
the pods that came before it and would still be there; they are placed first, and do not count.
"""

import pickle
import zlib
from itertools import pairwise
from math import inf
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from podberth.explain.objects.documents import ObjectError
from podberth.framework.config import decode
from podberth.lab.play import run
from podberth.lab.tune.goals import Goal, Price, Yardstick
from podberth.lab.world import Arrival, World

DAY = 86_400.0


class Period(msgspec.Struct, frozen=True):
    """A part of a world's time, or where all pods come at once, a part of its pods.

    Pods that come before `warm` (s) fill the cluster, and do not count; measures end at `end` (s).
    """

    name: str
    world: World
    warm: float
    end: float
    held_out: bool

    @property
    def counted(self) -> int:
        """Return the number of pods that come after the warm-up."""
        return sum(each.at >= self.warm for each in self.world.arrivals)


class Course(msgspec.Struct, frozen=True):
    """What a worker has to have to carry out tasks: it is sent to each of them once."""

    periods: tuple[Period, ...]
    goals: tuple[Goal, ...]
    prices: tuple[Price, ...]
    profile: str

    def packed(self) -> bytes:
        """Return it as bytes: JSON of many equal pods, of which a tenth or less is left when it is packed."""
        return zlib.compress(pickle.dumps(self), 6)


class Task(NamedTuple):
    """One run that is asked for. `course`: the name of a course that workers know; `configuration`: JSON of a
    KubeSchedulerConfiguration; `period`: its number in the course.
    """

    course: str
    configuration: bytes
    period: int
    seed: int


_known: dict[str, tuple[Course, list[Yardstick]]] = {}
"""The courses of which this process carries out tasks."""


def learn(name: str, packed: bytes) -> None:
    """Have this process know a course."""
    course: Course = pickle.loads(zlib.decompress(packed))
    _known[name] = course, [Yardstick(each.world, course.prices) for each in course.periods]


def forget(name: str) -> None:
    """Have this process forget a course."""
    _known.pop(name, None)


def carried_out(task: Task) -> dict[str, float]:
    """Return the value of each goal after one run."""
    course, yardsticks = _known[task.course]
    period = course.periods[task.period]
    configuration = decode(msgspec.json.decode(task.configuration))
    result = run(period.world, configuration, profile=course.profile, seed=task.seed)
    return yardsticks[task.period].measured(result, course.goals, since=period.warm, until=period.end)


def periods_of(world: World, number: int, held_out: int) -> tuple[Period, ...]:
    """Return parts of a world in each of which as many pods come, the last `held_out` of them for judging only.

    Raises ObjectError where there are not as many pods.
    """
    arrivals, end = world.arrivals, world_end(world)
    if len(arrivals) < 2 * number:
        raise ObjectError(f"--periods: {number}: {len(arrivals)} pods come in this world: expected 2 in each period")
    judges = [i >= number - held_out for i in range(number)]
    if arrivals[0].at == arrivals[-1].at:
        return tuple(
            Period(f"pods {i + 1} of {number}", replace(world, arrivals=arrivals[i::number]), 0.0, end, judges[i])
            for i in range(number)
        )
    cuts = [0.0, *(_before(arrivals, i * len(arrivals) // number) for i in range(1, number)), end]
    found = []
    for held, (begin, until) in zip(judges, pairwise(cuts), strict=True):
        first = next((each.at for each in arrivals if begin <= each.at < until), None)
        if first is None:
            raise ObjectError(f"--periods: {number}: too many pods come at one moment, at {begin:g} s: expected fewer")
        part = world.between(begin, until)
        part = replace(part, arrivals=tuple(_stays(each, until - begin) for each in part.arrivals))
        name = f"day {begin / DAY:.1f} to {until / DAY:.1f}" if end > DAY else f"{begin:,.0f} to {until:,.0f} s"
        found.append(Period(name, part, first - begin if begin else 0.0, until - begin, held))
    return tuple(found)


def _stays(arrival: Arrival, end: float) -> Arrival:
    """Return a pod that never ends, if it is there at the end of the period: nobody looks at what comes after it."""
    return replace(arrival, lasts=inf) if arrival.at + arrival.lasts >= end else arrival


def _before(arrivals: tuple[Arrival, ...], number: int) -> float:
    """Return a moment before an arrival, and after the last one that comes earlier."""
    at = arrivals[number].at
    earlier = max((each.at for each in arrivals[:number] if each.at < at), default=at)
    return (earlier + at) / 2


def world_end(world: World) -> float:
    """Return the seconds until the last thing comes or changes, and a little more."""
    last = max((each[-1].at for each in (world.arrivals, world.changes) if each), default=0.0)
    return last + max(1.0, last * 0.001)
