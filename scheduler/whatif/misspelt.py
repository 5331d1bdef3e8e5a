"""Labels that a pod asks for and no node has, where one that nodes do have is spelt nearly so."""

from collections.abc import Iterator
from difflib import get_close_matches

from scheduler.model.pod import Pod
from scheduler.model.selectors import Requirement
from scheduler.state.cluster import Cluster

_VALUES = 2000
"""Values of one label that are compared."""
_REQUIREMENTS = 32


def misspelt(pod: Pod, cluster: Cluster) -> Iterator[str]:
    """A note for each requirement on labels that no node meets by its key or by its values."""
    asked = list(_asked(pod))[:_REQUIREMENTS]
    if not asked:
        return
    values: dict[str, dict[str, None]] = {}
    for _, node in cluster.nodes.live():
        for key, value in node.labels.items():
            known = values.setdefault(key, {})
            if len(known) < _VALUES:
                known[value] = None
    for requirement in asked:
        key = requirement.key
        if key not in values:
            near = get_close_matches(key, values, n=1)
            if near:
                yield f"no node has the label {key}; did you mean {near[0]}?"
        elif requirement.operator == "In" and not any(value in values[key] for value in requirement.values):
            for value in sorted(requirement.values):
                near = get_close_matches(value, values[key], n=1)
                if near:
                    yield f"no node has {key}={value}; did you mean {near[0]}?"


def _asked(pod: Pod) -> Iterator[Requirement]:
    yield from pod.shape.node_selector
    affinity = pod.shape.required_node_affinity
    for term in () if affinity is None else affinity.terms:
        yield from (r for r in term.labels if r.operator in ("In", "Exists", "Gt", "Lt"))
