"""Storage objects and their indexes: assumptions, and counts that hold whatever happens in whatever order."""

from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule, run_state_machine_as_test
from msgspec.structs import replace

from podberth.cache.cluster import Cluster
from podberth.cache.validate import validate
from podberth.model import wire
from podberth.model.kinds import Decoder
from podberth.model.storage import ClaimRef, PersistentVolume
from tests.builders import Object, node, pod
from tests.storage import MIGRATED, attachment, capacity, claim, csi_driver, csi_node, storage_class, using, volume

_decoder = Decoder()


def decoded(document: Object, version: str = "1") -> Any:
    document["metadata"]["resourceVersion"] = version
    return _decoder.of_kind(document["kind"])(wire.encode(document))


def with_volume(version: str = "1") -> tuple[Cluster, PersistentVolume]:
    """A cluster with one free volume, and that volume as somebody's."""
    cluster = Cluster()
    free = decoded(volume("v"), version)
    cluster.storage.put(free)
    return cluster, replace(free, claim=ClaimRef("default", "c", "u"))


def test_an_assumption_shows_until_the_api_speaks() -> None:
    """Any newer version from the API replaces ours, also one that knows nothing of it; a repetition does not."""
    cluster, taken = with_volume()
    storage = cluster.storage
    storage.assume_volume(taken)
    assert storage.volumes_of_class("wait") == [taken]
    assert storage.volumes.get("v") is taken
    assert storage.volumes.stored("v") is not taken
    storage.put(decoded(volume("v"), "1"))
    assert storage.volumes.get("v") is taken
    newer = decoded(volume("v"), "2")
    storage.put(newer)
    assert storage.volumes.get("v") is newer


def test_an_assumption_is_taken_back() -> None:
    """Then the API's version shows again."""
    cluster, taken = with_volume()
    cluster.storage.assume_volume(taken)
    cluster.storage.restore_volume(taken)
    assert cluster.storage.volumes.get("v") is cluster.storage.volumes.stored("v")


def test_an_assumption_ends_with_its_object() -> None:
    """What is gone does not show."""
    cluster, taken = with_volume()
    cluster.storage.assume_volume(taken)
    cluster.storage.drop("PersistentVolume", "", "v")
    assert cluster.storage.volumes.get("v") is None


def test_restoring_an_older_version_leaves_a_newer_assumption() -> None:
    """An assumption that somebody else made since is not ours to take back."""
    cluster, taken = with_volume()
    cluster.storage.put(decoded(volume("v"), "2"))
    newer = replace(taken, resource_version="2")
    cluster.storage.assume_volume(newer)
    cluster.storage.restore_volume(taken)
    assert cluster.storage.volumes.get("v") is newer


DRIVERS = ("csi.test", "ebs.csi.aws.com")
NODES = st.sampled_from(["n0", "n1", "n2"])
CLAIMS = st.sampled_from(["a", "b", "e0-s"])
VOLUMES = st.sampled_from(["va", "vb"])
NAMESPACES = st.sampled_from(["default", "other"])
UIDS = st.sampled_from(["e0", "e1", "e2", "e3"])
SOURCES: Any = st.sampled_from(
    [
        "a",
        "b",
        "+s",
        {"awsElasticBlockStore": {"volumeID": "vol-1"}},
        {"gcePersistentDisk": {"pdName": "d", "readOnly": True}},
        {"iscsi": {"iqn": "q", "targetPortal": "x", "lun": 0}},
    ]
)
EBS: Any = {"driver": None, "awsElasticBlockStore": {"volumeID": "vol-1"}}


class Storing(RuleBasedStateMachine):
    """Pods, nodes and storage objects come, change and go; `validate` recomputes everything after each step."""

    def __init__(self) -> None:
        super().__init__()
        self.cluster = Cluster()

    def _put(self, document: Object) -> None:
        self.cluster.storage.put(decoded(document))

    @rule(name=NODES)
    def node(self, name: str) -> None:
        self.cluster.put_node(decoded(node(name)))

    @rule(name=NODES)
    def no_node(self, name: str) -> None:
        self.cluster.drop_node(name)

    @rule(uid=UIDS, on=NODES, namespace=NAMESPACES, sources=st.lists(SOURCES, max_size=3))
    def pod(self, uid: str, on: str, namespace: str, sources: list[Any]) -> None:
        self.cluster.put_pod(decoded(using(pod(uid, uid=uid, on=on, namespace=namespace), *sources)))

    @rule(uid=UIDS)
    def no_pod(self, uid: str) -> None:
        self.cluster.drop_pod(uid)

    @rule(uid=UIDS)
    def lifted(self, uid: str) -> None:
        placement = self.cluster.placement(uid)
        if placement is not None:
            self.cluster.leave_out(placement)
            self.cluster.storage.attached.counts(DRIVERS[0])
            self.cluster.put_back(placement)

    @rule(name=CLAIMS, namespace=NAMESPACES, to=st.none() | VOLUMES, cls=st.sampled_from(["wait", "aws"]))
    def claim(self, name: str, namespace: str, to: str | None, cls: str) -> None:
        self._put(claim(name, namespace=namespace, to=to, storage_class=cls, owner="e0"))

    @rule(name=CLAIMS, namespace=NAMESPACES)
    def no_claim(self, name: str, namespace: str) -> None:
        self.cluster.storage.drop("PersistentVolumeClaim", namespace, name)

    @rule(name=VOLUMES, source=st.sampled_from([{}, {"driver": "other"}, EBS]), cls=st.sampled_from(["wait", "x"]))
    def volume(self, name: str, source: Any, cls: str) -> None:
        self._put(volume(name, storage_class=cls, **source))

    @rule(name=VOLUMES)
    def no_volume(self, name: str) -> None:
        self.cluster.storage.drop("PersistentVolume", "", name)

    @rule(
        name=NODES, limits=st.dictionaries(st.sampled_from(DRIVERS), st.none() | st.integers(0, 3)), moved=st.booleans()
    )
    def csi_node(self, name: str, limits: dict[str, int | None], moved: bool) -> None:
        document = csi_node(name, migrated=["kubernetes.io/aws-ebs"] if moved else [], **limits)
        self._put(document)
        assert (MIGRATED in document["metadata"].get("annotations", {})) is moved

    @rule(name=NODES)
    def no_csi_node(self, name: str) -> None:
        self.cluster.storage.drop("CSINode", "", name)

    @rule(name=st.sampled_from(["x", "y"]), on=NODES, of=st.none() | VOLUMES)
    def attachment(self, name: str, on: str, of: str | None) -> None:
        self._put(attachment(name, on, of))

    @rule(name=st.sampled_from(["x", "y"]))
    def no_attachment(self, name: str) -> None:
        self.cluster.storage.drop("VolumeAttachment", "", name)

    @rule(provisioner=st.sampled_from(["csi.test", "kubernetes.io/aws-ebs", "kubernetes.io/azure-file"]))
    def storage_class(self, provisioner: str) -> None:
        self._put(storage_class("wait", provisioner))

    @rule()
    def no_storage_class(self) -> None:
        self.cluster.storage.drop("StorageClass", "", "wait")

    @rule(cls=st.sampled_from(["wait", "x"]))
    def capacity(self, cls: str) -> None:
        self._put(capacity("c", "1Gi", storage_class=cls))
        self._put(csi_driver(capacity=True))

    @rule()
    def no_capacity(self) -> None:
        self.cluster.storage.drop("CSIStorageCapacity", "default", "c")
        self.cluster.storage.drop("CSIDriver", "", "csi.test")

    def teardown(self) -> None:
        assert validate(self.cluster) == []


def test_counts_hold_whatever_happens() -> None:
    """References, disks, attached volumes, limits and classes are what the objects say, after any events."""
    run_state_machine_as_test(
        Storing,
        settings=settings(
            max_examples=60, stateful_step_count=25, deadline=None, suppress_health_check=list(HealthCheck)
        ),
    )
