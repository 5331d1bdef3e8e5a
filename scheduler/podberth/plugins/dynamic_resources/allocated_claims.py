"""Claims that were allocated before: which nodes can use what they were given, and what that counts in scores."""

from collections.abc import Iterable

import numpy as np

from podberth.cache.cluster import Cluster
from podberth.cache.column import Bools
from podberth.model.devices import MOST_ALTERNATIVES, ResourceClaim
from podberth.plugins.dynamic_resources.claims import late_at, readiness
from podberth.plugins.node_affinity import matches

_SKIPPING = "DRAOptionalNodeOperations"


def unusable_rows(claim: ResourceClaim, cluster: Cluster, seconds: float) -> Bools | None:
    """bool[rows] of the nodes that can't use what the claim was given; None: all can.

    `seconds`: so long devices may take to get ready.
    """
    if claim.allocation is None:
        return None
    nodes, selector = cluster.nodes, claim.allocation.selector
    where = np.zeros(nodes.rows, dtype=np.bool_) if selector is None else ~matches(selector, nodes)
    state = readiness(claim)
    late = None if state.ready else late_at(claim, seconds)
    if state.failed or (late is not None and late < cluster.devices.wall):
        where[:] = True
    elif any(device.skips_node for device in claim.allocation.devices):
        ready = [node is not None and _SKIPPING in node.features for node in nodes.objects[: nodes.rows]]
        where |= ~np.array(ready, dtype=np.bool_)
    return where if where.any() else None


def score_of_allocated(claims: Iterable[ResourceClaim]) -> int:
    """Return what the alternatives of `firstAvailable` that were allocated count: earlier ones count more
    (computeScore).
    """
    score = 0
    for claim in claims:
        if claim.allocation is None:
            continue
        chosen = {device.request for device in claim.allocation.devices}
        for request in claim.spec.requests:
            for i, one in enumerate(request.first_available):
                if f"{request.name}/{one.name}" in chosen:
                    score += MOST_ALTERNATIVES - i
    return score
