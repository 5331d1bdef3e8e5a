"""What devices are made of: what a server drops, counts and selects by."""

from __future__ import annotations

import uuid

import pytest

from tests.contract.client import MERGE_PATCH, STRATEGIC_PATCH, Api, JsonObject

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


def _user(name: str) -> JsonObject:
    return {"resource": "pods", "name": name, "uid": f"uid-of-{name}"}


@pytest.fixture
async def reserved(api: Api, namespace: str) -> str:
    """The status of a claim that has a device, and is reserved for the pods a and b."""
    claims = f"{ROOT}/namespaces/{namespace}/resourceclaims"
    (await api.post(claims, _claim())).ok()
    results = [{"request": "r", "driver": "gpu.example.com", "pool": "n", "device": "d0"}]
    status = {"allocation": {"devices": {"results": results}}, "reservedFor": [_user("a"), _user("b")]}
    (await api.patch(f"{claims}/c/status", {"status": status}, MERGE_PATCH)).ok()
    return f"{claims}/c/status"


async def test_one_reservation_ends_and_others_stay(api: Api, reserved: str) -> None:
    """Reservations merge by UID: a strategic merge patch takes one out, and adds one."""
    gone = {"status": {"reservedFor": [{"$patch": "delete", "uid": "uid-of-a"}]}}
    left = (await api.patch(reserved, gone, STRATEGIC_PATCH)).ok()
    assert left["status"]["reservedFor"] == [_user("b")]
    more = (await api.patch(reserved, {"status": {"reservedFor": [_user("c")]}}, STRATEGIC_PATCH)).ok()
    assert sorted(one["name"] for one in more["status"]["reservedFor"]) == ["b", "c"]
    last = [{"$patch": "delete", "uid": f"uid-of-{name}"} for name in "bc"]
    empty = (await api.patch(reserved, {"status": {"reservedFor": last}}, STRATEGIC_PATCH)).ok()
    assert not empty["status"].get("reservedFor")
    assert empty["status"]["allocation"]


@pytest.mark.parametrize(
    ("status", "said"),
    [
        ({"reservedFor": [{"resource": "pods", "uid": "u"}]}, "status.reservedFor[0].name: Required value"),
        ({"reservedFor": [{"name": "p", "uid": "u"}]}, "status.reservedFor[0].resource: Required value"),
        ({"reservedFor": [{"resource": "pods", "name": "p"}]}, "status.reservedFor[0].uid: Required value"),
        ({"reservedFor": [_user("a"), _user("a")]}, "status.reservedFor[1]: Duplicate value: "),
        (
            {"reservedFor": [_user(str(i)) for i in range(257)]},
            "status.reservedFor: Too many: 257: must have at most 256 items",
        ),
        ({"allocation": None}, "status.reservedFor: Forbidden: may not be specified when `allocated` is not set"),
        (
            {
                "allocation": {
                    "devices": {"results": [{"request": "r", "driver": "gpu.example.com", "pool": "n", "device": "d1"}]}
                }
            },
            "status.allocation: Invalid value: null: field cannot be modified once set",
        ),
    ],
)
async def test_reservations_that_are_refused(api: Api, reserved: str, status: JsonObject, said: str) -> None:
    """Users are named in full, and once; nobody has a claim without devices; devices are freed, and never exchanged."""
    message = (await api.patch(reserved, {"status": status}, MERGE_PATCH)).refused(422, "Invalid")
    assert said in message


async def test_nobody_new_while_a_claim_goes(api: Api, namespace: str, reserved: str) -> None:
    """A claim that is to be deleted is reserved for nobody new; who is there may go."""
    claim = reserved.removesuffix("/status")
    finalizers = {"metadata": {"finalizers": ["resource.kubernetes.io/delete-protection"]}}
    (await api.patch(claim, finalizers, MERGE_PATCH)).ok()
    (await api.delete(claim)).ok()
    more = {"status": {"reservedFor": [_user("a"), _user("b"), _user("c")]}}
    message = (await api.patch(reserved, more, MERGE_PATCH)).refused(422, "Invalid")
    assert "status.reservedFor: Forbidden: new entries may not be added while" in message
    fewer = {"status": {"reservedFor": [_user("b")]}}
    assert (await api.patch(reserved, fewer, MERGE_PATCH)).ok()["status"]["reservedFor"] == [_user("b")]
    freed = {"status": {"allocation": None, "reservedFor": None}}
    (await api.patch(reserved, freed, MERGE_PATCH)).ok()
    (await api.patch(claim, {"metadata": {"finalizers": None}}, MERGE_PATCH)).ok()
