"""What the meter makes of an engine's stimuli, in virtual time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

import pytest
from msgspec.structs import replace

from podberth.app import metrics
from podberth.app.metrics import KEEP_MOST, Meter
from podberth.cache.validate import validate
from podberth.engine.engine import Engine
from podberth.engine.instructions import Bind
from podberth.engine.queue.places import FLUSH_AFTER
from podberth.engine.stimuli import BindFailed, Bound, Cycle, ExtendersAnswered, Follows, Gone, Put, Tick
from podberth.framework.binding import AssumedPod, Hold
from podberth.framework.config import Extender, PluginRef, Plugins, PluginSet, default_configuration
from podberth.framework.extenders import NodesAnswer
from podberth.framework.interface import Plugin
from podberth.framework.profiles import build
from podberth.framework.status import Reject, Unschedulable
from podberth.model import wire
from podberth.model.kinds import Decoder
from podberth.model.pod_group import NATIVE
from podberth.service.metrics import Family, Reading, read
from tests.builders import node, pod
from tests.registered import registry


class Clock:
    """A second passes each time somebody looks."""

    def __init__(self) -> None:
        self._ticks = count(1)

    def __call__(self) -> float:
        return float(next(self._ticks))


class Bench:
    """An engine with a meter on it."""

    def __init__(self, chance: float, *plugins: Any, verify: int = 0, extenders: tuple[Extender, ...] = ()) -> None:
        """`plugins`: enabled at all their points, beside those that always are."""
        plain = default_configuration()
        enabled = PluginSet(enabled=[PluginRef(plugin.name) for plugin in plugins])
        profile = replace(plain.profiles[0], plugins=Plugins(multi_point=enabled))
        known = {**registry(), **{plugin.name: plugin for plugin in plugins}}
        frameworks = build(replace(plain, profiles=[profile]), known)
        self.engine = Engine(frameworks, verify=verify, extenders=extenders)
        self.clock = Clock()
        self.meter = Meter(self.engine, frameworks, clock=self.clock, rng=lambda: chance)
        self._decoder = Decoder()

    def put(self, document: dict[str, Any], *, added: bool = True) -> None:
        """An object came, or changed."""
        decode: Callable[[bytes], Any] = self._decoder.of_kind(document["kind"])
        self.meter.handle(Put(decode(wire.encode(document)), added), self.clock())

    def cycle(self) -> list[Any]:
        """One attempt."""
        return list(self.meter.handle(Cycle(), self.clock()))

    def readings(self) -> dict[str, Reading]:
        """By name."""
        return {reading.family.name: reading for reading in read(self.meter.instruments())}

    def series(self, family: Family) -> dict[tuple[str, ...], float]:
        """Labels → value; of a histogram, how many values."""
        reading = self.readings()[family.name]
        return {**reading.values, **{labels: sum(found[:-1]) for labels, found in reading.distributions.items()}}


@pytest.fixture(params=[0.0, 0.99], ids=["sampled", "not sampled"])
def bench(request: pytest.FixtureRequest) -> Iterator[Bench]:
    """With every plugin timed, and with none."""
    made = Bench(request.param)
    yield made
    assert validate(made.engine.cluster) == []


def test_scheduled(bench: Bench) -> None:
    """From the queue to the API's answer: attempts, durations by extension point, the pod's own latency."""
    bench.put(node("a"))
    bench.put(node("b"))
    bench.put(pod("web", "100m"))
    (bind,) = bench.cycle()
    assert isinstance(bind, Bind)
    bench.meter.handle(Bound(bind.pod.uid), bench.clock())
    assert bench.series(metrics.ATTEMPTS) == {("scheduled", "berth"): 1.0}
    assert bench.series(metrics.ATTEMPT_SECONDS) == {("scheduled", "berth"): 1}
    assert bench.series(metrics.ALGORITHM_SECONDS) == {(): 1}
    assert bench.series(metrics.POD_ATTEMPTS) == {(): 1}
    assert bench.series(metrics.SLI_SECONDS) == {("1",): 1}
    assert bench.series(metrics.POINT_SECONDS) == {
        (point, "Success", "berth"): 1 for point in ("PreEnqueue", "PreFilter", "Filter", "Score", "Reserve", "Bind")
    }
    assert bench.series(metrics.EVENT_SECONDS) == {("NodeAdd",): 2, ("UnscheduledPodAdd",): 1}
    assert bench.series(metrics.DECISIONS) == {("miss", "berth"): 1.0}
    assert bench.series(metrics.EVALUATIONS)["TaintToleration", "Filter", "berth"] == 1.0


def test_unschedulable(bench: Bench) -> None:
    """No node: counted as such, with preemption tried, and no latency of a pod that was not bound."""
    bench.put(node("a", cpu="1"))
    for name in ("web", "twin"):
        bench.put(pod(name, "2"))
        bench.cycle()
    assert bench.series(metrics.ATTEMPTS) == {("unschedulable", "berth"): 2.0}
    assert bench.series(metrics.ATTEMPT_SECONDS) == {("unschedulable", "berth"): 2}
    assert bench.series(metrics.PREEMPTIONS) == {(): 2.0}
    # The second has a shape that was seen before: it takes the quick way, finds nothing, and is counted once.
    assert bench.series(metrics.POINT_SECONDS) == {
        ("PreEnqueue", "Success", "berth"): 2,
        ("PreFilter", "Success", "berth"): 2,
        ("Filter", "Success", "berth"): 2,
        ("PostFilter", "Unschedulable", "berth"): 2,
    }
    assert metrics.SLI_SECONDS.name not in bench.readings()


def budget() -> dict[str, Any]:
    """A PodDisruptionBudget of app=low that allows nothing."""
    spec = {"selector": {"matchLabels": {"app": "low"}}}
    metadata = {"name": "a", "namespace": "default", "uid": "a"}
    return {"kind": "PodDisruptionBudget", "metadata": metadata, "spec": spec, "status": {"disruptionsAllowed": 0}}


def test_preemption_over_a_budget(bench: Bench) -> None:
    """Its victims, and those of them that a budget was to keep, by who preempts."""
    bench.put(node("a", cpu="2"))
    bench.put(budget())
    for name, labels in (("low-0", {"app": "low"}), ("low-1", {"app": "other"})):
        bench.put(pod(name, "1", on="a", labels=labels))
    bench.put(pod("high", "2", priority=10))
    bench.cycle()
    assert bench.series(metrics.VICTIMS) == {(): 1}
    assert bench.readings()[metrics.VICTIMS.name].distributions[()][-1] == 2, "two victims in one preemption"
    assert bench.series(metrics.VIOLATIONS) == {("pod",): 1.0}
    assert not {metrics.DISRUPTIONS.name, metrics.GROUP_VICTIMS.name} & bench.readings().keys()


def gang(bench: Bench, name: str, count: int, cpu: str = "1", priority: int = 0, mode: str | None = None) -> None:
    """A gang of so many pods, tried until it is decided and all is said."""
    spec: dict[str, Any] = {"schedulingPolicy": {"gang": {"minCount": count}}, "priority": priority}
    spec |= {"disruptionMode": {mode: {}}} if mode else {}
    bench.put({"kind": "PodGroup", "metadata": {"name": name, "namespace": "default", "uid": name}, "spec": spec})
    for i in range(count):
        made = pod(f"{name}-{i}", cpu, priority=priority, labels={"app": "low"})
        made["spec"]["schedulingGroup"] = {"podGroupName": name}
        bench.put(made)
    while bench.engine.has_work:
        for one in bench.cycle():
            if isinstance(one, Bind):
                bench.meter.handle(Bound(one.pod.uid), bench.clock())
                bench.put(pod(one.pod.name, cpu, on=one.node, labels={"app": "low"}) | {"metadata": bound(one)})


def bound(one: Bind) -> dict[str, Any]:
    """The metadata of a pod that was bound."""
    return {"name": one.pod.name, "namespace": "default", "uid": one.pod.uid, "labels": {"app": "low"}}


def test_pod_groups(bench: Bench) -> None:
    """Attempts of groups by result, how long they took, and what preemption for them removes."""
    bench.meter.handle(Follows(NATIVE, True), bench.clock())
    bench.put(node("a", cpu="2"))
    bench.put(budget())
    gang(bench, "first", 2)
    assert bench.series(metrics.GROUP_ATTEMPTS) == {("scheduled", "berth"): 1.0}
    assert metrics.GROUP_PREEMPTIONS.name not in bench.readings()
    gang(bench, "second", 2)
    assert bench.series(metrics.GROUP_ATTEMPTS)["unschedulable", "berth"] == 1.0
    assert bench.series(metrics.GROUP_PREEMPTIONS) == {("Unschedulable",): 1.0}
    gang(bench, "third", 2, priority=10)
    assert bench.series(metrics.GROUP_ATTEMPTS)["waiting_on_preemption", "berth"] == 1.0
    assert bench.series(metrics.GROUP_PREEMPTIONS) == {("Unschedulable",): 1.0, ("Success",): 1.0}
    assert bench.series(metrics.GROUP_VICTIMS) == {(): 1}
    assert bench.series(metrics.VIOLATIONS) == {("podgroup",): 2.0}
    assert bench.series(metrics.GROUP_ATTEMPT_SECONDS).keys() == bench.series(metrics.GROUP_ATTEMPTS).keys()
    assert bench.series(metrics.GROUP_ALGORITHM_SECONDS) == {(): 3}


def test_refused(bench: Bench) -> None:
    """A Binding that the API refuses is an attempt that ended in an error."""
    bench.put(node("a"))
    bench.put(pod("web", "100m"))
    (bind,) = bench.cycle()
    bench.meter.handle(BindFailed(bind.pod.uid, 500, "no"), bench.clock())
    assert bench.series(metrics.ATTEMPTS) == {("error", "berth"): 1.0}
    assert bench.series(metrics.POINT_SECONDS)["Bind", "Error", "berth"] == 1


class Gate(Plugin):
    """Lets the pod "two" go on, and "one" with it; refuses the pod "bad"."""

    name = "Gate"

    def permit(self, assumed: AssumedPod, _cluster: Any) -> Hold | Reject | None:
        """Hold the first, and let it go with the second."""
        if assumed.pod.name == "bad":
            return Reject(Unschedulable("not through here"))
        if assumed.pod.name == "one":
            return Hold(60.0)
        for waiting in assumed.waiting_pods:
            waiting.allow(self.name)
        return None

    def post_bind(self, _assumed: AssumedPod, _cluster: Any) -> None:
        """Take note."""


class LetGo(Gate):
    """Lets go who waits when another pod is bound."""

    def permit(self, assumed: AssumedPod, _cluster: Any) -> Hold | Reject | None:
        """Hold the first."""
        return Hold(60.0) if assumed.pod.name == "one" else None

    def post_bind(self, assumed: AssumedPod, _cluster: Any) -> None:
        """Let it go."""
        for waiting in assumed.waiting_pods:
            waiting.allow(self.name)


def test_a_pod_that_goes_on_when_another_is_bound() -> None:
    """Its Binding is counted like any other."""
    bench = Bench(0.99, LetGo)
    bench.put(node("a"))
    for name in ("one", "two"):
        bench.put(pod(name, "100m"))
        bench.cycle()
    (bind,) = [d for d in bench.meter.handle(Bound("default/two"), bench.clock()) if isinstance(d, Bind)]
    bench.meter.handle(Bound(bind.pod.uid), bench.clock())
    assert bench.series(metrics.ATTEMPTS) == {("scheduled", "berth"): 2.0}
    assert bench.series(metrics.PERMIT_WAIT) == {("Success",): 1}


@pytest.mark.parametrize("chance", [0.0, 0.99], ids=["sampled", "not sampled"])
def test_permit(chance: float) -> None:
    """What Permit says of each pod, how long who waits has waited, and PostBind when the API has answered."""
    bench = Bench(chance, Gate)
    bench.put(node("a"))
    bound = []
    for name in ("one", "bad", "two"):
        bench.put(pod(name, "100m"))
        bound += [done for done in bench.cycle() if isinstance(done, Bind)]
    assert [bind.pod.name for bind in bound] == ["two", "one"]
    for bind in bound:
        bench.meter.handle(Bound(bind.pod.uid), bench.clock())
    points = bench.series(metrics.POINT_SECONDS)
    assert {labels: count for labels, count in points.items() if labels[0] in ("Permit", "PostBind")} == {
        ("Permit", "Wait", "berth"): 1,
        ("Permit", "Unschedulable", "berth"): 1,
        ("Permit", "Success", "berth"): 1,
        ("PostBind", "Success", "berth"): 2,
    }
    assert bench.series(metrics.PERMIT_WAIT) == {("Success",): 1}
    if chance == 0.0:
        timed = bench.series(metrics.PLUGIN_SECONDS)
        assert {(labels[1], count) for labels, count in timed.items() if labels[0] == "Gate"} == {
            ("Permit", 3),
            ("PostBind", 2),
        }
        assert timed["SchedulingGates", "PreEnqueue", "Success"] == 3


def test_a_pod_that_waits_for_a_permit_goes() -> None:
    """Its waiting came to nothing."""
    bench = Bench(0.99, Gate)
    bench.put(node("a"))
    bench.put(pod("one", "100m"))
    bench.cycle()
    bench.meter.handle(Gone("Pod", "default", "one", "default/one"), bench.clock())
    assert bench.series(metrics.PERMIT_WAIT) == {("Unschedulable",): 1}


def test_gated(bench: Bench) -> None:
    """A pod that PreEnqueue holds back."""
    bench.put(pod("web", gates=["wait"]))
    assert bench.series(metrics.POINT_SECONDS) == {("PreEnqueue", "UnschedulableAndUnresolvable", "berth"): 1}


def test_bound_after_flush(bench: Bench) -> None:
    """Counted for pods whose time was over, not for those that an event woke."""
    assert bench.series(metrics.AFTER_FLUSH) == {(): 0.0}
    now = bench.clock()
    for name, flushed in (("late", True), ("woken", False)):
        bench.put(pod(name, "100m"))
        bench.cycle()  # there is no node
        if flushed:
            bench.meter.handle(Tick(), now + FLUSH_AFTER + 100)
        bench.put(node("a"))
        (bind,) = bench.cycle()
        bench.meter.handle(Bound(bind.pod.uid), bench.clock())
        bench.meter.handle(Gone("Node", "", "a", "a"), bench.clock())
        assert bench.series(metrics.AFTER_FLUSH) == {(): 1.0}


def test_events(bench: Bench) -> None:
    """Changes by kube-scheduler's labels; pods of other schedulers that wait are none of ours."""
    bench.put(node("a"))
    bench.put(node("a", labels={"x": "y"}), added=False)
    bench.put(pod("web"))
    bench.put(pod("web", labels={"x": "y"}), added=False)
    bench.put(pod("web", on="a"), added=False)
    bench.put(pod("web", on="a", labels={"x": "y"}), added=False)
    bench.put(pod("foreign", scheduler="other"))
    bench.meter.handle(Gone("Pod", "default", "web", "default/web"), bench.clock())
    bench.meter.handle(Gone("Node", "", "a", "a"), bench.clock())
    assert bench.series(metrics.EVENT_SECONDS) == {
        ("NodeAdd",): 1,
        ("NodeUpdate",): 1,
        ("UnscheduledPodAdd",): 1,
        ("UnscheduledPodUpdate",): 1,
        ("AssignedPodAdd",): 1,
        ("AssignedPodUpdate",): 1,
        ("AssignedPodDelete",): 1,
        ("NodeDelete",): 1,
    }


def test_memos(bench: Bench) -> None:
    """A shape's first pods find nothing kept; later ones do."""
    for i in range(40):
        bench.put(node(f"n{i}"))
    for name in ("one", "two", "three", "four"):
        bench.put(pod(name, "100m"))
        bench.cycle()
    found = bench.series(metrics.DECISIONS)
    assert found["miss", "berth"] + found["hit", "berth"] == 4.0
    assert found["hit", "berth"] >= 1.0


def test_verifications() -> None:
    """By outcome: a sum that drifted makes one differ, and is made good."""
    bench = Bench(0.99, verify=1)
    assert bench.meter.verified() == {}
    bench.put(node("a"))
    for name, drift in (("one", 0), ("two", 10**9), ("three", 0)):
        bench.engine.cluster.nodes.requested[0] += drift
        bench.put(pod(name, "100m"))
        bench.cycle()
    assert bench.series(metrics.VERIFICATIONS) == {("equal", "berth"): 2.0, ("differs", "berth"): 1.0}
    assert bench.meter.verified() == {"verified": 3, "differing": 1}


def test_what_is_kept_is_bounded() -> None:
    """Times of changes are made into numbers without anybody asking."""
    bench = Bench(0.99)
    for _ in range(KEEP_MOST + 1):
        bench.put(node("a"), added=False)
    assert bench.meter.kept <= KEEP_MOST
    assert bench.series(metrics.EVENT_SECONDS) == {("NodeUpdate",): KEEP_MOST + 1}


@pytest.mark.parametrize(("chance", "timed"), [(0.05, True), (0.5, False)])
def test_plugins_are_timed_in_one_attempt_of_ten(chance: float, timed: bool) -> None:
    """By chance, a whole attempt at a time."""
    bench = Bench(chance)
    bench.put(node("a"))
    bench.put(pod("web", "100m"))
    bench.cycle()
    found = bench.readings().get(metrics.PLUGIN_SECONDS.name)
    assert (found is not None) == timed
    if found is not None:
        asked = {("InterPodAffinity", "Filter", "Success"), ("NodeResourcesFit", "Filter", "Success")}
        assert found.distributions.keys() >= asked


def test_an_attempt_with_extenders_is_one_attempt() -> None:
    """What it passes after they have answered counts as well, and each point once, though others came in between."""
    bench = Bench(0.99, extenders=(Extender(url_prefix="http://e", filter_verb="filter"),))
    bench.put(node("n1"))
    bench.put(node("n2"))
    bench.put(pod("web"))
    (ask,) = bench.cycle()
    bench.put(pod("other"))
    bench.cycle()
    bench.meter.handle(ExtendersAnswered(ask.question, NodesAnswer(frozenset(("n1", "n2")), {}, {})), bench.clock())
    assert {labels: n for labels, n in bench.series(metrics.POINT_SECONDS).items() if labels[0] != "PreEnqueue"} == {
        (point, "Success", "berth"): 1 for point in ("PreFilter", "Filter", "Score", "Reserve")
    }
    assert bench.series(metrics.ALGORITHM_SECONDS) == {(): 1}
