"""VolumeBinding: what serves a pod's claims where, and what it scores. Reserve and PreBind are the engine's tests."""

from typing import Any
from unittest.mock import patch

import pytest
from msgspec.structs import replace

from podberth.cache.rebuild import rebuilt
from podberth.framework.config import ConfigError, decode
from podberth.framework.events import ClusterEvent
from podberth.framework.profiles import build
from podberth.framework.status import PluginError
from podberth.model.pod import Pod
from podberth.plugins.node_affinity import matches_all
from podberth.plugins.volume_binding import binder
from podberth.plugins.volume_binding.binder import _bound
from tests.builders import Object, configuration, node, pod, profile
from tests.registered import registry
from tests.storage import BETA_CLASS, BOUND, capacity, claim, csi_driver, csi_node, storage_class, using, volume
from tests.unit.plugins.small import a_node, a_pod, cluster, plugin, pre_filter, reasons, rejected, scored

UNREACHABLE = "!node(s) didn't match PersistentVolume's node affinity"
UNMATCHED = "!node(s) didn't find available persistent volumes to bind"
FULL = "!node(s) did not have enough free storage"
LOST = "!node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"
UNBOUND = "pod has unbound immediate PersistentVolumeClaims"
NODES = [node("n", zone="a"), node("m", zone="b")]
WAIT = storage_class()
MAKES = storage_class(provisioner="csi.test")


def nowhere(reason: str) -> dict[str, list[str]]:
    return {"n": [reason], "m": [reason]}


@pytest.mark.parametrize(
    ("id", "volumes", "objects", "reason"),
    [
        ("no claims", [], [], None),
        ("bound", ["data"], [claim("data", to="v")], None),
        ("waits for the pod", ["data"], [claim("data"), WAIT], None),
        ("missing", ["data"], [], 'persistentvolumeclaim "data" not found'),
        (
            "missing, made for the pod",
            ["+scratch"],
            [],
            'waiting for ephemeral volume controller to create the persistentvolumeclaim "p-scratch"',
        ),
        (
            "made for another",
            ["+scratch"],
            [claim("p-scratch", to="v", owner="x")],
            "PVC default/p-scratch was not created for pod default/p (pod is not owner)",
        ),
        ("made for the pod", ["+scratch"], [claim("p-scratch", to="v", owner="default/p")], None),
        (
            "lost its volume",
            ["data"],
            [claim("data", to="v", phase="Lost")],
            'persistentvolumeclaim "data" bound to non-existent persistentvolume "v"',
        ),
        (
            "on its way out",
            ["data"],
            [claim("data", to="v", leaving=True)],
            'persistentvolumeclaim "data" is being deleted',
        ),
        ("for others to bind", ["data"], [claim("data"), storage_class(waits=False)], UNBOUND),
        ("no class", ["data"], [claim("data", storage_class=None)], UNBOUND),
        ("unknown class", ["data"], [claim("data")], UNBOUND),
        ("half bound", ["data"], [claim("data", volumeName="v"), WAIT], UNBOUND),
        ("bind-completed without a volume", ["data"], [claim("data", annotations={BOUND: "yes"}), WAIT], None),
        ("class by annotation", ["data"], [claim("data", annotations={BETA_CLASS: "x"}), WAIT], UNBOUND),
        ("the first fault counts", ["a", "b"], [claim("a", to="v")], 'persistentvolumeclaim "b" not found'),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_claims_that_can_not_be_used(id: str, volumes: list[str], objects: list[Object], reason: str | None) -> None:
    """Claims that are not there, not the pod's, leaving, or for others to bind reject it as a whole."""
    assert pre_filter(plugin("VolumeBinding"), using(pod("p"), *volumes), node("n"), *objects) == reason


def test_a_class_without_a_binding_mode() -> None:
    """The API server always sets one; upstream fails the attempt, and so do we."""
    with pytest.raises(PluginError, match='VolumeBindingMode not set for StorageClass "wait"'):
        pre_filter(plugin("VolumeBinding"), using(pod("p"), "data"), claim("data"), storage_class(waits=None))


@pytest.mark.parametrize(
    ("id", "on", "out"),
    [
        ("everywhere", [], ""),
        ("one zone", ["zone in b"], "n"),
        ("either term", ["zone in b", "zone in a"], ""),
        ("both requirements", ["zone in a,b; host in n"], "m"),
        ("an empty term matches nothing", ["host in m", ""], "n"),
        ("names in a term are passed over, as upstream", ["zone in a,b; @name in n"], ""),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_bound_volumes(id: str, on: list[str], out: str) -> None:
    """A node must be one that the bound volume is reached from."""
    objects = [*NODES, claim("data", to="v"), volume("v", on=on)]
    assert rejected(plugin("VolumeBinding"), using(pod("p"), "data"), *objects) == ({out: [UNREACHABLE]} if out else {})


def test_the_first_bound_claim_that_fails_says_why() -> None:
    """A node out of reach is not asked about the volume that is gone."""
    asks = using(pod("p"), "a", "b")
    objects = [*NODES, claim("a", to="v"), volume("v", on=["zone in a"]), claim("b", to="gone")]
    assert rejected(plugin("VolumeBinding"), asks, *objects) == {"n": [LOST], "m": [UNREACHABLE]}


@pytest.mark.parametrize(
    ("id", "migrated", "out"),
    [
        ("not taken over", [], ""),
        ("taken over", ["kubernetes.io/aws-ebs"], "n"),
        ("another", ["kubernetes.io/cinder"], ""),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_in_tree_volumes_that_csi_took_over(id: str, migrated: list[str], out: str) -> None:
    """Where the CSINode says so, the CSI driver's own zone label decides."""
    in_tree: dict[str, Any] = {"awsElasticBlockStore": {"volumeID": "vol-1"}}
    objects = [*NODES, csi_node("n", migrated=migrated), claim("data", to="v")]
    objects.append(volume("v", driver=None, on=["zone in a,b"], **in_tree))
    assert rejected(plugin("VolumeBinding"), using(pod("p"), "data"), *objects) == ({out: [UNREACHABLE]} if out else {})


@pytest.mark.parametrize(
    ("id", "on", "out"),
    [("everywhere", [], ""), ("in one zone", ["zone in a"], "n m"), ("in the other", ["zone in b"], "n o")],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_where_csi_took_over_on_one_node_the_others_go_by_the_volumes_own_terms(
    id: str, on: list[str], out: str
) -> None:
    """n has the zone as a label, and not as its driver's label."""
    in_tree: dict[str, Any] = {"awsElasticBlockStore": {"volumeID": "vol-1"}}
    objects = [*NODES, node("o", zone="a"), csi_node("n", migrated=["kubernetes.io/aws-ebs"]), claim("data", to="v")]
    objects.append(volume("v", driver=None, on=on, **in_tree))
    found = rejected(plugin("VolumeBinding"), using(pod("p"), "data"), *objects)
    assert found == {name: [UNREACHABLE] for name in out.split()}


def test_names_in_a_term_of_a_volume_that_csi_took_over_are_passed_over() -> None:
    """As they are in other volumes' terms: only labels of nodes are asked (CheckNodeAffinity in volume/util)."""
    driven = node("n", labels={"topology.ebs.csi.aws.com/zone": "a"})
    in_tree: dict[str, Any] = {"awsElasticBlockStore": {"volumeID": "vol-1"}}
    objects = [driven, csi_node("n", migrated=["kubernetes.io/aws-ebs"]), claim("data", to="v")]
    objects.append(volume("v", driver=None, on=["zone in a; @name in m"], **in_tree))
    assert rejected(plugin("VolumeBinding"), using(pod("p"), "data"), *objects) == {}


@pytest.mark.parametrize(
    ("id", "on", "out"),
    [("from everywhere", [], "n"), ("from zone b", ["zone in b"], "n o"), ("from zone a", ["zone in a"], "n m")],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_an_in_tree_volume_that_csi_does_not_know(id: str, on: list[str], out: str) -> None:
    """Where a driver has taken over, a volume whose ID can't be translated is not to be had; elsewhere, it is."""
    in_tree: dict[str, Any] = {"awsElasticBlockStore": {"volumeID": "aws://zone/"}}
    objects = [*NODES, node("o", zone="a"), csi_node("n", migrated=["kubernetes.io/aws-ebs"]), claim("data", to="v")]
    objects.append(volume("v", driver=None, on=on, **in_tree))
    found = rejected(plugin("VolumeBinding"), using(pod("p"), "data"), *objects)
    assert found == {name: [UNREACHABLE] for name in out.split()}


SMALL, LARGE = volume("small", "1Gi", on=["zone in a"]), volume("large", "5Gi", on=["zone in a"])


@pytest.mark.parametrize(
    ("id", "wants", "there", "fits"),
    [
        ("one fits", {}, [SMALL], True),
        ("none is large enough", {"size": "2Gi"}, [SMALL], False),
        ("compared exactly", {"size": "1073741825"}, [SMALL], False),
        ("no size wanted", {"size": None}, [SMALL], True),
        ("not available", {}, [volume("v", phase="Released")], False),
        ("on its way out", {}, [volume("v", leaving=True)], False),
        ("another class", {}, [volume("v", storage_class="x")], False),
        ("all modes must be there", {"modes": "RWO ROX"}, [volume("v", modes="RWO")], False),
        ("more modes are fine", {"modes": "RWO"}, [volume("v", modes="ROX RWO")], True),
        ("block for file system", {}, [volume("v", volumeMode="Block")], False),
        ("attributes class", {}, [volume("v", volumeAttributesClassName="gold")], False),
        ("selector", {"select": "tier=a"}, [volume("v", labels={"tier": "b"})], False),
        ("selector matches", {"select": "tier=a"}, [volume("v", labels={"tier": "a"})], True),
        ("selector of nothing in particular", {"select": ""}, [SMALL], True),
        ("for another claim", {}, [volume("v", claimed="other")], False),
        ("for it, whatever the phase", {}, [volume("v", claimed="data", phase="Bound")], True),
        ("for it, by uid", {}, [volume("v", claimed="data", uid="claim/default/data")], True),
        ("for a former namesake", {}, [volume("v", claimed="data", uid="old")], False),
        ("for it, but too small", {"size": "2Gi"}, [volume("v", claimed="data")], False),
        ("nothing of nothing", {"size": None}, [volume("v", "0")], True),
        ("names in a term are passed over", {}, [volume("v", on=["zone in a; @name in m"])], True),
        ("by name alone", {}, [volume("v", on=["@name in m"])], True),
        ("by no term", {}, [volume("v", nodeAffinity={"required": {"nodeSelectorTerms": []}})], False),
        ("on a host that is gone", {}, [volume("v", on=["host in gone"])], False),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_volumes_to_bind(id: str, wants: dict[str, Any], there: list[Object], fits: bool) -> None:
    """A claim of a class without provisioner needs a volume that serves it and is reached from the node."""
    found = rejected(
        plugin("VolumeBinding"), using(pod("p"), "data"), node("n", zone="a"), WAIT, claim("data", **wants), *there
    )
    assert found == ({} if fits else {"n": [UNMATCHED]})


@pytest.mark.parametrize(
    ("id", "on", "from_"),
    [
        ("either term", ["zone in a", "zone in b"], "n m"),
        ("two terms, one of them for nobody", ["zone in x", "host in m"], "m"),
        ("two labels", ["zone in a,b; host in n"], "n"),
        ("one label of two values", ["zone in a,b"], "n m"),
        ("any but one value", ["zone notin a"], "m o"),
        ("one label", ["zone in b"], "m"),
        ("another label", ["zone in a"], "n"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_where_a_volume_to_bind_is_reached_from(id: str, on: list[str], from_: str) -> None:
    """By all terms that it has; a node without the label is none of them, whatever other volumes there are."""
    objects = [*NODES, node("o"), WAIT, claim("data"), volume("v", on=on), volume("w", on=["zone in gone"])]
    found = rejected(plugin("VolumeBinding"), using(pod("p"), "data"), *objects)
    assert found == {name: [UNMATCHED] for name in "nmo" if name not in from_.split()}


def test_what_serves_one_node_leaves_others_to_other_volumes() -> None:
    """The first volume does for some of the nodes, the next one for the rest."""
    objects = [*NODES, WAIT, claim("data"), volume("v", on=["zone in a,x"]), volume("w", on=["zone in b,x"])]
    assert rejected(plugin("VolumeBinding"), using(pod("p"), "data"), *objects) == {}


@pytest.mark.parametrize(("size", "of_nothing"), [("3Gi", "1Gi"), ("1", None)])
def test_the_claim_that_asks_for_less_chooses_first(size: str, of_nothing: str | None) -> None:
    """In whatever order the pod names them (byPVCSize); one that says no size asks for nothing."""
    asks = using(pod("p"), "big", "little")
    claims = [claim("big", size, select="tier=a"), claim("little", of_nothing)]
    volumes = [volume("v", "3Gi", labels={"tier": "a"}), volume("w", "5Gi")]
    assert rejected(plugin("VolumeBinding"), asks, *NODES, WAIT, *claims, *volumes) == nowhere(UNMATCHED)


def test_a_volume_that_is_meant_for_the_claim_is_the_only_one() -> None:
    """Where it can't be reached, nothing else will do."""
    objects = [*NODES, WAIT, claim("data"), volume("v", "5Gi", claimed="data", on=["zone in b"]), volume("free")]
    assert rejected(plugin("VolumeBinding"), using(pod("p"), "data"), *objects) == {"n": [UNMATCHED]}


def test_of_two_volumes_that_are_meant_for_the_claim_the_first_decides() -> None:
    """FindMatchingVolume looks no further than the first of them; here they come by size, and then by name."""
    meant = [volume("v", "2Gi", claimed="data", on=["zone in b"]), volume("w", "1Gi", claimed="data", on=["zone in a"])]
    objects = [*NODES, WAIT, claim("data"), *meant]
    assert rejected(plugin("VolumeBinding"), using(pod("p"), "data"), *objects) == {"m": [UNMATCHED]}


def test_one_volume_serves_one_claim() -> None:
    """Small claims choose first and take the smallest; what is left has to do for the others, on each node."""
    asks = using(pod("p"), "big", "little")
    objects = [
        *NODES,
        WAIT,
        claim("big", "3Gi"),
        claim("little", "1Gi"),
        SMALL,
        LARGE,
        volume("b", "9Gi", on=["zone in b"]),
    ]
    assert rejected(plugin("VolumeBinding"), asks, *objects) == {"m": [UNMATCHED]}
    without_small = [thing for thing in objects if thing is not SMALL]
    assert rejected(plugin("VolumeBinding"), asks, *without_small) == nowhere(UNMATCHED)


@pytest.mark.parametrize("made", [[WAIT, volume("v")], [MAKES]], ids=["there", "to be made"])
def test_a_claim_that_the_pod_names_twice_gets_one_volume(made: list[Object]) -> None:
    """kube-scheduler looks for two, and writes the claim twice where they are to be made: the second write is a 409."""
    there = cluster(*NODES, *made, claim("data"))
    found = plugin("VolumeBinding"), a_pod(using(pod("p"), "data", "data"))
    assert reasons(found[0].filter(found[1], there), there) == {}
    assert len(found[0].reserve(found[1], there, 0).writes) == 1


@pytest.mark.parametrize(
    "there",
    [
        [WAIT, *(volume(f"v{i}") for i in range(9))],
        [MAKES, csi_driver(capacity=True), *(capacity(f"c{i}", "2Gi") for i in range(9))],
    ],
    ids=["volumes", "capacities"],
)
def test_every_look_at_a_volume_is_charged(there: list[Object]) -> None:
    """No limit of the pod bounds how many there are of a class: each claim looks at all of them."""
    found = cluster(node("n"), *there, claim("a"), claim("b"))
    plugin("VolumeBinding").find(a_pod(using(pod("p"), "a", "b")), found)
    assert found.search_steps.taken >= 2 * 9


@pytest.mark.parametrize("larger", ["1Gi", "2Gi"])
def test_many_local_disks(larger: str) -> None:
    """A volume for each host, some hosts with several: two claims need two on the same host."""
    hosts = [node(f"n{i}") for i in range(9)]
    disks = [volume(f"v{i}-{j}", f"{j + 1}Gi", on=[f"host in n{i}"]) for i in range(9) for j in range(i % 3)]
    asks = using(pod("p"), "a", "b")
    found = rejected(plugin("VolumeBinding"), asks, *hosts, *disks, WAIT, claim("a"), claim("b", larger))
    assert found == {f"n{i}": [UNMATCHED] for i in range(9) if i % 3 != 2}


@pytest.mark.parametrize(
    ("id", "made", "out"),
    [
        ("anywhere", MAKES, ""),
        ("by nobody", storage_class(), "n m"),
        ("without a name", storage_class(provisioner=""), "n m"),
        ("in one zone", storage_class(provisioner="csi.test", allowed=["zone in b"]), "n"),
        ("in either", storage_class(provisioner="csi.test", allowed=["zone in b", "zone in a"]), ""),
        ("on one host of a zone", storage_class(provisioner="csi.test", allowed=["zone in a,b; host in n"]), "m"),
        ("an empty term allows nothing", storage_class(provisioner="csi.test", allowed=["!x"]), "n m"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_volumes_to_be_made(id: str, made: Object, out: str) -> None:
    """A claim without a volume is fine where its class makes one."""
    found = rejected(plugin("VolumeBinding"), using(pod("p"), "data"), *NODES, made, claim("data"))
    assert found == {name: [UNMATCHED] for name in out.split()}


@pytest.mark.parametrize(
    ("id", "wants", "rooms", "out"),
    [
        ("enough in one zone", "2Gi", [capacity("c", "2Gi", "zone in b")], "n"),
        ("not enough", "2Gi", [capacity("c", "1Gi", "")], "n m"),
        ("the largest volume counts", "2Gi", [capacity("c", "9Gi", "", largest="1Gi")], "n m"),
        ("only the largest is known", "2Gi", [capacity("c", None, "", largest="2Gi")], ""),
        ("nothing is known", "2Gi", [capacity("c", None, "")], "n m"),
        ("reached from nowhere", "2Gi", [capacity("c", "9Gi", None)], "n m"),
        ("of another class", "2Gi", [capacity("c", "9Gi", "", storage_class="x")], "n m"),
        ("nothing published", "2Gi", [], "n m"),
        ("nothing wanted", None, [], ""),
        ("two make one", "2Gi", [capacity("c", "1Gi", ""), capacity("d", "2Gi", "!gpu; zone in a")], "m"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_room_for_volumes(id: str, wants: str | None, rooms: list[Object], out: str) -> None:
    """A driver that publishes capacity makes volumes only where that is enough."""
    objects = [*NODES, MAKES, csi_driver(capacity=True), claim("data", wants), *rooms]
    found = rejected(plugin("VolumeBinding"), using(pod("p"), "data"), *objects)
    assert found == {name: [FULL] for name in out.split()}
    unasked = [csi_driver() if thing["kind"] == "CSIDriver" else thing for thing in objects]
    assert rejected(plugin("VolumeBinding"), using(pod("p"), "data"), *unasked) == {}


def test_the_first_volume_that_can_not_be_made_says_why() -> None:
    """The next one is not asked about on that node (checkVolumeProvisions)."""
    there = storage_class("there", "csi.other", allowed=["zone in b"])
    claims = [claim("a", "1Gi", storage_class="there"), claim("b", "2Gi")]
    objects = [*NODES, there, MAKES, csi_driver(capacity=True), capacity("c", "1Gi"), *claims]
    found = rejected(plugin("VolumeBinding"), using(pod("p"), "a", "b"), *objects)
    assert found == {"n": [UNMATCHED], "m": [FULL]}


def test_a_claim_whose_volume_is_being_made() -> None:
    """Its node is fixed; and volumes that would serve it are no longer for it."""
    asks = using(pod("p"), "data")
    assert rejected(plugin("VolumeBinding"), asks, *NODES, MAKES, claim("data", selected="m")) == {"n": [UNMATCHED]}
    assert rejected(plugin("VolumeBinding"), asks, *NODES, MAKES, claim("data", selected="gone")) == nowhere(UNMATCHED)
    assert rejected(plugin("VolumeBinding"), asks, *NODES, WAIT, claim("data", selected="m"), SMALL) == nowhere(
        UNMATCHED
    )


def test_several_reasons_of_one_node() -> None:
    """Bound and unbound claims are looked at both."""
    asks = using(pod("p"), "a", "b")
    objects = [*NODES, WAIT, claim("a", to="v"), volume("v", on=["zone in b"], claimed="a"), claim("b")]
    assert rejected(plugin("VolumeBinding"), asks, *objects) == {"n": [UNREACHABLE, UNMATCHED], "m": [UNMATCHED]}


def test_room_that_is_published_for_each_node_is_looked_up_by_its_label() -> None:
    """Drivers of local disks publish as many capacities as there are nodes: not all nodes are matched with each."""
    hosts = [node(f"n{i}") for i in range(9)]
    rooms = [capacity(f"c{i}", "2Gi" if i < 5 else "1Gi", f"host in n{i}") for i in range(9)]
    objects = [*hosts, *rooms, capacity("d", "2Gi", "host in n5,n6"), MAKES, csi_driver(capacity=True)]
    with patch.object(binder, "matches_all", wraps=matches_all) as matched:
        found = rejected(plugin("VolumeBinding"), using(pod("p"), "data"), *objects, claim("data", "2Gi"))
    assert found == {name: [FULL] for name in ("n7", "n8")}
    assert matched.call_count == 1


ROOM = [MAKES, csi_driver(capacity=True), capacity("c", "10Gi", "zone in a"), capacity("d", "2Gi", "zone in b")]


@pytest.mark.parametrize(
    ("id", "objects", "n", "m"),
    [
        ("all of the volume", [WAIT, volume("v")], 0, 0),
        ("bound before", [claim("data", to="v"), volume("v")], 0, 0),
        ("half of it", [WAIT, volume("v", "2Gi")], 50, 50),
        ("the smallest disk of the host", [WAIT, *(volume(x, x + "Gi", on=["zone in a,b"]) for x in "84")], 75, 75),
        ("or of its zone", [WAIT, *(volume(x + z, x + "Gi", on=[f"zone in {z}"]) for x in "84" for z in "ab")], 75, 75),
        ("nearly all of it", [WAIT, volume("v", "1034Mi")], 1, 1),
        ("by node", [WAIT, volume("v", "4Gi", on=["zone in a"]), volume("w", "2Gi", on=["zone in b"])], 75, 50),
        ("to be made, room not published", [MAKES], 0, 0),
        ("to be made out of the room", ROOM, 90, 50),
        ("the first room by name", [*ROOM, capacity("b", "4Gi")], 75, 75),
        ("the first room of the zone", [*ROOM, capacity("cc", "4Gi", "zone in a")], 90, 50),
        ("the first one, of the zone or not", [*ROOM, capacity("cc", "4Gi")], 90, 75),
        ("a volume that is there counts alone", [*ROOM, volume("v", "4Gi", on=["zone in b"])], 90, 75),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_scores(id: str, objects: list[Object], n: int, m: int) -> None:
    """The less of a volume, or of the room for it, a claim takes, the better (StorageCapacityScoring, on in 1.37)."""
    found = scored(plugin("VolumeBinding"), using(pod("p"), "data"), *NODES, claim("data"), *objects)
    assert found == {"n": n, "m": m}


def test_scores_of_a_volume_that_is_being_made() -> None:
    """Its claim names the node; the room there counts."""
    found = scored(plugin("VolumeBinding"), using(pod("p"), "data"), *NODES, claim("data", selected="n"), *ROOM)
    assert found == {"n": 90, "m": 0}


def test_a_node_with_a_volume_for_one_claim_is_not_scored_by_what_is_made_for_another() -> None:
    """Score in volume_binding.go looks at static bindings, and at provisions only where there are none of these."""
    made = [storage_class("made", "csi.test"), csi_driver(capacity=True), capacity("c", "10Gi", storage_class="made")]
    claims = [claim("a"), claim("b", storage_class="made")]
    objects = [*NODES, WAIT, *made, *claims, volume("v", "2Gi", on=["zone in a"])]
    assert scored(plugin("VolumeBinding"), using(pod("p"), "a", "b"), *objects, among="n") == {"n": 50}


def test_what_was_found_is_found_again_after_a_change() -> None:
    """Of volumes, of labels of nodes, and of nodes; for another pod, too."""
    made, asks = plugin("VolumeBinding"), a_pod(using(pod("p"), "data"))
    there = cluster(*NODES, claim("data", to="v"), volume("v", on=["zone in a"]))

    def out(coming: Pod = asks) -> str:
        return " ".join(sorted(reasons(made.filter(coming, there), there)))

    assert (out(), out(a_pod(pod("q"))), out(a_pod(using(pod("q"), "gone"))), out()) == ("m", "", "", "m")
    there.put_node(a_node(node("m", zone="a")))
    assert out() == ""
    there.put_node(a_node(node("o", zone="b")))
    assert out() == "o"
    there.storage.put(next(iter(cluster(volume("v", on=["zone in b"])).storage.volumes)))
    assert out() == "m n"


def test_what_was_found_is_found_again_in_columns_that_were_rebuilt() -> None:
    """Labels have changed twice in the old ones, and then twice in the new ones."""
    made, asks = plugin("VolumeBinding"), a_pod(using(pod("p"), "data"))
    there = cluster(*NODES, claim("data", to="v"), volume("v", on=["zone in a"]))
    for zone in "ab":
        there.put_node(a_node(node("m", zone=zone)))
    assert set(reasons(made.filter(asks, there), there)) == {"m"}
    there.adopt(rebuilt(there))
    for one in (node("m", zone="a"), node("n", zone="b")):
        there.put_node(a_node(one))
    assert set(reasons(made.filter(asks, there), there)) == {"n"}


def test_what_was_found_is_kept_until_something_changes() -> None:
    """Filter, Score and Reserve of one pod ask the same; another pod is another question."""
    made, asks, there = plugin("VolumeBinding"), a_pod(using(pod("p"), "data")), cluster(*NODES, claim("data"), WAIT)
    found = made.find(asks, there)
    assert made.find(asks, there) is found
    assert made.find(a_pod(using(pod("q"), "data")), there) is not found


def test_each_host_gives_its_smallest_disk_that_is_left() -> None:
    """The claim for 1 GiB takes the disk of 1 GiB on n, and on m that of 4 GiB, which the other would get there.

    So 3 of 5 GiB are asked for on n, and 3 of 12 GiB on m.
    """
    sizes = {"a": "148", "b": "48"}
    disks = [volume(zone + size, f"{size}Gi", on=[f"zone in {zone}"]) for zone, some in sizes.items() for size in some]
    asks, claims = using(pod("p"), "a", "b"), [claim("a", "1Gi"), claim("b", "2Gi")]
    assert scored(plugin("VolumeBinding"), asks, *NODES, WAIT, *claims, *disks) == {"n": 40, "m": 75}


def test_scores_of_several_claims() -> None:
    """Claims of one class are summed, classes averaged and rounded half up; a shape of its own bends the line."""
    asks = using(pod("p"), "a", "b", "c")
    claims = [claim("a"), claim("b"), claim("c", storage_class="other")]
    volumes = [volume("va", "2Gi"), volume("vb", "6Gi"), volume("vc", "8Gi", storage_class="other")]
    objects = [node("n"), WAIT, storage_class("other"), *claims, *volumes]
    assert scored(plugin("VolumeBinding"), asks, *objects) == {"n": 82}
    bent = [{"utilization": 0, "score": 0}, {"utilization": 100, "score": 10}]
    assert scored(plugin("VolumeBinding", shape=bent), asks, *objects) == {"n": 19}


def test_scores_of_many_large_claims() -> None:
    """A hundred times what they ask for is more than an int64 holds: they take all of the room."""
    objects = [node("n"), MAKES, csi_driver(capacity=True), capacity("c", "32Pi")]
    claims = [claim(name, "32Pi") for name in "abc"]
    assert scored(plugin("VolumeBinding"), using(pod("p"), "a", "b", "c"), *objects, *claims) == {"n": 0}


def test_pods_without_claims_are_not_scored() -> None:
    """Nothing to say, nothing computed."""
    assert scored(plugin("VolumeBinding"), pod("p"), *NODES) is None


def test_binding_may_have_no_time() -> None:
    """As ValidateVolumeBindingArgs has it: only less than nothing is refused."""
    build(decode(configuration(profile(VolumeBinding={"bindTimeoutSeconds": 0}))), registry())


def test_arguments() -> None:
    """bindTimeoutSeconds and shape are checked as upstream checks them."""
    args: Object = {"bindTimeoutSeconds": -1, "shape": [{"utilization": 0, "score": 11}]}
    with pytest.raises(ConfigError) as caught:
        build(decode(configuration(profile(VolumeBinding=args))), registry())
    where = "profiles[0].pluginConfig[0].args"
    assert str(caught.value).splitlines() == [
        f"{where}.bindTimeoutSeconds: Invalid value: -1: invalid BindTimeoutSeconds, should not be a negative value",
        f"{where}.shape[0].score: Invalid value: 11: not in valid range [0, 10]",
    ]


@pytest.mark.parametrize(
    ("id", "old", "new", "wakes"),
    [
        ("a volume", None, volume("v"), True),
        ("the claim", claim("data"), claim("data", to="v"), True),
        ("the claim of its ephemeral volume", None, claim("p-scratch"), True),
        ("another claim", None, claim("more"), False),
        ("a namesake elsewhere", None, claim("data", namespace="other"), False),
        ("a class", None, WAIT, True),
        ("a class allowed elsewhere", MAKES, storage_class(provisioner="csi.test", allowed=["zone in b"]), True),
        ("a class as before", MAKES, MAKES, False),
        ("a CSINode", None, csi_node("n"), True),
        ("taken over", csi_node("n"), csi_node("n", migrated=["kubernetes.io/aws-ebs"]), True),
        ("another limit", csi_node("n", csi_test=1), csi_node("n", csi_test=2), False),
        ("capacity no longer asked for", csi_driver(capacity=True), csi_driver(), True),
        ("capacity asked for", csi_driver(), csi_driver(capacity=True), False),
        ("room", None, capacity("c", "1Gi"), True),
        ("room that nobody measured", None, capacity("c", None), True),
        ("more room", capacity("c", "1Gi"), capacity("c", "2Gi"), True),
        ("as much room", capacity("c", "1Gi"), capacity("c", "1024Mi"), False),
        ("less room", capacity("c", "2Gi"), capacity("c", "1Gi"), False),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_wakes(id: str, old: Object | None, new: Object, wakes: bool) -> None:
    """The pod is tried again for what may let its claims be served."""
    asks = a_pod(using(pod("p"), "data", "+scratch"))
    found = plugin("VolumeBinding").object_hint(asks, ClusterEvent.NOTHING, _only(old), _only(new))
    assert found is wakes


def _only(document: Object | None) -> Any:
    if document is None:
        return None
    storage = cluster(document).storage
    kinds = (
        storage.volumes,
        storage.claims,
        storage.classes.values(),
        storage.csi_nodes.values(),
        storage.drivers.values(),
    )
    return next(iter([*(thing for kind in kinds for thing in kind), *storage.capacities("wait")]))


@pytest.mark.parametrize(
    ("claimed", "noted", "by_controller"),
    [(None, False, True), (None, True, True), ("data", False, False), ("data", True, True)],
    ids=["free", "free, and noted", "reserved by somebody", "bound by the controller"],
)
def test_who_has_bound_a_volume_is_noted(claimed: str | None, noted: bool, by_controller: bool) -> None:
    """The controller has, unless the volume named this claim before and nothing says so (GetBindVolumeToClaim)."""
    there = cluster(claim("data"), volume("v", claimed=claimed, uid="claim/default/data" if claimed else None))
    wanted = there.storage.claims.stored(("default", "data"))
    free = there.storage.volumes.stored("v")
    assert wanted is not None
    assert free is not None
    bound = _bound(replace(free, bound_by_controller=noted), wanted)
    assert bound.bound_by_controller is by_controller
    assert bound.is_for(wanted)
