"""What isn't an object: discovery, health, unknown paths, methods, reviews."""

from __future__ import annotations

import pytest

from tests.contract.client import Api, pod


async def test_discovery_of_core(api: Api) -> None:
    """Clients learn names and kinds from here."""
    assert (await api.get("/api")).ok()["versions"] == ["v1"]
    body = (await api.get("/api/v1")).ok()
    assert (body["kind"], body["groupVersion"]) == ("APIResourceList", "v1")
    by_name = {resource["name"]: resource for resource in body["resources"]}
    found = by_name["pods"]
    assert (found["kind"], found["namespaced"], found["singularName"]) == ("Pod", True, "pod")
    assert {"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"} == set(found["verbs"])
    assert by_name["nodes"]["namespaced"] is False
    assert by_name["pods/binding"]["kind"] == "Binding"
    assert (by_name["pods/eviction"]["group"], by_name["pods/eviction"]["version"]) == ("policy", "v1")


@pytest.mark.parametrize(
    ("group", "plural", "kind"),
    [
        ("apps/v1", "statefulsets", "StatefulSet"),
        ("policy/v1", "poddisruptionbudgets", "PodDisruptionBudget"),
        ("storage.k8s.io/v1", "csistoragecapacities", "CSIStorageCapacity"),
        ("resource.k8s.io/v1", "resourceclaims", "ResourceClaim"),
        ("resource.k8s.io/v1", "devicetaintrules", "DeviceTaintRule"),
        ("coordination.k8s.io/v1", "leases", "Lease"),
        ("events.k8s.io/v1", "events", "Event"),
        ("scheduling.k8s.io/v1", "priorityclasses", "PriorityClass"),
        ("admissionregistration.k8s.io/v1", "mutatingwebhookconfigurations", "MutatingWebhookConfiguration"),
        ("apiextensions.k8s.io/v1", "customresourcedefinitions", "CustomResourceDefinition"),
        ("rbac.authorization.k8s.io/v1", "clusterroles", "ClusterRole"),
    ],
)
async def test_discovery_of_groups(api: Api, group: str, plural: str, kind: str) -> None:
    """Each group lists its kinds."""
    groups = {found["name"] for found in (await api.get("/apis")).ok()["groups"]}
    assert group.partition("/")[0] in groups
    by_name = {resource["name"]: resource for resource in (await api.get(f"/apis/{group}")).ok()["resources"]}
    assert by_name[plural]["kind"] == kind


@pytest.mark.parametrize("path", ["/healthz", "/livez", "/readyz"])
async def test_health(api: Api, path: str) -> None:
    """A server that answers is healthy."""
    reply = await api.get(path)
    assert (reply.code, reply.body) == (200, "ok")


async def test_version(api: Api) -> None:
    """Clients decide by the version what they may use."""
    version = (await api.get("/version")).ok()
    assert version["major"] == "1"
    assert version["gitVersion"].startswith(f"v1.{version['minor']}.")


async def test_unknown_paths(api: Api, namespace: str) -> None:
    """An unknown resource is a Status; an unknown group isn't even that."""
    message = (await api.get(f"/api/v1/namespaces/{namespace}/nonesuch")).refused(404, "NotFound")
    assert message == "the server could not find the requested resource"
    (await api.get("/apis/apps/v1/nonesuch")).refused(404, "NotFound")
    for path in ("/apis/nonesuch.example.com/v1/foos", "/nonesuch"):
        reply = await api.get(path)
        assert (reply.code, reply.body) == (404, "404 page not found\n")


async def test_methods_that_a_path_does_not_have(api: Api, pods: str) -> None:
    """Creating by name or without a namespace, and replacing a collection, are no methods."""
    for method, path in (("POST", f"{pods}/a"), ("POST", "/api/v1/pods"), ("PUT", pods)):
        message = (await api.call(method, path, pod("a"))).refused(405, "MethodNotAllowed")
        assert message == "the server does not allow this method on the requested resource"


async def test_one_object_is_read_though_a_watch_is_asked_for(api: Api, pods: str) -> None:
    """Only a collection is watched by a parameter."""
    (await api.call("POST", pods, pod("a"))).ok()
    assert (await api.get(f"{pods}/a?watch=true")).ok()["metadata"]["name"] == "a"


async def test_unreadable_bodies(api: Api, pods: str) -> None:
    """What is no JSON, or another kind, is a 400."""
    (await api.post(pods, "{no")).refused(400, "BadRequest")
    (await api.post(pods, {"kind": "Node", "apiVersion": "v1", "metadata": {"name": "a"}})).refused(400, "BadRequest")
    (await api.post(pods, {"kind": "Pod", "apiVersion": "v2", "metadata": {"name": "a"}})).refused(400, "BadRequest")


async def test_token_review(api: Api) -> None:
    """A token that nobody has is answered, not refused."""
    reply = await api.post("/apis/authentication.k8s.io/v1/tokenreviews", {"spec": {"token": "nobodys"}})
    assert reply.code == 201
    assert reply.body["kind"] == "TokenReview"
    assert not reply.body["status"].get("authenticated")


async def test_access_review(api: Api) -> None:
    """Masters may do anything; the caller can ask for itself."""
    attributes = {"verb": "create", "resource": "pods", "subresource": "binding", "namespace": "default"}
    spec = {"user": "root", "groups": ["system:masters"], "resourceAttributes": attributes}
    reply = await api.post("/apis/authorization.k8s.io/v1/subjectaccessreviews", {"spec": spec})
    assert reply.ok()["status"]["allowed"] is True
    own = {"spec": {"resourceAttributes": attributes}}
    reply = await api.post("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", own)
    assert reply.ok()["status"]["allowed"] is True
