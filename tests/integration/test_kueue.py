"""Kueue's writes to pods, recorded from Kueue itself (tests/integration/beside), and what Berth makes of each."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from tests.controlplane.cluster import ControlPlane
from tests.integration import checks
from tests.integration.berth import Harbour
from tests.integration.beside.writes import RECORDED, write
from tests.integration.objects import node, pods_path

SCENES = json.loads(RECORDED.read_text())


@pytest.mark.parametrize("scene", SCENES)
def test_a_pod_is_scheduled_once_the_last_gate_is_off(
    audited: ControlPlane, audited_namespace: str, harbour: Harbour, add_nodes: Callable[..., None], scene: str
) -> None:
    """After each of Kueue's writes the pods without a gate are bound, each where Kueue said, and no others."""
    api, space = audited.api, audited_namespace
    made = json.loads(json.dumps(SCENES[scene]["nodes"]).replace("@", space))
    add_nodes(audited, [node(one.pop("name"), **one) for one in made])
    berth = harbour.berth(audited)
    for step in SCENES[scene]["steps"]:
        write(api, space, berth.scheduler_name, step)
        pods = api.list(pods_path(space))
        free = [one["metadata"]["name"] for one in pods if not one["spec"].get("schedulingGates")]
        checks.wait_bound(api, space, len(free))
    berth.wait_known()
    pods = api.list(pods_path(space))
    assert {one["metadata"]["name"] for one in pods if checks.node_of(one)} == set(free)
    labels = {one["metadata"]["name"]: one["metadata"]["labels"] for one in api.list("/api/v1/nodes")}
    for one in pods:
        if checks.node_of(one):
            assert one["spec"]["nodeSelector"].items() <= labels[checks.node_of(one)].items()
        else:
            assert checks.condition(one)["reason"] == "SchedulingGated"
    assert checks.events(api, space, "FailedScheduling") == []
    for one in pods:  # Kueue's own finalizer, which it takes off itself
        api.patch(f"{pods_path(space)}/{one['metadata']['name']}", {"metadata": {"finalizers": None}})
    berth.end()
