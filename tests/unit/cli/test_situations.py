"""Situations from public threads: what a file becomes, and which objects are read, as a cluster would have it.

The files of `situations` came with the answers; others of their kinds are written here.
"""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.builders import node, pod
from tests.unit.cli.conftest import Berth

Object = dict[str, Any]
FILES = Path(__file__).parent / "situations"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
ALL = str(FILES / "cl.yaml")
"""Three nodes of 8 CPU, of which k1 is tainted; a RuntimeClass, a LimitRange and a ResourceQuota."""


def placed(found: Object) -> dict[str, tuple[int, dict[str, int]]]:
    """Workload → how many pods it has to place, and on which nodes how many went."""
    return {each["workload"]: (each["wanted"], each["nodes"]) for each in found["workloads"]}


def simulated(berth: Berth, file: str, cluster: str, code: int) -> Object:
    """The answer of simulate about a file in `situations`, or one here."""
    path, there = FILES / file, FILES / cluster
    found = berth("simulate", "-f", str(path if path.exists() else file), "--cluster", str(there), "-o", "json")
    assert (found.code, found.err) == (code, "")
    answer: Object = json.loads(found.out)
    return answer


def write(name: str, *documents: Any) -> str:
    """A file in the command's directory."""
    Path(name).write_text(yaml.safe_dump_all(documents))
    return str(Path(name).resolve())


def template(labels: Object | None = None, **spec: Any) -> Object:
    """A pod template."""
    container = {"name": "c", "image": "x", "resources": {"requests": {"cpu": "1"}}}
    return {"metadata": {"labels": labels or {"app": "web"}}, "spec": {"containers": [container], **spec}}


def apart(key: str, **more: Any) -> Object:
    """Anti-affinity by node to pods that have a label."""
    selector = {"matchExpressions": [{"key": key, "operator": "Exists"}]}
    term = {"labelSelector": selector, "topologyKey": "kubernetes.io/hostname", **more}
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def workload(kind: str, version: str, name: str, spec: Object) -> Object:
    """An object that makes pods."""
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name, "namespace": "default"}, "spec": spec}


@pytest.mark.parametrize(
    ("file", "cluster", "code", "want"),
    [
        ("01-runtimeclass/kata.yaml", "cl.yaml", 1, {"Deployment default/vm": (8, {"k1": 6})}),
        ("02-limitrange-quota/lim.yaml", "cl.yaml", 1, {"Deployment default/small": (100, {"n1": 8, "n2": 8})}),
        (
            "04-labelkeys-in-affinity/f3.json",
            "04-labelkeys-in-affinity/f3cl.json",
            1,
            {"Deployment default/web": (2, {"n": 1})},
        ),
        (
            "05-labels-of-controllers/job2.json",
            "05-labels-of-controllers/jcl.json",
            1,
            {"Job default/j": (3, {"n1": 1, "n2": 1})},
        ),
        (
            "05-labels-of-controllers/sts.json",
            "05-labels-of-controllers/jcl.json",
            1,
            {"StatefulSet default/web": (3, {"n1": 1, "n2": 1})},
        ),
        (
            "05-labels-of-controllers/dep_hash.json",
            "05-labels-of-controllers/jcl.json",
            1,
            {"Deployment default/web": (3, {"n1": 1, "n2": 1})},
        ),
        (
            "05-labels-of-controllers/i.json",
            "05-labels-of-controllers/icl.json",
            0,
            {"Deployment default/web": (4, {"w1": 2, "w2": 2})},
        ),
        (
            "18-workload-already-there/web.json",
            "18-workload-already-there/cl.json",
            0,
            {"Deployment default/web": (1, {"n1": 1})},
        ),
    ],
)
def test_where_the_pods_of_a_file_go(
    berth: Berth, file: str, cluster: str, code: int, want: dict[str, tuple[int, dict[str, int]]]
) -> None:
    """They are what API server and controllers make of it."""
    assert placed(simulated(berth, file, cluster, code)) == want


@pytest.mark.parametrize(
    ("file", "pods"),
    [
        ("06-how-many-pods/lws.yaml", 12),
        ("06-how-many-pods/ray.yaml", 9),
        ("06-how-many-pods/jobset.yaml", 7),
        ("06-how-many-pods/scron.yaml", 0),
        ("07-kind-without-group/vc.yaml", 5),
        ("07-kind-without-group/knative.yaml", 3),
        ("18-workload-already-there/getall.json", 2),
    ],
)
def test_how_many_pods_a_file_makes(berth: Berth, file: str, pods: int) -> None:
    """By kind and API group; what another object of the file makes counts with that."""
    found = berth("simulate", "-f", str(FILES / file), "--cluster", ALL, "-o", "json")
    assert found.err == ""
    assert sum(count for count, _ in placed(json.loads(found.out)).values()) == pods


JOB = {"template": {"spec": {**template()["spec"], "restartPolicy": "Never"}}}
OTHERS = {
    "lws without a leader's template": (
        workload(
            "LeaderWorkerSet",
            "leaderworkerset.x-k8s.io/v1",
            "l",
            {"replicas": 2, "leaderWorkerTemplate": {"size": 5, "workerTemplate": template()}},
        ),
        10,
    ),
    "a JobSet that is suspended": (
        workload(
            "JobSet",
            "jobset.x-k8s.io/v1alpha2",
            "j",
            {"suspend": True, "replicatedJobs": [{"name": "w", "replicas": 3, "template": {"spec": JOB}}]},
        ),
        0,
    ),
    "a RayCluster with a group that is suspended, and one below its least": (
        workload(
            "RayCluster",
            "ray.io/v1",
            "r",
            {
                "headGroupSpec": {"template": template()},
                "workerGroupSpecs": [
                    {"groupName": "a", "replicas": 4, "suspend": True, "template": template()},
                    {"groupName": "b", "replicas": 1, "minReplicas": 2, "maxReplicas": 9, "template": template()},
                ],
            },
        ),
        3,
    ),
    "a RayService": (
        workload(
            "RayService",
            "ray.io/v1",
            "r",
            {
                "rayClusterConfig": {
                    "headGroupSpec": {"template": template()},
                    "workerGroupSpecs": [{"groupName": "a", "replicas": 2, "template": template()}],
                }
            },
        ),
        3,
    ),
    "an MPIJob": (
        workload(
            "MPIJob",
            "kubeflow.org/v2beta1",
            "m",
            {
                "mpiReplicaSpecs": {
                    "Launcher": {"replicas": 1, "template": template()},
                    "Worker": {"replicas": 4, "template": template()},
                }
            },
        ),
        5,
    ),
    "a PyTorchJob that is suspended": (
        workload(
            "PyTorchJob",
            "kubeflow.org/v1",
            "p",
            {
                "runPolicy": {"suspend": True},
                "pytorchReplicaSpecs": {"Worker": {"replicas": 4, "template": template()}},
            },
        ),
        0,
    ),
    "a Deployment that is paused": (
        workload(
            "Deployment",
            "apps/v1",
            "d",
            {"paused": True, "selector": {"matchLabels": {"app": "web"}}, "template": template()},
        ),
        0,
    ),
    "a Rollout": (workload("Rollout", "argoproj.io/v1alpha1", "r", {"replicas": 6, "template": template()}), 6),
    "a Job of which three of five have ended": (
        {**workload("Job", "batch/v1", "j", {"parallelism": 5, "completions": 5, **JOB}), "status": {"succeeded": 3}},
        2,
    ),
    "a Job without completions": (workload("Job", "batch/v1", "j", {"parallelism": 4, **JOB}), 4),
    "a Job of another controller": (
        workload("Job", "batch/v1", "j", {"managedBy": "kueue.x-k8s.io/multikueue", "parallelism": 4, **JOB}),
        0,
    ),
    "an indexed Job": (
        workload(
            "Job",
            "batch/v1",
            "j",
            {"completionMode": "Indexed", "parallelism": 3, "completions": 9, "backoffLimitPerIndex": 1, **JOB},
        ),
        3,
    ),
    "a Knative Service with a scale that is no number of pods": (
        workload(
            "Service",
            "serving.knative.dev/v1",
            "web",
            {
                "template": {
                    **template(),
                    "metadata": {"annotations": {"autoscaling.knative.dev/min-scale": "9" * 5000}},
                }
            },
        ),
        1,
    ),
    "a Knative Service that begins with none": (
        workload(
            "Service",
            "serving.knative.dev/v1",
            "k",
            {"template": {**template(), "metadata": {"annotations": {"autoscaling.knative.dev/initial-scale": "0"}}}},
        ),
        0,
    ),
    "a kind that nobody knows": (workload("Thing", "example.test/v1", "t", {"replicas": 7, "template": template()}), 1),
    "another group's StatefulSet": (
        workload("StatefulSet", "example.test/v1", "t", {"replicas": 7, "template": template()}),
        1,
    ),
}


@pytest.mark.parametrize("name", OTHERS)
def test_how_many_pods_others_make(berth: Berth, name: str) -> None:
    """Other members of the same kind."""
    made, pods = OTHERS[name]
    found = berth("simulate", "-f", write("f.yaml", made), "--cluster", ALL, "-o", "json")
    assert found.err == ""
    answer = json.loads(found.out)
    assert sum(count for count, _ in placed(answer).values()) == pods
    assert ("is not known here" in " ".join(answer["notes"])) == ("example.test" in made["apiVersion"])


@pytest.mark.parametrize(
    ("made", "key"),
    [
        (
            workload("Job", "batch/v1", "j", {"parallelism": 3, "completionMode": "Indexed", "completions": 3, **JOB}),
            "batch.kubernetes.io/job-completion-index",
        ),
        (workload("Job", "batch/v1", "j", {"parallelism": 3, **JOB}), "controller-uid"),
        (
            workload("StatefulSet", "apps/v1", "s", {"replicas": 3, "selector": {"matchLabels": {"app": "web"}}}),
            "statefulset.kubernetes.io/pod-name",
        ),
        (
            workload("StatefulSet", "apps/v1", "s", {"replicas": 3, "selector": {"matchLabels": {"app": "web"}}}),
            "controller-revision-hash",
        ),
        (workload("Rollout", "argoproj.io/v1alpha1", "r", {"replicas": 3}), "rollouts-pod-template-hash"),
    ],
)
def test_labels_that_controllers_set_count(berth: Berth, made: Object, key: str) -> None:
    """Pods that keep away from such a label keep away from each other."""
    given = template(affinity=apart(key), restartPolicy="Never" if made["kind"] == "Job" else "Always")
    made = {**made, "spec": {**made["spec"], "template": given}}
    answer = simulated(berth, write("f.yaml", made), "05-labels-of-controllers/jcl.json", 1)
    assert [nodes for _, nodes in placed(answer).values()] == [{"n1": 1, "n2": 1}]


def test_a_label_of_each_pod_counts_for_others(berth: Berth) -> None:
    """The first pod of a StatefulSet is kept away from; the others are not."""
    term = {
        "labelSelector": {"matchLabels": {"apps.kubernetes.io/pod-index": "0"}},
        "topologyKey": "kubernetes.io/hostname",
    }
    rules = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    spec = {"replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": template()}
    away = workload("Deployment", "apps/v1", "away", {**spec, "replicas": 3, "template": template(affinity=rules)})
    answer = simulated(
        berth,
        write("f.yaml", workload("StatefulSet", "apps/v1", "s", spec), away),
        "05-labels-of-controllers/jcl.json",
        0,
    )
    first = next(each["node"] for each in answer["placed"] if each["pod"] == "default/s-0")
    assert first not in {each["node"] for each in answer["placed"] if each["pod"].startswith("default/away-")}


@pytest.mark.parametrize("name", ["longhorn", "rancher", "knsvc"])
def test_kinds_of_other_groups_are_not_ours(berth: Berth, name: str) -> None:
    """A Node of Longhorn's or Rancher's is no node, and a Service of Knative's is none."""
    file = str(FILES / f"07-kind-without-group/{name}.json")
    found = berth("explain", "p", "--cluster", file, "-o", "json")
    assert (found.code, json.loads(found.out)["outcome"], found.err) == (0, "fits", "")
    assert [each["node"] for each in json.loads(found.out)["feasible"]] == ["n1"]
    dumped = json.loads(berth("dump", "--cluster", file).out)["items"]
    assert {each["apiVersion"] for each in dumped} == {"v1"}


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ({"resources": {"limits": {"cpu": "9", "memory": "1Gi"}}}, "Insufficient cpu"),
        ({"resources": {"requests": {"cpu": "2"}, "limits": {"memory": "64Gi"}}}, "Insufficient memory"),
        ({"resources": {"limits": {"hugepages-2Mi": "2Gi", "cpu": "1"}}}, "Insufficient hugepages-2Mi"),
    ],
)
def test_limits_of_the_whole_pod(berth: Berth, spec: Object, says: str) -> None:
    """They become its requests."""
    made = workload("Pod", "v1", "a", {"containers": [{"name": "c", "image": "x"}], **spec})
    found = berth("explain", "-f", write("f.yaml", made), "--cluster", str(FILES / "03-podlevel-limits/cl.yaml"))
    assert found.code == 1
    assert says in found.out


def test_what_is_refused_is_not_simulated_and_the_rest_is(berth: Berth) -> None:
    """The LimitRange's limit of 2 CPU is less than what the Knative Service asks for."""
    answer = simulated(berth, "07-kind-without-group/mixed.yaml", "cl.yaml", 1)
    assert [each["placed"] for each in answer["workloads"]] == [1]
    assert "Service.serving.knative.dev hello: the API server refuses its pods" in " ".join(answer["notSimulated"])


def test_mismatch_label_keys(berth: Berth) -> None:
    """Tenant b keeps away from other tenants, and not from its own."""
    nodes = [node(name, cpu="8") for name in ("a1", "b1")]
    there = [pod(f"of-{tenant}", on=f"{tenant}1", labels={"tenant": tenant}) for tenant in "ab"]
    selector = apart("tenant", mismatchLabelKeys=["tenant"])
    asked = pod("p", labels={"tenant": "b"})
    asked["spec"]["affinity"] = selector
    found = berth("explain", "-f", write("p.yaml", asked), "--cluster", write("c.yaml", *nodes, *there), "-o", "json")
    assert [each["node"] for each in json.loads(found.out)["feasible"]] == ["b1"]


def kata(**spec: Any) -> Object:
    """A pod of the RuntimeClass kata."""
    return workload("Pod", "v1", "p", {"runtimeClassName": "kata", "containers": [{"name": "c", "image": "x"}], **spec})


def limits(**limit: Any) -> Object:
    """A LimitRange."""
    return {
        **workload("LimitRange", "v1", "limits", {"limits": [limit]}),
        "metadata": {"name": "l", "namespace": "default"},
    }


CONTAINER = {"name": "c", "image": "x", "resources": {"requests": {"cpu": "2"}, "limits": {"cpu": "3"}}}


@pytest.mark.parametrize(
    ("more", "made", "says"),
    [
        ([], kata(nodeSelector={"kata": "no"}), "conflict: runtimeClass.scheduling.nodeSelector[kata] = true"),
        ([], kata(overhead={"cpu": "1"}), "Pod's Overhead doesn't match RuntimeClass's defined Overhead"),
        (
            [limits(type="Container", max={"cpu": "1"})],
            kata(containers=[CONTAINER]),
            "maximum cpu usage per Container is 1, but limit is 3",
        ),
        (
            [limits(type="Pod", max={"cpu": "5"})],
            kata(containers=[CONTAINER, {**CONTAINER, "name": "d"}]),
            "maximum cpu usage per Pod is 5, but limit is 6",
        ),
        (
            [limits(type="Container", min={"cpu": "4"})],
            kata(containers=[CONTAINER]),
            "minimum cpu usage per Container is 4, but request is 2",
        ),
        (
            [limits(type="Container", maxLimitRequestRatio={"cpu": "1"})],
            kata(containers=[CONTAINER]),
            "cpu max limit to request ratio per Container is 1, but provided ratio is 1.5",
        ),
        (
            [limits(type="Container", default={"memory": "1Gi"})],
            kata(containers=[{**CONTAINER, "resources": {"requests": {"memory": "2Gi"}}}]),
            "must be less than or equal to memory limit of 1Gi",
        ),
    ],
)
def test_refused_by_admission(berth: Berth, more: list[Object], made: Object, says: str) -> None:
    """A pod that the API server would not create is named in its words."""
    found = berth(
        "simulate",
        "-f",
        write("f.yaml", made),
        "--cluster",
        ALL,
        *(f for x in more for f in ("--cluster", write("m.yaml", x))),
    )
    assert (found.code, found.out) == (2, "")
    assert "the API server refuses its pods" in found.err
    assert says in found.err


@pytest.mark.parametrize(
    ("limit", "asks"),
    [
        ({"defaultRequest": {"cpu": "3"}}, "3 cpu"),
        ({"default": {"cpu": "3"}}, "3 cpu"),
        ({"max": {"cpu": "3"}}, "3 cpu"),
        ({"min": {"cpu": "3"}, "max": {"cpu": "5"}}, "5 cpu"),
        ({"min": {"cpu": "3"}}, "3 cpu"),
    ],
)
def test_what_a_limit_range_sets(berth: Berth, limit: Object, asks: str) -> None:
    """Requests of containers and init containers that say nothing, also from its other fields."""
    made = workload(
        "Pod", "v1", "p", {"containers": [{"name": "c", "image": "x"}], "initContainers": [{"name": "i", "image": "x"}]}
    )
    cluster = write("c.yaml", node("n", cpu="8"), limits(type="Container", **limit))
    assert f"asks for {asks} · priority 0" in berth("explain", "-f", write("f.yaml", made), "--cluster", cluster).out


def quota(hard: Object, **spec: Any) -> Object:
    """A ResourceQuota that no controller has looked at."""
    return {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "q", "namespace": "default"},
        "spec": {"hard": hard, **spec},
    }


HIGH = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 5}


@pytest.mark.parametrize(
    ("given", "spec", "says"),
    [
        (
            quota({"requests.cpu": "3"}),
            {},
            "only 2 of 3 be created: exceeded quota: q, requested: requests.cpu=1, used: requests.cpu=3",
        ),
        (
            quota({"limits.memory": "3Gi"}),
            {},
            "none of 3 be created: failed quota: q: must specify limits.memory for: c",
        ),
        (quota({"pods": "1"}, scopes=["BestEffort"]), {}, ""),
        (quota({"pods": "2"}, scopes=["NotBestEffort"]), {}, "only 1 of 3"),
        (
            quota(
                {"pods": "0"},
                scopeSelector={
                    "matchExpressions": [{"scopeName": "PriorityClass", "operator": "In", "values": ["high"]}]
                },
            ),
            {},
            "",
        ),
        (
            quota(
                {"pods": "0"},
                scopeSelector={
                    "matchExpressions": [{"scopeName": "PriorityClass", "operator": "In", "values": ["high"]}]
                },
            ),
            {"priorityClassName": "high"},
            "none of 3",
        ),
        (quota({"count/deployments.apps": "0"}), {}, ""),
    ],
)
def test_what_a_quota_would_refuse_is_said(berth: Berth, given: Object, spec: Object, says: str) -> None:
    """Pods that are there count, where the quota does not say itself how much is used."""
    made = workload(
        "Deployment",
        "apps/v1",
        "web",
        {"replicas": 3, "selector": {"matchLabels": {"app": "web"}}, "template": template(**spec)},
    )
    cluster = write("c.yaml", node("n", cpu="8"), pod("there", cpu="1", on="n"), given, HIGH)
    answer = json.loads(berth("simulate", "-f", write("f.yaml", made), "--cluster", cluster, "-o", "json").out)
    assert sum(count for count, _ in placed(answer).values()) == 3
    assert (says in " ".join(answer["notes"])) if says else answer["notes"] == []


def test_a_quota_bounds_what_fits(berth: Berth) -> None:
    """Capacity counts the room, and says what the quota lets be created of it; so does explain."""
    cluster = write("c.yaml", node("n", cpu="8"), quota({"pods": "2"}))
    file = write("f.yaml", workload("Pod", "v1", "p", template()["spec"]))
    found = json.loads(berth("capacity", "-f", file, "--cluster", cluster, "-o", "json").out)
    assert found["fits"] == 8
    assert "ResourceQuota q lets only 2 of 8 be created" in " ".join(found["notes"])
    cluster = write("c.yaml", node("n", cpu="8"), quota({"pods": "0"}))
    assert "ResourceQuota q lets none of 1 be created" in berth("explain", "-f", file, "--cluster", cluster).out


def owned(name: str, kind: str, owner: str, version: str = "apps/v1", **more: Any) -> Object:
    """A pod of a controller's."""
    made = pod(name, on="n1", cpu="1", **more)
    reference = {"apiVersion": version, "kind": kind, "name": owner, "uid": owner, "controller": True}
    made["metadata"]["ownerReferences"] = [reference]
    return made


STS = workload(
    "StatefulSet", "apps/v1", "db", {"replicas": 4, "selector": {"matchLabels": {"app": "web"}}, "template": template()}
)
DS = workload("DaemonSet", "apps/v1", "agent", {"selector": {"matchLabels": {"app": "web"}}, "template": template()})
JOB_OF_THREE = workload("Job", "batch/v1", "j", {"parallelism": 3, **JOB})


@pytest.mark.parametrize(
    ("made", "there", "want"),
    [
        (
            STS,
            [owned("db-0", "StatefulSet", "db"), owned("db-2", "StatefulSet", "db")],
            ["default/db-1", "default/db-3"],
        ),
        (STS, [owned("db-0", "StatefulSet", "other")], None),
        (STS, [owned("db-0", "StatefulSet", "db", "apps.kruise.io/v1beta1")], None),
        (JOB_OF_THREE, [owned("j-abc", "Job", "j")], ["default/j-1", "default/j-2"]),
        (DS, [owned("agent-x", "DaemonSet", "agent")], ["default/agent-0"]),
    ],
)
def test_only_what_is_not_there_is_new(berth: Berth, made: Object, there: list[Object], want: list[str] | None) -> None:
    """The pods of a workload are known by their owner."""
    cluster = write("c.yaml", node("n1", cpu="8"), node("n2", cpu="8"), *there)
    found = berth("simulate", "-f", write("f.yaml", made), "--cluster", cluster, "-o", "json")
    if want is None:
        assert "there is one of this name already" in found.err
        return
    assert sorted(each["pod"] for each in json.loads(found.out)["placed"]) == want
    assert "there already" in found.out or "have its pod already" in found.out


@pytest.mark.parametrize(
    ("made", "there", "code", "says"),
    [
        (
            STS,
            owned("db-0", "StatefulSet", "db"),
            1,
            "StatefulSet default/db: 1 of its pods asks for something",
        ),
        (DS, owned("agent-x", "DaemonSet", "agent"), 1, "DaemonSet default/agent: 1 of its pods asks for something"),
        (JOB_OF_THREE, owned("j-abc", "Job", "j"), 0, "Job default/j: 1 of its 3 pods are there already"),
    ],
)
def test_a_roll_out_in_place_is_not_taken_for_nothing_new(
    berth: Berth, made: Object, there: Object, code: int, says: str
) -> None:
    """A pipeline that asks is not told that all is well. A Job's pods stay as they are."""
    there["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "3"
    cluster = write("c.yaml", node("n1", cpu="8"), node("n2", cpu="8"), there)
    found = berth("simulate", "-f", write("f.yaml", made), "--cluster", cluster, "-o", "json")
    answer = json.loads(found.out)
    assert (found.code, says in " ".join(answer["notSimulated"] + answer["notes"])) == (code, True)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"replicas": 1}, "it has 2 pods and wants 1; 1 pod too many, counted still"),
        ({"priority": 7}, "2 pods of another revision counted beside the new ones"),
        ({"ports": [{"containerPort": 80, "hostPort": 80}]}, "2 pods of another revision counted beside the new ones"),
    ],
)
def test_a_deployment_that_has_pods(berth: Berth, changes: Object, says: str) -> None:
    """Whatever counts for where its pods go makes them pods of another revision; who has too many is told so."""
    made = workload(
        "Deployment",
        "apps/v1",
        "web",
        {"replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": template()},
    )
    there = [owned(f"web-5f-{i}", "ReplicaSet", "web-5f") for i in range(2)]
    spec = made["spec"]["template"]["spec"]
    made["spec"]["replicas"] = changes.get("replicas", 2)
    spec["containers"][0] |= {key: value for key, value in changes.items() if key == "ports"}
    for each in there:
        each["spec"]["priority"] = changes.get("priority", 0)
    cluster = write("c.yaml", node("n1", cpu="8"), node("n2", cpu="8"), *there)
    assert says in " ".join(berth("simulate", "-f", write("f.yaml", made), "--cluster", cluster).out.split())


def of_web(name: str) -> Object:
    """A running pod of the Deployment web: its ReplicaSet is web-5f."""
    made = owned(name, "ReplicaSet", "web-5f")
    made["metadata"]["labels"] = {"app": "web", "pod-template-hash": "5f"}
    return made


def test_a_deployment_that_selects_by_its_own_hash(berth: Berth) -> None:
    """Its pods are known again, and keep the new one away."""
    given = template()
    term = {"labelSelector": {"matchLabels": {"app": "web"}}, "matchLabelKeys": ["pod-template-hash"]}
    term["topologyKey"] = "kubernetes.io/hostname"
    given["spec"]["affinity"] = {"podAntiAffinity": {REQUIRED: [term]}}
    there = of_web("web-5f-a")
    merged = {"key": "pod-template-hash", "operator": "In", "values": ["5f"]}
    selector = {"matchLabels": {"app": "web"}, "matchExpressions": [merged]}
    there["spec"]["affinity"] = {"podAntiAffinity": {REQUIRED: [{**term, "labelSelector": selector}]}}
    made = workload(
        "Deployment", "apps/v1", "web", {"replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": given}
    )
    labels = {"app": "web", "pod-template-hash": "5f"}
    replicas = workload("ReplicaSet", "apps/v1", "web-5f", {"selector": {"matchLabels": labels}})
    cluster = write("c.yaml", node("n1", cpu="64"), node("n2", cpu="2"), there, replicas)
    answer = simulated(berth, write("f.yaml", made), cluster, 0)
    assert placed(answer) == {"Deployment default/web": (1, {"n2": 1})}
    assert answer["notes"] == ["Deployment default/web: 1 of its 2 pods are there already"]


def test_the_order_of_a_node_selector_makes_no_other_revision(berth: Berth) -> None:
    """The API server gives it back by key, after a RuntimeClass has added to it."""
    selector = {"tier": "web", "disk": "ssd"}
    there = of_web("web-5f-a")
    there["spec"]["nodeSelector"] = dict(sorted(selector.items()))
    spec = {"replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": template(nodeSelector=selector)}
    cluster = write("c.yaml", node("n1", cpu="8", labels=selector), there)
    Path("f.json").write_text(json.dumps(workload("Deployment", "apps/v1", "web", spec)))  # YAML would be sorted
    answer = simulated(berth, str(Path("f.json").resolve()), cluster, 0)
    assert placed(answer) == {"Deployment default/web": (1, {"n1": 1})}


def test_a_stateful_set_that_differs_by_its_own_number_is_not_rolled_out(berth: Berth) -> None:
    """Each of its pods selects by another number."""
    given = template()
    term = {"labelSelector": {"matchLabels": {"app": "web"}}, "matchLabelKeys": ["apps.kubernetes.io/pod-index"]}
    term["topologyKey"] = "kubernetes.io/hostname"
    given["spec"]["affinity"] = {"podAntiAffinity": {REQUIRED: [term]}}
    made = workload(
        "StatefulSet", "apps/v1", "db", {"replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": given}
    )
    there = []
    for number in range(2):
        one = owned(f"db-{number}", "StatefulSet", "db")
        one["metadata"]["labels"] = {"app": "web", "apps.kubernetes.io/pod-index": str(number)}
        merged = {"key": "apps.kubernetes.io/pod-index", "operator": "In", "values": [str(number)]}
        selector = {"matchLabels": {"app": "web"}, "matchExpressions": [merged]}
        one["spec"]["affinity"] = {"podAntiAffinity": {REQUIRED: [{**term, "labelSelector": selector}]}}
        there.append(one)
    answer = simulated(berth, write("f.yaml", made), write("c.yaml", node("n1", cpu="8"), *there), 0)
    assert answer["notSimulated"] == []


INDEX = "batch.kubernetes.io/job-completion-index"
INDEXED = workload("Job", "batch/v1", "j", {"completionMode": "Indexed", "parallelism": 3, "completions": 9, **JOB})


def of_index(number: int, **more: Any) -> Object:
    """A pod of that Job."""
    return owned(f"j-{number}-abcde", "Job", "j", labels={INDEX: str(number)}, **more)


@pytest.mark.parametrize(
    ("running", "ended", "want"),
    [
        ([3, 4, 5], [], set()),
        ([3, 4], [], {"0"}),
        ([3, 4], [0, 1, 2], {"5"}),
        ([0, 3], [1], {"2"}),
        ([], [0, 1, 2], {"3", "4", "5"}),
        ([8], [0, 1, 2, 3, 4, 5, 6], {"7"}),
        ([], [], {"0", "1", "2"}),
    ],
)
def test_an_indexed_job_runs_so_many_at_once(
    berth: Berth, running: list[int], ended: list[int], want: set[str]
) -> None:
    """New pods have the lowest numbers that neither run nor have succeeded; one that failed is tried again."""
    there = [of_index(i) for i in running] + [of_index(i, phase="Succeeded") for i in ended]
    cluster = write("c.yaml", node("n1", cpu="64"), *there, of_index(0, phase="Failed") if not ended else node("n2"))
    answer = simulated(berth, write("f.yaml", INDEXED), cluster, 0)
    assert {each["pod"].rpartition("-")[2] for each in answer["placed"]} == want


@pytest.mark.parametrize("kind", ["StatefulSet", "ReplicaSet"])
def test_what_a_dump_has_may_be_in_a_file(berth: Berth, kind: str) -> None:
    """As `kubectl apply` takes it; twice in one file is a mistake."""
    made = workload(kind, "apps/v1", "db", STS["spec"])
    cluster = write("c.yaml", node("n1", cpu="8"), made, owned("db-0", kind, "db"))
    answer = simulated(berth, write("f.yaml", made), cluster, 0)
    assert placed(answer) == {f"{kind} default/db": (3, {"n1": 3})}
    found = berth("simulate", "-f", write("f.yaml", made, made), "--cluster", cluster)
    assert (found.code, f"{kind} default/db: is there twice" in found.err) == (2, True)


@pytest.mark.parametrize(("kind", "on"), [("Deployment", {"n1": 3, "n2": 3}), ("Job", {"n1": 5, "n2": 1})])
def test_who_is_spread_by_default(berth: Berth, kind: str, on: dict[str, int]) -> None:
    """The pods of a ReplicaSet, and so of a Deployment; not those of a Job, which has no selector that counts."""
    spec = {"replicas": 6, "selector": {"matchLabels": {"app": "web"}}, "template": template()}
    made = workload(kind, "apps/v1", "w", spec) if kind != "Job" else workload(kind, "batch/v1", "w", {**JOB})
    made["spec"] |= {"parallelism": 6} if kind == "Job" else {}
    cluster = write("c.yaml", node("n1", cpu="128", zone="a"), node("n2", cpu="16", zone="b"))
    assert [nodes for _, nodes in placed(simulated(berth, write("f.yaml", made), cluster, 0)).values()] == [on]


@pytest.mark.parametrize(("policy", "says"), [("OrderedReady", True), ("Parallel", False)])
def test_who_is_created_in_turn(berth: Berth, policy: str, says: bool) -> None:
    """Of a StatefulSet's pods that wait, only the first is there."""
    made = workload("StatefulSet", "apps/v1", "db", {**STS["spec"], "podManagementPolicy": policy})
    answer = simulated(berth, write("f.yaml", made), write("c.yaml", node("n1", cpu="2")), 1)
    assert ("those after the first that waits are not created" in " ".join(answer["notes"])) == says


def test_a_run_of_a_cron_job_that_others_manage(berth: Berth) -> None:
    """Its pods are not made by Kubernetes."""
    job = {"parallelism": 2, "managedBy": "example.com/jobs", **JOB}
    made = workload("CronJob", "batch/v1", "c", {"schedule": "0 0 1 1 *", "jobTemplate": {"spec": job}})
    answer = simulated(berth, write("f.yaml", made), write("c.yaml", node("n1", cpu="8")), 0)
    assert placed(answer) == {"CronJob default/c": (0, {})}
    assert answer["notes"] == ["CronJob default/c: example.com/jobs makes its pods, and not the Job controller"]


@pytest.mark.parametrize("spec", [{"replicas": 0}, {"replicas": 1, "paused": True}])
def test_pods_that_nobody_makes_are_refused_by_nobody(berth: Berth, spec: Object) -> None:
    """The LimitRange would refuse them."""
    made = workload(
        "Deployment", "apps/v1", "w", {"selector": {"matchLabels": {"app": "web"}}, "template": template(), **spec}
    )
    cluster = write("c.yaml", node("n1", cpu="8"), limits(type="Container", max={"cpu": "100m"}))
    other = workload("Pod", "v1", "other", {"containers": [{"name": "c", "image": "x"}]})
    other["metadata"]["namespace"] = "kube-system"
    assert simulated(berth, write("f.yaml", made, other), cluster, 0)["notSimulated"] == []


def test_quotas_ask_what_must_be_said_before_they_count(berth: Berth) -> None:
    """Whichever comes first; what is used is written as the pods say it."""
    names = iter("ab")
    counting, asking = (
        {**quota(hard), "metadata": {"name": next(names), "namespace": "default"}}
        for hard in ({"pods": "0"}, {"limits.memory": "1Gi"})
    )
    made = workload("Pod", "v1", "p", template()["spec"])
    cluster = write("c.yaml", node("n", cpu="8"), counting, asking)
    notes = simulated(berth, write("f.yaml", made), cluster, 0)["notes"]
    assert "ResourceQuota b lets none of 1 be created: failed quota: b: must specify" in " ".join(notes)
    spec = template()["spec"]
    spec["containers"][0]["resources"]["limits"] = {"cpu": "1", "memory": "0.5Gi"}
    spec["restartPolicy"] = "Never"
    file = write("f.yaml", workload("Job", "batch/v1", "j", {"parallelism": 3, "template": {"spec": spec}}))
    notes = simulated(berth, file, write("c.yaml", node("n", cpu="8"), asking), 0)["notes"]
    assert "requested: limits.memory=512Mi, used: limits.memory=1Gi, limited: limits.memory=1Gi" in " ".join(notes)


def test_a_node_without_allocatable(berth: Berth) -> None:
    """It has its capacity; and a pod without a scheduler is the default scheduler's."""
    for cluster in ("named", "one"):
        for file in ("capnode", "alloc"):
            answer = simulated(berth, f"19-node-capacity-only/{file}.json", f"19-node-capacity-only/{cluster}.json", 0)
            assert [(each["pod"], each["node"]) for each in answer["others"]["freed"]] == [("default/p", "n3")]


@pytest.mark.parametrize("mask", [(), ("--mask", "--mask-table", "t.json")])
def test_a_dump_keeps_what_pods_are_made_with(berth: Berth, mask: tuple[str, ...]) -> None:
    """A small or masked one answers as the cluster does."""
    assert berth("dump", "--cluster", ALL, "-f", "d.json", *mask).code == 0
    kinds = {each["kind"] for each in json.loads(Path("d.json").read_text())["items"]}
    assert {"RuntimeClass", "LimitRange", "ResourceQuota"} <= kinds
    if mask:
        masks = {word: name for name, word in json.loads(Path("t.json").read_text()).items()}
        runtime = masks["kata"]
    else:
        runtime = "kata"
    made = workload(
        "Deployment",
        "apps/v1",
        "vm",
        {"replicas": 8, "selector": {"matchLabels": {"app": "web"}}, "template": template(runtimeClassName=runtime)},
    )
    found = berth("simulate", "-f", write("f.yaml", made), "--cluster", "d.json", "-o", "json")
    assert [sum(nodes.values()) for _, nodes in placed(json.loads(found.out)).values()] == [6]
