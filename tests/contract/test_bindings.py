"""pods/binding: what a scheduler writes, and each way in which it is refused."""

from __future__ import annotations

from typing import Any

import pytest

from tests.contract.client import MERGE_PATCH, Api, condition, pod


def binding(name: str, target: Any = None, **metadata: Any) -> dict[str, Any]:
    """A Binding as schedulers write it."""
    return {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": name, **metadata},
        "target": {"kind": "Node", "name": "n1"} if target is None else target,
    }


async def test_a_binding(api: Api, namespace: str, pods: str, node: str) -> None:
    """A binding sets the node, the condition and what rides along, and is answered by a Status."""
    created = (await api.post(pods, pod("a", labels={"app": "web"}))).ok()
    nominated = {"status": {"nominatedNodeName": node}}
    (await api.patch(f"{pods}/a/status", nominated, MERGE_PATCH)).ok()
    metadata = {"namespace": namespace, "uid": created["metadata"]["uid"], "annotations": {"example.com/by": "berth"}}
    reply = await api.post(f"{pods}/a/binding", binding("a", {"kind": "Node", "name": node}, **metadata))
    assert reply.code == 201
    assert reply.body == {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}
    bound = (await api.get(f"{pods}/a")).ok()
    assert bound["spec"]["nodeName"] == node
    assert condition(bound, "PodScheduled")["status"] == "True"
    assert condition(bound, "PodScheduled")["lastTransitionTime"]
    assert bound["metadata"]["annotations"] == {"example.com/by": "berth"}
    assert bound["metadata"]["labels"] == {"app": "web", "topology.kubernetes.io/zone": "z1"}
    assert bound["metadata"]["generation"] == 1
    assert "nominatedNodeName" not in bound["status"]


async def test_the_old_condition_is_replaced(api: Api, pods: str) -> None:
    """Nothing of an earlier failure stays in the PodScheduled condition."""
    (await api.post(pods, pod("a"))).ok()
    failed = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "m"}
    (await api.patch(f"{pods}/a/status", {"status": {"conditions": [failed]}})).ok()
    (await api.post(f"{pods}/a/binding", binding("a"))).ok()
    found = condition((await api.get(f"{pods}/a")).ok(), "PodScheduled")
    assert found.keys() == {"type", "status", "lastProbeTime", "lastTransitionTime"}
    assert found["status"] == "True"


async def test_to_a_node_that_is_not_there(api: Api, pods: str) -> None:
    """The API doesn't look whether the node exists."""
    (await api.post(pods, pod("a"))).ok()
    (await api.post(f"{pods}/a/binding", binding("a", {"kind": "Node", "name": "nowhere"}))).ok()
    assert (await api.get(f"{pods}/a")).ok()["spec"]["nodeName"] == "nowhere"


async def test_by_the_bindings_collection(api: Api, namespace: str, pods: str) -> None:
    """The old path, which names the pod in the body only, still binds."""
    (await api.post(pods, pod("a"))).ok()
    (await api.post(f"/api/v1/namespaces/{namespace}/bindings", binding("a"))).ok()
    assert (await api.get(f"{pods}/a")).ok()["spec"]["nodeName"] == "n1"


async def test_dry_run(api: Api, pods: str) -> None:
    """A dry run binds nothing."""
    (await api.post(pods, pod("a"))).ok()
    assert (await api.post(f"{pods}/a/binding", binding("a"), dryRun="All")).code == 201
    assert "nodeName" not in (await api.get(f"{pods}/a")).ok()["spec"]


async def test_already_assigned(api: Api, pods: str) -> None:
    """A pod is bound once; the refusal names where it is."""
    (await api.post(pods, pod("a"))).ok()
    (await api.post(f"{pods}/a/binding", binding("a"))).ok()
    reply = await api.post(f"{pods}/a/binding", binding("a", {"kind": "Node", "name": "n2"}))
    assert reply.refused(409, "Conflict") == (
        'Operation cannot be fulfilled on pods/binding "a": pod a is already assigned to node "n1"'
    )
    assert reply.body["details"] == {"name": "a", "kind": "pods/binding"}


async def test_being_deleted(api: Api, pods: str) -> None:
    """A pod on its way out isn't bound any more."""
    (await api.post(pods, pod("a", finalizers=["example.com/hold"]))).ok()
    (await api.delete(f"{pods}/a")).ok()
    message = (await api.post(f"{pods}/a/binding", binding("a"))).refused(409, "Conflict")
    assert message == (
        'Operation cannot be fulfilled on pods/binding "a": pod a is being deleted, cannot be assigned to a host'
    )
    (await api.patch(f"{pods}/a", {"metadata": {"finalizers": None}}, MERGE_PATCH)).ok()


async def test_gated(api: Api, pods: str) -> None:
    """A pod with gates isn't bound."""
    (await api.post(pods, pod("a", schedulingGates=[{"name": "wait"}]))).ok()
    message = (await api.post(f"{pods}/a/binding", binding("a"))).refused(409, "Conflict")
    assert message == ('Operation cannot be fulfilled on pods/binding "a": pod a has non-empty .spec.schedulingGates')


async def test_another_uid(api: Api, namespace: str, pods: str) -> None:
    """A binding for a pod that was recreated is refused by its uid."""
    uid = (await api.post(pods, pod("a"))).ok()["metadata"]["uid"]
    reply = await api.post(f"{pods}/a/binding", binding("a", uid="an-older-one"))
    assert reply.refused(409, "Conflict") == (
        'Operation cannot be fulfilled on pods "a": StorageError: invalid object, Code: 4, Key: '
        f"/registry/pods/{namespace}/a, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in "
        f"precondition: an-older-one, UID in object meta: {uid}"
    )
    assert reply.body["details"] == {"name": "a", "kind": "pods"}
    assert "nodeName" not in (await api.get(f"{pods}/a")).ok()["spec"]


async def test_another_version(api: Api, pods: str) -> None:
    """A binding may also insist on the version that was looked at."""
    version = (await api.post(pods, pod("a"))).ok()["metadata"]["resourceVersion"]
    message = (await api.post(f"{pods}/a/binding", binding("a", resourceVersion="1"))).refused(409, "Conflict")
    assert "Precondition failed: ResourceVersion in precondition: 1, ResourceVersion in object meta: " in message
    (await api.post(f"{pods}/a/binding", binding("a", resourceVersion=version))).ok()


async def test_no_such_pod(api: Api, pods: str) -> None:
    """A pod that was deleted meanwhile is a 404."""
    reply = await api.post(f"{pods}/gone/binding", binding("gone"))
    assert reply.refused(404, "NotFound") == 'pods "gone" not found'
    assert reply.body["details"] == {"name": "gone", "kind": "pods"}


@pytest.mark.parametrize(
    ("body", "code", "reason", "message"),
    [
        (binding("b"), 400, "BadRequest", "name in URL does not match name in Binding object"),
        (
            binding("a", namespace="elsewhere"),
            400,
            "BadRequest",
            "the namespace of the provided object does not match the namespace sent on the request",
        ),
        (binding("a", {}), 500, "", "target.name: Required value"),
        (
            binding("a", {"kind": "Foo", "name": "n1"}),
            500,
            "",
            'target.kind: Unsupported value: "Foo": supported values: "Node", "<empty>"',
        ),
    ],
)
async def test_malformed(api: Api, pods: str, body: Any, code: int, reason: str, message: str) -> None:
    """Bindings that make no sense are refused, some of them in an odd way."""
    (await api.post(pods, pod("a"))).ok()
    assert (await api.post(f"{pods}/a/binding", body)).refused(code, reason) == message
