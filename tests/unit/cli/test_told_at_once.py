"""All that is wrong with all that a command is given is told at once: types, rules, several objects, several files."""

import gzip
import json
from io import BytesIO, TextIOWrapper
from pathlib import Path
from random import Random
from typing import Any

import pytest
import yaml

from podberth.explain.judging.judge import judge
from podberth.explain.objects.documents import Document
from tests.builders import configuration, namespace, node, pod, profile
from tests.unit.cli.conftest import Berth
from tests.unit.cli.fuzzed import DEPLOYMENT, POLICY, mangled
from tests.unit.cli.test_judged import changed

Object = dict[str, Any]
SPREAD = {"maxSkew": 0, "topologyKey": "zone", "whenUnsatisfiable": "Maybe"}
POD = pod("p", "1")


def _bad_pod() -> Object:
    made = changed(POD, "spec.topologySpreadConstraints", [SPREAD])
    made = changed(made, "spec.containers.0.resources", {"requests": {"cpu": "-1"}})
    made = changed(made, "metadata.labels", {"bad key!": "x", "n": 5})
    return changed(made, "spec.nodeSelectors", {"a": "b"})


BAD_DEPLOYMENT = changed(
    changed(DEPLOYMENT, "spec.replicas", "three"), "spec.template.metadata.labels", {"app": "other"}
)
OF_POD = [
    "metadata.labels[n]: 5: expected text",
    "spec.topologySpreadConstraints[0].whenUnsatisfiable: ",
    "spec.nodeSelectors: unknown field",
    "metadata.labels: ",
    "spec.containers[0].resources.requests[cpu]: ",
    "spec.topologySpreadConstraints[0].maxSkew: 0: ",
]
OF_DEPLOYMENT = ['spec.replicas: "three": ', "spec.template.metadata.labels[app]: expected d"]


def _write(name: str, *objects: Object) -> None:
    Path(name).write_text(yaml.safe_dump_all(objects))


def _told(text: str, *starts: str) -> None:
    """Each line begins so, in any order."""
    lines = text.splitlines()
    assert len(lines) == len(starts), text
    for start in starts:
        assert any(line.startswith(f"berth: {start}") for line in lines), (start, text)


@pytest.mark.parametrize("command", ["explain", "simulate", "capacity"])
def test_types_and_rules_of_all_objects_of_a_file(berth: Berth, command: str) -> None:
    """A field of a wrong type keeps nobody from judging the others."""
    _write("made.yaml", _bad_pod(), BAD_DEPLOYMENT)
    found = berth(command, "-f", "made.yaml", "--cluster", "cluster.json")
    assert (found.code, found.out) == (2, "")
    of_pod = [f"made.yaml: document 1: Pod p: {line}" for line in OF_POD]
    _told(found.err, *of_pod, *(f"made.yaml: document 2: Deployment d: {line}" for line in OF_DEPLOYMENT))


def test_all_files_the_dump_and_the_configuration(berth: Berth) -> None:
    """One run is enough to know what is to be mended."""
    _write("a.yaml", BAD_DEPLOYMENT)
    Path("b.yaml").write_text("a: [1\nb: 2")
    Path("dump.json").write_text(json.dumps({"kind": "List", "items": [node("n") | {"spec": {"taints": "x"}}]}))
    Path("conf.json").write_text(json.dumps(configuration(parallelism="many")))
    files = ("-f", "a.yaml", "-f", "b.yaml", "-f", "gone.yaml")
    found = berth("simulate", *files, "--cluster", "dump.json", "--config", "conf.json", "--drain", "x")
    assert (found.code, found.out) == (2, "")
    _told(
        found.err,
        'conf.json: parallelism: Invalid value: "many": ',
        *(f"a.yaml: Deployment d: {line}" for line in OF_DEPLOYMENT),
        "b.yaml: line 2, column 2: not YAML: ",
        "gone.yaml: no such file",
        'dump.json: Node n (items[0]): spec.taints: "x": expected a list',
    )


def test_all_objects_of_a_dump(berth: Berth) -> None:
    """A wrong one keeps nobody from reading the others."""
    items = [
        node("n"),
        node("m") | {"spec": {"taints": "x"}},
        changed(POD, "spec.priority", "high"),
        pod("q", uid="1"),
        pod("q", uid="2"),
    ]
    Path("dump.json").write_text(json.dumps({"kind": "List", "items": items}))
    found = berth("explain", "q", "--cluster", "dump.json")
    assert (found.code, found.out) == (2, "")
    _told(found.err, "dump.json: Node m", "dump.json: Pod default/p", "dump.json: Pod default/q: is there twice")


def test_nodes_and_pods_that_are_not_there(berth: Berth) -> None:
    """Faults that only show with the cluster at hand are gathered, too."""
    _write("a.yaml", pod("web", "1", namespace="shop"))
    _write("b.yaml", pod("c", namespace="shop"), pod("c", namespace="shop"))
    files = ("-f", "a.yaml", "-f", "b.yaml")
    found = berth("simulate", *files, "--drain", "x", "--drain", "y", "--cluster", "cluster.json")
    starts = ('--drain: "x": no such node', '--drain: "y": no such node', "a.yaml: Pod shop/web", "b.yaml: Pod shop/c")
    assert found.code == 2
    _told(found.err, *starts)


def test_all_fields_of_a_configuration(berth: Berth) -> None:
    """Unknown ones, those of a wrong type and those that are out of range."""
    content = configuration(
        profile("a", plugins={"score": {"enable": []}}), profile("b"), profile("b"), parallelism="many", foo=1
    )
    content["profiles"][1]["percentageOfNodesToScore"] = 101
    Path("conf.json").write_text(json.dumps(content | {"podMaxBackoffSeconds": "long"}))
    found = berth("explain", "web", "--cluster", "cluster.json", "--config", "conf.json")
    assert found.code == 2
    _told(
        found.err,
        "conf.json: foo: Unknown field",
        "conf.json: profiles[0].plugins.score.enable: Unknown field",
        'conf.json: parallelism: Invalid value: "many"',
        'conf.json: podMaxBackoffSeconds: Invalid value: "long"',
        "conf.json: profiles[1].percentageOfNodesToScore: Invalid value: 101",
        'conf.json: profiles[2].schedulerName: Duplicate value: "b"',
    )


def test_a_thousand_faults_are_a_hundred_lines(berth: Berth) -> None:
    """And it is said how many more there are."""
    _write("made.yaml", *(changed(POD, "metadata.name", f"P{i}") for i in range(1000)))
    found = berth("simulate", "-f", "made.yaml", "--cluster", "cluster.json")
    assert found.code == 2
    assert len(found.err.splitlines()) == 101
    assert found.err.splitlines()[-1] == "berth: and 900 more faults"


def test_what_is_left_out_is_not_complained_of_again() -> None:
    """A container without a name that can be read is not one without a name."""
    made = changed(changed(POD, "spec.containers.0.name", 5), "spec.topologySpreadConstraints", ["x"])
    lines = judge(Document("Pod", json.dumps(made).encode(), ""))
    assert [line.split(": ")[1] for line in lines] == ["spec.containers[0].name", "spec.topologySpreadConstraints[0]"]
    lines = judge(Document("Pod", json.dumps(changed(POD, "spec.containers", 5)).encode(), ""))
    assert [line.split(": ")[1] for line in lines] == ["spec.containers"]


@pytest.mark.parametrize("seed", range(60))
def test_mangled_objects_are_judged(seed: int) -> None:
    """The rules see only what has the right types, so whatever was mangled, they do not fail."""
    dice = Random(seed)
    for made in (_bad_pod(), DEPLOYMENT, node("n"), {**DEPLOYMENT, "apiVersion": "x.io/v1", "kind": "Rollout"}):
        found = mangled(dice, made)
        if isinstance(found.get("kind"), str):
            lines = judge(Document(found["kind"], json.dumps(found).encode(), ""))
            assert all(": " in line or "more" in line for line in lines)


def test_standard_input_is_read_once(berth: Berth, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file is looked at for groups first, and then for pods."""
    monkeypatch.setattr("sys.stdin", TextIOWrapper(BytesIO(yaml.safe_dump(POD).encode())))
    found = berth("explain", "-f", "-", "--cluster", "cluster.json")
    assert found.err == ""
    assert "default/p" in found.out


@pytest.mark.parametrize(
    "words",
    [
        ("explain", "-f", "-", "--cluster", "-"),
        ("simulate", "-f", "-", "-f", "-", "--cluster", "cluster.json"),
        ("capacity", "-f", "-", "--config", "-", "--cluster", "cluster.json"),
        ("policy", "eval", "-f", "-", "--policies", "-"),
        ("dump", "--cluster", "-", "--cluster", "-"),
    ],
    ids=" ".join,
)
def test_standard_input_is_for_one_thing(berth: Berth, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]) -> None:
    """The second found nothing there: a list of files was read as that of the last one."""
    monkeypatch.setattr("sys.stdin", TextIOWrapper(BytesIO(yaml.safe_dump(POD).encode())))
    found = berth(*words)
    assert (found.code, found.out) == (2, "")
    assert "berth: standard input: is given for two things, and can be read once" in found.err.splitlines()


def test_packed_files_are_known_by_what_they_hold(berth: Berth, monkeypatch: pytest.MonkeyPatch) -> None:
    """On standard input there is no name that says so."""
    packed = gzip.compress(Path("cluster.json").read_bytes())
    Path("dump").write_bytes(packed)
    wanted = berth("explain", "web", "--cluster", "cluster.json")
    assert berth("explain", "web", "--cluster", "dump") == wanted
    monkeypatch.setattr("sys.stdin", TextIOWrapper(BytesIO(packed)))
    assert berth("explain", "web", "--cluster", "-") == wanted


def test_an_address_is_no_file(berth: Berth) -> None:
    """kubectl would fetch it."""
    found = berth("explain", "-f", "https://example.com/web.yaml", "--cluster", "cluster.json")
    said = "expected a file, got an address: curl gets it, and - stands for standard input"
    assert (found.code, found.err) == (2, f"berth: https://example.com/web.yaml: {said}\n")


@pytest.mark.parametrize("command", ["explain", "simulate", "capacity"])
def test_a_namespace_that_the_file_contradicts(berth: Berth, command: str) -> None:
    """As with kubectl, -n is for what names no namespace; another one than the file's is refused."""
    _write("a.yaml", pod("p", "1", namespace="other"))
    found = berth(command, "-f", "a.yaml", "-n", "shop", "--cluster", "cluster.json")
    said = 'metadata.namespace: "other": expected shop, as --namespace says'
    assert (found.code, found.out) == (2, "")
    _told(
        found.err,
        f"a.yaml: p: {said}",
        'a.yaml: metadata.namespace: "other": there is no such namespace in cluster.json',
    )
    assert berth(command, "-f", "a.yaml", "-n", "other", "--cluster", "cluster.json").code != 2


@pytest.mark.parametrize("command", ["explain", "simulate", "capacity"])
def test_a_namespace_that_is_not_there(berth: Berth, command: str) -> None:
    """The API server would refuse what is in it; it is said, unless a file makes it, or nothing is known of any."""
    _write("a.yaml", pod("p", "1", namespace="gone"), *([] if command != "simulate" else [namespace("made")]))
    found = berth(command, "-f", "a.yaml", "--cluster", "cluster.json")
    assert found.err == 'berth: a.yaml: metadata.namespace: "gone": there is no such namespace in cluster.json\n'
    _write("b.yaml", pod("p", "1", namespace="shop"))
    assert berth(command, "-f", "b.yaml", "--cluster", "cluster.json").err == ""
    Path("nodes.json").write_text(json.dumps({"kind": "List", "items": [node("n")]}))
    assert berth(command, "-f", "b.yaml", "--cluster", "nodes.json").err == ""
    nameless = pod("p", "1")
    del nameless["metadata"]["namespace"]
    _write("d.yaml", nameless)
    nowhere = berth(command, "-f", "d.yaml", "-n", "gone", "--cluster", "cluster.json")
    assert nowhere.err == 'berth: --namespace: "gone": there is no such namespace in cluster.json\n'
    if command == "simulate":
        _write("c.yaml", pod("p", "1", namespace="made"))
        assert berth(command, "-f", "a.yaml", "-f", "c.yaml", "--cluster", "cluster.json").err == found.err


def test_an_object_of_no_namespace_meets_all_policies(berth: Berth) -> None:
    """Elsewhere it would be in `default`: so eval says what it does."""
    _write("pod.yaml", changed(POD, "metadata", {"name": "p"}))
    _write("policy.yaml", POLICY)
    asked = ("policy", "eval", "-f", "pod.yaml", "--policies", "policy.yaml")
    assert berth(*asked).err.startswith("berth: pod.yaml: names no namespace, so it meets the policies of all")
    assert berth(*asked, "-n", "shop").err == ""


@pytest.mark.parametrize("command", ["eval", "compile"])
def test_all_policies_of_a_file(berth: Berth, command: str) -> None:
    """All is told: a document of another kind, and each fault of each policy."""
    _write("policies.yaml", POLICY, changed(POLICY, "spec.rules", 5), POD, changed(POLICY, "spec.rules.0.name", 7))
    _write("pod.yaml", POD)
    asked = ("-f", "pod.yaml", "--policies", "policies.yaml") if command == "eval" else ("-f", "policies.yaml")
    found = berth("policy", command, *asked)
    assert (found.code, found.out) == (2, "")
    _told(
        found.err,
        "policies.yaml: document 2: spec.rules: Invalid value: 5",
        'policies.yaml: document 3: kind: "Pod": expected MetadataPolicy',
        "policies.yaml: document 4: spec.rules[0].name: Invalid value: 7",
    )
    found = berth("policy", "lint", "policies.yaml")
    assert (found.code, found.out) == (2, "")
    _told(
        found.err,
        "policies.yaml: document 2: spec.rules: Invalid value: 5",
        'policies.yaml: document 3: kind: "Pod"',
        "policies.yaml: document 4: spec.rules[0].name: Invalid value: 7",
    )


def test_policies_and_what_they_are_tried_on(berth: Berth) -> None:
    """A fault of one file hides none of another, nor one object of a file another."""
    _write("bad.yaml", changed(POLICY, "spec.rules", 5))
    _write("pod.yaml", changed(POD, "metadata.labels", {"a": 1}))
    _write("pods.yaml", changed(POD, "metadata.labels", {"a": 1}), POD, changed(POD, "metadata", 5))
    found = berth("policy", "eval", "-f", "pod.yaml", "--old", "gone.yaml", "--policies", "bad.yaml")
    assert (found.code, found.out) == (2, "")
    _told(
        found.err, "bad.yaml: spec.rules: Invalid value: 5", "pod.yaml: metadata.labels[a]", "gone.yaml: no such file"
    )
    found = berth("policy", "impact", "--cluster", "pods.yaml", "--policies", "bad.yaml")
    assert (found.code, found.out) == (2, "")
    of_pods = ("pods.yaml: document 1: metadata.labels[a]", "pods.yaml: document 3: metadata: ")
    _told(found.err, "bad.yaml: spec.rules: Invalid value: 5", *of_pods)


def test_all_tests_of_policies(berth: Berth) -> None:
    """Files, policies and cases that are wrong are told together."""
    Path("tests").mkdir()
    bad = {"policies": [5, POLICY, "gone.yaml"], "cases": [{"object": {"metadata": 5}}, {"object": POD}]}
    for name in "ab":
        Path(f"tests/{name}.yaml").write_text(yaml.safe_dump(bad))
    found = berth("policy", "test", "tests")
    assert (found.code, found.out) == (2, "")
    starts = ("{0}: policies[0]: ", "tests/gone.yaml: no such file", "{0}: cases[0].", "{0}: cases[1].")
    _told(found.err, *dict.fromkeys(start.format(f"tests/{name}.yaml") for name in "ab" for start in starts))
