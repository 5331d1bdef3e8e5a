"""Pod groups in dumps: both kinds are read, kept in the smallest dump, and masked so that members still find theirs."""

import msgspec

from podberth.cache.validate import validate
from podberth.explain.objects.documents import read
from podberth.explain.objects.dump import Masks, smallest
from podberth.explain.objects.world import World
from podberth.model.pod_group import COSCHEDULING, LABEL, GroupKey
from tests.builders import Object, node, pod


def dump() -> list[Object]:
    """A node, two groups of one name, and pods of each."""
    native = {
        "apiVersion": "scheduling.k8s.io/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": "train", "namespace": "default", "uid": "native", "managedFields": []},
        "spec": {
            "schedulingPolicy": {"gang": {"minCount": 3}},
            "workloadRef": {"workloadName": "secret", "templateName": "workers"},
        },
        "status": {"conditions": [{"type": "PodGroupInitiallyScheduled", "status": "False", "message": "no room"}]},
    }
    theirs = {
        "apiVersion": "scheduling.x-k8s.io/v1alpha1",
        "kind": "PodGroup",
        "metadata": {"name": "train", "namespace": "default", "uid": "theirs"},
        "spec": {"minMember": 2},
    }
    placed, waiting, labelled = (pod(name, uid=name) for name in ("a", "b", "c"))
    for each in (placed, waiting):
        each["spec"]["schedulingGroup"] = {"podGroupName": "train"}
    placed["spec"]["nodeName"] = "n"
    labelled["metadata"].setdefault("labels", {})[LABEL] = "train"
    return [node("n"), native, theirs, placed, waiting, labelled]


def world(objects: list[Object]) -> World:
    made = World()
    made.add_documents(read(msgspec.json.encode({"kind": "List", "items": objects})))
    assert validate(made.cluster) == []
    return made


def test_both_kinds_are_read() -> None:
    groups = world(dump()).cluster.pod_groups
    native, theirs = (
        groups.state(GroupKey("default", "train")),
        groups.state(GroupKey("default", "train", COSCHEDULING)),
    )
    assert native is not None
    assert theirs is not None
    assert (list(native.assigned), list(native.unscheduled), list(theirs.unscheduled)) == (["a"], ["b"], ["c"])
    assert native.object is not None
    assert theirs.object is not None
    assert (native.object.needed, theirs.object.needed) == (3, 2)


def test_the_label_means_nothing_in_a_dump_without_its_groups() -> None:
    found = world([each for each in dump() if each["metadata"].get("uid") != "theirs"])
    labelled = found.waiting["default/c"]
    assert found.cluster.pod_groups.of(labelled) is None
    assert world(dump()).cluster.pod_groups.of(labelled) is not None


def test_a_pod_that_is_there_twice_is_one_member() -> None:
    """The later word counts, as in a dump that is followed by changes."""
    made = World()
    made.add_all(dump())
    again = pod("b", uid="b")
    again["spec"]["nodeName"] = "n"
    made.add_all([again])
    state = made.cluster.pod_groups.state(GroupKey("default", "train"))
    assert state is not None
    assert list(state.pods) == ["a"]
    assert validate(made.cluster) == []


def test_members_find_their_group_in_a_masked_dump() -> None:
    kept = [each for document in dump() if (each := smallest(document)) is not None]
    assert len(kept) == len(dump())
    masks = Masks(kept)
    masked = [masks.masked(each) for each in kept]
    text = msgspec.json.encode(masked)
    for secret in (b"train", b"secret", b"workers", b"no room"):
        assert secret not in text
    groups = world(masked).cluster.pod_groups
    assert len(groups) == 2
    sizes = {state.object.needed: len(state.pods) for state in groups if state.object is not None}
    assert sizes == {3: 2, 2: 1}
