"""Attempts that are cut into slices of any size: each decision is the one that would have been taken at once.

What a plugin computes counts as kept once it has been charged, as in the cluster's own counts: asked again, it is free.
"""

from contextlib import suppress
from random import Random
from typing import Any

import pytest
from msgspec.structs import replace

from scheduler.engine.attempts import Attempts
from scheduler.engine.budget import Budget
from scheduler.engine.instructions import AskExtenders
from scheduler.engine.no_fits import NoFit
from scheduler.framework.decision import Decision, fit_error
from scheduler.framework.sampling import Rotation
from scheduler.framework.verify import differences
from scheduler.state.effort import SliceOver
from scheduler.state.rebuild import rebuilt
from scheduler.state.validate import validate

from .conftest import Harness, node, pod
from .test_nobody_sleeps import PRELUDE, World, _step

SLICES = 12


class Tiny(Budget):
    """Slices of any size."""

    def __init__(self, random: Random, slice: int = 1) -> None:
        super().__init__(slice=slice, whole=1 << 40)
        object.__setattr__(self, "_random", random)

    def next_slice(self, slices: int) -> int:
        return self._random.choice((1, 5, 20, 60))  # type: ignore[attr-defined, no-any-return]


class Hasty(World):
    """Where the next thing often happens before all attempts have come to their end."""

    def __init__(self, random: Random, slice: int = 1) -> None:
        super().__init__(Tiny(random, slice))
        self._random = random

    def _settle(self) -> None:
        self._heed(self.harness.tick(1.5))
        most = self._random.choice((3, 20, 5000))
        for _ in range(most):
            if not self.engine.has_work:
                return
            self._heed(self.harness.cycle())
        assert most < 5000, "pods wake each other for ever"


class Costly:
    """Makes every call of a plugin within an attempt cost something, the first time that the attempt gets to it."""

    def __init__(self, world: World, random: Random) -> None:
        self.effort = world.cluster.effort
        self.random = random
        self.attempt: Any = None
        self.paid: dict[Any, int] = {}
        """Attempt → how many calls of it were charged."""
        self.calls = 0
        self.idle = False
        for framework in world.engine.queue.frameworks.values():
            framework.guard.timed = self.ask

    def begin(self, attempt: Any) -> None:
        self.attempt, self.calls = attempt, 0

    def ask(self, plugin: Any, point: Any, *args: Any) -> Any:
        answer = point(*args)
        if not self.idle:
            self.calls += 1
            if self.calls > self.paid.get(self.attempt, 0):
                self.paid[self.attempt] = self.calls
                self.effort.charge(self.random.randint(1, 30))
        return answer


def judged(world: World, random: Random) -> list[int]:
    """Hold every outcome against one that was found at once, on a cluster made anew; how many slices each took."""
    attempts: Attempts = world.engine.attempts
    costly = Costly(world, random)
    schedule_pod = attempts.schedule_pod
    slices: list[int] = []

    def sliced(queued: Any, now: float, answer: Any = None) -> Any:
        taken = 0 if queued.cost is None else queued.cost.slices
        costly.begin((queued.pod.uid, queued.attempts))
        outcome = schedule_pod(queued, now, answer)
        assert world.cluster.supposed == {}
        assert not world.cluster.effort.over
        if outcome is not None:
            slices.append(taken)
            costly.idle = True
            assert not isinstance(outcome, AskExtenders)
            judge(world, outcome)
            costly.idle = False
        return outcome

    attempts.schedule_pod = sliced  # type: ignore[method-assign]
    return slices


def judge(world: World, outcome: Decision | NoFit) -> None:
    """The outcome is what is found at once, on a cluster made anew."""
    decision = outcome.decision if isinstance(outcome, NoFit) else outcome
    made = rebuilt(world.cluster)
    framework = world.engine.queue.frameworks[decision.pod.scheduler_name].apart()
    at_once = framework.decide(decision.pod, made, Rotation())
    if isinstance(outcome, NoFit):
        assert not len(at_once.feasible)
        result = framework.post_filter_result(decision.pod, made, at_once)
        assert result == outcome.result
        assert fit_error(at_once, result.text) == outcome.message
        assert at_once.unschedulable_plugins() == outcome.plugins
    if not (isinstance(outcome, NoFit) and outcome.taken_over):
        assert differences(decision, at_once) == ()


@pytest.mark.parametrize("seed", range(SLICES))
def test_slices_change_no_decision_and_let_nobody_sleep(seed: int) -> None:
    """Whatever happens between two slices: pods that change, leave, are bound by others; nodes that come and go."""
    random = Random(seed)
    world = Hasty(random)
    slices = judged(world, random)
    happened = [*PRELUDE, *(_step(random) for _ in range(40))]
    for i, step in enumerate(happened):
        world.take(step)
        assert world.sleepers() == [], f"after {happened[: i + 1]}"
        assert world.mistold() == [], f"after {happened[: i + 1]}"
    assert validate(world.cluster) == []
    assert max(slices) > 3


@pytest.mark.parametrize("change", ["a node comes", "columns are made anew"])
def test_a_slice_that_ends_anywhere_leaves_what_is_kept_right(change: str) -> None:
    """What a memo had half computed when the slice ended is not taken for the whole."""
    ended = 0
    for last in range(1, 60):
        harness = Harness()
        harness.put(*(node(f"n{i}", zone="ab"[i % 2]) for i in range(40)), *(pod(f"p{i}") for i in range(4)))
        harness.binds()
        if change == "a node comes":
            harness.put(node("new", cpu="8", zone="a"), pod("there", nodeName="new"))
        else:
            harness.engine.cluster.adopt(rebuilt(harness.engine.cluster))
            harness.put(pod("there", nodeName="n1"))
        cluster, framework = harness.engine.cluster, harness.engine.queue.frameworks["berth"]
        waiting = replace(cluster.placements().__next__().pod, uid="new", name="new", node_name="")
        calls = 0

        def ask(plugin: Any, point: Any, *args: Any, last: int = last) -> Any:
            nonlocal calls
            calls += 1
            if calls == last:
                raise SliceOver
            return point(*args)

        framework.guard.timed = ask
        with suppress(SliceOver):
            framework.decide_quickly(waiting, cluster, Rotation())
            continue
        ended += 1
        framework.guard.timed = None
        harness.put(pod("more", nodeName="n2"))
        decision = framework.decide_quickly(waiting, cluster, Rotation())
        assert differences(decision, framework.apart().decide(waiting, rebuilt(cluster), Rotation())) == ()
    assert ended > 5
