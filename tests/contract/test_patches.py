"""The patch formats, on pods and nodes as schedulers and kubectl use them."""

from __future__ import annotations

from typing import Any

import pytest

from tests.contract.client import JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, Api, condition, pod

UNSCHEDULABLE = {
    "type": "PodScheduled",
    "status": "False",
    "reason": "Unschedulable",
    "message": "0/1 nodes are available: 1 Insufficient cpu.",
    "observedGeneration": 1,
    "lastProbeTime": None,
    "lastTransitionTime": "2026-01-02T03:04:05Z",
}


async def test_status_conditions_merge_by_type(api: Api, pods: str) -> None:
    """A scheduler's patch of one condition leaves the others, and a new condition comes first."""
    (await api.post(pods, pod("a"))).ok()
    patched = (await api.patch(f"{pods}/a/status", {"status": {"conditions": [UNSCHEDULABLE]}})).ok()
    assert condition(patched, "PodScheduled") == UNSCHEDULABLE
    ready = {"type": "Ready", "status": "False"}
    patched = (await api.patch(f"{pods}/a/status", {"status": {"conditions": [ready]}})).ok()
    assert [item["type"] for item in patched["status"]["conditions"]] == ["Ready", "PodScheduled"]
    shorter = {"type": "PodScheduled", "reason": "SchedulerError"}
    patched = (await api.patch(f"{pods}/a/status", {"status": {"conditions": [shorter]}})).ok()
    assert [item["type"] for item in patched["status"]["conditions"]] == ["Ready", "PodScheduled"]
    found = condition(patched, "PodScheduled")
    assert (found["status"], found["reason"], found["observedGeneration"]) == ("False", "SchedulerError", 1)
    assert patched["metadata"]["generation"] == 1


async def test_element_order_and_deletion(api: Api, pods: str) -> None:
    """$setElementOrder orders a merged list, and $patch: delete takes an item out."""
    (await api.post(pods, pod("a"))).ok()
    both = [UNSCHEDULABLE, {"type": "Ready", "status": "False"}]
    (await api.patch(f"{pods}/a/status", {"status": {"conditions": both}})).ok()
    order = [{"type": "Ready"}, {"type": "PodScheduled"}]
    patch = {"$setElementOrder/conditions": order, "conditions": [{"type": "PodScheduled", "message": "m"}]}
    patched = (await api.patch(f"{pods}/a/status", {"status": patch})).ok()
    assert [item["type"] for item in patched["status"]["conditions"]] == ["Ready", "PodScheduled"]
    assert condition(patched, "PodScheduled")["message"] == "m"
    gone = [{"$patch": "delete", "type": "Ready"}]
    patched = (await api.patch(f"{pods}/a/status", {"status": {"conditions": gone}})).ok()
    assert [item["type"] for item in patched["status"]["conditions"]] == ["PodScheduled"]


async def test_items_need_their_merge_key(api: Api, pods: str) -> None:
    """An item without its merge key is no condition, and where there are others it can't be merged: a plain 500."""
    (await api.post(pods, pod("a"))).ok()
    nameless = {"status": {"conditions": [{"status": "False"}]}}
    message = (await api.patch(f"{pods}/a/status", nameless)).refused(422, "Invalid")
    assert 'status.conditions[0].Type: Invalid value: ""' in message
    (await api.patch(f"{pods}/a/status", {"status": {"conditions": [UNSCHEDULABLE]}})).ok()
    message = (await api.patch(f"{pods}/a/status", nameless)).refused(500)
    assert message == "map: map[status:False] does not contain declared merge key: type"


async def test_nominated_node(api: Api, pods: str) -> None:
    """The nomination is set and cleared through status, and refused on a bound pod."""
    (await api.post(pods, pod("a"))).ok()
    patched = (await api.patch(f"{pods}/a/status", {"status": {"nominatedNodeName": "n1"}})).ok()
    assert patched["status"]["nominatedNodeName"] == "n1"
    patched = (await api.patch(f"{pods}/a/status", {"status": {"nominatedNodeName": None}})).ok()
    assert "nominatedNodeName" not in patched["status"]
    (await api.post(pods, pod("b", nodeName="n1"))).ok()
    message = (await api.patch(f"{pods}/b/status", {"status": {"nominatedNodeName": "n2"}})).refused(422, "Invalid")
    assert "status.nominatedNodeName: Forbidden: may not be set on pods that are already bound to a node" in message


async def test_status_writes_leave_the_spec(api: Api, pods: str) -> None:
    """Through /status only status, labels and annotations change."""
    (await api.post(pods, pod("a"))).ok()
    body = {
        "metadata": {"name": "a", "labels": {"via": "status"}},
        "spec": {"containers": [{"name": "x", "image": "y"}]},
        "status": {"phase": "Running"},
    }
    written = (await api.put(f"{pods}/a/status", body)).ok()
    assert written["spec"]["containers"][0]["name"] == "main"
    assert written["status"] == {"phase": "Running", "qosClass": "BestEffort"}
    assert written["metadata"]["labels"] == {"via": "status"}


async def test_containers_merge_by_name(api: Api, pods: str) -> None:
    """A new image for one container is the one change of a spec that needs no permission."""
    (await api.post(pods, pod("a"))).ok()
    patch = {"spec": {"containers": [{"name": "main", "image": "example.com/app:2"}]}}
    patched = (await api.patch(f"{pods}/a", patch)).ok()
    assert [item["image"] for item in patched["spec"]["containers"]] == ["example.com/app:2"]
    assert patched["metadata"]["generation"] == 2


@pytest.mark.parametrize(
    "change", [{"schedulerName": "other"}, {"nodeName": "n1"}, {"nodeSelector": {"a": "b"}}, {"priority": 7}]
)
async def test_immutable_spec(api: Api, pods: str, change: dict[str, Any]) -> None:
    """What decided a pod's scheduling can't be changed afterwards."""
    (await api.post(pods, pod("a"))).ok()
    message = (await api.patch(f"{pods}/a", {"spec": change})).refused(422, "Invalid")
    assert "spec: Forbidden: pod updates may not change fields other than `spec.containers[*].image`," in message


async def test_gates_only_go(api: Api, pods: str) -> None:
    """Gates can be removed, not added; while there are any, the node selection can be narrowed."""
    (await api.post(pods, pod("a", schedulingGates=[{"name": "one"}, {"name": "two"}]))).ok()
    patch = {"spec": {"schedulingGates": [{"name": "three"}]}}
    message = (await api.patch(f"{pods}/a", patch)).refused(422, "Invalid")
    assert "Forbidden: only deletion is allowed, but found new scheduling gate 'three'" in message
    (await api.patch(f"{pods}/a", {"spec": {"nodeSelector": {"zone": "z1"}}})).ok()
    patch = {"spec": {"schedulingGates": [{"$patch": "delete", "name": "two"}]}}
    assert (await api.patch(f"{pods}/a", patch)).ok()["spec"]["schedulingGates"] == [{"name": "one"}]
    patched = (await api.patch(f"{pods}/a", {"spec": {"schedulingGates": []}}, MERGE_PATCH)).ok()
    assert not patched["spec"].get("schedulingGates")


async def test_tolerations_only_grow(api: Api, pods: str) -> None:
    """Tolerations can be added; one that is there stays."""
    (await api.post(pods, pod("a"))).ok()
    more = [{"op": "add", "path": "/spec/tolerations/-", "value": {"key": "k", "operator": "Exists"}}]
    patched = (await api.patch(f"{pods}/a", more, JSON_PATCH)).ok()
    assert patched["spec"]["tolerations"][-1] == {"key": "k", "operator": "Exists"}
    fewer = [{"op": "remove", "path": "/spec/tolerations/2"}]
    message = (await api.patch(f"{pods}/a", fewer, JSON_PATCH)).refused(422, "Invalid")
    assert "existing toleration can not be modified except its tolerationSeconds" in message


async def test_merge_patch(api: Api, pods: str) -> None:
    """A merge patch sets what it names and removes what it names null."""
    (await api.post(pods, pod("a", labels={"x": "1", "y": "2"}))).ok()
    patched = (await api.patch(f"{pods}/a", {"metadata": {"labels": {"x": None, "z": "3"}}}, MERGE_PATCH)).ok()
    assert patched["metadata"]["labels"] == {"y": "2", "z": "3"}


async def test_json_patch(api: Api, pods: str) -> None:
    """A JSON patch does its operations in order; one that fails refuses them all, without saying which."""
    (await api.post(pods, pod("a", labels={"x": "1"}))).ok()
    good = [
        {"op": "test", "path": "/metadata/labels/x", "value": "1"},
        {"op": "add", "path": "/metadata/annotations", "value": {"example.com/a": "1"}},
        {"op": "replace", "path": "/metadata/annotations/example.com~1a", "value": "2"},
        {"op": "copy", "from": "/metadata/labels/x", "path": "/metadata/labels/y"},
        {"op": "move", "from": "/metadata/labels/x", "path": "/metadata/labels/z"},
        {"op": "remove", "path": "/metadata/labels/z"},
    ]
    metadata = (await api.patch(f"{pods}/a", good, JSON_PATCH)).ok()["metadata"]
    assert (metadata["labels"], metadata["annotations"]) == ({"y": "1"}, {"example.com/a": "2"})
    for bad in (
        [{"op": "test", "path": "/metadata/labels/y", "value": "no"}],
        [{"op": "remove", "path": "/metadata/labels/none"}],
        [{"op": "replace", "path": "/none/none", "value": 1}],
        [{"op": "add", "path": "/metadata/labels/w", "value": "1"}, {"op": "remove", "path": "/metadata/none"}],
    ):
        message = (await api.patch(f"{pods}/a", bad, JSON_PATCH)).refused(422, "Invalid")
        assert message == "the server rejected our request due to an error in our request"
    assert (await api.get(f"{pods}/a")).ok()["metadata"]["labels"] == {"y": "1"}


async def test_patches_and_versions(api: Api, pods: str) -> None:
    """A patch needs no version, and is refused when it names an old one."""
    (await api.post(pods, pod("a"))).ok()
    patch = {"metadata": {"resourceVersion": "1", "labels": {"x": "1"}}}
    message = (await api.patch(f"{pods}/a", patch, MERGE_PATCH)).refused(409, "Conflict")
    assert "the object has been modified" in message
    (await api.patch(f"{pods}/none", {"metadata": {"labels": {"x": "1"}}}, MERGE_PATCH)).refused(404, "NotFound")


async def test_patches_keep_identity(api: Api, pods: str) -> None:
    """A patch can't make another object of it."""
    (await api.post(pods, pod("a"))).ok()
    message = (await api.patch(f"{pods}/a", {"metadata": {"name": "b"}}, MERGE_PATCH)).refused(400, "BadRequest")
    assert message == "the name of the object (b) does not match the name on the URL (a)"
    message = (await api.patch(f"{pods}/a", {"metadata": {"uid": "other"}}, MERGE_PATCH)).refused(422, "Invalid")
    assert 'metadata.uid: Invalid value: "other": field is immutable' in message


async def test_unreadable_patches(api: Api, pods: str) -> None:
    """Formats and bodies that can't be read are refused before anything happens."""
    (await api.post(pods, pod("a"))).ok()
    (await api.patch(f"{pods}/a", "{no", MERGE_PATCH)).refused(400, "BadRequest")
    (await api.patch(f"{pods}/a", {"op": "remove"}, JSON_PATCH)).refused(400, "BadRequest")
    (await api.patch(f"{pods}/a", {}, "application/unheard-of")).refused(415, "UnsupportedMediaType")


async def test_bad_quantity_in_a_patch(api: Api, node: str) -> None:
    """A patch that brings in what can't be decoded is the patch's fault: 422."""
    patch = {"status": {"allocatable": {"cpu": "abc"}}}
    message = (await api.patch(f"/api/v1/nodes/{node}/status", patch)).refused(422, "Invalid")
    assert "patch: Invalid value: " in message
    assert "quantities must match the regular expression" in message
    (await api.patch(f"/api/v1/nodes/{node}/status", {"status": {"allocatable": {"cpu": "-2"}}})).refused(
        422, "Invalid"
    )


async def test_node_lists(api: Api, node: str) -> None:
    """A node's conditions and addresses merge by type; its taints are replaced as a whole."""
    path = f"/api/v1/nodes/{node}"
    ready = {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}
    (await api.patch(f"{path}/status", ready)).ok()
    disk = {"status": {"conditions": [{"type": "DiskPressure", "status": "False"}]}}
    patched = (await api.patch(f"{path}/status", disk)).ok()
    assert {item["type"] for item in patched["status"]["conditions"]} == {"Ready", "DiskPressure"}
    for key in ("a", "b"):
        patch = {"spec": {"taints": [{"key": key, "effect": "NoSchedule"}]}}
        patched = (await api.patch(path, patch, STRATEGIC_PATCH)).ok()
        assert [taint["key"] for taint in patched["spec"]["taints"]] == [key]


async def test_finalizers_merge_as_a_set(api: Api, pods: str) -> None:
    """Finalizers are a merged list of plain values, with $deleteFromPrimitiveList to take from it."""
    (await api.post(pods, pod("a", finalizers=["example.com/a"]))).ok()
    patch = {"metadata": {"finalizers": ["example.com/b", "example.com/a"]}}
    patched = (await api.patch(f"{pods}/a", patch)).ok()
    assert sorted(patched["metadata"]["finalizers"]) == ["example.com/a", "example.com/b"]
    patch = {"metadata": {"$deleteFromPrimitiveList/finalizers": ["example.com/a"]}}
    patched = (await api.patch(f"{pods}/a", patch)).ok()
    assert patched["metadata"]["finalizers"] == ["example.com/b"]
    (await api.patch(f"{pods}/a", {"metadata": {"finalizers": None}}, MERGE_PATCH)).ok()
