"""`berth explain --pending`, owners and selectors as arguments."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.builders import namespace, node, pod
from tests.storage import claim, csi_node, storage_class, using
from tests.unit.cli.conftest import Berth
from tests.unit.explain.report.test_page import Checked

Object = dict[str, Any]


def owned(made: Object, kind: str, name: str) -> Object:
    """A pod of a controller."""
    made["metadata"]["ownerReferences"] = [{"kind": kind, "name": name, "uid": name, "controller": True}]
    return made


@pytest.fixture
def dump(berth: Berth) -> str:
    """Pods that wait for several reasons, in two namespaces."""
    waiting = [owned(pod(f"big-{i}", "9", labels={"app": "big"}), "ReplicaSet", "big-5f6") for i in range(3)]
    waiting += [owned(pod("new-0", "9", labels={"app": "new"}), "Job", "new")]
    waiting += [owned(pod("ssd-0", select={"disk": "ssd"}, labels={"app": "ssd"}), "StatefulSet", "ssd")]
    waiting += [owned(pod("far-0", "9", namespace="other"), "StatefulSet", "far")]
    waiting += [pod("lost", scheduler="nobody", namespace="other"), pod("gated", gates=["x"], namespace="other")]
    placed = owned(pod("runs-0", on="a"), "StatefulSet", "runs")
    objects = [namespace("default"), namespace("other"), node("a"), node("b", cordoned=True), placed, *waiting]
    Path("dump.json").write_text(json.dumps({"kind": "List", "items": objects}))
    return "dump.json"


def causes(found: str) -> dict[str, int]:
    """Cause → pods."""
    return {each["cause"]: each["pods"] for each in json.loads(found)["causes"]}


def test_all_that_waits(berth: Berth, dump: str) -> None:
    """Pods of one cause are told together, with their owners and what would free one."""
    found = berth("explain", "--pending", "-A", "--cluster", dump)
    assert found.code == 1
    assert found.out.startswith("8 pods wait, for 4 causes\n")
    assert "label a disk=ssd" in found.out
    told = json.loads(berth("explain", "--pending", "-A", "--cluster", dump, "-o", "json").out)
    assert sum(each["pods"] for each in told["causes"]) == told["pods"] == 8
    first = told["causes"][0]
    assert (first["pods"], first["owners"]) == (
        5,
        {"ReplicaSet default/big-5f6": 3, "Job default/new": 1, "StatefulSet other/far": 1},
    )
    assert "Insufficient cpu" in first["cause"]
    assert "waits for a scheduler that nobody seems to run: nobody" in causes(json.dumps(told))
    assert [each["text"] for each in told["changes"]] == ["label a disk=ssd"]


@pytest.mark.parametrize(
    ("arguments", "pods"),
    [
        (["--pending"], 5),
        (["--pending", "-n", "other"], 3),
        (["deploy/big"], 3),
        (["deployment/big", "-n", "default"], 3),
        (["rs/big-5f6"], 3),
        (["job/new"], 1),
        (["sts/ssd"], 1),
        (["-l", "app in (big,new)"], 4),
        (["-l", "app=none"], 0),
        (["sts/runs"], 0),
        (["jobs.batch/new"], 1),
        (["Deployment.v1.apps/big"], 3),
        (["sts/far"], 1),
    ],
)
def test_some(berth: Berth, dump: str, arguments: list[str], pods: int) -> None:
    """Of a namespace, an owner, or with labels; 0 when none of them waits."""
    found = berth("explain", *arguments, "--cluster", dump, "-o", "json")
    assert json.loads(found.out)["pods"] == pods
    assert found.code == (1 if pods else 0)


def test_page(berth: Berth, dump: str) -> None:
    """Self-contained and balanced."""
    page = berth("explain", "--pending", "-A", "--cluster", dump, "-o", "html").out
    checked = Checked()
    checked.feed(page)
    assert (checked.open, checked.loads) == ([], ["data:,"])
    assert "8 pods wait, for 4 causes" in page


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["deploy/bg"], "Deployment bg: no pod in any namespace is owned by it (did you mean big?)"),
        (["deploy/bg", "-n", "default"], "Deployment bg: no pod in namespace default is owned by it (did you mean big"),
        (
            ["deploy/big", "-n", "other"],
            "Deployment big: no pod in namespace other is owned by it; there is one in def",
        ),
        (["web", "--pending"], "--pending and -l are about pods that wait"),
        (["--pending", "-A", "-n", "x"], "-n and -A: expected one of them"),
        (["-l", "a b"], '--selector: "a b": '),
        ([], "name a pod, give one with -f FILE, or ask about all with --pending"),
    ],
)
def test_refused(berth: Berth, dump: str, arguments: list[str], said: str) -> None:
    """One line, exit code 2."""
    found = berth("explain", *arguments, "--cluster", dump)
    assert (found.code, found.out) == (2, "")
    assert found.err.startswith(f"berth: {said}")
    assert len(found.err.splitlines()) == 1


@pytest.mark.parametrize(("selector", "said"), [("app=nowhere", True), ("app=web", False)])
def test_labels_that_no_pod_has(berth: Berth, dump: str, selector: str, said: bool) -> None:
    """They are told apart from labels of pods that have their nodes."""
    Path("more.json").write_text(json.dumps(pod("placed", "1", labels={"app": "web"}, on="a")), encoding="utf-8")
    found = berth("explain", "-l", selector, "-A", "--cluster", dump, "--cluster", "more.json", "-o", "json")
    assert (f"no pod at all has these labels: {selector}" in json.loads(found.out)["notes"]) is said


def test_an_owner_of_two_namespaces(berth: Berth, dump: str) -> None:
    """As with the name of a pod: the usual namespace counts, and else -n has to say which."""
    twins = [owned(pod("t-0", "9", namespace=space), "StatefulSet", "t") for space in ("one", "two")]
    Path("twins.json").write_text(json.dumps({"kind": "List", "items": twins}))
    found = berth("explain", "sts/t", "--cluster", dump, "--cluster", "twins.json")
    assert (found.code, found.out) == (2, "")
    assert found.err == "berth: StatefulSet t: there is one in one, two: say which with -n\n"
    here = owned(pod("t-0", "9"), "StatefulSet", "t")
    Path("here.json").write_text(json.dumps(here))
    files = ("--cluster", dump, "--cluster", "twins.json", "--cluster", "here.json")
    assert json.loads(berth("explain", "sts/t", *files, "-o", "json").out)["pods"] == 1
    assert json.loads(berth("explain", "sts/t", "-A", *files, "-o", "json").out)["pods"] == 3


def test_a_namespace_that_is_not_there(berth: Berth, dump: str) -> None:
    """No pod waits in it, and that is not the news."""
    found = berth("explain", "--pending", "-n", "othr", "--cluster", dump, "-o", "json")
    said = "no pod waits in the namespace othr, which does not exist (did you mean other?); in all namespaces (-A): 8"
    assert (found.code, json.loads(found.out)["notes"]) == (0, [said])


def test_an_owner_whose_pods_all_run(berth: Berth, dump: str) -> None:
    """That none waits is good news, and it says whose."""
    found = berth("explain", "sts/runs", "--cluster", dump, "-o", "json")
    assert (found.code, json.loads(found.out)["notes"]) == (0, ["StatefulSet default/runs: all its pods have nodes"])


def test_a_word_that_is_no_kind_and_no_namespace(berth: Berth, dump: str) -> None:
    """`svc/web` is the pod web of the namespace svc, which is not there."""
    found = berth("explain", "svc/web", "--cluster", dump)
    said = "svc is no namespace there, and no kind whose pods are known (deploy, rs, sts, ds, job, cj, rc)"
    assert (found.code, found.err) == (2, f"berth: svc/web: no such pod in dump.json: {said}\n")


def test_the_table_names_the_command_that_says_more(berth: Berth, dump: str) -> None:
    """Commands to copy are not in the table of causes."""
    found = berth("explain", "--pending", "-A", "--cluster", dump)
    assert "berth explain default/big-0 says more of one pod, with commands" in found.out


def test_pods_are_together_if_one_change_frees_each(berth: Berth) -> None:
    """Two pods that no node suits by its labels wait for one cause; what frees one does nothing for the other."""
    amounts = {"cpu": "4", "memory": "8Gi", "pods": "110"}
    node = {"kind": "Node", "metadata": {"name": "n1"}, "status": {"allocatable": amounts}}
    made = [{"apiVersion": "v1", **node}]
    for name, label in (("arm-0", "arch"), ("arm-1", "arch"), ("extra-a", "disk")):
        spec = {"schedulerName": "berth", "nodeSelector": {label: "other"}, "containers": [{"name": "c", "image": "i"}]}
        pod = {"kind": "Pod", "metadata": {"name": name, "namespace": "shop", "uid": name}, "spec": spec}
        made.append({"apiVersion": "v1", **pod, "status": {"phase": "Pending"}})
    Path("two.json").write_text(json.dumps({"kind": "List", "items": made}))
    causes = json.loads(berth("explain", "--pending", "-A", "--cluster", "two.json", "-o", "json").out)["causes"]
    found = {tuple(cause["owners"]): [remedy["text"] for remedy in cause["remedies"]] for cause in causes}
    assert found == {
        ("Pod shop/arm-0", "Pod shop/arm-1"): ["drop nodeSelector arch=other", "label n1 arch=other"],
        ("Pod shop/extra-a",): ["drop nodeSelector disk=other", "label n1 disk=other"],
    }


def test_what_is_wrong_with_the_claims_of_the_example(berth: Berth) -> None:
    """The storage class that a claim names by mistake is named, as it is of one pod, in each form of the answer."""
    objects: list[Object] = [node("a"), storage_class("fast", "csi.test"), csi_node("a", csi_test=8)]
    for i in range(2):
        objects += [claim(f"data-{i}", storage_class="fasst"), using(pod(f"db-{i}"), f"data-{i}")]
    Path("dump.json").write_text(json.dumps({"kind": "List", "items": objects}))
    said = "the claim data-0 of this pod names the storage class fasst, which does not exist; did you mean fast?"
    (cause,) = json.loads(berth("explain", "--pending", "--cluster", "dump.json", "-o", "json").out)["causes"]
    assert (cause["cause"], cause["pods"]) == ("pod has unbound immediate PersistentVolumeClaims", 2)
    assert (cause["example"], cause["detail"]) == ("default/db-0", said)
    assert said in " ".join(berth("explain", "db-0", "--cluster", "dump.json").out.split())
    page = berth("explain", "--pending", "--cluster", "dump.json", "-o", "html").out.replace("<wbr>", "")
    for shown in (berth("explain", "--pending", "--cluster", "dump.json").out, page):
        assert "storage class" in shown and "did you mean fast?" in " ".join(shown.split())


def test_pods_that_a_placed_pod_keeps_away_are_apart(berth: Berth) -> None:
    """They ask for what others ask for, and only they wait for that cause."""
    waiting = [pod("web-0", "1", labels={"app": "web"}), pod("job-0", "1", labels={"app": "job"})]
    objects = [node("a"), pod("db", on="a", apart=["app=web per host"]), *waiting]
    Path("dump.json").write_text(json.dumps({"kind": "List", "items": objects}))
    assert causes(berth("explain", "--pending", "--cluster", "dump.json", "-o", "json").out) == {
        "node(s) didn't satisfy existing pods anti-affinity rules": 1,
        "fits: its scheduler has not placed it yet": 1,
    }


def test_a_pod_for_which_a_node_is_kept_is_apart(berth: Berth) -> None:
    """Its victim is gone: it fits, and another of its kind does not."""
    nominated = pod("vip-0", "1", status={"nominatedNodeName": "a"}, priority=1)
    objects = [node("a", "1"), nominated, pod("vip-1", "1", priority=1)]
    Path("dump.json").write_text(json.dumps({"kind": "List", "items": objects}))
    found = causes(berth("explain", "--pending", "--cluster", "dump.json", "-o", "json").out)
    assert found["fits: its scheduler has not placed it yet"] == 1
    assert sum(found.values()) == 2


def test_pods_that_differ_in_a_number_are_explained_once(berth: Berth, monkeypatch: pytest.MonkeyPatch) -> None:
    """An Indexed Job's pods have labels of their own, of which nothing takes notice."""
    monkeypatch.setattr("podberth.explain.pending.MOST", 1)
    index = "batch.kubernetes.io/job-completion-index"
    pods = [owned(pod(f"job-{i}", "9", labels={index: str(i)}), "Job", "job") for i in range(3)]
    objects = [node("a"), pod("db", on="a", apart=["app=web per host"]), *pods]
    Path("dump.json").write_text(json.dumps({"kind": "List", "items": objects}))
    told = json.loads(berth("explain", "--pending", "--cluster", "dump.json", "-o", "json").out)
    assert (causes(json.dumps(told)), told["notExplained"]) == ({"Insufficient cpu": 3}, 0)
