"""Answers with a code of success: which are an API server's, by what was asked for."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from aiohttp import web

from podberth.app.evictor import evictions
from podberth.kube import writes
from podberth.kube.client import of_an_api_server
from podberth.kube.errors import Unreachable
from podberth.kube.flow import LEASE, STATUS
from podberth.kube.writes import PodRef, live_pod
from tests.unit.kube.conftest import ScriptedServer
from tests.unit.kube.wirekit import DONE, stored

POD = "/api/v1/namespaces/ns/pods/p"
PODS = "/api/v1/pods"
LEASE_PATH = "/apis/coordination.k8s.io/v1/namespaces/ns/leases/l"
POLICIES = "/apis/podberth.dev/v1alpha1/metadatapolicies"
REVIEWS = "/apis/authentication.k8s.io/v1/tokenreviews"
EVENTS = "/apis/events.k8s.io/v1/namespaces/ns/events"
META = {"name": "p", "uid": "u-1", "resourceVersion": "7"}

REQUESTS = {
    "list": ("GET", PODS),
    "list of custom resources": ("GET", POLICIES),
    "list of a kind unknown here": ("GET", "/apis/example.org/v1/gadgets"),
    "get": ("GET", POD),
    "get of a namespace": ("GET", "/api/v1/namespaces/p"),
    "get of a kind unknown here": ("GET", "/apis/example.org/v1/gadgets/p"),
    "create": ("POST", EVENTS),
    "review": ("POST", REVIEWS),
    "binding": ("POST", f"{POD}/binding"),
    "eviction": ("POST", f"{POD}/eviction"),
    "status": ("PATCH", f"{POD}/status"),
    "lease": ("PUT", LEASE_PATH),
    "delete": ("DELETE", POD),
    "delete of many": ("DELETE", "/api/v1/namespaces/ns/pods"),
    "kinds": ("GET", "/apis/podberth.dev/v1alpha1"),
}
"""All that Berth asks an API server for: method and path."""

LISTS = {"list", "list of custom resources", "list of a kind unknown here", "delete of many"}
STRANGE: dict[str, Any] = {
    "empty object": {},
    "word of health": {"status": "ok"},
    "error": {"error": "no healthy upstream", "code": 503},
    "array": [],
    "text": "ok",
    "number": 3,
    "null": None,
    "failure": {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "code": 503},
    "half a Status": {"kind": "Status", "status": 3},
    "another kind": {"kind": "ConfigMap", "apiVersion": "v1", "metadata": META, "data": {}},
    "another group": {"kind": "Pod", "apiVersion": "metrics.k8s.io/v1beta1", "metadata": META},
    "another's list": {"kind": "NodeList", "apiVersion": "v1", "metadata": {"resourceVersion": "7"}, "items": []},
    "metadata of a wrong type": {"kind": "Pod", "apiVersion": "v1", "metadata": 3},
    "a name of a wrong type": {"kind": "Pod", "apiVersion": "v1", "metadata": {**META, "name": 3}},
    "spec of a wrong type": {"kind": "Pod", "apiVersion": "v1", "metadata": META, "spec": []},
    "another object": {"kind": "Pod", "apiVersion": "v1", "metadata": {**META, "name": "q"}},
    "what was never stored": {"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "p"}},
    "items of a wrong type": {"kind": "PodList", "apiVersion": "v1", "metadata": {"resourceVersion": "7"}, "items": {}},
    "no items": {"kind": "PodList", "apiVersion": "v1", "metadata": {"resourceVersion": "7"}},
    "a list without a version": {"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": []},
    "a list of nothing": {"kind": "List", "apiVersion": "v1", "metadata": {"resourceVersion": "7"}, "items": []},
    "a list without a kind": {"metadata": {"resourceVersion": "7"}, "items": []},
    "the kinds of another group": {"kind": "APIResourceList", "groupVersion": "apps/v1", "resources": []},
    "a question without an answer": {
        "kind": "TokenReview",
        "apiVersion": "authentication.k8s.io/v1",
        "metadata": {},
        "spec": {"token": "t"},
    },
}
"""Answers that something between us and the API server may give, or a broken one."""

REAL: list[tuple[str, bytes]] = [
    ("binding", DONE),
    ("eviction", DONE),
    ("delete", DONE),
    ("delete of many", DONE),
    ("get", stored("Pod", "p")),
    ("status", stored("Pod", "p")),
    ("delete", stored("Pod", "p")),
    ("get of a namespace", stored("Namespace", "p")),
    ("get of a kind unknown here", stored("Gadget", "p", "example.org/v1")),
    ("lease", stored("Lease", "l", "coordination.k8s.io/v1")),
    ("create", stored("Event", "p.1", "events.k8s.io/v1")),
    ("list", b'{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"7"},"items":[]}\n'),
    ("list", b'{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"7","continue":"x"},"items":[{}]}\n'),
    ("list", b'{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"7"},"items":null}\n'),
    (
        "list",
        b'{"kind":"PartialObjectMetadataList","apiVersion":"meta.k8s.io/v1","metadata":{"resourceVersion":"7"},'
        b'"items":null}\n',
    ),
    ("delete of many", b'{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"7"},"items":[]}\n'),
    (
        "list of custom resources",
        b'{"apiVersion":"podberth.dev/v1alpha1","items":[{}],"kind":"MetadataPolicyList",'
        b'"metadata":{"continue":"","resourceVersion":"7"}}\n',
    ),
    (
        "list of a kind unknown here",
        b' { "apiVersion": "example.org/v1", "items": [], "kind": "GadgetList", "metadata": {"resourceVersion": "7"} }',
    ),
    (
        "review",
        b'{"kind":"TokenReview","apiVersion":"authentication.k8s.io/v1","metadata":{},"spec":{},"status":{}}',
    ),
    (
        "kinds",
        b'{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"podberth.dev/v1alpha1","resources":[{"name":"x"}]}',
    ),
]


@pytest.mark.parametrize("strange", STRANGE)
@pytest.mark.parametrize("asked", REQUESTS)
def test_json_that_is_no_answer(asked: str, strange: str) -> None:
    """Every kind of request, with every body that is JSON but no answer to it: as good as none."""
    verb, path = REQUESTS[asked]
    told = "none of an API server's"
    with pytest.raises(Unreachable, match=told) as caught:
        of_an_api_server(verb, path, "", msgspec.json.encode(STRANGE[strange]))
    assert caught.value.sent
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "body", [b'{"metadata":{},"spec":{"nodeName":7}}', b'{"metadata":{},"spec":[]}', b"{", b"\xff"]
)
def test_fields_of_another_type(body: bytes) -> None:
    """The reader looks at the inside of spec and status: such an answer is as good as none."""
    with pytest.raises(Unreachable, match="none of an API server's") as caught:
        live_pod(body)
    assert caught.value.sent
    assert live_pod(b'{"metadata":{"uid":"u"},"spec":{"nodeName":"n"}}').spec.node_name == "n"


@pytest.mark.parametrize(("asked", "body"), REAL)
def test_what_an_api_server_says(asked: str, body: bytes) -> None:
    """As kube-apiserver writes it, and as anybody else might."""
    verb, path = REQUESTS[asked]
    assert of_an_api_server(verb, path, "", body) is body


@pytest.mark.parametrize("asked", sorted(LISTS - {"delete of many"}))
@pytest.mark.parametrize("end", [b"", b"<html>", b'],"kind":"X","metadata":{}}', b"}"])
def test_a_list_is_looked_at_from_both_ends(asked: str, end: bytes) -> None:
    """A list that was cut, or goes on as something else, is none, though it begins as one."""
    verb, path = REQUESTS[asked]
    whole = next(body for name, body in REAL if name == asked).rstrip().rpartition(b"]")[0]
    with pytest.raises(Unreachable):
        of_an_api_server(verb, path, "", whole + end)


def test_a_dry_run_stores_nothing() -> None:
    """An object that was only tried has no resourceVersion."""
    body = b'{"kind":"Pod","apiVersion":"v1","metadata":{"name":"p","uid":"u-1"}}'
    assert of_an_api_server("PATCH", POD, "dryRun=All", body) is body


def test_secrets_are_not_shown() -> None:
    """The message goes to logs."""
    with pytest.raises(Unreachable) as caught:
        of_an_api_server("GET", "/api/v1/namespaces/ns/secrets/s", "", b'{"data":{"password":"aHVudGVy"}}')
    assert "aHVudGVy" not in str(caught.value)


def test_names_are_compared_as_they_are_meant() -> None:
    """In a path they are percent-encoded."""
    body = stored("ClusterRole", "a b", "rbac.authorization.k8s.io/v1")
    assert of_an_api_server("GET", "/apis/rbac.authorization.k8s.io/v1/clusterroles/a%20b", "", body) is body


@pytest.mark.parametrize("path", ["/metrics", "/version", "/api", "/apis", "/x"])
def test_what_is_not_of_the_api_may_say_anything(path: str) -> None:
    """Nothing is promised there."""
    assert of_an_api_server("GET", path, "", b"{}") == b"{}"


@pytest.mark.parametrize("strange", ["empty object", "failure", "another kind", "array"])
async def test_the_client_takes_none_for_an_answer(server: ScriptedServer, strange: str) -> None:
    """Whatever is sent, and however: nothing succeeds that the API server may never have seen."""

    async def answer(_: web.Request) -> web.StreamResponse:
        return web.json_response(STRANGE[strange])

    server.answer = answer
    pod = PodRef("ns", "p", "u-1")
    async with server.client() as client:
        for request in (
            writes.bind(client, pod, "n"),
            writes.patch_status(client, *writes.nomination_patch(pod, "n")),
            writes.delete_pod(client, pod),
            evictions.evict(client, pod, dry_run=False),
            evictions.is_leaving(client, pod),
            evictions.read_node(client, "n"),
            evictions.read_pods(client, "n"),
            evictions.read_past_evictions(client),
            client.request("PUT", LEASE_PATH, body=b"{}", lane=LEASE),
        ):
            with pytest.raises(Unreachable, match="none of an API server's"):
                await request
        patches = [(f"{POD}/status", b"{}", "application/merge-patch+json")] * 2
        assert await client.patch_many(patches, lane=STATUS) == [(0, b"")] * 2
