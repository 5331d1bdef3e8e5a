"""`berth dump`: smaller, without what is nobody's business, and the answers are the same."""

import gzip
import json
import re
from pathlib import Path
from typing import Any

import pytest

from podberth.explain.objects.dump import smallest
from podberth.kit import Plugin, Reads
from podberth.plugins.registry import IN_TREE
from tests.builders import configuration, node, pod
from tests.unit.cli.conftest import Berth
from tests.unit.cli.test_cookbook import BLOCKS, FILES
from tests.unit.cli.test_judged import changed

Object = dict[str, Any]


def test_what_is_nobodys_business_is_left_out(berth: Berth) -> None:
    """No Secrets, environments, commands or notes of other tools."""
    made = pod("p", "1")
    made["metadata"]["annotations"] = {"kubectl.kubernetes.io/last-applied-configuration": "hunter2", "a": "hunter2"}
    made["metadata"]["managedFields"] = [{"manager": "hunter2"}]
    made["spec"]["containers"][0] |= {
        "env": [{"name": "A", "value": "hunter2"}],
        "command": ["hunter2"],
        "args": ["hunter2"],
    }
    made["spec"]["volumes"] = [
        {"name": "s", "secret": {"secretName": "hunter2"}},
        {"name": "d", "persistentVolumeClaim": {"claimName": "data"}},
    ]
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "data": {"a": "hunter2"}}
    Path("all.json").write_text(json.dumps({"kind": "List", "items": [made, secret]}))
    found = berth("dump", "--cluster", "all.json")
    assert (found.code, found.err) == (0, "")
    assert "hunter2" not in found.out
    (item,) = json.loads(found.out)["items"]
    assert (item["metadata"]["name"], [each["name"] for each in item["spec"]["volumes"]]) == ("p", ["d"])
    assert item["spec"]["containers"][0]["resources"] == {"requests": {"cpu": "1"}}


class Tiers(Plugin):
    """Reads a note of nodes, and another of pods."""

    name = "Tiers"
    reads = Reads(node_annotations=("a.test/node",), pod_annotations=("a.test/pod",))

    def pre_enqueue(self, pod: Any, cluster: Any) -> None:
        """Let every pod be tried."""


def test_annotations_that_plugins_read(berth: Berth, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are kept for the plugins of a configuration, each in objects of its kind; and they are not masked."""
    monkeypatch.setattr("podberth.plugins.registry.registry", lambda: {**IN_TREE, "Tiers": Tiers})
    items = [node("n"), pod("p")]
    for each in items:
        each["metadata"]["annotations"] = {"a.test/node": "1", "a.test/pod": "2", "a.test/other": "3"}
    Path("all.json").write_text(json.dumps({"kind": "List", "items": items}))
    profiles = [{"plugins": {"multiPoint": {"enabled": [{"name": "Tiers"}]}}}]
    Path("config.yaml").write_text(json.dumps(configuration(*profiles)))
    asked = ["dump", "--cluster", "all.json", "--config", "config.yaml"]
    kept = [each["metadata"].get("annotations") for each in json.loads(berth(*asked).out)["items"]]
    assert kept == [{"a.test/node": "1"}, {"a.test/pod": "2"}]
    refused = berth(*asked, "--mask")
    assert (refused.code, refused.out) == (2, "")
    assert refused.err.startswith("berth: --config: expected without --mask")


def test_a_mask_has_a_table_back_to_names(berth: Berth) -> None:
    """For its owner alone; with it, what is said of a masked dump can be read."""
    Path("table.json").write_text("older")
    Path("table.json").chmod(0o644)
    found = berth("dump", "--cluster", "cluster.json", "--mask", "--mask-table", "table.json", "-f", "masked.json")
    assert (found.code, found.out) == (0, "")
    assert Path("table.json").stat().st_mode & 0o777 == 0o600
    table = json.loads(Path("table.json").read_text())
    masked, plain = Path("masked.json").read_text(), berth("dump", "--cluster", "cluster.json").out
    named = re.sub(r"\bmask\d+\b", lambda mask: table[mask[0]], masked)
    names = [each["metadata"]["name"] for each in json.loads(plain)["items"]]
    assert [each["metadata"]["name"] for each in json.loads(named)["items"]] == names


def test_a_table_needs_a_mask(berth: Berth) -> None:
    """And a file of its own that can be written."""
    for arguments, said in [
        (["--mask-table", "t.json"], "--mask-table: expected only together with --mask"),
        (["--mask", "--mask-table", "x", "-f", "x"], "--mask-table: x: expected another file than the dump"),
        (["--mask", "--mask-table", "./x", "-f", "x"], "--mask-table: ./x: expected another file than the dump"),
        (["--mask", "--mask-table", "no/such/t"], "no/such/t: no such file or directory"),
    ]:
        found = berth("dump", "--cluster", "cluster.json", *arguments)
        assert (found.code, found.out, found.err) == (2, "", f"berth: {said}\n")


@pytest.mark.parametrize("name", ["small.json", "small.json.gz"])
def test_files(berth: Berth, name: str) -> None:
    """Packed by its name, and read again."""
    found = berth("dump", "--cluster", "cluster.json", "-f", name)
    assert (found.code, found.out) == (0, "")
    assert found.err.startswith(f"berth: {name}: ")
    raw = Path(name).read_bytes()
    assert json.loads(gzip.decompress(raw) if name.endswith(".gz") else raw)["kind"] == "List"
    assert berth("explain", "web", "--cluster", name, "-n", "shop").code == 0
    assert (
        berth("dump", "--cluster", "cluster.json", "-f", "no/such/x").err
        == "berth: no/such/x: no such file or directory\n"
    )


@pytest.mark.parametrize("command", [command for command, _ in BLOCKS])
def test_answers_are_the_same(berth: Berth, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str) -> None:
    """Every command of the cookbook says the same of the smaller file."""
    monkeypatch.chdir(FILES)
    small = str(tmp_path / "small.json")
    assert berth("dump", "--cluster", "dump.yaml", "-f", small).code == 0
    before = berth(*command.split())
    after = berth(*command.replace("dump.yaml", small).split())
    assert (after.code, after.out) == (before.code, before.out)


def test_kinds_that_nothing_reads() -> None:
    """They are left out as a whole."""
    assert smallest({"kind": "ConfigMap", "metadata": {"name": "c"}}) is None


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        ("metadata", "x", 'metadata: "x": expected a mapping'),
        ("metadata.annotations", "x", 'metadata.annotations: "x": expected a mapping'),
        ("spec", [1], "spec: a list: expected a mapping"),
        ("spec.containers", [1], "spec.containers[0]: 1: expected a mapping"),
        ("spec.volumes", "x", 'spec.volumes: "x": expected a list'),
    ],
)
def test_objects_of_another_form(berth: Berth, path: str, value: Any, said: str) -> None:
    """All of them are told, each with its place."""
    items = [changed(pod("p", "1"), path, value), node("n"), {"kind": "Node", "metadata": {"name": "m"}, "status": 5}]
    Path("dump.json").write_text(json.dumps({"kind": "List", "items": items}))
    found = berth("dump", "--cluster", "dump.json")
    assert (found.code, found.out) == (2, "")
    assert found.err.splitlines() == [
        f"berth: dump.json: items[0]: Pod: {said}",
        "berth: dump.json: items[2]: Node: status: 5: expected a mapping",
    ]
