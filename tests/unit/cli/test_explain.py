"""`berth explain` on dumps and manifests: who is meant, what comes out, and the exit codes."""

import gzip
import json
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from podberth.cli import inputs
from podberth.kit import testing
from tests.builders import configuration, node, pod, profile
from tests.packages import install_module
from tests.unit.cli.conftest import Berth
from tests.unit.explain.story import BIG, CLUSTER, DUMP, WEB
from tests.unit.plugins.test_documented import block

Object = dict[str, Any]


def write(name: str, *documents: Object) -> str:
    """A YAML file of documents."""
    Path(name).write_text(yaml.safe_dump_all(documents), encoding="utf-8")
    return name


@pytest.mark.parametrize(
    ("arguments", "code", "headline"),
    [
        (["web", "-n", "shop"], 0, "✓ shop/web goes to a-2, the best of 2 possible nodes (5 in all)"),
        (["shop/web"], 0, "✓ shop/web goes to a-2"),
        (["web"], 0, "✓ shop/web goes to a-2"),
        (["big"], 1, "✗ shop/big fits on none of 5 nodes"),
        (["db-0"], 0, "✓ shop/db-0 goes to a-1, the only possible node (5 in all)"),
    ],
)
def test_a_pod_of_the_dump(berth: Berth, arguments: list[str], code: int, headline: str) -> None:
    """By name, with or without its namespace; 1 when it fits nowhere."""
    found = berth("explain", *arguments, "--cluster", "cluster.json")
    assert (found.code, found.err) == (code, "")
    assert found.out.startswith(headline)


def test_a_placed_pod_is_taken_off_for_the_answer(berth: Berth) -> None:
    """It does not stand in its own way, and that is said."""
    found = berth("explain", "db-0", "--cluster", "cluster.json")
    assert "it is on a-1 now; this is where it would go if it were scheduled again: the same node" in found.out


@pytest.mark.parametrize(
    ("name", "files"),
    [
        pytest.param("cluster.yaml", {"cluster.yaml": [DUMP]}, id="List"),
        pytest.param("all.yaml", {"all.yaml": DUMP["items"]}, id="documents"),
        pytest.param("one.yaml,two.yaml", {"one.yaml": CLUSTER, "two.yaml": [BIG, WEB]}, id="two files"),
    ],
)
def test_every_form_of_a_dump_gives_the_same_answer(berth: Berth, name: str, files: dict[str, list[Object]]) -> None:
    """One List, many documents, or several files."""
    for file, objects in files.items():
        write(file, *objects)
    options = [option for each in name.split(",") for option in ("--cluster", each)]
    assert berth("explain", "web", *options).out == berth("explain", "web", "--cluster", "cluster.json").out


def test_gzipped_and_from_stdin(berth: Berth, monkeypatch: pytest.MonkeyPatch) -> None:
    """FILE.gz is unpacked, and - is standard input."""
    Path("cluster.json.gz").write_bytes(gzip.compress(json.dumps(DUMP).encode()))
    assert berth("explain", "web", "--cluster", "cluster.json.gz").code == 0
    with Path("cluster.json").open(encoding="utf-8") as stream:
        monkeypatch.setattr("sys.stdin", stream)
        assert berth("explain", "web", "--cluster", "-").code == 0


def test_a_pod_from_a_file(berth: Berth) -> None:
    """Defaults are filled in: the limit is the request."""
    made = pod("new", namespace="shop")
    made["spec"]["containers"][0]["resources"] = {"limits": {"cpu": "20"}}
    found = berth("explain", "-f", write("new.yaml", made), "--cluster", "cluster.json", "-o", "json")
    answer = json.loads(found.out)
    assert (found.code, answer["outcome"], answer["pod"]["requests"]) == (1, "unschedulable", {"cpu": "20"})


def test_a_deployment_stands_for_its_pod(berth: Berth) -> None:
    """Of several objects in a file the one that makes pods is taken."""
    template = {"metadata": {"labels": {"app": "x"}}, "spec": pod("t", "1")["spec"]}
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "front"},
        "spec": {"selector": {"matchLabels": {"app": "x"}}, "template": template},
    }
    file = write("front.yaml", {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "front"}}, deployment)
    found = berth("explain", "-f", file, "--cluster", "cluster.json", "-n", "shop")
    assert found.code == 0
    assert found.out.startswith("✓ shop/front goes to a-2")


def test_a_manifest_of_a_pod_that_is_there_replaces_it(berth: Berth) -> None:
    """A changed manifest is asked about as if the old pod were gone."""
    file = write("db.yaml", pod("db-0", "3500m", "4Gi", namespace="shop", labels={"app": "db"}))
    found = berth("explain", "-f", file, "--cluster", "cluster.json")
    assert (found.code, "it is on a-1 now" in found.out) == (0, True)


def test_profiles(berth: Berth) -> None:
    """--scheduler chooses, else the pod does, else the first profile stands in and says so."""
    config = write("config.yaml", configuration(profile("one"), profile("two")))
    base = ["explain", "web", "--cluster", "cluster.json", "--config", config, "-o", "json"]
    chosen = json.loads(berth(*base, "--scheduler", "two").out)
    assert (chosen["profile"], chosen["notes"]) == ("two", [])
    first = json.loads(berth(*base).out)
    assert (first["profile"], first["notes"]) == (
        "one",
        ["the pod asks for the scheduler berth; this is how one sees it"],
    )


def test_html(berth: Berth) -> None:
    """A whole page on stdout."""
    found = berth("explain", "web", "--cluster", "cluster.json", "-o", "html")
    assert found.out.startswith("<!doctype html>")


def test_problems_of_the_dump_are_told_and_the_rest_is_answered(berth: Berth) -> None:
    """One node with an absurd quantity does not stop the answer."""
    file = write("odd.yaml", node("bad", cpu="lots"), node("good"), pod("p", "1"))
    found = berth("explain", "p", "--cluster", file)
    assert found.code == 0
    assert found.err.startswith('berth: Node bad: status.allocatable[cpu]: Invalid value: "lots" is not a quantity')
    assert len(found.err.splitlines()) == 1


def test_cases(berth: Berth) -> None:
    """A line out for each line in; a broken case is named, and the others go on."""
    case: Object = {"id": "good", "objects": CLUSTER, "pod": WEB}
    broken: Object = {"id": "broken", "objects": [], "pod": {"spec": {"containers": 5}}}
    config: Object = {"id": "config", "objects": [], "pod": WEB, "config": '{"apiVersion": "v2"}'}
    odd = {"id": "odd", "objects": 5, "pod": WEB}
    rows = [*map(json.dumps, (case, broken, config, odd)), "no json", "[]", ""]
    Path("cases.jsonl").write_text("\n".join(rows), encoding="utf-8")
    found = berth("explain", "--cases", "cases.jsonl")
    results = [json.loads(line) for line in found.out.splitlines()]
    assert found.code == 2
    assert [result["id"] for result in results] == ["good", "broken", "config", "odd", "line 5", "line 6"]
    assert results[0]["got"]["best"] == ["a-2"]
    assert all(set(result) == {"id", "error"} for result in results[1:])
    assert results[1]["error"].endswith("spec.containers: 5: expected a list")


def test_good_cases_end_well(berth: Berth) -> None:
    """Exit code 0, also when a case's pod fits nowhere."""
    Path("cases.jsonl.gz").write_bytes(gzip.compress(json.dumps({"id": 1, "objects": CLUSTER, "pod": BIG}).encode()))
    found = berth("explain", "--cases", "cases.jsonl.gz")
    assert (found.code, json.loads(found.out)["got"]["feasible"]) == (0, [])


def test_what_is_left_out_is_said(berth: Berth) -> None:
    """Extenders are not asked, and a sample is not taken: the reader should know."""
    lines = [
        "apiVersion: kubescheduler.config.k8s.io/v1",
        "kind: KubeSchedulerConfiguration",
        "percentageOfNodesToScore: 30",
        "extenders: [{urlPrefix: 'http://crane.test', filterVerb: filter}]",
    ]
    Path("config.yaml").write_text("\n".join(lines), encoding="utf-8")
    found = berth("explain", "shop/web", "--cluster", "cluster.json", "--config", "config.yaml", "-o", "json")
    notes = json.loads(found.out)["notes"]
    assert any("not asked" in note and "http://crane.test" in note for note in notes)
    assert any("percentageOfNodesToScore" in note for note in notes)


TEAMS = ("explain", "web", "--config", "teams.yaml", "--cluster", "dump.yaml")
CLASS = "NoMaintenanceOfTeams"


@pytest.fixture
def teams(berth: Berth, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Callable[[str], None]]:
    """`teams(code)`: an installed package with this code after the plugins of docs/plugins.md, and what TEAMS reads."""

    def make(code: str) -> None:
        install_module(tmp_path, "teams", block("python") + block("python", f"class {CLASS}(") + code, CLASS)
        labels = [{"maintenance": "soon", "team": team} for team in ("storage", "network")]
        nodes = [testing.node(name, labels=each) for name, each in zip("ab", labels, strict=True)]
        write("dump.yaml", *({"apiVersion": "v1", **each} for each in (*nodes, testing.pod("web"))))
        write("teams.yaml", configuration(profile(plugins={"multiPoint": {"enabled": [{"name": CLASS}]}})))

    monkeypatch.syspath_prepend(str(tmp_path))
    yield make
    sys.modules.pop("teams", None)


def test_a_plugin_from_outside_explains_itself(berth: Berth, teams: Callable[[str], None]) -> None:
    """It says something of each node, and its change is offered once it was tried, as docs/plugins.md shows."""
    teams("")
    found = berth(*TEAMS)
    assert (found.code, found.err) == (1, "")
    assert block("text", "Where it can't go") in found.out
    answer = json.loads(berth(*TEAMS, "-o", "json").out)
    assert [finding["numbers"] for each in answer["rejected"] for finding in each["findings"]] == [
        {"team": "storage"},
        {"team": "network"},
    ]
    assert answer["notes"] == []


FAILING = f"""
def fail(*args):
    raise SystemExit("no idea")
{CLASS}.explainer.explain = {CLASS}.explainer.fixes = fail
"""


def test_a_plugin_from_outside_fails_to_explain_itself(berth: Berth, teams: Callable[[str], None]) -> None:
    """The command answers all the same: with the reason's own text, and one note for each thing it was asked."""
    teams(FAILING)
    found = berth(*TEAMS, "-o", "json")
    assert (found.code, found.err) == (1, "")
    answer = json.loads(found.out)
    assert [finding["detail"] for each in answer["rejected"] for finding in each["findings"]] == [
        "node(s) will be serviced soon",
        "node(s) will be serviced soon",
    ]
    assert [remedy["text"] for remedy in answer["remedies"]] == []
    assert [re.sub(r"teams.py:\d+", "teams.py:LINE", note) for note in answer["notes"]] == [
        f'plugin "{CLASS}" could not explain its rejections: it tried to end the process (no idea) (teams.py:LINE)',
        f'plugin "{CLASS}" could not say what would help: it tried to end the process (no idea) (teams.py:LINE)',
    ]


def test_a_scheduler_that_nobody_runs_is_the_first_line(berth: Berth) -> None:
    """The pod waits for it, whatever room there is."""
    file = write("lost.yaml", pod("lost", "100m", namespace="shop", scheduler="bert"))
    found = berth("explain", "-f", file, "--cluster", "cluster.json")
    assert found.code == 1
    assert found.out.startswith("✗ shop/lost waits for the scheduler bert, and nobody seems to run it")
    assert "did you mean berth?" in found.out
    answer = json.loads(berth("explain", "-f", file, "--cluster", "cluster.json", "-o", "json").out)
    assert answer["outcome"] == "unclaimed"
    others = write("others.yaml", pod("theirs", namespace="shop", scheduler="bert", on="a-1"))
    found = berth("explain", "-f", file, "--cluster", "cluster.json", "--cluster", others)
    assert (found.code, found.out[0]) == (0, "✓")


def test_a_large_yaml_dump_names_the_better_way(berth: Berth, monkeypatch: pytest.MonkeyPatch) -> None:
    """One line, before the time is spent."""
    monkeypatch.setattr(inputs, "LARGE", 100)
    write("dump.yaml", *DUMP["items"])
    found = berth("explain", "web", "--cluster", "dump.yaml")
    assert (found.code, found.err) == (
        0,
        "berth: dump.yaml: 0 MB of YAML takes a while; JSON (kubectl get -o json) does not\n",
    )
    assert berth("explain", "web", "--cluster", "cluster.json").err == ""


def commands(answer: Object) -> dict[str, list[str]]:
    """Change → its commands."""
    return {each["text"]: each["commands"] for each in answer["remedies"]}


def lost(name: str, cpu: str = "100m", **more: Any) -> Object:
    """A pod that names a scheduler which nobody runs."""
    return pod(name, cpu, namespace="shop", scheduler="bert", **more)


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet", "Job", ""])
def test_a_scheduler_that_somebody_runs_is_offered(berth: Berth, kind: str) -> None:
    """The one that was perhaps meant, then the one that placed most; where the pod's owner has its template."""
    made = lost("lost", labels={"pod-template-hash": "5f6"})
    if kind:
        owner = {"kind": "ReplicaSet", "name": "lost-5f6"} if kind == "Deployment" else {"kind": kind, "name": "lost"}
        made["metadata"]["ownerReferences"] = [{**owner, "uid": "o", "controller": True}]
    others = [pod(f"their-{i}", namespace="shop", scheduler="volcano", on="a-1") for i in range(5)]
    dump = write("lost.yaml", made, *others)
    answer = json.loads(berth("explain", "lost", "--cluster", "cluster.json", "--cluster", dump, "-o", "json").out)
    assert (answer["outcome"], answer["profile"]) == ("unclaimed", "berth")
    found = commands(answer)
    assert list(found) == ["name the scheduler berth", "name the scheduler volcano"]
    assert all(len(each["nodes"]) == answer["nodes"]["feasible"] > 0 for each in answer["remedies"])
    spec = "/spec/template/spec" if kind else "/spec"
    patch = f'--type=json -p \'[{{"op":"add","path":"{spec}/schedulerName","value":"berth"}}]\''
    again = "made=$(kubectl get pod lost -n shop -o json | kubectl patch --local -f - -o json"
    assert [each.partition(" && ")[0] for each in found["name the scheduler berth"]] == {
        "Deployment": [f"kubectl patch deployment lost -n shop {patch}"],
        "StatefulSet": [
            f"kubectl patch statefulset lost -n shop {patch}",
            "kubectl delete pod lost -n shop --ignore-not-found",
        ],
        "Job": [],
        "": [f"{again} {patch})"],
    }[kind]
    said = "the pods of a Job can't be changed: delete the Job lost and create it again with the change"
    assert (said in answer["notes"]) == (kind == "Job")


def test_who_schedules_comes_before_what_else_is_missing(berth: Berth) -> None:
    """A pod that fits nowhere needs both; one of a file is changed there."""
    file = write("lost.yaml", lost("lost", "20"))
    answer = json.loads(berth("explain", "-f", file, "--cluster", "cluster.json", "-o", "json").out)
    assert answer["outcome"] == "unschedulable"
    found = commands(answer)
    assert found
    assert all(text.startswith("name the scheduler berth and ") for text in found)
    less = next(each for each in found.items() if "ask for" in each[0])
    assert less[1][0].startswith("kubectl patch --local -f lost.yaml -o yaml --type=json -p ")
    assert '"path":"/spec/schedulerName","value":"berth"' in less[1][0]


def test_pods_that_nobody_schedules_are_told_so_beside_the_others(berth: Berth) -> None:
    """With what would free them."""
    dump = write("lost.yaml", lost("lost"))
    asked = ("explain", "--pending", "-A", "--cluster", "cluster.json", "--cluster", dump, "-o", "json")
    found = [each for each in json.loads(berth(*asked).out)["causes"] if each["outcome"] == "unclaimed"]
    assert [next(iter(commands(each))) for each in found] == ["name the scheduler berth"]
