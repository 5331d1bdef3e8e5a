"""Leases: what leader election relies on."""

from __future__ import annotations

import pytest

from tests.contract.client import Api


@pytest.fixture
def leases(namespace: str) -> str:
    """The path of the test's leases."""
    return f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"


async def test_two_candidates(api: Api, leases: str) -> None:
    """Of two writers who read the same version, the second is refused."""
    spec = {"holderIdentity": "one", "leaseDurationSeconds": 15, "renewTime": "2026-01-02T03:04:05.123456Z"}
    lease = (await api.post(leases, {"metadata": {"name": "berth"}, "spec": spec})).ok()
    assert lease["spec"] == spec
    first = {**lease, "spec": {**spec, "holderIdentity": "two"}}
    (await api.put(f"{leases}/berth", first)).ok()
    message = (await api.put(f"{leases}/berth", {**lease, "spec": {**spec, "holderIdentity": "three"}})).refused(
        409, "Conflict"
    )
    assert message == (
        'Operation cannot be fulfilled on leases.coordination.k8s.io "berth": the object has been modified; please '
        "apply your changes to the latest version and try again"
    )
    assert (await api.get(f"{leases}/berth")).ok()["spec"]["holderIdentity"] == "two"


async def test_updates_name_their_version(api: Api, leases: str) -> None:
    """A lease can't be overwritten blindly; an update of one that isn't there creates it."""
    reply = await api.put(f"{leases}/berth", {"metadata": {"name": "berth"}, "spec": {"holderIdentity": "one"}})
    assert reply.code == 201
    reply = await api.put(f"{leases}/berth", {"metadata": {"name": "berth"}, "spec": {"holderIdentity": "two"}})
    assert reply.refused(422, "Invalid") == (
        'leases.coordination.k8s.io "berth" is invalid: metadata.resourceVersion: Invalid value: 0: must be specified '
        "for an update"
    )


async def test_one_that_was_deleted_is_not_made_anew(api: Api, namespace: str, leases: str) -> None:
    """An update names the object that it read; another holder may have made a new one meanwhile."""
    lease = (await api.post(leases, {"metadata": {"name": "berth"}, "spec": {"holderIdentity": "one"}})).ok()
    (await api.delete(f"{leases}/berth")).ok()
    message = (await api.put(f"{leases}/berth", lease)).refused(409, "Conflict")
    uid = lease["metadata"]["uid"]
    assert message == (
        'Operation cannot be fulfilled on leases.coordination.k8s.io "berth": StorageError: invalid object, Code: 4, '
        f"Key: /registry/leases/{namespace}/berth, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in "
        f"precondition: {uid}, UID in object meta: "
    )


async def test_bad_numbers(api: Api, leases: str) -> None:
    """Durations are positive, transitions are not negative."""
    spec = {"leaseDurationSeconds": 0, "leaseTransitions": -1}
    message = (await api.post(leases, {"metadata": {"name": "berth"}, "spec": spec})).refused(422, "Invalid")
    assert "spec.leaseDurationSeconds: Invalid value: 0: must be greater than 0" in message
    assert "spec.leaseTransitions: Invalid value: -1: must be greater than or equal to 0" in message
