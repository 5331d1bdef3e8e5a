"""200 pods of each shape on 300 nodes: bound, once each, where they may be, with their events."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from podberth.framework.verify import ROWS
from tests.controlplane.cluster import ControlPlane
from tests.integration import checks
from tests.integration.berth import Harbour
from tests.integration.objects import SHAPES, nodes, pods_path

PODS = 200


@pytest.mark.parametrize("shape", SHAPES)
def test_shape(
    shape: str, audited: ControlPlane, audited_namespace: str, harbour: Harbour, add_nodes: Callable[..., None]
) -> None:
    """Pods of one shape, created while Berth runs, are all bound, and what the shape asks for holds."""
    api = audited.api
    add_nodes(audited, nodes(300, shape))
    berth = harbour.berth(audited)
    api.create_many(pods_path(audited_namespace), SHAPES[shape](PODS, berth.scheduler_name))
    pods = checks.wait_bound(api, audited_namespace, PODS)

    assert len(pods) == PODS
    checks.constraint_holds(shape, pods, checks.zones(api))
    assert checks.overfull(api) == []
    assert {checks.condition(pod)["status"] for pod in pods} == {"True"}
    checks.scheduled_once_each(api, audited_namespace, pods, berth.scheduler_name)
    assert len(checks.bound_once_each(audited, audited_namespace, pods)) == PODS  # none was even tried twice
    said = berth.end()
    assert (said["bound"], said["bind_errors"], said["events"]) == (PODS, 0, PODS)


def test_all_shapes_at_once(
    audited: ControlPlane, audited_namespace: str, harbour: Harbour, add_nodes: Callable[..., None]
) -> None:
    """A backlog of all shapes, there before Berth is, is bound with every constraint kept, each decision verified."""
    api = audited.api
    add_nodes(audited, nodes(ROWS - 50, "mixed"))  # one decision rebuilds so many rows: each can be verified
    name = "berth-mixed"
    by_shape = {shape: make(PODS, name) for shape, make in SHAPES.items()}
    backlog = [pods[i] for i in range(PODS) for pods in by_shape.values()]
    api.create_many(pods_path(audited_namespace), backlog)
    berth = harbour.berth(audited, name, verify=1)
    pods = {pod["metadata"]["name"]: pod for pod in checks.wait_bound(api, audited_namespace, len(backlog))}

    zone_of = checks.zones(api)
    for shape, made in by_shape.items():
        checks.constraint_holds(shape, [pods[pod["metadata"]["name"]] for pod in made], zone_of)
    assert checks.overfull(api) == []
    checks.scheduled_once_each(api, audited_namespace, pods.values(), name)
    checks.bound_once_each(audited, audited_namespace, pods.values())
    said = berth.end()
    assert said["differing"] == 0
    assert said["verified"] >= len(backlog), said
