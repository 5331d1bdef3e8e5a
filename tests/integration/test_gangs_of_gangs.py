"""Groups of pod groups on real processes: a tree starts whole or not at all, and kube-scheduler says the same."""

from __future__ import annotations

import re
import secrets
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.controlplane import namespaces
from tests.controlplane.api import Api, Object
from tests.controlplane.cluster import ControlPlane
from tests.controlplane.wait import wait_for
from tests.integration import checks
from tests.integration.berth import Harbour
from tests.integration.classes import CLASSES, make_class
from tests.integration.objects import node, pods_path
from tests.integration.test_gangs import ROOT, bound, condition, members, wait_said

GATES = ("GenericWorkload", "TopologyAwareWorkloadScheduling", "CompositePodGroup")
COMPOSITES = "/apis/scheduling.k8s.io/v1alpha3/namespaces/{}/compositepodgroups"
TWICE = re.compile(r"(, pod group preemption: .*?)\1+")
WORKLOAD: Object = {"workloadName": "job", "templateName": "part"}
POINTS: Object = {"enabled": [{"name": "TopologyPlacementGenerator"}, {"name": "PodGroupPodsCount"}]}


@pytest.fixture(scope="module")
def gated(control_plane_binaries: Path) -> Iterator[ControlPlane]:
    """A control plane of our own that has groups of groups, and records each Binding."""
    gates = ",".join(f"{gate}=true" for gate in GATES)
    served = "scheduling.k8s.io/v1beta1=true,scheduling.k8s.io/v1alpha3=true"
    args = (f"--feature-gates={gates}", f"--runtime-config={served}")
    with ControlPlane(audit=True, apiserver_args=args) as cluster:
        yield cluster


@pytest.fixture
def racks(gated: ControlPlane, add_nodes: Callable[..., None]) -> None:
    """A rack with room for three members, and one for two."""
    add_nodes(gated, _slots(5))


@pytest.fixture
def equal_racks(gated: ControlPlane, add_nodes: Callable[..., None]) -> None:
    """Two racks with room for three members each: kube-scheduler tries racks in any order, and names the first."""
    add_nodes(gated, _slots(6))


def _slots(count: int) -> list[Object]:
    prefix = f"slot-{secrets.token_hex(3)}"
    return [node(f"{prefix}-{i}", labels={"rack": f"r{i // 3}"}, cpu="1") for i in range(count)]


def heeding_trees(name: str) -> Object:
    """A profile of Berth's that has the gates."""
    config = [{"name": "GangScheduling", "args": {"featureGates": {"CompositePodGroup": True}}}]
    return {"schedulerName": name, "plugins": {"multiPoint": POINTS}, "pluginConfig": config}


def tree(api: Api, namespace: str, sizes: dict[str, int], scheduler: str) -> None:
    """Create a tree all of whose groups have to be in one rack, and its pods."""
    spec: Object = {
        "schedulingPolicy": {"gang": {"minGroupCount": len(sizes)}},
        "schedulingConstraints": {"topology": [{"key": "rack"}]},
        "workloadRef": WORKLOAD,
    }
    api.create(COMPOSITES.format(namespace), {"metadata": {"name": "job"}, "spec": spec})
    for name, size in sizes.items():
        of: Object = {"parentCompositePodGroupName": "job", "workloadRef": WORKLOAD}
        policy: Object = {"schedulingPolicy": {"gang": {"minCount": size}}}
        api.create(ROOT.format(namespace), {"metadata": {"name": name}, "spec": {**policy, **of}})
    for name, size in sizes.items():
        for one in members(name, size, scheduler):  # one by one: equal pods are tried in the order of their coming
            api.create(pods_path(namespace), one)


def outcome(api: Api, scheduler: str, sizes: dict[str, int], fits: bool) -> Object:
    """What a scheduler makes of a tree: pods in each rack, what is said of its groups and of pods without a node."""
    namespace = namespaces.create(api)
    tree(api, namespace, sizes, scheduler)
    for name in sizes:
        wait_said(api, namespace, name, str(fits))
    # kube-scheduler adds what preemption says as often as groups share a status.
    conditions = {name: tuple(TWICE.sub(r"\1", part) for part in condition(api, namespace, name)) for name in sizes}
    if fits:
        wait_for("all pods", lambda: len(bound(api, namespace)) == sum(sizes.values()), checks.BOUND, 0.2)
    pods = api.list(pods_path(namespace))
    racks = {one["metadata"]["name"]: one["metadata"]["labels"].get("rack") for one in api.list("/api/v1/nodes")}
    waiting = [one for one in pods if not one["spec"].get("nodeName")]
    wait_for("each pod to be told", lambda: len(_told(api, namespace)) == len(waiting), checks.BOUND, 0.2)
    used = Counter(racks[one["spec"]["nodeName"]] for one in pods if one["spec"].get("nodeName"))
    found = {
        "racks": sorted(used.values()),
        "groups": conditions,
        "pods": _told(api, namespace),
    }
    api.delete(pods_path(namespace))
    wait_for("the pods to be gone", lambda: not api.list(pods_path(namespace)), checks.BOUND, 0.2)
    return found


def _told(api: Api, namespace: str) -> dict[str, str]:
    return {
        one["metadata"]["name"]: each["message"]
        for one in api.list(pods_path(namespace))
        for each in one["status"].get("conditions", [])
        if each["type"] == "PodScheduled" and each["status"] == "False"
    }


def test_both_schedulers_do_and_say_the_same(gated: ControlPlane, equal_racks: None, harbour: Harbour) -> None:
    """One after the other on the same nodes: a tree that fits into a rack, and one that does not."""
    # Each tree has a scheduler that starts when the pods of the tree before it are gone: one that runs already may not
    # have seen that yet, and says what it sees.
    for sizes in ({"left": 2, "right": 1}, {"left": 2, "right": 2}):
        fits = sum(sizes.values()) == 3
        kube = f"kube-{secrets.token_hex(4)}"
        process = gated.start_kube_scheduler(scheduler_name=kube, gates=GATES)
        harbour.started.append(process)
        theirs = outcome(gated.api, kube, sizes, fits)
        process.kill()
        name = f"berth-{secrets.token_hex(4)}"
        berth = harbour.berth(gated, name, profiles=[heeding_trees(name)])
        ours = outcome(gated.api, name, sizes, fits)
        berth.end()
        assert ours == theirs
        assert ours["racks"] == ([3] if fits else [])
    assert checks.overfull(gated.api) == []


@pytest.fixture
def classes(gated: ControlPlane) -> Iterator[tuple[str, str]]:
    """The names of two priority classes, the lower one first."""
    names = [f"{which}-{secrets.token_hex(3)}" for which in ("low", "high")]
    for value, name in enumerate(names):
        make_class(gated.api, name, 1000 * (value + 1))
    yield names[0], names[1]
    for name in names:
        gated.api.delete(f"{CLASSES}/{name}")


@pytest.mark.parametrize("who", ["berth", "kube-scheduler"])
def test_a_tree_of_higher_priority_pushes_another_out_as_a_whole(
    gated: ControlPlane, racks: None, classes: tuple[str, str], harbour: Harbour, who: str
) -> None:
    """Five places, three of them taken by a tree that goes as a whole; one place more would be enough for the other."""
    api, space = gated.api, namespaces.create(gated.api)
    scheduler = f"{who}-{secrets.token_hex(4)}"
    if who == "berth":
        berth = harbour.berth(gated, scheduler, profiles=[heeding_trees(scheduler)])
    else:
        harbour.started.append(gated.start_kube_scheduler(scheduler_name=scheduler, gates=GATES))
    for root, of in zip(("old", "new"), classes, strict=True):
        pushing: Object = {"disruptionMode": {"all": {}}, "priorityClassName": of}
        policy: Object = {"schedulingPolicy": {"gang": {"minGroupCount": 2}}}
        spec: Object = {**policy, **pushing, "workloadRef": WORKLOAD}
        api.create(COMPOSITES.format(space), {"metadata": {"name": root}, "spec": spec})
        pods = []
        for part, size in ((f"{root}-a", 2), (f"{root}-b", 1)):
            of_part: Object = {"schedulingPolicy": {"gang": {"minCount": size}}, "priorityClassName": of}
            of_part |= {"parentCompositePodGroupName": root, "workloadRef": WORKLOAD}
            api.create(ROOT.format(space), {"metadata": {"name": part}, "spec": of_part})
            pods += members(part, size, scheduler)
        for one in pods:
            one["spec"]["priorityClassName"] = of
        api.create_many(pods_path(space), pods)
        wait_for(f"the tree {root}", partial(_has, api, space, root, 3), checks.BOUND, 0.2)
    # Room for the new tree may be there a moment before the last victim is gone.
    new = ["new-a-0", "new-a-1", "new-b-0"]
    wait_for("the old tree to be gone", lambda: bound(api, space) == new, checks.BOUND, 0.2)
    uid = api.get(f"{COMPOSITES.format(space)}/new")["metadata"]["uid"]
    found = checks.wait_events(api, space, "Preempted", 3)
    assert {one["regarding"]["name"] for one in found} == {"old-a-0", "old-a-1", "old-b-0"}
    assert {one["note"] for one in found} == {f"Preempted by compositepodgroup {uid} on node cluster"}
    # Both schedulers write a group's condition after its Bindings.
    assert [wait_said(api, space, f"new-{part}", "True") for part in "ab"] == [("True", "Scheduled", "")] * 2
    api.delete(pods_path(space))
    if who == "berth":
        berth.end()


def _has(api: Api, namespace: str, prefix: str, count: int) -> bool:
    return len(bound(api, namespace, prefix)) == count
