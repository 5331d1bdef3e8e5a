"""Proves that an evicted pod has somewhere to go, and keeps that room until its successor has it."""

from dataclasses import dataclass

import numpy as np
from msgspec.structs import replace

from podberth.cache.cluster import Cluster
from podberth.cache.column import Bools
from podberth.evictor.gates import owner_key
from podberth.framework.decision import Decision, Rows, fit_error
from podberth.framework.runtime import Framework
from podberth.framework.status import PluginError
from podberth.model.pod import Pod
from podberth.model.promise import NodeRequirement
from podberth.plugins.required_during_execution import meeting


@dataclass(frozen=True, slots=True)
class Target:
    """The result of a search. `row`: where the pod could go now; None: nowhere, and `text` says why."""

    row: int | None
    text: str


def find_target(pod: Pod, wanted: NodeRequirement, framework: Framework, cluster: Cluster) -> Target:
    """Return the best node for a placed pod, other than its own, that also meets its requirement.

    `pod` may be newer than the cluster's own copy: its shape is the one that counts.
    """
    placement = cluster.placement(pod.uid)
    if placement is None:
        return Target(None, "the pod is on no node")
    asked = replace(pod, node_name="", nominated_node_name="")
    try:
        with cluster.without(placement):
            return _target(asked, wanted, placement.row, framework, cluster)
    except PluginError as error:
        return Target(None, str(error))


def _target(asked: Pod, wanted: NodeRequirement, row: int, framework: Framework, cluster: Cluster) -> Target:
    """Do what `find_target` does for a pod that was on a row and is not there now. Raises PluginError."""
    meets = meeting(wanted, cluster.nodes)
    decision = framework.decide_quickly(asked, cluster)
    rows = _others(decision, row, meets)
    if not len(rows) and decision.quick:
        # The quick way knows the best nodes only: in a profile without our filter, they may be the wrong ones.
        decision = framework.decide(asked, cluster)
        rows = _others(decision, row, meets)
    if not len(rows):
        if len(decision.feasible):
            return Target(None, f"0/{decision.nodes} nodes are available: none but where it is.")
        return Target(None, fit_error(decision))
    good = rows[np.isin(rows, decision.best())]
    target = int((good if len(good) else rows)[0])
    return Target(target, cluster.nodes.names[target] or "")


def _others(decision: Decision, row: int, meets: Bools) -> Rows:
    """Return the feasible rows but one that meet the requirement."""
    feasible = decision.feasible
    others: Rows = feasible[(feasible != row) & meets[feasible]]
    return others


def claim(pod: Pod, row: int, cluster: Cluster) -> str:
    """Count the pod on its target too, until its successor comes: the next proof must not use the same room.

    Returns the UID of what was placed; `cluster.forget` ends it.
    """
    ghost = replace(pod, uid=f"{pod.uid}/claim", node_name=cluster.nodes.names[row] or "", scheduling_group=None)
    cluster.assume(ghost, row)
    return ghost.uid


KEPT_SECONDS = 120.0
"""Seconds after which a claim ends: a successor that is not placed by then went elsewhere, or was not created."""


@dataclass(frozen=True, slots=True)
class _Claim:
    ghost: str
    owner: str
    until: float


class Claims:
    """The claims of successors on nodes, by the evicted pod's UID, oldest first."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._claims: dict[str, _Claim] = {}

    def __len__(self) -> int:
        return len(self._claims)

    def add(self, pod: Pod, row: int, now: float) -> None:
        """Claim a row for the successor of a pod that is to be evicted."""
        self.drop(pod.uid)
        self._claims[pod.uid] = _Claim(claim(pod, row, self._cluster), owner_key(pod), now + KEPT_SECONDS)

    def drop(self, uid: str) -> None:
        """Drop the claim of a pod that was not evicted."""
        found = self._claims.pop(uid, None)
        if found is not None:
            self._cluster.forget(found.ghost)

    def settle(self, owner: str) -> None:
        """Settle the oldest claim of an owner, as a new pod of that owner was placed."""
        uid = next((uid for uid, found in self._claims.items() if found.owner == owner), None)
        if uid is not None:
            self.drop(uid)

    def expire(self, now: float) -> None:
        """Drop those that nobody came for."""
        for uid in [uid for uid, found in self._claims.items() if found.until <= now]:
            self.drop(uid)
