"""What a trial is made of: one configuration, one period of the world, one seed; and how a world becomes periods.

Held-out periods are the last ones: who tunes on the past wants to know what the future is like. A period begins with
the pods that came before it and would still be there; they are placed first, and do not count.
"""

import pickle
import random
import zlib
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import pairwise
from math import inf
from typing import Any, NamedTuple

import msgspec
import numpy as np
from msgspec.structs import replace

from podberth.explain.objects.documents import ObjectError
from podberth.framework.config import decode
from podberth.lab.play import run
from podberth.lab.tune.goals import Goal, Price, Yardstick
from podberth.lab.world import Arrival, World
from podberth.model.kinds import Decoder

DAY = 86_400.0
_LONGEST = 1e6
"""The largest factor by which lifetimes are stretched."""


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


class Task(NamedTuple):
    """One run that is asked for. `configuration`: JSON of a KubeSchedulerConfiguration."""

    configuration: bytes
    period: int
    seed: int


class Course(msgspec.Struct, frozen=True):
    """What a worker has to have to carry out tasks: it is sent to each of them once."""

    periods: tuple[Period, ...]
    goals: tuple[Goal, ...]
    prices: tuple[Price, ...]
    profile: str

    def packed(self) -> bytes:
        """Return it as bytes: JSON of many equal pods, of which a tenth or less is left when it is packed."""
        return zlib.compress(pickle.dumps(self), 6)


def carried_out(course: bytes, task: Task) -> dict[str, float]:
    """Return the value of each goal after one run. `course`: as `packed` made it; it is unpacked once in a process."""
    there = _unpacked(course)
    period = there.course.periods[task.period]
    configuration = decode(msgspec.json.decode(task.configuration))
    result = run(period.world, configuration, profile=there.course.profile, seed=task.seed)
    return there.yardsticks[task.period].measured(result)


class _Unpacked(NamedTuple):
    course: Course
    yardsticks: tuple[Yardstick, ...]


@lru_cache(maxsize=1)
def _unpacked(raw: bytes) -> _Unpacked:
    course: Course = pickle.loads(zlib.decompress(raw))
    return _Unpacked(course, tuple(yardsticks(course)))


def yardsticks(course: Course) -> Iterator[Yardstick]:
    """Yield what measures the runs of each period. Raises ObjectError for a goal that means nothing in this world."""
    for each in course.periods:
        yield Yardstick(each.world, course.goals, course.prices, warm=each.warm, end=each.end)


def periods_of(world: World, number: int, held_out: int) -> tuple[Period, ...]:
    """Return parts of a world in each of which as many pods come, the last `held_out` of them for judging only.

    Raises ObjectError where there are not as many pods.
    """
    arrivals = world.arrivals
    if len(arrivals) < 2 * number:
        raise ObjectError(f"--periods: {number}: {len(arrivals)} pods come in this world: expected 2 in each period")
    end = world_end(world)
    if arrivals[0].at == arrivals[-1].at:
        return tuple(
            Period(
                f"pods {i + 1} of {number}",
                replace(world, arrivals=arrivals[i::number]),
                0.0,
                end,
                i >= number - held_out,
            )
            for i in range(number)
        )
    cuts = [0.0, *(_before(arrivals, i * len(arrivals) // number) for i in range(1, number)), end]
    found = []
    for i, (begin, until) in enumerate(pairwise(cuts)):
        part = world.between(begin, until)
        part = replace(part, arrivals=tuple(_stays(each, until - begin) for each in part.arrivals))
        came = [each.at for each in arrivals if begin <= each.at < until]
        if not came:
            raise ObjectError(f"--periods: {number}: too many pods come at one moment, at {begin:g} s: expected fewer")
        name = f"day {begin / DAY:.1f} to {until / DAY:.1f}" if end > DAY else f"{begin:,.0f} to {until:,.0f} s"
        found.append(Period(name, part, came[0] - begin if begin else 0.0, until - begin, i >= number - held_out))
    return tuple(found)


def _stays(arrival: Arrival, end: float) -> Arrival:
    """Return a pod that never ends, if it is there at the end of the period: nobody looks at what comes after it."""
    return replace(arrival, lasts=inf) if arrival.at + arrival.lasts >= end else arrival


def _before(arrivals: Sequence[Arrival], number: int) -> float:
    """Return a moment before an arrival, and after the last one that comes earlier."""
    at = arrivals[number].at
    earlier = max((each.at for each in arrivals[:number] if each.at < at), default=at)
    return (earlier + at) / 2


def world_end(world: World) -> float:
    """Return the seconds until the last thing comes or changes, and a little more."""
    came, changed = (each[-1].at if each else 0.0 for each in (world.arrivals, world.changes))
    last = max(came, changed)
    return last + max(1.0, last * 0.001)


def objects_of(world: World) -> Iterator[Mapping[str, Any]]:
    """Yield the API objects of a world: those that are there, pods that come, and what changes."""
    came = (change.put for change in world.changes if change.put is not None)
    for raw in (*world.objects, *(arrival.pod for arrival in world.arrivals), *came):
        yield msgspec.json.decode(raw)


def sampled(world: World, nodes: float, pods: float, seed: int) -> World:
    """Return the world with a share of its nodes and of the pods that come; placed pods go with their nodes."""
    if nodes >= 1 and pods >= 1:
        return world
    chosen = random.Random(seed)
    known = [msgspec.json.decode(raw) for raw in world.objects]
    names = [each["metadata"]["name"] for each in known if each.get("kind") == "Node"]
    left = set(chosen.sample(names, max(round(nodes * len(names)), 1)))
    objects = (
        raw for raw, each in zip(world.objects, known, strict=True) if (node := _node_of(each)) is None or node in left
    )
    numbers = range(len(world.arrivals))
    arrivals = sorted(chosen.sample(numbers, round(pods * len(numbers))))
    return replace(world, objects=tuple(objects), arrivals=tuple(world.arrivals[i] for i in arrivals))


def _node_of(document: Mapping[str, Any]) -> str | None:
    """Return the node that an object is, or a pod is placed on; None for what is on none."""
    if document.get("kind") == "Node":
        return str(document["metadata"]["name"])
    return (document.get("spec") or {}).get("nodeName") or None if document.get("kind") == "Pod" else None


def filled(world: World, share: float) -> World:
    """Return the world with each pod's time multiplied, until at some moment they ask for `share` of what there is.

    What there is: of the resource that is short first. A published trace may be a sample of the pods beside all of the
    nodes, and leave these all but empty. Nothing is shortened.
    """
    decoder = Decoder()
    nodes = [decoder.node(raw) for raw in world.objects if msgspec.json.decode(raw).get("kind") == "Node"]
    pods = [decoder.pod(each.pod) for each in world.arrivals]
    names = sorted({name for pod in pods for name in pod.shape.requests})
    there = np.array([sum(node.allocatable.get(name, 0) for node in nodes) for name in names], dtype=np.float64)
    asks = np.array([[pod.shape.requests.get(name, 0) for name in names] for pod in pods], dtype=np.float64)
    asks, there = asks.reshape(len(pods), len(names))[:, there > 0], there[there > 0]
    at = np.array([each.at for each in world.arrivals])
    lasts = np.array([each.lasts for each in world.arrivals])

    def highest(factor: float) -> float:
        flow = np.concatenate((asks, -asks))[np.argsort(np.concatenate((at, at + factor * lasts)), kind="stable")]
        return float((flow.cumsum(axis=0).max(axis=0) / there).max())

    low, high = 1.0, 1.0
    if len(there) and len(pods):
        while highest(high) < share and high < _LONGEST:
            low, high = high, 2 * high
        for _ in range(20):
            middle = (low + high) / 2
            low, high = (low, middle) if highest(middle) >= share else (middle, high)
    longer = (replace(each, lasts=high * each.lasts if each.lasts < inf else inf) for each in world.arrivals)
    return replace(world, arrivals=tuple(longer))


def means(values: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Return the mean of each goal over several runs."""
    return {name: sum(each[name] for each in values) / len(values) for name in values[0]}
