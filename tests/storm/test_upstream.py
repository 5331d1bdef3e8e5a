"""Bugs that kube-scheduler had in 2025 and 2026, as scenes: docs/evidence/storm.md says what Berth does in each.

In a world without other faults: what is asked is whether the pods are bound, how soon, and with how many writes.
"""

from __future__ import annotations

from collections import Counter

from tests.storm.actors import node_of
from tests.storm.happenings import Happening, at
from tests.storm.towns import scene
from tests.storm.world import World


def _world(name: str, *happenings: Happening) -> World:
    """The world when all is over; nothing was violated in it."""
    world = World(scene(name, *happenings))
    assert world.run().violations == []
    return world


def _unbound(world: World, app: str) -> list[str]:
    pods = world.server.objects("pods")
    return [pod["metadata"]["name"] for pod in pods if pod["metadata"]["labels"]["app"] == app and not node_of(pod)]


def _bound_at(world: World, app: str) -> list[float]:
    """When pods of this workload were bound, by the server's log."""
    return [entry.at for entry in world.server.audit if entry.node and entry.name.startswith(f"{app}-")]


def test_139162_the_cluster_changes_while_victims_go() -> None:
    """k/k #139162: a preemptor that was woken while its victims went stayed unschedulable for ever."""
    world = _world(
        "139162",
        at(1.0, "want", namespace="blue", name="low", cpu=500, replicas=14),
        at(100.0, "want", namespace="green", name="high", cpu=500, priority="high", replicas=6),
        *(at(100.2 + i / 4, "want", namespace="blue", name=f"other{i}", cpu=100, replicas=1) for i in range(8)),
        at(100.5, "cordon", node="n1", seconds=2.0),
        at(101.0, "delete-pods", count=3),
        at(101.5, "shrink-node", node="n2", seconds=3.0, part=0.5),
    )
    assert _unbound(world, "high") == []
    assert max(_bound_at(world, "high")) < 130.0


def test_137607_a_time_out_is_no_verdict() -> None:
    """k/k #137607: pods whose attempt timed out were parked as unschedulable until a sweep, minutes later."""
    world = _world(
        "137607",
        at(50.0, "requests", what="create pods/binding", chance=1.0, seconds=60.0, code=-1),
        at(55.0, "want", namespace="blue", name="slow", cpu=100, replicas=8),
    )
    assert _unbound(world, "slow") == []
    assert min(_bound_at(world, "slow")) >= 110.0
    # A Binding that was sent may land for 75 s more; until then its room is held, and the pod is not tried again.
    assert max(_bound_at(world, "slow")) < 110.0 + 75.0 + 30.0


def test_135900_status_writes_do_not_pile_up() -> None:
    """k/k #135900: status writes of pods that never fit piled up in front of everything else."""
    world = _world(
        "135900",
        *(at(1.0 + i, "want", namespace="green", name=f"huge{i}", cpu=9000, replicas=10) for i in range(4)),
        at(1.0, "requests", what="patch pods/status", chance=1.0, seconds=200.0, right=True, after=2.0),
        *(at(when, "cordon", node="n0", seconds=1.0) for when in range(20, 180, 8)),
        at(100.0, "want", namespace="blue", name="fits", cpu=100, replicas=5),
    )
    assert max(_bound_at(world, "fits")) < 105.0
    patched = Counter(
        entry.name
        for entry in world.server.audit
        if entry.verb == "patch"
        and entry.resource == "pods/status"
        and entry.user.startswith("berth")
        and entry.name.startswith("huge")
    )
    assert len(patched) == 40
    assert max(patched.values()) <= 8
