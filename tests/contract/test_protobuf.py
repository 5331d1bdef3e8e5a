"""Bindings and events in protobuf, as Berth sends them: understood, stored, and refused as their JSON is."""

from __future__ import annotations

from collections.abc import AsyncIterator

import msgspec
import pytest

from podberth.kube import writes
from podberth.kube.client import Client
from podberth.kube.connection import Connection, Credential, Credentials, Tls
from podberth.kube.errors import ApiError
from podberth.kube.writes import PodRef
from tests.contract.client import Api, condition, names, pod
from tests.unit.kube.test_writes import told


@pytest.fixture
async def client(api: Api, request: pytest.FixtureRequest) -> AsyncIterator[Client]:
    """Our own client, which speaks protobuf until it is refused."""
    if api.embedded is not None:
        connection = Connection(api.url)
    else:
        cluster = request.getfixturevalue("control_plane")
        credential = Credential(f"Bearer {cluster.admin['token']}")
        tls = Tls(ca=str(cluster.ca) if cluster.ca else None)
        connection = Connection(api.url, Credentials(lambda: credential), tls)
    async with Client(connection, qps=-1, protobuf=True) as made:
        yield made


async def test_a_binding(api: Api, client: Client, namespace: str, pods: str, node: str) -> None:
    """The pod is on the node, as by JSON, and the answer was understood."""
    created = (await api.post(pods, pod("a"))).ok()
    await writes.bind(client, PodRef(namespace, "a", created["metadata"]["uid"]), node)
    bound = (await api.get(f"{pods}/a")).ok()
    assert bound["spec"]["nodeName"] == node
    assert bound["metadata"]["labels"] == {"topology.kubernetes.io/zone": "z1"}
    assert condition(bound, "PodScheduled")["status"] == "True"
    assert client.protobuf


async def test_a_namesake_is_refused(api: Api, client: Client, namespace: str, pods: str) -> None:
    """The uid counts, and a refusal reads as in JSON: code, reason, message, details."""
    (await api.post(pods, pod("a"))).ok()
    with pytest.raises(ApiError) as refused:
        await writes.bind(client, PodRef(namespace, "a", "another"), "n1")
    error = refused.value
    assert (error.status, error.reason) == (409, "Conflict")
    assert "Precondition failed: UID in precondition: another" in error.message
    assert error.details is not None
    assert (error.details.kind, error.details.name) == ("pods", "a")
    with pytest.raises(ApiError) as missing:
        await writes.bind(client, PodRef(namespace, "none", "u"), "n1")
    assert (missing.value.status, missing.value.reason) == (404, "NotFound")
    assert client.protobuf


async def test_an_event_is_what_its_json_is(api: Api, client: Client, namespace: str) -> None:
    """Both forms of one event are stored alike, but for what the server gives each."""
    about = PodRef(namespace, "a", "u1", "42")
    spoken, written = told(about, "näher ✓"), told(about, "näher ✓")
    await writes.record(client, spoken)
    path = f"/apis/events.k8s.io/v1/namespaces/{namespace}/events"
    (await api.call("POST", path, written.json().decode())).ok()
    one, other = [(await api.get(f"{path}/{event.name}")).ok() for event in (spoken, written)]
    for found in (one, other):
        assert found["eventTime"] == "2023-11-14T22:13:20.123456Z"
        for own in ("name", "uid", "resourceVersion", "creationTimestamp", "managedFields"):
            found["metadata"].pop(own, None)
    assert one == other
    assert client.protobuf


async def test_a_bad_event_names_its_fields(client: Client, namespace: str) -> None:
    """A refusal's causes are read: an event about a pod of another namespace is invalid."""
    bad = msgspec.structs.replace(told(PodRef(namespace, "a", "u")), action="", reason="")
    with pytest.raises(ApiError) as refused:
        await writes.record(client, bad)
    assert (refused.value.status, refused.value.reason) == (422, "Invalid")
    assert refused.value.details is not None
    assert {cause.field for cause in refused.value.details.causes} == {"action", "reason"}


async def test_names(api: Api, client: Client, namespace: str) -> None:
    """An event in protobuf is listed under the name it was given."""
    said = told(PodRef(namespace, "a", "u"))
    await writes.record(client, said)
    found = (await api.get(f"/api/v1/namespaces/{namespace}/events")).ok()
    assert names(found) == [said.name]
