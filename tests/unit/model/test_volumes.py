"""What pods and volumes say of disks, and what CSI drivers call in-tree volumes."""

from typing import Any

import msgspec
import pytest

from podberth.model import wire
from podberth.model.kinds import Decoder
from podberth.model.storage import PersistentVolume
from podberth.model.volumes import NO_VOLUMES, Translated, aws_volume, azure_disk, csi_affinity, gce_disk
from tests.builders import Object, label, node_selector, pod
from tests.storage import using, volume

ZONE, REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
OLD_ZONE, OLD_REGION = "failure-domain.beta.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/region"
AWS = "kubernetes.io/aws-ebs"


def decoded(document: Object) -> Any:
    return Decoder().of_kind(document["kind"])(wire.encode(document))


def test_pods_without_such_volumes_share_one_nothing() -> None:
    """Config maps, secrets, empty directories, inline CSI volumes: all alike."""
    csi: Object = {"csi": {"driver": "secrets-store.csi.k8s.io"}}
    plain = using(pod("p"), {"emptyDir": {}}, {"configMap": {"name": "c"}}, {"projected": {"sources": []}}, csi)
    assert decoded(plain).shape.volumes is NO_VOLUMES


def test_replicas_share_a_shape_and_stateful_sets_do_not() -> None:
    """Equal claims and templates are one shape; another claim, or another name of an ephemeral volume, is another."""
    decoder = Decoder()

    def shape(*volumes: str) -> Any:
        return decoder.pod(wire.encode(using(pod("p"), *volumes))).shape

    assert shape("data") is shape("data")
    assert shape("data") is not shape("more")
    assert shape("+a") is shape("+a")
    assert shape("+a") is not shape("+b")


def test_claims_in_the_order_of_the_spec() -> None:
    """Reasons name the first claim that fails, so the order counts; ephemeral volumes have claims named for the pod."""
    volumes = decoded(using(pod("web"), "b", "+scratch", "a")).shape.volumes
    assert [used.claim("web") for used in volumes.claims] == ["b", "web-scratch", "a"]
    assert volumes.ephemeral


@pytest.mark.parametrize(
    ("id", "found", "handle"),
    [
        ("EBS, bare", aws_volume("vol-1"), "vol-1"),
        ("EBS, with zone", aws_volume("aws://us-east-1a/vol-1"), "vol-1"),
        ("EBS, without", aws_volume("aws:///vol-1"), "vol-1"),
        ("EBS, not one", aws_volume("aws://us-east-1a/disk-1"), None),
        ("EBS, no URL", aws_volume("aws://[/vol-1"), None),
        ("PD, zone unknown", gce_disk("d"), "projects/UNSPECIFIED/zones/UNSPECIFIED/disks/d"),
        ("PD, zonal", gce_disk("d", "us-central1-a"), "projects/UNSPECIFIED/zones/us-central1-a/disks/d"),
        (
            "PD, regional",
            gce_disk("d", "us-central1-a__us-central1-b"),
            "projects/UNSPECIFIED/regions/us-central1/disks/d",
        ),
        ("PD, of two regions", gce_disk("d", "us-central1-a__us-east1-b"), None),
        ("PD, of odd zones", gce_disk("d", "a__b"), None),
        ("Azure, managed", azure_disk("uri", "Managed"), "uri"),
        ("Azure, not said", azure_disk("uri", None), "uri"),
        ("Azure, shared", azure_disk("uri", "Shared"), None),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_names(id: str, found: Translated, handle: str | None) -> None:
    """The handle under which the CSI driver knows the disk; None where it can't."""
    assert (found.handle if found.problem is None else None) == handle


@pytest.mark.parametrize(
    ("id", "terms", "labels", "found"),
    [
        ("nothing", [], {}, []),
        ("zone", ["zone in a"], {}, [["CSI in a"]]),
        ("old zone and region", [f"{OLD_ZONE} in a; {OLD_REGION} in r"], {}, [["CSI in a", "region in r"]]),
        ("today's region is left", ["zone in a; region in r"], {}, [["CSI in a", "region in r"]]),
        ("from a label", [], {"zone": "a__b"}, [["CSI in a,b"]]),
        ("from an old label", [], {OLD_ZONE: "a"}, [["CSI in a"]]),
        (
            "to every term",
            ["disk in x", "disk in y"],
            {"zone": "a"},
            [["disk in x", "CSI in a"], ["disk in y", "CSI in a"]],
        ),
        ("terms before labels", ["zone in a"], {"zone": "b"}, [["CSI in a"]]),
        ("an empty label", ["disk in x"], {"zone": "__"}, [["disk in x"]]),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_topology(id: str, terms: list[str], labels: dict[str, str], found: list[list[str]]) -> None:
    """Zones become the CSI driver's own label, from the terms or else from the volume's labels."""
    given = msgspec.convert(node_selector(*terms), wire.NodeSelector) if terms else None
    moved = csi_affinity(AWS, given, {label(key): value for key, value in labels.items()})
    names = {"topology.ebs.csi.aws.com/zone": "CSI", REGION: "region", ZONE: "zone"}
    said = [
        [f"{names.get(r.key, r.key)} in {','.join(r.values or ())}" for r in (term and term.match_expressions) or ()]
        for term in (moved.node_selector_terms or () if moved is not None else ())
    ]
    assert said == found


def test_a_volume_is_read_once_for_both() -> None:
    """An in-tree volume keeps its own affinity and the translated one; equal affinities are one object."""
    source: dict[str, Any] = {"awsElasticBlockStore": {"volumeID": "vol-1"}}
    one = decoded(volume("a", driver=None, on=["zone in a"], **source))
    other = decoded(volume("b", driver=None, on=["zone in a"], **source))
    assert isinstance(one, PersistentVolume)
    assert one.affinity is other.affinity
    assert str(one.translated_affinity) == "topology.ebs.csi.aws.com/zone in (a)"
    assert (one.translated and one.translated.driver) == "ebs.csi.aws.com"
