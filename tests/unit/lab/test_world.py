"""Worlds from files, and parts of worlds."""

from __future__ import annotations

import gzip
from math import inf
from pathlib import Path

import msgspec
import pytest

from podberth.explain.objects.documents import ObjectError
from podberth.framework.config import ConfigError
from podberth.lab import Arrival, Change, configuration, read_world, run
from tests.builders import node, pod
from tests.unit.lab.worlds import comes, configured, raw, world

DUMP = {
    "kind": "List",
    "items": [
        node("a"),
        pod("placed", "1", on="a"),
        pod("done", "1", on="a", phase="Succeeded"),
        pod("later", "1") | {"metadata": {"name": "later", "creationTimestamp": "2026-01-02T00:00:00Z"}},
        pod("sooner", "1") | {"metadata": {"name": "sooner", "creationTimestamp": "2026-01-01T00:00:00Z"}},
        {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}},
    ],
}


def test_a_pod_that_is_made_anew_is_there_after_the_one_that_was_removed() -> None:
    """A StatefulSet makes one of the same name."""
    arrivals = comes(pod("web-0"), 1), comes(pod("web-0"), 3)
    part = world([node("a")], *arrivals, changes=[Change(2, gone=("Pod", "default", "web-0"))]).between(10, 20)
    assert len(part.arrivals) == 1


def test_a_dump(tmp_path: Path) -> None:
    """What is placed is there; pods that wait come at 0, the oldest first."""
    (tmp_path / "cluster.json").write_bytes(raw(DUMP))
    found = read_world(tmp_path / "cluster.json")
    assert (found.name, len(found.objects), found.changes) == ("cluster", 2, ())
    assert [(each.at, msgspec.json.decode(each.pod)["metadata"]["name"], each.lasts) for each in found.arrivals] == [
        (0.0, "sooner", inf),
        (0.0, "later", inf),
    ]
    assert run(found, configured()).summary["bound"] == 2


def test_a_directory_of_lists(tmp_path: Path) -> None:
    """As kubectl writes them, packed or not: their items name no kind."""
    nodes = {"apiVersion": "v1", "kind": "NodeList", "items": [{"metadata": node("a")["metadata"]}]}
    pods = {"apiVersion": "v1", "kind": "PodList", "items": [{"metadata": {"name": "x"}, "spec": pod("x")["spec"]}]}
    (tmp_path / "nodes.json").write_bytes(raw(nodes))
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "pods.json.gz").write_bytes(gzip.compress(raw(pods)))
    found = read_world(tmp_path)
    assert [msgspec.json.decode(each)["kind"] for each in found.objects] == ["Node"]
    assert [msgspec.json.decode(each.pod)["kind"] for each in found.arrivals] == ["Pod"]


def test_a_trace(tmp_path: Path) -> None:
    """The form of openb: seconds of its columns, from the binding on."""
    (tmp_path / "openb_nodes.csv").write_text("sn,cpu_milli,memory_mib,gpu,model\na,8000,8192,2,T4\n")
    (tmp_path / "openb_pods.csv").write_text(
        "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time\n"
        "x,1000,1024,2,1000,,LS,Running,5,15,\n"
        "y,1000,1024,1,500,,LS,Running,7,9,\n"
    )
    found = run(read_world(tmp_path), configured())
    assert found.columns["decisions"]["bound"] == [5.0, 15.0]
    assert found.columns["decisions"]["ended"] == [15.0, 17.0]
    assert found.columns["utilisation"]["resource"][:3] == ["cpu", "memory", "alibabacloud.com/gpu-milli"]


def test_between_is_a_world_of_its_own() -> None:
    """Changes before it have happened; pods that would still be there come first, for the rest of their time."""
    whole = world(
        [node("a"), node("b")],
        comes(pod("gone"), 1, 5),
        comes(pod("there"), 2, 20),
        comes(pod("removed"), 3),
        comes(pod("comes"), 12, 30),
        comes(pod("after"), 20, 1),
        changes=[
            Change(4, gone=("Node", "", "b")),
            Change(5, put=raw(node("c"))),
            Change(6, gone=("Pod", "default", "removed")),
            Change(15, gone=("Node", "", "a")),
            Change(21, gone=("Node", "", "c")),
        ],
    )
    part = whole.between(10, 20)
    assert part.objects == (raw(node("a")), raw(node("c")))
    assert part.arrivals == (Arrival(0.0, raw(pod("there")), 12.0), Arrival(2.0, raw(pod("comes")), 30.0))
    assert part.changes == (Change(5, gone=("Node", "", "a")),)


PACKED = gzip.compress(b"name,capacity\n" * 50)
DAMAGED = PACKED[:12] + b"\xff" * 20 + PACKED[32:]


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("empty.json", b"", "is empty"),
        ("pods.json", raw({"kind": "Pod", "metadata": {"name": "x"}, "spec": {"priority": "high"}}), "Pod x: spec"),
        ("packed.json.gz", b"\x1f\x8bnot", "expected a gzip file"),
        ("damaged.json.gz", DAMAGED, "expected a gzip file: it is damaged"),
    ],
)
def test_one_line_says_what_is_wrong_with_a_file(tmp_path: Path, name: str, content: bytes, says: str) -> None:
    """It names the file."""
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ObjectError) as caught:
        read_world(tmp_path / name)
    assert str(caught.value).startswith(f"{tmp_path / name}: {says}")
    assert "\n" not in str(caught.value)


def test_a_directory_without_a_world(tmp_path: Path) -> None:
    """Neither dump nor trace."""
    with pytest.raises(ObjectError, match="holds no files of JSON or YAML"):
        read_world(tmp_path)


def test_a_configuration(tmp_path: Path) -> None:
    """The default one without a file; what is wrong with a file is said in one line that names it."""
    assert configuration().profiles
    (tmp_path / "c.yaml").write_text(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofile: []\n"
    )
    with pytest.raises(ConfigError, match=r"c\.yaml: profile: ") as caught:
        configuration(tmp_path / "c.yaml")
    assert "\n" not in str(caught.value)
