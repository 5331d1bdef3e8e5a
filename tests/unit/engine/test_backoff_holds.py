"""No pod is tried more often than its backoff and what really happens allow, whatever else the queue does."""

import sys
from pathlib import Path
from random import Random
from typing import Any

import pytest

from podberth.cache.validate import validate
from podberth.engine.instructions import Bind, Failed, Instruction, PreBindWrite, RunCall
from podberth.engine.queue.queued import QueuedPod
from podberth.engine.stimuli import CallEnded, CallFailed, Cycle, Gone, PreBindWriteFailed, Put, Stimulus
from podberth.framework.binding import AssumedPod, Hold
from podberth.framework.events import ANY
from podberth.framework.status import Reject, Unschedulable
from tests.builders import configuration, profile

from .conftest import Harness, node, pod
from .test_points import plugin

MOST_CYCLES = 200
"""More than any step needs: pods that wake each other for ever would be a fault of their own."""


def watched(*plugins: Any, **more: Any) -> "Watched":
    multi_point = {"enabled": [{"name": plugin.name} for plugin in plugins]}
    return Watched(configuration(profile(plugins={"multiPoint": multi_point}), **more), *plugins)


class Watched(Harness):
    """Notes who is tried when, and holds each attempt against what allows it."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.real = 0
        """Changes from outside so far."""
        self.tried: dict[str, tuple[float, int, bool]] = {}
        """UID → when it was tried last, how many changes there had been, and whether it may be taken early once."""
        self.attempts = 0

    def handle(self, stimulus: Stimulus) -> list[Instruction]:
        self.real += isinstance(stimulus, Put | Gone)
        before = {queued.pod.uid: (queued, queued.attempts) for queued in self.engine.queue}
        done = super().handle(stimulus)
        if isinstance(stimulus, Cycle):
            (tried,) = [queued for queued, attempts in before.values() if queued.attempts > attempts]
            self._judge(tried)
        return done

    def _judge(self, queued: QueuedPod) -> None:
        self.attempts += 1
        uid = queued.pod.uid
        then, real, once = self.tried.get(uid, (-1000.0, -1, True))
        waited = self.now - then >= 1.0
        assert waited or self.real > real or once, f"{uid} is tried again after {self.now - then} s, for no reason"
        self.tried[uid] = (self.now, self.real, waited or (once and self.real > real))

    def run_dry(self, answer: Any) -> None:
        """Schedule until nothing is left to do."""
        for _ in range(MOST_CYCLES):
            if not self.engine.has_work:
                return
            for instruction in self.cycle():
                answer(instruction)
        raise AssertionError("pods wake each other for ever")


def convoy() -> Any:
    sys.path.insert(0, str(Path(__file__).parents[3] / "examples" / "plugin"))
    try:
        from berth_harbour.convoy import Convoy  # type: ignore[import-not-found, unused-ignore]
    finally:
        sys.path.pop(0)
    return Convoy


@pytest.mark.parametrize("pods", [1, 2, 5])
def test_pods_of_a_convoy_that_has_no_size(pods: int) -> None:
    """Each is rejected at Permit once: nobody has missed the room that it had for a moment, so nobody is woken."""
    harness = watched(convoy())
    harness.put(node("n1"))
    for i in range(pods):
        harness.put(pod(f"p{i}", labels={"convoy": "a"}))
    said: list[Instruction] = []
    harness.run_dry(said.append)
    assert len([one for one in said if isinstance(one, Failed)]) == pods
    harness.after(400.0)
    harness.run_dry(said.append)
    assert len([one for one in said if isinstance(one, Failed)]) == 2 * pods
    assert harness.engine.cluster.assumed() == 0


def test_pods_that_push_each_other_off() -> None:
    """Each newcomer has the pod that waits rejected, and the room that this one gives back wakes the third."""

    def permit(self: Any, assumed: AssumedPod, cluster: Any) -> Hold:
        for other in assumed.waiting_pods:
            other.reject("Own", f"pushed off by {assumed.pod.name}")
        return Hold(60.0)

    harness = watched(plugin(permit=permit, events=ANY))
    harness.put(node("n1"), *(pod(f"p{i}") for i in range(3)))
    for _ in range(40):
        harness.run_dry(lambda _: None)
        harness.after(0.25)
    assert harness.attempts <= 3 * (2 + 40 * 0.25)


def rejecting(random: Random) -> Any:
    """A plugin that makes up its mind by chance, at each point."""

    def chance(percent: int) -> bool:
        return random.randrange(100) < percent

    def filter_(self: Any, pod: Any, cluster: Any) -> Any:
        if chance(5):
            raise RuntimeError("filter")
        where = cluster.nodes.alive[: cluster.nodes.rows].copy()
        return ((Unschedulable("full"), where),) if chance(25) else ()

    def reserve(self: Any, pod: Any, cluster: Any, row: int) -> Any:
        if chance(5):
            raise SystemExit(1)
        return Reject(Unschedulable("taken")) if chance(20) else None

    def unreserve(self: Any, assumed: AssumedPod, cluster: Any) -> None:
        for other in assumed.waiting_pods:
            if chance(30):
                other.reject("Own", "not without it")

    def permit(self: Any, assumed: AssumedPod, cluster: Any) -> Any:
        for other in assumed.waiting_pods:
            if chance(30):
                other.reject("Own", "pushed off")
            elif chance(30):
                other.allow("Own")
        if chance(30):
            return Reject(Unschedulable("not today"))
        return Hold(random.choice((0.5, 3.0))) if chance(40) else None

    async def pre_bind(self: Any, assumed: AssumedPod) -> None:
        raise AssertionError("the test answers")

    return plugin(filter=filter_, reserve=reserve, unreserve=unreserve, permit=permit, pre_bind=pre_bind, events=ANY)


@pytest.mark.parametrize("seed", range(40))
def test_whatever_plugins_reject(seed: int) -> None:
    """Rejections and failures at every point, at once and later, while pods come and go."""
    random = Random(seed)
    harness = watched(rejecting(random), podInitialBackoffSeconds=1, podMaxBackoffSeconds=4)
    harness.put(node("n1"), node("n2"))
    calls: list[Any] = []
    binding: list[str] = []

    def heed(instruction: Instruction) -> None:
        match instruction:
            case RunCall(call=call):
                calls.append(call)
            case Bind(pod=bound):
                binding.append(bound.uid)
            case PreBindWrite(pod=prepared):
                harness.handle(PreBindWriteFailed(prepared.uid, 500, "boom", {}))

    for i in range(8):
        harness.put(pod(f"p{i}"))
    for step in range(120):
        happens = random.randrange(12)
        if happens == 0:
            harness.put(pod(f"late{step}"))
        elif happens == 1:
            harness.gone("Pod", f"p{random.randrange(8)}")
        elif happens == 2:
            harness.put(node("n2", cpu=str(random.randint(1, 8))))
        elif happens in (3, 4) and calls:
            call = calls.pop(random.randrange(len(calls)))
            ends = (
                CallFailed(call.pod.uid, call, "boom") if random.randrange(2) else CallEnded(call.pod.uid, call, None)
            )
            for one in harness.handle(ends):
                heed(one)
        elif happens == 5 and binding:
            harness.bind_failed(binding.pop())
        harness.run_dry(heed)
        for one in harness.tick(random.choice((0.01, 0.2, 0.7))):
            heed(one)
    assert validate(harness.engine.cluster) == []
