"""VolumeRestrictions: inline disks and claims for one pod only."""

import numpy as np
import pytest

from podberth.framework.events import ClusterEvent
from tests.builders import Object, node, pod
from tests.storage import claim, using
from tests.unit.plugins.small import a_pod, cluster, plugin, pre_filter, rejected

NO_DISK = "node(s) had no available disk"
IN_USE = (
    "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod"
)


def gce(name: str, *, ro: bool = False) -> Object:
    return {"gcePersistentDisk": {"pdName": name, "readOnly": ro}}


def ebs(name: str, *, ro: bool = False) -> Object:
    return {"awsElasticBlockStore": {"volumeID": name, "readOnly": ro}}


def iscsi(iqn: str, lun: int = 0, *, ro: bool = False) -> Object:
    return {"iscsi": {"targetPortal": "10.0.0.1", "iqn": iqn, "lun": lun, "readOnly": ro}}


def rbd(image: str, monitors: str = "a", pool: str = "rbd", *, ro: bool = False) -> Object:
    return {"rbd": {"monitors": monitors.split(), "image": image, "pool": pool, "readOnly": ro}}


@pytest.mark.parametrize(
    ("id", "wants", "used", "conflict"),
    [
        ("one writer is enough", gce("d"), gce("d", ro=True), True),
        ("readers share", gce("d", ro=True), gce("d", ro=True), False),
        ("other disks", gce("d"), gce("e"), False),
        ("EBS is never shared", ebs("d", ro=True), ebs("d", ro=True), True),
        ("kinds don't mix", ebs("d"), gce("d"), False),
        ("iSCSI by name, whatever the LUN", iscsi("q", 0), iscsi("q", 1), True),
        ("iSCSI readers share", iscsi("q", ro=True), iscsi("q", ro=True), False),
        ("RBD with a monitor in common", rbd("i", "a b"), rbd("i", "b c"), True),
        ("RBD of different clusters", rbd("i", "a"), rbd("i", "b"), False),
        ("RBD in another pool", rbd("i"), rbd("i", pool="p"), False),
        ("RBD readers share", rbd("i", ro=True), rbd("i", ro=True), False),
        ("RBD without monitors", rbd("i", ""), rbd("i", ""), False),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_disks(id: str, wants: Object, used: Object, conflict: bool) -> None:
    """Two users of a disk conflict unless both only read it, and EBS always; other nodes are not concerned."""
    made = plugin("VolumeRestrictions")
    asks, holder = using(pod("p"), wants), using(pod("e", on="n"), used)
    assert rejected(made, asks, node("n"), node("m"), holder) == ({"n": [NO_DISK]} if conflict else {})
    assert made.pod_hint(a_pod(asks), ClusterEvent.POD_GONE, a_pod(holder)) is conflict


def test_a_claim_that_is_not_there() -> None:
    """Its access modes are not known, so the pod has to wait; claims made for the pod are not this plugin's."""
    made = plugin("VolumeRestrictions")
    assert pre_filter(made, using(pod("p"), "data"), node("n")) == 'persistentvolumeclaim "data" not found'
    assert pre_filter(made, using(pod("p"), "+scratch"), node("n")) is None


@pytest.mark.parametrize(
    ("id", "modes", "user", "blocked"),
    [
        ("used on another node", "RWOP", using(pod("e", on="m"), "data"), True),
        ("used on a node that is gone", "RWOP", using(pod("e", on="gone"), "data"), True),
        ("one mode of several", "RWO RWOP", using(pod("e", on="m"), "data"), True),
        ("not for one pod only", "RWO", using(pod("e", on="m"), "data"), False),
        ("a namesake elsewhere", "RWOP", using(pod("e", on="m", namespace="other"), "data"), False),
        ("the claim of an ephemeral volume", "RWOP", using(pod("da", on="m"), "+ta"), False),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_claims_for_one_pod(id: str, modes: str, user: Object, blocked: bool) -> None:
    """While another pod uses such a claim, no node will do; preemption may help."""
    found = rejected(
        plugin("VolumeRestrictions"), using(pod("p"), "data"), node("n"), node("m"), claim("data", modes=modes), user
    )
    assert found == ({"n": [IN_USE], "m": [IN_USE]} if blocked else {})


def test_a_disk_comes_before_a_claim() -> None:
    """A node has one reason: the disk's where both hold."""
    asks = using(pod("p"), gce("d"), "data")
    found = rejected(
        plugin("VolumeRestrictions"), asks, node("n"), node("m"), claim("data", modes="RWOP"),
        using(pod("e", on="n"), gce("d"), "data"),
    )  # fmt: skip
    assert found == {"n": [NO_DISK], "m": [IN_USE]}


def test_dry_runs() -> None:
    """Without its user a claim is free for all nodes, so nodes can't be tried at once; and then it is taken again."""
    made = plugin("VolumeRestrictions")
    there = cluster(node("n"), node("m"), claim("data", modes="RWOP"), using(pod("e", on="m"), "data"))
    asks = a_pod(using(pod("p"), "data"))
    (placement,) = there.placements()
    assert made.looks_elsewhere(asks, there, [placement.pod])
    assert not made.looks_elsewhere(asks, there, [a_pod(pod("x"))])
    assert made.looks_elsewhere(asks, there, [a_pod(pod("x")), placement.pod])
    there.leave_out(placement)
    assert not any(np.any(rows) for _, rows in made.filter(asks, there))
    there.put_back(placement)
    assert all(rows.all() for reason, rows in made.filter(asks, there) if reason.text == IN_USE)


@pytest.mark.parametrize(
    ("id", "other", "wakes"),
    [
        ("the claim", claim("data"), True),
        ("another claim", claim("more"), False),
        ("a namesake elsewhere", claim("data", namespace="other"), False),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_wakes_for_its_claims(id: str, other: Object, wakes: bool) -> None:
    """The pod is tried again when a claim that it names is created."""
    new = next(iter(cluster(other).storage.claims))
    asks = a_pod(using(pod("p"), "data"))
    assert plugin("VolumeRestrictions").object_hint(asks, ClusterEvent.CLAIM_ADDED, None, new) is wakes


@pytest.mark.parametrize(
    ("id", "other", "wakes"),
    [
        ("its claim", using(pod("e"), "data"), True),
        ("another claim", using(pod("e"), "more"), False),
        ("a namesake elsewhere", using(pod("e", namespace="other"), "data"), False),
        ("one made for it", using(pod("da"), "+ta"), False),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_wakes_for_a_pod_that_used_its_claim(id: str, other: Object, wakes: bool) -> None:
    """The pod is tried again when another user of a claim that it names has gone."""
    made, asks = plugin("VolumeRestrictions"), a_pod(using(pod("p"), "data"))
    assert made.pod_hint(asks, ClusterEvent.POD_GONE, a_pod(other)) is wakes
