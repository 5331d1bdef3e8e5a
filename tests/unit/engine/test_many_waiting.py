"""Tens of thousands of waiting pods: what concerns all of them is done some at a time, and nobody is forgotten."""

from collections.abc import Iterator
from random import Random
from typing import Any

import pytest

from podberth.cache.nominations import Nominations
from podberth.cache.validate import validate
from podberth.engine.instructions import Bind, ClearNomination, Failed, Instruction
from podberth.engine.queue import scheduling_queue as pending_work_module
from podberth.engine.queue import unschedulable
from podberth.engine.queue.queued import Place
from podberth.engine.queue.scheduling_queue import AT_ONCE
from podberth.engine.queue.unschedulable import AN_ATTEMPT, MOST_PENDING
from podberth.engine.queue.unschedulable import AT_ONCE as ASKED_AT_ONCE
from podberth.framework.config import decode
from podberth.framework.events import ClusterEvent
from podberth.framework.profiles import build
from podberth.framework.status import Unschedulable
from tests.builders import configuration, profile
from tests.registered import registry
from tests.unit.work import calls, lines

from .conftest import NO_LIMITS, Harness, node, pod
from .test_nobody_sleeps import PRELUDE, World, _step
from .test_points import plugin

MANY = 3 * AT_ONCE


class Hints:
    """Counts what the pods of a namespace are asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.open = False

    def plugin(self, **more: Any) -> Any:
        def filter_(own: Any, pod: Any, cluster: Any) -> Any:
            return () if self.open else ((Unschedulable("shut"), cluster.nodes.alive[: cluster.nodes.rows].copy()),)

        def node_hint(own: Any, pod: Any, old: Any, new: Any) -> bool:
            self.asked.append(pod.name)
            return "open" in new.labels

        return plugin(filter=filter_, node_hint=node_hint, events=ClusterEvent.NODE_ADDED, **more)


@pytest.fixture
def hints() -> Hints:
    return Hints()


def waiting(hints: Hints, pods: Iterator[Any] | list[Any]) -> Harness:
    """An engine where all these pods have been rejected."""
    plugins = {"multiPoint": {"enabled": [{"name": "Own"}]}}
    config = configuration(profile(plugins=plugins), podInitialBackoffSeconds=1)
    harness = Harness(config, hints.plugin(), limits=NO_LIMITS)
    harness.put(node("n0"), *pods)
    harness.cycles()
    assert set(places(harness)) == {Place.UNSCHEDULABLE}
    harness.after(20.0)
    return harness


def places(harness: Harness) -> dict[Place, int]:
    return {place: count for place, count in harness.engine.queue.counts().items() if count}


def moved(harness: Harness) -> int:
    return sum(harness.engine.queue.incoming.values())


def test_a_wakeup_of_all_is_done_some_at_a_time(hints: Hints) -> None:
    """Equal pods are asked once; each turn moves a bounded number; those that go meanwhile are gone."""
    harness = waiting(hints, [pod(f"p{i}", cpu="1m", labels={"app": "web"}) for i in range(MANY)])
    before = moved(harness)
    harness.put(node("n1", open="yes"))
    assert len(hints.asked) == 1
    assert moved(harness) - before == AT_ONCE
    assert places(harness) == {Place.ACTIVE: AT_ONCE, Place.UNSCHEDULABLE: MANY - AT_ONCE}
    last = f"p{MANY - 1}"
    harness.gone("Pod", f"p{MANY - 2}")
    harness.put(pod(last, cpu="1m", labels={"app": "other"}))
    queued = harness.engine.queue.get(last)
    assert queued is not None
    assert queued.place is Place.ACTIVE
    hints.open = True
    harness.put(*(node(f"more{i}") for i in range(MANY // 100)))
    while harness.engine.has_work:
        before = moved(harness)
        harness.cycle()
        assert moved(harness) - before <= AT_ONCE + 1
    assert len(harness.engine.cluster) == MANY - 1
    assert len(harness.engine.queue) == 0


def test_one_that_fits_beside_thousands_that_do_not(harness: Harness) -> None:
    """It is decided in the next turn, also after a node came that helps none of the others: none of them moves."""
    harness.put(node("n0", cpu="1"), *(pod(f"p{i}", cpu="2") for i in range(3000)))
    harness.cycles()
    assert places(harness) == {Place.UNSCHEDULABLE: 3000}
    harness.after(20.0)
    before = moved(harness)
    harness.put(node("n1", cpu="1"), pod("fits"))
    assert moved(harness) - before == 1
    assert [one.pod.name for one in harness.cycle() if isinstance(one, Bind)] == ["fits"]
    harness.cycles()
    assert places(harness) == {Place.UNSCHEDULABLE: 3000}
    assert moved(harness) - before == 1


def test_pods_of_higher_priority_are_woken_first(hints: Hints) -> None:
    """None of lower priority is decided while they are still being woken."""
    low = [pod(f"low{i}", cpu="1m", labels={"app": "low"}) for i in range(AT_ONCE + 5)]
    high = [pod(f"high{i}", cpu="1m", labels={"app": "high"}, priority=9) for i in range(AT_ONCE + 5)]
    harness = waiting(hints, low + high)
    hints.open = True
    harness.put(*(node(f"more{i}") for i in range(20)), node("n1", open="yes"))
    order = [one.pod.priority for one in harness.cycles() if isinstance(one, Bind)]
    assert order == sorted(order, reverse=True)
    assert len(order) == len(low + high)


def crowd_without_room(harness: Harness, nodes: int = 1) -> None:
    """On each node a pod that fills it, and many equal pods that wait; their backoffs are over."""
    for i in range(nodes):
        harness.put(node(f"n{i}", cpu="4"), pod(f"there{i}", cpu="4", nodeName=f"n{i}"))
    harness.put(*(pod(f"p{i}", cpu="4", labels={"app": "web"}) for i in range(4 * MANY)))
    harness.cycles()
    assert places(harness) == {Place.UNSCHEDULABLE: 4 * MANY}
    harness.after(20.0)


def attempts(harness: Harness) -> int:
    return sum(queued.attempts for queued in harness.engine.queue)


def test_room_for_one_of_many_equal_pods(harness: Harness) -> None:
    """One takes it. Once another one has found none, those that are not woken yet wait on, told what they were told."""
    crowd_without_room(harness)
    before, told = attempts(harness), {queued.pod.uid: queued.written for queued in harness.engine.queue}
    harness.gone("Pod", "there0")
    assert len([one for one in harness.cycles() if isinstance(one, Bind)]) == 1
    assert places(harness) == {Place.UNSCHEDULABLE: 4 * MANY - 1}
    assert attempts(harness) - before <= MANY, "a quarter of them; all before"
    assert all(queued.written == told[queued.pod.uid] for queued in harness.engine.queue)


def test_room_for_many_of_many_equal_pods(harness: Harness) -> None:
    """Whoever waits on is woken by the next event as before, so all room is taken in the end."""
    nodes = 5
    crowd_without_room(harness, nodes)
    for i in range(nodes):
        harness.gone("Pod", f"there{i}")
    assert len([one for one in harness.cycles() if isinstance(one, Bind)]) == nodes
    harness.after(20.0)
    harness.put(*(node(f"large{i}", cpu="440") for i in range(MANY // 100)))
    assert len([one for one in harness.cycles() if isinstance(one, Bind)]) == 110 * (MANY // 100)


def test_a_pod_that_would_be_told_something_else_is_tried(harness: Harness) -> None:
    """One more node is there, so the message is another one: everybody hears it."""
    crowd_without_room(harness)
    harness.put(node("small", cpu="1"))
    harness.after(20.0)
    harness.gone("Pod", "there0")
    harness.cycles()
    messages = {queued.written[1] for queued in harness.engine.queue if queued.written is not None}
    assert len(messages) == 1
    assert messages.pop().startswith("0/2 nodes are available")


def test_backoffs_that_end_together_and_flushes(hints: Hints) -> None:
    """A Tick moves a bounded number of pods, and the next one is due at once."""
    harness = waiting(hints, [pod(f"p{i}", cpu="1m", labels={"app": "web"}) for i in range(MANY)])
    before = moved(harness)
    harness.after(290.0)
    assert moved(harness) - before == AT_ONCE
    due = harness.engine.next_tick()
    assert due is not None
    assert due <= harness.now
    while (due := harness.engine.next_tick()) is not None and due <= harness.now:
        harness.after(0.0)
    assert places(harness) == {Place.ACTIVE: MANY}


def other(name: str, namespace: str, **more: Any) -> dict[str, Any]:
    return pod(name, cpu="1m", meta={"namespace": namespace, "uid": name}, **more)


def test_a_tenant_with_thousands_of_kinds_of_pods(hints: Hints) -> None:
    """Its kinds are asked a bounded number of times for each event, others' at once; no kind is left out."""
    kinds = 3000
    harness = waiting(hints, [other(f"a{i}", "a") for i in range(kinds)] + [other("b", "b")])
    harness.put(node("n1"))
    assert "b" in hints.asked
    assert len(hints.asked) <= ASKED_AT_ONCE // 4
    hints.asked.clear()
    harness.put(node("n2", open="yes"))
    assert "b" in hints.asked
    assert len(hints.asked) <= ASKED_AT_ONCE // 4
    queued = harness.engine.queue.get("b")
    assert queued is not None
    assert queued.place is Place.ACTIVE
    hints.open = True
    bound: list[str] = []
    while harness.engine.has_work:
        hints.asked.clear()
        bound += [one.pod.name for one in harness.cycle() if isinstance(one, Bind)]
        assert len(hints.asked) <= ASKED_AT_ONCE // 4
    assert bound[0] == "b"
    rejected = [queued for queued in harness.engine.queue if queued.place is Place.UNSCHEDULABLE]
    assert {queued.attempts for queued in rejected} == {2}, "the nodes are full, and nobody has slept"


def test_namespaces_that_are_behind_cost_an_event_nothing(hints: Hints, monkeypatch: pytest.MonkeyPatch) -> None:
    """A tenant may have thousands of them with one pod each. All are asked in the end, or woken."""
    monkeypatch.setattr(unschedulable, "AT_ONCE", 100)
    costs = []
    for many in (100, 800):
        harness = waiting(hints, [other(f"a{i}", f"ns{i}") for i in range(many)])
        harness.put(*(node(f"n{i}") for i in range(1, MOST_PENDING + 2)))
        costs.append(lines(lambda harness=harness: harness.put(node("last")))[0])  # type: ignore[misc]
        while harness.engine.queue.has_pending_work:
            harness.after(0.0)
        assert Place.UNSCHEDULABLE not in places(harness)
    assert costs[1] < 1.2 * costs[0]


def test_events_take_their_steps_from_attempts_again(hints: Hints) -> None:
    """While pods are tried, events of which each concerns hundreds of namespaces do not hold up each of them."""
    many, rounds = 600, 10
    harness = waiting(hints, [other(f"a{i}", f"ns{i}") for i in range(many)])
    at_once = 0
    for i in range(rounds):
        before = len(hints.asked)
        harness.put(node(f"n{i}"))
        at_once += len(hints.asked) - before
        harness.put(other(f"b{i}", "b"), other(f"c{i}", "c"))
        harness.cycle()
    assert at_once >= many
    assert at_once < 0.1 * (ASKED_AT_ONCE + rounds * AN_ATTEMPT)


def test_questions_that_pile_up_are_answered_with_yes(hints: Hints) -> None:
    """What is kept of them is bounded; rather than forgotten, pods are woken, and wait out their backoff."""
    harness = waiting(hints, [other(f"a{i}", "a") for i in range(1500)])
    entries = harness.engine.queue.entries()
    for i in range(50):
        harness.put(node(f"n{i}"))
    assert harness.engine.queue.entries() <= entries + MOST_PENDING + 2
    while harness.engine.queue.has_pending_work:
        harness.after(0.0)
    assert Place.UNSCHEDULABLE not in places(harness)


def test_an_event_passes_over_whoever_it_is_nothing_to(hints: Hints) -> None:
    """Thousands of groups wait for nodes: others' pods that are bound cost no step for each of them."""
    harness = waiting(hints, [other(f"a{i}", "a") for i in range(300)])
    unschedulable = harness.engine.queue.unschedulable
    unschedulable.taken = 0
    placed = pod("placed", cpu="1m")
    placed["spec"]["nodeName"] = "n0"
    harness.put(placed)
    assert unschedulable.taken <= 2
    harness.put(node("n1"))
    assert hints.asked


@pytest.mark.parametrize("stays", [True, False])
def test_another_configuration_for_many(hints: Hints, stays: bool) -> None:
    """Pods find their places by it some at a time; none is decided before all have."""
    harness = waiting(hints, [pod(f"p{i}", cpu="1m", labels={"app": "web"}) for i in range(MANY)])
    harness.put(*(pod(f"new{i}", cpu="1m") for i in range(5)), *(node(f"more{i}") for i in range(20)))
    before = moved(harness)
    config = configuration(profile("berth" if stays else "other"))
    harness.engine.reconfigure(build(decode(config), registry()), 1.0, 10.0, harness.now)
    assert moved(harness) - before <= AT_ONCE
    bound = harness.binds()
    assert len(bound) == (MANY + 5 if stays else 0)
    assert len(harness.engine.queue) == 0


class Hasty(World):
    """Where the next thing often happens before all attempts have come to their end."""

    def __init__(self, random: Random) -> None:
        super().__init__()
        self._random = random

    def _settle(self) -> None:
        self._heed(self.harness.tick(1.5))
        most = self._random.choice((3, 20, 5000))
        for _ in range(most):
            if not self.engine.has_work:
                return
            self._heed(self.harness.cycle())
        assert most < 5000, "pods wake each other for ever"


@pytest.mark.parametrize("seed", range(12))
def test_nobody_sleeps_whatever_the_turns(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    """Wake-ups, questions and backoffs in turns of any size, with whatever else happens in between."""
    random = Random(seed)
    monkeypatch.setattr(pending_work_module, "AT_ONCE", random.randint(1, 3))
    monkeypatch.setattr(unschedulable, "AT_ONCE", random.choice((1, 10, 40)))
    monkeypatch.setattr(unschedulable, "PER_NAMESPACE", random.choice((1, 10, 40)))
    monkeypatch.setattr(unschedulable, "MOST_PENDING", random.choice((1, 2, 8)))
    world = Hasty(random)
    for step in [*PRELUDE, *(_step(random) for _ in range(40))]:
        world.take(step)
        assert world.mistold() == []
        if not world.engine.queue.has_pending_work:
            assert world.sleepers() == []
    while (due := world.engine.next_tick()) is not None and (due <= world.harness.now or world.engine.has_work):
        world.harness.after(0.0)
        world.harness.cycle()
        if not world.engine.has_work:
            break
    assert world.sleepers() == []
    assert validate(world.cluster) == []


def test_churn_leaves_nothing_behind() -> None:
    """A pod that its owner changes over and over, pods that come and go: what is kept does not grow with that."""
    harness = Harness()
    harness.put(node("n1", cpu="1"), pod("big", cpu="2"))
    said = [one for one in harness.cycles() if isinstance(one, Failed)]
    assert len(said) == 1
    for i in range(5000):
        harness.put(pod("big", cpu="2", labels={"v": str(i)}, priority=i % 3))
        harness.put(pod(f"p{i}", cpu="2"))
        if i % 7 == 0:
            harness.cycles()
        harness.gone("Pod", f"p{i}")
    harness.cycles()
    queue = harness.engine.queue
    assert len(queue) == 1
    assert queue.entries() < 5 * 1024


def test_a_burst_of_events_asks_no_more_than_one(hints: Hints) -> None:
    """What is asked at once is bounded until pods have their turn again, however many events there are before."""
    harness = waiting(hints, [other(f"a{i}", f"ns{i % 30}") for i in range(3000)])
    hints.asked.clear()
    for i in range(200):
        harness.put(node(f"n{i}"))
    assert len(hints.asked) <= ASKED_AT_ONCE // 10
    while harness.engine.has_work:
        harness.cycle()
    assert {queued.attempts for queued in harness.engine.queue} == {2}


@pytest.mark.parametrize("how", ["the node goes", "somebody more important comes"])
def test_many_nominations_for_one_node_end_in_parts(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever may write the status of pods may name one node in thousands of them."""
    many, harness = 300, Harness()
    harness.put(node("n"), node("other", cpu="1m"), pod("low", cpu="4", nodeName="n", priority=-5))
    for i in range(many):
        kept = pod(f"kept-{i}", cpu="4", priority=-1, preemptionPolicy="Never")
        harness.put({**kept, "status": {"nominatedNodeName": "n"}})
    harness.cycles()
    assert len(harness.engine.cluster.nominations.on("n")) == many
    dropped = calls(monkeypatch, (Nominations, "drop"))
    said: list[Instruction] = []
    if how == "the node goes":
        said += harness.lose("Node", "", "n")
    else:
        harness.put(pod("high", cpu="4", priority=10))
    most = dropped["drop"]
    while harness.engine.has_work:
        dropped.clear()
        said += harness.cycle()
        most = max(most, dropped["drop"])
    assert most < 150
    assert len([one for one in said if isinstance(one, ClearNomination)]) == many
    names = [one.name for one in harness.engine.cluster.nominations.on("n")]
    assert names == ([] if how == "the node goes" else ["high"])
