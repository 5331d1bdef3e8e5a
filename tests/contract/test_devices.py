"""What devices are made of: what a server drops, counts and selects by."""

from __future__ import annotations

import uuid

import pytest

from tests.contract.client import MERGE_PATCH, Api, JsonObject

ROOT = "/apis/resource.k8s.io/v1"


@pytest.fixture
def name() -> str:
    """A name of the test's own, for kinds without namespaces."""
    return f"contract-{uuid.uuid4().hex[:8]}"


def _claim() -> JsonObject:
    request = {"name": "r", "exactly": {"deviceClassName": "gpu"}}
    return {"metadata": {"name": "c"}, "spec": {"devices": {"requests": [request]}}}


async def test_claims(api: Api, namespace: str) -> None:
    """Nobody brings a status along; the status is written by itself; a claim with a finalizer stays."""
    claims = f"{ROOT}/namespaces/{namespace}/resourceclaims"
    made = (await api.post(claims, {**_claim(), "status": {"allocation": {}}})).ok()
    assert not made.get("status")
    assert "generation" not in made["metadata"]
    user = {"resource": "pods", "name": "p", "uid": "u"}
    results = [{"request": "r", "driver": "gpu.example.com", "pool": "n", "device": "d0"}]
    status = {"allocation": {"devices": {"results": results}}, "reservedFor": [user]}
    change = {"metadata": {"finalizers": ["resource.kubernetes.io/delete-protection"]}}
    (await api.patch(f"{claims}/c", change, MERGE_PATCH)).ok()
    written = (await api.patch(f"{claims}/c/status", {"status": status}, MERGE_PATCH)).ok()
    assert [result["device"] for result in written["status"]["allocation"]["devices"]["results"]] == ["d0"]
    going = (await api.delete(f"{claims}/c")).ok()
    assert going["metadata"]["deletionTimestamp"]
    freed = {"metadata": {"finalizers": None}, "status": {"allocation": None, "reservedFor": None}}
    (await api.patch(f"{claims}/c/status", freed, MERGE_PATCH)).ok()
    (await api.patch(f"{claims}/c", freed, MERGE_PATCH)).ok()
    (await api.get(f"{claims}/c")).refused(404, "NotFound")


async def test_slices(api: Api, name: str) -> None:
    """A change of the spec counts as a generation; slices are selected by driver, node and pool."""
    driver = f"{name}.example.com"
    slices = f"{ROOT}/resourceslices"
    spec = {
        "driver": driver,
        "nodeName": name,
        "pool": {"name": name, "generation": 1, "resourceSliceCount": 1},
        "devices": [{"name": "d0"}],
    }
    made = (await api.post(slices, {"metadata": {"name": name}, "spec": spec})).ok()
    try:
        assert made["metadata"]["generation"] == 1
        change = {"spec": {"devices": [{"name": "d0"}, {"name": "d1"}]}}
        assert (await api.patch(f"{slices}/{name}", change, MERGE_PATCH)).ok()["metadata"]["generation"] == 2
        for label, value in (("spec.driver", driver), ("spec.nodeName", name), ("spec.pool.name", name)):
            found = (await api.get(f"{slices}?fieldSelector={label}%3D{value}")).ok()["items"]
            assert [each["metadata"]["name"] for each in found] == [name]
        assert (await api.get(f"{slices}?fieldSelector=spec.driver%3Dnone")).ok()["items"] == []
    finally:
        gone = (await api.delete(f"{slices}/{name}")).ok()
    assert gone["kind"] == "ResourceSlice"
