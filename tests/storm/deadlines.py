"""Kubelets end pods whose deadline has come, for as long as there are such pods."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.storm.actors import MERGE, JsonObject, ended, node_of, periodically

if TYPE_CHECKING:
    from tests.storm.world import World

SWEEP_SECONDS = 2.0


class Deadlines:
    """Of all pods."""

    def __init__(self, world: World) -> None:
        self._world = world
        periodically(world.loop, SWEEP_SECONDS, self._sweep)

    def _sweep(self) -> None:
        status = {"status": {"phase": "Failed", "reason": "DeadlineExceeded"}}
        for pod in list(self._world.server.objects("pods")):
            end = end_of(self._world, pod)
            if end is not None and end <= self._world.now and not ended(pod):
                meta = pod["metadata"]
                path = f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}/status"
                self._world.server.call(f"kubelet-{node_of(pod)}", "PATCH", path, status, MERGE)


def end_of(world: World, pod: JsonObject) -> float | None:
    """When a pod that runs has to end (the world's time); None: never, or it does not run yet."""
    seconds, started = pod["spec"].get("activeDeadlineSeconds"), pod["status"].get("startTime")
    return None if seconds is None or started is None else world.seconds(started) + float(seconds)
