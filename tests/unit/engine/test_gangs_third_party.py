"""What plugins of third parties can do for a pod group that did not fit: the same as Berth's own."""

from collections.abc import Iterator
from typing import Any, ClassVar

import pytest

from podberth.cache.validate import validate
from podberth.engine.instructions import Failed, Instruction, Misbehaved, PostFilterWrite
from podberth.engine.stimuli import Follows, PostFilterWriteFailed
from podberth.framework.binding import Write
from podberth.framework.config import ConfigError
from podberth.kit import (
    Cluster,
    FailedGroup,
    GroupPostFilterResult,
    Patch,
    Plugin,
    PostFilterResult,
    Reservation,
    Unschedulable,
)
from podberth.model.pod_group import NATIVE
from tests.builders import configuration

from .conftest import Harness, node
from .test_gangs import bound, member
from .test_gangs import group as gang
from .test_gangs_preempting import condition, group, running, victims
from .test_gangs_preempting import member as paid_member
from .test_gangs_reserving import EPOCH, events, small
from .test_gangs_reserving import running as ending

WRITE = Patch(("ConfigMap", "default", "room"), "uid", "", {"data": {"more": "yes"}})


class Silent(Plugin):
    """Has something to say about single pods only."""

    name = "Silent"

    def post_filter(self, pod: Any, cluster: Any, decision: Any, filters: Any) -> PostFilterResult:
        """Nothing."""
        return PostFilterResult("")


class Landlord(Silent):
    """Says something, writes something, and may have pods removed."""

    name = "Landlord"
    asked: ClassVar[list[FailedGroup]] = []
    preempts: ClassVar[bool] = False

    def post_filter_group(self, failed: FailedGroup, cluster: Cluster) -> GroupPostFilterResult:
        """For the first pod."""
        self.asked.append(failed)
        return GroupPostFilterResult("more room was asked for", [(failed.pods[0], WRITE)], self.preempts)


class Broken(Silent):
    """Does not answer."""

    name = "Broken"

    def post_filter_group(self, failed: FailedGroup, cluster: Cluster) -> GroupPostFilterResult:
        """Fails."""
        raise ValueError("no idea")


class Wrong(Silent):
    """Answers as plugins did once."""

    name = "Wrong"

    def post_filter_group(self, failed: FailedGroup, cluster: Cluster) -> Any:
        """Pairs."""
        return [(failed.pods[0], WRITE)]


class Pair(Plugin):
    """Holds a group until it has two pods."""

    name = "Pair"
    for_groups = True

    def pre_enqueue(self, pod: Any, cluster: Cluster) -> Any:
        key = cluster.pod_groups.of(pod)
        state = None if key is None else cluster.pod_groups.state(key)
        return Unschedulable("a pod is alone") if state is None or len(state.pods) < 2 else None


class Keeper(Silent):
    """Has nodes reserved for gangs that wait."""

    name = "Keeper"

    def __init__(self, args: Any = None) -> None:
        self.reservation = Reservation(after_seconds=0, percentage_of_nodes=100)


def with_plugin(plugin: type[Plugin], *without: str) -> Harness:
    points = {"enabled": [{"name": plugin.name}], "disabled": [{"name": name} for name in without]}
    profile = {"schedulerName": "berth", "plugins": {"postFilter": points}}
    harness = Harness(configuration(profile), plugin)
    harness.handle(Follows(NATIVE, True))
    return harness


@pytest.fixture(autouse=True)
def nobody_was_asked() -> Iterator[None]:
    Landlord.asked.clear()
    Landlord.preempts = False
    yield
    Landlord.preempts = False


def no_room(harness: Harness) -> list[Instruction]:
    harness.put(node("n0", "1"), gang(min_count=2), *(member(f"p{i}", "1") for i in range(2)))
    said = harness.cycles()
    assert bound(said) == []
    assert validate(harness.engine.cluster) == []
    return said


def test_a_plugin_that_has_nothing_to_say_about_groups_is_not_asked() -> None:
    """It was, and counted as broken, since third parties' classes were taken for others."""
    said = no_room(with_plugin(Silent))
    assert not [one for one in said if isinstance(one, Misbehaved)]


def test_a_plugin_gives_the_text_and_what_is_to_be_written() -> None:
    said = no_room(with_plugin(Landlord, "DefaultPreemption"))
    assert condition(said).endswith("more room was asked for")
    assert [one.writes for one in said if isinstance(one, PostFilterWrite)] == [(WRITE,)]
    assert [[pod.name for pod in failed.pods] for failed in Landlord.asked] == [["p0", "p1"]]
    assert not Landlord.asked[0].by_topology


def test_what_could_not_be_written_is_tried_again_after_the_backoff() -> None:
    """The group waited for an event that nobody causes."""
    harness = with_plugin(Landlord, "DefaultPreemption")
    no_room(harness)
    assert not writes_of(harness.tick(20) + harness.cycles()), "what was written is to change something"
    harness.handle(PostFilterWriteFailed("p1", (WRITE,)))
    assert writes_of(harness.tick(20) + harness.cycles()) == [(WRITE,)]


def writes_of(said: list[Instruction]) -> list[tuple[Write, ...]]:
    return [one.writes for one in said if isinstance(one, PostFilterWrite)]


@pytest.mark.parametrize("plugin", [Broken, Wrong])
def test_a_plugin_that_fails_is_named_and_the_group_goes_on_waiting(plugin: type[Plugin]) -> None:
    said = no_room(with_plugin(plugin))
    assert {one.error.plugin for one in said if isinstance(one, Misbehaved)} == {plugin.name}
    assert condition(said).startswith("minCount (2) cannot be satisfied: 1 scheduled, 0 remaining")
    assert not [one for one in said if isinstance(one, PostFilterWrite)]


@pytest.mark.parametrize("preempts", [False, True])
def test_only_a_plugin_that_says_so_has_pods_removed(preempts: bool) -> None:
    """The engine looks for victims for whoever asks for that: not only for DefaultPreemption."""
    Landlord.preempts = preempts
    harness = with_plugin(Landlord, "DefaultPreemption")
    harness.put(node("n0", "2"), *(running(f"low-{i}", "n0") for i in range(2)))
    harness.put(group("high", 2, 5), *(paid_member("high", i, priority=5) for i in range(2)))
    assert victims(harness.cycles()) == ({"low-0", "low-1"} if preempts else set())


def test_a_plugin_holds_a_group_until_it_has_enough_pods() -> None:
    """It is asked again when a pod comes, as GangScheduling is."""
    points = {"enabled": [{"name": "Pair"}], "disabled": [{"name": "GangScheduling"}]}
    harness = Harness(configuration({"schedulerName": "berth", "plugins": {"preEnqueue": points}}), Pair)
    harness.handle(Follows(NATIVE, True))
    harness.put(node("n0", "4"), gang(min_count=1), member("p0", "1"))
    assert bound(harness.cycles()) == []
    harness.put(member("p1", "1"))
    assert sorted(bound(harness.cycles())) == ["p0", "p1"]


def test_a_plugin_has_nodes_reserved() -> None:
    """It was for GangScheduling alone. Pods that are kept away wait under the name of the plugin that said so."""
    harness = with_plugin(Keeper, "DefaultPreemption")
    harness.engine.epoch = EPOCH
    harness.put(node("n0"), ending("a", "n0", lasts=100), gang(min_count=1), member("p0", "4"))
    assert [reason for reason, _ in events(harness.cycles())] == ["RoomKept"]
    harness.put(small("s"))
    (failed,) = [one for one in harness.cycles() if isinstance(one, Failed)]
    assert failed.plugins == {"Keeper"}
    assert "node(s) whose room is kept for podgroup default/train until" in failed.message


@pytest.mark.parametrize(
    ("option", "value", "says"),
    [
        ("required_during_execution", 1, "its required_during_execution is 1, should be True or False"),
        ("reservation", {"forSeconds": 5}, "its reservation is {'forSeconds': 5}, should be a Reservation or None"),
        (
            "reservation",
            Reservation(for_seconds=0),
            "its reservation.forSeconds: Invalid value: 0: must be between 1 and 604,800",
        ),
    ],
)
def test_a_wrong_option_is_one_line_at_the_start(option: str, value: object, says: str) -> None:
    class Mistaken(Silent):
        name = "Mistaken"

        def __init__(self, args: Any = None) -> None:
            setattr(self, option, value)

    with pytest.raises(ConfigError) as wrong:
        with_plugin(Mistaken)
    assert str(wrong.value) == f'profiles[0]: plugin "Mistaken" of {Mistaken.__module__}: {says}'
