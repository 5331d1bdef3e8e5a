"""The proof that an evicted pod has somewhere to go: all filters of its profile, with the pod itself taken out."""

from dataclasses import dataclass

import numpy as np
from msgspec.structs import replace

from scheduler.framework.decision import fit_error
from scheduler.framework.runtime import Framework
from scheduler.framework.status import PluginError
from scheduler.model.pod import Pod
from scheduler.model.promise import NodeRequirement
from scheduler.plugins.required_during_execution import meeting
from scheduler.state.cluster import Cluster


@dataclass(frozen=True, slots=True)
class Target:
    """`row`: where the pod could go now; None: nowhere, and `text` says why."""

    row: int | None
    text: str


def find_target(pod: Pod, wanted: NodeRequirement, framework: Framework, cluster: Cluster) -> Target:
    """The best node for a placed pod but the one it is on, that also meets its requirement.

    `pod` may be newer than the cluster's own copy: its shape is the one that counts.
    """
    placement = cluster.placement(pod.uid)
    if placement is None:
        return Target(None, "the pod is on no node")
    asked = replace(pod, node_name="", nominated_node_name="")
    cluster.lift(placement)
    try:
        decision = framework.decide_quickly(asked, cluster)
        here = decision.feasible != placement.row
        rows = decision.feasible[here & meeting(wanted, cluster.nodes)[decision.feasible]]
        if not len(rows):
            if len(decision.feasible):
                return Target(None, f"0/{decision.nodes} nodes are available: none but where it is.")
            return Target(None, fit_error(decision))
        best = decision.best()
        good = rows[np.isin(rows, best)]
        row = int((good if len(good) else rows)[0])
        return Target(row, cluster.nodes.names[row] or "")
    except PluginError as error:
        return Target(None, str(error))
    finally:
        cluster.lower(placement)


def claim(pod: Pod, row: int, cluster: Cluster) -> str:
    """Count the pod on its target too, until its successor comes: the next proof must not use the same room.

    Returns the UID of what was placed; `cluster.forget` ends it.
    """
    ghost = replace(pod, uid=f"{pod.uid}/claim", node_name=cluster.nodes.names[row] or "")
    cluster.assume(ghost, row)
    return ghost.uid
