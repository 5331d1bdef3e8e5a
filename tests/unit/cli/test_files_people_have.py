"""Dumps as people have them: whole directories, arrays, logs between the lists, older versions, Windows' encodings."""

import json
from pathlib import Path

import pytest
import yaml

from podberth.explain.objects.documents import read
from podberth.explain.objects.versions import upgraded
from tests.builders import Object, node, pod
from tests.unit.cli.conftest import Berth

NODE, POD = node("n1", "4"), pod("p1", "5")
LOG = """==== START logs for container c of pod default/p1 ====
hello { "a": 1
==== END logs for container other of pod default/p1 ====
[INFO] b
==== END logs for container c of pod default/p1 ====
"""


def listed(kind: str, *items: Object) -> Object:
    """A list as `kubectl cluster-info dump` and must-gather write it: its items name neither kind nor version."""
    bare = [{key: value for key, value in item.items() if key not in ("kind", "apiVersion")} for item in items]
    return {"kind": f"{kind}List", "apiVersion": "v1", "metadata": {"resourceVersion": "1"}, "items": bare}


def explained(berth: Berth, path: str) -> None:
    """The pod of these objects is explained on their node."""
    found = berth("explain", "p1", "--cluster", path)
    assert (found.code, found.err) == (1, "")
    assert "needs 5 cpu, the whole node has 4" in found.out


INDENTED = json.dumps([NODE, POD], indent=1)
STREAM = "\n".join([json.dumps(listed("Node", NODE), indent=4), json.dumps(listed("Pod", POD)), LOG, LOG])


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(STREAM.encode(), id="cluster-info dump"),
        pytest.param(STREAM.replace("\n", "\r\n").encode("utf-16"), id="cluster-info dump of Windows"),
        pytest.param(INDENTED.encode(), id="array"),
        pytest.param(yaml.safe_dump([NODE, POD]).encode(), id="array in YAML"),
        pytest.param(INDENTED.encode("utf-8-sig"), id="UTF-8 with a mark"),
        pytest.param(INDENTED.encode("utf-16"), id="UTF-16 with a mark"),
        pytest.param(INDENTED.encode("utf-16-le"), id="UTF-16, little-endian, without"),
        pytest.param(INDENTED.encode("utf-16-be"), id="UTF-16, big-endian, without"),
        pytest.param(INDENTED.replace("\n", "\r\n").encode(), id="line ends of Windows"),
    ],
)
def test_texts(text: bytes, berth: Berth) -> None:
    Path("dump").write_bytes(text)
    explained(berth, "dump")


def test_directories(berth: Berth) -> None:
    """All files of JSON and YAML count, however deep; what is no object of the API is passed over, and said."""
    gathered = Path("must-gather/namespaces/default/core")
    gathered.mkdir(parents=True)
    (gathered / "pods.yaml").write_text(yaml.safe_dump(listed("Pod", POD)))
    nodes = Path("must-gather/cluster-scoped-resources/core/nodes")
    nodes.mkdir(parents=True)
    (nodes / "n1.yaml").write_text(yaml.safe_dump(NODE))
    (gathered / "current.log").write_text("no: [yaml\n")
    explained(berth, "must-gather")
    (nodes / "status.json").write_text('{"healthy": true}')
    found = berth("explain", "p1", "--cluster", "must-gather")
    assert found.code == 1
    assert found.err.startswith(f"berth: passed over: {nodes}/status.json: expected API objects")
    (gathered / "broken.json").write_text(json.dumps(listed("Pod", pod("p2"))) + "}")
    found = berth("explain", "p1", "--cluster", "must-gather")
    assert (found.code, "broken.json: line 1, column" in found.err) == (2, True)
    Path("empty").mkdir()
    found = berth("explain", "p1", "--cluster", "empty")
    assert (found.code, found.err) == (
        2,
        "berth: empty: is a directory without files of JSON or YAML: expected a cluster's dump\n",
    )


def test_what_is_no_array_of_objects(berth: Berth) -> None:
    """One line says what is expected."""
    Path("dump").write_text('[{"a": 1}]')
    assert berth("explain", "p1", "--cluster", "dump").err == "berth: dump: items[0]: kind: Required value\n"


def of_devices(kind: str, version: str, spec: Object) -> Object:
    """An object of resource.k8s.io."""
    name = {"name": "x"} if kind == "ResourceSlice" else {"name": "x", "namespace": "default", "uid": "c-x"}
    return {"apiVersion": f"resource.k8s.io/{version}", "kind": kind, "metadata": name, "spec": spec}


BASIC = {"attributes": {"model": {"string": "a"}}, "capacity": {"memory": {"value": "1Gi"}}}
POOL = {"driver": "gpu.example.com", "nodeName": "n1", "pool": {"name": "n1", "generation": 1, "resourceSliceCount": 1}}
ASKED = {"deviceClassName": "gpu", "count": 2, "allocationMode": "ExactCount"}
EITHER = {"name": "r", "firstAvailable": [{"name": "a", "deviceClassName": "gpu"}]}


@pytest.mark.parametrize(
    ("older", "want"),
    [
        pytest.param(
            of_devices("ResourceSlice", "v1beta1", {**POOL, "devices": [{"name": "d0", "basic": BASIC}]}),
            of_devices("ResourceSlice", "v1", {**POOL, "devices": [{"name": "d0", **BASIC}]}),
            id="a slice",
        ),
        pytest.param(
            of_devices("ResourceClaim", "v1beta1", {"devices": {"requests": [{"name": "r", **ASKED}, EITHER]}}),
            of_devices("ResourceClaim", "v1", {"devices": {"requests": [{"name": "r", "exactly": ASKED}, EITHER]}}),
            id="a claim",
        ),
        pytest.param(
            of_devices("ResourceClaim", "v1beta2", {"devices": {"requests": [{"name": "r", "exactly": ASKED}]}}),
            of_devices("ResourceClaim", "v1", {"devices": {"requests": [{"name": "r", "exactly": ASKED}]}}),
            id="v1beta2",
        ),
        pytest.param(
            of_devices(
                "ResourceClaimTemplate", "v1beta1", {"spec": {"devices": {"requests": [{"name": "r", **ASKED}]}}}
            ),
            of_devices(
                "ResourceClaimTemplate", "v1", {"spec": {"devices": {"requests": [{"name": "r", "exactly": ASKED}]}}}
            ),
            id="a template",
        ),
    ],
)
def test_older_versions(older: Object, want: Object) -> None:
    """As the API server converts them; one of a list need not name its version."""
    (found,) = read(json.dumps(older).encode())
    assert json.loads(bytes(found.raw)) == want
    bare = {key: value for key, value in older.items() if key != "apiVersion"}
    if not older["apiVersion"].endswith("v1beta2"):
        assert json.loads(bytes(upgraded(older["kind"], json.dumps(bare).encode())))["spec"] == want["spec"]
    now = json.dumps(want).encode()
    assert json.loads(bytes(upgraded(want["kind"], now))) == want
