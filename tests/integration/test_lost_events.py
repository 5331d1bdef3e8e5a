"""Watches that lose events, fall silent, or are forbidden, and an etcd restored from a backup: on real processes."""

from __future__ import annotations

import json
import os
import shutil
import signal
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import pytest

from tests.controlplane import namespaces
from tests.controlplane.api import Object
from tests.controlplane.cluster import Cluster, ControlPlane, free_port
from tests.controlplane.wait import wait_for
from tests.integration import checks
from tests.integration.berth import START, Berth, Harbour
from tests.integration.objects import NODES, node, nodes, pod, pods_path
from tests.integration.proxy import Proxy
from tests.integration.test_serving import ask, wait_serving

PODS = "/api/v1/pods"
FULL = 80
"""Pods that fill the nodes of a test."""


@pytest.fixture
def proxy(control_plane: Cluster) -> Iterator[Proxy]:
    """Between a scheduler and the API server."""
    with Proxy(control_plane) as between:
        yield between


def behind(proxy: Proxy, harbour: Harbour, name: str, port: int = 0) -> Berth:
    """A scheduler that reaches the API server through the proxy."""
    berth = harbour.berth_at(proxy.kubeconfig(harbour.home / f"{name}.kubeconfig"), name, port=port)
    berth.wait_synced()
    return berth


def many(count: int, prefix: str, berth: Berth, where: str) -> list[Object]:
    """Pods of one CPU that go to the nodes of one test."""
    selector = {"test": where}
    return [pod(f"{prefix}-{i}", berth.scheduler_name, cpu="1", nodeSelector=selector) for i in range(count)]


def test_lost_deletions(
    control_plane: Cluster, real_namespace: str, harbour: Harbour, add_nodes: Callable[..., None], proxy: Proxy
) -> None:
    """The nodes are full, all pods on them are deleted, and no event says so: pods that fit are bound all the same."""
    api, path = control_plane.api, pods_path(real_namespace)
    where = {"test": real_namespace}
    add_nodes(control_plane, [node(f"{real_namespace}-{i}", labels=where, cpu="4") for i in range(FULL // 4)])
    berth = behind(proxy, harbour, f"berth-{real_namespace}")
    api.create_many(path, many(FULL, "first", berth, real_namespace))
    checks.wait_bound(api, real_namespace, FULL)
    proxy.loses = lambda of, event: of == PODS and event["type"] == "DELETED"
    for i in range(FULL):
        api.delete(f"{path}/first-{i}")
    api.create_many(path, many(FULL, "second", berth, real_namespace))
    checks.wait_bound(api, real_namespace, FULL)
    assert proxy.lost["DELETED"] >= FULL

    def found() -> bool:
        """At once or in parts: a comparison may come while the pods are being deleted."""
        said = [line for line in berth.lines("events were lost, listing again") if line["kind"] == "Pod"]
        return sum(int(line["objects"]) for line in said) >= FULL

    wait_for("the log to say so", found, START)
    berth.wait_known()
    assert checks.overfull(api) == []
    berth.end()


def test_silent_watch(
    control_plane: Cluster, real_namespace: str, harbour: Harbour, add_nodes: Callable[..., None], proxy: Proxy
) -> None:
    """The watch of pods stays open, and nothing comes any more: a comparison finds it before the silence does."""
    api, path = control_plane.api, pods_path(real_namespace)
    add_nodes(control_plane, nodes(2, real_namespace))
    berth = behind(proxy, harbour, f"berth-{real_namespace}")
    proxy.silence(PODS)
    api.create(path, pod("unseen", berth.scheduler_name))
    checks.wait_bound(api, real_namespace, 1)
    said = wait_for("the log to say so", lambda: berth.lines("events were lost, listing again"), START)
    assert [line["kind"] for line in said] == ["Pod"]
    berth.end()


def test_nodes_are_forbidden(
    control_plane: Cluster, real_namespace: str, harbour: Harbour, add_nodes: Callable[..., None], proxy: Proxy
) -> None:
    """Nothing is bound to nodes that can't be followed any more, and readiness and a metric say so, until they can."""
    api, path = control_plane.api, pods_path(real_namespace)
    add_nodes(control_plane, nodes(2, real_namespace))
    port = free_port()
    berth = behind(proxy, harbour, f"berth-{real_namespace}", port)
    wait_serving(berth)
    proxy.refuse(NODES)
    blind = "[-]watches failed: not allowed to follow Nodes: 403 Forbidden"
    wait_for("readiness to say so", lambda: blind in ask(berth, "/readyz?verbose")[1], START)
    api.create(path, pod("later", berth.scheduler_name))
    waits = 'scheduler_pending_pods{queue="active"} 1'
    wait_for("the pod to be seen", lambda: waits in metrics(berth, control_plane), START)
    assert "berth_scheduling_blind 1" in metrics(berth, control_plane)
    assert not checks.node_of(api.get(f"{path}/later"))
    proxy.refused.clear()
    checks.wait_bound(api, real_namespace, 1)
    wait_for("readiness", lambda: ask(berth, "/readyz")[0] == 200, START)
    wait_for("the log to say so", lambda: berth.lines("the cluster can be seen again"), START)
    berth.end()


class Mangled:
    """Does something to every fifth line of the pods' watch, some times."""

    def __init__(self, what: Callable[[bytes, bytes], list[bytes]], times: int) -> None:
        self.left = times
        self._what = what
        self._seen = 0
        self._before = b""

    def __call__(self, path: str, line: bytes) -> list[bytes]:
        if path != PODS:
            return [line]
        self._seen += 1
        before, self._before = self._before, line
        if self._seen % 5 or not self.left:
            return [line]
        self.left -= 1
        return self._what(line, before)


def error(code: int, reason: str) -> bytes:
    """An ERROR event."""
    status = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason}
    return json.dumps({"type": "ERROR", "object": status}).encode() + b"\n"


STRANGE = b'{"type":"RENAMED","object":{"kind":"Pod","metadata":{"name":"x"}}}\n'


@pytest.mark.parametrize(
    "what",
    [
        pytest.param(lambda line, _: [line[: len(line) // 2]], id="cut within a line"),
        pytest.param(lambda line, _: [b'{"type":"MODI\n', line], id="no JSON"),
        pytest.param(lambda line, before: [line, before, line, STRANGE, line], id="repeated, reordered, unknown"),
        pytest.param(lambda line, _: [error(429, "TooManyRequests"), line], id="429"),
        pytest.param(lambda line, _: [error(500, "InternalError"), line], id="500"),
        pytest.param(lambda line, _: [error(504, "Timeout"), line], id="504"),
        pytest.param(lambda line, _: [error(410, "Expired"), line], id="410"),
    ],
)
def test_bad_streams(
    control_plane: Cluster,
    real_namespace: str,
    harbour: Harbour,
    add_nodes: Callable[..., None],
    proxy: Proxy,
    what: Callable[[bytes, bytes], list[bytes]],
) -> None:
    """Whatever a watch brings: it lives, applies nothing by halves, and knows in the end what the API server knows."""
    api, path = control_plane.api, pods_path(real_namespace)
    add_nodes(control_plane, nodes(10, real_namespace))
    berth = behind(proxy, harbour, f"berth-{real_namespace}")
    mangled = proxy.rewrites = Mangled(what, 4)
    for i in range(20):
        api.create(path, pod(f"web-{i}", berth.scheduler_name))
        if i % 3 == 2:
            api.delete(f"{path}/web-{i}")
    checks.wait_bound(api, real_namespace, 14)

    def is_mangled() -> bool:
        """After a new list, fewer lines come: others follow."""
        if mangled.left:
            api.patch(f"{path}/web-0", {"metadata": {"labels": {"lines": str(next(more))}}})
        return not mangled.left

    more = count()
    wait_for("the stream to be mangled", is_mangled, START)
    berth.wait_known()
    assert checks.overfull(api) == []
    berth.end()


@pytest.mark.usefixtures("control_plane_binaries")
def test_compacted_while_it_stood_still(harbour: Harbour) -> None:
    """Pods are deleted, others created, and the history of it is gone, before Berth reads on: 410, and a new list."""
    with ControlPlane(audit=True) as own:
        api, namespace = own.api, namespaces.create(own.api)
        path = pods_path(namespace)
        api.create_many(NODES, nodes(2, "small", cpu="2"))
        berth = harbour.berth(own)
        api.create_many(path, [pod(f"first-{i}", berth.scheduler_name, cpu="1") for i in range(4)])
        first = checks.wait_bound(api, namespace, 4)
        checks.bound_once_each(own, namespace, first)  # before the API server is killed, which may cut its log off
        os.kill(berth.pid, signal.SIGSTOP)
        for i in range(4):
            api.delete(f"{path}/first-{i}")
        api.create_many(path, [pod(f"second-{i}", berth.scheduler_name, cpu="1") for i in range(4)])
        own.compact()
        own.restart_apiserver()
        os.kill(berth.pid, signal.SIGCONT)
        checks.bound_once_each(own, namespace, [*first, *checks.wait_bound(api, namespace, 4)])
        berth.wait_known()
        berth.end()


def metrics(berth: Berth, cluster: Cluster) -> str:
    """All of them."""
    return ask(berth, "/metrics", cluster.admin["token"])[1]


@pytest.mark.usefixtures("control_plane_binaries")
def test_restored_backup(harbour: Harbour, tmp_path: Path) -> None:
    """etcd is put back to an earlier day: what came later is forgotten, and what was unbound then is bound anew."""
    with ControlPlane(audit=True) as own:
        api, namespace, name = own.api, namespaces.create(own.api), "berth-restored"
        path, data, backup = pods_path(namespace), own.directory / "etcd", tmp_path / "backup"
        api.create(NODES, node("kept"))
        api.create_many(path, [pod(f"early-{i}", name) for i in range(5)])
        own.apiserver.kill()
        own.etcd.kill()
        shutil.copytree(data, backup)
        own.start()

        berth = harbour.berth(own, name)
        checks.wait_bound(api, namespace, 5)
        api.create_many(NODES, nodes(20, "late"))
        api.create_many(path, [pod(f"late-{i}", name) for i in range(60)])
        checks.wait_bound(api, namespace, 65)

        own.apiserver.kill()
        own.etcd.kill()
        shutil.rmtree(data)
        shutil.copytree(backup, data)
        own.start()
        pods = checks.wait_bound(api, namespace, 5)
        assert {checks.node_of(one) for one in pods} == {"kept"}
        said = "etcd was restored from a backup; listing everything again"
        wait_for("the log to say so", lambda: berth.lines(said), START)
        berth.wait_known()
        api.create_many(NODES, nodes(1, "new"))
        api.create(path, pod("new", name, nodeSelector={"kubernetes.io/hostname": "new-0"}))
        checks.wait_bound(api, namespace, 6)
        berth.end()
