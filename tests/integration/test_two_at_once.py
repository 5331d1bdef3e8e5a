"""Two replicas with one Lease: the standby takes over under load, and whoever led before binds nothing."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from tests.controlplane.api import Api, Object
from tests.controlplane.cluster import ControlPlane
from tests.controlplane.wait import wait_for
from tests.integration import checks
from tests.integration.berth import START, Harbour
from tests.integration.objects import node, nodes, plain, pod, pods_path

PODS = 160
SECONDS = {"leaseDuration": "9s", "renewDeadline": "7s", "retryPeriod": "1s"}
"""Short, and yet long enough for a leader on a busy machine not to lose its Lease by itself."""
CUT_OFF = 48
"""Bindings that SIGKILL may cut off: granted, and no answer of 201 in the audit, for nobody was there to get it."""
SLOW = {"qps": 40, "burst": 10}
"""About four seconds for the backlog, so that its middle can be met."""
TAKEOVER = 120.0
"""A generous bound on a busy machine; what it took is printed."""


class Pair:
    """Two replicas of one scheduler; the first leads when this is made."""

    def __init__(self, harbour: Harbour, cluster: ControlPlane, namespace: str, **connection: object) -> None:
        self.api = cluster.api
        self.path = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/berth"
        election = {"leaderElect": True, "resourceNamespace": namespace, **SECONDS}
        more: Object = {"leaderElection": election, "clientConnection": {"qps": 5000, "burst": 5000, **connection}}
        self.first = harbour.berth(cluster, replica="-one", **more)
        wait_for("the first to lead", lambda: self.first.lines("leads"), START)
        self.second = harbour.berth(cluster, self.first.scheduler_name, replica="-two", **more)

    @property
    def name(self) -> str:
        """The schedulerName of both."""
        return self.first.scheduler_name

    def lease(self) -> Object:
        """As it is now."""
        return self.api.get(self.path)

    def holder(self) -> str:
        """Who holds it."""
        holder: str = self.lease()["spec"].get("holderIdentity", "")
        return holder

    def wait_taken_over(self, since: float) -> None:
        """Return when the second leads."""
        wait_for("the standby to lead", lambda: self.second.lines("leads"), TAKEOVER)
        print(f"took over after {time.monotonic() - since:.1f} s with a lease of {SECONDS['leaseDuration']}")


@pytest.fixture
def pair(audited: ControlPlane, audited_namespace: str, harbour: Harbour, add_nodes: Callable[..., None]) -> Pair:
    """A leader in the middle of a backlog, and its standby."""
    add_nodes(audited, nodes(40, audited_namespace))
    made = Pair(harbour, audited, audited_namespace, **SLOW)
    audited.api.create_many(pods_path(audited_namespace), plain(PODS, made.name))
    checks.wait_bound(audited.api, audited_namespace, 20)
    return made


def recorded(cluster: ControlPlane, namespace: str, count: int, cut_off: int = 0) -> list[Object]:
    """All pods are bound, and the audit has it: once each, as asked for. Every Binding that was asked for."""
    pods = [pod for pod in checks.wait_bound(cluster.api, namespace, count) if checks.node_of(pod)]

    def granted() -> bool:
        """A pod is bound a moment before the line is written."""
        codes = [entry["responseStatus"]["code"] for entry in checks.bindings(cluster, namespace)]
        return codes.count(201) >= count - cut_off

    wait_for("the audit", granted, START)
    return checks.bound_once_each(cluster, namespace, pods, unrecorded=cut_off)


def test_leader_is_killed(audited: ControlPlane, audited_namespace: str, pair: Pair) -> None:
    """After kill -9 the standby binds the rest, and nothing twice."""
    assert not pair.second.lines("leads")
    assert pair.lease()["metadata"]["annotations"]["podberth.dev/schedulers"] == pair.name
    pair.first.kill()
    pair.wait_taken_over(time.monotonic())
    recorded(audited, audited_namespace, PODS, CUT_OFF)
    assert checks.overfull(audited.api) == []
    pair.second.end()
    assert pair.holder() == ""


def test_leader_is_frozen(audited: ControlPlane, audited_namespace: str, pair: Pair) -> None:
    """After SIGSTOP the standby takes over; after SIGCONT the first ends with 1 and has bound nothing more."""
    pair.first.pause()
    pair.wait_taken_over(time.monotonic())
    recorded(audited, audited_namespace, PODS)
    # When it goes on it has bindings of its own under way, and reads of new pods before it reads that they are bound.
    audited.api.create_many(pods_path(audited_namespace), [pod(f"late-{i}", pair.name) for i in range(20)])
    before = recorded(audited, audited_namespace, PODS + 20)
    pair.first.resume()
    wait_for("the ex-leader to end", lambda: not pair.first.running, START)
    assert pair.first.stop() == 1
    later = [entry for entry in checks.bindings(audited, audited_namespace) if entry not in before]
    for entry in later:
        print(f"arrived after all were bound: {entry}")
    # SIGSTOP may meet it between the question whether it still leads and the system call that sends: one write then
    # arrives with SIGCONT. It holds no more Bindings than may be sent at once, and the API server refuses them, as the
    # pods are bound.
    assert {entry["responseStatus"]["code"] for entry in later} <= {409}
    assert len(later) <= SLOW["burst"]
    checks.bound_once_each(audited, audited_namespace, audited.api.list(pods_path(audited_namespace)))
    assert pair.first.lines("leads no longer, ends so that a new process can stand by")
    pair.second.end()


LOSSES: dict[str, tuple[Callable[[Api, str], object], str]] = {
    "stolen": (lambda api, path: api.patch(path, {"spec": {"holderIdentity": "thief"}}), "taken by thief"),
    "deleted": (lambda api, path: api.delete(path), "was deleted"),
}


@pytest.mark.parametrize("how", LOSSES)
def test_lease_is_lost(audited: ControlPlane, audited_namespace: str, harbour: Harbour, how: str) -> None:
    """A leader whose Lease was stolen or deleted ends with 1 and says why."""
    act, said = LOSSES[how]
    election = {"leaderElect": True, "resourceNamespace": audited_namespace, **SECONDS}
    berth = harbour.berth(audited, leaderElection=election)
    wait_for("it to lead", lambda: berth.lines("leads"), START)
    act(audited.api, f"/apis/coordination.k8s.io/v1/namespaces/{audited_namespace}/leases/berth")
    wait_for("it to end", lambda: not berth.running, START)
    assert berth.stop() == 1
    (line,) = berth.lines("leads no longer, ends so that a new process can stand by")
    assert said in line["reason"]
    assert "Traceback" not in berth.log.read_text()


def test_caches_are_warm(
    audited: ControlPlane, audited_namespace: str, harbour: Harbour, add_nodes: Callable[..., None]
) -> None:
    """SIGTERM hands the Lease over, and the standby knows what happened meanwhile: a node that came, room that went."""
    pair = Pair(harbour, audited, audited_namespace)
    add_nodes(audited, [node("warm")])
    path = pods_path(audited_namespace)
    audited.api.create(path, pod("web", pair.name, cpu="3"))
    checks.wait_bound(audited.api, audited_namespace, 1)
    pair.first.end()
    audited.api.create(path, pod("fits-not", pair.name, cpu="3"))
    audited.api.create(path, pod("fits", pair.name))
    pair.wait_taken_over(time.monotonic())
    recorded(audited, audited_namespace, 2)
    checks.wait_condition(audited.api, audited_namespace, "fits-not", "Insufficient cpu")
    synced = pair.second.lines("synced")
    assert len(synced) == 1
    assert pair.second.lines().index(synced[0]) < pair.second.lines().index(pair.second.lines("leads")[0])
    pair.second.end()
