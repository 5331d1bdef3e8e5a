"""The API server or etcd is away for longer than a leader may go on: it ends in time, and the next one goes on."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

import pytest

from tests.controlplane import namespaces
from tests.controlplane.cluster import ControlPlane
from tests.controlplane.wait import wait_for
from tests.integration import checks
from tests.integration.berth import START, Berth, Harbour
from tests.integration.objects import NODES, nodes, plain, pods_path
from tests.integration.test_two_at_once import SECONDS, TAKEOVER, Pair

PODS = 200
FEW = {"qps": 5, "burst": 30}
"""More than half a minute for the backlog: it can't be over before the outage, however busy the machine is."""
CUT_OFF = 48
"""Bindings that may be stored without a line in the audit log: so many are under way at most."""


@pytest.fixture
def own(control_plane_binaries: object) -> Iterator[ControlPlane]:
    """A control plane for one test, which may break it; with nodes."""
    with ControlPlane(audit=True) as cluster:
        cluster.api.create_many(NODES, nodes(40, "outage"))
        yield cluster


def said_at(berth: Berth, event: str) -> datetime:
    """When it wrote its only line of this event."""
    (line,) = berth.lines(event)
    return datetime.fromisoformat(line["timestamp"])


ENDS = "leads no longer, ends so that a new process can stand by"


def test_api_server_is_away(own: ControlPlane, harbour: Harbour) -> None:
    """Killed for longer than a term: the leader goes on until its renew deadline, and ends with 1 and that reason.

    A process that starts while nobody answers waits, and binds the rest when the API server is back.
    """
    namespace = namespaces.create(own.api)
    election = {"leaderElect": True, "resourceNamespace": namespace, **SECONDS}
    first = harbour.berth(own, replica="-one", clientConnection=FEW, leaderElection=election)
    own.api.create_many(pods_path(namespace), plain(PODS, first.scheduler_name))
    checks.wait_bound(own.api, namespace, 20)
    own.apiserver.kill()
    wait_for("the leader to end", lambda: not first.running, TAKEOVER)
    assert first.stop() == 1
    (line,) = first.lines(ENDS)
    assert "not renewed for 7 s" in line["reason"]
    assert "Traceback" not in first.log.read_text()
    second = harbour.berth(own, first.scheduler_name, replica="-two", synced=False, leaderElection=election)
    wait_for("the second to find nobody", lambda: second.lines("list or watch failed, trying again"), START)
    second.check()
    own.start_apiserver()
    pods = checks.wait_bound(own.api, namespace, PODS)
    checks.bound_once_each(own, namespace, pods, unrecorded=CUT_OFF)
    assert checks.overfull(own.api) == []
    second.end()


def test_etcd_stands_still(own: ControlPlane, harbour: Harbour) -> None:
    """etcd is stopped, and answers nobody: the leader ends by its renew deadline, and the standby leads only after it.

    No Binding is asked for while nobody leads.
    """
    namespace = namespaces.create(own.api)
    pair = Pair(harbour, own, namespace, **FEW)
    own.api.create_many(pods_path(namespace), plain(PODS, pair.name))
    checks.wait_bound(own.api, namespace, 20)
    own.etcd.pause()
    wait_for("the leader to end", lambda: not pair.first.running, TAKEOVER)
    own.etcd.resume()
    assert pair.first.stop() == 1
    (line,) = pair.first.lines(ENDS)
    assert "not renewed for 7 s" in line["reason"]
    wait_for("the standby to lead", lambda: pair.second.lines("leads"), TAKEOVER)
    pods = checks.wait_bound(own.api, namespace, PODS)
    asked = checks.bound_once_each(own, namespace, pods, unrecorded=CUT_OFF)
    assert checks.overfull(own.api) == []
    ended, led = said_at(pair.first, ENDS), said_at(pair.second, "leads")
    assert ended < led
    received = [datetime.fromisoformat(entry["requestReceivedTimestamp"]) for entry in asked]
    assert [when for when in received if ended < when < led] == []
    assert min(received) < ended < max(received)
    pair.second.end()
