"""The operator has the API server enforce policies: with the rights of its manifest, on the real API server."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from podberth.policy.native.policy_set import RELEASE_LABEL, SET_NAME
from tests.controlplane import namespaces
from tests.controlplane.api import ApiError, Object
from tests.controlplane.cluster import Cluster
from tests.controlplane.wait import wait_for
from tests.integration.ship import (
    CRD,
    MANIFESTS,
    PATIENCE,
    POLICIES,
    SETS,
    Replica,
    Ship,
    rejects,
    wait_served,
    writes,
)
from tests.native.town import PLURALS, ROOT

MOVED = "podberth.dev/in-force"


class Native(Ship):
    """A ship of a release of its own, without an admission server."""

    def sail(self, *options: str, enforcement: str = "auto", webhook: str = "", **more: Any) -> Replica:
        """An operator that enforces."""
        given = (f"--enforcement={enforcement}", f"--owner={self.role}")
        return self.start(*given, f"--webhook={webhook}", *options, **more)

    def objects(self) -> dict[str, Object]:
        """The release's admission policies and bindings, by kind and name."""
        return {
            f"{kind} {one['metadata']['name']}": one
            for kind, plural in PLURALS.items()
            for one in self.api.list(f"{ROOT}/{plural}", labelSelector=f"{RELEASE_LABEL}={self.release}")
        }

    def set(self, namespace: str = "") -> Object | None:
        """The set of a namespace."""
        return next(iter(self.api.list(SETS.format(namespace or self.team))), None)

    def settled(self) -> None:
        """Wait until the API server enforces by itself."""
        binding = f"MutatingAdmissionPolicyBinding {self.release}.metadatapolicies.podberth.dev"
        wait_for(
            "the move to be over",
            lambda: self.objects().get(binding, {}).get("metadata", {}).get("annotations") == {MOVED: "true"},
            PATIENCE,
        )

    def create(self, labels: dict[str, str], namespace: str = "") -> tuple[int, Object]:
        """Create a ConfigMap as a dry run: status and body of the answer."""
        path = f"/api/v1/namespaces/{namespace or self.team}/configmaps"
        told = self.api.tell("POST", path, {"metadata": {"name": "probe", "labels": labels}}, dryRun="All")
        return told.status, told.body

    def refuses(self, labels: dict[str, str], wanted: bool = True, namespace: str = "") -> None:
        """Wait until such an object is refused (or not any more)."""
        wait_for(
            f"{labels} to be {'refused' if wanted else 'let in'}",
            lambda: (self.create(labels, namespace)[0] == 403) == wanted,
            PATIENCE,
        )

    def enforced(self, name: str, way: str) -> Object:
        """Wait until the status says that; its enforcement."""
        found: Object = self.wait_status(name, lambda one: one.get("enforcement", {}).get("way") == way)
        return found

    def close(self) -> None:
        """Take the admission policies away, too."""
        self.end()
        for one in reversed(self.objects()):
            kind, name = one.split()
            with contextlib.suppress(ApiError):
                self.api.delete(f"{ROOT}/{PLURALS[kind]}/{name}")
        super().close()


@pytest.fixture(scope="module")
def served(control_plane: Cluster) -> Iterator[Cluster]:
    """The control plane that all tests share, with the CRD; left as it was found."""
    crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    had = any(found["metadata"]["name"] == "metadatapolicies.podberth.dev" for found in control_plane.api.list(crds))
    wait_served(control_plane)
    yield control_plane
    if not had:
        control_plane.kubectl("delete", "-f", str(MANIFESTS / CRD))


@pytest.fixture
def ship(served: Cluster, tmp_path: Path) -> Iterator[Native]:
    """Our rights and namespaces there."""
    opened = Native(served, tmp_path)
    yield opened
    opened.close()


def test_from_the_first_policy_to_the_last(ship: Native) -> None:
    """Policies come into force, change and go with nobody but the API server asked; the status says who enforces."""
    replica = ship.sail()
    ship.put("forbid", rejects("bad", "Exists"))
    ship.put("note", {"policyPredicate": {}, "policyAction": {"updatedAnnotations": {"note": "here"}}})
    ship.put("label", writes(team="a"))
    ship.refuses({"bad": "yes"})
    lease = {"metadata": {"name": "exempt", "labels": {"bad": "yes"}}}
    leases = f"/apis/coordination.k8s.io/v1/namespaces/{ship.team}/leases"
    assert ship.api.tell("POST", leases, lease, dryRun="All").status == 201  # no policy applies to Leases
    wait_for("the annotation", lambda: _noted(ship.create({})[1]), PATIENCE)
    native = ship.enforced("forbid", "Native")
    assert native["enforcement"]["generation"] == 1
    assert _condition(native)["status"] == "True"
    ship.enforced("label", "Native")
    assert ship.create({})[1]["metadata"]["labels"] == {"team": "a"}
    assert {one.split()[0] for one in ship.objects()} == set(PLURALS)
    assert len(ship.objects()) == 8
    role = ship.api.get(f"/apis/rbac.authorization.k8s.io/v1/clusterroles/{ship.role}")["metadata"]["uid"]
    assert {tuple(_plain(one)["owners"]) for one in ship.objects().values()} == {(role,)}
    owners = {ship.get(name)["metadata"]["uid"] for name in ("forbid", "label", "note")}
    wait_for("the policies to own the set", lambda: _owners(ship.set()) == owners, PATIENCE)
    ship.settled()

    path = f"{POLICIES.format(ship.team)}/forbid"
    ship.api.patch(path, {"spec": {"rules": [rejects("worse", "Exists")]}})
    ship.refuses({"worse": "yes"})
    ship.refuses({"bad": "yes"}, False)
    changed = ship.wait_status("forbid", lambda one: one["enforcement"]["generation"] == 2)
    assert changed["enforcement"]["since"] == native["enforcement"]["since"]

    for name in ("forbid", "note", "label"):
        ship.api.delete(f"{POLICIES.format(ship.team)}/{name}")
    wait_for("the set to be gone", lambda: ship.set() is None, PATIENCE)
    ship.refuses({"worse": "yes"}, False)
    assert replica.stop(PATIENCE) == 0
    assert "Traceback" not in replica.log.read_text()


def _noted(body: Object) -> bool:
    return bool((body["metadata"].get("annotations") or {}).get("note") == "here")


def _condition(status: Object) -> Object:
    found: Object = next(one for one in status["conditions"] if one["type"] == "Enforced")
    return found


def _data(one: Object | None) -> Object:
    return {} if one is None else one["metadata"]["annotations"]


def _owners(one: Object | None) -> set[str]:
    return set() if one is None else {owner["uid"] for owner in one["metadata"].get("ownerReferences", [])}


def test_drift_is_repaired(ship: Native) -> None:
    """What somebody deletes, takes the label from, or makes hollow, is as it was soon after."""
    replica = ship.sail()
    ship.put("forbid", rejects("bad", "Exists"))
    ship.enforced("forbid", "Native")
    ship.settled()
    before = ship.objects()

    def whole() -> bool:
        now = ship.objects()
        return now.keys() == before.keys() and all(_plain(now[key]) == _plain(before[key]) for key in now)

    for key in sorted(before):
        kind, name = key.split()
        path = f"{ROOT}/{PLURALS[kind]}/{name}"
        match kind:
            case "MutatingAdmissionPolicyBinding":
                ship.api.patch(path, {"metadata": {"labels": {RELEASE_LABEL: "other"}}})
            case "ValidatingAdmissionPolicy":
                ship.api.patch(path, {"spec": {"matchConditions": [{"name": "never", "expression": "false"}]}})
            case "MutatingAdmissionPolicy":
                ship.api.patch(path, {"metadata": {"ownerReferences": None}})
            case _:
                ship.api.delete(path)
        wait_for(f"{kind} to be repaired", whole, PATIENCE)
    ship.refuses({"bad": "yes"})
    ship.settled()  # the set is proved again, with the new admission policies
    held = ship.set()
    assert held is not None
    ship.api.delete(f"{SETS.format(ship.team)}/{SET_NAME}")
    wait_for("the set to come back", lambda: _data(ship.set()) == _data(held), PATIENCE)
    ship.refuses({"bad": "yes"})
    assert ship.get("forbid")["status"]["enforcement"]["way"] == "Native"
    said = "a set was changed or deleted by somebody, writing it again"
    wait_for("the log to say so", lambda: replica.lines(said), PATIENCE)


def test_nobody_else_writes_sets(ship: Native) -> None:
    """Even an administrator can't write what is in force, so no tenant with all rights in his namespace can."""
    ship.sail()
    ship.put("forbid", rejects("bad", "Exists"))
    ship.enforced("forbid", "Native")
    forged = {"metadata": {"annotations": {"podberth.dev/version": "forged"}}}
    with pytest.raises(ApiError, match="nobody but Berth's operator"):
        ship.api.patch(f"{SETS.format(ship.team)}/{SET_NAME}", forged)


def _plain(one: Object) -> Object:
    meta = one["metadata"]
    return {
        "spec": one["spec"],
        "labels": meta["labels"],
        "owners": [owner["uid"] for owner in meta.get("ownerReferences", [])],
    }


def test_nobody_is_needed(ship: Native) -> None:
    """The operator is killed: policies hold, and the next one finds everything as it should be."""
    replica = ship.sail(everywhere=True)
    other = namespaces.create(ship.api, "other")
    try:
        ship.put("forbid", rejects("bad", "Exists"))
        ship.put("forbid", rejects("bad", "Exists"), namespace=other)
        ship.enforced("forbid", "Native")
        ship.refuses({"bad": "yes"}, namespace=other)
        replica.kill()
        for _ in range(20):
            assert ship.create({"bad": "yes"})[0] == 403
            assert ship.create({"good": "yes"})[0] == 201
        left = ship.set()
    finally:
        namespaces.remove(ship.api, other, by_hand=ship.cluster.owned)
    ship.sail(everywhere=True)
    ship.settled()
    assert ship.set() == left
    assert ship.create({"bad": "yes"})[0] == 403


def test_two_releases(served: Cluster, tmp_path: Path) -> None:
    """Two operators of one cluster, each with policies of its own: neither touches what is the other's."""
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    with contextlib.ExitStack() as after:
        ships = []
        for home in ("one", "two"):
            ship = Native(served, tmp_path / home)
            after.callback(ship.close)
            ship.sail()
            ship.put("forbid", rejects(f"bad-{home}", "Exists"))
            ships.append(ship)
        first, second = ships
        for ship in ships:
            ship.enforced("forbid", "Native")
        mine, theirs = first.objects(), second.objects()
        assert not mine.keys() & theirs.keys()
        first.refuses({"bad-one": "yes"})
        assert first.create({"bad-two": "yes"})[0] == 201
        first.api.delete(f"{POLICIES.format(first.team)}/forbid")
        wait_for("the set of the first to go", lambda: first.set() is None, PATIENCE)
        for ship in ships:
            ship.settled()
        theirs = second.objects()
        assert _versions(second.objects()) == _versions(theirs)
        assert second.create({"bad-two": "yes"})[0] == 403


def _versions(objects: dict[str, Object]) -> dict[str, str]:
    return {key: one["metadata"]["resourceVersion"] for key, one in objects.items()}


def test_the_release_chooses(ship: Native) -> None:
    """Whoever leads next does what its own switch says."""
    replica = ship.sail(enforcement="webhook", webhook="no-such-webhook")
    ship.put("forbid", rejects("bad", "Exists"))
    assert _condition(ship.enforced("forbid", "None"))["reason"] == "NoWebhook"
    assert not ship.objects()
    assert ship.set() is None
    assert replica.stop(PATIENCE) == 0
    replica = ship.sail(webhook="no-such-webhook")
    ship.enforced("forbid", "Native")
    ship.refuses({"bad": "yes"})
    assert replica.stop(PATIENCE) == 0
    replica = ship.sail(enforcement="webhook", webhook="no-such-webhook")
    # There is no webhook that could take over, so the API server goes on.
    said = "the API server enforces policies until the webhook can"
    wait_for("the log to say so", lambda: replica.lines(said), PATIENCE)
    ship.api.patch(f"{POLICIES.format(ship.team)}/forbid", {"spec": {"rules": [rejects("worse", "Exists")]}})
    ship.refuses({"worse": "yes"})
    assert ship.get("forbid")["status"]["enforcement"]["way"] == "Native"


def test_what_is_owned_goes_with_the_crd(ship: Native) -> None:
    """The CRD is deleted while the operator runs: no policy is left, so nothing is refused, until both come back."""
    ship.sail()
    ship.put("forbid", rejects("bad", "Exists"))
    ship.enforced("forbid", "Native")
    ship.refuses({"bad": "yes"})
    ship.cluster.kubectl("delete", "crd", "metadatapolicies.podberth.dev", "--wait=true")
    try:
        wait_for("the set to go", lambda: ship.set() is None, PATIENCE)
        ship.refuses({"bad": "yes"}, False)
    finally:
        wait_served(ship.cluster)
    ship.put("forbid", rejects("bad", "Exists"))
    ship.enforced("forbid", "Native")
    ship.refuses({"bad": "yes"})
