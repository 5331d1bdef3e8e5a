"""What PodTopologySpread says of a node that it rejects: the skew that the pod would make, and what would help."""

from scheduler.framework.changes import Fix, SoftenSpread
from scheduler.framework.explaining import Detail, Inquiry, domain
from scheduler.model.node import Node
from scheduler.model.pod import Pod
from scheduler.model.spread import SpreadConstraint
from scheduler.model.taints import untolerated
from scheduler.plugins.node_affinity import pod_matches


def explain(inquiry: Inquiry, row: int) -> Detail:
    """How many matching pods the node's domains have, against the emptiest ones and the skew that is allowed."""
    node = inquiry.node(row)
    parts, data = [], []
    for constraint in _uneven(inquiry, node):
        key, value = constraint.topology_key, node.labels.get(constraint.topology_key)
        if value is None:
            parts.append(f"node has no label {key}")
            data.append({"topologyKey": key, "domain": None, "maxSkew": constraint.max_skew})
            continue
        text, numbers = _skewed(inquiry, constraint, value)
        parts.append(text)
        data.append(numbers)
    return "; ".join(parts), {"constraints": data}


def _skewed(inquiry: Inquiry, constraint: SpreadConstraint, value: str) -> Detail:
    key, counts = constraint.topology_key, _counts(inquiry, constraint)
    here, lowest = counts.get(value, 0), _lowest(constraint, counts)
    emptiest = min(counts, key=lambda name: (counts[name], name), default="")
    least = (
        f"{domain(key, emptiest)} has {lowest}"
        if counts.get(emptiest) == lowest
        else f"with fewer than {constraint.min_domains} domains the least counts as {lowest}"
    )
    skew = _skew(inquiry, constraint, value)
    return f"{domain(key, value)} has {here} of its pods, {least}: skew {skew}, at most {constraint.max_skew}", {
        "topologyKey": key,
        "domain": value,
        "pods": here,
        "fewest": lowest,
        "skew": skew,
        "maxSkew": constraint.max_skew,
    }


def fixes(inquiry: Inquiry, row: int) -> list[Fix]:
    """Turn the constraints that fail here into preferences."""
    keys = dict.fromkeys(constraint.topology_key for constraint in _uneven(inquiry, inquiry.node(row)))
    return [tuple(map(SoftenSpread, keys))] if keys else []


def _uneven(inquiry: Inquiry, node: Node) -> list[SpreadConstraint]:
    """The pod's own hard constraints that a node would not keep."""
    found = []
    for constraint in inquiry.pod.shape.spread:
        value = node.labels.get(constraint.topology_key)
        if constraint.hard and (value is None or _skew(inquiry, constraint, value) > constraint.max_skew):
            found.append(constraint)
    return found


def _skew(inquiry: Inquiry, constraint: SpreadConstraint, value: str) -> int:
    """The skew of a domain with the pod in it."""
    counts, labels = _counts(inquiry, constraint), inquiry.pod.labels
    itself = int(constraint.selector_for(labels).matches(labels))
    return counts.get(value, 0) + itself - _lowest(constraint, counts)


def _lowest(constraint: SpreadConstraint, counts: dict[str, int]) -> int:
    return min(counts.values(), default=0) if len(counts) >= constraint.min_domains else 0


def _counts(inquiry: Inquiry, constraint: SpreadConstraint) -> dict[str, int]:
    """Domain → pods that the constraint counts there, over the nodes that its policies include."""

    def find() -> dict[str, int]:
        pod, cluster = inquiry.pod, inquiry.cluster
        keys = [each.topology_key for each in pod.shape.spread if each.hard]
        selector = constraint.selector_for(pod.labels)
        counts: dict[str, int] = {}
        included = {}
        for row, node in cluster.nodes.live():
            if all(key in node.labels for key in keys) and _includes(constraint, pod, node):
                included[row] = node.labels[constraint.topology_key]
                counts.setdefault(included[row], 0)
        for placement in cluster.placements():
            other = placement.pod
            if placement.row in included and other.namespace == pod.namespace and not other.terminating:
                counts[included[placement.row]] += selector.matches(other.labels)
        return counts

    return inquiry.once(("spread", constraint), find)


def _includes(constraint: SpreadConstraint, pod: Pod, node: Node) -> bool:
    if constraint.honor_affinity and not pod_matches(pod, node):
        return False
    return not constraint.honor_taints or untolerated(pod.shape.tolerations, node.taints) is None
