"""`berth story` as people run it: against a scheduler on a real API server, which says who may ask."""

from __future__ import annotations

import json
import secrets
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.controlplane.api import Object
from tests.controlplane.cluster import Cluster
from tests.controlplane.wait import wait_for
from tests.integration import checks
from tests.integration.berth import START, Berth, Harbour
from tests.integration.component import BERTH, environment
from tests.integration.objects import NODES, node, pod, pods_path
from tests.integration.test_serving import ask, wait_serving

Story = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def new_node(control_plane: Cluster) -> Iterator[Callable[[], str]]:
    """Makes a node with a label of its own; it goes after the test."""
    made: list[str] = []

    def make() -> str:
        name = f"story-{secrets.token_hex(4)}"
        created = control_plane.api.create(NODES, node(name, labels={"story": "yes"}))
        made.append(created["metadata"]["name"])
        control_plane.api.patch(f"{NODES}/{name}/status", {"status": node(name)["status"]})
        return name

    yield make
    for name in made:
        control_plane.api.delete(f"{NODES}/{name}")


def asked(berth: Berth, kubeconfig: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run `berth story` about this scheduler."""
    where = [f"--server={berth.url}", f"--kubeconfig={kubeconfig}", "--insecure-skip-tls-verify"]
    command = [BERTH, "story", *arguments, *where]
    return subprocess.run(command, capture_output=True, text=True, env=environment(), check=False, timeout=START)


def told(berth: Berth, kubeconfig: Path, name: str) -> Object:
    """The story as JSON."""
    found = asked(berth, kubeconfig, name, "-o", "json")
    assert found.returncode == 0, found.stderr
    story: Object = json.loads(found.stdout)
    return story


def test_story_of_a_pod(
    control_plane: Cluster, real_namespace: str, harbour: Harbour, new_node: Callable[[], str]
) -> None:
    """It waits, a node comes, it is bound: all that is told, with what each attempt has passed."""
    api, berth = control_plane.api, harbour.berth(control_plane, serving=True)
    wait_serving(berth)
    kubeconfig = harbour.home / f"{berth.scheduler_name}.kubeconfig"
    name = f"{real_namespace}/web"
    created = api.create(pods_path(real_namespace), pod("web", berth.scheduler_name, nodeSelector={"story": "yes"}))
    checks.wait_condition(api, real_namespace, "web")
    there = new_node()
    checks.wait_bound(api, real_namespace, 1)
    wait_for("the story to end", lambda: told(berth, kubeconfig, name)["state"] == "bound", START)
    story = told(berth, kubeconfig, name)
    assert story["pod"] == {
        "namespace": real_namespace,
        "name": "web",
        "uid": created["metadata"]["uid"],
        "schedulerName": berth.scheduler_name,
    }
    entries = story["entries"]
    assert [entry["kind"] for entry in entries][:3] == ["queued", "failed", "queued"]
    assert [entry["kind"] for entry in entries][-2:] == ["assumed", "bound"]
    woken = [one for entry in entries if entry["kind"] == "queued" and (one := entry["details"]["object"])]
    assert woken[0] == f"Node {there}"
    assert [point["point"] for point in entries[-2]["details"]["points"]] == ["PreFilter", "Filter", "Reserve"]
    assert all(point["seconds"] > 0 for entry in entries for point in entry["details"].get("points", ()))
    assert entries[-1]["text"] == f"bound to {there}"
    text = asked(berth, kubeconfig, name, "--points")
    assert (text.returncode, text.stdout.splitlines()[0]) == (0, f"{name}: bound")
    unknown = asked(berth, kubeconfig, f"{real_namespace}/nobody")
    assert (unknown.returncode, unknown.stdout) == (1, "")
    assert unknown.stderr.startswith(f"berth: {real_namespace}/nobody: no story of this pod; ")
    berth.end()


def test_who_may_read_stories(control_plane: Cluster, real_namespace: str, harbour: Harbour) -> None:
    """As with /metrics: a token, and the right to get this very path."""
    berth = harbour.berth(control_plane, serving=True)
    wait_serving(berth)
    path = f"/debug/story?pod={real_namespace}/web"
    stranger = control_plane.service_account_token(real_namespace, "stranger")
    reader = control_plane.service_account_token(real_namespace, "reader")
    role, rbac = f"berth-test-{real_namespace}-story", "/apis/rbac.authorization.k8s.io/v1"
    api = control_plane.api
    rules = [{"nonResourceURLs": ["/debug/story"], "verbs": ["get"]}]
    subject = {"kind": "ServiceAccount", "name": "reader", "namespace": real_namespace}
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role}
    api.create(f"{rbac}/clusterroles", {"metadata": {"name": role}, "rules": rules})
    api.create(f"{rbac}/clusterrolebindings", {"metadata": {"name": role}, "roleRef": reference, "subjects": [subject]})
    try:
        wait_for("the reader to be allowed", lambda: ask(berth, path, reader)[0] == 404, START)
        assert ask(berth, path)[0] == 401
        assert ask(berth, path, "no-such-token")[0] == 401
        assert ask(berth, path, stranger)[0] == 403
        assert ask(berth, "/metrics", reader)[0] == 403
        kubeconfig = control_plane.kubeconfig(harbour.home / "stranger.kubeconfig", stranger)
        refused = asked(berth, kubeconfig, f"{real_namespace}/web")
        assert (refused.returncode, len(refused.stderr.splitlines())) == (2, 1)
        assert 'may not get path "/debug/story"' in refused.stderr
    finally:
        api.delete(f"{rbac}/clusterrolebindings/{role}")
        api.delete(f"{rbac}/clusterroles/{role}")
    berth.end()


def test_a_replica_that_stands_by_says_so(control_plane: Cluster, real_namespace: str, harbour: Harbour) -> None:
    """Of two replicas, the one that does not lead names the one that does."""
    name = f"berth-{secrets.token_hex(4)}"
    election = {"leaderElect": True, "resourceNamespace": real_namespace, "resourceName": name}
    first = harbour.berth(control_plane, name, replica="-a", serving=True, leaderElection=election)
    wait_for("it to lead", lambda: first.lines("leads"), START)
    second = harbour.berth(control_plane, name, replica="-b", serving=True, leaderElection=election)
    for replica in (first, second):
        wait_serving(replica)
    kubeconfig = harbour.home / f"{name}.kubeconfig"
    control_plane.api.create(pods_path(real_namespace), pod("web", name, nodeSelector={"story": "no"}))
    checks.wait_condition(control_plane.api, real_namespace, "web")
    leader = first.lines("leads")[0]["identity"]

    def stands_by() -> Object | None:
        found = asked(second, kubeconfig, f"{real_namespace}/web", "-o", "json")
        story: Object | None = json.loads(found.stdout) if found.returncode == 0 else None
        return story if story is not None and story["leader"] == leader else None

    story = wait_for("the other to know who leads", stands_by, START)
    assert (story["leads"], [entry["kind"] for entry in story["entries"]]) == (False, ["queued"])
    assert told(first, kubeconfig, f"{real_namespace}/web")["leads"] is True
    unknown = asked(second, kubeconfig, f"{real_namespace}/nobody")
    assert unknown.stderr.endswith(f"This replica stands by: ask the leader, {leader}\n")
    second.end()
    first.end()
