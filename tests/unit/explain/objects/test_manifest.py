"""Pods as people write them, completed as the API server would."""

import json
from typing import Any

import pytest

from podberth.explain.objects.admission import Admission
from podberth.explain.objects.documents import Document, ObjectError
from podberth.explain.objects.manifest import completed, groups_made, made_by_others, workloads

Object = dict[str, Any]
SPEC: Object = {"containers": [{"name": "c", "image": "i"}]}
CLASSES: list[Object] = [
    {"metadata": {"name": "high"}, "value": 1000, "preemptionPolicy": "Never"},
    {"metadata": {"name": "usual"}, "value": 5, "globalDefault": True},
    {"metadata": {"name": "higher"}, "value": 6, "globalDefault": True},
]


def pods(documents: list[Document]) -> list[Object]:
    """The pods in a file, those of templates named after their workload."""
    return [each.pod for each in workloads(documents)]


def knowing(classes: list[Object]) -> Admission:
    """Admission in a cluster that has these PriorityClasses."""
    found = Admission()
    for each in classes:
        found.add(Document("PriorityClass", json.dumps(each).encode(), ""))
    return found


def complete(spec: Object) -> Object:
    """The spec of a completed pod."""
    whole = completed({"metadata": {"name": "p"}, "spec": SPEC | spec}, None, "ns", Admission(), [])
    spec_after: Object = whole["spec"]
    return spec_after


def container(**fields: Any) -> Object:
    """A spec with one container of these fields, and no tolerations to look past."""
    return {"containers": [{"name": "c", **fields}]}


@pytest.mark.parametrize(
    ("spec", "want"),
    [
        pytest.param(
            container(resources={"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "500m"}}),
            {"resources": {"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "500m", "memory": "1Gi"}}},
            id="requests from limits",
        ),
        pytest.param(
            container(ports=[{"containerPort": 80}]) | {"hostNetwork": True},
            {"ports": [{"protocol": "TCP", "containerPort": 80, "hostPort": 80}]},
            id="host network",
        ),
        pytest.param(
            container(ports=[{"containerPort": 80, "protocol": "UDP"}]),
            {"ports": [{"protocol": "UDP", "containerPort": 80}]},
            id="own protocol",
        ),
    ],
)
def test_containers(spec: Object, want: Object) -> None:
    """Requests default to limits, and host-network pods hold their ports."""
    [done] = complete(spec)["containers"]
    assert {key: done[key] for key in want} == want


@pytest.mark.parametrize(
    ("spec", "classes", "want"),
    [
        pytest.param({}, [], (0, "PreemptLowerPriority", 0), id="none"),
        pytest.param({}, CLASSES, (5, "PreemptLowerPriority", 0), id="the lowest global default"),
        pytest.param({"priorityClassName": "high"}, CLASSES, (1000, "Never", 0), id="a class"),
        pytest.param(
            {"priorityClassName": "system-node-critical"}, [], (2_000_001_000, "PreemptLowerPriority", 0), id="system"
        ),
        pytest.param(
            {"priority": 7, "priorityClassName": "of-another"},
            CLASSES,
            (7, "PreemptLowerPriority", 0),
            id="set already",
        ),
        pytest.param({"priority": 7}, [], (7, "PreemptLowerPriority", 0), id="set already, and no class is known"),
        pytest.param(
            {"priorityClassName": "nope"}, CLASSES, (0, "PreemptLowerPriority", 1), id="unknown, which is noted"
        ),
    ],
)
def test_priority(spec: Object, classes: list[Object], want: tuple[Any, Any, int]) -> None:
    """The priority comes from the class, the global default, or is 0."""
    notes: list[str] = []
    done = completed({"metadata": {}, "spec": SPEC | spec}, None, "ns", knowing(classes), notes)["spec"]
    assert (done.get("priority"), done.get("preemptionPolicy"), len(notes)) == want


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ({"priority": 7}, "the integer value of priority"),
        ({"priorityClassName": "high", "preemptionPolicy": "PreemptLowerPriority"}, "PreemptionPolicy"),
    ],
)
def test_a_pod_may_not_choose_its_priority(spec: Object, says: str) -> None:
    """The class decides."""
    with pytest.raises(ObjectError, match=f"the API server refuses its pods.*{says}"):
        completed({"metadata": {}, "spec": SPEC | spec}, None, "ns", knowing(CLASSES), [])


def test_tolerates_failing_nodes_for_a_while() -> None:
    """DefaultTolerationSeconds adds two tolerations, and none that the pod has itself."""
    assert [t["key"].rpartition("/")[2] for t in complete({})["tolerations"]] == ["not-ready", "unreachable"]
    own = [{"operator": "Exists"}]
    assert complete({"tolerations": own})["tolerations"] == own


def test_namespaces() -> None:
    """The one asked for, else the pod's own, else the usual one."""
    mine = {"metadata": {"name": "p", "namespace": "mine"}, "spec": SPEC}
    assert completed(mine, "asked", "usual", Admission(), [])["metadata"]["namespace"] == "asked"
    assert completed(mine, None, "usual", Admission(), [])["metadata"]["namespace"] == "mine"
    assert completed({"spec": SPEC}, None, "usual", Admission(), [])["metadata"]["namespace"] == "usual"


def document(made: Object) -> Document:
    """A document of an object."""
    return Document(made["kind"], json.dumps(made).encode(), "document 1")


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("Pod", {"spec": SPEC, "metadata": {"name": "web"}}),
        ("Deployment", {"spec": {"template": {"spec": SPEC, "metadata": {"labels": {"a": "b"}}}}}),
        ("StatefulSet", {"spec": {"template": {"spec": SPEC}}}),
        ("CronJob", {"spec": {"jobTemplate": {"spec": {"template": {"spec": SPEC}}}}}),
        ("PodTemplate", {"template": {"spec": SPEC}}),
    ],
)
def test_workloads_stand_for_their_pods(kind: str, body: Object) -> None:
    """The pod of a template is named after its workload and keeps its labels."""
    [found] = pods([document({"metadata": {"name": "web"}, "kind": kind} | body)])
    assert (found["kind"], found["metadata"]["name"], found["spec"]) == ("Pod", "web", SPEC)
    assert found["metadata"].get("labels") == ({"a": "b"} if kind == "Deployment" else None)


@pytest.mark.parametrize(
    ("made", "said"),
    [
        ({"kind": "Pod", "metadata": {"name": "p"}}, "Pod p: spec: Required value"),
        ({"kind": "Pod", "metadata": {"name": "p"}, "spec": {}}, "Pod p: spec.containers: Required value"),
        (
            {"kind": "Job", "metadata": {"name": "j"}, "spec": {"template": {"spec": {}}}},
            "Job j: spec.template.spec.containers: Required value",
        ),
        (
            {"kind": "Job", "metadata": {"name": "j"}, "spec": {"template": {}}},
            "Job j: spec.template.spec: Required value",
        ),
        (
            {"kind": "Deployment", "metadata": {"name": "d"}, "spec": {"template": 5}},
            "spec.template: 5: expected a mapping",
        ),
        ({"kind": "Pod", "metadata": [], "spec": SPEC}, "metadata: a list: expected a mapping"),
    ],
)
def test_refuses(made: Object, said: str) -> None:
    """A field that the API server would refuse is named."""
    with pytest.raises(ObjectError) as found:
        pods([document(made)])
    assert said in str(found.value)


def controlled(by: Object, made: Object) -> Object:
    """The object with a controller."""
    owner = {"apiVersion": by["apiVersion"], "kind": by["kind"], "name": by["metadata"]["name"], "controller": True}
    return {**made, "metadata": {"name": "made", "ownerReferences": [owner]}}


def test_what_others_of_the_file_make_is_left_out() -> None:
    """Of what makes no pods nothing is left out, whoever has made it."""
    cluster = {"apiVersion": "postgresql.cnpg.io/v1", "kind": "Cluster", "metadata": {"name": "db"}}
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"}}
    there = [
        *(cluster, controlled(cluster, {"apiVersion": "v1", "kind": "PersistentVolumeClaim"})),
        *(service, controlled(service, {"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice"})),
    ]
    assert made_by_others(map(document, there)) == 0
    makes = {"apiVersion": "apps/v1", "metadata": {"name": "web"}, "spec": {"template": {"spec": SPEC}}}
    deployment = {**makes, "kind": "Deployment"}
    files = [document(each) for each in (*there, deployment, controlled(deployment, {**makes, "kind": "ReplicaSet"}))]
    assert made_by_others(files) == 1
    assert [each.kind for each in workloads(files)] == ["Deployment"]


def native(kind: str, **spec: Any) -> Object:
    """A Workload or PodGroup, of which no types are kept."""
    return {"apiVersion": "scheduling.k8s.io/v1beta1", "kind": kind, "metadata": {"name": "w"}, "spec": spec}


ONE = [{"name": "a"}]


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (native("Workload") | {"spec": "hello"}, 'Workload w: spec: "hello": expected a mapping'),
        (native("Workload") | {"metadata": []}, "Workload ?: metadata: a list: expected a mapping"),
        (
            native("Workload") | {"metadata": {"name": "w", "namespace": []}},
            "Workload w: metadata.namespace: a list: expected text",
        ),
        (
            native("Workload", controllerRef="j", podGroupTemplates=ONE),
            'Workload w: spec.controllerRef: "j": expected a mapping',
        ),
        (native("Workload"), "Workload w: spec.podGroupTemplates: null: expected a list of mappings"),
        (native("PodGroup", workloadRef="w"), 'PodGroup w: spec.workloadRef: "w": expected a mapping'),
    ],
)
def test_groups_that_can_not_be_read(made: Object, said: str) -> None:
    """Place, object, field, value, and what was expected."""
    with pytest.raises(ObjectError) as found:
        groups_made([document(made)])
    assert str(found.value) == f"document 1: {said}"


def test_a_job_set_whose_jobs_have_no_pods() -> None:
    """As Kueue leaves a suspended one: what its pods would be is known all the same."""
    jobs = {"name": "j", "replicas": 2, "template": {"spec": {"parallelism": 0, "template": {"spec": SPEC}}}}
    made = {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": {"name": "s"}}
    [found] = workloads([document({**made, "spec": {"replicatedJobs": [jobs]}})])
    assert found.wanted == 0
    assert found.made(found.pod, 1)["metadata"]["labels"]["job-name"] == "s-j-1"


def test_a_class_that_is_no_name() -> None:
    """Files that nobody judged may hold anything."""
    with pytest.raises(ObjectError, match=r"spec\.priorityClassName: expected text"):
        completed({"metadata": {"name": "p"}, "spec": {"priorityClassName": []}}, None, "default", Admission(), [])
