"""Test cases in scheduler_perf's form: the steps that they come to, and what is refused with its place in the file."""

from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from podberth.testing.workloads.scheduler_perf import Case, chosen_by, read_cases
from podberth.testing.workloads.workload import WorkloadError

NODES = {"opcode": "createNodes", "countParam": "$nodes"}
PODS = {"opcode": "createPods", "count": 4, "collectMetrics": True}
POD = """
apiVersion: v1
kind: Pod
metadata:
  generateName: pod-
  labels: {type: {{.type}}}
spec:
  priority: 7
  affinity:
    podAffinity:
      requiredDuringSchedulingIgnoredDuringExecution:
      - {topologyKey: zone, namespaces: [first, default], labelSelector: {}}
  containers:
  - name: pause
    image: pause
    ports: [{hostPort: 8{{Mod .Index 12}}}]
"""
NODE = """
apiVersion: v1
kind: Node
metadata: {name: "node-{{.Index}}", labels: {was: here}}
status: {capacity: {pods: "9"}}
"""
PLAIN = {"volume": "PersistentVolume", "claim": "PersistentVolumeClaim", "service": "Service"}


@pytest.fixture(autouse=True)
def manifests(tmp_path: Path) -> None:
    """What the files name."""
    (tmp_path / "pod.yaml").write_text(POD)
    (tmp_path / "node.yaml").write_text(NODE)
    (tmp_path / "changed.yaml").write_text(NODE.replace(", labels: {was: here}", "").replace("status", "spec"))
    (tmp_path / "secret.yaml").write_text("apiVersion: v1\nkind: Secret\nmetadata: {name: s}\n")
    for name, kind in PLAIN.items():
        (tmp_path / f"{name}.yaml").write_text(f"apiVersion: v1\nkind: {kind}\nmetadata: {{generateName: a-}}\n")


def file(*operations: Any, **more: Any) -> bytes:
    """A file of one test case with one workload."""
    sized = {"name": "small", "params": {"nodes": 3, "name": "x"}, **more.pop("sized", {})}
    case = {"name": "Case", "workloadTemplate": list(operations), "workloads": [sized], **more}
    return yaml.safe_dump([case]).encode()


def steps(tmp_path: Path, *operations: Any, **more: Any) -> list[dict[str, Any]]:
    """The steps of the one workload, without what is not set, as a file of ours would have them."""
    (case,) = read_cases(file(*operations, **more), tmp_path, chosen_by("", []))
    found = msgspec.to_builtins(case.workload)["steps"]
    given = [{key: value for key, value in step.items() if value is not None} for step in found]
    return [dict([next(iter(step.items()))]) for step in given]


def test_pods_of_a_template(tmp_path: Path) -> None:
    """Places, numbers, namespaces of the run, priorities as classes, and scheduler_perf's own label."""
    asked = {**PODS, "podTemplatePath": "pod.yaml", "templateParams": {"type": "$type|plain"}, "namespace": "first"}
    nodes, *others = steps(tmp_path, NODES, asked)[::-1][::-1]
    assert nodes["createObjects"]["object"] == {
        "kind": "PriorityClass",
        "metadata": {"name": "$(run)-priority-7"},
        "value": 7,
    }
    pods = others[-1]["createPods"]
    assert (pods["count"], pods["namespace"], pods["measured"], pods["awaited"]) == (4, "first", True, True)
    assert pods["pod"]["metadata"] == {"labels": {"type": "plain", "signature": "signature-label-$(i)"}}
    spec = pods["pod"]["spec"]
    assert (spec["priorityClassName"], "priority" in spec) == ("$(run)-priority-7", False)
    assert spec["containers"][0]["ports"] == [{"hostPort": "$int(8)$(i % 12)"}]
    (term,) = spec["affinity"]["podAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert term["namespaces"] == ["$(run)-first", "default"]


def test_nodes_are_prepared(tmp_path: Path) -> None:
    """Values of a label in turn, room, and CSINodes; a node has nothing that its template does not have."""
    labelled = {**NODES, "labelNodePrepareStrategy": {"labelKey": "zone", "labelValues": ["a", "b"]}}
    first, second, *_ = steps(tmp_path, {**labelled, "nodeTemplatePath": "node.yaml"}, PODS)
    assert [one["createNodes"]["count"] for one in (first, second)] == [2, 1]
    node = second["createNodes"]["node"]
    assert node["metadata"]["name"] == "node-$(i * 2 + 1)"
    assert node["metadata"]["labels"] == {
        "topology.kubernetes.io/zone": None,
        "kubernetes.io/hostname": "node-$(i * 2 + 1)",
        "was": "here",
        "zone": "b",
    }
    assert node["status"]["allocatable"] == {"cpu": None, "memory": None, "pods": "9"}
    room = {"nodeAllocatable": {"a/b": "2"}, "csiNodeAllocatable": {"csi": {"count": 2}}, "migratedPlugins": ["m"]}
    nodes, of_csi, *_ = steps(tmp_path, {**NODES, "nodeAllocatableStrategy": room}, PODS)
    assert nodes["createNodes"]["node"]["status"] == {"allocatable": {"a/b": "2"}}
    assert of_csi["createObjects"]["object"]["spec"]["drivers"] == [
        {"name": "csi", "nodeID": "$(pool)-node-0-$(i)", "allocatable": {"count": 2}}
    ]


def test_operations_become_steps(tmp_path: Path) -> None:
    """Each operation that there is, in its order; namespaces come first."""
    later = {"opcode": "createPods", "count": 2, "skipWaitToCompletion": True}
    found = steps(
        tmp_path,
        NODES,
        {"opcode": "createNamespaces", "prefix": "ns", "count": 2},
        {"opcode": "createAny", "templatePath": "service.yaml", "namespace": "ns-0"},
        {"opcode": "createPodSets", "count": 2, "namespacePrefix": "ns", "createPodsOp": {**later, "count": 1}},
        {"opcode": "churn", "mode": "recreate", "number": 5, "templatePaths": ["service.yaml"]},
        {"opcode": "sleep", "duration": "1m0.5s"},
        {"opcode": "barrier", "stageRequirement": "Attempted", "labelSelector": {"a": "b"}},
        {"opcode": "deletePods", "namespace": "ns-0", "deletePodsPerSecond": 9, "skipWaitToCompletion": True},
        {"opcode": "updateAny", "templatePath": "node.yaml", "count": 2, "updatePerSecond": 10},
        {"opcode": "allocResourceClaims"},
        {"opcode": "startCollectingMetrics", "namespaces": ["namespace-11"]},
        later,
        {"opcode": "stopCollectingMetrics"},
        {"opcode": "barrier", "namespaces": ["namespace-11"]},
    )
    assert [next(iter(step)) for step in found] == [
        "createNamespaces",
        "createNodes",
        "createObjects",
        "createPods",
        "createPods",
        "churn",
        "sleep",
        "barrier",
        "deletePods",
        "updateAny",
        "createPods",
        "barrier",
    ]
    by_name = {next(iter(step)): next(iter(step.values())) for step in found}
    assert by_name["createObjects"]["object"]["metadata"] == {"name": "a-2-$(i)"}
    assert [step["createPods"]["waits"] for step in found if "createPods" in step] == [False, False, True]
    assert (by_name["churn"]["interval"], by_name["churn"]["number"], by_name["churn"]["recreate"]) == (0.5, 5, True)
    assert by_name["churn"]["namespace"] == "namespace-4"
    assert by_name["sleep"] == {"seconds": 60.5}
    assert (by_name["deletePods"]["rate"], by_name["deletePods"]["waits"]) == (9.0, False)
    assert by_name["updateAny"]["rate"] == 10
    assert by_name["createPods"]["measured"], "the last is collected"
    assert by_name["barrier"]["namespaces"] == ("namespace-11",)


def test_volumes_are_bound(tmp_path: Path) -> None:
    """A volume and a claim for each pod."""
    paths = {"persistentVolumeTemplatePath": "volume.yaml", "persistentVolumeClaimTemplatePath": "claim.yaml"}
    _, volume, claim, pods = steps(tmp_path, NODES, {**PODS, **paths})
    name = "$(run)-namespace-1-vol-$(i)"
    assert volume["createObjects"]["object"]["metadata"]["name"] == name
    assert claim["createObjects"]["object"]["spec"] == {"volumeName": name}
    assert claim["createObjects"]["object"]["status"] == {"phase": "Bound"}
    assert pods["createPods"]["pod"]["spec"]["volumes"][0]["persistentVolumeClaim"] == {"claimName": "pvc-$(i)"}


def test_an_update_takes_away_what_is_gone(tmp_path: Path) -> None:
    """Upstream replaces the object; here the difference to what was created is merged over it."""
    update = {"opcode": "updateAny", "templatePath": "changed.yaml", "countParam": "$nodes"}
    *_, changed = steps(tmp_path, {**NODES, "nodeTemplatePath": "node.yaml"}, PODS, update)
    assert changed["updateAny"]["object"]["metadata"] == {"name": "node-$(i)", "labels": {"was": None}}
    assert changed["updateAny"]["object"]["spec"] == {"capacity": {"pods": "9"}}


def test_steady_states_and_gates(tmp_path: Path) -> None:
    """So many pods at a time for so long; gates that are on; a threshold of the rate; labels of both."""
    asked = {**PODS, "steadyStateParam": "$steady", "durationParam": "$long"}
    sized = {
        "params": {"nodes": 1, "steady": True, "long": "2s"},
        "featureGates": {"A": False, "B": True},
        "threshold": {"topic": 50},
        "labels": ["short"],
    }
    text = file(NODES, asked, sized=sized, featureGates={"A": True}, labels=["performance"])
    (case,) = read_cases(text, tmp_path, chosen_by("performance,-other", []))
    pods = case.workload.steps[-1].create_pods
    assert pods is not None
    assert (pods.steady, pods.seconds, pods.count) == (4, 2.0, 2000)
    assert (case.workload.gates, case.threshold, case.labels) == (("B",), 50.0, frozenset({"short", "performance"}))


def test_workloads_are_chosen(tmp_path: Path) -> None:
    """By labels, or by the name of a test case or a workload."""
    text = file(NODES, PODS, labels=["short"])

    def names(labels: str, *cases: str) -> list[str]:
        found: list[Case] = read_cases(text, tmp_path, chosen_by(labels, cases))
        return [case.workload.name for case in found]

    assert names("short") == names("+short,-long") == names("x", "Case") == names("x", "Case/small") == ["Case/small"]
    assert names("-short") == names("long") == names("", "Ca") == names("", "Case/large") == []


@pytest.mark.parametrize(
    ("text", "said"),
    [
        pytest.param(
            file(NODES, {"opcode": "createMoons"}),
            "[0].workloadTemplate[1].opcode: invalid value 'createMoons'",
            id="operation",
        ),
        pytest.param(file({**NODES, "moons": 1}), "[0].workloadTemplate[0]: unknown field moons", id="field"),
        pytest.param(
            file({**NODES, "countParam": "$moons"}, PODS),
            "[0].workloads[0].params.moons: Required value: [0].workloadTemplate[0].countParam asks for it",
            id="no parameter",
        ),
        pytest.param(
            file({**NODES, "countParam": "$name"}, PODS),
            '[0].workloads[0].params.name: "x": expected a whole number',
            id="parameter",
        ),
        pytest.param(
            file(NODES, {**PODS, "podTemplatePath": "none.yaml"}),
            "[0].workloadTemplate[1].podTemplatePath: none.yaml: no such file",
            id="no manifest",
        ),
        pytest.param(
            file(NODES, {**PODS, "podTemplatePath": "pod.yaml", "templateParams": {"type": "$moons"}}),
            "[0].workloads[0].params.moons: Required value: [0].workloadTemplate[1].templateParams.type asks for it",
            id="no template parameter",
        ),
        pytest.param(
            file(NODES, {"opcode": "createAny", "templatePath": "secret.yaml", "namespace": "n"}, PODS),
            "[0].workloadTemplate[1].templatePath: secret.yaml: a v1 Secret: expected Kubernetes' own of CSIDriver",
            id="kind",
        ),
        pytest.param(
            file(NODES, {"opcode": "sleep", "duration": "long"}, PODS),
            '[0].workloadTemplate[1].duration: "long": expected a duration',
            id="duration",
        ),
        pytest.param(
            file(NODES, {"opcode": "churn", "mode": "x", "templatePaths": ["service.yaml"]}, PODS),
            '[0].workloadTemplate[1].mode: "x": expected create or recreate',
            id="mode",
        ),
        pytest.param(
            file(NODES, {**PODS, "collectMetrics": False}),
            "[0].workloads[0]: Case/small can't be run here: steps: no createPods with measured: true",
            id="nothing measured",
        ),
        pytest.param(
            file(NODES, PODS, schedulerConfigPath="pod.yaml"), "[0].schedulerConfigPath: pod.yaml: ", id="pod"
        ),
    ],
)
def test_refused(tmp_path: Path, text: bytes, said: str) -> None:
    """One line that says where and what."""
    with pytest.raises(WorkloadError) as error:
        read_cases(text, tmp_path, chosen_by("", []))
    (line,) = str(error.value).splitlines()
    assert line.startswith(said)


def test_claims_are_allocated_where_there_are_some(tmp_path: Path) -> None:
    """In the namespace that is named, or in all."""
    (tmp_path / "c.yaml").write_text("apiVersion: resource.k8s.io/v1\nkind: ResourceClaim\nmetadata: {name: c}\n")
    made = {"opcode": "createAny", "templatePath": "c.yaml", "namespace": "init", "count": 3}
    for named, found in (("init", [{"namespace": "init"}]), ("", [{"namespace": "init"}]), ("other", [])):
        asked = steps(tmp_path, NODES, made, {"opcode": "allocResourceClaims", "namespace": named}, PODS)
        assert [step["allocateClaims"] for step in asked if "allocateClaims" in step] == found


def test_our_own_files(tmp_path: Path) -> None:
    """A workload of ours is read at its scale; one of scheduler_perf has sizes of its own."""
    steps = [{"createNodes": {"count": 10}}, {"createPods": {"count": 10, "namespace": "n", "measured": True}}]
    own = yaml.safe_dump({"name": "w", "about": "a", "steps": steps}).encode()
    (case,) = read_cases(own, tmp_path, chosen_by("", []), 0.5)
    assert (case.workload.nodes, case.threshold) == (5, None)
    with pytest.raises(WorkloadError, match=r"a scale of 0\.5: expected 1"):
        read_cases(file(NODES, PODS), tmp_path, chosen_by("", []), 0.5)
