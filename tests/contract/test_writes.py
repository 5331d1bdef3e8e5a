"""Creates and updates: names, versions, defaults, what the server sets itself, validation."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from tests.contract.client import MERGE_PATCH, Api, condition, pod


async def test_create_sets_what_clients_read(api: Api, namespace: str, pods: str) -> None:
    """A created object comes back with uid, version, time, and for pods a generation."""
    reply = await api.post(pods, pod("a"))
    assert reply.code == 201
    metadata = reply.body["metadata"]
    assert metadata["namespace"] == namespace
    assert re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", metadata["uid"])
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", metadata["creationTimestamp"])
    assert metadata["generation"] == 1
    assert int(metadata["resourceVersion"]) > 0
    assert (await api.get(f"{pods}/a")).ok()["metadata"]["uid"] == metadata["uid"]


async def test_create_twice(api: Api, namespace: str, pods: str) -> None:
    """A name that is taken is a 409 that names the resource."""
    (await api.post(pods, pod("a"))).ok()
    reply = await api.post(pods, pod("a"))
    assert reply.refused(409, "AlreadyExists") == 'pods "a" already exists'
    assert reply.body["details"] == {"name": "a", "kind": "pods"}
    leases = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"
    (await api.post(leases, {"metadata": {"name": "l"}})).ok()
    reply = await api.post(leases, {"metadata": {"name": "l"}})
    assert reply.refused(409, "AlreadyExists") == 'leases.coordination.k8s.io "l" already exists'
    assert reply.body["details"] == {"name": "l", "group": "coordination.k8s.io", "kind": "leases"}


async def test_create_while_the_old_one_leaves(api: Api, pods: str) -> None:
    """A name whose object is being deleted is still taken, and the message says why."""
    (await api.post(pods, pod("a", finalizers=["example.com/hold"]))).ok()
    (await api.delete(f"{pods}/a")).ok()
    message = (await api.post(pods, pod("a"))).refused(409, "AlreadyExists")
    assert message == 'object is being deleted: pods "a" already exists'
    (await api.patch(f"{pods}/a", {"metadata": {"finalizers": None}}, MERGE_PATCH)).ok()


async def test_generate_name(api: Api, pods: str) -> None:
    """generateName gets five letters that are easy to read."""
    body = pod("x")
    body["metadata"] = {"generateName": "web-"}
    created = (await api.post(pods, body)).ok()
    assert re.fullmatch(r"web-[bcdfghjklmnpqrstvwxz2456789]{5}", created["metadata"]["name"])
    assert created["metadata"]["generateName"] == "web-"


async def test_dry_run(api: Api, pods: str) -> None:
    """dryRun=All answers like a create and stores nothing; other values are refused."""
    reply = await api.post(pods, pod("a"), dryRun="All")
    assert reply.code == 201
    assert reply.body["metadata"]["uid"]
    assert "resourceVersion" not in reply.body["metadata"]
    (await api.get(f"{pods}/a")).refused(404, "NotFound")
    assert 'Unsupported value: ["Some"]: supported values: "All"' in (
        await api.post(pods, pod("a"), dryRun="Some")
    ).refused(422, "Invalid")


async def test_namespaces_and_their_objects(api: Api, namespace: str, pods: str) -> None:
    """An object goes to the namespace of its path, which must be there and agree with it."""
    body = pod("a")
    body["metadata"]["namespace"] = "elsewhere"
    assert (await api.post(pods, body)).refused(400, "BadRequest") == (
        "the namespace of the provided object does not match the namespace sent on the request"
    )
    message = (await api.post("/api/v1/namespaces/nowhere-1/pods", pod("a"))).refused(404, "NotFound")
    assert message == 'namespaces "nowhere-1" not found'
    found = (await api.get(f"/api/v1/namespaces/{namespace}")).ok()
    assert found["status"] == {"phase": "Active"}
    assert found["spec"] == {"finalizers": ["kubernetes"]}
    assert found["metadata"]["labels"] == {"kubernetes.io/metadata.name": namespace}


@pytest.mark.parametrize("name", ["default", "kube-system", "kube-public", "kube-node-lease"])
async def test_initial_namespaces(api: Api, name: str) -> None:
    """Four namespaces are there from the start."""
    reply = await api.eventually(f"/api/v1/namespaces/{name}", lambda reply: reply.code == 200)
    assert reply["metadata"]["labels"]["kubernetes.io/metadata.name"] == name


async def test_pod_defaults(api: Api, pods: str) -> None:
    """A minimal pod gets the defaults that a scheduler reads."""
    spec = (await api.post(pods, pod("a"))).ok()["spec"]
    wanted = {
        "schedulerName": "default-scheduler",
        "restartPolicy": "Always",
        "dnsPolicy": "ClusterFirst",
        "terminationGracePeriodSeconds": 30,
        "enableServiceLinks": True,
        "securityContext": {},
        "priority": 0,
        "preemptionPolicy": "PreemptLowerPriority",
        "tolerations": [
            {"key": f"node.kubernetes.io/{why}", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
            for why in ("not-ready", "unreachable")
        ],
        "containers": [
            {
                "name": "main",
                "image": "example.com/app:1",
                "resources": {},
                "imagePullPolicy": "IfNotPresent",
                "terminationMessagePath": "/dev/termination-log",
                "terminationMessagePolicy": "File",
            }
        ],
    }
    assert spec == wanted


@pytest.mark.parametrize(
    ("resources", "requests", "qos"),
    [
        ({}, None, "BestEffort"),
        ({"limits": {"cpu": "1", "memory": "1Gi"}}, {"cpu": "1", "memory": "1Gi"}, "Guaranteed"),
        ({"limits": {"cpu": "1"}}, {"cpu": "1"}, "Burstable"),
        ({"requests": {"cpu": "0.5"}, "limits": {"cpu": 1}}, {"cpu": "500m"}, "Burstable"),
        ({"requests": {"memory": "1024Mi"}}, {"memory": "1Gi"}, "Burstable"),
        ({"requests": {"memory": "1.5Gi", "cpu": "1000m"}}, {"memory": "1536Mi", "cpu": "1"}, "Burstable"),
        ({"requests": {"cpu": "0.0001"}}, {"cpu": "1m"}, "Burstable"),
        ({"requests": {"memory": "1e3"}}, {"memory": "1e3"}, "Burstable"),
        ({"requests": {"memory": "1500k", "cpu": "1.5"}}, {"memory": "1500k", "cpu": "1500m"}, "Burstable"),
        ({"requests": {"memory": "9999999999999999999E"}}, {"memory": "9999999999999999999E"}, "Burstable"),
        ({"requests": {"cpu": "0"}}, {"cpu": "0"}, "BestEffort"),
        ({"requests": {"memory": "Gi"}}, {"memory": "0"}, "BestEffort"),
    ],
)
async def test_quantities(
    api: Api, pods: str, resources: dict[str, Any], requests: dict[str, str] | None, qos: str
) -> None:
    """Quantities come back in canonical form, requests default to limits, and the QoS class follows."""
    body = pod("a")
    body["spec"]["containers"][0]["resources"] = resources
    created = (await api.post(pods, body)).ok()
    assert created["spec"]["containers"][0]["resources"].get("requests") == requests
    assert created["status"]["qosClass"] == qos


@pytest.mark.parametrize("quantity", ["1x", "", "1 Gi", "1kk", "--1", "1_000", "0x10"])
async def test_bad_quantities(api: Api, pods: str, quantity: str) -> None:
    """What is no quantity can't be decoded."""
    body = pod("a")
    body["spec"]["containers"][0]["resources"] = {"requests": {"memory": quantity}}
    message = (await api.post(pods, body)).refused(400, "BadRequest")
    assert message.startswith('Pod in version "v1" cannot be handled as a Pod: ')


async def test_status_is_the_servers_on_create(api: Api, pods: str) -> None:
    """A new pod is Pending, whatever the client wrote."""
    body = pod("a")
    body["status"] = {"phase": "Running", "nominatedNodeName": "n1"}
    assert (await api.post(pods, body)).ok()["status"] == {"phase": "Pending", "qosClass": "BestEffort"}


async def test_gated_pod(api: Api, pods: str) -> None:
    """A pod with gates says from the start that they hold it."""
    created = (await api.post(pods, pod("a", schedulingGates=[{"name": "example.com/wait"}]))).ok()
    found = condition(created, "PodScheduled")
    assert (found["status"], found["reason"]) == ("False", "SchedulingGated")
    assert found["message"] == "Scheduling is blocked due to non-empty scheduling gates"


async def test_priority_comes_from_the_class(api: Api, pods: str) -> None:
    """The Priority plugin resolves the class and refuses what contradicts it."""
    created = (await api.post(pods, pod("a", priorityClassName="system-node-critical"))).ok()
    assert created["spec"]["priority"] == 2_000_001_000
    message = (await api.post(pods, pod("b", priorityClassName="nope"))).refused(403, "Forbidden")
    assert message == 'pods "b" is forbidden: no PriorityClass with name nope was found'
    message = (await api.post(pods, pod("b", priority=5))).refused(403, "Forbidden")
    assert "the integer value of priority (5) must not be provided in pod spec" in message


async def test_match_label_keys_become_requirements(api: Api, pods: str) -> None:
    """matchLabelKeys are merged into the selectors when the pod is created."""
    term = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "web"}}, "matchLabelKeys": ["rev"]}
    body = pod(
        "a",
        labels={"app": "web", "rev": "7"},
        affinity={"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}},
    )
    spec = (await api.post(pods, body)).ok()["spec"]
    stored = spec["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][0]
    assert stored["labelSelector"]["matchExpressions"] == [{"key": "rev", "operator": "In", "values": ["7"]}]


REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
TERMS = f"spec.affinity.nodeAffinity.{REQUIRED}.nodeSelectorTerms"


def node_affinity(*requirements: Any) -> dict[str, Any]:
    """A pod spec's part that requires one term."""
    terms = [{"matchExpressions": list(requirements)}] if requirements else []
    return {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": terms}}}}


@pytest.mark.parametrize(
    ("spec", "want"),
    [
        ({"containers": []}, ["spec.containers: Required value"]),
        (
            {"restartPolicy": "Sometimes"},
            ['spec.restartPolicy: Unsupported value: "Sometimes": supported values: "Always", "OnFailure", "Never"'],
        ),
        (node_affinity(), [f"{TERMS}: Required value: must have at least one node selector term"]),
        (
            node_affinity({"key": "a", "operator": "Near"}),
            [f'{TERMS}[0].matchExpressions[0].operator: Invalid value: "Near": not a valid selector operator'],
        ),
        (
            node_affinity({"key": "a", "operator": "In"}, {"key": "b", "operator": "Gt", "values": ["1", "2"]}),
            [
                f"{TERMS}[0].matchExpressions[0].values: Required value: "
                "must be specified when `operator` is 'In' or 'NotIn'",
                f"{TERMS}[0].matchExpressions[1].values: Required value: "
                "must be specified single value when `operator` is 'Lt' or 'Gt'",
            ],
        ),
        (
            {"schedulingGates": [{"name": "a"}, {"name": "a"}]},
            ['spec.schedulingGates[1]: Duplicate value: "a"'],
        ),
        (
            {"schedulingGates": [{"name": "a"}], "nodeName": "n"},
            ["spec.nodeName: Forbidden: cannot be set until all schedulingGates have been cleared"],
        ),
        (
            {"tolerations": [{"operator": "Equal"}, {"key": "k", "operator": "Exists", "effect": "Bar"}]},
            [
                'spec.tolerations[0].operator: Invalid value: "Equal": operator must be Exists when `key` is empty, '
                'which means "match all values and all keys"',
                'spec.tolerations[1].effect: Unsupported value: "Bar": '
                'supported values: "NoSchedule", "PreferNoSchedule", "NoExecute"',
            ],
        ),
        (
            {"tolerations": [{"key": "k", "operator": "Gt", "value": "9"}, {"key": "k", "operator": "Foo"}]},
            [
                'spec.tolerations[0].operator: Unsupported value: "Gt": '
                'supported values: "Equal", "Exists", "Lt", "Gt"',
                'spec.tolerations[1].operator: Unsupported value: "Foo": supported values: "Equal", "Exists"',
            ],
        ),
        (
            {"affinity": {"podAffinity": {REQUIRED: [{"labelSelector": {}}]}}},
            [f"spec.affinity.podAffinity.{REQUIRED}[0].topologyKey: Required value: can not be empty"],
        ),
        (
            {
                "topologySpreadConstraints": [
                    {"maxSkew": 0, "topologyKey": "z", "whenUnsatisfiable": "DoNotSchedule"},
                ]
            },
            ["spec.topologySpreadConstraints[0].maxSkew: Invalid value: 0: must be greater than zero"],
        ),
    ],
)
async def test_pod_validation(api: Api, pods: str, spec: dict[str, Any], want: list[str]) -> None:
    """Broken scheduling fields are refused with the field's path, in the message and as causes."""
    reply = await api.post(pods, pod("a", **spec))
    message = reply.refused(422, "Invalid")
    for text in want:
        assert text in message
    assert message.startswith('Pod "a" is invalid: ')
    causes = [f"{cause['field']}: {cause['message']}" for cause in reply.body["details"]["causes"]]
    assert set(want) <= set(causes)


@pytest.mark.parametrize(
    ("metadata", "want"),
    [
        ({"name": "A_b"}, 'metadata.name: Invalid value: "A_b": a lowercase RFC 1123 subdomain must consist of'),
        ({}, "metadata.name: Required value: name or generateName is required"),
        ({"name": "a", "labels": {"a b": "c"}}, 'metadata.labels: Invalid value: "a b": name part must consist of'),
        ({"name": "a", "labels": {"a": "c d"}}, 'metadata.labels: Invalid value: "c d": a valid label must be'),
        (
            {"name": "a", "labels": {"a": "x" * 64}},
            f'metadata.labels: Invalid value: "{"x" * 64}": must be no more than 63 bytes',
        ),
        (
            {"name": "a", "annotations": {"a": "x" * 300_000}},
            "metadata.annotations: Too long: may not be more than 262144 bytes",
        ),
        (
            {"name": "a", "finalizers": ["hold"]},
            'metadata.finalizers[0]: Invalid value: "hold": name is neither a standard finalizer name nor is it '
            "fully qualified",
        ),
    ],
)
async def test_metadata_validation(api: Api, pods: str, metadata: dict[str, Any], want: str) -> None:
    """Broken names, labels and annotations are refused in the API's words."""
    body = pod("a")
    body["metadata"] = metadata
    assert want in (await api.post(pods, body)).refused(422, "Invalid")


async def test_labels_are_texts(api: Api, pods: str) -> None:
    """A number as label value can't be decoded."""
    message = (await api.post(pods, pod("a", labels={"a": 5}))).refused(400, "BadRequest")
    assert "cannot unmarshal number into Go struct field ObjectMeta.metadata.labels of type string" in message


async def test_update_conflict(api: Api, namespace: str) -> None:
    """An update based on an older version is a 409; without a version it goes through."""
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    created = (await api.post(path, {"metadata": {"name": "c"}, "data": {"n": "1"}})).ok()
    newer = (await api.put(f"{path}/c", {"metadata": {"name": "c"}, "data": {"n": "2"}})).ok()
    assert newer["metadata"]["uid"] == created["metadata"]["uid"]
    assert newer["metadata"]["creationTimestamp"] == created["metadata"]["creationTimestamp"]
    reply = await api.put(f"{path}/c", {**created, "data": {"n": "3"}})
    assert reply.refused(409, "Conflict") == (
        'Operation cannot be fulfilled on configmaps "c": the object has been modified; please apply your changes to '
        "the latest version and try again"
    )
    assert reply.body["details"] == {"name": "c", "kind": "configmaps"}


async def test_update_of_another_object(api: Api, namespace: str) -> None:
    """An update that names another uid, another name, or nothing that is there, is refused."""
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    created = (await api.post(path, {"metadata": {"name": "c"}})).ok()
    message = (await api.put(f"{path}/c", {"metadata": {"name": "c", "uid": "other"}})).refused(409, "Conflict")
    assert message == (
        f'Operation cannot be fulfilled on configmaps "c": StorageError: invalid object, Code: 4, Key: '
        f"/registry/configmaps/{namespace}/c, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in "
        f"precondition: other, UID in object meta: {created['metadata']['uid']}"
    )
    message = (await api.put(f"{path}/c", {"metadata": {"name": "d"}})).refused(400, "BadRequest")
    assert message == "the name of the object (d) does not match the name on the URL (c)"
    (await api.put(f"{path}/d", {"metadata": {"name": "d"}})).refused(404, "NotFound")


async def test_generation_counts_specs(api: Api, namespace: str) -> None:
    """The generation counts changes of the spec, not of status or metadata."""
    path = f"/apis/apps/v1/namespaces/{namespace}/deployments"
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "x"}]}}
    body = {"metadata": {"name": "d"}, "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": template}}
    assert (await api.post(path, body)).ok()["metadata"]["generation"] == 1
    changed = (await api.patch(f"{path}/d", {"spec": {"replicas": 3}})).ok()
    assert changed["metadata"]["generation"] == 2
    changed = (await api.patch(f"{path}/d", {"metadata": {"labels": {"x": "y"}}, "status": {"replicas": 9}})).ok()
    assert (changed["metadata"]["generation"], changed["status"].get("replicas", 0)) == (2, 0)
    changed = (await api.patch(f"{path}/d/status", {"spec": {"replicas": 7}, "status": {"replicas": 3}})).ok()
    assert (changed["metadata"]["generation"], changed["status"]["replicas"]) == (2, 3)
    assert changed["spec"]["replicas"] == 3


async def test_nodes_keep_the_status_they_come_with(api: Api, node: str) -> None:
    """A node may be created with capacity; allocatable follows, and the main endpoint can't change status later."""
    found = (await api.get(f"/api/v1/nodes/{node}")).ok()
    assert found["status"]["capacity"] == {"cpu": "4", "memory": "8Gi", "pods": "110"}
    assert found["status"]["allocatable"] == found["status"]["capacity"]
    found["spec"] = {"unschedulable": True, "taints": [{"key": "a", "value": "b", "effect": "NoSchedule"}]}
    found["status"]["capacity"] = {"cpu": "1"}
    changed = (await api.put(f"/api/v1/nodes/{node}", found)).ok()
    assert changed["spec"]["unschedulable"] is True
    assert changed["status"]["capacity"]["cpu"] == "4"
    listed = (await api.get("/api/v1/nodes", fieldSelector=f"spec.unschedulable=true,metadata.name={node}")).ok()
    assert len(listed["items"]) == 1


@pytest.mark.parametrize(
    ("taints", "want"),
    [
        (
            [{"key": "a", "effect": "Foo"}],
            'metadata.taints[0].effect: Unsupported value: "Foo": '
            'supported values: "NoSchedule", "PreferNoSchedule", "NoExecute"',
        ),
        ([{"key": "a"}], "metadata.taints[0].effect: Required value"),
        (
            [{"key": "a", "effect": "NoSchedule"}, {"key": "a", "effect": "NoSchedule", "value": "2"}],
            'metadata.taints[1]: Duplicate value: {"Key":"a","Value":"2","Effect":"NoSchedule","TimeAdded":null}: '
            "taints must be unique by key and effect pair",
        ),
    ],
)
async def test_taint_validation(api: Api, node: str, taints: list[Any], want: str) -> None:
    """Broken taints are refused in the API's words."""
    assert want in (await api.patch(f"/api/v1/nodes/{node}", {"spec": {"taints": taints}})).refused(422, "Invalid")


async def test_secrets_hide_their_text(api: Api, namespace: str) -> None:
    """stringData is only written: it becomes base64 data."""
    path = f"/api/v1/namespaces/{namespace}/secrets"
    created = (await api.post(path, {"metadata": {"name": "s"}, "stringData": {"a": "b"}})).ok()
    assert created["data"] == {"a": "Yg=="}
    assert "stringData" not in created
    assert created["type"] == "Opaque"


async def test_too_large(api: Api, namespace: str) -> None:
    """A body over 3 MiB is refused as a Status."""
    body = json.dumps({"metadata": {"name": "big"}, "data": {"a": "x" * 3_300_000}})
    message = (await api.post(f"/api/v1/namespaces/{namespace}/configmaps", body)).refused(413, "RequestEntityTooLarge")
    assert message == "Request entity too large: limit is 3145728"
