"""PodGroups of scheduler-plugins: the room that they ask for, and how long their pods wait for each other."""

from typing import Any

import pytest

from podberth.engine.binding_table import State
from podberth.engine.instructions import PatchCondition, PreBindWrite
from podberth.engine.stimuli import Follows, PreBindWriteFailed
from podberth.model.devices import FINALIZER
from podberth.model.pod_group import COSCHEDULING, LABEL
from tests.builders import Object
from tests.devices import claim, claiming, device, device_class, resource_slice

from .api import Api
from .conftest import Harness, node, pod
from .test_gangs import bound, failures


@pytest.fixture
def gangs(harness: Harness) -> Harness:
    """A harness whose API server has the custom resource."""
    harness.handle(Follows(COSCHEDULING, True))
    return harness


def group(members: int = 2, name: str = "train", **spec: Any) -> Object:
    return {
        "kind": "PodGroup.scheduling.x-k8s.io",
        "metadata": {"name": name, "namespace": "default", "uid": name},
        "spec": {"minMember": members, **spec},
    }


def member(number: int, cpu: str = "1", of: str = "train", **spec: Any) -> Object:
    return pod(f"w{number}", cpu, labels={LABEL: of}, **spec)


def test_room_in_the_whole_cluster(gangs: Harness) -> None:
    """Before any pod is tried; scheduler-plugins asks at PreFilter."""
    gangs.put(node("n1"), node("n2"), group(minResources={"cpu": "9", "memory": "1Gi"}), member(0), member(1))
    said = gangs.cycles()
    why = "pod group is unschedulable, resource gap: map[cpu:1]"
    assert all(message.startswith(why) for message in failures(said).values())
    assert sorted(failures(said)) == ["w0", "w1"]
    gangs.put(node("n3"))
    gangs.tick(20.0)
    assert sorted(bound(gangs.cycles())) == ["w0", "w1"]


@pytest.mark.parametrize(
    ("wanted", "gap"),
    [
        ({"cpu": "8"}, ""),
        ({"cpu": "8001m"}, "map[cpu:1m]"),
        ({"memory": "65Gi"}, "map[memory:1Gi]"),
        ({"example.com/gpu": "2"}, "map[example.com/gpu:2]"),
        ({"pods": "1000"}, ""),
        ({"cpu": "9" * 40}, "map[cpu:"),
        ({}, ""),
    ],
)
def test_what_counts(gangs: Harness, wanted: Object, gap: str) -> None:
    """Pods are counted by minMember, whatever the group says of them."""
    gangs.put(node("n1"), node("n2"), group(minResources=wanted), member(0), member(1))
    said = gangs.cycles()
    assert sorted(bound(said)) == ([] if gap else ["w0", "w1"])
    assert all(f"resource gap: {gap}" in message for message in failures(said).values())


def test_what_its_pods_have_already_counts_as_free(gangs: Harness) -> None:
    """The amount is that of all its pods, also of those that run."""
    running = member(0, "3", nodeName="n1")
    gangs.put(node("n1"), group(minResources={"cpu": "4"}), running, member(1))
    assert bound(gangs.cycles()) == ["w1"]


def test_a_group_that_asks_for_less_is_tried_again(gangs: Harness) -> None:
    gangs.put(node("n1"), group(minResources={"cpu": "9"}), member(0), member(1))
    assert bound(gangs.cycles()) == []
    gangs.put(group(minResources={"cpu": "2"}))
    gangs.tick(20.0)
    assert sorted(bound(gangs.cycles())) == ["w0", "w1"]


@pytest.mark.parametrize("number", [0, 3], ids=["it has been tried", "it has not been tried yet"])
@pytest.mark.usefixtures("pod_by_pod")
def test_a_pod_is_labelled_anew_while_its_group_is_tried(gangs: Harness, number: int) -> None:
    """It goes over to the other group, which has waited for it; the one that it has left waits for another pod."""
    gangs.put(node("n1", "3"), group(4), *map(member, range(4)), group(2, "other"), member(4, of="other"))
    gangs.cycle()
    assert gangs.engine.binding.state("w0") is State.GROUP_DECIDING
    gangs.put(member(number, of="other"))
    assert sorted(bound(gangs.cycles())) == [f"w{number}", "w4"]
    gangs.put(node("n2"), member(5))
    gangs.tick(20.0)
    assert sorted(bound(gangs.cycles())) == sorted({"w0", "w1", "w2", "w3", "w5"} - {f"w{number}"})


@pytest.mark.parametrize("label", ["other", ""])
def test_a_pod_is_labelled_anew_while_it_is_bound(gangs: Harness, label: str) -> None:
    """It was let go with the group that it was in then, and nothing is kept of it once it is bound."""
    gangs.put(node("n1"), group(2), member(0), member(1), group(2, "other"), member(4, of="other"))
    assert sorted(bound(gangs.cycles())) == ["w0", "w1"]
    labels = {LABEL: label} if label else {}
    gangs.put(member(1, nodeName="n1"), pod("w0", "1", labels=labels))
    assert bound(gangs.cycles()) == []
    gangs.bound("w0")
    gangs.put(pod("w0", "1", nodeName="n1", labels=labels))
    assert bound(gangs.cycles()) == (["w4"] if label else []), "it counts for the group that it is in now"
    gangs.put(member(4, of="other", nodeName="n1"))
    assert gangs.engine.binding.gathering.entries() == 0


def test_a_pod_that_was_labelled_anew_and_is_not_bound(gangs: Harness) -> None:
    """It is tried again with its new group, which has waited for it."""
    gangs.put(node("n1"), group(2), member(0), member(1), group(2, "other"), member(4, of="other"))
    gangs.cycles()
    gangs.put(member(0, of="other"))
    gangs.bind_failed("w0")
    gangs.tick(20.0)
    assert sorted(bound(gangs.cycles())) == ["w0", "w4"]


def test_a_running_pod_is_labelled_anew(gangs: Harness) -> None:
    """It counts for the group that it is in now."""
    gangs.put(node("n1"), pod("w0", "1", nodeName="n1"), group(2), member(1))
    assert bound(gangs.cycles()) == []
    gangs.put(member(0, nodeName="n1"))
    assert bound(gangs.cycles()) == ["w1"]


def test_a_message_has_a_bound(gangs: Harness) -> None:
    names = {f"example.com/{'x' * 40}{i}": "1" for i in range(60)} | {"example.com/bad\nname": "1"}
    gangs.put(node("n1"), group(minResources=names), member(0), member(1))
    message = failures(gangs.cycles())["w0"]
    assert "\n" not in message
    assert "and 50 more" in message
    assert len(message) < 2_000


def test_names_of_resources_have_a_limit(gangs: Harness) -> None:
    """All nodes would be looked at for each of them."""
    gangs.put(node("n1"), group(minResources={f"example.com/r{i}": "1" for i in range(65)}), member(0), member(1))
    said = "too large for this scheduler: 65 resources in minResources, at most 64"
    assert failures(gangs.cycles()) == {"w0": said, "w1": said}


@pytest.mark.parametrize(
    ("asked", "seconds"), [(None, 300), (30, 30), (0, 1), (-5, 1), (2**31 - 1, 900), (10**18, 900)]
)
def test_how_long_its_pods_hold_room(gangs: Harness, asked: int | None, seconds: int) -> None:
    """One has its claim written, the other has not: both give back what they hold after a bounded time."""
    spec: Object = {} if asked is None else {"scheduleTimeoutSeconds": asked}
    claims = [claim(f"c{i}", meta={"finalizers": [FINALIZER]}) for i in range(2)]
    there = [device(f"d{i}") for i in range(2)]
    api = Api(gangs, node("n"), device_class(), resource_slice("n", *there, node="n"), *claims, group(**spec))
    for number in range(2):
        api.put(claiming(member(number, meta={"uid": f"default/w{number}"}), f"c{number}"))
    first, second = (one for one in gangs.cycles() if isinstance(one, PreBindWrite))
    gangs.handle(api.write(first))
    gangs.handle(PreBindWriteFailed(second.pod.uid, 500, "boom", {}))
    uid = first.pod.uid
    said = gangs.tick(seconds - 0.5)
    assert gangs.engine.binding.state(uid) is State.GROUP_GATHERING
    told = [(one.pod.uid, one.reason, one.message) for one in said if isinstance(one, PatchCondition)]
    message = f"holds room on n until enough pods of its group default/train do, for {seconds - 5} seconds more"
    assert told == ([(uid, "WaitingForGroup", message)] if seconds > 5 else [])
    gangs.tick(0.6)
    assert gangs.engine.binding.state(uid) is not State.GROUP_GATHERING
