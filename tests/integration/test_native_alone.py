"""Policies that the API server enforces, on control planes of their own: what it refuses, what goes with the release,
and what holds while the operator is away."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from podberth.policy.native.policy_set import RELEASE_LABEL
from tests.controlplane.api import Api, Object
from tests.controlplane.cluster import ControlPlane
from tests.controlplane.process import Process
from tests.controlplane.wait import wait_for
from tests.integration.admission import MANIFESTS, NAMESPACE, POLICIES, Policed
from tests.integration.ship import PATIENCE, Replica, rejects, wait_served
from tests.integration.test_native_moves import NOTE, Team, creates, operator_token
from tests.integration.test_native_operator import Native
from tests.native.town import PLURALS, ROOT

UNBOUNDED = """
from podberth.policy.native import policy_set
policy_set.LARGEST = 10_000_000
"""
"""What an operator imports that believes the API server to take a set of any size."""


@pytest.fixture
def ship(control_plane_binaries: Path, tmp_path: Path) -> Iterator[Native]:
    """Our rights and namespaces on a control plane of their own."""
    with ControlPlane() as cluster:
        wait_served(cluster)
        opened = Native(cluster, tmp_path)
        yield opened
        opened.close()


def test_what_the_api_server_refuses(ship: Native, tmp_path: Path) -> None:
    """A set that is larger than the API server takes: statuses have the API server's own words, and what was in force
    before stays."""
    modules = tmp_path / "modules"
    modules.mkdir()
    (modules / "sitecustomize.py").write_text(UNBOUNDED)
    ship.sail(modules=modules)
    ship.put("forbid", rejects("bad", "Exists"))
    ship.enforced("forbid", "Native")
    ship.put("large", *(_large(f"key{number}") for number in range(4)))
    said = _enforced(ship.wait_status("large", lambda one: _enforced(one).get("reason") == "Refused"))
    assert said["status"] == "False"
    assert "the API server refuses the set of this namespace: " in said["message"]
    ship.refuses({"bad": "yes"})
    assert ship.create({"good": "yes"})[0] == 201


def test_all_goes_with_the_release(ship: Native, garbage_collector: Path) -> None:
    """The operator is removed with its ClusterRole: kube-controller-manager's own collector takes the objects away."""
    replica = ship.sail()
    ship.put("forbid", rejects("bad", "Exists"))
    ship.put("tell", rejects("odd", "Exists"), mode="warn")
    ship.enforced("forbid", "Native")
    ship.enforced("tell", "Native")
    config = ship.cluster.kubeconfig(ship.home / "gc.kubeconfig")
    collector = Process("gc", [garbage_collector, f"--kubeconfig={config}"], ship.home / "gc.log")
    collector.start()
    try:
        replica.kill()
        ship.refuses({"bad": "yes"})
        ship.api.delete(f"/apis/rbac.authorization.k8s.io/v1/clusterroles/{ship.role}", grace=None)
        wait_for("the objects to go", lambda: not ship.objects(), PATIENCE)
        ship.refuses({"bad": "yes"}, False)
    finally:
        collector.kill()


def _large(key: str) -> Object:
    """A rule of one criterion, within the bounds of the CRD."""
    values = [f"{number:02}".ljust(7000, "x") for number in range(14)]
    criterion = {"key": key, "operator": "In", "values": values}
    return {
        "policyPredicate": {"annotationSelector": {"matchExpressions": [criterion]}},
        "policyAction": {"reject": True, "message": "never"},
    }


def _enforced(status: Object) -> Object:
    """The condition that says who enforces."""
    return next((one for one in status.get("conditions", []) if one["type"] == "Enforced"), {})


def test_the_operator_is_away(control_plane_binaries: Path, tmp_path: Path) -> None:
    """Killed in the midst of creates: what it wrote holds, and the next operator finds everything as it is, and brings
    what is new into force. Nothing gets by that is in force, and nothing else is refused.

    Nothing that holds meanwhile depends on a clock, so this is an hour as well as it is a minute.
    """
    with _enforced_natively(tmp_path) as (policed, team, first):
        team.put("forbid", rejects("bad", "Exists"))
        team.put("note", NOTE)
        team.put("edited", rejects("old", "Exists"))
        team.wait(forbid="Native", note="Native", edited="Native")
        team.wait_registered(False)
        written = _versions(policed.api)
        with creates(team) as done:
            first.kill()
            start = next(done)
            wait_for("creates without the operator", lambda: next(done) > start + 300, PATIENCE, 0.2)
            team.put("late", rejects("late", "Exists"))
            rule = {"spec": {"rules": [rejects("new", "Exists")]}}
            policed.api.patch(f"{POLICIES.format(team.name)}/edited", rule)
            # The older version holds, since nobody is there who may take it away.
            assert team.status({"old": "yes"}) == 403
            assert _versions(policed.api) == written
            second = _operator(policed, tmp_path)
            try:
                wait_for("the new policy to hold", lambda: team.status({"late": "yes"}) == 403, PATIENCE)
                team.wait(forbid="Native", note="Native", edited="Native", late="Native")
                assert team.status({"old": "yes"}) == 201
                assert team.status({"new": "yes"}) == 403
                assert _versions(policed.api) == written
            finally:
                second.kill()


def test_policies_are_ended_by_hand(control_plane_binaries: Path, tmp_path: Path) -> None:
    """While no operator runs, a policy that is deleted holds. As docs/operator.md says it, it ends."""
    with _enforced_natively(tmp_path) as (policed, team, operator):
        team.put("goes", rejects("old", "Exists"))
        team.wait(goes="Native")
        team.wait_registered(False)
        operator.kill()
        policed.api.delete(f"{POLICIES.format(team.name)}/goes")
        assert team.status({"old": "yes"}) == 403
        page = (MANIFESTS.parent / "docs" / "operator.md").read_text()
        (command,) = re.findall(r"^kubectl (delete .* -n )ml$", page, re.MULTILINE)
        policed.cluster.kubectl(*f"{command}{team.name}".split())
        wait_for("the policy to end", lambda: team.status({"old": "yes"}) == 201, PATIENCE)


@contextmanager
def _enforced_natively(home: Path) -> Iterator[tuple[Policed, Team, Replica]]:
    """A control plane with the webhook, a namespace with policies, and an operator that has the API server enforce."""
    with ControlPlane() as cluster:
        policed = Policed(cluster, home)
        policed.prepare()
        cluster.kubectl("apply", "-f", str(MANIFESTS / "operator-rbac.yaml"))
        team = Team(policed.api)
        policed.start("--enforcement=auto")
        policed.wait_registered()
        operator = _operator(policed, home)
        try:
            yield policed, team, operator
        finally:
            operator.kill()
            policed.unregister()


def _operator(policed: Policed, home: Path) -> Replica:
    token = operator_token(policed.cluster)
    kubeconfig = policed.cluster.kubeconfig(home / "operator.kubeconfig", token)
    options = ("--enforcement=auto", "--owner=berth-operator", "--audit-interval=0", f"--namespace={NAMESPACE}")
    replica = Replica(home, kubeconfig, *options)
    replica.start()
    return replica


def _versions(api: Api) -> dict[str, str]:
    """The admission policies, and which version of each is stored."""
    found = [one for plural in PLURALS.values() for one in api.list(f"{ROOT}/{plural}", labelSelector=RELEASE_LABEL)]
    return {one["metadata"]["uid"]: one["metadata"]["resourceVersion"] for one in found}
