"""Pods that cost much: a slice at a time, between the pods of others, and only up to a limit."""

from collections.abc import Callable
from typing import Any

import pytest

from scheduler.engine.budget import Budget
from scheduler.engine.engine import Engine
from scheduler.engine.instructions import AskExtenders, Bind, Failed, Instruction, PatchCondition, RecordFailure
from scheduler.engine.queued import Place
from scheduler.engine.stimuli import Broke, ExtendersAnswered
from scheduler.engine.turns import FREE, SHARE, Turns
from scheduler.framework.config import decode
from scheduler.framework.extenders import NodesAnswer
from scheduler.framework.plugin import OWN_STATE, Plugin
from scheduler.framework.profiles import build
from scheduler.state.validate import validate
from tests.builders import configuration, profile
from tests.registered import registry
from tests.unit.work import lines

from .conftest import Harness, node, pod

SLICE = Budget().slice


class Digging(Plugin):
    """A filter that has work to do for each pod that carries the label `steps`, and keeps what it has done."""

    name = "Digging"
    depends_on = OWN_STATE

    def __init__(self, args: Any) -> None:
        self.left: dict[str, int] = {}

    def filter(self, pod: Any, cluster: Any) -> Any:
        left = self.left.setdefault(pod.uid, int(pod.labels.get("steps", 0)))
        cluster.effort.note("terms", 700)
        while left:
            step = min(left, 100)
            left = self.left[pod.uid] = left - step
            cluster.effort.charge(step)
        return ()


def opened(budget: Budget | None = None, **more: Any) -> Harness:
    plugins = {"multiPoint": {"enabled": [{"name": "Digging"}]}}
    harness = Harness(configuration(profile(plugins=plugins), **more), Digging, budget=budget)
    harness.put(node("n1", cpu="400"), node("n2", cpu="400"))
    for name in ("n1", "n2"):
        harness.put(node(name, cpu="400") | {"status": {"allocatable": {"cpu": "400", "pods": "5000"}}})
    return harness


def of(namespace: str, name: str, steps: int = 0, **spec: Any) -> dict[str, Any]:
    labels = {"app": name, **({"steps": str(steps)} if steps else {})}
    return pod(name, cpu="1m", labels=labels, meta={"namespace": namespace, "uid": name}, **spec)


def run(harness: Harness, until: Callable[[], bool] | None = None) -> list[Any]:
    """Schedule; the names of pods that were bound, and None for each Cycle that came to nothing yet."""
    found: list[Any] = []
    while harness.engine.has_work and not (until is not None and until()):
        done = harness.cycle()
        found += [one.pod.name for one in done if isinstance(one, Bind)] or [None]
    assert validate(harness.engine.cluster) == []
    return found


def test_others_go_between_slices() -> None:
    """A slice for the costly pod, then the others get several times as much before its next one."""
    harness = opened()
    harness.put(of("a", "big", 20 * SLICE), *(of("b", f"p{i}") for i in range(150)))
    order = run(harness)
    ordinary = SHARE * SLICE // 250
    assert order[0] is None
    assert None not in order[1 : 1 + ordinary]
    assert order[1 + ordinary] is None
    assert order[-1] == "big"
    assert len([one for one in order if one is not None]) == 151


def test_alone_it_goes_on_at_once() -> None:
    """One slice for each Cycle, so that the shell may do other things in between."""
    harness = opened()
    harness.put(of("a", "big", 5 * SLICE))
    assert run(harness) == [None] * 5 + ["big"]
    assert harness.engine.attempts.slices == 5
    assert harness.engine.attempts.steps == 5 * SLICE


def test_a_thousand_costly_pods_in_a_row() -> None:
    """They cost their own tenant's place: others' pods that come later, cheap and costly ones, pass them."""
    harness = opened()
    harness.put(*(of("a", f"big{i}", 3 * SLICE) for i in range(1000)))
    for _ in range(5):
        harness.cycle()
    harness.put(of("b", "one", 3 * SLICE), *(of("c", f"p{i}") for i in range(50)))
    order = run(harness, lambda: harness.engine.queue.get("one") is None and harness.engine.attempts.slices > 5)
    while "one" not in order:
        order += run(harness, iter([False, True]).__next__)
    assert {f"p{i}" for i in range(50)} <= set(order)
    slices = len([one for one in order if one is None])
    assert slices < 15


def test_in_a_namespace_those_that_were_not_tried_come_first() -> None:
    """A costly pod comes before cheap ones of its own namespace once, and not twice."""
    harness = opened()
    harness.put(of("a", "big", 4 * SLICE), *(of("a", f"p{i}") for i in range(6)), of("b", "other"))
    order = run(harness)
    assert order[0] is None
    assert order[-1] == "big"
    assert set(order[1:8]) == {"other", *(f"p{i}" for i in range(6))}


def test_a_stream_of_cheap_pods_does_not_starve_a_costly_one_of_its_namespace() -> None:
    """Now and then it is the turn of one that has begun."""
    harness = opened()
    harness.put(of("a", "big", 3 * SLICE))
    harness.cycle()
    for i in range(100):
        harness.put(of("a", f"p{i}"))
        if any(isinstance(one, Bind) and one.pod.name == "big" for one in harness.cycle()):
            break
    else:
        pytest.fail("the costly pod starves")


def test_debts_are_forgotten() -> None:
    """A namespace whose pod was costly is as any other a while later."""
    harness = opened()
    harness.put(of("a", "big", 6 * SLICE))
    run(harness)
    turns = harness.engine.queue.turns
    assert turns.in_debt("a", harness.now)
    assert set(turns.debts(harness.now)) == {"a"}
    harness.after(1.0)
    assert not turns.in_debt("a", harness.now)
    assert turns.entries() == 0


FOUR_SLICES = Budget(whole=4 * SLICE)
"""What an attempt may cost."""


def test_a_pod_that_costs_too_much() -> None:
    """It fails with what it had to look at, waits longer each time, and everybody else is scheduled meanwhile."""
    harness = opened(FOUR_SLICES)
    harness.put(of("a", "big", 10**9))
    waits, failures = [], []
    for _ in range(8):
        while place(harness, "big") is Place.ACTIVE:
            failures += harness.cycle()
        assert place(harness, "big") is Place.BACKOFF
        (queued,) = harness.engine.queue
        waits.append(harness.engine.queue.backoff(queued))
        harness.put(of("b", f"p{len(waits)}"))
        harness.after(waits[-1] - 1.0)
        assert run(harness) == [f"p{len(waits)}"]
        assert not harness.engine.has_work
        harness.after(1.0)
    assert waits == [10.0, 20.0, 40.0, 80.0, 160.0, 300.0, 300.0, 300.0]
    message = f"the pod costs more than {4 * SLICE:,} steps (about 0.008 s of one core) to schedule: 700 terms"
    failed = [one for one in failures if isinstance(one, Failed)]
    assert [(one.reason, one.message, one.attempts) for one in failed] == [
        ("SchedulerError", message, i + 1) for i in range(8)
    ]
    assert [one.message for one in failures if isinstance(one, PatchCondition | RecordFailure)] == [message] * 2
    assert harness.engine.attempts.too_costly == 8


def test_what_was_paid_for_counts_again() -> None:
    """A pod that is cheap the next time has an ordinary backoff from then on."""
    harness = opened(FOUR_SLICES)
    harness.put(of("a", "big", 6 * SLICE))
    assert [one for one in run(harness) if one] == []
    harness.after(10.0)
    assert run(harness) == [None, None, "big"]
    harness.bind_failed("big")
    (queued,) = harness.engine.queue
    assert harness.engine.queue.backoff(queued) == 1.0 * 2


def begun(**more: Any) -> Harness:
    """A costly pod that has had one slice."""
    harness = opened(**more)
    harness.put(of("a", "big", 3 * SLICE))
    assert harness.cycle() == []
    assert place(harness, "big") is Place.ACTIVE
    assert harness.engine.queue.counts()[Place.ACTIVE] == 1
    return harness


def place(harness: Harness, uid: str) -> Place | None:
    queued = harness.engine.queue.get(uid)
    return None if queued is None else queued.place


def test_set_aside_and_deleted() -> None:
    """Nothing is left of it."""
    harness = begun()
    harness.lose("Pod", "a", "big", "big")
    assert not harness.engine.has_work
    assert run(harness) == []
    assert harness.engine.queue.counts()[Place.ACTIVE] == 0


def test_set_aside_and_bound_by_others() -> None:
    """The attempt ends there."""
    harness = begun()
    harness.put(of("a", "big", 3 * SLICE, nodeName="n2"))
    assert not harness.engine.has_work
    assert len(harness.engine.queue) == 0


def test_set_aside_and_changed() -> None:
    """It is decided as it is then, and what it has cost is not forgotten: an owner can't begin again for nothing."""
    harness = begun()
    harness.put(of("a", "big", 3 * SLICE, nodeSelector={"kubernetes.io/hostname": "n2"}, priority=7))
    (queued,) = harness.engine.queue
    assert queued.cost is not None
    assert queued.cost.spent == SLICE
    assert harness.binds() == {"big": "n2"}
    assert queued.attempts == 1


@pytest.mark.parametrize(("profile_name", "stays"), [("berth", True), ("other", False)])
def test_set_aside_and_reconfigured(profile_name: str, stays: bool) -> None:
    """It goes on by the new profile; without one, it is nobody's pod."""
    harness = begun()
    config = configuration(profile(profile_name))
    harness.engine.reconfigure(build(decode(config), registry()), 1.0, 10.0, harness.now)
    assert (set(harness.binds()) == {"big"}) is stays
    assert len(harness.engine.queue) == 0


def test_set_aside_and_broken() -> None:
    """A fault of ours in a later slice costs the pod its attempt."""
    harness = begun()
    schedule_pod = harness.engine.attempts.schedule_pod
    harness.engine.attempts.schedule_pod = lambda *given: 1 / 0  # type: ignore[method-assign, assignment]
    with pytest.raises(ZeroDivisionError):
        harness.cycle()
    harness.engine.attempts.schedule_pod = schedule_pod  # type: ignore[method-assign]
    (failed,) = [one for one in harness.handle(Broke("boom")) if isinstance(one, Failed)]
    assert failed.pod.name == "big"
    assert place(harness, "big") is Place.BACKOFF


def test_it_goes_on_after_extenders() -> None:
    """What they said is kept until the pod's turn comes; the slice counts from there."""
    plugins = {"multiPoint": {"enabled": [{"name": "Digging"}]}}
    extenders = [{"urlPrefix": "http://e", "filterVerb": "filter"}]
    config = decode(configuration(profile(plugins=plugins), extenders=extenders))
    harness = Harness()
    engine = Engine(build(config, {**registry(), "Digging": Digging}), extenders=config.extenders)
    harness.engine = engine
    harness.put(node("n1"), node("n2"), of("a", "big", 2 * SLICE))
    asked: list[Instruction] = []
    while not asked:
        asked = harness.cycle()
    (ask,) = asked
    assert isinstance(ask, AskExtenders)
    engine.queue.frameworks["berth"].plugin("Digging").left["big"] = 2 * SLICE  # type: ignore[union-attr]
    assert harness.handle(ExtendersAnswered(ask.question, NodesAnswer(frozenset(("n2",)), {}, {}))) == []
    assert place(harness, "big") is Place.ACTIVE
    assert harness.binds() == {"big": "n2"}


def test_pods_that_fit_nowhere() -> None:
    """A tenant with hundreds of them that are tried again and again does not hold up what others create meanwhile."""
    harness = opened()
    harness.put(*(of("a", f"vain{i}", nodeSelector={"no": "where"}) for i in range(300)))
    for _ in range(20):
        harness.cycle()
    harness.put(*(of("b", f"p{i}") for i in range(30)))
    order = run(harness)
    assert {f"p{i}" for i in range(30)} < set(order[:50])


def test_the_charges_of_thousands_of_namespaces() -> None:
    """Nobody goes through all of them for each attempt; those that are paid are forgotten."""
    turns = Turns({})
    costs = []

    def attempts() -> None:
        for i in range(100):
            turns.account(f"ns{i}", FREE + 1, 0.0)

    for many in (1_100, 4_000):
        for i in range(many):
            turns.account(f"ns{i}", FREE + 100_000, 0.0)
        costs.append(lines(attempts)[0])
    assert costs[1] < 2 * costs[0]
    for i in range(10_000):
        turns.account(f"later{i}", FREE + 1, 10.0 + i)
    assert turns.entries() < 5_000
