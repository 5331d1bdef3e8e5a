"""`berth capacity`: forms of the answer, exit codes, and what is refused."""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests import storage
from tests.builders import Object, configuration, node, pod, profile
from tests.devices import claim_template, device, device_class, request, resource_slice, templated
from tests.packages import install_module
from tests.unit.cli.conftest import Berth
from tests.unit.explain.gangs.dumps import group
from tests.unit.explain.report.test_page import Checked
from tests.unit.explain.simulate.test_plan import workload


@pytest.fixture
def file(berth: Berth) -> str:
    """A pod that fits a few times."""
    Path("pod.yaml").write_text(yaml.safe_dump(pod("web", "1", "1Gi")))
    return "pod.yaml"


def test_forms(berth: Berth, file: str) -> None:
    """The same figure in a table, as JSON and on a page that loads nothing."""
    table = berth("capacity", "-f", file, "--cluster", "cluster.json")
    assert (table.code, table.err) == (0, "")
    assert table.out.startswith("3 more pods like default/web fit, on 2 nodes of 5\n")
    found = json.loads(berth("capacity", "-f", file, "--cluster", "cluster.json", "-o", "json").out)
    assert (found["fits"], found["kind"]) == (3, "Capacity")
    page = berth("capacity", "-f", file, "--cluster", "cluster.json", "-o", "html").out
    checked = Checked()
    checked.feed(page)
    assert (checked.open, checked.loads) == ([], ["data:,"])
    assert "3 more pods like default/web fit" in page


@pytest.mark.parametrize(("least", "code"), [("3", 0), ("4", 1)])
def test_exit_code(berth: Berth, file: str, least: str, code: int) -> None:
    """0 when so many fit, 1 when they do not."""
    assert berth("capacity", "-f", file, "--cluster", "cluster.json", "--at-least", least).code == code


def test_more_than_are_tried(berth: Berth, file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A search that ends at its bound does not say that so many do not fit."""
    monkeypatch.setattr("podberth.explain.simulate.arrivals._MOST", 2)
    made = yaml.safe_load(Path(file).read_text(encoding="utf-8"))
    made["metadata"]["labels"] = {"app": "w"}
    selector = {"matchLabels": {"app": "w"}}
    apart = {"maxSkew": 3, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "DoNotSchedule"}
    made["spec"]["topologySpreadConstraints"] = [apart | {"labelSelector": selector}]
    Path(file).write_text(yaml.safe_dump(made), encoding="utf-8")
    found = berth("capacity", "-f", file, "--cluster", "cluster.json", "--at-least", "4")
    assert (found.code, found.err) == (1, "berth: --at-least 4: not known: the search ended at 2, and more may fit\n")


def test_fewer_than_none(berth: Berth, file: str) -> None:
    """The value, and what was expected, in the words of all commands."""
    found = berth("capacity", "-f", file, "--cluster", "cluster.json", "--at-least", "-3")
    said = 'berth: invalid value for --at-least: want 0 or more, got "-3" (see berth capacity --help)\n'
    assert (found.code, found.err) == (2, said)


@pytest.mark.parametrize(
    ("documents", "arguments", "said"),
    [
        ([pod("a"), pod("b")], [], "two.yaml: holds a, b: name one"),
        ([pod("a"), pod("b")], ["c"], "two.yaml: holds no pod named c"),
        (
            [pod(f"p{i}") for i in range(400)],
            [],
            "two.yaml: holds p0, p1, p2, p3, p4, p5, p6, p7 and 392 more: name one",
        ),
        ([{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}}], [], "holds nothing that makes pods"),
    ],
)
def test_refused(berth: Berth, documents: list[object], arguments: list[str], said: str) -> None:
    """One line, exit code 2."""
    Path("two.yaml").write_text(yaml.safe_dump_all(documents))
    found = berth("capacity", *arguments, "-f", "two.yaml", "--cluster", "cluster.json")
    assert (found.code, found.out) == (2, "")
    assert said in found.err


def test_templates_of_the_file_are_used(berth: Berth) -> None:
    """A ResourceClaimTemplate that stands beside the pods that name it."""
    there = [node("n", "4"), device_class(), resource_slice("n", device("d"), device("e"), node="n")]
    Path("dump.json").write_text(json.dumps({"kind": "List", "items": there}))
    template = claim_template("t", request())
    made = templated(pod("p", "1"), "t")
    Path("made.json").write_text("\n".join(json.dumps(each) for each in (made, template)))
    found = berth("capacity", "-f", "made.json", "--cluster", "dump.json", "-o", "json", "--no-validate")
    assert (found.code, found.err) == (0, "")
    assert json.loads(found.out)["fits"] == 2
    found = berth("explain", "p", "-f", "made.json", "--cluster", "dump.json", "-o", "json", "--no-validate")
    assert (found.code, found.err) == (0, "")


def stateful(**spec: Any) -> Object:
    """A StatefulSet with a claim for each pod."""
    own = {"metadata": {"name": "data"}, "spec": storage.claim("data")["spec"]}
    template = {"metadata": {"labels": {"app": "web"}}, "spec": pod("t", "1")["spec"]}
    spec |= {"selector": {"matchLabels": {"app": "web"}}, "template": template, "volumeClaimTemplates": [own]}
    metadata = {"name": "web", "namespace": "default"}
    return {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": metadata, "spec": spec}


ROOM = [
    node("full", "1"),
    node("free", "3"),
    storage.storage_class("wait", "csi.test"),
    storage.csi_node("full", csi_test=9),
    storage.csi_node("free", csi_test=9),
]
RUNS = storage.using(pod("web-0", "1", on="full"), "data-web-0")
LEFT = [
    storage.claim("data-web-0", to="disk"),
    storage.volume("disk", claimed="data-web-0", uid="claim/default/data-web-0", on=["host in full"]),
]


def asked(berth: Berth, there: Sequence[Object], *file: Object, code: int = 0) -> Object:
    """The answer about a file."""
    Path("dump.json").write_text(json.dumps({"kind": "List", "items": list(there)}))
    Path("file.json").write_text("\n".join(json.dumps(each) for each in file))
    found = berth("capacity", "-f", "file.json", "--cluster", "dump.json", "-o", "json", "--no-validate")
    assert (found.code, found.err) == (code, "")
    answer: Object = json.loads(found.out)
    return answer


@pytest.mark.parametrize(
    ("there", "fits", "first"),
    [
        pytest.param([*LEFT, RUNS], 3, "web-1", id="its pod runs"),
        pytest.param([*LEFT], 4, "web-1", id="its claim was left"),
        pytest.param([*LEFT, RUNS, storage.claim("data-web-6")], 3, "web-7", id="a claim of a higher number"),
        pytest.param(
            [*LEFT, RUNS, storage.claim("data-web-x"), storage.claim("log-web-8"), pod("web-9", namespace="other")],
            3,
            "web-1",
            id="what is not its",
        ),
    ],
)
def test_a_stateful_set_is_not_judged_by_the_volumes_that_it_has(
    berth: Berth, there: list[Object], fits: int, first: str
) -> None:
    """They are on a node that is full, and one more pod gets another one."""
    answer = asked(berth, [*ROOM, *there], stateful())
    assert answer["fits"] == fits
    assert answer["notes"] == [f"StatefulSet default/web: counted from {first} on: those before have pods or claims"]


def test_a_stateful_set_that_is_new(berth: Berth) -> None:
    """It begins where it says."""
    answer = asked(berth, [*ROOM, RUNS, *LEFT], stateful(ordinals={"start": 3}))
    assert (answer["fits"], answer["notes"]) == (3, [])


def test_pods_with_gates_count_without_them(berth: Berth) -> None:
    """Whether there is room for them is the question; it was answered with 0, and no reason."""
    answer = asked(berth, ROOM, pod("held", "1", gates=["x"]))
    said = "Pod default/held: counted as if its scheduling gates were gone"
    assert (answer["fits"], answer["notes"]) == (4, [said])


def test_what_holds_pods_is_the_reason(berth: Berth) -> None:
    """Their group is nowhere, so there is a reason although each node would take one."""
    made = pod("lost", "1")
    made["spec"]["schedulingGroup"] = {"podGroupName": "absent"}
    said = 'waiting for pods\'s pod group "absent" to appear in scheduling queue'
    answer = asked(berth, [*ROOM, group(2, "other")], made, code=1)
    assert (answer["fits"], answer["message"]) == (0, said)
    assert answer["limits"] == [{"reason": said, "nodes": 2}]


def test_a_selector_that_fails_is_said(berth: Berth) -> None:
    """The scheduler could not decide either: no figure, and no traceback."""
    selector = 'device.attributes["gpu.test"].never == "x"'
    objects = [
        node("n"),
        device_class("gpu"),
        resource_slice("n", device("d"), node="n"),
        claim_template("t", request("r", "gpu", selector)),
    ]
    Path("dump.json").write_text(json.dumps({"kind": "List", "items": objects}))
    Path("pod.json").write_text(json.dumps(templated(pod("p", "1"), "t")))
    found = berth("capacity", "-f", "pod.json", "--cluster", "dump.json")
    assert (found.code, found.out) == (2, "")
    (line,) = found.err.splitlines()
    assert line.startswith('berth: pod.json: running Filter plugin "DynamicResources": ')
    assert line.endswith(
        "on device gpu.test/n/d: CEL runtime error: no such key: never. consider using CEL optional chaining "
        "(.? followed by orValue()) or guarding the check with has() for optional fields"
    )


def test_a_plugin_that_fails_is_named(berth: Berth, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """One line and exit code 2, since it is not known how many fit. It was a traceback."""
    code = """
from podberth.kit import ANYTHING, Plugin
class Faulty(Plugin):
    name = "Faulty"
    depends_on = ANYTHING
    def filter(self, pod, cluster):
        raise RuntimeError("no idea")
"""
    install_module(tmp_path, "faulty", code, "Faulty")
    monkeypatch.syspath_prepend(str(tmp_path))
    config = configuration(profile(plugins={"multiPoint": {"enabled": [{"name": "Faulty"}]}}))
    Path("faulty.yaml").write_text(yaml.safe_dump(config))
    Path("pod.yaml").write_text(yaml.safe_dump(pod("web", "1")))
    try:
        found = berth("capacity", "-f", "pod.yaml", "--cluster", "cluster.json", "--config", "faulty.yaml")
    finally:
        sys.modules.pop("faulty", None)
    assert (found.code, found.out) == (2, "")
    assert found.err == 'berth: pod.yaml: running Filter plugin "Faulty": no idea (faulty.py:7)\n'


def test_a_source_is_not_fetched(berth: Berth, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """One line says what counts instead."""
    code = """
from podberth.kit import ANYTHING, Plugin, Reads, Source
class Outside(Plugin):
    name = "Outside"
    depends_on = ANYTHING
    def __init__(self, args):
        self.price = Source("price", self._fetch, 7)
        self.reads = Reads(sources=(self.price,))
    async def _fetch(self):
        raise RuntimeError("nobody should ask")
    def filter(self, pod, cluster):
        assert self.price.value == 7
        return ()
"""
    install_module(tmp_path, "outside", code, "Outside")
    monkeypatch.syspath_prepend(str(tmp_path))
    config = configuration(profile(plugins={"multiPoint": {"enabled": [{"name": "Outside"}]}}))
    Path("outside.yaml").write_text(yaml.safe_dump(config))
    Path("pod.yaml").write_text(yaml.safe_dump(pod("web", "1")))
    try:
        found = berth("capacity", "-f", "pod.yaml", "--cluster", "cluster.json", "--config", "outside.yaml")
    finally:
        sys.modules.pop("outside", None)
    assert found.code == 0
    assert found.err == "berth: source price of plugin Outside is not fetched here, its default counts: 7\n"


def test_a_daemon_set_has_one_pod_on_each_node(berth: Berth) -> None:
    """All three commands ask of each of its nodes whether its pod fits there, but for those that have it."""
    there = pod("ds-x", "1", on="has")
    there["metadata"]["ownerReferences"] = [{"kind": "DaemonSet", "name": "w", "uid": "d", "controller": True}]
    nodes = [node("empty", "8"), node("full", "8"), node("has", "8"), node("no", "8", taints=["x:NoExecute"])]
    cluster = {"kind": "List", "items": [*nodes, pod("q", "8", on="full"), there]}
    Path("c.json").write_text(json.dumps(cluster))
    made = {"apiVersion": "apps/v1", **workload("DaemonSet", pod("t", "1"))}
    made["metadata"]["namespace"] = "default"
    Path("ds.json").write_text(json.dumps(made))
    asked = ("-f", "ds.json", "--cluster", "c.json", "--no-validate", "-o", "json")
    explained = berth("explain", *asked)
    assert explained.code == 1
    notes = json.loads(explained.out)["notes"]
    assert "2 nodes where the DaemonSet has to run and has no pod yet: 1 node without room for it: full" in notes
    assert "DaemonSet default/w: 1 of 3 nodes have its pod already" in notes
    found = json.loads(berth("capacity", *asked).out)
    assert found["fits"] == 1
    assert [(each["node"], each["pods"], each["limits"]) for each in found["nodes"]] == [
        ("empty", 1, ["a DaemonSet has one pod on each node"]),
        ("full", 0, ["Insufficient cpu"]),
    ]
    (simulated,) = json.loads(berth("simulate", *asked).out)["workloads"]
    assert (simulated["placed"], simulated["waiting"]) == (1, 1)
    Path("c.json").write_text(json.dumps({"kind": "List", "items": [nodes[2], there]}))
    said = "berth: ds.json: DaemonSet w: all its nodes have its pod, there is nothing to schedule\n"
    assert berth("explain", *asked).err == said
    assert berth("capacity", *asked).code == 1


@pytest.mark.parametrize("command", ["explain", "simulate", "capacity"])
@pytest.mark.parametrize("kind", ["Pod", "Deployment"])
def test_a_pod_that_names_its_node_is_never_scheduled(berth: Berth, command: str, kind: str) -> None:
    """It is said that it was asked about as if it named none."""
    made = pod("w", "1", on="n1")
    if kind == "Deployment":
        made = {"apiVersion": "apps/v1", **workload("Deployment", made)}
    Path("w.json").write_text(json.dumps(made))
    found = berth(command, "-f", "w.json", "--cluster", "cluster.json", "--no-validate", "-o", "json")
    assert any("spec.nodeName n1 was left out" in note for note in json.loads(found.out)["notes"])
