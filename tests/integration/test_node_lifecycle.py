"""A node that becomes not ready or unreachable and recovers: pods wait for it, and are bound when its taints go.

The taints are written here as the node lifecycle controller does it (`pkg/controller/nodelifecycle`): NoSchedule as
soon as the condition Ready is False (not-ready) or Unknown (unreachable), and NoExecute, with the time, in a pass of
its own.
"""

from __future__ import annotations

import pytest

from tests.controlplane.api import Object
from tests.integration.objects import NODES
from tests.integration.sides import WHOSE, Sides, sides

__all__ = ["sides"]

pytestmark = pytest.mark.newest
NOT_READY, UNREACHABLE = "node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"
SINCE = "2026-01-01T00:00:00Z"


def taint(sides: Sides, ready: str, *taints: Object) -> None:
    """Give both nodes this condition Ready, and these taints only."""
    for whose in WHOSE:
        path = f"{NODES}/{whose}-a"
        condition = {"type": "Ready", "status": ready, "reason": "Test", "lastTransitionTime": SINCE}
        sides.api.patch(f"{path}/status", {"status": {"conditions": [condition]}}, "strategic")
        sides.api.patch(path, {"spec": {"taints": list(taints)}})


def no(effect: str, key: str) -> Object:
    """One of the controller's taints."""
    return {"key": key, "effect": effect, **({"timeAdded": SINCE} if effect == "NoExecute" else {})}


def test_taints_come_and_go(sides: Sides) -> None:
    """Both say the same of a pod that waits; who tolerates the taint need not; who is there already stays."""
    sides.node("a")
    taint(sides, "False", no("NoSchedule", NOT_READY))
    sides.start()
    sides.pod("first")
    sides.waits("first", "untolerated taint")
    sides.pod("tolerates", tolerations=[{"key": NOT_READY, "operator": "Exists"}])
    sides.ends({"tolerates": "a", "first": ""})
    taint(sides, "True")
    sides.ends({"first": "a"})
    taint(sides, "Unknown", no("NoSchedule", UNREACHABLE), no("NoExecute", UNREACHABLE))
    sides.pod("second")
    sides.waits("second", "untolerated taint")
    taint(sides, "True", no("NoExecute", UNREACHABLE))
    # Admission has every pod tolerate that taint for 300 s.
    sides.ends({"second": "a"})
    assert sides.going() == set()
