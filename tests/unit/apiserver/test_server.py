"""What only the embedded server has: tokens, authorizer, audit log, faults, bounded history, life."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from podberth.apiserver import ApiServer, Connection, DropConnectionError, StatusError, User
from tests.contract.client import Api, pod

PODS = "/api/v1/namespaces/default/pods"


@pytest.fixture
async def server() -> AsyncIterator[ApiServer]:
    """A server with its defaults."""
    async with ApiServer() as running:
        yield running


@pytest.fixture
async def api(server: ApiServer) -> AsyncIterator[Api]:
    """A client of it."""
    client = Api(server.url)
    yield client
    await client.close()


async def test_tokens() -> None:
    """With tokens, a known one is its user, an unknown one 401, and none the anonymous user, who may see health."""
    async with ApiServer(tokens={"t1": "alice"}) as server:
        for token, code in (("t1", 200), ("t2", 401), ("", 403)):
            api = Api(server.url, token)
            assert (await api.get("/api/v1/nodes")).code == code
            assert (await api.get("/healthz")).code == (401 if code == 401 else 200)
            await api.close()
        assert {entry.user for entry in server.audit} == {"alice", "system:anonymous"}


async def test_authorizer() -> None:
    """The authorizer hook decides, the message names user, verb and resource, and reviews answer by it."""

    def may(user: User, verb: str, group: str, resource: str, namespace: str, name: str) -> bool:
        return resource != "pods/binding"

    async with ApiServer(tokens={"t": User("bob", ("system:authenticated",))}, authorizer=may) as server:
        api = Api(server.url, "t")
        (await api.post(PODS, pod("a"))).ok()
        body = {"metadata": {"name": "a"}, "target": {"kind": "Node", "name": "n"}}
        assert (await api.post(f"{PODS}/a/binding", body)).refused(403, "Forbidden") == (
            'pods "a" is forbidden: User "bob" cannot create resource "pods/binding" in API group "" in the namespace '
            '"default"'
        )
        attributes = {"verb": "create", "resource": "pods", "subresource": "binding"}
        review = {"spec": {"user": "bob", "resourceAttributes": attributes}}
        reply = await api.post("/apis/authorization.k8s.io/v1/subjectaccessreviews", review)
        assert reply.ok()["status"] == {"allowed": False}
        reply = await api.post("/apis/authentication.k8s.io/v1/tokenreviews", {"spec": {"token": "t"}})
        assert reply.ok()["status"]["user"]["username"] == "bob"
        await api.close()


async def test_audit_log_tells_bindings(server: ApiServer, api: Api) -> None:
    """Every request is entered once; a binding with the uid that it bound and the node."""
    uid = (await api.post(PODS, pod("a"))).ok()["metadata"]["uid"]
    body = {"metadata": {"name": "a"}, "target": {"kind": "Node", "name": "n"}}
    (await api.post(f"{PODS}/a/binding", body)).ok()
    (await api.post(f"{PODS}/a/binding", body)).refused(409, "Conflict")
    entries = [(entry.verb, entry.code, entry.annotations.get("berth/bound-uid")) for entry in server.audit]
    assert entries == [("create", 201, None), ("create", 201, uid), ("create", 409, None)]
    assert server.audit[1].annotations["berth/bound-node"] == "n"


async def test_faults(server: ApiServer, api: Api) -> None:
    """A fault hook can refuse, answer, or cut the connection."""
    what: dict[str, Any] = {}

    async def fault(connection: Connection) -> web.StreamResponse | None:
        if connection.info.plural != "nodes":
            return None
        if "raise" in what:
            raise what["raise"]
        return web.Response(status=418, text="teapot")

    server.fault = fault
    assert (await api.get("/api/v1/nodes")).code == 418
    what["raise"] = StatusError(429, "TooManyRequests", "slow down", {"retryAfterSeconds": 3}, retry_after=3)
    reply = await api.get("/api/v1/nodes")
    assert (reply.refused(429, "TooManyRequests"), reply.headers["Retry-After"]) == ("slow down", "3")
    what["raise"] = DropConnectionError()
    with pytest.raises(aiohttp.ClientError):
        # A POST: aiohttp repeats a GET by itself when the connection breaks.
        await api.post("/api/v1/nodes", {})
    assert (await api.get(PODS)).code == 200
    assert [entry.code for entry in server.audit] == [418, 429, 0, 200]


async def test_history_is_bounded() -> None:
    """A watch from before the kept events is 410, one from within them isn't."""
    async with ApiServer(history=3) as server:
        api = Api(server.url)
        versions = [(await api.post(PODS, pod(f"p{n}"))).ok()["metadata"]["resourceVersion"] for n in range(6)]
        async with api.watch(PODS, resourceVersion=versions[1], timeoutSeconds=1) as events:
            assert [(type_, status["code"]) for type_, status in await events.rest()] == [("ERROR", 410)]
        async with api.watch(PODS, resourceVersion=versions[2], timeoutSeconds=1) as events:
            assert [obj["metadata"]["name"] for _, obj in await events.rest()] == ["p3", "p4", "p5"]
        await api.close()


async def test_bookmarks() -> None:
    """Bookmarks come at the set interval and carry the newest version, also of changes that the watch doesn't see."""
    async with ApiServer(bookmark_interval=0.01) as server:
        api = Api(server.url)
        since = (await api.get(PODS)).ok()["metadata"]["resourceVersion"]
        node = (await api.post("/api/v1/nodes", {"metadata": {"name": "n"}})).ok()["metadata"]["resourceVersion"]
        query = {"resourceVersion": since, "allowWatchBookmarks": "true", "timeoutSeconds": 30}
        async with api.watch(PODS, **query) as events:
            type_, bookmark = await events.next()
            assert (type_, bookmark["metadata"]["resourceVersion"]) == ("BOOKMARK", node)
        await api.close()


async def test_a_client_that_leaves_is_forgotten(server: ApiServer, api: Api) -> None:
    """A closed watch leaves no listener behind."""
    async with api.watch(PODS, timeoutSeconds=30):
        assert len(server.store.collection("pods").listeners) == 1
    await api.eventually(PODS, lambda _: not server.store.collection("pods").listeners)


async def test_stop_ends_watches_and_start_keeps_data(api: Api, server: ApiServer) -> None:
    """A stopped server ends its watches; started again it is where it was, with what it had."""
    (await api.post(PODS, pod("a"))).ok()
    url = server.url
    async with api.watch(PODS, timeoutSeconds=30) as events:
        assert (await events.next())[0] == "ADDED"
        await server.stop()
        assert await events.rest() == []
    await server.start()
    assert server.url == url
    assert (await api.get(f"{PODS}/a")).code == 200


async def test_namespaces_are_finished(server: ApiServer, api: Api) -> None:
    """The namespace controller's part is done by the server: a deleted namespace takes its objects along."""
    (await api.post("/api/v1/namespaces", {"metadata": {"name": "x"}})).ok()
    (await api.post("/api/v1/namespaces/x/pods", pod("a"))).ok()
    (await api.post("/api/v1/namespaces/x/configmaps", {"metadata": {"name": "c"}})).ok()
    (await api.delete("/api/v1/namespaces/x")).ok()
    (await api.get("/api/v1/namespaces/x")).refused(404, "NotFound")
    assert server.store.objects("pods") == []
    assert server.store.objects("configmaps") == []


async def test_runtime_classes_decide_overhead(api: Api) -> None:
    """A pod has the overhead of its RuntimeClass and no other."""
    path = "/apis/node.k8s.io/v1/runtimeclasses"
    overhead = {"podFixed": {"cpu": "0.25"}}
    (await api.post(path, {"metadata": {"name": "kata"}, "handler": "kata", "overhead": overhead})).ok()
    created = (await api.post(PODS, pod("a", runtimeClassName="kata"))).ok()
    assert created["spec"]["overhead"] == {"cpu": "250m"}
    message = (await api.post(PODS, pod("b", overhead={"cpu": "1"}))).refused(403, "Forbidden")
    assert "Pod Overhead set without corresponding RuntimeClass defined Overhead" in message
    message = (await api.post(PODS, pod("b", runtimeClassName="none"))).refused(403, "Forbidden")
    assert message == 'pods "b" is forbidden: pod rejected: RuntimeClass "none" not found'


async def test_json_only(api: Api) -> None:
    """Protobuf bodies are refused in a way that clients understand."""
    reply = await api.call("POST", PODS, "k8s", "application/vnd.kubernetes.protobuf")
    reply.refused(415, "UnsupportedMediaType")


async def test_kubeconfig(tmp_path: Path) -> None:
    """The kubeconfig is JSON, which is YAML too, and holds address and token."""
    async with ApiServer(tokens={"t": "alice"}) as server:
        config = json.loads(server.kubeconfig(tmp_path / "config").read_text())
    assert config["clusters"][0]["cluster"] == {"server": server.url}
    assert config["users"][0]["user"] == {"token": "t"}


async def test_as_a_process(tmp_path: Path) -> None:
    """`python -m podberth.apiserver` says where it listens and ends in order on SIGTERM."""
    command = [
        sys.executable,
        "-m",
        "podberth.apiserver",
        "--port",
        "0",
        "--kubeconfig",
        str(tmp_path / "config"),
    ]
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    assert process.stdout is not None
    try:
        async with asyncio.timeout(60):
            line = (await process.stdout.readline()).decode()
        match = re.fullmatch(r"listening on (http://127\.0\.0\.1:\d+)\n", line)
        assert match, line
        api = Api(match[1])
        assert (await api.get("/readyz")).body == "ok"
        await api.close()
    finally:
        process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(60):
            assert await process.wait() == 0
    assert (tmp_path / "config").exists()


@pytest.mark.parametrize(
    "body",
    [
        '{"spec": 5}',
        '{"spec": {"containers": 5}}',
        '{"metadata": []}',
        "[]",
        "5",
        '{"spec": {"containers": [5]}}',
        '{"metadata": {"name": 5}}',
        '{"metadata": {"name": "a"}, "spec": {"containers": [{"name": "c", "image": "x"}], "tolerations": 7}}',
        '{"metadata": {"name": "a"}, "spec": {"containers": [{"name": "c", "image": "x"}], "affinity": [1]}}',
    ],
)
async def test_nonsense_is_a_bad_request(api: Api, body: str) -> None:
    """JSON of the wrong shape is a 400 or 422, never a broken connection or a 500."""
    reply = await api.post(PODS, body)
    assert reply.code in {400, 422}, reply.body
    assert reply.body["kind"] == "Status"
