"""Pods that wait for a volume: the reason names the claim, the volume, the zone or the holder."""

from typing import Any

import pytest

from podberth.explain.explain import explain
from podberth.explain.explanation import Explanation
from podberth.framework.config import PluginRef, Plugins, PluginSet, ProfileConfig, SchedulerConfiguration
from podberth.framework.profiles import build
from podberth.plugins.registry import IN_TREE
from tests.builders import namespace, node, pod
from tests.storage import attachment, capacity, claim, csi_driver, csi_node, storage_class, using, volume
from tests.unit.explain.carry_out import carried_out
from tests.unit.explain.story import explained, framework, why, world

Object = dict[str, Any]
FAST = storage_class("fast", "csi.test")


def zoned(name: str, zone: str, **more: Any) -> Object:
    """A volume that only a zone reaches."""
    return volume(name, on=[f"zone in {zone}"], labels={"zone": zone}, claimed="data", **more)


def of(incoming: Object, *objects: Object) -> Explanation:
    """The explanation in the namespace default."""
    return explained(incoming, [namespace("default"), *objects])


def texts(answer: Explanation) -> list[str]:
    """The texts of the offers."""
    return [each.text for each in answer.remedies]


CASES = [
    pytest.param(
        using(pod("p"), "data"),
        [node("n"), FAST],
        "the claim data of this pod does not exist",
        "",
        id="no claim",
    ),
    pytest.param(
        using(pod("p"), "dta"),
        [node("n"), FAST, claim("data")],
        "the claim dta of this pod does not exist; did you mean data?",
        "",
        id="misspelt claim",
    ),
    pytest.param(
        using(pod("p"), "data"),
        [node("n"), FAST, claim("data", storage_class="fats")],
        "the claim data of this pod names the storage class fats, which does not exist; did you mean fast?",
        "",
        id="no class",
    ),
    pytest.param(
        using(pod("p"), "data"),
        [node("n"), FAST, claim("data", storage_class=None)],
        "the claim data of this pod has no volume and names no storage class",
        "",
        id="no class named",
    ),
    pytest.param(
        using(pod("p"), "data"),
        [node("n"), FAST, storage_class("now", "csi.test", waits=False), claim("data", storage_class="now")],
        "the claim data of this pod has no volume yet: csi.test has to make it before the pod is scheduled (class now)",
        "",
        id="immediate",
    ),
    pytest.param(
        using(pod("p"), "data"),
        [node("n"), FAST, claim("data", storage_class="fast", leaving=True)],
        "the claim data of this pod is being deleted",
        "",
        id="being deleted",
    ),
    pytest.param(
        using(pod("p"), "data"),
        [
            node("n"),
            FAST,
            claim("data", storage_class="fast", leaving=True, to="v"),
            volume("v", storage_class="fast", claimed="data"),
            using(pod("old", on="n"), "data"),
        ],
        "the claim data of this pod is being deleted, and is held by default/old until then",
        "",
        id="being deleted, held",
    ),
    pytest.param(
        using(pod("p"), "data"),
        [node("n"), FAST, claim("data", storage_class="fast", to="v", phase="Lost")],
        "the claim data of this pod is bound to the volume v, which does not exist",
        "",
        id="lost",
    ),
    pytest.param(
        using(pod("p"), "data"),
        [node("n"), FAST, claim("data", storage_class="fast", to="v")],
        "the claim data of this pod is bound to the volume v, which does not exist",
        "",
        id="no volume",
    ),
    pytest.param(
        using(pod("p"), "data"),
        [node("n", zone="a"), FAST, claim("data", storage_class="fast", to="v"), zoned("v", "b", storage_class="fast")],
        "claim data of this pod is bound to a volume in zone b, and no node is there",
        "add a node like n, but with zone=b",
        id="no node in the zone",
    ),
    pytest.param(
        using(pod("p"), "data"),
        [
            node("n", zone="a"),
            node("m", zone="b", cordoned=True),
            FAST,
            claim("data", storage_class="fast", to="v"),
            zoned("v", "b", storage_class="fast"),
        ],
        "claim data of this pod is bound to a volume in zone b, and the one node there does not fit: "
        "node(s) were unschedulable",
        "uncordon m",
        id="the zone is cordoned",
    ),
    pytest.param(
        using(pod("p"), "data"),
        [
            node("n"),
            FAST,
            claim("data", storage_class="fast", to="v", modes="RWOP"),
            volume("v", storage_class="fast", claimed="data", modes="RWOP"),
            using(pod("holder", on="n"), "data"),
        ],
        "claim data may be used by one pod only (ReadWriteOncePod): default/holder on n holds it",
        "delete default/holder, which holds the claim data",
        id="held by another",
    ),
    pytest.param(
        using(pod("p"), "data"),
        [
            node("n"),
            FAST,
            claim("data", storage_class="fast", to="v", modes="RWOP"),
            volume("v", storage_class="fast", claimed="data", modes="RWOP"),
            using(pod("one", on="n"), "data"),
            using(pod("two", on="n"), "data"),
        ],
        "claim data may be used by one pod only (ReadWriteOncePod): default/one on n holds it; "
        "claim data may be used by one pod only (ReadWriteOncePod): default/two on n holds it",
        "delete default/one, which holds the claim data and delete default/two, which holds the claim data",
        id="held by two others",
    ),
    pytest.param(
        using(pod("p"), "data"),
        [
            node("n"),
            FAST,
            csi_node("n", csi_test=1),
            claim("data", storage_class="fast", to="v"),
            volume("v", storage_class="fast", claimed="data"),
            claim("other", storage_class="fast", to="w"),
            volume("w", storage_class="fast", claimed="other"),
            using(pod("user", on="n"), "other"),
        ],
        "1 of 1 volumes of csi.test are attached, the pod needs 1 more",
        "move default/user off n",
        id="attach limit",
    ),
    pytest.param(
        using(pod("p"), "data"),
        [
            node("n", zone="a"),
            storage_class("fast", "csi.test", allowed=["zone in b"]),
            storage_class("all", "csi.test"),
            claim("data", storage_class="fast"),
        ],
        "claim data: the storage class fast makes volumes only in zone b",
        "",
        id="topology of the class",
    ),
    pytest.param(
        using(pod("p"), "data"),
        [
            node("n"),
            storage_class("local"),
            FAST,
            claim("data", "5Gi", storage_class="local"),
            volume("small", "1Gi", storage_class="local"),
            volume("taken", "9Gi", storage_class="local", claimed="other"),
            volume("released", "9Gi", storage_class="local", phase="Released"),
            volume("shared", "9Gi", storage_class="local", modes="ROX"),
        ],
        "claim data: no volume of the storage class local reaches the node (4 in all: 1 taken, 1 Released: "
        "released can be used again without its spec.claimRef, 1 smaller than 5Gi, 1 of other modes or labels), "
        "and it makes none",
        "",
        id="no volume to bind",
    ),
    pytest.param(
        using(pod("p"), "data"),
        [
            node("n"),
            storage_class("local"),
            FAST,
            claim("data", storage_class="local"),
            volume("old", storage_class="local", claimed="default/data", uid="before", phase="Released"),
        ],
        "claim data: no volume of the storage class local reaches the node (1 in all: 1 Released: old can be used "
        "again without its spec.claimRef), and it makes none",
        "",
        id="a released volume",
    ),
    pytest.param(
        using(pod("p"), "data"),
        [node("n"), FAST, claim("data", storage_class="fast", selected="gone")],
        "claim data: its volume is to be made for the node gone",
        "",
        id="another node is chosen",
    ),
    pytest.param(
        using(pod("p"), "data"),
        [
            node("n"),
            FAST,
            csi_driver(capacity=True),
            capacity("c", "4Gi", storage_class="fast"),
            claim("data", "9Gi", storage_class="fast"),
        ],
        "claim data asks for 9Gi: of the storage class fast there is at most 4Gi here",
        "",
        id="not enough room",
    ),
    pytest.param(
        using(pod("p"), {"awsElasticBlockStore": {"volumeID": "vol-1"}}),
        [node("n"), using(pod("q", on="n"), {"awsElasticBlockStore": {"volumeID": "vol-1"}})],
        "the disk aws vol-1 is used by default/q here",
        "move default/q off n",
        id="disk",
    ),
]


def test_a_node_is_told_of_the_volume_that_is_gone() -> None:
    """And of no other that the pod claims. With VolumeZone, the pod is rejected as a whole before."""
    there = world(
        [
            node("n"),
            FAST,
            claim("kept", storage_class="fast", to="v"),
            volume("v", storage_class="fast", claimed="kept"),
            claim("gone", storage_class="fast", to="w"),
        ]
    )
    without_zone = Plugins(multi_point=PluginSet(disabled=[PluginRef("VolumeZone")]))
    profile = ProfileConfig(scheduler_name="berth", plugins=without_zone)
    asking = build(SchedulerConfiguration(profiles=[profile]), IN_TREE)["berth"]
    incoming: Any = there.decode(using(pod("p"), "kept", "gone"))
    answer = explain(incoming, asking, there.cluster)
    assert why(answer, "n") == ["claim gone is bound to the volume w, which does not exist"]


@pytest.mark.parametrize(("incoming", "objects", "cause", "change"), CASES)
def test_a_pod_that_waits_for_a_volume(incoming: Object, objects: list[Object], cause: str, change: str) -> None:
    """It is told what is in its way by name, and what would help; carried out by other code, that does help.

    Nothing is offered that would lose what is on a volume, or make it smaller.
    """
    answer = of(incoming, *objects)
    details = [detail for each in answer.rejected for detail in why(answer, each.node)]
    assert any(cause in said for said in (answer.cause or "", *details)), (answer.cause, details)
    if not change:
        assert texts(answer) == []
        return
    assert change in texts(answer)
    [remedy] = [each for each in answer.remedies if each.text == change]
    after, there = carried_out(remedy.changes, incoming, [namespace("default"), *objects])
    made = world(there)
    decoded: Any = made.decode(after)
    feasible = framework().decide(decoded, made.cluster).feasible
    assert sorted(made.cluster.nodes.names[row] or "" for row in feasible) == remedy.nodes


def test_the_cause_is_in_the_first_line() -> None:
    """Of a claim, of a zone, and of what most nodes say."""
    assert of(using(pod("p"), "data"), node("n")).cause == "the claim data of this pod does not exist"
    held = (
        claim("data", to="v", modes="RWOP"),
        volume("v", claimed="data", modes="RWOP"),
        using(pod("q", on="n"), "data"),
    )
    assert of(using(pod("p"), "data"), node("n"), node("m", cordoned=True), *held).cause == (
        "claim data may be used by one pod only (ReadWriteOncePod): default/q on n holds it"
    )
    assert of(pod("p", "9"), node("n", "1"), node("m", "1", cordoned=True)).cause == (
        "1 Insufficient cpu, 1 node(s) were unschedulable"
    )


def test_zone_and_reason_of_a_node_that_is_elsewhere() -> None:
    """Each node says which volume of which claim is where, and where it is itself."""
    answer = of(
        using(pod("p"), "data"),
        node("n", zone="a"),
        claim("data", storage_class="fast", to="v"),
        volume("v", claimed="data", labels={"zone": "b"}),
    )
    assert why(answer, "n") == ["claim data has the volume v in zone b: the node is in zone a"]
    answer = of(
        using(pod("p"), "data"),
        node("n", zone="a"),
        claim("data", storage_class="fast", to="v"),
        volume("v", claimed="data", on=["zone in b"]),
    )
    assert why(answer, "n") == ["claim data has the volume v: topology.kubernetes.io/zone=b: node has a"]


def test_attachments_count_as_attached() -> None:
    """A VolumeAttachment takes a place too, though no pod uses it."""
    answer = of(
        using(pod("p"), "data"),
        node("n"),
        csi_node("n", csi_test=1),
        claim("data", storage_class="fast", to="v"),
        volume("v", claimed="data"),
        volume("w"),
        attachment("a", "n", "w"),
    )
    assert why(answer, "n") == ["1 of 1 volumes of csi.test are attached, the pod needs 1 more"]


def test_a_node_that_can_attach_none() -> None:
    """A limit of 0 is a limit, and no pod can make room."""
    there = claim("data", storage_class="fast", to="v"), volume("v", storage_class="fast", claimed="data")
    answer = of(using(pod("p"), "data"), node("n"), FAST, csi_node("n", csi_test=0), *there)
    assert why(answer, "n") == ["0 of 0 volumes of csi.test are attached, the pod needs 1 more"]
    assert texts(answer) == []


def test_the_faults_of_all_claims_are_told() -> None:
    """Nothing is offered against them: what is wrong says what would do."""
    answer = of(
        using(pod("p"), "data", "logs"), node("n"), FAST, claim("data", storage_class="fats"), claim("x", to="y")
    )
    assert answer.cause == (
        "the claim data of this pod names the storage class fats, which does not exist; did you mean fast?; "
        "the claim logs of this pod does not exist"
    )
    assert texts(answer) == []
