"""Plans on small clusters: pods are created, nodes drained."""

import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from podberth.explain.objects.documents import Document
from podberth.explain.objects.manifest import workloads
from podberth.explain.objects.world import World
from podberth.explain.simulate.arrivals import batches
from podberth.explain.simulate.outcome import Outcome
from podberth.explain.simulate.plan import plan
from podberth.framework.config import default_configuration
from podberth.framework.profiles import build
from podberth.framework.runtime import Framework
from tests.builders import node, pod
from tests.registered import registry
from tests.storage import claim, using, volume
from tests.unit.explain.gangs.dumps import group, member

Object = dict[str, Any]


def framework() -> Framework:
    """The default profile."""
    return next(iter(build(default_configuration(), registry()).values()))


def owned(made: Object, kind: str = "ReplicaSet") -> Object:
    """A pod that a controller made."""
    made["metadata"]["ownerReferences"] = [{"kind": kind, "name": "owner", "uid": "owner", "controller": True}]
    return made


def outcome(
    there: Sequence[Object], arriving: Sequence[Object] = (), drain: Sequence[str] = (), *, force: bool = False
) -> Outcome:
    """The plan for a cluster of these objects."""
    world = World()
    world.add_all(there)
    profile = framework()
    documents = [Document(each["kind"], json.dumps(each).encode(), "") for each in arriving]
    coming = batches(workloads(documents), world, profile, None, "default")
    return plan(world, profile, coming, added=world.added(documents), drain=drain, force=force)


SMALL, LARGE = node("small", cpu="1"), node("large", cpu="4")


@pytest.mark.parametrize(
    ("there", "arriving", "drain", "placed", "waiting"),
    [
        pytest.param([LARGE], [pod("a", cpu="1")], [], {"default/a": "large"}, set(), id="there is room"),
        pytest.param([SMALL], [pod("a", cpu="2")], [], {}, {"default/a"}, id="there is none"),
        pytest.param(
            [SMALL],
            [pod("a", cpu="1"), pod("b", cpu="1")],
            [],
            {"default/a": "small"},
            {"default/b"},
            id="room for one",
        ),
        pytest.param([LARGE], [pod("a", gates=["x"])], [], {}, {"default/a"}, id="gated"),
        pytest.param([LARGE], [pod("a", scheduler="other")], [], {"default/a": "large"}, set(), id="taken over"),
        pytest.param(
            [SMALL, LARGE, owned(pod("a", cpu="1", on="small"))],
            [],
            ["small"],
            {"default/a": "large"},
            set(),
            id="drain",
        ),
        pytest.param(
            [SMALL, owned(pod("a", cpu="1", on="small"))], [], ["small"], {}, {"default/a"}, id="nowhere to drain to"
        ),
        pytest.param(
            [SMALL, LARGE, owned(pod("a", on="small"), "DaemonSet")], [], ["small"], {}, set(), id="a daemon stays"
        ),
    ],
)
def test_who_goes_where(
    there: Sequence[Object],
    arriving: Sequence[Object],
    drain: Sequence[str],
    placed: dict[str, str],
    waiting: set[str],
) -> None:
    """Every pod is placed or waits."""
    found = outcome(there, arriving, drain)
    assert {each.pod: each.node for each in found.placed} == placed
    assert {each.pod for each in found.waiting} == waiting


def test_drained_pods_say_where_they_were() -> None:
    """And those that nobody makes anew are named."""
    found = outcome([SMALL, LARGE, owned(pod("a", on="small")), pod("bare", on="small")], drain=["small"])
    assert [(each.pod, each.was, each.node) for each in found.placed] == [("default/a", "small", "large")]
    assert found.lost == ["default/bare"]
    assert (found.before.nodes_in_use, found.after.nodes_in_use) == (1, 1)


def test_preemption() -> None:
    """A pod of higher priority removes one, and takes its node when its turn comes again."""
    low, high = pod("low", cpu="1", on="small", priority=0), pod("high", cpu="1", priority=10)
    found = outcome([SMALL, low], [high])
    assert [(each.pod, each.node, each.by) for each in found.preempted] == [("default/low", "small", "default/high")]
    assert [(each.pod, each.node) for each in found.placed] == [("default/high", "small")]
    assert found.waiting == []


def test_reasons_are_kube_schedulers() -> None:
    """A pod that waits says why."""
    (waiting,) = outcome([SMALL], [pod("a", cpu="2")]).waiting
    assert waiting.message.startswith("0/1 nodes are available: 1 Insufficient cpu.")


@pytest.mark.parametrize(
    ("there", "arriving", "ready", "freed", "waiting"),
    [
        pytest.param([LARGE, pod("w")], [], ["default/w"], [], [], id="it would be placed anyway"),
        pytest.param([LARGE, pod("w", scheduler="other")], [], [], [], [], id="it is another's"),
        pytest.param([LARGE, pod("w", scheduler="default-scheduler")], [], ["default/w"], [], [], id="the usual one"),
        pytest.param([SMALL, pod("w", cpu="2")], [], [], [], ["default/w"], id="it waits on"),
        pytest.param([SMALL, pod("w", cpu="2")], [LARGE], [], ["default/w"], [], id="a node that is added frees it"),
    ],
)
def test_who_waited_before_is_told_apart(
    there: Sequence[Object], arriving: Sequence[Object], ready: list[str], freed: list[str], waiting: list[str]
) -> None:
    """Pods that waited before are no part of the answer, and do not make it a bad one."""
    found = outcome(there, arriving)
    assert (found.placed, found.waiting, found.good) == ([], [], True)
    others = found.others
    assert [each.pod for each in others.ready] == ready
    assert [each.pod for each in others.freed] == freed
    assert [each.pod for each in others.waiting] == waiting


def workload(kind: str, made: Object, **spec: Any) -> Object:
    """A workload whose template is a pod."""
    template = {"metadata": {"labels": {"app": "w"}}, "spec": made["spec"]}
    return {"kind": kind, "metadata": {"name": "w"}, "spec": {"template": template, **spec}}


@pytest.mark.parametrize("wanted", [7, 1_000_000_000])
def test_equal_pods_are_counted_and_not_made(wanted: int) -> None:
    """The first that fits nowhere stands for all that follow."""
    found = outcome([SMALL, LARGE], [workload("Deployment", pod("t", cpu="1"), replicas=wanted)])
    (told,) = found.workloads
    assert (told.workload, told.wanted, told.placed) == ("Deployment default/w", wanted, 5)
    assert told.nodes == {"small": 1, "large": 4}
    assert [(each.pod, each.pods) for each in found.waiting] == [("default/w-5", wanted - 5)]
    assert found.good is False


@settings(max_examples=60, deadline=None)
@given(
    sizes=st.lists(st.integers(1, 5), min_size=1, max_size=4),
    placed=st.lists(st.tuples(st.integers(0, 3), st.integers(1, 2), st.sampled_from([0, 5])), max_size=5),
    cpu=st.integers(1, 2),
    wanted=st.integers(1, 14),
    priority=st.sampled_from([0, 3]),
    apart=st.booleans(),
    near=st.booleans(),
)
def test_counting_gives_the_answers_of_one_by_one(
    sizes: list[int], placed: list[tuple[int, int, int]], cpu: int, wanted: int, priority: int, apart: bool, near: bool
) -> None:
    """As many are placed and preempted as when every pod is made and put into the queue."""
    there = [node(f"n{i}", cpu=str(size), zone="ab"[i % 2]) for i, size in enumerate(sizes)]
    there += [
        pod(f"q{i}", cpu=str(size), on=f"n{on % len(sizes)}", priority=important, labels={"app": "q"})
        for i, (on, size, important) in enumerate(placed)
    ]
    terms: Object = {"apart": ["app=w per host"]} if apart else {}
    if near:
        terms["near"] = ["app=q per zone"]
    made = pod("t", cpu=str(cpu), priority=priority, **terms)
    at_once = outcome(there, [workload("Deployment", made, replicas=wanted)])
    singles = [pod(f"w-{i}", cpu=str(cpu), priority=priority, labels={"app": "w"}, **terms) for i in range(wanted)]
    one_by_one = outcome(there, singles)
    assert at_once.workloads[0].placed == one_by_one.placed_in_all
    assert at_once.waiting_in_all == one_by_one.waiting_in_all
    assert len(at_once.preempted) == len(one_by_one.preempted)


CLAIM = {"metadata": {"name": "data"}, "spec": {"storageClassName": "gone", "accessModes": ["ReadWriteOnce"]}}


def test_claims_of_a_statefulset_are_made() -> None:
    """One of a class that does not exist keeps the pod from every node."""
    found = outcome([LARGE], [workload("StatefulSet", pod("t"), replicas=3, volumeClaimTemplates=[CLAIM])])
    assert found.placed == []
    assert [(each.pod, each.pods) for each in found.waiting] == [("default/w-0", 3)]
    assert found.notes[0] == "there is no StorageClass gone"


def storage_class(**fields: Any) -> Object:
    """A class that makes volumes."""
    return {"kind": "StorageClass", "metadata": {"name": "gone"}, "provisioner": "disks.test", **fields}


@pytest.mark.parametrize(
    ("mode", "waits"), [("WaitForFirstConsumer", True), ("Immediate", False)], ids=["with the pod", "before the pod"]
)
def test_claims_of_a_class_that_makes_volumes(mode: str, waits: bool) -> None:
    """The pods have their nodes, at once or when the volumes are made."""
    there = [LARGE, storage_class(volumeBindingMode=mode)]
    found = outcome(there, [workload("StatefulSet", pod("t"), replicas=2, volumeClaimTemplates=[CLAIM])])
    assert [(each.pod, each.node, each.waits_for_volumes) for each in found.placed] == [
        ("default/w-0", "large", waits),
        ("default/w-1", "large", waits),
    ]


def test_what_is_decided_one_by_one_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """So many are tried, and the answer says that the rest was not."""
    monkeypatch.setattr("podberth.explain.simulate.arrivals._MOST", 4)
    monkeypatch.setattr("podberth.explain.simulate.arrivals._MOST_UNEQUAL", 3)
    free = [volume(f"free-{i}", "100Gi", storage_class="gone") for i in range(2)]
    there = [LARGE, storage_class(volumeBindingMode="WaitForFirstConsumer"), *free]
    found = outcome(there, [workload("StatefulSet", pod("t"), replicas=9, volumeClaimTemplates=[CLAIM])])
    assert [(each.placed, each.waiting) for each in found.workloads] == [(3, 6)]
    assert [(each.pod, each.pods, each.message) for each in found.waiting] == [("default/w-3", 6, "was not tried")]
    assert found.notes[-1] == ("StatefulSet default/w: stopped after deciding 3 pods; the other 6 were not tried")
    assert found.good is False
    found = outcome([LARGE], [workload("Deployment", pod("t"), replicas=9)])
    assert [(each.placed, each.waiting) for each in found.workloads] == [(4, 5)]
    assert found.notes[-1] == "Deployment default/w: stopped after deciding 4 pods; the other 5 were not tried"


def test_a_pod_that_waits_hears_of_each() -> None:
    """One of the equal pods lets it go where it is."""
    waits = pod("follower", near=["app=w per host"])
    made = pod("t", apart=["app=w per host"], labels={"app": "w"})
    there = [node(f"n{i}", cpu="1") for i in range(9)]
    found = outcome([*there, waits], [workload("Deployment", made, replicas=9)])
    assert [each.placed for each in found.workloads] == [9]
    assert [each.pod for each in found.others.freed] == ["default/follower"]


def test_a_claim_that_is_there_is_used() -> None:
    """The claim of an earlier life holds its pod to its volume's node, and says nothing of the next pod."""
    there = [
        SMALL,
        LARGE,
        storage_class(volumeBindingMode="WaitForFirstConsumer"),
        volume("v", on=["host=elsewhere"]),
        claim("data-w-0", to="v"),
    ]
    found = outcome(there, [workload("StatefulSet", pod("t"), replicas=2, volumeClaimTemplates=[CLAIM])])
    assert [each.pod for each in found.placed] == ["default/w-1"]
    assert [each.pod for each in found.waiting] == ["default/w-0"]


def test_who_gets_a_node_and_waits_for_a_volume_is_in_one_place() -> None:
    """It found none before, and pods of its group that want no volume wait for it on their nodes."""
    waits = storage_class(volumeBindingMode="WaitForFirstConsumer")
    there = [SMALL, waits, claim("c", storage_class="gone"), using(pod("p", "3"), "c")]
    found = outcome(there, [LARGE])
    assert [(each.pod, each.node, each.waits_for_volumes) for each in found.others.freed] == [
        ("default/p", "large", True)
    ]
    assert found.others.waiting == []
    members = [using(member("train-0"), "c"), member("train-1")]
    found = outcome([LARGE, node("more", cpu="4"), waits, group(2), claim("c", storage_class="gone"), *members])
    assert (sorted(each.pod for each in found.others.ready), found.others.waiting) == (
        ["default/train-0", "default/train-1"],
        [],
    )


def test_a_daemonset_makes_no_second_pod_for_a_node() -> None:
    """Whether its pod runs there or waits for it."""
    runs, waits = owned(pod("a", on="small"), "DaemonSet"), owned(pod("b", "9", need=["@name in large"]), "DaemonSet")
    made = workload("DaemonSet", pod("t"))
    made["metadata"]["name"] = "owner"
    found = outcome([SMALL, LARGE, runs, waits], [made])
    assert [(each.wanted, each.placed) for each in found.workloads] == [(0, 0)]


def test_a_daemonset_runs_where_it_may() -> None:
    """On each node that its selector and tolerations allow, cordoned ones too; a full one keeps its pod waiting."""
    there = [
        SMALL,
        node("cordoned", cordoned=True),
        node("tainted", taints=["a:NoSchedule"]),
        pod("q", cpu="1", on="small"),
    ]
    found = outcome(there, [node("added"), workload("DaemonSet", pod("t", cpu="500m"))])
    assert {each.node for each in found.placed} == {"cordoned", "added"}
    assert found.workloads[0].wanted == 3
    assert found.waiting_in_all == 1


def budget(allowed: int, **labels: str) -> Object:
    """A disruption budget."""
    return {
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "pdb", "namespace": "default", "uid": "pdb"},
        "spec": {"selector": {"matchLabels": labels}},
        "status": {"disruptionsAllowed": allowed},
    }


def guarded(number: int) -> list[Object]:
    """Pods under a budget."""
    return [owned(pod(f"a{i}", cpu="500m", on="small", labels={"app": "a"})) for i in range(number)]


@pytest.mark.parametrize(
    ("allowed", "force", "moved", "blocked", "overdrawn"),
    [
        pytest.param(0, False, 0, 2, 0, id="nothing is allowed"),
        pytest.param(1, False, 2, 0, 0, id="one after the other"),
        pytest.param(0, True, 2, 0, 2, id="by force"),
    ],
)
def test_drains_respect_budgets(allowed: int, force: bool, moved: int, blocked: int, overdrawn: int) -> None:
    """And name those that are in the way, or broken."""
    found = outcome([SMALL, LARGE, budget(allowed, app="a"), *guarded(2)], drain=["small"], force=force)
    assert [(each.was, each.node) for each in found.placed] == [("small", "large")] * moved
    assert [each.budgets for each in found.blocked] == [["pdb"]] * blocked
    assert [len(pods) for pods in found.overdrawn.values()] == ([overdrawn] if overdrawn else [])
    assert found.good is (not blocked)


def test_a_budget_waits_for_the_pod_to_run_again() -> None:
    """With nowhere to go for the first, the second stays."""
    found = outcome([SMALL, budget(1, app="a"), *guarded(2)], drain=["small"])
    assert (len(found.waiting), len(found.blocked)) == (1, 1)


def test_who_waits_for_volumes_keeps_its_room() -> None:
    """Nobody else gets the node of a pod whose volumes are still to be made."""
    there = [SMALL, storage_class(volumeBindingMode="WaitForFirstConsumer")]
    found = outcome(there, [workload("StatefulSet", pod("t", cpu="1"), replicas=3, volumeClaimTemplates=[CLAIM])])
    assert [each.pod for each in found.placed] == ["default/w-0"]
    assert [(each.pod, each.pods) for each in found.waiting] == [("default/w-1", 2)]
