"""Other profiles under way: whose pods leave, and who is tried again."""

from typing import Any

import pytest

from podberth.engine.instructions import Failed, Preempt
from podberth.engine.queue.queued import Place
from podberth.engine.queue.scheduling_queue import AT_ONCE
from podberth.engine.stimuli import ExtendersAnswered, ExtendersFailed, Follows
from podberth.framework.binding import AssumedPod, Hold
from podberth.framework.config import decode
from podberth.framework.interface import Plugin
from podberth.framework.profiles import build
from podberth.framework.status import Unschedulable
from podberth.model.pod_group import NATIVE
from tests.builders import configuration, profile
from tests.registered import registry
from tests.unit.engine.conftest import Harness, node, pod
from tests.unit.engine.test_extenders import FILTER, PREEMPT, Opened, asked, verdict
from tests.unit.engine.test_extenders import opened as asking
from tests.unit.engine.test_gangs import group, member, members, settled
from tests.unit.engine.test_points import everything, of, opened, place, plugin
from tests.unit.engine.test_story import Open, state

__all__ = ["asking", "opened"]

WITHOUT_FIT = profile("berth", plugins={"filter": {"disabled": [{"name": "NodeResourcesFit"}]}})


def test_profiles_change(harness: Harness) -> None:
    """A profile without the plugin that rejected a pod takes it after its backoff; pods of a gone profile leave."""
    harness.put(node("a", cpu="1"), pod("big", "4"), pod("held", schedulingGates=[{"name": "example.com/wait"}]))
    assert harness.binds() == {}
    harness.put(pod("packed", scheduler="packed"), pod("failing", scheduler="packed"))
    assert harness.binds() == {"packed": "a", "failing": "a"}
    harness.put(pod("later", scheduler="packed"))
    frameworks = build(decode(configuration(WITHOUT_FIT)), registry())
    harness.engine.reconfigure(frameworks, 1, 10, harness.now)
    assert sorted(queued.pod.name for queued in harness.engine.queue) == ["big", "held"]
    harness.bind_failed("failing")  # was being bound: it is not put back for a profile that nobody has
    assert state(harness, "failing") == "its profile is not configured any more"
    harness.bound("packed")
    harness.after(60)
    assert harness.binds() == {"big": "a"}
    assert sorted(queued.pod.name for queued in harness.engine.queue) == ["held"]


def test_a_pod_that_is_refused_after_its_profile_went(opened: Open) -> None:
    """It has held its room until a Permit plugin refused it, and is none of the scheduler's then."""

    def permit(self: Any, assumed: AssumedPod, cluster: Any) -> Hold:
        return Hold(60.0)

    harness = opened(plugin(permit=permit))
    harness.put(node("n1"), pod("web"))
    everything(harness)
    harness.engine.reconfigure(build(decode(configuration(profile("other"))), registry()), 1, 10, harness.now)
    assert len(of(harness.tick(60), Failed)) == 1
    assert (len(harness.engine.queue), harness.engine.cluster.assumed()) == (0, 0)
    assert state(harness) == "its profile is not configured any more"


@pytest.mark.usefixtures("pod_by_pod")
def test_another_order_while_groups_are_not_in_the_queue(harness: Harness) -> None:
    """The group that is being tried goes on first; one that was put off finds its place in the new order."""

    class ByName(Plugin):
        name = "ByName"

        def queue_sort(self, pod: Any, queued_at: float) -> Any:
            return (pod.name,)

    harness.handle(Follows(NATIVE, True))
    harness.put(node("n1", "8"), group(min_count=3), *members(3))
    harness.cycle()
    harness.put(group("other", priority=1), *(member(f"other-{i}", of="other", priority=1) for i in range(2)))
    harness.cycle()
    assert harness.engine.queue.counts()[Place.GATED] == 2, "the other group was put off"
    harness.put(pod("plain"))
    by_name = {"enabled": [{"name": "ByName"}], "disabled": [{"name": "*"}]}
    config = decode(configuration(profile(plugins={"queueSort": by_name})))
    harness.engine.reconfigure(build(config, {**registry(), "ByName": ByName}), 1, 10, harness.now)
    assert list(harness.binds()) == ["train-0", "train-1", "train-2", "other-0", "other-1", "plain"]
    settled(harness)


@pytest.mark.parametrize(
    ("extender", "answer", "given"),
    [
        (FILTER, ExtendersAnswered, verdict("n1")),
        (FILTER, ExtendersAnswered, verdict(n1="no berth")),
        (FILTER, ExtendersFailed, "the extender is at sea"),
        (PREEMPT, ExtendersAnswered, {"n1": (("small",), 0)}),
    ],
    ids=["a node", "no node", "failed", "victims"],
)
def test_a_pod_whose_profile_goes_while_they_think(asking: Opened, extender: Any, answer: Any, given: Any) -> None:
    """Nobody schedules it any more: whatever they say, it is not placed, and nobody has to leave for it."""
    harness = asking(extender, nodes=1)
    harness.put(pod("small", cpu="900m", nodeName="n1", priority=0))
    big = pod("big", cpu="900m" if extender is PREEMPT else "100m", priority=10)
    harness.put(big)
    question = asked(everything(harness))
    harness.engine.reconfigure(build(decode(configuration(profile("other"))), registry()), 1.0, 10.0, harness.now)
    assert harness.handle(answer(question, given)) == []
    assert (harness.engine.in_flight, len(harness.engine.queue)) == (0, 0)
    assert state(harness, "big") == "its profile is not configured any more"
    harness.engine.reconfigure(build(decode(configuration()), registry()), 1.0, 10.0, harness.now)
    harness.put(big)
    assert asked(everything(harness)).pod.name == "big"


def test_room_that_is_kept_for_a_pod_whose_profile_goes(harness: Harness) -> None:
    """Others may have it, though the pod is still there."""
    harness.put(node("n1", cpu="1"), pod("low", "1", nodeName="n1"), pod("packed", "1", "packed", priority=2))
    assert len(of(harness.cycles(), Preempt)) == 1
    harness.put(pod("web", "1", priority=1))
    assert harness.binds() == {}
    harness.engine.reconfigure(build(decode(configuration()), registry()), 1, 10, harness.now)
    harness.gone("Pod", "low")
    harness.after(10)
    assert harness.binds() == {"web": "n1"}


def test_a_pod_that_waits_for_extenders_has_missed_other_profiles(asking: Opened) -> None:
    """All that wait are tried again; so is one of which an extender speaks about the profile of before."""
    harness = asking(FILTER, nodes=1)
    harness.put(pod("web"))
    question = asked(harness.cycle())
    harness.engine.reconfigure(build(decode(configuration()), registry()), 1, 10, harness.now)
    harness.handle(ExtendersAnswered(question, verdict(n1="no berth")))
    assert place(harness, "web") is Place.BACKOFF


def test_a_gang_whose_profile_goes_while_it_backs_off(harness: Harness) -> None:
    """Its backoff ends before its turn has come to leave, as many pods wait before it."""
    harness.handle(Follows(NATIVE, True))
    gated = [pod(f"held-{i}", schedulingGates=[{"name": "example.com/wait"}]) for i in range(2 * AT_ONCE + 1)]
    gang = [member(f"train-{i}", scheduler="packed") for i in range(2)]
    harness.put(node("n1", "1"), *gated, group(min_count=2), *gang)
    harness.cycles()
    harness.put(node("n2", "500m"))
    assert place(harness, "train-0") is Place.BACKOFF
    harness.engine.reconfigure(build(decode(configuration()), registry()), 1, 10, harness.now)
    harness.tick(60)
    assert state(harness, "train-0") == state(harness, "train-1") == "its profile is not configured any more"
    harness.cycles()
    settled(harness)


def test_a_pod_that_backs_off_when_a_plugin_begins_to_gate_it(harness: Harness) -> None:
    """It need not wait for the end of its backoff, but the plugin is asked first."""

    class Own(Plugin):
        name = "Own"

        def pre_enqueue(self, pod: Any) -> Any:
            return Unschedulable("not today")

    harness.put(node("n1", cpu="1"), pod("low", cpu="1", nodeName="n1"), pod("web", cpu="1"))
    harness.cycles()
    harness.gone("Pod", "low")
    assert place(harness, "web") is Place.BACKOFF
    config = decode(configuration(profile(plugins={"multiPoint": {"enabled": [{"name": "Own"}]}})))
    harness.engine.reconfigure(build(config, {**registry(), "Own": Own}), 1, 10, harness.now)
    assert harness.binds() == {}
    assert place(harness, "web") is Place.GATED
