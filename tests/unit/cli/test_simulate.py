"""`berth simulate`: answers, exit codes, and what is refused."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.builders import node, pod
from tests.unit.cli.conftest import Berth
from tests.unit.whatif.test_replay import HEAD, NODES

Object = dict[str, Any]
DEPLOYMENT: Object = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "web"},
    "spec": {"replicas": 3, "template": {"spec": {"containers": [{"name": "c", "image": "i"}]}}},
}


def write(name: str, *documents: Any) -> str:
    """A file in the command's directory."""
    Path(name).write_text(yaml.safe_dump_all(documents))
    return name


@pytest.fixture
def dump(berth: Berth) -> str:
    """Two nodes."""
    return write("dump.yaml", node("a", cpu="2"), node("b", cpu="2"))


def test_replicas(berth: Berth, dump: str) -> None:
    """A workload stands for as many pods as it wants."""
    found = berth("simulate", "--cluster", dump, "-f", write("web.yaml", DEPLOYMENT), "-o", "json")
    assert (found.code, found.err) == (0, "")
    assert {each["pod"] for each in json.loads(found.out)["placed"]} == {f"default/web-{i}" for i in range(3)}


def test_nodes_can_be_added(berth: Berth, dump: str) -> None:
    """A node in the file is there before the pods are."""
    big = write("big.yaml", node("c", cpu="64"), pod("big", cpu="32"))
    found = berth("simulate", "--cluster", dump, "-f", big, "-o", "json")
    assert [each["node"] for each in json.loads(found.out)["placed"]] == ["c"]


def test_who_waits_is_found(berth: Berth, dump: str) -> None:
    """Exit code 1, and why, in the table and on the page."""
    big = write("big.yaml", pod("big", cpu="32"))
    table = berth("simulate", "--cluster", dump, "-f", big)
    assert table.code == 1
    assert "0 pods placed; 1 without a node (profile berth)" in table.out
    assert "2 Insufficient cpu" in table.out
    page = berth("simulate", "--cluster", dump, "-f", big, "-o", "html")
    assert page.code == 1
    assert "2 Insufficient cpu" in page.out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        pytest.param([], "nothing to simulate: give pods or nodes with -f", id="nothing"),
        pytest.param(["--drain", "z"], "--drain: z: no such node in dump.yaml", id="unknown node"),
        pytest.param(["-f", "twin.yaml"], "twin.yaml: Pod default/p: there is one of this name already", id="twin"),
        pytest.param(["-f", "daemon.yaml"], "daemon.yaml: DaemonSet: wants a pod on each node", id="DaemonSet"),
        pytest.param(
            ["-f", "wrong.yaml"], "wrong.yaml: Deployment: spec.replicas: 'x': expected a whole", id="replicas"
        ),
        pytest.param(["-f", "web.yaml", "--scheduler", "x"], "--scheduler: x: expected one of", id="profile"),
        pytest.param(["--trace", "."], "--trace plays a trace on its own nodes", id="trace and cluster"),
    ],
)
def test_refused(berth: Berth, dump: str, arguments: list[str], said: str) -> None:
    """One line, exit code 2."""
    write("twin.yaml", pod("p"), pod("p"))
    write("daemon.yaml", {**DEPLOYMENT, "kind": "DaemonSet"})
    write("wrong.yaml", {**DEPLOYMENT, "spec": {**DEPLOYMENT["spec"], "replicas": "x"}})
    write("web.yaml", DEPLOYMENT)
    found = berth("simulate", "--cluster", dump, *arguments)
    assert (found.code, found.out) == (2, "")
    assert found.err.startswith(f"berth: {said}")
    assert len(found.err.splitlines()) == 1


@pytest.fixture
def trace(berth: Berth) -> str:
    """A directory with a trace of four pods."""
    rows = [f"p{i},1000,1024,1,1000,,LS,Running,{i},{i + 10},{i}" for i in range(4)]
    Path("trace").mkdir()
    Path("trace/openb_nodes.csv").write_text(NODES)
    Path("trace/openb_pods.csv").write_text(HEAD + "\n".join(rows) + "\n")
    return "trace"


def test_trace(berth: Berth, trace: str) -> None:
    """Both profiles, and another scheduler's record beside them."""
    Path("kube.json").write_text(
        json.dumps({"scheduler": "kube-<b>", "load": 0.5, "placements": [["p0", "a"], ["p1", "b"]]})
    )
    answer = berth("simulate", "--trace", trace, "--beside", "kube.json", "-o", "json")
    assert (answer.code, answer.err) == (0, "")
    found = json.loads(answer.out)
    assert [each["profile"] for each in found["profiles"]] == ["kube-<b>", "default", "packed"]
    assert [each["saturation"]["placed"] for each in found["profiles"]] == [2, 6, 6]
    table = berth("simulate", "--trace", trace, "--beside", "kube.json")
    assert "pods placed" in table.out
    page = berth("simulate", "--trace", trace, "--beside", "kube.json", "-o", "html")
    assert "kube-&lt;b&gt;" in page.out
    assert "<b>" not in page.out
    assert page.out.count("<polyline") == 6 * 3 + 3 + 2 * 2


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        pytest.param(["--trace", "none"], "none/openb_nodes.csv: no such file", id="no directory"),
        pytest.param(["--trace", "trace", "--load", "0"], "--load: 0: expected more than 0", id="load"),
        pytest.param(["--trace", "trace", "--fill", "2"], "--fill: 2: expected 0 to 1", id="fill"),
        pytest.param(["--trace", "trace", "--beside", "bad.json"], "bad.json: expected what python -m", id="record"),
    ],
)
def test_refused_of_a_trace(berth: Berth, trace: str, arguments: list[str], said: str) -> None:
    """One line, exit code 2."""
    Path("bad.json").write_text("[]")
    found = berth("simulate", *arguments)
    assert (found.code, found.out) == (2, "")
    assert found.err.startswith(f"berth: {said}")
    assert len(found.err.splitlines()) == 1
