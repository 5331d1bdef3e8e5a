"""Kinds that a dump lacks are named, and never taken for "there is none"; a pod's real cause is named."""

import json
from pathlib import Path

import pytest

from tests.builders import Object, node, pod
from tests.storage import claim, using, volume
from tests.unit.cli.conftest import Berth
from tests.unit.explain.simulate.test_plan import workload

DEVICES = {"ResourceClaim", "DeviceClass", "ResourceSlice"}


def asking(name: str, **how: str) -> Object:
    """A pod with a claim for devices."""
    made = pod(name)
    made["spec"]["resourceClaims"] = [{"name": "gpu", **how}]
    return made


def grouped() -> Object:
    made = pod("web")
    made["spec"]["schedulingGroup"] = {"podGroupName": "train"}
    return made


def written(*objects: Object, listed: tuple[str, ...] = ()) -> str:
    """The name of a file with a node and these objects; `listed`: kinds that the dump holds whole."""
    said = [{"apiVersion": "podberth.dev/v1alpha1", "kind": "Dump", "kinds": listed}] if listed else []
    items = [*said, {"apiVersion": "v1", **node("n1")}, *({"apiVersion": "v1", **made} for made in objects)]
    Path("part.json").write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    return "part.json"


@pytest.mark.parametrize(
    ("made", "lacks"),
    [
        (asking("web", resourceClaimName="mine"), "ResourceClaim, DeviceClass or ResourceSlice"),
        (using(pod("web"), "data"), "PersistentVolumeClaim"),
        (grouped(), "PodGroup"),
    ],
    ids=["claim", "volume", "group"],
)
def test_a_kind_that_decides_and_is_not_there(berth: Berth, made: Object, lacks: str) -> None:
    """It is not known what keeps the pod: that is the headline, alone and among others that wait."""
    found = berth("explain", "web", "--cluster", written(made))
    assert found.code == 1
    assert found.out.splitlines()[0].endswith(f"default/web can't be decided: this dump holds no {lacks}")
    assert "not found" not in found.out
    assert "serves no" not in found.out
    (cause,) = json.loads(berth("explain", "--pending", "--cluster", "part.json", "-o", "json").out)["causes"]
    assert cause["cause"] == f"this dump holds no {lacks}"


def test_what_a_file_needs_and_what_a_group_is(berth: Berth) -> None:
    """A claim that is still to be made needs its template; a group that is not in the dump may be in the cluster."""
    made = asking("web", resourceClaimTemplateName="any")
    Path("web.json").write_text(json.dumps({"apiVersion": "v1", **made}))
    said = " ".join(berth("explain", "-f", "web.json", "--cluster", written()).out.split())
    assert "can't be decided: this dump holds no ResourceClaimTemplate, DeviceClass or ResourceSlice" in said
    headline, *_ = berth("explain", "web", "--cluster", written(made)).out.splitlines()
    assert headline == '∥ default/web is not tried: pod "default/web": ResourceClaim not created yet'
    assert berth("explain", "pg/train", "--cluster", "part.json").err.endswith(": this dump holds no PodGroup\n")


def test_a_claim_that_the_file_makes_is_known(berth: Berth) -> None:
    """What keeps the pod is its storage class, in a dump without any claim as well."""
    claims = [{"metadata": {"name": "d"}, "spec": {"storageClassName": "nope", "accessModes": ["ReadWriteOnce"]}}]
    made = workload("StatefulSet", pod("t"), volumeClaimTemplates=claims)
    Path("s.json").write_text(json.dumps({"apiVersion": "apps/v1", **made}))
    cluster = written({"kind": "StorageClass", "metadata": {"name": "fast"}, "provisioner": "p"})
    found = berth("explain", "-f", "s.json", "--cluster", cluster, "--no-validate")
    assert "of this pod names the storage class nope, which does not exist" in " ".join(found.out.split())
    assert "can't be decided" not in found.out


def test_what_berth_dump_says_it_holds_is_known(berth: Berth) -> None:
    """It lists each kind, so there is none of a kind of which it holds no object."""
    cluster = written(asking("web", resourceClaimName="mine"), listed=(*DEVICES, "CSINode"))
    found = berth("explain", "web", "--cluster", cluster)
    assert found.out.splitlines()[0] == '∥ default/web is not tried: could not find ResourceClaim "default/mine"'
    assert "this dump" not in found.out
    assert berth("dump", "--cluster", cluster, "-f", "again.json").code == 0
    assert berth("explain", "web", "--cluster", "again.json").out == found.out


def test_a_kind_without_which_a_pod_fits_too_easily(berth: Berth) -> None:
    """Without CSINodes no node has a limit of volumes: what is said holds, and a note says what is not known."""
    bound = claim("data", to="v")
    cluster = written(bound, volume("v", claimed="default/data", uid=bound["metadata"]["uid"], phase="Bound"))
    Path("web.json").write_text(json.dumps({"apiVersion": "v1", **using(pod("web"), "data")}))
    said = "this dump holds no CSINode, and the cluster may have some: berth dump writes all that counts"
    for command in ("explain", "simulate", "capacity"):
        found = berth(command, "-f", "web.json", "--cluster", cluster)
        assert found.code == 0, found.err
        assert said in " ".join((found.out + found.err).split())
