"""Gangs in an engine: all pods that are needed are bound together, or none is, with kube-scheduler's messages."""

from typing import Any

import pytest

from scheduler.engine.binding_table import State
from scheduler.engine.instructions import Bind, Failed, Instruction, SetGroupCondition
from scheduler.engine.queued import Place
from scheduler.engine.stimuli import Follows
from scheduler.model.pod_group import NATIVE
from tests.builders import Object

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
    return pod(name, cpu, schedulingGroup={"podGroupName": of}, **spec)


def members(count: int, cpu: str = "1", of: str = "train") -> list[Object]:
    return [member(f"{of}-{i}", cpu, of) for i in range(count)]


def conditions(said: list[Instruction]) -> list[tuple[str, str, str]]:
    return [(i.status, i.reason, i.message) for i in said if isinstance(i, SetGroupCondition)]


def failures(said: list[Instruction]) -> dict[str, str]:
    return {i.pod.name: i.message for i in said if isinstance(i, Failed)}


def bound(said: list[Instruction]) -> list[str]:
    return [i.pod.name for i in said if isinstance(i, Bind)]


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
    story = gangs.engine.story("train-0")
    assert story is not None
    gangs.put(group())
    assert sorted(bound(gangs.cycles())) == ["train-0", "train-1"]


def test_pods_wait_for_each_other(gangs: Harness) -> None:
    gangs.put(node("n1"), group(min_count=3), *members(2))
    assert gangs.cycles() == []
    gangs.put(member("last"))
    assert sorted(bound(gangs.cycles())) == ["last", "train-0", "train-1"]


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
