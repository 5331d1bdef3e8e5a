"""Karpenter's own code says of each pod what `tests/integration/autoscalers.py` says that it does."""

from __future__ import annotations

import json
import subprocess
from itertools import product
from pathlib import Path

import pytest

from tests.controlplane.api import Object
from tests.integration import autoscalers

pytestmark = pytest.mark.real

CONDITIONS: list[list[Object]] = [
    [],
    *(
        [{"type": "PodScheduled", "status": "False", **reason}]
        for reason in (
            {},
            *({"reason": word} for word in ("Unschedulable", "SchedulerError", "SchedulingGated", "WaitingForGroup")),
        )
    ),
    [{"type": "PodScheduled", "status": "True"}],
    [{"type": "PodScheduled", "status": "True", "reason": "Unschedulable"}],
    [{"type": "Ready", "status": "False", "reason": "Unschedulable"}],
]
OWNERS = [[], *([{"apiVersion": of, "kind": kind, "name": "owner", "uid": "u"}] for of, kind in (
    ("apps/v1", "ReplicaSet"), ("apps/v1", "DaemonSet"), ("v1", "Node"), ("batch/v1", "Job")
))]  # fmt: skip


def test_karpenter_counts_as_the_rule_says(karpenter: Path) -> None:
    """Each condition that a pod may have, with and without node, nomination, deletion and owner."""
    pods: list[Object] = []
    for conditions, owners, node, nominated, deleted in product(CONDITIONS, OWNERS, ("", "n"), ("", "n"), (0, 1)):
        metadata: Object = {"namespace": "shop", "name": f"pod-{len(pods)}", "ownerReferences": owners}
        if deleted:
            metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        status = {"conditions": conditions, "nominatedNodeName": nominated}
        pods.append({"metadata": metadata, "spec": {"schedulerName": "berth", "nodeName": node}, "status": status})
    given = json.dumps({"kind": "PodList", "apiVersion": "v1", "items": pods})
    told = subprocess.run([karpenter], input=given, capture_output=True, text=True, check=True, timeout=60).stdout
    assert told.split() == [f"shop/{one['metadata']['name']}" for one in pods if autoscalers.karpenter(one)]
    assert 0 < len(told.split()) < len(pods)
