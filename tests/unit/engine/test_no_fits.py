"""Pods that find no node: what one has found holds for its equals, until anything changes."""

from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from podberth.cache.rebuild import rebuilt
from podberth.cache.validate import validate
from podberth.engine.instructions import AskExtenders, Bind, Failed
from podberth.engine.no_fits import NoFit
from podberth.engine.queue import scheduling_queue as pending_work_module
from podberth.framework.config import decode
from podberth.framework.decision import AttemptRecord, Decision, fit_error
from podberth.framework.profiles import build
from podberth.framework.runtime import Rotation
from podberth.framework.verify import differences
from podberth.model import wire
from podberth.plugins.default_preemption.victims import Priorities
from tests.builders import namespace
from tests.registered import registry

from .conftest import CONFIG, Harness, node, pod
from .test_nobody_sleeps import PRELUDE, World, _step
from .test_points import plugin

CROWD = 40
APART = {
    "podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": "kubernetes.io/hostname"}
        ]
    }
}


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


class Asked:
    """Counts what plugins are asked."""

    def __init__(self, harness: Harness) -> None:
        self.points: Counter[str] = Counter()
        harness.engine.queue.frameworks["berth"].listen(self._ask, lambda *_: None, None)  # type: ignore[arg-type]

    def _ask(self, plugin: Any, point: Callable[..., Any], *args: Any) -> Any:
        self.points[point.__name__] += 1
        return point(*args)

    def take(self) -> int:
        """How often filters and preemption were asked since the last time."""
        found = self.points["filter"] + self.points["post_filter"]
        self.points.clear()
        return found


def big(name: str, **more: Any) -> dict[str, Any]:
    return pod(name, cpu="9", labels={"app": "big"}, **more)


def failures(done: list[Any]) -> list[Failed]:
    return [one for one in done if isinstance(one, Failed)]


def test_pods_of_others_do_not_wait_behind_a_crowd_without_a_node(harness: Harness) -> None:
    """Though each pod of the crowd costs a look-up only: its event and its condition are written, too."""
    harness.put(node("n0"), *(big(f"p{i}") for i in range(CROWD)))
    harness.put(namespace("other"), pod("fits", meta={"namespace": "other"}))
    tried = [one.pod.name for one in harness.cycles() if isinstance(one, Failed | Bind)]
    assert tried.index("fits") < CROWD / 2


def test_equal_pods_without_a_node_cost_one_decision(harness: Harness) -> None:
    """Each is told the same, of itself, and counts as an attempt of its own."""
    harness.put(*(node(f"n{i}") for i in range(5)), big("first"))
    asked = Asked(harness)
    (first,) = failures(harness.cycles())
    once = asked.take()
    assert once > 0
    harness.put(*(big(f"p{i}") for i in range(CROWD)))
    others = failures(harness.cycles())
    assert asked.take() == 0
    assert [one.pod.name for one in others] == [f"p{i}" for i in range(CROWD)]
    assert {(one.message, one.plugins, one.attempts) for one in others} == {(first.message, first.plugins, 1)}
    assert all(one.decision is not None and one.decision.pod is one.pod for one in others)
    assert "5 Insufficient cpu" in first.message


def test_what_pods_write_of_themselves_changes_nothing(harness: Harness) -> None:
    """The echo of a condition comes between two attempts, as it does with thousands of pods."""
    harness.put(node("n0"), big("p0"))
    harness.cycles()
    asked = Asked(harness)
    for i in range(1, CROWD):
        condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no"}
        echo = big(f"p{i - 1}")
        echo["status"]["conditions"] = [condition]
        harness.put(echo, big(f"p{i}"))
        assert len(failures(harness.cycles())) == 1
    assert asked.take() == 0


def budget() -> dict[str, Any]:
    spec = {"selector": {"matchLabels": {"app": "web"}}}
    meta = {"name": "pdb", "namespace": "default"}
    return {"kind": "PodDisruptionBudget", "metadata": meta, "spec": spec, "status": {"disruptionsAllowed": 0}}


def _assumed(harness: Harness) -> None:
    harness.put(pod("fits"))
    harness.cycle()


CHANGES: dict[str, Callable[[Harness], object]] = {
    "a node comes": lambda harness: harness.put(node("n9")),
    "a node changes": lambda harness: harness.put(node("n0", zone="a")),
    "a node goes": lambda harness: harness.gone("Node", "n1"),
    "a pod is placed": lambda harness: harness.put(pod("other", nodeName="n0")),
    "a placed pod changes": lambda harness: harness.put(pod("there", nodeName="n0", labels={"app": "new"})),
    "a placed pod goes": lambda harness: harness.gone("Pod", "there"),
    "a namespace changes": lambda harness: harness.put(namespace("default", team="a")),
    "a budget comes": lambda harness: harness.put(budget()),
    "a pod is assumed": _assumed,
    "a pod is nominated": lambda harness: harness.tell(
        {**pod("kept", cpu="8", meta={"uid": "kept"}), "status": {"nominatedNodeName": "n0"}}
    ),
    "profiles change": lambda harness: harness.engine.reconfigure(
        build(decode(CONFIG), registry()), 1.0, 10.0, harness.now
    ),
}


@pytest.mark.parametrize("change", CHANGES)
def test_after_any_change_an_equal_pod_is_decided_anew(harness: Harness, change: str) -> None:
    harness.put(node("n0"), node("n1"), pod("there", nodeName="n0"), big("p0"), big("p1"))
    harness.cycles()
    no_fits, profiles = harness.engine.scheduling.no_fits, harness.engine.queue.frameworks
    equal = harness.decoder.pod(wire.encode(big("p2", meta={"uid": "p2"})))
    assert no_fits.known(equal, profiles["berth"])
    assert no_fits.used == 1
    CHANGES[change](harness)
    assert not no_fits.known(equal, harness.engine.queue.frameworks["berth"])


@pytest.mark.parametrize(
    "other",
    [
        {"priority": 5},
        {"preemptionPolicy": "Never"},
        {"nodeSelector": {"a": "b"}},
        {"meta": {"ownerReferences": [{"kind": "ReplicaSet", "name": "r", "uid": "r", "controller": True}]}},
    ],
    ids=str,
)
def test_pods_that_differ_are_no_equals(harness: Harness, other: dict[str, Any]) -> None:
    harness.put(node("n0"), big("p0"), big("other", **other))
    harness.cycles()
    assert harness.engine.scheduling.no_fits.used == 0


def test_third_party_plugins_are_asked_about_each_pod() -> None:
    """They may go by whatever they like, the time of day among it."""
    asked = []

    def filter_(own: Any, pod: Any, cluster: Any) -> Any:
        asked.append(pod.name)
        return ()

    plugins = {"multiPoint": {"enabled": [{"name": "Own"}]}}
    profiles = [{"schedulerName": "berth", "plugins": plugins}]
    harness = Harness({**CONFIG, "profiles": profiles}, plugin(filter=filter_))
    harness.put(node("n0"), *(big(f"p{i}") for i in range(3)))
    harness.cycles()
    assert set(asked) == {"p0", "p1", "p2"}


def test_attempts_pass_the_same_points(harness: Harness) -> None:
    """Metrics and stories do not tell an attempt that was spared from one that was not."""
    record: AttemptRecord = harness.engine.scheduling.record
    record.clock = lambda: harness.now
    framework = harness.engine.queue.frameworks["berth"]
    framework.listen(None, record.reached, None)  # type: ignore[arg-type]
    harness.put(node("n0"), big("p0"), big("p1"))
    harness.cycle()
    first = record.take()
    harness.cycle()
    second = record.take()
    assert harness.engine.scheduling.no_fits.used == 1
    assert first is not None
    assert second is not None
    assert first[1::3] == second[1::3] == ["PreFilter", "Filter", "PostFilter"]
    assert first[2::3] == second[2::3]


def test_nobody_looks_through_nodes_for_pods_of_lower_priority_where_there_are_none(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once the pods of a node are ranked, the lowest priority on it is known; rows that change are ranked again."""
    looked: list[int] = []
    below = Priorities.below

    def counted(self: Priorities, rows: Any, priority: int, cluster: Any) -> Any:
        looked.extend(rows.tolist())
        return below(self, rows, priority, cluster)

    monkeypatch.setattr(Priorities, "below", counted)
    nodes, web = 30, {"app": "web"}
    harness.put(*(node(f"n{i}") for i in range(nodes)))
    harness.put(*(pod(f"there{i}", nodeName=f"n{i}", labels=web, affinity=APART) for i in range(nodes)))
    harness.put(pod("p0", labels=web, affinity=APART))
    (failed,) = failures(harness.cycles())
    assert f"{nodes} No preemption victims found" in failed.message
    assert looked == []  # no placed pod at all has a lower priority
    harness.put(pod("low", nodeName="n0", cpu="1m", priority=-5))
    harness.put(pod("p1", labels=web, affinity=APART, schedulingGates=[]))
    assert len(failures(harness.cycles())) == 1
    assert sorted(set(looked)) == list(range(nodes))
    looked.clear()
    harness.put(pod("also", nodeName="n1", cpu="1m"))
    harness.put(pod("p2", labels={**web, "new": "label"}, affinity=APART))
    assert len(failures(harness.cycles())) == 1
    rows = {harness.engine.cluster.nodes.row_of(name) for name in ("n0", "n1")}
    assert set(looked) <= rows


class Crowds(World):
    """Pods come three at a time, or as many as are said, all equal."""

    def __init__(self, each: int = 3) -> None:
        super().__init__()
        self._each = each

    def take(self, step: tuple[Any, ...]) -> None:
        if step[0] == "arrive":
            for _ in range(self._each - 1):
                self.harness.now += 0.001
                self._put(self._made(*step[1]))
        self.harness.now += 0.001
        super().take(step)


@pytest.mark.parametrize("seed", range(12))
def test_whatever_happens_equal_pods_are_told_what_they_would_find(seed: int) -> None:
    """Every outcome is held against a decision on a cluster made anew: pods and nodes come, change and go."""
    random, world = Random(seed), Crowds()
    scheduling = world.engine.scheduling
    decide = scheduling.decide

    def judged(queued: Any, now: float, answer: Any = None) -> Any:
        outcome = decide(queued, now, answer)
        if outcome is not None:
            assert not isinstance(outcome, AskExtenders)
            judge(world, outcome)
        return outcome

    scheduling.decide = judged  # type: ignore[method-assign]
    for step in (*PRELUDE, *(_step(random) for _ in range(40))):
        world.take(step)
        assert world.sleepers() == []
    assert scheduling.no_fits.used > 5
    assert validate(world.cluster) == []


@pytest.mark.parametrize("seed", [0, 1, 2, 3, 5, 6, 7, 8])
def test_whoever_waits_on_would_be_told_the_same(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    """Of pods that are woken together, those that are left where they are would find no node, and hear the same."""
    monkeypatch.setattr(pending_work_module, "AT_ONCE", 1)
    random, world = Random(seed), Crowds(8)
    queue, scheduling = world.engine.queue, world.engine.scheduling
    left = 0

    def judged(queued: Any) -> Any:
        nonlocal left
        waits = waits_on(queued)
        if waits:
            left += 1
            found = scheduling.no_fits.known(queued.pod, queue.frameworks["berth"])
            assert found is not None
            judge(world, found.of(queued.pod))
            assert queued.plugins == found.waits_for
            assert queued.written == ("Unschedulable", found.message, "")
        return waits

    waits_on = queue.waits_on
    monkeypatch.setattr(queue, "waits_on", judged)
    for step in (*PRELUDE, *(_step(random) for _ in range(60))):
        world.harness.now += 2.0  # nobody backs off any more
        world.take(step)
        assert world.sleepers() == []
        assert world.mistold() == []
    assert left > 0
    assert validate(world.cluster) == []
