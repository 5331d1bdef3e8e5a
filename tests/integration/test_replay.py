"""kube-scheduler's own decisions on the real API server are among those that Berth would make."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from random import Random

import pytest

from tests.controlplane.cluster import Cluster
from tests.integration import replay
from tests.integration.volumes import Disks

PODS, NODES = 150, 20
PATIENCE = 240.0


@pytest.mark.timeout(600)
def test_replay(control_plane: Cluster, real_namespace: str, add_nodes: Callable[..., None]) -> None:
    """Mixed pods: each node it chose is one of the best, each pod it left pending is refused in the same words."""
    name, random = f"kube-{secrets.token_hex(4)}", Random(5)
    disks = Disks(control_plane, real_namespace)
    try:
        disks.make_class()
        replay.furnish(control_plane.api, real_namespace, name)
        room = replay.nodes(NODES, disks.name)
        add_nodes(control_plane, room)
        bodies = replay.pods(PODS, name, random)
        replay.with_volumes(disks, bodies, [one["metadata"]["name"] for one in room], random)
        outcome = replay.watch(control_plane, disks, bodies, PATIENCE)
    finally:
        replay.tidy(control_plane.api, name)
        disks.close()
    assert outcome.differences == []
    assert outcome.bound + outcome.pending == PODS
    assert outcome.bound > PODS // 2
    assert outcome.refused
