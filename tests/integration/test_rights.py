"""Berth with the rights of manifests/scheduler-rbac.yaml, and with fewer."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

from tests.controlplane.cluster import Cluster
from tests.controlplane.wait import wait_for
from tests.integration import checks
from tests.integration.berth import START, Harbour
from tests.integration.objects import node, pod, pods_path
from tests.integration.rights import may, wait_granted
from tests.integration.test_serving import ask, wait_serving

MANIFEST = Path(__file__).parents[2] / "manifests" / "scheduler-rbac.yaml"
NAME = "berth-scheduler"

Grant = Callable[[set[str]], str]


@pytest.fixture
def grant(control_plane: Cluster, real_namespace: str) -> Iterator[Grant]:
    """`grant(without)`: apply the manifest less these resources, in the test's namespace; a token for its account."""
    unique = f"{NAME}-{secrets.token_hex(4)}"
    applied: list[str] = []

    def apply(without: set[str]) -> str:
        documents = list(yaml.safe_load_all(MANIFEST.read_text()))
        for document in documents:
            for rule in document.get("rules", []):
                rule["resources"] = [resource for resource in rule["resources"] if resource not in without]
            if "rules" in document:
                document["rules"] = [rule for rule in document["rules"] if rule["resources"]]
        text = yaml.safe_dump_all(documents).replace(f"name: {NAME}", f"name: {unique}")
        text = text.replace("namespace: berth\n", f"namespace: {real_namespace}\n")
        applied.append(text)
        control_plane.kubectl("apply", "-f", "-", stdin=text)
        token = control_plane.service_account_token(real_namespace, unique)
        wait_granted(control_plane, token, yaml.safe_load_all(text))
        return token

    yield apply
    if applied:
        control_plane.kubectl("delete", "--ignore-not-found", "-f", "-", stdin=applied[0])


def test_manifest_suffices(
    control_plane: Cluster, real_namespace: str, harbour: Harbour, add_nodes: Callable[..., None], grant: Grant
) -> None:
    """With the manifest's rights it leads, binds, writes, serves metrics to whom it may, and is refused nothing."""
    api, path = control_plane.api, pods_path(real_namespace)
    add_nodes(control_plane, [node("right")])
    election = {"leaderElect": True, "resourceNamespace": real_namespace}
    token = grant(set())
    berth = harbour.berth(control_plane, token=token, serving=True, leaderElection=election)
    api.create_many(path, [pod(f"fits-{i}", berth.scheduler_name) for i in range(5)])
    api.create(path, pod("stuck", berth.scheduler_name, cpu="99"))
    pods = [found for found in checks.wait_bound(api, real_namespace, 5) if checks.node_of(found)]
    checks.scheduled_once_each(api, real_namespace, pods, berth.scheduler_name)
    checks.wait_condition(api, real_namespace, "stuck")
    checks.wait_events(api, real_namespace, "FailedScheduling", 1)
    wait_serving(berth)
    assert ask(berth, "/metrics", token)[0] == 403  # both reviews were answered: its own account may not
    berth.end()
    assert [line for line in berth.lines() if line["level"] not in ("info", "debug")] == []
    assert not berth.lines("it is not known if another scheduler serves the same pods")
    said = {line["pod"]: (line["node"], line["profile"], line["attempt"]) for line in berth.lines("bound")}
    where = {f"{real_namespace}/{pod['metadata']['name']}": checks.node_of(pod) for pod in pods}
    assert said == {name: (node, berth.scheduler_name, 1) for name, node in where.items()}
    for line in berth.lines("bound"):
        assert 1 <= line["feasible_nodes"] <= line["evaluated_nodes"]
        assert line["seconds"] >= 0


def test_manifest_suffices_without_an_election(
    control_plane: Cluster, real_namespace: str, harbour: Harbour, grant: Grant
) -> None:
    """Leader election is a line of the ConfigMap: without it, the Lease that shows a live scheduler is kept, too."""
    election = {"leaderElect": False, "resourceNamespace": real_namespace}
    berth = harbour.berth(control_plane, token=grant(set()), leaderElection=election)
    path = f"/apis/coordination.k8s.io/v1/namespaces/{real_namespace}/leases"
    api = control_plane.api
    wait_for("the Lease", lambda: [one for one in api.list(path) if one["spec"].get("holderIdentity")], START)
    berth.end()
    assert [line for line in berth.lines() if line["level"] not in ("info", "debug")] == []


def test_manifest_is_no_more(control_plane: Cluster, real_namespace: str, grant: Grant) -> None:
    """The manifest's account can't read secrets, create or change pods, touch nodes or take other Leases."""
    account = control_plane.api_as(grant(set()))
    lease = {"resource": "leases", "group": "coordination.k8s.io"}
    allowed = [
        may(account, "create", "pods/binding"),
        may(account, "patch", "pods/status"),
        may(account, "delete", "pods"),
        may(account, "create", "events", "events.k8s.io"),
        may(account, "update", **lease, namespace=real_namespace, name="berth"),
    ]
    refused = [
        may(account, "list", "secrets"),
        may(account, "list", "configmaps"),
        may(account, "create", "pods"),
        may(account, "update", "pods"),
        may(account, "deletecollection", "pods"),
        may(account, "create", "pods/eviction"),
        may(account, "patch", "nodes"),
        may(account, "update", **lease, namespace="kube-system", name="kube-scheduler"),
        may(account, "update", **lease, namespace=real_namespace, name="other"),
        may(account, "create", "clusterroles", "rbac.authorization.k8s.io"),
    ]
    account.close()
    assert all(allowed), allowed
    assert not any(refused), refused


def test_degraded(
    control_plane: Cluster, real_namespace: str, harbour: Harbour, add_nodes: Callable[..., None], grant: Grant
) -> None:
    """Without rights on services and events it says so once, and schedules."""
    api, path = control_plane.api, pods_path(real_namespace)
    add_nodes(control_plane, [node("degraded")])
    berth = harbour.berth(control_plane, token=grant({"services", "events"}))
    api.create(path, pod("web", berth.scheduler_name))
    checks.wait_bound(api, real_namespace, 1)
    # Pods wait for no Service: it may be refused after the Binding.
    refused = wait_for("the refusal", lambda: berth.lines("not allowed to follow"), checks.BOUND)
    assert berth.end()["events"] == 0
    assert refused == berth.lines("not allowed to follow")
    assert [(line["kind"], line["needed"]) for line in refused] == [("Service", False)]
    assert 'cannot list resource "services"' in refused[0]["error"]


def test_without_what_it_needs(
    control_plane: Cluster, real_namespace: str, harbour: Harbour, add_nodes: Callable[..., None], grant: Grant
) -> None:
    """Without nodes it says that it needs them and waits; once it may read them, it schedules without a restart."""
    api, path = control_plane.api, pods_path(real_namespace)
    add_nodes(control_plane, [node("needed")])
    berth = harbour.berth(control_plane, token=grant({"nodes"}), synced=False)
    api.create(path, pod("web", berth.scheduler_name))
    (line,) = wait_for("the refusal", lambda: berth.lines("not allowed to follow"), checks.BOUND)
    assert (line["kind"], line["needed"]) == ("Node", True)
    assert not berth.lines("synced")
    grant(set())
    checks.wait_bound(api, real_namespace, 1)
    berth.end()
