"""Pod groups that make room for themselves: whom they remove, what is said, and where they wait until then."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from podberth.cache import row_counts
from podberth.cache.cluster import Cluster
from podberth.cache.column import Ints
from podberth.cache.rebuild import Rebuild
from podberth.cache.validate import validate
from podberth.engine.instructions import Bind, Failed, Instruction, Preempt, SetGroupCondition
from podberth.engine.stimuli import Follows, Gone, VictimStays
from podberth.framework.interface import PODS_HERE, Plugin
from podberth.framework.status import Rejections, Unschedulable
from podberth.model.pod import Pod
from podberth.model.pod_group import NATIVE
from tests.builders import Object, configuration, profile

from .conftest import Harness, node, pod
from .test_gangs import planning

ON_N0 = {"kubernetes.io/hostname": "n0"}


@pytest.fixture
def gangs(harness: Harness) -> Iterator[Harness]:
    """A harness whose API server serves PodGroups."""
    harness.handle(Follows(NATIVE, True))
    yield harness
    assert validate(harness.engine.cluster) == []


def group(name: str, needed: int, priority: int = 0, mode: str = "single", **spec: Any) -> Object:
    return {
        "kind": "PodGroup",
        "metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}"},
        "spec": {
            "schedulingPolicy": {"gang": {"minCount": needed}},
            "priority": priority,
            "disruptionMode": {mode: {}},
            **spec,
        },
    }


def member(of: str, number: int, on: str = "", cpu: str = "1", priority: int = 0, **spec: Any) -> Object:
    made = pod(f"{of}-{number}", cpu, schedulingGroup={"podGroupName": of}, priority=priority, **spec)
    if on:
        made["spec"]["nodeName"] = on
        made["status"] = {"phase": "Running", "startTime": f"2026-01-01T00:00:{number:02}Z"}
    return made


def running(name: str, on: str, cpu: str = "1", priority: int = 0, started: int = 0, **spec: Any) -> Object:
    made = pod(name, cpu, nodeName=on, priority=priority, **spec)
    made["status"] = {"phase": "Running", "startTime": f"2026-01-01T00:01:{started:02}Z"}
    return made


def victims(said: list[Instruction]) -> set[str]:
    return {victim.name for one in said if isinstance(one, Preempt) for victim in one.victims}


def until_planning(harness: Harness) -> list[Instruction]:
    """Work until victims are looked for."""
    said: list[Instruction] = []
    while not planning(harness):
        said += harness.cycle()
    return said


def condition(said: list[Instruction]) -> str:
    return [one.message for one in said if isinstance(one, SetGroupCondition)][-1]


def bound(said: list[Instruction]) -> dict[str, str]:
    return {one.pod.name: one.node for one in said if isinstance(one, Bind)}


def test_a_gang_removes_as_few_as_it_needs_and_starts_when_they_are_gone(gangs: Harness) -> None:
    """The victims that started last go; nodes are kept for the gang, and nobody else is let in."""
    gangs.put(*(node(f"n{i}", "2") for i in range(2)))
    gangs.put(*(running(f"low-{i}", f"n{i % 2}", started=i) for i in range(4)))
    gangs.put(group("high", 2, 5), *(member("high", i, priority=5) for i in range(2)))
    said = gangs.cycles()
    assert victims(said) == {"low-2", "low-3"}
    assert condition(said) == (
        "minCount (2) cannot be satisfied: 0 scheduled, 1 remaining, "
        "pod group preemption: found a placement for podgroup, preempting 2 victims"
    )
    assert {gangs.engine.cluster.nominations.node_of.get(f"high-{i}") for i in range(2)} == {"n0", "n1"}
    gangs.put(pod("stranger", "1"))
    assert bound(gangs.cycles()) == {}
    gangs.gone("Pod", "low-2")
    gangs.gone("Pod", "low-3")
    gangs.after(10)
    assert sorted(bound(gangs.cycles())) == ["high-0", "high-1"]


def test_a_group_of_mode_all_goes_as_a_whole_also_where_nobody_needs_its_room(gangs: Harness) -> None:
    gangs.put(node("n0", "2"), node("n1", "8"))
    gangs.put(group("low", 1, mode="all"), member("low", 0, "n0", "2"), member("low", 1, "n1"))
    gangs.put(group("high", 1, 5), member("high", 0, cpu="2", priority=5, nodeSelector=ON_N0))
    said = gangs.cycles()
    assert victims(said) == {"low-0", "low-1"}
    assert condition(said).endswith("found a placement for podgroup, preempting 2 victims")


def test_pods_of_a_group_of_mode_single_go_one_by_one(gangs: Harness) -> None:
    gangs.put(node("n0", "2"), node("n1", "8"))
    gangs.put(group("low", 1), member("low", 0, "n0", "2"), member("low", 1, "n1"))
    gangs.put(group("high", 1, 5), member("high", 0, cpu="2", priority=5, nodeSelector=ON_N0))
    assert victims(gangs.cycles()) == {"low-0"}


def test_nobody_of_equal_priority_goes(gangs: Harness) -> None:
    """The priority that counts for a member is its group's, whatever the pod says."""
    gangs.put(node("n0", "2"), running("equal", "n0", priority=5))
    gangs.put(group("low", 1, 5), member("low", 0, "n0", priority=0))
    gangs.put(group("high", 1, 5), member("high", 0, cpu="2", priority=5))
    said = gangs.cycles()
    assert victims(said) == set()
    assert condition(said).endswith("pod group preemption: No preemption victims found for incoming preemptor")


def test_a_gang_that_plans_anew_leaves_room_to_others_where_it_was_to_go(gangs: Harness) -> None:
    """Another scheduler's pod takes some of the room that the gang has made. It makes room elsewhere, and what is left
    here is for a lesser pod that waits."""
    gangs.put(*(node(f"n{i}", "2") for i in range(3)))
    gangs.put(*(running(f"low-{i}", f"n{i}", cpu="2", started=i) for i in range(3)))
    gangs.put(group("high", 2, 5), *(member("high", i, cpu="2", priority=5) for i in range(2)))
    assert victims(gangs.cycles()) == {"low-1", "low-2"}
    gangs.put(pod("small", "1"))
    assert bound(gangs.cycles()) == {}
    gangs.put(running("other", "n2", priority=10))
    for name in ("low-2", "low-1"):
        gangs.gone("Pod", name)
    gangs.after(10)
    said = gangs.cycles()
    assert victims(said) == {"low-0"}
    gangs.after(10)
    assert bound([*said, *gangs.cycles()]) == {"small": "n2"}


def test_a_gang_that_may_not_preempt_removes_nobody(gangs: Harness) -> None:
    gangs.put(node("n0", "2"), running("low", "n0", "2"))
    gangs.put(group("high", 1, 5), member("high", 0, priority=5, preemptionPolicy="Never"))
    said = gangs.cycles()
    assert victims(said) == set()
    assert condition(said).endswith("pod group preemption: not eligible due to preemptionPolicy=Never.")


def test_a_gang_that_would_not_fit_an_empty_cluster_removes_nobody(gangs: Harness) -> None:
    gangs.put(node("n0", "2"), running("low", "n0", "2"))
    gangs.put(group("high", 3, 5), *(member("high", i, priority=5) for i in range(3)))
    said = gangs.cycles()
    assert victims(said) == set()
    tail = "pod group preemption: minCount (3) cannot be satisfied: 2 scheduled, 0 remaining"
    assert condition(said).endswith(f"deallocation and deletion of ResourceClaims completed, {tail}")


def test_victims_that_a_budget_protects_are_spared_first(gangs: Harness) -> None:
    """Though the protected one started later."""
    gangs.put(node("n0", "2"))
    gangs.put(running("plain", "n0", started=1), running("protected", "n0", started=2, labels={"app": "db"}))
    budget = {
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "db", "namespace": "default", "uid": "db"},
        "spec": {"selector": {"matchLabels": {"app": "db"}}},
        "status": {"disruptionsAllowed": 0},
    }
    gangs.put(budget, group("high", 1, 5), member("high", 0, priority=5))
    assert victims(gangs.cycles()) == {"plain"}


def test_while_victims_leave_nobody_else_has_to(gangs: Harness) -> None:
    gangs.put(node("n0", "2"), running("low", "n0", "2"), node("n1", "2"), running("other", "n1", "2"))
    gangs.put(group("high", 1, 5), member("high", 0, priority=5))
    first = gangs.cycles()
    assert len(victims(first)) == 1
    gangs.put(node("n2", "500m"))
    gangs.after(10)
    said = gangs.cycles()
    assert victims(said) == set()
    assert condition(said).endswith("pod group preemption: ongoing preemption on nominated nodes")
    assert {gangs.engine.cluster.nominations.node_of.get("high-0")} < {"n0", "n1"}


def test_the_story_of_a_victim_names_the_group(gangs: Harness) -> None:
    gangs.put(node("n0", "1"), pod("low", "1"))
    assert gangs.binds() == {"low": "n0"}
    gangs.bound("low")
    gangs.put(running("low", "n0"), group("high", 1, 5), member("high", 0, priority=5))
    assert victims(gangs.cycles()) == {"low"}
    story = gangs.engine.history.story("low")
    assert story is not None
    texts = [entry.text for entry in story.entries]
    assert "chosen as a victim: has to leave n0 for podgroup default/high" in texts


def test_members_that_had_a_node_in_vain_are_nominated_too(gangs: Harness) -> None:
    """And are told what the group is told."""
    gangs.put(node("n0", "1"), node("n1", "1"), running("low", "n1"))
    gangs.put(group("high", 2, 5), *(member("high", i, priority=5) for i in range(2)))
    said = gangs.cycles()
    failed = {one.pod.name: one.message for one in said if isinstance(one, Failed)}
    assert failed["high-0"] == condition(said)
    assert failed["high-1"] == "0/2 nodes are available: 2 Insufficient cpu."
    nominations = gangs.engine.cluster.nominations
    assert {nominations.node_of.get("high-0"), nominations.node_of.get("high-1")} == {"n0", "n1"}


def test_terms_of_victims_count_while_they_are_put_back(gangs: Harness) -> None:
    """Filters are asked where amounts do not decide: the victim that repels the gang goes, its neighbour stays."""
    repels: Object = {
        "podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {"labelSelector": {"matchLabels": {"app": "gang"}}, "topologyKey": "kubernetes.io/hostname"}
            ]
        }
    }
    gangs.put(node("n0", "4"))
    gangs.put(running("repelling", "n0", started=1, affinity=repels), running("plain", "n0", started=2))
    gangs.put(group("high", 1, 5), member("high", 0, priority=5, labels={"app": "gang"}))
    assert victims(gangs.cycles()) == {"repelling"}


def test_a_change_while_the_plan_is_made(gangs: Harness) -> None:
    """A victim that has left by itself is not removed again, and one that came meanwhile counts."""
    gangs.put(*(node(f"n{i}", "1") for i in range(2)), *(running(f"low-{i}", f"n{i}") for i in range(2)))
    gangs.put(group("high", 2, 5), *(member("high", i, priority=5) for i in range(2)))
    said = until_planning(gangs)
    assert victims(said) == set()
    gangs.gone("Pod", "low-0")
    gangs.put(running("late", "n0"))
    said += gangs.cycles()
    assert victims(said) == {"late", "low-1"}


def test_a_member_that_goes_while_the_plan_is_made(gangs: Harness) -> None:
    gangs.put(*(node(f"n{i}", "1") for i in range(3)), *(running(f"low-{i}", f"n{i}") for i in range(3)))
    gangs.put(group("high", 2, 5), *(member("high", i, priority=5) for i in range(3)))
    said = until_planning(gangs)
    assert victims(said) == set()
    gangs.gone("Pod", "high-1")
    said += gangs.cycles()
    assert len(victims(said)) == 2


def test_a_group_that_is_deleted_while_the_plan_is_made(gangs: Harness) -> None:
    """Nobody is removed for it, until there is one again."""
    gangs.put(*(node(f"n{i}", "1") for i in range(2)), *(running(f"low-{i}", f"n{i}") for i in range(2)))
    gangs.put(group("high", 2, 5), *(member("high", i, priority=5) for i in range(2)))
    said = until_planning(gangs)
    gangs.gone("PodGroup", "high")
    said += gangs.cycles()
    assert (victims(said), condition(said)) == (set(), 'podgroup.scheduling.k8s.io "high" not found')
    gangs.put(group("high", 2, 5))
    gangs.after(30)
    assert victims(gangs.cycles()) == {"low-0", "low-1"}


def test_a_group_that_is_deleted_while_its_victims_are_told_to_go(gangs: Harness) -> None:
    """Those that were not told yet stay."""
    gangs.put(node("n0", "50"), *(running(f"low-{i}", "n0") for i in range(50)))
    gangs.put(group("high", 1, 5), member("high", 0, cpu="50", priority=5))
    said: list[Instruction] = []
    while not victims(said):
        said += gangs.cycle()
    gangs.gone("PodGroup", "high")
    said += gangs.cycles()
    assert len(victims(said)) == 32


@pytest.mark.parametrize("grouped", [True, False], ids=["for a group", "for a pod"])
def test_a_group_of_mode_all_goes_as_a_whole_also_where_nobody_waits_for_it_any_more(
    gangs: Harness, grouped: bool
) -> None:
    """It was told in part when those who need its room changed or went. One of which nobody was told yet stays."""
    gangs.put(node("n0", "100"), *(group(of, 1, mode="all") for of in ("one", "two")))
    gangs.put(*(member(of, i, "n0") for of in ("one", "two") for i in range(50)))
    urgent = [group("high", 1, 5), member("high", 0, cpu="100", priority=5)]
    gangs.put(*(urgent if grouped else [pod("high-0", "100", priority=5)]))
    said: list[Instruction] = []
    while not victims(said):
        said += gangs.cycle()
    if grouped:
        gangs.put(group("high", 2, 5))
    else:
        gangs.gone("Pod", "high-0")
    said += gangs.cycles()
    assert len(victims(said)) == 50
    assert len({name.partition("-")[0] for name in victims(said)}) == 1


def test_a_group_that_asks_for_less_while_the_plan_is_made(gangs: Harness) -> None:
    """It may fit by now: nobody is removed, and it is tried again after its backoff."""
    gangs.put(*(node(f"n{i}", "1") for i in range(4)), running("low", "n3"))
    gangs.put(group("high", 4, 5), *(member("high", i, priority=5) for i in range(4)))
    said = until_planning(gangs)
    gangs.put(group("high", 3, 5))
    said += gangs.cycles()
    assert (victims(said), bound(said)) == (set(), {})
    gangs.after(30)
    assert len(bound(gangs.cycles())) == 3


def test_a_group_that_is_made_anew_while_the_plan_is_made(gangs: Harness) -> None:
    """Its condition is that of the object which is there."""
    gangs.put(node("n0", "2"), running("r", "n0", "2"))
    gangs.put(group("gang", 2, priority=5), *(member("gang", i, priority=5) for i in range(2)))
    until_planning(gangs)
    gangs.handle(Gone("PodGroup", "default", "gang", "uid-gang"))
    anew = group("gang", 2, priority=5)
    anew["metadata"]["uid"] = "anew"
    gangs.put(anew)
    said = gangs.cycles()
    assert victims(said) == {"r"}
    assert {one.group.uid for one in said if isinstance(one, SetGroupCondition)} == {"anew"}


def test_a_pod_that_changes_while_the_plan_is_made(gangs: Harness) -> None:
    """It tolerates the node by now: its group is tried again after its backoff, as after any event."""
    tolerations = [{"operator": "Exists"}]
    tainted = node("n0", "3")
    tainted["spec"]["taints"] = [{"key": "own", "effect": "NoSchedule"}]
    gangs.put(tainted, node("n1", "1"), running("low", "n1"), group("high", 2, 5))
    gangs.put(member("high", 0, priority=5, cpu="2"), member("high", 1, priority=5, tolerations=tolerations))
    said = until_planning(gangs)
    gangs.put(member("high", 0, priority=5, cpu="2", tolerations=tolerations))
    said += gangs.cycles()
    assert (victims(said), bound(said)) == (set(), {})
    gangs.after(30)
    assert sorted(bound(gangs.cycles())) == ["high-0", "high-1"]


def test_a_plan_is_charged_to_the_namespace(gangs: Harness) -> None:
    gangs.put(*(node(f"n{i}", "4") for i in range(300)), *(running(f"low-{i}", f"n{i}", "4") for i in range(300)))
    assert gangs.engine.queue.fair_share.owes("default", gangs.now) == 0
    gangs.put(group("high", 2, 5), *(member("high", i, priority=5) for i in range(2)))
    gangs.cycles()
    assert gangs.engine.queue.fair_share.owes("default", gangs.now) > 300 * 20


# -- one pod that preempts groups --------------------------------------------------------------------------------------


def test_a_pod_takes_a_group_of_mode_all_as_a_whole(gangs: Harness) -> None:
    """From all nodes, and its pods count by their number where a node is chosen."""
    gangs.put(node("n0", "2"), node("n1", "8"), node("n2", "2", disk="ssd"))
    gangs.put(group("low", 1, mode="all"), member("low", 0, "n0", "2"), member("low", 1, "n1"))
    gangs.put(pod("high", "2", priority=5, nodeSelector=ON_N0))
    said = gangs.cycles()
    assert victims(said) == {"low-0", "low-1"}
    failed = {one.pod.name: one.message for one in said if isinstance(one, Failed)}
    assert failed["high"].endswith("found a potential placement for pod on node n0, preempting 2 victims")


def test_a_pod_goes_where_one_victim_is_enough(gangs: Harness) -> None:
    gangs.put(node("n0", "2"), node("n1", "2"))
    gangs.put(group("low", 1, mode="all"), member("low", 0, "n0"), member("low", 1, "n0"), running("alone", "n1", "2"))
    gangs.put(pod("high", "1", priority=5))
    assert victims(gangs.cycles()) == {"alone"}


def test_the_priority_of_the_group_counts_for_its_pods(gangs: Harness) -> None:
    gangs.put(node("n0", "2"))
    gangs.put(group("low", 1, 5), member("low", 0, "n0", "2", priority=0))
    gangs.put(pod("high", "2", priority=5))
    assert victims(gangs.cycles()) == set()


def test_a_group_of_low_priority_goes_though_no_pod_has_such_a_one(gangs: Harness) -> None:
    gangs.put(node("n0", "2"))
    gangs.put(group("low", 1, 0), member("low", 0, "n0", "2", priority=9))
    gangs.put(pod("high", "2", priority=5))
    assert victims(gangs.cycles()) == {"low-0"}


def test_what_is_kept_of_a_node_goes_by_groups_that_change(gangs: Harness) -> None:
    """The next of equal pods sees that a group goes one by one by now, and that another has one pod more."""
    gangs.put(node("n0", "2"), node("n1", "8"))
    gangs.put(group("low", 1, mode="all"), member("low", 0, "n0", "2"), member("low", 1, "n1"))
    gangs.put(running("wall", "n1", "7", priority=9))
    gangs.put(pod("first", "2", priority=5, preemptionPolicy="Never"), pod("high-0", "4", priority=5))
    assert victims(gangs.cycles()) == set()
    gangs.put(group("low", 1, mode="single"))
    gangs.put(pod("high-1", "2", priority=5))
    assert victims(gangs.cycles()) == {"low-0"}


def test_violations_of_a_group_are_those_of_all_its_pods(gangs: Harness) -> None:
    """Its pods elsewhere are protected, so the node with the other victim is chosen, though that one is older."""
    gangs.put(node("n0", "2"), node("n1", "2"), node("n2", "2", disk="ssd"))
    gangs.put(group("low", 1, mode="all"), member("low", 30, "n0", "2"), member("low", 31, "n2", labels={"app": "db"}))
    gangs.put(running("alone", "n1", "1", started=1), running("too", "n1", "1", started=2), running("three", "n1", "0"))
    budget = {
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "db", "namespace": "default", "uid": "db"},
        "spec": {"selector": {"matchLabels": {"app": "db"}}},
        "status": {"disruptionsAllowed": 0},
    }
    gangs.put(budget, pod("high", "2", priority=5))
    assert victims(gangs.cycles()) == {"alone", "too"}


def test_a_large_group_is_told_to_go_in_turns(gangs: Harness) -> None:
    """Those on the node first, so that the pod waits for them; one that has gone meanwhile is not named again."""
    gangs.put(*(node(f"n{i}", "2") for i in range(50)))
    gangs.put(group("low", 1, mode="all"), *(member("low", i, f"n{i}") for i in range(50)))
    gangs.put(running("wall", "n1", "1", priority=9))
    gangs.put(pod("high", "2", priority=5, nodeSelector={"kubernetes.io/hostname": "n49"}))
    first = gangs.cycle()
    assert len(victims(first)) == 32
    assert "low-49" in victims(first)
    left = {f"low-{i}" for i in range(50)} - victims(first)
    gone = sorted(left)[0]
    gangs.gone("Pod", gone)
    assert victims(gangs.cycles()) == left - {gone}


def test_others_have_turns_while_a_large_group_is_told_to_go(gangs: Harness) -> None:
    gangs.put(*(node(f"n{i}", "2") for i in range(50)), node("free", "2", disk="ssd"))
    gangs.put(group("low", 1, mode="all"), *(member("low", i, f"n{i}", "2") for i in range(50)))
    gangs.put(pod("high", "2", priority=5, nodeSelector=ON_N0))
    first = gangs.cycle()
    gangs.put(pod("other", "1", nodeSelector={"disk": "ssd"}))
    # A turn for others, and one for the rest of the group.
    second = gangs.cycle() + gangs.cycle()
    assert len(victims(first)) == 32
    assert len(victims(second)) == 50 - 32
    assert bound(second) == {"other": "free"}


# -- when a write fails, or the process ends ---------------------------------------------------------------------------


def test_a_victim_that_stays_is_removed_with_the_next_plan(gangs: Harness) -> None:
    """Its deletion has failed: the group is tried again, and does not wait for it for ever."""
    gangs.put(*(node(f"n{i}", "1") for i in range(2)), *(running(f"low-{i}", f"n{i}") for i in range(2)))
    gangs.put(group("high", 2, 5), *(member("high", i, priority=5) for i in range(2)))
    (removed,) = [one for one in gangs.cycles() if isinstance(one, Preempt)]
    stays = next(victim for victim in removed.victims if victim.name == "low-1")
    gangs.gone("Pod", "low-0")
    gangs.handle(VictimStays(stays))
    gangs.after(10)
    assert victims(gangs.cycles()) == {"low-1"}
    gangs.gone("Pod", "low-1")
    gangs.after(20)
    assert sorted(bound(gangs.cycles())) == ["high-0", "high-1"]


def test_after_a_restart_the_rest_of_a_group_is_removed(gangs: Harness) -> None:
    """The process before has ended after the first of three victims; those that are not in the way any more stay."""
    gangs.put(*(node(f"n{i}", "1") for i in range(3)), node("n3", "8"), running("free", "n3", "7"))
    gangs.put(group("low", 1, mode="all"), member("low", 1, "n1"), member("low", 2, "n2"))
    waiting = [member("high", i, priority=5) for i in range(3)]
    for i, one in enumerate(waiting):
        one["status"]["nominatedNodeName"] = f"n{i}"
    gangs.put(group("high", 3, 5), *waiting)
    assert victims(gangs.cycles()) == {"low-1", "low-2"}


def test_after_a_restart_a_gang_that_fits_by_now_removes_nobody(gangs: Harness) -> None:
    gangs.put(*(node(f"n{i}", "1") for i in range(3)))
    gangs.put(group("low", 1, mode="all"), member("low", 1, "n2"))
    waiting = [member("high", i, priority=5) for i in range(2)]
    for i, one in enumerate(waiting):
        one["status"]["nominatedNodeName"] = f"n{i}"
    gangs.put(group("high", 2, 5), *waiting)
    said = gangs.cycles()
    assert victims(said) == set()
    assert bound(said) == {"high-0": "n0", "high-1": "n1"}


def test_a_group_does_not_stand_in_its_own_way(gangs: Harness) -> None:
    """Three of it were to go where a victim stays that is held by a finalizer: what is free is enough for two, and for
    its minimum. The nodes that are kept for its pods are kept from others only."""
    held = running("low-0", "n0")
    held["metadata"] |= {"deletionTimestamp": "2026-01-01T01:00:00Z", "finalizers": ["example.com/held"]}
    gangs.put(node("n0", "3"), held, running("low-1", "n0", started=1), running("low-2", "n0", started=2))
    gangs.put(group("high", 2, 5), *(member("high", i, priority=5) for i in range(3)))
    said = gangs.cycles()
    assert victims(said) == {"low-1", "low-2"}
    gangs.gone("Pod", "low-1")
    gangs.gone("Pod", "low-2")
    gangs.put(pod("stranger", "1", priority=4))
    gangs.after(10)
    said = gangs.cycles()
    assert bound(said) == {"high-0": "n0", "high-1": "n0"}


def test_the_copy_of_a_plan_goes_in_parts(gangs: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes as long to throw away as to make. Each turn lets go of some entries; the plan is carried out then."""
    gone: list[int] = []
    end = Rebuild.end

    def counted(self: Rebuild) -> Iterator[int]:
        for entries in end(self):
            gone.append(len(gone))
            yield entries

    monkeypatch.setattr(Rebuild, "end", counted)
    monkeypatch.setattr(row_counts, "LET_GO", 1)
    gangs.put(*(node(f"n{i}", "1") for i in range(30)), *(running(f"low-{i}", f"n{i}") for i in range(30)))
    gangs.put(group("urgent", 2, 10), *(member("urgent", i, priority=10) for i in range(2)))
    said = until_planning(gangs)
    most = 0
    while planning(gangs):
        assert victims(said) == set()
        before = len(gone)
        said += gangs.cycle()
        most = max(most, len(gone) - before)
    assert 0 < most < len(gone)
    assert len(victims(said + gangs.cycles())) == 2


@pytest.mark.parametrize("left", [0, 2])
def test_the_copy_of_a_plan_that_is_dropped_goes_in_parts_too(
    gangs: Harness, monkeypatch: pytest.MonkeyPatch, left: int
) -> None:
    """A pod of the group goes, or all of them, while victims are looked for."""
    gone: list[int] = []
    made: list[Cluster] = []
    gone_before: list[int] = []
    end, cluster = Rebuild.end, Rebuild.cluster

    def counted(self: Rebuild) -> Iterator[int]:
        for entries in end(self):
            gone.append(len(gone))
            yield entries

    def noted(self: Rebuild) -> Cluster:
        made.append(cluster(self))
        gone_before.append(len(gone))
        return made[-1]

    monkeypatch.setattr(Rebuild, "end", counted)
    monkeypatch.setattr(Rebuild, "cluster", noted)
    monkeypatch.setattr(row_counts, "LET_GO", 1)
    gangs.put(*(node(f"n{i}", "2") for i in range(30)), *(running(f"low-{i}", f"n{i}") for i in range(30)))
    gangs.put(*(running(f"stays-{i}", f"n{i}", priority=20) for i in range(30)))
    gangs.put(group("urgent", 2, 10), *(member("urgent", i, priority=10) for i in range(3)))
    while not made:
        gangs.cycle()
    assert gone == []
    for i in range(left, 3):
        gangs.gone("Pod", f"urgent-{i}")
    most = 0
    said: list[Instruction] = []
    while gangs.engine.has_work:
        before = len(gone)
        said += gangs.cycle()
        most = max(most, len(gone) - before)
    assert 0 < most < len(gone)
    assert len(victims(said)) == left
    assert gone_before[0] == 0
    assert min(gone_before[1:], default=1) > 0, "the next copy is made once the first one is gone"


class Counts(Plugin):
    name = "OneEach"
    depends_on = PODS_HERE
    taken = Unschedulable("node(s) have a pod of this app")

    def filter(self, pod: Pod, cluster: Cluster) -> Rejections:
        return [(self.taken, self.there(cluster) > 0)] if pod.labels.get("app") == "a" else ()

    def there(self, cluster: Cluster) -> Ints:
        return cluster.count_pods("default", {"app": "a"})


class Lists(Counts):
    def there(self, cluster: Cluster) -> Ints:
        pods = map(cluster.pods_on, range(cluster.nodes.rows))
        return np.array([sum(one.labels.get("app") == "a" for one in some) for some in pods], dtype=np.int64)


@pytest.mark.parametrize("plugin", [Counts, Lists])
def test_a_plan_shows_a_filter_of_ones_own_the_pods_that_stay(plugin: type[Plugin]) -> None:
    """No pod is removed from the node on which a pod stays that the filter does not let the gang's pods beside."""
    harness = Harness(configuration(profile(plugins={"multiPoint": {"enabled": [{"name": "OneEach"}]}})), plugin)
    harness.handle(Follows(NATIVE, True))
    harness.put(*(node(f"n{i}", "2") for i in range(2)), running("stays", "n0", "1", priority=9, labels={"app": "a"}))
    harness.put(running("low0", "n0", "1"), running("low1", "n1", "2"))
    harness.put(group("gang", 2, 5), *(member("gang", i, priority=5, labels={"app": "a"}) for i in range(2)))
    assert victims(harness.cycles()) == set()
    harness.put(group("one", 1, 5), member("one", 0, priority=5, labels={"app": "a"}))
    assert victims(harness.cycles()) == {"low1"}
    assert validate(harness.engine.cluster) == []
