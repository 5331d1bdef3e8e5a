"""Berth is killed, asked to stop, or loses the API server in the middle of a backlog."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.controlplane import namespaces
from tests.controlplane.api import Object
from tests.controlplane.cluster import ControlPlane
from tests.controlplane.wait import wait_for
from tests.integration import checks
from tests.integration.berth import Berth, Harbour
from tests.integration.objects import NODES, nodes, plain, pods_path

PODS = 300
SLOW: Object = {"clientConnection": {"qps": 40, "burst": 10}}
"""Seven seconds for the backlog, so that its middle can be met."""
MANY = 600
"""A quarter of a minute for them, which are there first: they can't all be bound before a signal comes."""
KILLS = 2
"""How often test_api_server_restarts kills the API server."""


def middle(cluster: ControlPlane, namespace: str, berth: Berth) -> None:
    """Return when some pods are bound, and many are not."""
    checks.wait_bound(cluster.api, namespace, 20)
    berth.check()


def test_killed(
    audited: ControlPlane, audited_namespace: str, harbour: Harbour, add_nodes: Callable[..., None]
) -> None:
    """After SIGKILL in the middle of a backlog, the next Berth binds the rest, and nothing twice."""
    api = audited.api
    add_nodes(audited, nodes(60, "killed"))
    api.create_many(pods_path(audited_namespace), plain(MANY, "berth-killed"))
    berth = harbour.berth(audited, "berth-killed", **SLOW)
    middle(audited, audited_namespace, berth)
    berth.kill()
    left = [pod for pod in api.list(pods_path(audited_namespace)) if not checks.node_of(pod)]
    assert left
    again = harbour.berth(audited, berth.scheduler_name)
    pods = checks.wait_bound(api, audited_namespace, MANY)
    # What SIGKILL cuts off may be stored, with no answer of 201 in the audit: nobody was there to get it.
    checks.bound_once_each(audited, audited_namespace, pods, unrecorded=SLOW["clientConnection"]["burst"])
    assert checks.overfull(api) == []
    again.end()


def test_sigterm_drains(
    audited: ControlPlane, audited_namespace: str, harbour: Harbour, add_nodes: Callable[..., None]
) -> None:
    """SIGTERM in the middle: exit code 0, each Binding sent is answered, each pod bound has its event."""
    api = audited.api
    add_nodes(audited, nodes(60, "drained"))
    api.create_many(pods_path(audited_namespace), plain(MANY, "berth-drained"))
    berth = harbour.berth(audited, "berth-drained", **SLOW)
    middle(audited, audited_namespace, berth)
    said = berth.end()
    pods = api.list(pods_path(audited_namespace))
    bound = [pod for pod in pods if checks.node_of(pod)]
    assert len(bound) < MANY
    assert said["bound"] == said["events"] == len(bound)
    checks.scheduled_once_each(api, audited_namespace, bound, berth.scheduler_name)
    checks.bound_once_each(audited, audited_namespace, bound)
    harbour.berth(audited, berth.scheduler_name)
    checks.bound_once_each(audited, audited_namespace, checks.wait_bound(api, audited_namespace, MANY))


@pytest.mark.usefixtures("control_plane_binaries")
def test_api_server_restarts(harbour: Harbour) -> None:
    """The API server is killed twice in the middle of a backlog and comes back: Berth goes on, nothing bound twice."""
    with ControlPlane(audit=True) as own:
        namespace = namespaces.create(own.api)
        own.api.create_many(NODES, nodes(60, "restarted"))
        berth = harbour.berth(own, **SLOW)
        own.api.create_many(pods_path(namespace), plain(PODS, berth.scheduler_name))
        middle(own, namespace, berth)
        own.restart_apiserver()
        checks.wait_bound(own.api, namespace, 60)
        own.restart_apiserver()
        pods = checks.wait_bound(own.api, namespace, PODS)
        checks.bound_once_each(own, namespace, pods, unrecorded=KILLS * SLOW["clientConnection"]["burst"])
        assert checks.overfull(own.api) == []
        own.api.create(pods_path(namespace), plain(1, berth.scheduler_name)[0] | {"metadata": {"name": "later"}})
        wait_for("the later pod", lambda: checks.node_of(own.api.get(f"{pods_path(namespace)}/later")), checks.BOUND)
        berth.end()
