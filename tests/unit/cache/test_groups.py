"""Pod groups in the cache: which of their pods wait, are assumed, are assigned; in step with the placements."""

import random
from collections.abc import Iterator
from typing import Any

import pytest

from podberth.cache.cluster import Cluster
from podberth.cache.groups import GroupState
from podberth.cache.validate import validate
from podberth.model import wire
from podberth.model.kinds import Decoder
from podberth.model.pod import Pod
from podberth.model.pod_group import COSCHEDULING, COSCHEDULING_KIND, LABEL, NATIVE, GroupKey, PodGroup
from tests import builders

TRAIN = GroupKey("default", "train")
DECODER = Decoder()


def member(name: str, group: str | None = "train", node: str | None = None, *, label: str = "", **spec: Any) -> Pod:
    """A pod of a group, by its spec or by the label."""
    document = builders.pod(name, cpu="100m", uid=name)
    if group is not None:
        document["spec"]["schedulingGroup"] = {"podGroupName": group}
    if label:
        document["metadata"].setdefault("labels", {})[LABEL] = label
    if node is not None:
        document["spec"]["nodeName"] = node
    document["spec"].update(spec)
    return DECODER.pod(wire.encode(document))


def group(name: str = "train", min_count: int = 3) -> PodGroup:
    """A gang."""
    document = {
        "metadata": {"namespace": "default", "name": name, "uid": f"uid-{name}"},
        "spec": {"schedulingPolicy": {"gang": {"minCount": min_count}}},
    }
    found = DECODER.of_kind("PodGroup")(wire.encode(document))
    assert isinstance(found, PodGroup)
    return found


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    cluster = Cluster()
    for name in ("n1", "n2"):
        cluster.put_node(DECODER.node(wire.encode(builders.node(name))))
    yield cluster
    assert validate(cluster) == []


def parts(state: GroupState | None) -> tuple[list[str], list[str], list[str]]:
    """Names of the pods that wait, are assumed, are assigned."""
    assert state is not None
    return list(state.unscheduled), list(state.assumed), list(state.assigned)


def test_a_member_waits_is_assumed_forgotten_and_assigned(cluster: Cluster) -> None:
    groups = cluster.pod_groups
    waiting = member("a")
    groups.waits(waiting)
    assert parts(groups.state(TRAIN)) == (["a"], [], [])
    cluster.assume(waiting, 0)
    groups.waits(member("a"))  # the watch shows it without its node still
    state = groups.state(TRAIN)
    assert state is not None
    assert (parts(state), state.scheduled) == (([], ["a"], []), 1)
    cluster.forget("a")
    assert parts(groups.state(TRAIN)) == (["a"], [], [])
    cluster.assume(waiting, 1)
    cluster.put_pod(member("a", node="n2"))
    assert parts(groups.state(TRAIN)) == ([], [], ["a"])
    assert [pod.node_name for pod in state.with_node] == ["n2"]


def test_a_pod_that_others_bound_is_assigned(cluster: Cluster) -> None:
    cluster.pod_groups.waits(member("a"))
    cluster.put_pod(member("a", node="n1", schedulerName="other"))
    cluster.put_pod(member("b", node="n1", schedulerName="other"))
    assert parts(cluster.pod_groups.state(TRAIN)) == ([], [], ["a", "b"])


def test_a_group_is_known_from_its_object_or_its_pods(cluster: Cluster) -> None:
    groups = cluster.pod_groups
    groups.waits(member("a"))
    assert groups.get(TRAIN) is None
    assert groups.put(group()) is None
    found = groups.get(TRAIN)
    assert found is not None
    assert (found.min_count, found.needed, found.gang) == (3, 3, True)
    cluster.drop_pod("a")
    assert groups.state(TRAIN) is not None
    assert groups.drop(TRAIN) is found
    assert groups.state(TRAIN) is None
    assert len(groups) == 0
    assert groups.drop(TRAIN) is None


def test_the_version_changes_with_the_group_and_no_other(cluster: Cluster) -> None:
    groups = cluster.pod_groups
    groups.put(group())
    groups.put(group("serve"))
    train, serve = groups.state(TRAIN), groups.state(GroupKey("default", "serve"))
    assert train is not None
    assert serve is not None
    seen = {train.version, serve.version}
    pod = member("a")
    changes = (
        lambda: groups.waits(pod),
        lambda: cluster.assume(pod, 0),
        lambda: cluster.forget("a"),
        lambda: cluster.put_pod(member("a", node="n1")),
        lambda: groups.put(group(min_count=2)),
        lambda: cluster.drop_pod("a"),
    )
    other = serve.version
    for change in changes:
        change()
        assert train.version not in seen
        seen.add(train.version)
    assert serve.version == other


def test_the_label_counts_while_its_groups_can_be_read(cluster: Cluster) -> None:
    groups = cluster.pod_groups
    labelled = member("a", None, label="train")
    key = GroupKey("default", "train", COSCHEDULING)
    groups.waits(labelled)
    assert labelled.scheduling_group == key
    assert groups.of(labelled) is None
    assert groups.follow(COSCHEDULING, followed=True) == [labelled]
    assert groups.of(labelled) == key
    assert groups.follow(COSCHEDULING, followed=True) == []
    assert groups.follow(COSCHEDULING, followed=False) == [labelled]
    assert groups.of(labelled) is None
    waiting = member("b")
    groups.waits(waiting)
    assert groups.of(waiting) is None
    assert groups.follow(NATIVE, followed=True) == [waiting]
    assert groups.of(waiting) == TRAIN


def test_the_spec_comes_before_the_label() -> None:
    assert member("a", "train", label="other").scheduling_group == TRAIN


def test_a_pod_whose_label_changes_is_a_member_of_the_other_group(cluster: Cluster) -> None:
    groups = cluster.pod_groups
    one, two = GroupKey("default", "one", COSCHEDULING), GroupKey("default", "two", COSCHEDULING)
    groups.waits(member("a", None, label="one"))
    groups.waits(member("a", None, label="two"))
    assert groups.state(one) is None
    assert parts(groups.state(two)) == (["a"], [], [])
    cluster.put_pod(member("a", None, node="n1"))
    assert len(groups) == 0
    assert "a" not in groups.members


def test_waiting_pods_of_profiles_that_are_gone_are_no_members(cluster: Cluster) -> None:
    groups = cluster.pod_groups
    groups.waits(member("a", schedulerName="old"))
    groups.waits(member("b", schedulerName="new"))
    cluster.put_pod(member("c", node="n1", schedulerName="old"))
    groups.keep({"new"})
    assert parts(groups.state(TRAIN)) == (["b"], [], ["c"])


def test_members_share_a_shape_whatever_their_group() -> None:
    one, two, alone = member("a", "one"), member("b", "two"), member("c", None)
    assert one.shape is two.shape
    assert one.shape is not alone.shape
    assert (one.shape.in_group, alone.shape.in_group) == (True, False)


def test_both_kinds_are_read_whoever_says_the_kind() -> None:
    document = {
        "apiVersion": "scheduling.x-k8s.io/v1alpha1",
        "kind": "PodGroup",
        "metadata": {"namespace": "default", "name": "train", "uid": "u"},
        "spec": {"minMember": 4, "minResources": {"cpu": "8", "memory": "1Gi", "x": "?"}, "scheduleTimeoutSeconds": 30},
        "status": {"phase": "Scheduling"},
    }
    for kind in ("PodGroup", COSCHEDULING_KIND):
        found = DECODER.of_kind(kind)(wire.encode(document))
        assert isinstance(found, PodGroup)
        assert found.key == GroupKey("default", "train", COSCHEDULING)
        assert found.kind == COSCHEDULING_KIND
        assert (found.min_count, found.timeout, found.phase) == (4, 30, "Scheduling")
        assert found.min_resources == {"cpu": 8000, "memory": 1 << 30}
        assert len(found.problems) == 1


def test_what_a_group_says() -> None:
    document = {
        "metadata": {"namespace": "default", "name": "train", "uid": "u", "generation": 2, "resourceVersion": "7"},
        "spec": {
            "schedulingPolicy": {"basic": {}},
            "schedulingConstraints": {"topology": [{"key": "rack"}]},
            "disruptionMode": {"all": {}},
            "priorityClassName": "high",
            "priority": 10,
            "resourceClaims": [{"name": "net", "resourceClaimTemplateName": "fabric"}],
            "workloadRef": {"workloadName": "job", "templateName": "workers"},
        },
        "status": {
            "conditions": [
                {"type": "PodGroupInitiallyScheduled", "status": "False", "reason": "Unschedulable", "message": "no"},
                {"type": "Other", "status": "True"},
            ],
            "resourceClaimStatuses": [{"name": "net", "resourceClaimName": "net-x1"}],
        },
    }
    found = DECODER.of_kind("PodGroup")(wire.encode(document))
    assert isinstance(found, PodGroup)
    assert (found.gang, found.needed, found.topology_key, found.disruption_mode) == (False, 1, "rack", "all")
    assert (found.priority, found.workload) == (10, ("job", "workers"))
    assert [claim.template for claim in found.resource_claims] == ["fabric"]
    assert found.made_claims == (("net", "net-x1"),)
    condition = found.condition("PodGroupInitiallyScheduled")
    assert condition is not None
    assert (condition.status, condition.message) == ("False", "no")
    assert found.condition("Other") is None


@pytest.mark.parametrize("seed", range(6))
def test_any_order_of_events_leaves_it_in_step(cluster: Cluster, seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(120):
        name = f"p{rng.randrange(12)}"
        of = rng.choice((None, "one", "two"))
        label = rng.choice(("", "three"))
        placement = cluster.placement(name)
        match rng.randrange(6):
            case 0 if placement is None:
                pod = member(name, of, label=label)
                if pod.scheduling_group is not None or pod.uid in cluster.pod_groups.members:
                    cluster.pod_groups.waits(pod)
            case 1 if placement is None:
                waiting = [pod for state in cluster.pod_groups for pod in state.unscheduled.values()]
                if waiting:
                    cluster.assume(rng.choice(waiting), rng.randrange(2))
            case 2:
                cluster.forget(name)
            case 3:
                cluster.put_pod(member(name, of, rng.choice(("n1", "n2")), label=label))
            case 4:
                cluster.drop_pod(name)
            case _:
                if rng.random() < 0.5:
                    cluster.pod_groups.put(group(of or "three"))
                else:
                    cluster.pod_groups.drop(GroupKey("default", of or "three"))
        assert validate(cluster) == []
