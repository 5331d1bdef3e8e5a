"""Gangs in an engine: all pods that are needed are bound together, or none is, with kube-scheduler's messages."""

from collections.abc import Iterator
from typing import Any, ClassVar

import pytest

from podberth.cache.validate import validate
from podberth.engine import binding_cycle
from podberth.engine.binding_table import State
from podberth.engine.instructions import Bind, Failed, Instruction, Preempt, SetGroupCondition
from podberth.engine.pod_groups.cycle import AT_A_TURN
from podberth.engine.queue import groups
from podberth.engine.queue.groups import Ended
from podberth.engine.queue.queued import Place
from podberth.engine.stimuli import Follows
from podberth.framework.binding import AssumedPod
from podberth.framework.config import ConfigError
from podberth.framework.interface import Plugin
from podberth.framework.status import Reject, Unschedulable
from podberth.model.pod_group import NATIVE
from tests.builders import Object, configuration, profile
from tests.unit.work import lines

from .conftest import Harness, node, pod


@pytest.fixture
def gangs(harness: Harness) -> Harness:
    """A harness whose API server serves PodGroups."""
    harness.handle(Follows(NATIVE, True))
    return harness


def group(name: str = "train", min_count: int | None = 2, **spec: Any) -> Object:
    policy: Object = {"basic": {}} if min_count is None else {"gang": {"minCount": min_count}}
    return {
        "kind": "PodGroup",
        "metadata": {"name": name, "namespace": "default", "uid": name},
        "spec": {"schedulingPolicy": policy, **spec},
    }


def member(name: str, cpu: str = "1", of: str = "train", **spec: Any) -> Object:
    return pod(name, cpu, spec.pop("scheduler", "berth"), schedulingGroup={"podGroupName": of}, **spec)


def members(count: int, cpu: str = "1", of: str = "train") -> list[Object]:
    return [member(f"{of}-{i}", cpu, of) for i in range(count)]


def conditions(said: list[Instruction]) -> list[tuple[str, str, str]]:
    return [(i.status, i.reason, i.message) for i in said if isinstance(i, SetGroupCondition)]


def failures(said: list[Instruction]) -> dict[str, str]:
    return {i.pod.name: i.message for i in said if isinstance(i, Failed)}


def bound(said: list[Instruction]) -> list[str]:
    return [i.pod.name for i in said if isinstance(i, Bind)]


def planning(harness: Harness) -> bool:
    """Whether victims are looked for."""
    attempt = harness.engine.groups.attempt
    return attempt is not None and attempt.decided and attempt.ended is Ended.REJECTED and attempt.plan is None


def test_a_gang_that_fits_is_bound(gangs: Harness) -> None:
    gangs.put(node("n1", "2"), node("n2", "2"), group(min_count=4), *members(4))
    said = gangs.cycles()
    assert sorted(bound(said)) == ["train-0", "train-1", "train-2", "train-3"]
    assert conditions(said) == [("True", "Scheduled", "")]


def test_a_gang_that_does_not_fit_binds_nothing(gangs: Harness) -> None:
    gangs.put(node("n1", "2"), node("n2", "1"), group(min_count=4), *members(4))
    said = gangs.cycles()
    assert bound(said) == []
    preemption = "pod group preemption: No preemption victims found for incoming preemptor"
    why = f"minCount (4) cannot be satisfied: 3 scheduled, 0 remaining, {preemption}"
    assert conditions(said) == [("False", "Unschedulable", why)]
    fits = f"pod group is unschedulable, {why}"
    assert failures(said) == {
        "train-0": fits,
        "train-1": fits,
        "train-2": fits,
        "train-3": "0/2 nodes are available: 2 Insufficient cpu.",
    }
    assert gangs.engine.cluster.assumed() == 0
    gangs.put(node("n3", "1"))
    gangs.tick(60.0)
    assert len(bound(gangs.cycles())) == 4


def test_the_rest_is_not_tried_once_it_is_in_vain(gangs: Harness) -> None:
    gangs.put(node("n1", "6"), group(min_count=10), *members(10))
    said = gangs.cycles()
    assert bound(said) == []
    rest = "minCount (10) cannot be satisfied: 6 scheduled, 3 remaining"
    assert failures(said)["train-6"] == "0/1 nodes are available: 1 Insufficient cpu."
    assert [failures(said)[f"train-{i}"] for i in (7, 8, 9)] == [rest] * 3
    assert gangs.engine.queue.counts()[Place.UNSCHEDULABLE] == 10


def test_pods_wait_for_their_group(gangs: Harness) -> None:
    gangs.put(node("n1"), *members(2))
    assert gangs.cycles() == []
    assert gangs.engine.queue.counts()[Place.GATED] == 2
    story = gangs.engine.history.story("train-0")
    assert story is not None
    gangs.put(group())
    assert sorted(bound(gangs.cycles())) == ["train-0", "train-1"]


def test_pods_wait_for_each_other(gangs: Harness) -> None:
    gangs.put(node("n1"), group(min_count=3), *members(2))
    assert gangs.cycles() == []
    gangs.put(member("last"))
    assert sorted(bound(gangs.cycles())) == ["last", "train-0", "train-1"]


def test_a_group_with_a_parent_is_scheduled_by_itself(gangs: Harness) -> None:
    """As in kube-scheduler without the gate CompositePodGroup, whether or not there is such a group."""
    gangs.put(node("n1"), group(parentCompositePodGroupName="job"), *members(2))
    assert sorted(bound(gangs.cycles())) == ["train-0", "train-1"]


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (
            {"featureGates": {"CompositePodGroup": True}},
            'featureGates: Invalid value: "CompositePodGroup": groups of pod groups are not supported',
        ),
        ({"furtherOrders": 20}, "furtherOrders: Invalid value: 20: not supported any more"),
    ],
)
def test_what_is_not_supported_is_refused(args: Object, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        Harness(configuration(profile(GangScheduling=args)))


def test_a_gate_that_is_off_may_be_named() -> None:
    Harness(configuration(profile(GangScheduling={"featureGates": {"CompositePodGroup": False}})))


def test_what_fits_of_a_gang_is_bound(gangs: Harness) -> None:
    gangs.put(node("n1", "3"), group(min_count=2), *members(4))
    said = gangs.cycles()
    assert sorted(bound(said)) == ["train-0", "train-1", "train-2"]
    assert failures(said)["train-3"] == "0/1 nodes are available: 1 Insufficient cpu."
    assert conditions(said)[0] == ("True", "Scheduled", "")


def test_a_basic_group(gangs: Harness) -> None:
    gangs.put(node("n1", "2"), group(min_count=None), *members(3))
    said = gangs.cycles()
    assert bound(said) == ["train-0", "train-1"]
    gangs.gone("Node", "n1")


def test_bindings_come_together(gangs: Harness) -> None:
    gangs.put(node("n1"), group(min_count=2), *members(2))
    said = gangs.cycles()
    assert len(bound(said)) == 2
    assert gangs.engine.binding.state("train-0") is State.BIND_POSTING


def test_others_are_tried_between_the_pods_of_a_gang(gangs: Harness) -> None:
    """Some of its pods in a row, then as many others."""
    harness = Harness()
    harness.handle(Follows(NATIVE, True))
    harness.put(*(node(f"n{i}", "8") for i in range(10)), group(min_count=40), *members(40))
    assert harness.cycle() == []
    harness.put(*(pod(f"p{i}") for i in range(6)))
    order = [names for said in each_turn(harness) if (names := bound(said))]
    alone = [names[0] for names in order if len(names) == 1]
    assert sorted(alone[:6]) == [f"p{i}" for i in range(6)], "they are bound before the gang is decided"
    assert sum(map(len, order)) == 46


def test_several_pods_of_a_gang_in_one_turn_while_nobody_waits() -> None:
    """As many as a turn has; once another pod is active, even one that comes later, it is one pod in a turn."""
    harness = Harness()
    harness.handle(Follows(NATIVE, True))
    harness.put(node("n1", "80"), group(min_count=60), *members(60))
    assumed = harness.engine.cluster.assumed
    harness.cycle()
    assert assumed() == AT_A_TURN
    harness.put(pod("later", priority=-1))
    for more in (1, 2):
        harness.cycle()
        assert assumed() == AT_A_TURN + more


def test_a_large_gang_gives_up_in_parts(gangs: Harness) -> None:
    """When its last pod fits nowhere, the others give back what they hold, and are told, some at a time."""
    count = 500
    gangs.put(node("n1", str(count)), group(min_count=count), *members(count - 1), member("last", "1000"))
    others = [pod(f"p{i}", "0") for i in range(8)]
    told: list[int] = []
    meanwhile = 0
    for said in each_turn(gangs):
        told.append(len(failures(said)))
        if sum(told) < count:
            meanwhile += len(bound(said))
        if sum(told) > 0 and others:
            gangs.put(others.pop())
    assert (sum(told), max(told) <= 128) == (count, True)
    assert meanwhile, "others are bound before all of the gang's pods were told"
    assert gangs.engine.cluster.assumed() == 8 - len(others)
    settled(gangs)


def test_a_pod_goes_while_its_gang_gives_up(gangs: Harness) -> None:
    """Whatever part of the end it is in, nothing is held afterwards, and the others come back."""
    for turn in range(12):
        harness = Harness()
        harness.handle(Follows(NATIVE, True))
        harness.put(node("n1", "300"), group(min_count=300), *members(299), member("last", "1000"))
        steps = each_turn(harness)
        for _ in range(turn):
            next(steps, None)
        harness.gone("Pod", "train-7")
        harness.gone("Pod", "train-290")
        said = harness.cycles()
        assert bound(said) == []
        assert harness.engine.cluster.assumed() == 0
        assert len(harness.engine.queue) == 298
        settled(harness)


def test_nobody_looks_through_all_pods_for_one_of_lower_priority(gangs: Harness) -> None:
    """The cluster knows which priorities its pods have."""
    gangs.put(node("n1", "8"), pod("low", priority=-5, nodeName="n1"), group(min_count=2), *members(2, "6"))
    cluster = gangs.engine.cluster
    assert (cluster.has_below(-4), cluster.has_below(-5)) == (True, False)
    tried = "pod group preemption: minCount (2) cannot be satisfied: 1 scheduled, 0 remaining"
    assert conditions(gangs.cycles())[-1][2].endswith(tried)
    gangs.gone("Pod", "low")
    assert not cluster.has_below(-4)


def each_turn(harness: Harness) -> Iterator[list[Instruction]]:
    """What is said in each turn, until nothing is to be done."""
    while harness.engine.has_work or harness.engine.binding.gathering.released:
        yield harness.cycle()


def begun(count: int = 4, needed: int = 4, cpu: str = "2") -> Harness:
    """A gang of which one pod has been tried."""
    harness = Harness()
    harness.handle(Follows(NATIVE, True))
    harness.put(node("n1", cpu), node("n2", cpu), node("n3", cpu), group(min_count=needed), *members(count))
    assert harness.cycle() == []
    assert harness.engine.binding.state("train-0") is State.GROUP_DECIDING
    return harness


def settled(harness: Harness) -> None:
    """Everything adds up, and nothing is held by anybody."""
    queue = harness.engine.queue
    assert sum(queue.counts().values()) == len(queue)
    assert min(queue.counts().values()) >= 0
    assert validate(harness.engine.cluster) == []


@pytest.mark.usefixtures("pod_by_pod")
def test_a_node_goes_between_two_pods() -> None:
    harness = begun()
    placement = harness.engine.cluster.placement("train-0")
    assert placement is not None
    harness.gone("Node", harness.engine.cluster.nodes.names[placement.row] or "")
    assert harness.engine.binding.state("train-0") is None
    story = harness.engine.history.story("train-0")
    assert story is not None
    assert story.entries[-1].kind == "reverted"
    assert len(bound(harness.cycles())) == 4
    settled(harness)


@pytest.mark.usefixtures("pod_by_pod")
def test_a_pod_goes_between_two_pods() -> None:
    harness = begun(count=5)
    harness.gone("Pod", "train-0")
    harness.gone("Pod", "train-4")
    said = harness.cycles()
    assert bound(said) == []
    assert harness.engine.cluster.assumed() == 0
    settled(harness)
    harness.put(member("train-9"))
    harness.tick(10.0)
    assert len(bound(harness.cycles())) == 4


@pytest.mark.usefixtures("pod_by_pod")
def test_a_pod_terminates_between_two_pods() -> None:
    harness = begun(count=5)
    harness.put(member("train-0", meta={"uid": "train-0", "deletionTimestamp": "2026-01-01T00:00:00Z"}))
    assert sorted(bound(harness.cycles())) == ["train-1", "train-2", "train-3", "train-4"]
    settled(harness)


@pytest.mark.usefixtures("pod_by_pod")
def test_a_pod_of_higher_priority_takes_the_room_between_two_pods() -> None:
    """It has to be reverted, not deleted; the gang is tried again, and fails."""
    harness = begun(cpu="2", needed=4)
    harness.put(*(pod(f"big-{i}", "2", priority=10) for i in range(3)))
    said = harness.cycles()
    victims = [i for i in said if isinstance(i, Preempt)]
    assert all(not one.victims for one in victims)
    assert sorted(bound(said)) == [] or all(name.startswith("big") for name in bound(said))
    harness.tick(20.0)
    harness.cycles()
    assert harness.engine.cluster.placement("train-0") is None
    settled(harness)


@pytest.mark.usefixtures("pod_by_pod")
def test_pods_that_come_meanwhile_are_tried_with_the_rest() -> None:
    harness = begun(cpu="4")
    harness.put(member("late"))
    assert harness.engine.queue.counts()[Place.GATED] == 1
    assert sorted(bound(harness.cycles())) == ["late", "train-0", "train-1", "train-2", "train-3"]
    settled(harness)


@pytest.mark.usefixtures("pod_by_pod")
def test_the_group_goes_between_two_pods() -> None:
    harness = begun()
    harness.gone("PodGroup", "train")
    said = harness.cycles()
    assert bound(said) == []
    assert set(failures(said).values()) == {'podgroup.scheduling.k8s.io "train" not found'}
    assert harness.engine.queue.counts()[Place.GATED] == 4
    harness.put(group(min_count=4))
    harness.tick(5.0)
    assert len(bound(harness.cycles())) == 4


@pytest.mark.parametrize("full", [False, True])
@pytest.mark.usefixtures("pod_by_pod")
def test_the_profile_goes_between_two_pods(full: bool) -> None:
    """Whether its pods find nodes, or victims are looked for: nobody can decide about the gang any more."""
    harness = Harness()
    harness.handle(Follows(NATIVE, True))
    harness.put(*(node(f"n{i}", "2") for i in range(3)))
    for i in range(3 if full else 0):
        harness.put(pod(f"low-{i}", "2", scheduler="else", priority=-1, nodeName=f"n{i}"))
    harness.put(group(min_count=3), *members(3))
    while not (planning(harness) or harness.engine.cluster.assumed()):
        harness.cycle()
    harness.engine.reconfigure({}, 1.0, 10.0, harness.now)
    said = harness.cycles()
    assert {reason for _, reason, _ in conditions(said)} == {"SchedulerError"}
    assert {*failures(said).values()} == {'profile not found for scheduler name "berth"'}
    assert (len(harness.engine.queue), harness.engine.cluster.assumed()) == (0, 0)
    settled(harness)


def test_two_groups_are_not_tried_at_a_time() -> None:
    """Each alone would hold what the other one needs."""
    harness = Harness()
    harness.handle(Follows(NATIVE, True))
    harness.put(node("n1", "8"), *(group(name, 6) for name in "abc"))
    for i in range(6):
        harness.put(*(member(f"{name}-{i}", of=name) for name in "abc"))
    said = harness.cycles()
    assert sorted({name[0] for name in bound(said)}) == ["a"]
    assert len(bound(said)) == 6
    assert [reason for _, reason, _ in conditions(said)] == ["Scheduled", "Unschedulable", "Unschedulable"]
    settled(harness)


@pytest.mark.parametrize(
    ("other", "says"),
    [
        ({"priority": 7}, "the same priority as the pod group's priority, got 7 and 0"),
        (
            {"preemptionPolicy": "Never"},
            "the same preemption policy, got Never and PreemptLowerPriority",
        ),
        ({"scheduler": "packed"}, 'the same .spec.schedulerName set, got: "packed" and "berth"'),
    ],
)
def test_pods_that_do_not_agree(gangs: Harness, other: Any, says: str) -> None:
    gangs.put(node("n1"), group(), member("a"), member("b", **other))
    said = gangs.cycles()
    message = f"all pods in a single pod group should have {says}"
    if "priority" in other:
        assert {i.message for i in said if isinstance(i, Failed)} == {message}
    assert failures(said) == {"a": message, "b": message}
    assert conditions(said) == [("False", "SchedulerError", message)]
    assert bound(said) == []
    assert gangs.engine.queue.counts()[Place.BACKOFF] == 2


def test_a_pod_with_a_node_has_to_agree_too(gangs: Harness) -> None:
    placed = member("a", scheduler="other")
    placed["spec"]["nodeName"] = "n1"
    gangs.put(node("n1"), group(), placed, member("b"))
    said = gangs.cycles()
    assert conditions(said)[0][1] == "SchedulerError"


def test_after_a_restart_the_rest_follows(gangs: Harness) -> None:
    """Pods that have a node count: those that were bound before the process was killed."""
    gangs.put(node("n1"), group(min_count=4))
    for document in members(4)[:2]:
        document["spec"]["nodeName"] = "n1"
        gangs.put(document)
    assert gangs.cycles() == []
    gangs.put(*members(4)[2:])
    assert sorted(bound(gangs.cycles())) == ["train-2", "train-3"]


class Refuses(Plugin):
    """Lets nobody of this name go."""

    name = "Refuses"
    names: ClassVar[set[str]] = set()

    def permit(self, assumed: AssumedPod, cluster: Any) -> Reject | None:
        return Reject(Unschedulable("not today")) if assumed.pod.name in self.names else None


@pytest.fixture
def refusing() -> Iterator[Harness]:
    """A harness with a Permit plugin that refuses the pod train-3."""
    Refuses.names = {"train-3"}
    config = configuration(profile(plugins={"multiPoint": {"enabled": [{"name": "Refuses"}]}}))
    harness = Harness(config, Refuses)
    harness.handle(Follows(NATIVE, True))
    yield harness
    Refuses.names = set()
    settled(harness)


def test_no_binding_before_all_have_passed_permit(refusing: Harness) -> None:
    refusing.put(node("n1"), group(min_count=4), *members(4))
    said = refusing.cycles()
    assert bound(said) == []
    assert failures(said)["train-3"] == "0/1 nodes are available: 1 not today."
    assert refusing.engine.binding.state("train-0") is State.GROUP_GATHERING
    Refuses.names = set()
    refusing.tick(20.0)
    assert len(bound(refusing.cycles())) == 4, "the three have waited for it"


def test_whoever_waits_in_vain_gives_back(refusing: Harness) -> None:
    refusing.put(node("n1"), group(min_count=4), *members(4))
    refusing.cycles()
    refusing.gone("Pod", "train-3")
    refusing.tick(299.0)
    assert refusing.engine.cluster.assumed() == 3
    said = refusing.tick(1.0)
    said += refusing.tick(0.0)
    timeout = "0/1 nodes are available: 1 rejected due to timeout after waiting 5m0s at plugin GangScheduling."
    assert failures(said) == {f"train-{i}": timeout for i in range(3)}
    assert refusing.engine.cluster.assumed() == 0
    assert refusing.engine.queue.counts()[Place.GATED] == 3


def test_who_gives_up_does_not_look_at_all_others(refusing: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first one does. Else the last pods of a gang of thousands would hold the loop for seconds."""
    monkeypatch.setattr(binding_cycle, "_GIVEN_UP_AT_ONCE", 1)
    refusing.put(node("n1", "100"), group(min_count=100), *members(100))
    refusing.cycles()
    while (due := refusing.engine.next_tick()) is not None and due <= 1005.0:
        refusing.tick(due - refusing.now)
    refusing.tick(295.0)
    second = lines(lambda: refusing.tick(0.0))[0]
    while refusing.engine.cluster.assumed() > 2:
        refusing.tick(0.0)
    assert second < 1.5 * lines(lambda: refusing.tick(0.0))[0]
    refusing.tick(0.0)


def test_a_new_pod_completes_the_gang(refusing: Harness) -> None:
    refusing.put(node("n1"), group(min_count=4), *members(4))
    refusing.cycles()
    refusing.gone("Pod", "train-3")
    refusing.put(member("train-4"))
    refusing.tick(5.0)
    assert sorted(bound(refusing.cycles())) == ["train-0", "train-1", "train-2", "train-4"]


def test_a_lower_minimum_lets_those_go_that_wait(refusing: Harness) -> None:
    refusing.put(node("n1"), group(min_count=4), *members(4))
    refusing.cycles()
    said = refusing.tell(group(min_count=3))
    assert sorted(bound(said)) == ["train-0", "train-1", "train-2"]


def test_a_lower_minimum_wakes_the_group(gangs: Harness) -> None:
    gangs.put(node("n1", "2"), group(min_count=3), *members(3))
    assert bound(gangs.cycles()) == []
    gangs.put(group(min_count=2))
    gangs.tick(10.0)
    assert len(bound(gangs.cycles())) == 2


def test_a_gated_pod_holds_its_group(gangs: Harness) -> None:
    gangs.put(node("n1"), group(), member("a", schedulingGates=[{"name": "later"}]), member("b"), member("c"))
    assert gangs.cycles() == []
    assert gangs.engine.queue.counts()[Place.GATED] == 3
    gangs.put(member("a"))
    assert sorted(bound(gangs.cycles())) == ["a", "b", "c"]


def test_a_group_with_too_many_pods_is_not_tried(gangs: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once there are fewer, all pods are asked about, the gated one included."""
    monkeypatch.setattr(groups, "MOST_PODS", 4)
    gangs.put(node("n1", "8"), group(), *members(4), member("gated", schedulingGates=[{"name": "wait"}]))
    late = gangs.tell(member("late", meta={"uid": "late"}))
    (failed,) = [one for one in late if isinstance(one, Failed) and one.pod.name == "late"]
    assert failed.message == "too large for this scheduler: more than 4 waiting pods in one group"
    assert (failed.reason, *failed.plugins) == ("SchedulerError", "Limits")
    assert gangs.cycles() == []
    assert gangs.engine.queue.counts()[Place.GATED] == 6
    for name in ("train-0", "train-1"):
        gangs.gone("Pod", name)
    assert gangs.cycles() == [], "one of them is gated"
    gangs.put(member("gated"))
    assert sorted(bound(gangs.cycles())) == ["gated", "late", "train-2", "train-3"]
    settled(gangs)


def test_a_gated_pod_that_goes_holds_nobody(gangs: Harness) -> None:
    gangs.put(node("n1"), group(), member("a", schedulingGates=[{"name": "later"}]), member("b"), member("c"))
    gangs.gone("Pod", "a")
    assert sorted(bound(gangs.cycles())) == ["b", "c"]


def test_a_binding_that_is_refused(gangs: Harness) -> None:
    """The pod is tried again; its group has the others already, or waits for them."""
    gangs.put(node("n1"), group(), *members(2))
    gangs.cycles()
    gangs.bound("train-0")
    gangs.bind_failed("train-1")
    gangs.tick(5.0)
    assert bound(gangs.cycles()) == ["train-1"]


def test_a_group_goes_by_its_priority_and_the_time_of_its_first_pod(gangs: Harness) -> None:
    gangs.put(group("low", 1), group("high", 1, priority=5))
    gangs.put(member("l", of="low"))
    gangs.put(member("h", of="high", priority=5), pod("p", priority=3))
    gangs.put(node("n1"))
    assert bound(gangs.cycles()) == ["h", "p", "l"]


def test_a_group_that_waits_is_woken_by_room(gangs: Harness) -> None:
    gangs.put(node("n1", "3"), pod("old", "2"))
    gangs.cycles()
    gangs.put(group(), *members(2))
    assert bound(gangs.cycles()) == []
    assert gangs.tick(30.0) + gangs.cycles() == [], "nothing has happened, so it is not tried again"
    gangs.gone("Pod", "old")
    gangs.tick(0.0)
    assert len(bound(gangs.cycles())) == 2


def test_other_profiles(gangs: Harness) -> None:
    """Groups find their places again."""
    gangs.put(group("ready"), group("waits", 3), *members(2, of="ready"), *members(2, of="waits"))
    engine = gangs.engine
    engine.reconfigure(engine.queue.frameworks, 1.0, 10.0, gangs.now)
    gangs.put(node("n1"))
    assert sorted(bound(gangs.cycles())) == ["ready-0", "ready-1"]
    engine.reconfigure({}, 1.0, 10.0, gangs.now)
    gangs.cycles()
    assert len(engine.queue) == 0
    settled(gangs)
