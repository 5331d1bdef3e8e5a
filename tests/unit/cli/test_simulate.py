"""`berth simulate`: answers, exit codes, and what is refused."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from podberth.explain.simulate.arrivals import Batch
from tests.builders import node, pod
from tests.unit.cli.conftest import Berth
from tests.unit.lab.traces.test_openb import HEAD, NODES

Object = dict[str, Any]
DEPLOYMENT: Object = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "web"},
    "spec": {
        "replicas": 3,
        "selector": {"matchLabels": {"app": "web"}},
        "template": {
            "metadata": {"labels": {"app": "web"}},
            "spec": {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}]},
        },
    },
}
ROLLOUT = {**DEPLOYMENT, "apiVersion": "argoproj.io/v1alpha1", "kind": "Rollout"}
CUSTOM = {"apiVersion": "example.test/v1", "kind": "Thing", "metadata": {"name": "thing"}, "spec": {"size": 3}}
CONFIG_MAP = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"a": "b"}}


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
    assert "0 of 1 pod placed; 1 without a node (profile berth)" in table.out
    assert "2 Insufficient cpu" in table.out
    page = berth("simulate", "--cluster", dump, "-f", big, "-o", "html")
    assert page.code == 1
    assert "2 Insufficient cpu" in page.out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        pytest.param([], "nothing to simulate: give pods or nodes with -f", id="nothing"),
        pytest.param(["--drain", "z"], '--drain: "z": no such node in dump.yaml', id="unknown node"),
        pytest.param(["-f", "twin.yaml"], "twin.yaml: Pod default/p: there is one of this name already", id="twin"),
        pytest.param(["-f", "n.yaml", "-f", "m.yaml"], "m.yaml: Node n: is there twice: n.yaml and m.yaml", id="nodes"),
        pytest.param(["-f", "map.yaml"], "map.yaml: nothing to simulate: they make no pods", id="no pods"),
        pytest.param(["-f", "custom.yaml"], "custom.yaml: nothing to simulate: Thing thing: it has no", id="custom"),
        pytest.param(
            ["-f", "wrong.yaml"], 'wrong.yaml: Deployment web: spec.replicas: "x": expected a whole', id="replicas"
        ),
        pytest.param(["-f", "web.yaml", "--scheduler", "x"], '--scheduler: "x": expected one of', id="profile"),
        pytest.param(["--trace", "."], "--trace plays a trace on its own nodes", id="trace and cluster"),
    ],
)
def test_refused(berth: Berth, dump: str, arguments: list[str], said: str) -> None:
    """One line, exit code 2."""
    write("twin.yaml", pod("p"), pod("p"))
    for name in ("n.yaml", "m.yaml"):
        write(name, {**node("n"), "metadata": {"name": "n"}})
    write("map.yaml", CONFIG_MAP)
    write("custom.yaml", CUSTOM)
    write("wrong.yaml", {**DEPLOYMENT, "spec": {**DEPLOYMENT["spec"], "replicas": "x"}})
    write("web.yaml", DEPLOYMENT)
    found = berth("simulate", "--cluster", dump, *arguments)
    assert (found.code, found.out) == (2, "")
    assert found.err.startswith(f"berth: {said}")
    assert len(found.err.splitlines()) == 1


def test_a_rollout_has_pods(berth: Berth, dump: str) -> None:
    """Any kind with a pod template is run, and the answer says how its pods were counted."""
    found = berth("simulate", "--cluster", dump, "-f", write("rollout.yaml", ROLLOUT))
    assert found.code == 0
    assert "3 of 3 pods placed" in found.out
    assert "Rollout default/web: counted as 3 pods" in found.out


def test_what_is_not_simulated_is_said(berth: Berth, dump: str) -> None:
    """The rest is, and the exit code tells."""
    found = berth("simulate", "--cluster", dump, "-f", write("both.yaml", DEPLOYMENT, CUSTOM, CONFIG_MAP))
    assert found.code == 1
    assert "3 of 3 pods placed" in found.out
    assert "not simulated: document 2: Thing thing: it has no pod template" in found.out


def test_exit_code_is_about_my_pods(berth: Berth, dump: str) -> None:
    """A pod that waited before, and does so still, is none of them; --all-pods lists it."""
    write("more.yaml", pod("stuck", cpu="64", scheduler="berth"))
    arguments = ["simulate", "--cluster", dump, "--cluster", "more.yaml", "-f", write("web.yaml", DEPLOYMENT)]
    found = berth(*arguments)
    assert found.code == 0
    assert "1 pod that waited before would still wait" in found.out
    assert "default/stuck" not in found.out
    assert "default/stuck" in berth(*arguments, "--all-pods").out
    assert [each["pod"] for each in json.loads(berth(*arguments, "-o", "json").out)["others"]["waiting"]] == [
        "default/stuck"
    ]


def test_few_pods_are_listed_of_very_many(berth: Berth, dump: str) -> None:
    """A billion replicas take no more room than those that fit."""
    many = {**DEPLOYMENT, "spec": {**DEPLOYMENT["spec"], "replicas": 1_000_000_000}}
    found = berth("simulate", "--cluster", dump, "-f", write("many.yaml", many), "-o", "json")
    assert found.code == 1
    (waiting,) = json.loads(found.out)["waiting"]
    assert (waiting["pod"], waiting["pods"]) == ("default/web-4", 999_999_996)


def test_drains_say_from_where_to_where(berth: Berth, dump: str) -> None:
    """A row for each pod; a node of nearly the name is named."""
    placed = pod("p", on="a")
    placed["metadata"]["ownerReferences"] = [{"kind": "ReplicaSet", "name": "r", "uid": "r", "controller": True}]
    write("pods.yaml", placed)
    found = berth("simulate", "--cluster", dump, "--cluster", "pods.yaml", "--drain", "a")
    assert found.code == 0
    assert "1 of 1 drained pod moved after draining a" in found.out
    assert ["default/p", "a", "b"] in [line.split() for line in found.out.splitlines()]
    write("named.yaml", node("node-07"))
    assert "did you mean node-07?" in berth("simulate", "--cluster", "named.yaml", "--drain", "node-7").err


@pytest.fixture
def trace(berth: Berth) -> str:
    """A directory with a trace of four pods."""
    rows = [f"p{i},1000,1024,1,1000,,LS,Running,{i},{i + 10},{i}" for i in range(4)]
    Path("trace").mkdir()
    Path("trace/openb_nodes.csv").write_text(NODES)
    Path("trace/openb_pods.csv").write_text(HEAD + "\n".join(rows) + "\n")
    return "trace"


def test_trace(berth: Berth, trace: str) -> None:
    """The profiles that know single GPUs, or those of a file, on arrivals and departures and inflated."""
    answer = berth("simulate", "--trace", trace, "-o", "json")
    assert (answer.code, answer.err) == (0, "")
    found = json.loads(answer.out)
    assert [each["profile"] for each in found["departures"]] == ["default", "packed", "packed-gpus", "fragmentation"]
    assert [each["figures"][0]["bound"] for each in found["inflation"]] == [6, 6, 6, 6]
    table = berth("simulate", "--trace", trace, "--seeds", "2")
    assert "pods placed" in table.out
    profile = {"schedulerName": "mine-<b>"}
    kind = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    Path("config.json").write_text(json.dumps(kind | {"profiles": [profile]}))
    page = berth("simulate", "--trace", trace, "--config", "config.json", "-o", "html")
    assert "mine-&lt;b&gt;" in page.out
    assert "<b>" not in page.out
    assert page.out.count("<svg") == 6


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        pytest.param(["--trace", "none"], "none: no such file or directory", id="no directory"),
        pytest.param(["--trace", "."], ".: expected a trace: Alibaba's openb", id="no trace"),
        pytest.param(["--trace", "trace", "--load", "0"], "--load: 0: expected more than 0", id="load"),
        pytest.param(["--trace", "trace", "--fill", "2"], "--fill: 2: expected 0 to 1", id="fill"),
        pytest.param(["--trace", "trace", "--seeds", "0"], "--seeds: 0: expected 1 to 100", id="seeds"),
    ],
)
def test_refused_of_a_trace(berth: Berth, trace: str, arguments: list[str], said: str) -> None:
    """One line, exit code 2."""
    found = berth("simulate", *arguments)
    assert (found.code, found.out) == (2, "")
    assert found.err.startswith(f"berth: {said}")
    assert len(found.err.splitlines()) == 1


def test_pods_that_nobody_creates_again_are_lost(berth: Berth) -> None:
    """A drain that ends them is no success, and help says so."""
    found = berth("simulate", "--drain", "a-2", "--cluster", "cluster.json")
    assert found.code == 1
    assert "no controller creates this pod again: shop/cache-0" in found.out
    assert "Drained pod " not in found.out, "a table without rows"
    said = " ".join(berth("simulate", "--help").out.split())
    assert "when no controller creates some of a drained node again" in said


def test_removable(berth: Berth) -> None:
    """The nodes that could go, by themselves and together; the exit code says whether there is one."""
    found = berth("simulate", "--removable", "--cluster", "cluster.json", "-o", "json")
    answer = json.loads(found.out)
    assert (found.code, answer["kind"]) == (0, "Removals")
    assert {each["node"] for each in answer["removable"]} >= {"gpu-1", "b-1"}
    assert {each["node"] for each in answer["kept"]} == {"a-1", "a-2", "b-2"}
    bare = berth("simulate", "--removable", "-l", "topology.kubernetes.io/zone=a", "--cluster", "cluster.json")
    assert bare.code == 1
    assert bare.out.startswith("none of 2 nodes could be removed (profile berth)\n")
    assert "no controller would create it again" in bare.out
    page = berth("simulate", "--removable", "--cluster", "cluster.json", "-o", "html")
    assert (page.code, page.err) == (0, "")
    assert "2 of 5 nodes could be removed by themselves" in page.out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--removable", "--drain", "a-1"), "--removable tries all nodes of a cluster"),
        (("--removable", "--disable-eviction"), "--removable tries all nodes of a cluster"),
        (("-l", "a=b"), "--selector: expected only together with --removable"),
        (("--removable", "-l", "a=b"), "--selector: no node of cluster.json has these labels"),
        (("--removable", "-l", "a in"), '--selector: "a in"'),
    ],
)
def test_removable_with_what_does_not_go_with_it(berth: Berth, words: tuple[str, ...], said: str) -> None:
    """One line, exit code 2."""
    found = berth("simulate", *words, "--cluster", "cluster.json")
    assert (found.code, found.out, len(found.err.splitlines())) == (2, "", 1)
    assert found.err.startswith(f"berth: {said}")


def test_a_pod_may_be_called_as_a_workload_is(berth: Berth, dump: str) -> None:
    """The pods of the workload have numbers."""
    made = write("made.yaml", DEPLOYMENT, pod("web", "100m"))
    assert berth("simulate", "--cluster", dump, "-f", made).code == 0


@pytest.mark.parametrize("made", [(DEPLOYMENT, pod("web-1")), (pod("web-1"), DEPLOYMENT)], ids=["after", "before"])
def test_a_pod_may_not_be_called_as_one_of_a_workload_is(berth: Berth, dump: str, made: tuple[Object, ...]) -> None:
    """In whatever order they come."""
    found = berth("simulate", "--cluster", dump, "-f", write("made.yaml", *made))
    assert (found.code, found.err) == (2, "berth: made.yaml: Pod default/web-1: there is one of this name already\n")


def test_pods_of_a_file_are_not_compared_in_pairs(berth: Berth, dump: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file of 20,000 pods would take minutes."""
    looks: list[str] = []
    holds = Batch.holds

    def look(batch: Batch, key: str) -> bool:
        looks.append(key)
        return holds(batch, key)

    monkeypatch.setattr(Batch, "holds", look)
    berth("simulate", "--cluster", dump, "-f", write("made.yaml", *(pod(f"p{i}", "1m") for i in range(50))))
    assert len(looks) < 50
