"""How full the nodes of a placement would be, taken together. Upstream: noderesources/resource_allocation.go
(scorePlacement), always by the strategy MostAllocated.
"""

from collections.abc import Sequence

from podberth.cache.nodes import Nodes
from podberth.framework.interface import Assignment
from podberth.model.resources import is_scalar
from podberth.plugins.node_resources.amounts import ASSUMED, NATIVE, ONE, Amount
from podberth.plugins.node_resources.arguments import ResourceWeight
from podberth.plugins.node_resources.strategies import most_allocated


def score_placement(resources: Sequence[ResourceWeight], assignment: Assignment, nodes: Nodes) -> int:
    """0..100, by the sums over all nodes of the placement, with the pods that found a node there."""
    rows = assignment.placement.rows
    found: list[Amount] = []
    for resource in resources:
        name = resource.name
        index = nodes.resources.get(name)
        if index is None:
            continue
        asked = sum(pod.shape.scoring.get(name, 0) for pod in assignment.pods)
        if not asked and index not in NATIVE and is_scalar(name):
            continue
        capacity = nodes.allocatable[index, rows]
        used = (nodes.nonzero if index in ASSUMED else nodes.requested)[index, rows]
        if whole := int(capacity.sum()):
            found.append((resource.weight, whole, int(used[capacity != 0].sum()), asked))
    return int(most_allocated(found, ONE))
