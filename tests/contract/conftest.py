"""The two servers under contract: the embedded one always, the real one where the control plane can be had."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator

import pytest

from podberth.apiserver import ApiServer
from tests.contract.client import Api


@pytest.fixture(params=["embedded", pytest.param("real", marks=pytest.mark.real)])
async def api(request: pytest.FixtureRequest) -> AsyncIterator[Api]:
    """One of the API servers, as its administrator sees it."""
    if request.param == "embedded":
        async with ApiServer() as server:
            client = Api(server.url, embedded=server)
            yield client
            await client.close()
        return
    cluster = request.getfixturevalue("control_plane")
    if "token" not in cluster.admin:
        pytest.skip("the given cluster's administrator has no token")
    client = Api(cluster.url, cluster.admin["token"], str(cluster.ca) if cluster.ca else "")
    yield client
    await client.close()


# What the contract tests leave in their namespaces; emptying only these takes a tenth of the time of asking for all.
LEFTOVERS = (
    "/api/v1/{}/pods",
    "/api/v1/{}/configmaps",
    "/api/v1/{}/secrets",
    "/api/v1/{}/events",
    "/apis/apps/v1/{}/deployments",
    "/apis/policy/v1/{}/poddisruptionbudgets",
    "/apis/coordination.k8s.io/v1/{}/leases",
)


async def _empty(api: Api, name: str) -> None:
    """Do a controller manager's work on a namespace that is to go."""
    (await api.delete(f"/api/v1/namespaces/{name}")).ok()
    paths = [path.format(f"namespaces/{name}") for path in LEFTOVERS]
    await asyncio.gather(*(api.delete(path, {"gracePeriodSeconds": 0}) for path in paths))
    found = (await api.get(f"/api/v1/namespaces/{name}")).ok()
    (await api.put(f"/api/v1/namespaces/{name}/finalize", {**found, "spec": {"finalizers": []}})).ok()


@pytest.fixture
async def namespace(api: Api, request: pytest.FixtureRequest) -> AsyncIterator[str]:
    """A namespace for one test."""
    name = f"contract-{uuid.uuid4().hex[:8]}"
    (await api.post("/api/v1/namespaces", {"metadata": {"name": name}})).ok()
    yield name
    if api.embedded is not None:
        return
    if request.getfixturevalue("control_plane").owned:
        await _empty(api, name)
    else:
        await api.delete(f"/api/v1/namespaces/{name}")


@pytest.fixture
def pods(namespace: str) -> str:
    """The path of the test's pods."""
    return f"/api/v1/namespaces/{namespace}/pods"


@pytest.fixture
async def node(api: Api) -> AsyncIterator[str]:
    """A node of its own for one test, in zone `z1`."""
    name = f"contract-{uuid.uuid4().hex[:8]}"
    body = {
        "metadata": {"name": name, "labels": {"topology.kubernetes.io/zone": "z1", "contract": name}},
        "status": {"capacity": {"cpu": "4000m", "memory": "8192Mi", "pods": 110}},
    }
    (await api.post("/api/v1/nodes", body)).ok()
    yield name
    await api.delete(f"/api/v1/nodes/{name}")
