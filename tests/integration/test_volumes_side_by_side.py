"""In-tree volumes that CSI drivers serve, and volumes that wait for a node: Berth and kube-scheduler say the same."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import pytest

from tests.controlplane.api import Object
from tests.integration import checks
from tests.integration.objects import HOSTNAME, ZONE
from tests.integration.sides import WHOSE, Sides, sides
from tests.integration.volumes import BOUND, VOLUMES, Disks, claims_path
from tests.storage import MIGRATED

__all__ = ["sides"]

pytestmark = pytest.mark.newest
CSI_NODES = "/apis/storage.k8s.io/v1/csinodes"
EBS, IN_TREE = "ebs.csi.aws.com", "kubernetes.io/aws-ebs"
EBS_ZONE = f"topology.{EBS}/zone"
OLD_ZONE = "failure-domain.beta.kubernetes.io/zone"
FULL = "node(s) exceed max volume count"
ELSEWHERE = "node(s) had no available volume zone"
NOT_THERE = "node(s) didn't match PersistentVolume's node affinity"


def ebs(name: str) -> Object:
    """An in-tree volume's source."""
    return {"awsElasticBlockStore": {"volumeID": name}}


def csi(name: str) -> Object:
    """The same volume as its CSI driver has it."""
    return {"csi": {"driver": EBS, "volumeHandle": name}}


def only(key: str, value: str) -> Object:
    """Node affinity of a volume."""
    term = {"matchExpressions": [{"key": key, "operator": "In", "values": [value]}]}
    return {"nodeAffinity": {"required": {"nodeSelectorTerms": [term]}}}


class Case(NamedTuple):
    """A node on which its driver attaches one volume, a pod that is there with one, and a pod that comes with one."""

    asks: Object
    there: Object | None = None
    migrated: bool = True
    labels: Mapping[str, str] = MappingProxyType({})
    """The labels of the volume that is asked for."""
    node: Mapping[str, str] = MappingProxyType({})
    """More labels of the node."""
    text: str = ""
    """Why it has to wait; empty: it does not."""


CASES = {
    "full": Case(ebs("vol-2"), ebs("vol-1"), text=FULL),
    "full of one of the driver's": Case(ebs("vol-2"), csi("vol-1"), text=FULL),
    "full for one of the driver's": Case(csi("vol-2"), ebs("vol-1"), text=FULL),
    "the same volume": Case(ebs("vol-1"), ebs("vol-1")),
    "the same volume of the driver's": Case(ebs("aws://zone-0/vol-1"), csi("vol-1")),
    "full, though the node does not say that it migrates": Case(ebs("vol-2"), ebs("vol-1"), migrated=False, text=FULL),
    "zone of the driver": Case(ebs("vol-1"), labels={ZONE: "zone-0"}, node={EBS_ZONE: "zone-0"}),
    "zone that the driver does not tell of": Case(ebs("vol-1"), labels={ZONE: "zone-0"}, text=NOT_THERE),
    "zone where it is not migrated": Case(ebs("vol-1"), migrated=False, labels={ZONE: "zone-0"}),
    "another zone": Case(ebs("vol-1"), migrated=False, labels={ZONE: "zone-1"}, text=ELSEWHERE),
    "zones by the old label": Case(ebs("vol-1"), migrated=False, labels={OLD_ZONE: "zone-1__zone-0"}),
    "affinity": Case(ebs("vol-1") | only(ZONE, "zone-0"), node={EBS_ZONE: "zone-0"}),
    "affinity that the driver's label does not meet": Case(ebs("vol-1") | only(ZONE, "zone-0"), text=NOT_THERE),
    "affinity where it is not migrated": Case(ebs("vol-1") | only(ZONE, "zone-0"), migrated=False),
}


class Storage:
    """Bound pairs of claims and volumes, and what drivers say of nodes."""

    def __init__(self, sides: Sides) -> None:
        self.disks = Disks(sides.cluster, sides.namespace)
        self.api = sides.api
        self._nodes: list[str] = []

    def csi_node(self, name: str, migrated: bool) -> None:
        """One volume may be attached to the node; in-tree ones count where they are migrated."""
        driver = {"name": EBS, "nodeID": name, "topologyKeys": [EBS_ZONE], "allocatable": {"count": 1}}
        note = {MIGRATED: IN_TREE} if migrated else {}
        made = {"metadata": {"name": name, "annotations": note}, "spec": {"drivers": [driver]}}
        self.api.create(CSI_NODES, made)
        self._nodes.append(name)

    def pair(self, name: str, source: Object, labels: Mapping[str, str] = MappingProxyType({})) -> Object:
        """A volume and the claim that it is bound to; how a pod uses it."""
        claim = self.disks.make_claim(name, volumeName=f"{self.disks.name}-{name}")
        ref = {"kind": "PersistentVolumeClaim", "namespace": self.disks.namespace, "name": name}
        spec = {"csi": None, "nodeAffinity": None, **source, "claimRef": ref | {"uid": claim["metadata"]["uid"]}}
        full = self.disks.make_volume(name, "", **spec)
        self.api.patch(f"{VOLUMES}/{full}", {"metadata": {"labels": dict(labels)}})
        path = f"{claims_path(self.disks.namespace)}/{name}"
        self.api.patch(path, {"metadata": {"annotations": {BOUND: "yes"}}})
        self.api.patch(f"{path}/status", {"status": {"phase": "Bound"}})
        self.api.patch(f"{VOLUMES}/{full}/status", {"status": {"phase": "Bound"}})
        return using(name)

    def close(self) -> None:
        """Remove everything."""
        self.disks.close()
        for name in self._nodes:
            self.api.delete(f"{CSI_NODES}/{name}")


def using(claim: str) -> Object:
    """The volumes of a pod with this claim."""
    return {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": claim}}]}


@pytest.fixture
def storage(sides: Sides) -> Iterator[Storage]:
    """The storage of one test."""
    made = Storage(sides)
    made.disks.make_class(IN_TREE)
    yield made
    sides.end()
    made.close()


def test_in_tree_volumes(sides: Sides, storage: Storage) -> None:
    """They count, and are looked for, as volumes of the driver to which they are migrated on the node."""
    for i, case in enumerate(CASES.values()):
        sides.node(f"{i}", of=f"{i}", labels=case.node)
        for whose in WHOSE:
            storage.csi_node(f"{whose}-{i}", case.migrated)
            if case.there:
                there = storage.pair(f"{whose}-{i}-there", case.there)
                sides.put(whose, f"{i}-there", f"{i}", f"{i}", **there)
            asks = storage.pair(f"{whose}-{i}-asks", case.asks, case.labels)
            sides.put(whose, f"{i}-asks", f"{i}", **asks)
    sides.start()
    for i, case in enumerate(CASES.values()):
        if case.text:
            sides.waits(f"{i}-asks", f" 1 {case.text}")
        sides.ends({f"{i}-asks": "" if case.text else str(i)})


def test_volumes_of_pods_themselves(sides: Sides, storage: Storage) -> None:
    """An in-tree volume that a pod names itself counts, too; two pods can't have the same one on a node."""
    sides.node("a")
    for whose in WHOSE:
        storage.csi_node(f"{whose}-a", migrated=True)
    inline: dict[str, Any] = {name: {"volumes": [{"name": "data", **ebs(name)}]} for name in ("vol-1", "vol-2")}
    sides.pod("there", on="a", **inline["vol-1"])
    sides.start()
    for name, text in (("vol-2", FULL), ("vol-1", "node(s) had no available disk")):
        sides.pod(name, **inline[name])
        sides.waits(name, f" 1 {text}")
    for name in ("vol-2", "there"):
        sides.delete(name)
    sides.ends({"vol-1": "a"})


def test_claims_that_wait_for_a_node(sides: Sides, storage: Storage) -> None:
    """Of volumes that fit the smallest is taken, of nodes one that has a volume; a full driver refuses one more."""
    names = "abc"
    for at in names:
        sides.node(at, labels={EBS_ZONE: "zone-0"})
        for whose in WHOSE:
            storage.csi_node(f"{whose}-{at}", migrated=True)
    for whose in WHOSE:
        for at in "ab":
            sides.put(whose, f"there-{at}", on=at, **storage.pair(f"{whose}-there-{at}", ebs(f"vol-{at}")))
        for name, size in (("large", "8Gi"), ("small", "4Gi"), ("tiny", "1Gi")):
            spec = {"csi": None, **ebs(f"vol-{name}"), **only(HOSTNAME, f"{whose}-c")}
            storage.disks.make_volume(f"{whose}-{name}", "", size, **spec)
        storage.disks.make_claim(f"{whose}-first", "2Gi")
        storage.disks.make_claim(f"{whose}-second", "2Gi")
    storage.disks.step()
    sides.start()
    for whose in WHOSE:
        sides.put(whose, "first", **using(f"{whose}-first"))
    storage.disks.until("both", lambda: all(checks.node_of(sides.get(whose, "first")) for whose in WHOSE))
    sides.ends({"first": "c"})
    for whose in WHOSE:
        assert storage.disks.claim(f"{whose}-first")["spec"]["volumeName"].endswith(f"{whose}-small")
        sides.put(whose, "second", **using(f"{whose}-second"))
    sides.waits("second", f" 3 {FULL}")
