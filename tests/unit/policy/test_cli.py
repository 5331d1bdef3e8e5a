"""`berth policy` at the command line: answers, exit codes, and one clear line for wrong input."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from podberth.cli.main import run
from tests.unit.policy.build import NAME, QOS, Object, config_map, has, needs, pod, policy, rule

EXAMPLES = Path(__file__).parents[3] / "examples" / "policies"
ROUTE = policy("route", rule(annotations=needs(QOS, "In", "BestEffort"), set_annotations={NAME: "berth"}))
NO_DEBUG = policy("no-debug", rule(needs("debug", "Exists"), reject=True, message="not here"))


class Shell:
    """A directory with files, and what commands print there."""

    def __init__(self, where: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.where = where
        self._capsys = capsys

    def file(self, name: str, *documents: Object | str) -> str:
        """A file of YAML documents, or of text."""
        path = self.where / name
        path.parent.mkdir(parents=True, exist_ok=True)
        texts = [one if isinstance(one, str) else yaml.safe_dump(one) for one in documents]
        path.write_text("---\n".join(texts))
        return str(path)

    def run(self, *words: str) -> tuple[int, str, str]:
        """Exit code, standard output, standard error."""
        code = run(["policy", *words])
        captured = self._capsys.readouterr()
        return code, captured.out, captured.err


@pytest.fixture
def shell(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Shell:
    """A directory to work in."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "160")
    return Shell(tmp_path, capsys)


def test_eval(shell: Shell) -> None:
    """One object: the verdict for people and for machines, code 1 when denied."""
    policies, obj = shell.file("policies.yaml", ROUTE, NO_DEBUG), shell.file("pod.yaml", pod())
    code, out, _ = shell.run("eval", "-f", obj, "--policies", policies)
    assert code == 0
    assert out.splitlines() == [
        "allowed",
        f'  add /metadata/annotations {{"{NAME}":"berth","{QOS}":"BestEffort"}}',
        '  add /spec/schedulerName "berth"',
    ]
    code, out, _ = shell.run("eval", "-f", obj, "--policies", policies, "-o", "json")
    got = json.loads(out)
    assert set(got) == {"allowed", "code", "message", "patch", "object", "warnings"}
    assert got["object"]["spec"]["schedulerName"] == "berth"
    bad = shell.file("bad.yaml", pod({"debug": "1"}))
    code, out, _ = shell.run("eval", "-f", bad, "--policies", policies)
    assert (code, out) == (1, 'denied: MetadataPolicy "no-debug" rules[0]: not here\n')
    code, out, _ = shell.run("eval", "-f", bad, "--policies", policies, "--own-namespace", "team-a")
    assert (code, out) == (0, "allowed\n")
    code, out, _ = shell.run("eval", "-f", bad, "--old", bad, "--policies", policies)
    assert (code, out) == (0, "allowed\n")
    code, out, _ = shell.run("eval", "-f", obj, "--policies", policies, "--profile", "x")
    assert 'warning: no live scheduler "berth"' in out


def test_cases(shell: Shell) -> None:
    """A line out for each line in, with the id; a line that can't be read does not stop the others."""
    cases: list[dict[str, Any]] = [
        {"id": "a", "policies": [NO_DEBUG], "operation": "CREATE", "object": config_map({"debug": "1"})},
        {"id": 2, "policies": [], "operation": "DELETE", "object": None},
    ]
    good = shell.file("cases.jsonl", "\n".join(map(json.dumps, cases)))
    code, out, err = shell.run("eval", "--cases", good)
    first, second = map(json.loads, out.splitlines())
    assert (code, err) == (0, "")
    assert (first["id"], first["got"]["code"], first["got"]["object"]) == ("a", 403, cases[0]["object"])
    assert (second["id"], second["got"]["allowed"], second["got"]["object"]) == (2, True, None)
    mixed = shell.file("mixed.jsonl", "\n".join(["{", json.dumps({"id": "b"}), json.dumps(cases[1])]))
    code, out, err = shell.run("eval", "--cases", mixed)
    answers = [json.loads(line) for line in out.splitlines()]
    assert code == 2
    assert [(one["id"], "got" in one) for one in answers] == [("line 1", False), ("b", False), (2, True)]
    assert err.splitlines()[1] == f"berth: {mixed}: line 2: object: Required value"
    more = shell.file("more.jsonl", json.dumps({**cases[0], "options": {"Stamp": True}}))
    code, out, err = shell.run("eval", "--cases", more)
    assert (code, json.loads(out)["got"]["code"]) == (0, 403)
    assert err == f"berth: {more}: line 1: options.Stamp: Unknown field: did you mean stamp?; left out\n"


def test_lint(shell: Shell) -> None:
    """Findings with their examples, code 1; nothing found, code 0."""
    clash = policy("clash", rule(set_labels={"a": "x"}), rule(has(b="1"), set_labels={"a": "y"}), mode="observe")
    bad = policy("bad", rule(set_labels={"k8s.io/x": "y"}))
    code, out, _ = shell.run("lint", shell.file("p.yaml", clash, bad))
    assert code == 1
    assert "conflicting-writes" in out
    assert "invalid" in out
    assert out.endswith("2 policies, 2 findings\n")
    assert shell.run("lint", "no\nfile.yaml") == (2, "", "berth: no�file.yaml: no such file or directory\n")
    code, out, _ = shell.run("lint", shell.file("p.yaml", clash, bad), "-o", "json")
    found = json.loads(out)
    assert [one["kind"] for one in found["findings"]] == ["invalid", "conflicting-writes"]
    assert found["findings"][1]["example"]["metadata"]["labels"] == {"b": "1"}
    assert shell.run("lint", shell.file("fine.yaml", NO_DEBUG)) == (0, "1 policy, nothing found\n", "")
    code, out, _ = shell.run("lint", shell.file("fine.yaml", ROUTE), "--profile", "default-scheduler")
    assert (code, "no-live-scheduler" in out) == (1, True)
    owner = shell.file("owner.yaml", policy("p", rule(set_labels={"app": "x"})))
    code, out, _ = shell.run("lint", owner, "--owner-selector", '{"matchLabels": {"app": "web"}}')
    assert (code, "owner-selector" in out) == (1, True)


def test_lint_knows_the_kinds_of_kubernetes(shell: Shell) -> None:
    """A kind that no API server has is told, with the one that was meant."""
    shell.file("kinds.yaml", policy("p", rule(kinds=["Pod", "Deployments.apps", "Queue.example.com"], reject=True)))
    code, out, _ = shell.run("lint", "kinds.yaml", "-o", "json")
    found = [(one["kind"], one["message"]) for one in json.loads(out)["findings"]]
    told = 'MetadataPolicy "p" rules[0] applies to Deployments.apps: Kubernetes has no such kind: did you mean '
    assert (code, found) == (1, [("unknown-kind", f"{told}Deployment.apps?")])


def test_lint_looks_at_namespaces_apart(shell: Shell) -> None:
    """Policies of different namespaces never meet; one without a namespace meets all."""
    one = policy("one", rule(set_labels={"a": "x"}), namespace="n1")
    other = policy("other", rule(set_labels={"a": "y"}), namespace="n2")
    assert shell.run("lint", shell.file("apart.yaml", one, other))[0] == 0
    everywhere = policy("any", rule(has(c="1"), set_labels={"a": "z"}))
    _, out, _ = shell.run("lint", shell.file("all.yaml", one, other, everywhere), "-o", "json")
    pairs = [found["policies"] for found in json.loads(out)["findings"] if found["kind"] == "conflicting-writes"]
    assert pairs == [["any", "one"], ["any", "other"]]


def test_impact(shell: Shell) -> None:
    """What policies would do to a dump, whatever their mode."""
    quiet = {**NO_DEBUG, "spec": {**NO_DEBUG["spec"], "mode": "observe"}}
    policies = shell.file("policies.yaml", ROUTE, quiet)
    namespace: Object = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team-a"}}
    items = [pod(), pod({"debug": "1"}), pod(schedulerName="berth"), config_map({"debug": "1"}), namespace]
    dump = shell.file("dump.yaml", {"apiVersion": "v1", "kind": "List", "items": items})
    code, out, _ = shell.run("impact", "--policies", policies, "--cluster", dump, "-o", "json")
    found = json.loads(out)
    assert code == 1
    assert found["total"] == {"objects": 5, "exempt": 1, "rejected": 2, "relabelled": 2}
    assert found["kinds"]["Pod"] == {"objects": 3, "exempt": 0, "rejected": 1, "relabelled": 2}
    assert found["policies"] == {
        "no-debug": {"rejected": 2, "relabelled": 0},
        "route": {"rejected": 0, "relabelled": 2},
    }
    assert found["schedulers"] == {"berth": {"berth": 1}, "default-scheduler": {"berth": 1}}
    assert found["rejections"][0]["message"] == 'MetadataPolicy "no-debug" rules[0]: not here'
    _, out, _ = shell.run("impact", "--policies", policies, "--cluster", dump, "--profile", "other")
    assert out.startswith("5 objects: 2 would be rejected, 2 relabelled, 1 exempt\n")
    assert 'warning for 2 objects: no live scheduler "berth": the pod will wait until there is one' in out
    code, out, _ = shell.run("impact", "--policies", policies, "--cluster", dump, "-n", "elsewhere")
    assert (code, out.startswith("0 objects")) == (0, True)


def nowhere(obj: Object) -> Object:
    """The object as a file may have it: without a namespace."""
    return {**obj, "metadata": {key: value for key, value in obj["metadata"].items() if key != "namespace"}}


def test_one_namespace(shell: Shell) -> None:
    """-n means the same for one object, for a cluster and for policies alone: what is in it, or names none."""
    there = policy("there", rule(has(debug="1"), reject=True, message="no"), namespace="team-a")
    other = policy("other", rule(reject=True, message="never"), namespace="team-b")
    both = shell.file("both.yaml", there, other)
    for obj, namespace, code in (
        (pod({"debug": "1"}), "team-a", 1),
        (nowhere(pod({"debug": "1"})), "team-a", 1),
        (nowhere(pod()), "team-a", 0),
        (nowhere(pod()), "team-b", 1),
        (nowhere(pod()), "team-c", 0),
    ):
        file = shell.file("one.yaml", obj)
        assert shell.run("eval", "-f", file, "--policies", both, "-n", namespace)[0] == code
        assert shell.run("impact", "--cluster", file, "--policies", both, "-n", namespace)[0] == code
    node: Object = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}}
    dump = shell.file("dump.yaml", nowhere(pod()), pod(), config_map(), node)
    _, out, _ = shell.run("impact", "--cluster", dump, "--policies", both, "-n", "team-a", "-o", "json")
    found = json.loads(out)
    assert (found["total"]["objects"], set(found["policies"])) == (3, {"there"})
    clash = policy("clash", rule(set_labels={"a": "x"}), rule(set_labels={"a": "y"}), namespace="team-b")
    broken = policy("broken", {"policyAction": {"reject": "yes"}}, namespace="team-b")
    files = shell.file("lint.yaml", there, clash, broken)
    assert shell.run("lint", files)[0] == 1
    assert shell.run("lint", files, "-n", "team-a") == (0, "1 policy, nothing found\n", "")
    code, out, _ = shell.run("lint", files, "-n", "team-b", "-o", "json")
    assert (code, {name for one in json.loads(out)["findings"] for name in one["policies"]}) == (1, {"clash", "broken"})


def test_an_object_of_another_namespace(shell: Shell) -> None:
    """-n does not move an object: one line says what does not fit."""
    policies, obj = shell.file("policies.yaml", NO_DEBUG), shell.file("pod.yaml", pod())
    code, out, err = shell.run("eval", "-f", obj, "--policies", policies, "-n", "team-b")
    assert (code, out) == (2, "")
    assert err == f'berth: {obj}: metadata.namespace: "team-a": expected team-b, as --namespace says\n'
    elsewhere = shell.file("elsewhere.yaml", {**NO_DEBUG, "metadata": {"name": "no-debug", "namespace": "team-b"}})
    code, out, err = shell.run("eval", "-f", obj, "--policies", elsewhere)
    assert (code, out.splitlines()[0]) == (0, "allowed")
    assert err == "berth: MetadataPolicy no-debug is in namespace team-b, and does not apply in team-a\n"


def test_shared_options(shell: Shell) -> None:
    """What is reserved, who is served and by what owners find their objects is said alike to all three commands."""
    policies = shell.file("policies.yaml", policy("p", rule(set_labels={"app": "x", "mine.example/a": "b"})))
    obj = shell.file("pod.yaml", pod({"app": "web"}))
    one = ("eval", "-f", obj, "--policies", policies)
    all_of_them = ("impact", "--cluster", obj, "--policies", policies)
    for options, said in (
        (("--owner-selector", '{"matchLabels": {"app": "web"}}'), "owner"),
        (("--reserve-prefix", "mine.example/"), "reserved"),
    ):
        for words in (one, all_of_them, ("lint", policies)):
            assert said in shell.run(*words, *options)[1]
    route = shell.file("route.yaml", ROUTE)
    for words in (("eval", "-f", obj, "--policies", route), ("impact", "--cluster", obj, "--policies", route)):
        assert "no live scheduler" in shell.run(*words, "--profile", "other")[1]
        assert "no live scheduler" not in shell.run(*words, "--profile", "berth")[1]
    assert shell.run("lint", route, "--profile", "other")[0] == 1
    assert shell.run("lint", route, "--profile", "berth")[0] == 0


def test_impact_names_owners_that_lose_what_they_make(shell: Shell) -> None:
    """In a dump that has the owners."""
    policies = shell.file("policies.yaml", policy("relabel", rule(has(app="web"), set_labels={"app": "other"})))
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": []}}
    owner: Object = {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {"name": "web", "namespace": "team-a", "uid": "u", "labels": {"app": "other"}},
        "spec": {"selector": {"matchLabels": {"app": "web"}}, "template": template},
    }
    dump = shell.file("dump.yaml", {"apiVersion": "v1", "kind": "List", "items": [pod({"app": "web"}), owner]})
    code, out, _ = shell.run("impact", "--policies", policies, "--cluster", dump)
    assert code == 1
    told = 'ReplicaSet team-a/web would not find what it makes: relabel writes label app="other"'
    assert told in out.splitlines()


def test_documented_commands(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    """What docs/policy.md shows is what the commands print."""
    root = EXAMPLES.parents[1]
    monkeypatch.chdir(root)
    monkeypatch.setenv("COLUMNS", "120")
    blocks = re.findall(r"```console\n\$ berth policy (.*)\n((?:.*\n)*?)```", (root / "docs" / "policy.md").read_text())
    assert len(blocks) == 3
    for words, shown in blocks:
        assert shell.run(*words.split())[1] == shown


@pytest.mark.parametrize("example", sorted(path.name for path in EXAMPLES.iterdir() if path.is_dir()))
def test_examples(shell: Shell, example: str) -> None:
    """Each example passes its own tests, and lint has nothing to say about it, alone or with the others."""
    code, out, _ = shell.run("test", str(EXAMPLES / example))
    assert (code, "0 failed" in out) == (0, True)
    assert shell.run("lint", str(EXAMPLES / example / "policy.yaml"))[0] == 0
    assert shell.run("lint", *map(str, EXAMPLES.glob("*/policy.yaml")))[0] == 0


def test_a_test_may_allow_prefixes(shell: Shell) -> None:
    """The policy writes a label that is Kubernetes' own: a case says that the cluster allows it, as the operator's."""
    label = {"topology.kubernetes.io/rack": "a"}
    case = {"name": "racks", "object": config_map(), "expect": {"labels": label}}
    allowed = {**case, "options": {"allowedPrefixes": ["topology.kubernetes.io/"]}}
    writes = policy("p", rule(set_labels=label))
    shell.file("allowed/all.yaml", {"policies": [writes], "cases": [allowed]})
    assert shell.run("test", "allowed")[:2] == (0, "✓ allowed/all.yaml: racks\n1 passed, 0 failed\n")
    shell.file("not/all.yaml", {"policies": [writes], "cases": [case]})
    code, _, said = shell.run("test", "not")
    assert code == 2
    assert "not/all.yaml: policies[0]: spec.rules[0].policyAction.updatedLabels" in said


def test_test_failures(shell: Shell) -> None:
    """A case that fails says what differs, and the exit code is 1."""
    expected = {
        "allowed": False,
        "code": 403,
        "changed": False,
        "message": "because",
        "labels": {"a": "x", "c": None},
        "annotations": {"n": "m"},
        "schedulerName": "berth",
        "warnings": ["something"],
    }
    case = {"name": "wrong", "object": config_map({"c": "d"}), "expect": expected}
    writes = policy("p", rule(set_labels={"a": "b"}))
    shell.file("tests/all.yaml", {"policies": [writes], "cases": [case, {**case, "expect": {"allowed": True}}]})
    code, out, _ = shell.run("test", "tests")
    assert code == 1
    assert out.splitlines() == [
        "✗ tests/all.yaml: wrong",
        "    allowed: want false, got true",
        "    code: want 403, got 200",
        "    changed: want false, got true",
        '    message: want a text with "because", got ""',
        '    labels[a]: want "x", got "b"',
        '    labels[c]: want none, got "d"',
        '    annotations[n]: want "m", got none',
        '    schedulerName: want "berth", got none',
        '    warnings: want one with "something", got []',
        "✓ tests/all.yaml: wrong",
        "1 passed, 1 failed",
    ]


def test_wrong_input(shell: Shell) -> None:
    """One line that names file, field, value and what was expected; exit code 2."""
    good, obj = shell.file("good.yaml", NO_DEBUG), shell.file("obj.yaml", pod())
    reject = policy("p", {"policyPredicate": {}, "policyAction": {"reject": "yes"}})
    misspelt = policy("p", {"policyAction": {"reject": True}}, namespace="team")
    all_of_it = shell.file("all.yaml", misspelt)
    required = "spec.rules[0].policyPredicate: Required value"
    tests = {
        "t1": "policies: x\ncases: []\n",
        "t2": "policies: [gone.yaml]\ncases: []\n",
        "t3": yaml.safe_dump({"policies": [reject], "cases": []}),
        "t8": yaml.safe_dump({"policies": [misspelt], "cases": []}),
        "t4": yaml.safe_dump({"policies": [NO_DEBUG], "cases": [{"object": {}, "expect": {"denied": True}}]}),
        "t5": yaml.safe_dump({"policies": [NO_DEBUG], "cases": [{"object": {}}]}),
        "t6": yaml.safe_dump({"policies": [NO_DEBUG], "cases": [{"object": {"metadata": 1}, "expect": {}}]}),
        "t7": yaml.safe_dump({"policies": [NO_DEBUG], "cases": [{"object": {}, "options": {"x": 1}, "expect": {}}]}),
    }
    for name, text in tests.items():
        shell.file(f"{name}/test.yaml", text)
    wrong = {
        ("eval",): "give an object with -f FILE and policies with --policies FILE, or --cases FILE",
        ("eval", "-f", "gone", "--policies", good): "gone: no such file or directory",
        ("eval", "-f", obj, "--policies", "gone"): "gone: no such file or directory",
        ("eval", "-f", obj, "--policies", obj): f'{obj}: kind: "Pod": expected MetadataPolicy',
        (
            "eval",
            "-f",
            obj,
            "--policies",
            shell.file("reject.yaml", NO_DEBUG, reject),
        ): f"{shell.where}/reject.yaml: document 2: spec.rules[0].policyAction.reject: "
        'Invalid value: "yes": want true or false',
        (
            "eval",
            "-f",
            shell.file("labels.yaml", {"kind": "Pod", "metadata": {"labels": {"a": 1}}}),
            "--policies",
            good,
        ): f"{shell.where}/labels.yaml: metadata.labels[a]: Invalid value: 1: want a text",
        ("eval", "-f", shell.file("two.yaml", pod(), pod()), "--policies", good): (
            f"{shell.where}/two.yaml: expected one object, got 2"
        ),
        (
            "eval",
            "-f",
            obj,
            "--policies",
            good,
            "--owner-selector",
            "{",
        ): '--owner-selector: "{": expected a JSON object',
        ("eval", "--cases", "gone"): "gone: no such file or directory",
        ("lint", shell.file("empty.yaml", "")): f"{shell.where}/empty.yaml: is empty: "
        "expected API objects as `kubectl get nodes,pods,namespaces -A -o yaml` prints them",
        ("lint", good, "--owner-selector", "app=web"): '--owner-selector: "app=web": expected a JSON object',
        ("impact", "--policies", good, "--cluster", "gone"): "gone: no such file or directory",
        ("test", "gone"): "gone: expected a directory",
        ("test", str(Path(shell.file("dir/x.txt", "")).parent)): (
            f"{shell.where}/dir: holds no test: expected YAML files with `policies` and `cases`"
        ),
        ("test", "t1"): "t1/test.yaml: policies: want a list of files, or of MetadataPolicies",
        ("test", "t2"): "t2/gone.yaml: no such file or directory",
        ("test", "t3"): "t3/test.yaml: policies[0]: spec.rules[0].policyAction.reject: "
        'Invalid value: "yes": want true or false',
        ("test", "t8"): f"t8/test.yaml: policies[0]: {required}",
        ("eval", "-f", obj, "--policies", all_of_it): f"{all_of_it}: {required}",
        ("impact", "--policies", all_of_it, "--cluster", obj): f"{all_of_it}: {required}",
        ("compile", "-f", all_of_it): f"{all_of_it}: {required}",
        ("test", "t4"): "t4/test.yaml: cases[0].expect.denied: Unknown field: want allowed, code, message, labels, "
        "annotations, schedulerName, warnings, changed",
        ("test", "t5"): "t5/test.yaml: cases[0].expect: Required value",
        ("test", "t6"): "t6/test.yaml: cases[0].object.metadata: want a map, got a number",
        (
            "test",
            "t7",
        ): "t7/test.yaml: cases[0].options.x: Unknown field: want allowedPrefixes, "
        "liveSchedulers, namespace, ownNamespace, ownerSelector, pass, reserveKnown, reservedPrefixes, "
        "stamp, subResource, userInfo",
    }
    for words, line in wrong.items():
        code, out, err = shell.run(*words)
        assert (code, out, err) == (2, "", f"berth: {line}\n"), words


def test_a_directory_may_hold_other_things(shell: Shell) -> None:
    """A pod beside the policies is passed over; one that is named is refused."""
    shell.file("some/policies.yaml", ROUTE, NO_DEBUG)
    obj = shell.file("some/pod.yaml", pod())
    code, out, err = shell.run("lint", str(shell.where / "some"))
    assert (code, err) == (0, "")
    assert out.startswith("2 policies")
    assert shell.run("lint", obj)[0] == 2


def test_a_directory_is_read_with_what_is_below_it(shell: Shell) -> None:
    """Every command reads the same files: what is hidden is left out, and so are tests, which have no kind."""
    shell.file("some/a.yaml", ROUTE)
    shell.file("some/below/b.yml", NO_DEBUG)
    shell.file("some/.git/c.yaml", policy("hidden", rule(reject=True)))
    shell.file("some/below/tests/t.yaml", {"policies": ["../b.yml"], "cases": [{"object": pod(), "expect": {}}]})
    assert shell.run("lint", "some")[1].startswith("2 policies")
    assert shell.run("compile", "-f", "some", "-n", "shop")[1].count("no-debug") == 2
    obj = shell.file("bad.yaml", pod({"debug": "1"}))
    assert shell.run("eval", "-f", obj, "--policies", "some")[0] == 1
    _, out, _ = shell.run("impact", "--policies", "some", "--cluster", obj, "-o", "json")
    assert sorted(json.loads(out)["policies"]) == ["no-debug", "route"]
    assert shell.run("test", "some")[1].endswith("1 passed, 0 failed\n")
