"""A small course for searches, and a worker that needs no run."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor, Future
from math import inf
from typing import Any

import msgspec

from podberth.lab import World
from podberth.lab.tune.goals import Goal
from podberth.lab.tune.space import Space, space
from podberth.lab.tune.trial import Course, Task, periods_of
from tests.builders import node, pod
from tests.unit.lab.worlds import comes, configured, world

PACKING, FRAGMENTATION = Goal("packing"), Goal("fragmentation")


def small(pods: int = 24) -> World:
    """Return four nodes of 4 cores, and pods of 1 to 3 cores of which each lasts 50 s."""
    nodes = [node(f"n{i}", "4", "8Gi") for i in range(4)]
    arrivals = [comes(pod(f"p{i}", str(1 + i % 3), f"{1 + i % 2}Gi"), 10.0 * i + 5, 50) for i in range(pods)]
    return world(nodes, *arrivals)


def course(there: World | None = None, *goals: Goal, periods: int = 3) -> Course:
    """Return a course on the small world, the last period held out."""
    return Course(periods_of(there or small(), periods, 1), goals or (PACKING, FRAGMENTATION), (), "berth")


def varied(there: World | None = None) -> Space:
    """Return what may vary in the small world."""
    return space(configured(), "berth", there or small())


class Computed(Executor):
    """An executor whose answers follow from the weights of a configuration; `ends_after` answers, Ctrl-C comes."""

    def __init__(self, ends_after: float = inf) -> None:
        self.left = ends_after
        self.tasks: list[Task] = []

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Take a task."""
        (task,) = args
        self.tasks.append(task)
        return _Answer(self, task)

    def answer(self, task: Task) -> dict[str, float]:
        """Return the answer to a task."""
        self.left -= 1
        if self.left < 0:
            raise KeyboardInterrupt
        profile = msgspec.json.decode(task.configuration)["profiles"][0]
        enabled = (profile.get("plugins") or {}).get("score", {}).get("enabled") or ()
        weights = {each["name"]: each["weight"] for each in enabled}
        fit, balance = weights.get("NodeResourcesFit", 1), weights.get("NodeResourcesBalancedAllocation", 1)
        return {"packing": abs(fit - 7) + balance, "fragmentation": abs(balance - 4) + 0.1 * task.period}


class _Answer(Future[Any]):
    def __init__(self, by: Computed, task: Task) -> None:
        super().__init__()
        self._by, self._task = by, task

    def result(self, timeout: float | None = None) -> Any:
        """Return it when it is asked for."""
        return self._by.answer(self._task)
