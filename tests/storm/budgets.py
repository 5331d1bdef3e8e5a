"""The disruption controller: it counts how many pods each PodDisruptionBudget can spare.

Upstream: pkg/controller/disruption. It looks again a moment after anything changed, as the real one does.
"""

from __future__ import annotations

from random import Random
from typing import Any

from podberth.apiserver.storage import Change
from tests.storm.actors import MERGE, ended
from tests.storm.loop import Loop
from tests.storm.server import Server

JsonObject = dict[str, Any]


def healthy(pod: JsonObject) -> bool:
    """Whether a budget counts on it."""
    ready = any(
        one.get("type") == "Ready" and one.get("status") == "True" for one in pod["status"].get("conditions", ())
    )
    return ready and not ended(pod) and not pod["metadata"].get("deletionTimestamp")


def covers(budget: JsonObject, pod: JsonObject) -> bool:
    """Whether a pod is one of a budget's."""
    if budget["metadata"]["namespace"] != pod["metadata"]["namespace"]:
        return False
    wanted: dict[str, str] = budget["spec"]["selector"]["matchLabels"]
    labels: dict[str, str] = pod["metadata"].get("labels", {})
    return wanted.items() <= labels.items()


class Budgets:
    """Keeps the statuses of all budgets."""

    def __init__(self, server: Server, loop: Loop, rng: Random) -> None:
        self._server = server
        self._loop = loop
        self._rng = rng
        self._due = False
        for plural in ("pods", "poddisruptionbudgets"):
            server.store.collection(server.registry.built_in(plural).collection).listeners[self] = None

    def offer(self, change: Change) -> None:
        if not self._due:
            self._due = True
            self._loop.call_later(0.05 + 0.2 * self._rng.random(), self.look)

    def look(self) -> None:
        """Count again."""
        self._due = False
        budgets = self._server.objects("poddisruptionbudgets")
        pods = [pod for pod in self._server.objects("pods") if pod["spec"].get("nodeName")] if budgets else []
        for budget in budgets:
            mine = [pod for pod in pods if covers(budget, pod)]
            there = sum(map(healthy, mine))
            wanted = budget["spec"]["minAvailable"]
            status = {
                "observedGeneration": budget["metadata"].get("generation", 1),
                "expectedPods": len(mine),
                "currentHealthy": there,
                "desiredHealthy": wanted,
                "disruptionsAllowed": max(there - wanted, 0),
                "disruptedPods": None,
            }
            known = budget.get("status") or {}
            if all(known.get(field) == value for field, value in status.items()):
                continue
            meta = budget["metadata"]
            path = f"/apis/policy/v1/namespaces/{meta['namespace']}/poddisruptionbudgets/{meta['name']}/status"
            code, _ = self._server.call("disruption", "PATCH", path, {"status": status}, MERGE)
            if code == 0:
                self._loop.call_later(2.0, self.look)
                return
