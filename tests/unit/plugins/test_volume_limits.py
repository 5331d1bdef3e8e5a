"""NodeVolumeLimits: how many volumes of a CSI driver a node can attach, and drivers that must be there."""

from typing import Any

import pytest

from podberth.framework.events import ClusterEvent
from tests.builders import Object, node, pod
from tests.storage import attachment, claim, csi_driver, csi_node, storage_class, using, volume
from tests.unit.plugins.small import a_pod, cluster, plugin, rejected

FULL = "node(s) exceed max volume count"
MISSING = "csi.test CSI driver is not installed on the node"
EBS = "ebs_csi_aws_com"
IN_TREE: Object = {"awsElasticBlockStore": {"volumeID": "vol-1"}}


def bound(name: str, **spec: Any) -> list[Object]:
    """A claim and its volume."""
    return [claim(name, to=f"pv-{name}"), volume(f"pv-{name}", **spec)]


ONE = csi_node("n", csi_test=1)
USED = [*bound("a"), using(pod("e", on="n"), "a")]


def limits(ebs: int) -> dict[str, Any]:
    """What a CSINode says of the driver of EBS."""
    return {EBS: ebs}


@pytest.mark.parametrize(
    ("id", "wants", "objects", "full"),
    [
        ("room", ["a"], [ONE, *bound("a")], False),
        ("taken", ["b"], [ONE, *USED, *bound("b")], True),
        ("the same volume counts once", ["a"], [ONE, *USED], False),
        ("two of its own", ["a", "b"], [ONE, *bound("a"), *bound("b")], True),
        ("one of two is there already", ["a", "b"], [ONE, *USED, *bound("b")], True),
        ("no more on a node that has too many", ["a"], [csi_node("n", csi_test=0), *USED], False),
        ("no limit", ["b"], [csi_node("n", csi_test=None), *USED, *bound("b")], False),
        ("no CSINode", ["b"], [*USED, *bound("b")], False),
        ("another driver's limit", ["b"], [csi_node("n", other=0), *USED, *bound("b")], False),
        ("limit of none", ["a"], [csi_node("n", csi_test=0), *bound("a")], True),
        ("no volumes of the driver", ["a"], [csi_node("n", csi_test=0), *bound("a", driver=None)], False),
        ("attached, though no pod uses it", ["a"], [ONE, attachment("x", "n", "pv-b"), *bound("a"), *bound("b")], True),
        ("attached and used", ["a"], [csi_node("n", csi_test=2), *USED, attachment("x", "n", "pv-a")], False),
        ("attached elsewhere", ["a"], [ONE, attachment("x", "m", "pv-b"), *bound("a"), *bound("b")], False),
        ("attached inline", ["a"], [ONE, attachment("x", "n", None), *bound("a")], False),
        ("its own attachment counts too, as upstream", ["a"], [ONE, attachment("x", "n", "pv-a"), *bound("a")], True),
        (
            "to be made",
            ["new"],
            [csi_node("n", csi_test=0), storage_class(provisioner="csi.test"), claim("new")],
            True,
        ),
        ("to be made by nobody", ["new"], [csi_node("n", csi_test=0), claim("new", storage_class=None)], False),
        (
            "volume not there: by its class",
            ["lost"],
            [csi_node("n", csi_test=0), storage_class(provisioner="csi.test"), claim("lost", to="gone")],
            True,
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_limits(id: str, wants: list[str], objects: list[Object], full: bool) -> None:
    """What is attached and what the pod adds must be within the node's limit."""
    found = rejected(plugin("NodeVolumeLimits"), using(pod("p"), *wants), node("n"), *objects)
    assert found == ({"n": [FULL]} if full else {})


@pytest.mark.parametrize(
    ("id", "csi", "full"),
    [
        ("counted by its CSI driver", csi_node("n", **limits(0)), True),
        ("room", csi_node("n", **limits(1)), False),
        ("not counted without a CSINode", None, False),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
@pytest.mark.parametrize("inline", [True, False])
def test_in_tree_volumes(id: str, csi: Object | None, full: bool, inline: bool) -> None:
    """In-tree volumes, inline or bound, count for the CSI driver that took over, where there is a CSINode."""
    asks = using(pod("p"), IN_TREE if inline else "a")
    objects = [node("n"), *([csi] if csi else []), *bound("a", driver=None, **IN_TREE)]
    assert rejected(plugin("NodeVolumeLimits"), asks, *objects) == ({"n": [FULL]} if full else {})


def test_an_inline_disk_that_no_driver_takes() -> None:
    """Upstream fails the attempt; here such nodes are rejected, and the message says why."""
    asks = using(pod("p"), {"azureDisk": {"diskName": "d", "diskURI": "u", "kind": "Shared"}})
    found = rejected(plugin("NodeVolumeLimits"), asks, node("n"), csi_node("n"), node("m"))
    text = "!converting volume(v0) from inline to csi: kind(Shared) is not supported in csi migration"
    assert found == {"n": [text]}


def test_claims_of_a_new_pod_must_be_there() -> None:
    """A claim that is missing, or made for another pod, leaves no node."""
    made = plugin("NodeVolumeLimits")
    missing = '!looking up PVC default/a: persistentvolumeclaim "a" not found'
    assert rejected(made, using(pod("p"), "a"), node("n")) == {"n": [missing]}
    foreign = claim("p-scratch", owner="somebody")
    text = "!PVC default/p-scratch was not created for pod default/p (pod is not owner)"
    assert rejected(made, using(pod("p"), "+scratch"), node("n"), foreign) == {"n": [text]}


def test_a_broken_neighbour_does_not_count() -> None:
    """A placed pod whose claim is missing or another's is passed over; upstream fails every pod that comes near."""
    objects = [ONE, *bound("a"), using(pod("e", on="n"), "gone", "+scratch"), claim("e-scratch", owner="somebody")]
    assert rejected(plugin("NodeVolumeLimits"), using(pod("p"), "a"), node("n"), *objects) == {}


@pytest.mark.parametrize(
    ("id", "driver", "out"),
    [
        ("opted in", csi_driver(needed=True), ["m", "o"]),
        ("not opted in", csi_driver(), []),
        ("not a CSI driver that we know of", csi_driver("other", needed=True), []),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_drivers_that_must_be_installed(id: str, driver: Object, out: list[str]) -> None:
    """Nodes that lack a driver which asked for that are rejected: no such driver, or no CSINode at all."""
    objects = [node("n"), node("m"), node("o"), csi_node("n", csi_test=None), csi_node("m", other=None), driver]
    found = rejected(plugin("NodeVolumeLimits"), using(pod("p"), "a"), *objects, *bound("a"))
    assert found == {name: [MISSING] for name in out}


def test_counts_follow_the_objects() -> None:
    """Whatever a count was made from may change afterwards: pod, claim, volume, attachment, class, node."""
    made, asks = plugin("NodeVolumeLimits"), a_pod(using(pod("p"), "b"))
    there = cluster(node("n"), ONE, *USED, *bound("b"))

    def full() -> bool:
        return bool(made.filter(asks, there)[-1][1][0])

    assert full()
    old = there.storage.volumes.stored("pv-a")
    assert old is not None
    there.storage.drop("PersistentVolume", "", "pv-a")
    assert not full()
    there.storage.put(old)
    assert full()
    gone = there.storage.drop("PersistentVolumeClaim", "default", "a")
    assert not full()
    assert gone is not None
    there.storage.put(gone)
    there.storage.drop("CSINode", "", "n")
    assert not full()
    there.drop_pod("default/e")
    there.storage.put(next(iter(cluster(ONE).storage.csi_nodes.values())))
    assert not full()


@pytest.mark.parametrize(
    ("id", "old", "new", "wakes"),
    [
        ("a CSINode came", None, ONE, True),
        ("a higher limit", ONE, csi_node("n", csi_test=2), True),
        ("a lower limit", ONE, csi_node("n", csi_test=0), False),
        ("the limit was lifted", ONE, csi_node("n", csi_test=None), True),
        ("a driver more", ONE, csi_node("n", csi_test=1, other=None), True),
        ("nothing new", ONE, ONE, False),
        ("the first that it may attach", csi_node("n", csi_test=0), ONE, True),
        ("no limit, as before", csi_node("n", csi_test=None), csi_node("n", csi_test=None), False),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_wakes_for_csi_nodes(id: str, old: Object | None, new: Object, wakes: bool) -> None:
    """The pod is tried again when a node may attach more."""
    before = None if old is None else cluster(old).storage.csi_nodes["n"]
    event = ClusterEvent.CSI_NODE_ADDED if old is None else ClusterEvent.CSI_NODE_UPDATED
    after = cluster(new).storage.csi_nodes["n"]
    assert plugin("NodeVolumeLimits").object_hint(a_pod(using(pod("p"), "a")), event, before, after) is wakes


@pytest.mark.parametrize(
    ("id", "asks", "wakes"),
    [
        ("with a claim", using(pod("p"), "a"), True),
        ("with a disk of that driver", using(pod("p"), IN_TREE), True),
        ("with a disk of another", using(pod("p"), {"cinder": {"volumeID": "c"}}), False),
        ("without volumes", pod("p"), False),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_wakes_for_attachments(id: str, asks: Object, wakes: bool) -> None:
    """A volume that was detached makes room."""
    gone = cluster(attachment("x", "n", "pv", "ebs.csi.aws.com")).storage.attachments["x"]
    made = plugin("NodeVolumeLimits")
    assert made.object_hint(a_pod(asks), ClusterEvent.ATTACHMENT_GONE, gone, None) is wakes


def test_drivers_are_told_by_name_and_before_limits() -> None:
    """A node has one reason: the first driver that it lacks, or else that one of its drivers is full."""
    objects = [node("n"), csi_node("n", third=0), node("m"), csi_node("m", csi_test=None, other=None, third=0)]
    drivers = [csi_driver(name, needed=True) for name in ("csi.test", "other")]
    volumes = [*bound("a"), *bound("b", driver="other"), *bound("c", driver="third")]
    found = rejected(plugin("NodeVolumeLimits"), using(pod("p"), "c", "b", "a"), *objects, *drivers, *volumes)
    assert found == {"n": [MISSING], "m": [FULL]}


def test_an_in_tree_volume_needs_its_driver_where_nodes_tell_theirs() -> None:
    """It is the driver's only on nodes that have a CSINode."""
    objects = [node("n"), node("m"), csi_node("m", other=None), csi_driver("ebs.csi.aws.com", needed=True)]
    found = rejected(plugin("NodeVolumeLimits"), using(pod("p"), "a"), *objects, *bound("a", driver=None, **IN_TREE))
    assert found == {"m": ["ebs.csi.aws.com CSI driver is not installed on the node"]}


@pytest.mark.parametrize(
    ("id", "new", "wakes"),
    [
        ("its claim", claim("a"), True),
        ("another claim", claim("b"), False),
        ("a namesake elsewhere", claim("a", namespace="other"), False),
        ("one made for it", claim("p-scratch"), True),
        ("a class", storage_class(), False),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_wakes_for_claims(id: str, new: Object, wakes: bool) -> None:
    """The pod is tried again when a claim that it uses is there."""
    storage, asks = cluster(new).storage, a_pod(using(pod("p"), "a", "+scratch"))
    after = next(iter([*storage.claims, *storage.classes.values()]))
    assert plugin("NodeVolumeLimits").object_hint(asks, ClusterEvent.CLAIM_ADDED, None, after) is wakes
