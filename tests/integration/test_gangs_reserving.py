"""Room that is kept for a gang, on real processes: who may use it, that the gang gets it, and that a restart holds."""

from __future__ import annotations

import secrets
from collections.abc import Callable

import pytest

from tests.controlplane.api import Api, Object
from tests.controlplane.cluster import ControlPlane
from tests.controlplane.wait import wait_for
from tests.integration import checks
from tests.integration.berth import Berth, Harbour
from tests.integration.objects import node, pod, pods_path
from tests.integration.test_gangs import bound, condition, group, members, wait_said

HOURS: Object = {"restartPolicy": "Never", "activeDeadlineSeconds": 2 * 3600}
SHORTLY: Object = {"restartPolicy": "Never", "activeDeadlineSeconds": 60}
RESERVATION: Object = {"afterSeconds": 0, "forSeconds": 3600, "percentageOfNodes": 100}
KEPT = "room is kept for it on 2 nodes until "


@pytest.fixture
def full(gated: ControlPlane, space: str, add_nodes: Callable[..., None]) -> list[str]:
    """Three nodes of one CPU: on two of them a pod runs that ends in two hours, on the third one another stays."""
    names = [f"slot-{secrets.token_hex(3)}-{i}" for i in range(3)]
    add_nodes(gated, [node(name, cpu="1") for name in names])
    placed = [pod(f"ends-{i}", "nobody", cpu="500m", memory="10Mi", nodeName=names[i], **HOURS) for i in range(2)]
    stays = pod("stays", "nobody", cpu="900m", memory="10Mi", nodeName=names[2])
    gated.api.create_many(pods_path(space), [*placed, stays])
    return names


def keeping(harbour: Harbour, cluster: ControlPlane, name: str) -> Berth:
    """A scheduler that keeps room for each gang that does not fit."""
    config = [{"name": "GangScheduling", "args": {"reservation": RESERVATION}}]
    return harbour.berth(cluster, name, profiles=[{"schedulerName": name, "pluginConfig": config}])


def finish(api: Api, namespace: str, *names: str) -> None:
    """These pods have ended, as their kubelet says."""
    for name in names:
        api.patch(f"{pods_path(namespace)}/{name}/status", {"status": {"phase": "Succeeded"}})


def gang_waits(api: Api, namespace: str, scheduler: str) -> None:
    """Create a gang of two, and wait until its condition says that room is kept for it."""
    group(api, namespace, "train", 2)
    api.create_many(pods_path(namespace), members("train", 2, scheduler))
    wait_for("room for the gang", lambda: KEPT in condition(api, namespace, "train")[2], checks.BOUND, 0.2)


def test_room_is_kept_used_and_given(gated: ControlPlane, space: str, full: list[str], harbour: Harbour) -> None:
    """A gang needs both nodes whose pods end. A pod that would stay is kept away from them, one that ends before the
    gang starts is not; then the gang starts, and nothing is kept any more."""
    api = gated.api
    name = f"berth-{secrets.token_hex(4)}"
    berth = keeping(harbour, gated, name)
    gang_waits(api, space, name)
    (event,) = checks.wait_events(api, space, "RoomKept", 1)
    assert event["note"].startswith(KEPT)
    api.create(pods_path(space), pod("long", name, cpu="450m", memory="10Mi"))
    told = f"2 node(s) whose room is kept for podgroup {space}/train until "
    checks.wait_condition(api, space, "long", told)
    api.create(pods_path(space), pod("short", name, cpu="450m", memory="10Mi", **SHORTLY))
    wait_for("the short pod", lambda: bound(api, space, "short"), checks.BOUND, 0.2)
    assert bound(api, space, "long") == []
    finish(api, space, "short", "ends-0", "ends-1")
    wait_for("the gang", lambda: len(bound(api, space, "train-")) == 2, checks.BOUND, 0.2)
    assert wait_said(api, space, "train", "True")[1] == "Scheduled"
    assert checks.overfull(api) == []
    checks.wait_condition(api, space, "long", "0/3 nodes are available: 3 Insufficient cpu.")
    berth.end()


def test_a_process_that_dies_keeps_nothing_and_the_next_one_does(
    gated: ControlPlane, space: str, full: list[str], harbour: Harbour
) -> None:
    """SIGKILL while room is kept: the next Berth keeps room for the same gang, which starts as soon as it can."""
    api = gated.api
    name = f"berth-{secrets.token_hex(4)}"
    berth = keeping(harbour, gated, name)
    gang_waits(api, space, name)
    checks.wait_events(api, space, "RoomKept", 1)  # it is written later than the condition
    berth.kill()
    again = keeping(harbour, gated, name)
    checks.wait_events(api, space, "RoomKept", 2)
    api.create(pods_path(space), pod("long", name, cpu="450m", memory="10Mi"))
    checks.wait_condition(api, space, "long", "room is kept for podgroup")
    finish(api, space, "ends-0", "ends-1")
    wait_for("the gang", lambda: len(bound(api, space, "train-")) == 2, checks.BOUND, 0.2)
    checks.bound_once_each(gated, space, [one for one in api.list(pods_path(space)) if _mine(one)])
    assert checks.overfull(api) == []
    again.end()


def _mine(one: Object) -> bool:
    return str(one["metadata"]["name"]).startswith("train-")
