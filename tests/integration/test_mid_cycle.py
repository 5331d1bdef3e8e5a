"""What happens between a decision and its Binding, on real processes: the proxy holds the Binding while it happens."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from aiohttp import web

from tests.controlplane import namespaces
from tests.controlplane.api import Api, Object
from tests.controlplane.cluster import Cluster, ControlPlane
from tests.controlplane.wait import wait_for
from tests.integration import checks
from tests.integration.berth import START, Berth, Harbour, configuration
from tests.integration.objects import NODES, node, pod, pods_path
from tests.integration.proxy import Proxy, behind

Meanwhile = Callable[[Api, str], None]
"""What happens in the cluster, with the namespace of the test."""
AddNodes = Callable[..., None]


class Meddling(Proxy):
    """A proxy that does something before it passes the first Binding on, passes all late, or says what it likes."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        self.before: Callable[[], None] | None = None
        self.late = 0.0
        """Seconds before a Binding is passed on."""
        self.pages = 0
        """So many requests more get `page`, and are not passed on."""
        self.page: tuple[int, dict[str, str]] = (429, {"Retry-After": "1"})
        self.of_pages = ""
        """Only paths that end so."""
        self.bindings: Counter[str] = Counter()
        """Path → how often a Binding was sent."""

    async def _pass(self, request: web.BaseRequest) -> web.StreamResponse:
        if request.path.endswith("/binding"):
            self.bindings[request.path] += 1
            before, self.before = self.before, None
            if before is not None:
                await asyncio.to_thread(before)
            await asyncio.sleep(self.late)
        if self.pages and request.path.endswith(self.of_pages):
            self.pages -= 1
            status, headers = self.page
            return web.Response(status=status, headers=headers, text="<html>down for maintenance</html>")
        return await super()._pass(request)


@pytest.fixture
def proxy(audited: ControlPlane) -> Iterator[Meddling]:
    """Between a scheduler and the API server."""
    between = Meddling(audited)
    with between:
        yield between


def whole(name: str, scheduler: str, where: str) -> Object:
    """A pod that leaves no room for another one like it on the node of the test."""
    return pod(name, scheduler, cpu="800m", nodeSelector={"test": where})


def _taken(api: Api, namespace: str) -> None:
    api.bind_many(namespace, [("p", f"{namespace}-other")])


def _deleted(api: Api, namespace: str) -> None:
    api.delete(f"{pods_path(namespace)}/p")


def _recreated(api: Api, namespace: str) -> None:
    old = api.get(f"{pods_path(namespace)}/p")
    _deleted(api, namespace)
    api.create(pods_path(namespace), whole("p", old["spec"]["schedulerName"], namespace))


def _recreated_with_a_gate(api: Api, namespace: str) -> None:
    old = api.get(f"{pods_path(namespace)}/p")
    _deleted(api, namespace)
    made = whole("p", old["spec"]["schedulerName"], namespace)
    made["spec"]["schedulingGates"] = [{"name": "example.com/not-yet"}]
    api.create(pods_path(namespace), made)


@pytest.mark.parametrize("meanwhile", [_taken, _deleted, _recreated, _recreated_with_a_gate], ids=lambda f: f.__name__)
def test_the_pod_changes(
    audited: ControlPlane,
    audited_namespace: str,
    harbour: Harbour,
    add_nodes: AddNodes,
    proxy: Meddling,
    meanwhile: Meanwhile,
) -> None:
    """409 or 404: no other Binding is sent for that pod, its room is free at once, and whoever has its name is new."""
    api, path, where = audited.api, pods_path(audited_namespace), audited_namespace
    add_nodes(audited, [node(f"{where}-own", cpu="1", labels={"test": where}), node(f"{where}-other", cpu="1")])
    berth = behind(proxy, harbour, f"berth-{where}")
    proxy.before = lambda: meanwhile(api, where)
    first = api.create(path, whole("p", berth.scheduler_name, where))["metadata"]["uid"]
    failed = wait_for("the Binding to fail", lambda: berth.lines("binding failed"), START)
    assert [line["status"] for line in failed] == [404 if meanwhile is _deleted else 409]
    assert [line["level"] for line in failed] == ["info"]
    if meanwhile is not _recreated:
        api.create(path, whole("witness", berth.scheduler_name, where))
        wait_for("the witness to have the room", lambda: checks.node_of(api.get(f"{path}/witness")), checks.BOUND)
    if meanwhile is _recreated_with_a_gate:
        assert not checks.node_of(api.get(f"{path}/p"))
        api.delete(f"{path}/witness")
        api.patch(f"{path}/p", {"spec": {"schedulingGates": None}})
    if meanwhile in (_recreated, _recreated_with_a_gate):
        wait_for("the new pod to be bound", lambda: checks.node_of(api.get(f"{path}/p")), checks.BOUND)

    def sent() -> int:
        asked = [entry for entry in checks.bindings(audited, where) if entry["objectRef"]["name"] == "p"]
        return [entry["requestObject"]["metadata"].get("uid") for entry in asked].count(first)

    assert wait_for("the audit", sent, START) == 1, "the Binding that failed was the only one for that pod"
    assert checks.overfull(api) == []
    berth.end()


@pytest.fixture
def goes(audited: ControlPlane) -> Iterator[str]:
    """A namespace that the test deletes."""
    name = namespaces.create(audited.api)
    yield name
    namespaces.finish(audited.api, name)


def test_the_namespace_goes(
    audited: ControlPlane, audited_namespace: str, goes: str, harbour: Harbour, add_nodes: AddNodes, proxy: Meddling
) -> None:
    """Its pods end quietly: no event, no warning, no second Binding; others have the room."""
    api, where, other = audited.api, goes, audited_namespace
    add_nodes(audited, [node(f"{where}-own", cpu="1", labels={"test": where})])
    berth = behind(proxy, harbour, f"berth-{where}")

    def delete() -> None:
        api.delete(f"/api/v1/namespaces/{where}", grace=None)

    proxy.before = delete
    api.create(pods_path(where), whole("p", berth.scheduler_name, where))
    (failed,) = wait_for("the Binding to fail", lambda: berth.lines("binding failed"), START)
    assert failed["level"] == "info"
    api.create(pods_path(other), whole("witness", berth.scheduler_name, where))
    checks.wait_bound(api, other, 1)
    assert proxy.bindings[f"{pods_path(where)}/p/binding"] == 1
    assert checks.events(api, where, "FailedScheduling") == []
    berth.end()


def _gone(api: Api, name: str) -> None:
    api.delete(f"{NODES}/{name}")


def _cordoned(api: Api, name: str) -> None:
    api.patch(f"{NODES}/{name}", {"spec": {"unschedulable": True}})


def _tainted(api: Api, name: str) -> None:
    api.patch(f"{NODES}/{name}", {"spec": {"taints": [{"key": "broken", "effect": "NoSchedule"}]}})


def _smaller(api: Api, name: str) -> None:
    room = {"cpu": "100m", "memory": "32Gi", "pods": "110"}
    api.patch(f"{NODES}/{name}/status", {"status": {"allocatable": room, "capacity": room}})


def _back_and_smaller(api: Api, name: str) -> None:
    labels = api.get(f"{NODES}/{name}")["metadata"]["labels"]
    _gone(api, name)
    api.create(NODES, node(name, cpu="100m", labels=labels))


@pytest.mark.parametrize(
    "meanwhile", [_gone, _cordoned, _tainted, _smaller, _back_and_smaller], ids=lambda f: f.__name__
)
def test_the_node_changes(
    audited: ControlPlane,
    audited_namespace: str,
    harbour: Harbour,
    add_nodes: AddNodes,
    proxy: Meddling,
    meanwhile: Meanwhile,
) -> None:
    """Bindings that wait for their turn are not sent to a node that takes the pods no longer."""
    api, path, where = audited.api, pods_path(audited_namespace), audited_namespace
    labels = {"test": where}
    add_nodes(audited, [node(f"{where}-a", cpu="4", labels=labels)])
    berth = behind(proxy, harbour, f"berth-{where}", clientConnection={"qps": 4, "burst": 1})
    proxy.before = lambda: meanwhile(api, f"{where}-a")
    pods = 20
    api.create_many(path, [pod(f"p-{i}", berth.scheduler_name, cpu="100m", nodeSelector=labels) for i in range(pods)])
    withdrawn = wait_for(
        "Bindings to be withdrawn", lambda: berth.lines("binding withdrawn before anything was done"), START
    )
    add_nodes(audited, [node(f"{where}-b", cpu="4", labels=labels)])
    bound = checks.wait_bound(api, where, pods)
    on_first = [one for one in bound if checks.node_of(one) == f"{where}-a"]
    assert len(on_first) <= pods - len(withdrawn)
    sent = sum(proxy.bindings.values())
    assert sent < 2 * pods, "each pod once, and again only those whose Binding had been sent"
    checks.bound_once_each(audited, where, bound)
    berth.end()


def test_slow_bindings(
    audited: ControlPlane, audited_namespace: str, harbour: Harbour, add_nodes: AddNodes, proxy: Meddling
) -> None:
    """Each Binding takes longer than Berth waits for an answer: the room is held, and nothing is booked twice."""
    api, path, where = audited.api, pods_path(audited_namespace), audited_namespace
    add_nodes(audited, [node(f"{where}-{i}", cpu="1", labels={"test": where}) for i in range(4)])
    berth = behind(proxy, harbour, f"berth-{where}")
    proxy.late = 12.0
    api.create_many(path, [whole(f"p-{i}", berth.scheduler_name, where) for i in range(6)])
    checks.wait_bound(api, where, 4)
    proxy.late = 0.0
    wait_for("the others to be told", lambda: len(berth.lines("not scheduled")) >= 2, START)
    bound = [one for one in api.list(path) if checks.node_of(one)]
    assert len({checks.node_of(one) for one in bound}) == 4
    wait_for("the log to say so", lambda: berth.lines("binding unanswered, asking for the pod"), START)
    assert checks.overfull(api) == []
    wait_for("Berth to know of all four", lambda: len(berth.lines("bound")) == 4, START)
    berth.end()


def test_429_storm(
    audited: ControlPlane, audited_namespace: str, harbour: Harbour, add_nodes: AddNodes, proxy: Meddling
) -> None:
    """Bindings are answered 429 with Retry-After, thirty times: all pods are bound, and nobody asks in a loop."""
    api, path, where = audited.api, pods_path(audited_namespace), audited_namespace
    add_nodes(audited, [node(f"{where}-own", labels={"test": where})])
    berth = behind(proxy, harbour, f"berth-{where}")
    proxy.of_pages, proxy.pages = "/binding", 30
    pods = 20
    small = [pod(f"p-{i}", berth.scheduler_name, cpu="10m", nodeSelector={"test": where}) for i in range(pods)]
    api.create_many(path, small)
    checks.wait_bound(api, where, pods)
    assert sum(proxy.bindings.values()) <= 30 + 2 * pods
    checks.bound_once_each(audited, where, api.list(path))
    berth.end()


def test_maintenance_page_for_an_hour(
    audited: ControlPlane, audited_namespace: str, harbour: Harbour, add_nodes: AddNodes, proxy: Meddling
) -> None:
    """One page says to come back in an hour: the Lease is renewed meanwhile, and the pod is bound long before."""
    api, path, where = audited.api, pods_path(audited_namespace), audited_namespace
    add_nodes(audited, [node(f"{where}-own", labels={"test": where})])
    election = {"leaderElect": True, "resourceNamespace": where, "resourceName": "berth"}
    berth = behind(proxy, harbour, f"berth-{where}", leaderElection=election)
    wait_for("it to lead", lambda: berth.lines("leads"), START)
    proxy.page, proxy.of_pages, proxy.pages = (503, {"Retry-After": "3600"}), "/binding", 1
    lease = f"/apis/coordination.k8s.io/v1/namespaces/{where}/leases/berth"
    before = api.get(lease)["spec"]["renewTime"]
    api.create(path, pod("p", berth.scheduler_name, nodeSelector={"test": where}))
    checks.wait_bound(api, where, 1)
    wait_for("another renewal", lambda: api.get(lease)["spec"]["renewTime"] > before, START)
    assert berth.lines("leads no longer, ends so that a new process can stand by") == []
    berth.end()


@pytest.mark.parametrize("hours", [1, -1])
def test_a_wrong_clock(
    audited: ControlPlane, audited_namespace: str, harbour: Harbour, tmp_path: Path, hours: int
) -> None:
    """The leader's clock is an hour fast or slow: the standby, whose clock is right, leads only when it ends."""
    api, name = audited.api, f"berth-{audited_namespace}"
    skewed = tmp_path / "skewed"
    skewed.mkdir()
    (skewed / "sitecustomize.py").write_text(
        f"import time\nright = time.time\ntime.time = lambda: right() + {3600 * hours}\n"
    )
    seconds = {"leaseDuration": "9s", "renewDeadline": "7s", "retryPeriod": "1s"}
    election = {"leaderElect": True, "resourceNamespace": audited_namespace, "resourceName": "berth", **seconds}
    kubeconfig = audited.kubeconfig(tmp_path / "kubeconfig")
    config = configuration(name, leaderElection=election)
    leader = Berth(tmp_path, name, kubeconfig, config, "-skewed")
    leader.import_first_from(skewed)
    harbour.started.append(leader)
    leader.start()
    wait_for("the first to lead", lambda: leader.lines("leads"), START)
    standby = harbour.berth(audited, name, replica="-right", leaderElection=election)
    standby.wait_synced()
    lease = f"/apis/coordination.k8s.io/v1/namespaces/{audited_namespace}/leases/berth"
    renewals: set[str] = set()

    def renewed() -> bool:
        renewals.add(api.get(lease)["spec"]["renewTime"])
        return len(renewals) > 12

    wait_for("more renewals than a term has", renewed, START)
    assert standby.lines("leads") == []
    leader.end()
    wait_for("the standby to lead", lambda: standby.lines("leads"), START)
    standby.end()
