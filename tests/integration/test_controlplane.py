"""The real control plane does what the other tests on it take for granted."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import closing

import pytest

from tests.controlplane import build
from tests.controlplane.api import Api, ApiError, Object
from tests.controlplane.cluster import STRANGER, Cluster, ControlPlane
from tests.controlplane.wait import wait_for


def node(name: str) -> Object:
    """A node with room for a few small pods, found by the label `test`."""
    room = {"cpu": "4", "memory": "8Gi", "pods": "110"}
    return {"metadata": {"name": name, "labels": {"test": name}}, "status": {"capacity": room, "allocatable": room}}


def pod(name: str, selector: str, scheduler: str = "default-scheduler") -> Object:
    """A small pod for the nodes with this label `test`."""
    container = {"name": "main", "image": "registry.example/app", "resources": {"requests": {"cpu": "100m"}}}
    return {
        "metadata": {"name": name},
        "spec": {"schedulerName": scheduler, "nodeSelector": {"test": selector}, "containers": [container]},
    }


@pytest.fixture
def real_node(control_plane: Cluster) -> Iterator[str]:
    """A node for one test."""
    name = f"node-{secrets.token_hex(4)}"
    control_plane.api.create("/api/v1/nodes", node(name))
    yield name
    control_plane.api.delete(f"/api/v1/nodes/{name}")


def test_version(control_plane: Cluster) -> None:
    """The server that we build answers with the release that it was built from."""
    if not isinstance(control_plane, ControlPlane) or control_plane.tool("etcd").parent != build.CONTROL_PLANE.place():
        pytest.skip("not built here, any version will do")
    assert control_plane.api.get("/version")["gitVersion"] == build.VERSION == "v1.37.0"


def test_unknown_user_is_refused(control_plane: Cluster) -> None:
    """RBAC gives a user without roles nothing."""
    if not isinstance(control_plane, ControlPlane):
        pytest.skip("needs a token of a user without roles")
    stranger = control_plane.api_as(control_plane.tokens[STRANGER])
    with pytest.raises(ApiError, match='User "stranger" cannot list resource "pods"') as refused:
        stranger.get("/api/v1/pods")
    stranger.close()
    assert (refused.value.status, refused.value.reason) == (403, "Forbidden")


def test_service_account_has_a_token(control_plane: Cluster, real_namespace: str) -> None:
    """A service account's token is accepted, and stands for that account."""
    account = control_plane.api_as(control_plane.service_account_token(real_namespace, "visitor"))
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    who = account.create("/apis/authentication.k8s.io/v1/selfsubjectreviews", review)
    account.close()
    assert who["status"]["userInfo"]["username"] == f"system:serviceaccount:{real_namespace}:visitor"


def test_objects_come_and_go(control_plane: Cluster, real_namespace: str) -> None:
    """A pod is created, seen by a watch, patched and deleted, each once."""
    api, pods = control_plane.api, f"/api/v1/namespaces/{real_namespace}/pods"
    since = api.get(pods)["metadata"]["resourceVersion"]
    api.create(pods, pod("web", "nowhere", "nobody"))
    api.patch(f"{pods}/web", {"metadata": {"labels": {"tier": "front"}}})
    api.delete(f"{pods}/web")
    events = api.watch(pods, resourceVersion=since)
    seen = [next(events) for _ in range(4)]
    events.close()
    assert [event["type"] for event in seen] == ["ADDED", "MODIFIED", "MODIFIED", "DELETED"]
    assert "deletionTimestamp" in seen[2]["object"]["metadata"]  # a pod is marked first, even with a grace of 0
    assert seen[1]["object"]["metadata"]["labels"] == {"tier": "front"}


def test_many_objects_are_created(control_plane: Cluster, real_namespace: str) -> None:
    """Objects created over several connections are all there, and a refusal among them is raised."""
    pods = f"/api/v1/namespaces/{real_namespace}/pods"
    assert control_plane.api.create_many(pods, [pod(f"web-{i}", "nowhere", "nobody") for i in range(50)]) == 50
    assert len(control_plane.api.list(pods, limit=20)) == 50
    with pytest.raises(ApiError) as refused:
        control_plane.api.create_many(pods, [pod("web-7", "nowhere", "nobody")])
    assert refused.value.reason == "AlreadyExists"


def test_kube_scheduler_binds(control_plane: Cluster, real_namespace: str, real_node: str) -> None:
    """kube-scheduler binds a plain pod to a node that no kubelet made ready, and kubectl shows the event."""
    mine = f"kube-scheduler-{secrets.token_hex(4)}"
    scheduler = control_plane.start_kube_scheduler(scheduler_name=mine)
    pods = f"/api/v1/namespaces/{real_namespace}/pods"
    control_plane.api.create(pods, pod("web", real_node, mine))
    bound = wait_for("the pod to be bound", lambda: control_plane.api.get(f"{pods}/web")["spec"].get("nodeName"))
    assert bound == real_node
    assert "taints" not in control_plane.api.get(f"/api/v1/nodes/{real_node}")["spec"]
    wait_for("the event", lambda: control_plane.api.list(f"/api/v1/namespaces/{real_namespace}/events"))
    described = control_plane.kubectl("describe", "pod", "web", "-n", real_namespace).stdout
    assert f"Successfully assigned {real_namespace}/web to {real_node}" in described
    scheduler.stop()
    assert not scheduler.running


@pytest.mark.usefixtures("control_plane_binaries")
def test_faults() -> None:
    """A killed API server comes back with its data, a paused etcd holds writes up, compacted history is gone."""
    with ControlPlane(audit=True) as own:
        since = own.api.get("/api/v1/nodes")["metadata"]["resourceVersion"]
        own.api.create("/api/v1/nodes", node("a"))
        own.compact()
        own.restart_apiserver()
        watching = own.api.watch("/api/v1/nodes", resourceVersion=since)
        gone = next(watching)
        watching.close()
        assert (gone["type"], gone["object"]["code"]) == ("ERROR", 410)

        with closing(Api(own.url, own.admin_token, own.ca, timeout=1)) as hasty:
            own.etcd.pause()
            with pytest.raises(TimeoutError):
                hasty.create("/api/v1/nodes", node("b"))
            own.etcd.resume()
        assert own.api.get("/api/v1/nodes/a")["metadata"]["name"] == "a"
        created = {
            e["objectRef"]["name"] for e in own.audit_events() if e["verb"] == "create" and "name" in e["objectRef"]
        }
        assert "a" in created
        processes = own.processes
    assert not any(process.running for process in processes)
