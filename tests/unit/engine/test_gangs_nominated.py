"""Nodes that are kept for the pods of a group: what they are worth to the group itself, and when it gives them up."""

from collections.abc import Sequence

import pytest

from podberth.engine.instructions import Instruction, PatchCondition
from podberth.engine.stimuli import Follows
from podberth.framework.filters import FilterPlugins
from podberth.model.pod_group import NATIVE
from tests.builders import Object
from tests.unit.work import calls

from .conftest import Harness, node, pod
from .test_gangs_preempting import bound, condition, group, member, running, victims


@pytest.fixture
def gangs(harness: Harness) -> Harness:
    """A harness whose API server serves PodGroups."""
    harness.handle(Follows(NATIVE, True))
    return harness


def nominated(of: str, number: int, on: str, **spec: object) -> Object:
    """A pod for which a node is kept, as the API says."""
    one = member(of, number, **spec)  # type: ignore[arg-type]
    one["status"]["nominatedNodeName"] = on
    return one


def kept(harness: Harness, *uids: str) -> list[str | None]:
    return [harness.engine.cluster.nominations.node_of.get(uid) for uid in uids]


def cleared(said: Sequence[Instruction]) -> list[str]:
    """The pods of which the API is told that no node is kept for them."""
    return sorted(one.pod.name for one in said if isinstance(one, PatchCondition) and one.nominated == "")


def small(name: str, pods: str) -> Object:
    one = node(name)
    one["status"]["allocatable"]["pods"] = one["status"]["capacity"]["pods"] = pods
    return one


# -- what stands in for the pods of a group while it is tried ----------------------------------------------------------


@pytest.mark.parametrize(("priority", "first"), [(0, "n1"), (-3, "n1"), (1, "n0")])
def test_a_pod_that_is_still_to_be_tried_takes_a_place_and_nothing_else(
    gangs: Harness, priority: int, first: str
) -> None:
    """kube-scheduler takes it for an empty pod of priority 0, so n0 has no place for the first one: two pods fit there,
    one of which runs. Once the first pod has a node, the place of the second is its own."""
    gangs.put(small("n0", "2"), running("there", "n0", priority=9))
    gangs.put(group("g", 2, priority), *(nominated("g", i, "n0", priority=priority) for i in range(2)))
    gangs.put(small("n1", "110"))
    other = {"n0": "n1", "n1": "n0"}[first]
    assert bound(gangs.cycles()) == {"g-0": first, "g-1": other}


def test_it_takes_no_room_of_any_other_kind(gangs: Harness) -> None:
    gangs.put(node("n0", "2"), group("g", 2), *(nominated("g", i, "n0") for i in range(2)))
    assert bound(gangs.cycles()) == {"g-0": "n0", "g-1": "n0"}


def test_it_counts_in_the_plan_too(gangs: Harness) -> None:
    """No pod has found a node, so the second one keeps its place on n0 while the first one is tried without victims."""
    gangs.put(small("n0", "2"), running("there", "n0", priority=9), running("low", "n0", priority=-5))
    gangs.put(node("n1", "1"), running("old", "n1", priority=-5))
    gangs.put(group("g", 2), *(nominated("g", i, "n0") for i in range(2)))
    said = gangs.cycles()
    assert victims(said) == {"low", "old"}
    assert kept(gangs, "g-0", "g-1") == ["n1", "n0"]


def test_it_counts_while_victims_are_spared_too(gangs: Harness) -> None:
    """n0 has four places: low could stay beside both pods of the gang there. But when the second one is looked at, the
    first one counts twice: it is assumed there, and has its stand-in. So low goes as well, as in kube-scheduler."""
    gangs.put(small("n0", "4"), running("there", "n0", priority=9), running("low", "n0", priority=-5))
    gangs.put(node("n1", "1", disk="ssd"), running("old", "n1", priority=-5))
    gangs.put(group("g", 3), *(nominated("g", i, "n0") for i in range(2)))
    gangs.put(member("g", 2, nodeSelector={"disk": "ssd"}))
    gangs.put(node("n2", "1"), running("elsewhere", "n2", priority=-5))
    assert victims(gangs.cycles()) == {"low", "old"}


def test_without_a_place_for_all_of_them_nobody_is_spared(gangs: Harness) -> None:
    """n0 has two places. When the second pod is looked at, the first one has taken one, and its stand-in the other: so
    nobody is spared, wherever he is. kube-scheduler does the same."""
    gangs.put(small("n0", "2"), node("n1", "1", disk="ssd"), node("n2", "1"))
    gangs.put(running("old", "n1", priority=-5), running("elsewhere", "n2", priority=-5))
    gangs.put(group("g", 3), *(nominated("g", i, "n0") for i in range(2)))
    gangs.put(member("g", 2, nodeSelector={"disk": "ssd"}))
    assert victims(gangs.cycles()) == {"old", "elsewhere"}


def test_where_there_are_places_for_all_it_costs_nothing(gangs: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    """The victims of a large gang have stayed, and it plans again: not each of them is looked at beside each of its
    pods. With a stand-in on too few places they have to be."""
    count = 30
    asked = calls(monkeypatch, (FilterPlugins, "passing"))

    def times(name: str, places: str) -> int:
        for i in range(count):
            on = {"kubernetes.io/hostname": f"{name}-{i}"}
            gangs.put(small(f"{name}-{i}", places), running(f"low-{name}-{i}", f"{name}-{i}", "4", priority=-5))
            gangs.put(nominated(name, i, f"{name}-{i}", nodeSelector=on))
        gangs.put(group(name, count))
        before, said = asked["passing"], list[Instruction]()
        while gangs.engine.has_work:
            said += gangs.cycle()
        assert len(victims(said)) == count
        return asked["passing"] - before

    assert times("roomy", "110") < 5 * count
    assert times("tight", "1") > count * count // 2


# -- a gang that can't reach its minimum gives up what is kept for it --------------------------------------------------


@pytest.fixture
def waiting(gangs: Harness) -> Harness:
    """A gang of two that waits for victims, and a pod that waits for the room of both."""
    gangs.put(*(node(f"n{i}", "1") for i in range(2)), *(running(f"low-{i}", f"n{i}") for i in range(2)))
    gangs.put(group("g", 2, 5), *(member("g", i, priority=5) for i in range(2)))
    assert victims(gangs.cycles()) == {"low-0", "low-1"}
    gangs.gone("Pod", "low-0")
    gangs.put(pod("stranger", "1"))
    assert bound(gangs.cycles()) == {}
    assert set(kept(gangs, "g-0", "g-1")) == {"n0", "n1"}
    return gangs


def test_when_its_minimum_is_raised(waiting: Harness) -> None:
    """As in kube-scheduler, it is tried once more when its backoff is over. Who waits for the room gets it."""
    waiting.put(group("g", 5, 5))
    said = waiting.tick(20) + waiting.cycles()
    assert condition(said) == "pod group is unschedulable, minCount (5) cannot be satisfied: 0 scheduled, 2 remaining"
    assert cleared(said) == ["g-0", "g-1"]
    assert kept(waiting, "g-0", "g-1") == [None, None]
    assert bound(said + waiting.tick(20) + waiting.cycles()) == {"stranger": "n0"}


def test_when_a_pod_of_it_goes(waiting: Harness) -> None:
    waiting.gone("Pod", "g-1")
    said = waiting.tick(20) + waiting.cycles()
    assert cleared(said) == ["g-0"]
    assert kept(waiting, "g-0", "g-1") == [None, None]


def test_a_pod_that_is_replaced_in_time_costs_it_nothing(waiting: Harness) -> None:
    """A controller makes another one, under another name. It starts with the others."""
    waiting.gone("Pod", "g-1")
    waiting.put(member("g", 7, priority=5))
    waiting.gone("Pod", "low-1")
    said = waiting.tick(20) + waiting.cycles()
    assert sorted(bound(said)) == ["g-0", "g-7"]


def test_when_the_group_is_deleted(waiting: Harness) -> None:
    """Its pods wait until there is one again, as before."""
    waiting.lose("PodGroup", "default", "g")
    said = waiting.tick(20) + waiting.cycles()
    assert cleared(said) == ["g-0", "g-1"]
    assert kept(waiting, "g-0", "g-1") == [None, None]
    waiting.gone("Pod", "low-1")
    waiting.gone("Pod", "stranger")
    again = group("g", 2, 5)
    again["metadata"]["uid"] = "another"
    waiting.put(again)
    said = waiting.tick(60) + waiting.cycles()
    assert sorted(bound(said)) == ["g-0", "g-1"]


def test_a_gang_that_waits_for_nobody_is_not_tried_for_that(gangs: Harness) -> None:
    gangs.put(node("n0", "1"), group("g", 2), *(member("g", i) for i in range(2)))
    gangs.cycles()
    gangs.put(group("g", 5))
    said = gangs.tick(20) + gangs.cycles()
    assert cleared(said) == []


def test_more_pods_in_time_and_nothing_is_given_up(waiting: Harness) -> None:
    """The minimum is raised, and more pods come before the backoff is over."""
    waiting.put(group("g", 3, 5))
    waiting.put(node("n2", "1"), member("g", 2, priority=5))
    waiting.gone("Pod", "low-1")
    said = waiting.tick(20) + waiting.cycles()
    assert sorted(bound(said)) == ["g-0", "g-1", "g-2"]


def test_one_pod_more_than_needed_goes_while_victims_leave(gangs: Harness) -> None:
    """The others keep their nodes, what was kept for it is free, and nobody else has to go."""
    gangs.put(*(node(f"n{i}", "1") for i in range(3)), *(running(f"low-{i}", f"n{i}") for i in range(3)))
    gangs.put(group("g", 2, 5), *(member("g", i, priority=5) for i in range(3)))
    assert len(victims(gangs.cycles())) == 3
    (free,) = kept(gangs, "g-1")
    gangs.gone("Pod", "g-1")
    for i in range(3):
        gangs.gone("Pod", f"low-{i}")
    gangs.put(pod("stranger", "1"))
    said = gangs.cycles() + gangs.tick(20) + gangs.cycles()
    assert victims(said) == set()
    assert bound(said)["stranger"] == free
    assert sorted(bound(said)) == ["g-0", "g-2", "stranger"]


def test_a_lower_minimum_while_victims_leave(waiting: Harness) -> None:
    """One is enough by now, and there is room for one: it starts, and nobody waits for the other victim."""
    waiting.put(group("g", 1, 5))
    said = waiting.tick(20) + waiting.cycles()
    assert len(bound(said)) == 1


def test_after_a_restart_nodes_are_kept_as_the_api_says(gangs: Harness) -> None:
    """Pods come one by one: until the gang has enough of them, nothing is given up."""
    gangs.put(*(node(f"n{i}", "1") for i in range(2)), pod("stranger", "1", priority=4))
    gangs.put(group("g", 2, 5), nominated("g", 0, "n0", priority=5))
    said = gangs.cycles()
    assert bound(said) == {"stranger": "n1"}
    assert kept(gangs, "g-0") == ["n0"]
    gangs.gone("Pod", "stranger")
    gangs.put(nominated("g", 1, "n1", priority=5))
    assert bound(gangs.cycles()) == {"g-0": "n0", "g-1": "n1"}
