"""VolumeZone: zones and regions that bound volumes are labelled with."""

import pytest

from podberth.framework.events import ClusterEvent
from podberth.model.storage import PersistentVolume
from tests.builders import Object, node, pod
from tests.storage import BETA_CLASS, claim, csi_node, storage_class, using, volume
from tests.unit.plugins.small import a_pod, cluster, plugin, pre_filter, rejected

ELSEWHERE = "!node(s) had no available volume zone"
OLD_ZONE = "failure-domain.beta.kubernetes.io/zone"
OLD_REGION = "failure-domain.beta.kubernetes.io/region"


@pytest.mark.parametrize(
    ("id", "labels", "nodes", "out"),
    [
        ("the zone", {"zone": "a"}, [node("n", zone="a"), node("m", zone="b")], "m"),
        ("one of several", {"zone": "a__ b"}, [node("n", zone="b"), node("m", zone="c")], "m"),
        ("an empty part voids the label", {"zone": "a__"}, [node("n", zone="c")], ""),
        ("nodes without any such label pass", {"zone": "a"}, [node("n")], ""),
        ("a node with a region but no zone", {"zone": "a"}, [node("n", region="r")], "n"),
        ("zone and region", {"zone": "a", "region": "r"}, [node("n", zone="a", region="s")], "n"),
        ("old label, today's node", {OLD_ZONE: "a"}, [node("n", zone="a"), node("m", zone="b")], "m"),
        ("old label, node with both", {OLD_ZONE: "a"}, [node("n", zone="a", labels={OLD_ZONE: "b"})], "n"),
        ("today's label, old node", {"zone": "a"}, [node("n", labels={OLD_ZONE: "a"})], "n"),
        ("old region", {OLD_REGION: "r"}, [node("n", region="r"), node("m", region="s")], "m"),
        ("no labels", {}, [node("n", zone="a")], ""),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_zones(id: str, labels: dict[str, str], nodes: list[Object], out: str) -> None:
    """A node that has any zone or region label must have what the volume's labels say."""
    found = rejected(
        plugin("VolumeZone"), using(pod("p"), "data"), *nodes, claim("data", to="v"), volume("v", labels=labels)
    )
    assert found == ({out: [ELSEWHERE]} if out else {})


@pytest.mark.parametrize(
    ("id", "objects", "reason"),
    [
        ("no claim", [], 'persistentvolumeclaim "data" not found'),
        ("no volume", [claim("data", to="gone")], 'persistentvolume "gone" not found'),
        (
            "no class",
            [claim("data", storage_class=None)],
            "PersistentVolumeClaim had no pv name and storageClass name",
        ),
        ("unknown class", [claim("data")], 'storageclass.storage.k8s.io "wait" not found'),
        (
            "class without a mode",
            [claim("data"), storage_class(waits=None)],
            'VolumeBindingMode not set for StorageClass "wait"',
        ),
        ("unbound", [claim("data"), storage_class(waits=False)], "PersistentVolume had no name"),
        ("waits for the pod", [claim("data"), storage_class()], None),
        ("by annotation", [claim("data", annotations={BETA_CLASS: "x"}), storage_class("x")], None),
        ("bound", [claim("data", to="v"), volume("v")], None),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_is_missing(id: str, objects: list[Object], reason: str | None) -> None:
    """What can't be looked up rejects the pod as a whole; a volume still to be chosen does not."""
    assert pre_filter(plugin("VolumeZone"), using(pod("p"), "data"), node("n"), *objects) == reason


def test_claims_made_for_the_pod_are_passed_over() -> None:
    """Ephemeral volumes are VolumeBinding's business alone, as upstream."""
    asks = using(pod("p"), "+scratch")
    made = claim("p-scratch", to="v", owner="default/p")
    assert rejected(plugin("VolumeZone"), asks, node("n", zone="b"), made, volume("v", labels={"zone": "a"})) == {}


@pytest.mark.parametrize(
    ("id", "old", "new", "wakes"),
    [
        ("a volume came", None, volume("v"), True),
        ("its zone changed", volume("v", labels={"zone": "a"}), volume("v", labels={"zone": "b"}), True),
        ("something else changed", volume("v"), volume("v", phase="Bound"), False),
        ("a class that waits", None, storage_class(), True),
        ("a class that does not", None, storage_class(waits=False), False),
        ("the claim", None, claim("data"), True),
        ("another claim", None, claim("more"), False),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_wakes(id: str, old: Object | None, new: Object, wakes: bool) -> None:
    """The pod is tried again for what may change where its volumes are."""
    before = None if old is None else cluster(old).storage.volumes.stored("v")
    storage = cluster(new).storage
    after = next(iter([*storage.volumes, *storage.claims, *storage.classes.values()]))
    event = ClusterEvent.VOLUME_UPDATED if isinstance(before, PersistentVolume) else ClusterEvent.VOLUME_ADDED
    assert plugin("VolumeZone").object_hint(a_pod(using(pod("p"), "data")), event, before, after) is wakes


def test_the_first_claim_that_is_missing_is_told() -> None:
    """Others before it are bound."""
    there = [claim("data", to="v"), volume("v")]
    found = pre_filter(plugin("VolumeZone"), using(pod("p"), "data", "gone", "lost"), node("n"), *there)
    assert found == 'persistentvolumeclaim "gone" not found'


def test_drivers_of_nodes_do_not_wake() -> None:
    """What a CSI driver says of a node has no zone."""
    new = cluster(csi_node("n")).storage.csi_nodes["n"]
    asks = a_pod(using(pod("p"), "data"))
    assert plugin("VolumeZone").object_hint(asks, ClusterEvent.CSI_NODE_ADDED, None, new) is False
