"""Trees of pod groups in the cache: roots, and whether enough pods are there, whatever comes first and goes."""

import random
from typing import Any

import pytest
from msgspec.structs import replace

from scheduler.model import wire
from scheduler.model.kinds import Decoder
from scheduler.model.pod import Pod
from scheduler.model.pod_group import COMPOSITE, NATIVE, GroupKey, PodGroup
from scheduler.state.cluster import Cluster
from scheduler.state.group_trees import LEVELS, MOST_GROUPS
from scheduler.state.pod_groups import PodGroups
from scheduler.state.validate import validate

from .test_pod_groups import member

DECODER = Decoder()
JOB = GroupKey("default", "job", COMPOSITE)


def made(kind: str, name: str, parent: str | None = None, more: Any = None, **policy: Any) -> PodGroup:
    spec: dict[str, Any] = {"schedulingPolicy": policy, **(more or {})}
    if parent is not None:
        spec["parentCompositePodGroupName"] = parent
    document = {"metadata": {"namespace": "default", "name": name, "uid": f"uid-{kind}-{name}"}, "spec": spec}
    found = DECODER.of_kind(kind)(wire.encode(document))
    assert isinstance(found, PodGroup)
    return found


def composite(name: str, parent: str | None = None, needed: int = 1) -> PodGroup:
    return made(COMPOSITE, name, parent, gang={"minGroupCount": needed})


def leaf(name: str, parent: str | None = None, needed: int = 1) -> PodGroup:
    return made("PodGroup", name, parent, gang={"minCount": needed})


def trees_of(*groups: PodGroup) -> Cluster:
    cluster = Cluster()
    cluster.pod_groups.followed.add(NATIVE)
    cluster.pod_groups.trees.wanted = True
    for one in groups:
        cluster.pod_groups.put(one)
    return cluster


def test_a_composite_group_is_read() -> None:
    found = composite("left", "job", 2)
    assert (found.key, found.kind, found.parent, found.needed) == (
        GroupKey("default", "left", COMPOSITE),
        "CompositePodGroup",
        "job",
        2,
    )
    assert made(COMPOSITE, "job", basic={}).needed == 1
    named_alike = made("PodGroup", "job", gang={"minCount": 3})
    assert named_alike.key != JOB
    assert named_alike.needed == 3


def test_the_root_stands_for_a_group_once_all_above_are_known() -> None:
    cluster = trees_of(leaf("a", "left"), composite("left", "job"))
    groups, a = cluster.pod_groups, GroupKey("default", "a")
    assert (groups.trees.root_of(a), groups.trees.entry_of(a)) == (None, a)
    assert groups.trees.missing(a) == 'waiting for composite pod group "job" to appear'
    groups.put(composite("job"))
    assert (groups.trees.root_of(a), groups.trees.missing(a)) == (JOB, "")
    groups.trees.wanted = False
    assert groups.trees.root_of(a) == a


@pytest.mark.parametrize("levels", [LEVELS, LEVELS + 1])
def test_a_tree_that_is_too_deep_has_no_root(levels: int) -> None:
    above = ["job", *(f"c{i}" for i in range(levels - 2))]
    groups = [composite(name, above[i - 1] if i else None) for i, name in enumerate(above)]
    trees = trees_of(*groups, leaf("a", above[-1])).pod_groups.trees
    a = GroupKey("default", "a")
    if levels == LEVELS:
        assert trees.root_of(a) == JOB
        assert list(trees.below(JOB)) == [a]
    else:
        assert trees.root_of(a) is None
        assert "more than 4 levels" in trees.missing(a)
        assert list(trees.below(JOB)) == []


def test_groups_that_are_above_each_other_have_no_root() -> None:
    cluster = trees_of(composite("left", "right"), composite("right", "left"), leaf("a", "left"))
    cluster.pod_groups.waits(member("p", "a"))
    assert cluster.pod_groups.trees.root_of(GroupKey("default", "a")) is None
    assert validate(cluster) == []


def test_children_are_in_the_order_of_age_and_name() -> None:
    groups = [leaf(name, "job") for name in ("b", "a", "c")]
    cluster = trees_of(composite("job"), *groups)
    assert [one.name for one in cluster.pod_groups.trees.children(JOB)] == ["a", "b", "c"]


def test_a_tree_has_no_more_groups_than_may_be() -> None:
    cluster = trees_of(composite("job"), *(leaf(f"g{i}", "job") for i in range(MOST_GROUPS - 1)))
    assert not cluster.pod_groups.trees.too_large(JOB)
    cluster.pod_groups.put(leaf("more", "job"))
    assert cluster.pod_groups.trees.too_large(JOB)


@pytest.mark.parametrize("seed", range(12))
def test_whatever_happens_it_is_known_which_trees_have_enough_pods(seed: int) -> None:
    """`validate` counts everything anew."""
    rng = random.Random(seed)
    cluster = trees_of()
    groups = cluster.pod_groups
    names, leaves = ["job", "left", "right"], ["a", "b", "c"]
    for number in range(120):
        match rng.randrange(5):
            case 0:
                i = rng.randrange(3)
                groups.put(
                    composite(names[i], rng.choice(names[:i]) if i and rng.random() < 0.9 else None, rng.randint(1, 3))
                )
            case 1:
                parent = rng.choice([*names, None])
                groups.put(leaf(rng.choice(leaves), parent, rng.randint(1, 3)))
            case 2:
                groups.drop(GroupKey("default", rng.choice(names), COMPOSITE))
            case 3:
                groups.drop(GroupKey("default", rng.choice(leaves)))
            case _:
                name = f"p{rng.randrange(8)}"
                if name in groups:
                    groups.gone(name)
                else:
                    groups.waits(member(name, rng.choice(leaves)))
        assert [line for line in validate(cluster) if "trees" in line] == [], number


def as_victim(groups: PodGroups, pod: Pod) -> tuple[int, GroupKey | None, tuple[int, str]]:
    """What counts of a pod where it is a victim: its priority, the group with which it goes, and how large that is."""
    whole = groups.whole(pod)
    return (
        groups.priority_of(pod),
        None if whole is None else whole.key,
        (1, "") if whole is None else groups.size_of(whole),
    )


def found_anew(cluster: Cluster, pod: Pod) -> tuple[int, GroupKey | None, tuple[int, str]]:
    """The same, with nothing kept."""
    fresh = trees_of(*(state.object for state in cluster.pod_groups if state.object is not None)).pod_groups
    for state in cluster.pod_groups:
        for one in state.assigned.values():
            fresh.assign(one)
    return as_victim(fresh, pod)


@pytest.mark.parametrize("seed", range(12))
def test_whatever_happens_it_is_known_which_pods_go_together(seed: int) -> None:
    """And whose rows are to be looked at again: those of the groups that the logs name."""
    rng = random.Random(seed)
    cluster = trees_of()
    groups = cluster.pod_groups
    names, leaves = ["job", "left", "right"], ["a", "b", "c"]
    pods: dict[str, Pod] = {}
    before: dict[str, Any] = {}
    for number in range(80):
        version, members = groups.log.version, groups.members_log.version
        spec = {"priority": rng.randrange(2), "disruptionMode": {rng.choice(["all", "single"]): {}}}
        match rng.randrange(6):
            case 0 | 1:
                i = rng.randrange(3)
                groups.put(made(COMPOSITE, names[i], rng.choice(names[:i]) if i else None, spec, basic={}))
            case 2:
                groups.put(made("PodGroup", rng.choice(leaves), rng.choice([*names, None]), spec, basic={}))
            case 3 if rng.random() < 0.5:
                groups.drop(GroupKey("default", rng.choice(names), COMPOSITE))
            case 3:
                groups.drop(GroupKey("default", rng.choice(leaves)))
            case _:
                name = f"p{rng.randrange(8)}"
                if name in pods:
                    groups.gone(pods.pop(name).uid)
                else:
                    pods[name] = replace(
                        member(name, rng.choice(leaves), "n"), started=f"2026-01-01T00:00:{number:02}Z"
                    )
                    groups.assign(pods[name])
        now = {name: as_victim(groups, pod) for name, pod in pods.items()}
        assert now == {name: found_anew(cluster, pod) for name, pod in pods.items()}, number
        changed, of_members = groups.log.since(version), groups.members_log.since(members)
        assert changed is not None
        assert of_members is not None
        told = set(groups.with_node(changed | of_members))
        assert {name for name in pods if name in before and before[name] != now[name]} <= told, number
        before = now
