"""What the engine keeps of pod groups: objects, members, and whether the groups of scheduler-plugins count."""

import pytest

from podberth.cache.groups import GroupState
from podberth.engine.instructions import Bind
from podberth.engine.stimuli import Follows
from podberth.framework.config import decode
from podberth.framework.profiles import build
from podberth.model.pod_group import COSCHEDULING, COSCHEDULING_KIND, LABEL, NATIVE, GroupKey
from tests.builders import Object
from tests.registered import registry

from .conftest import CONFIG, Harness, node, pod

TRAIN = GroupKey("default", "train")


def group(name: str = "train", min_count: int = 2) -> Object:
    return {
        "kind": "PodGroup",
        "metadata": {"name": name, "namespace": "default", "uid": name},
        "spec": {"schedulingPolicy": {"gang": {"minCount": min_count}}},
    }


def state(harness: Harness, key: GroupKey = TRAIN) -> GroupState | None:
    return harness.engine.cluster.pod_groups.state(key)


def member(name: str, node_name: str = "", scheduler: str = "berth") -> Object:
    made = pod(name, scheduler=scheduler, schedulingGroup={"podGroupName": "train"})
    if node_name:
        made["spec"]["nodeName"] = node_name
    return made


def labelled(name: str, of: str = "train") -> Object:
    return pod(name, labels={LABEL: of})


def test_objects_and_members_come_and_go(harness: Harness) -> None:
    harness.put(node("n1"), group(), member("a"), member("b", "n1"), member("c", scheduler="other"))
    found = state(harness)
    assert found is not None
    assert found.object is not None
    assert found.object.needed == 2
    assert (list(found.unscheduled), list(found.assigned)) == (["a"], ["b"])
    harness.gone("PodGroup", "train")
    assert found.object is None
    harness.gone("Pod", "a")
    finished = member("b", "n1")
    finished["status"]["phase"] = "Succeeded"
    harness.put(finished)
    assert state(harness) is None


def test_a_waiting_member_that_goes_is_a_member_until_it_is_gone(harness: Harness) -> None:
    going = member("a")
    going["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    harness.put(member("a"), going)
    found = state(harness)
    assert found is not None
    assert list(found.unscheduled) == ["a"]


def test_a_member_whose_profile_is_gone_is_none(harness: Harness) -> None:
    harness.put(member("a"), member("b", scheduler="packed"))
    only = {**CONFIG, "profiles": [{"schedulerName": "berth"}]}
    harness.engine.reconfigure(build(decode(only), registry()), 1.0, 10.0, harness.now)
    found = state(harness)
    assert found is not None
    assert list(found.unscheduled) == ["a"]


def test_the_label_means_nothing_while_nobody_serves_its_groups(harness: Harness) -> None:
    harness.put(node("n1"), labelled("a"))
    assert harness.binds() == {"a": "n1"}


def test_a_pod_is_asked_again_when_its_label_begins_or_ceases_to_count(harness: Harness) -> None:
    """It leaves the queue and comes back, whatever it waited for as a pod without a group."""
    harness.put(node("n1", cpu="1"), pod("a", cpu="8", labels={LABEL: "train"}), pod("plain", cpu="8"))
    groups, queue = harness.engine.cluster.pod_groups, harness.engine.queue
    harness.cycles()
    plain = queue.get("plain")
    for followed in (True, False):
        before = queue.get("a")
        harness.handle(Follows(COSCHEDULING, followed))
        assert (COSCHEDULING in groups.followed) is followed
        after = queue.get("a")
        assert after is not before
        harness.handle(Follows(COSCHEDULING, followed))
        assert queue.get("a") is after
    assert queue.get("plain") is plain
    harness.handle(Follows(NATIVE, True))
    assert groups.followed == {NATIVE}


def test_a_waiting_pod_whose_label_changes_waits_anew(harness: Harness) -> None:
    harness.handle(Follows(COSCHEDULING, True))
    harness.put(labelled("a", "one"))
    before = harness.engine.queue.get("a")
    harness.put(labelled("a", "two"))
    after = harness.engine.queue.get("a")
    assert before is not None
    assert after is not None
    assert after is not before
    assert state(harness, GroupKey("default", "one", COSCHEDULING)) is None
    assert state(harness, GroupKey("default", "two", COSCHEDULING)) is not None
    harness.put(pod("a"))
    assert len(harness.engine.cluster.pod_groups) == 0


def test_an_object_of_scheduler_plugins_is_another_group(harness: Harness) -> None:
    theirs = {
        "apiVersion": "scheduling.x-k8s.io/v1alpha1",
        "kind": COSCHEDULING_KIND,
        "metadata": {"name": "train", "namespace": "default", "uid": "theirs"},
        "spec": {"minMember": 5},
    }
    harness.put(group(), theirs)
    groups = harness.engine.cluster.pod_groups
    found = groups.get(GroupKey("default", "train", COSCHEDULING))
    assert found is not None
    assert found.needed == 5
    harness.gone(COSCHEDULING_KIND, "train")
    assert groups.get(TRAIN) is not None
    assert groups.get(GroupKey("default", "train", COSCHEDULING)) is None


@pytest.mark.parametrize("answer", ["bound", "failed", "shown"])
def test_members_follow_their_binding(harness: Harness, answer: str) -> None:
    """With a label that does not count, so that each is bound by itself."""
    harness.put(node("n1"), labelled("a"))
    key = GroupKey("default", "train", COSCHEDULING)
    assert any(isinstance(one, Bind) for one in harness.cycles())
    found = state(harness, key)
    assert found is not None
    assert list(found.assumed) == ["a"]
    if answer == "failed":
        harness.bind_failed("a")
        assert list(found.unscheduled) == ["a"]
        return
    if answer == "bound":
        harness.bound("a")
        assert list(found.assumed) == ["a"]
    shown = labelled("a")
    shown["spec"]["nodeName"] = "n1"
    harness.put(shown)
    assert list(found.assigned) == ["a"]
