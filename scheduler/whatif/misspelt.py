"""Labels and device classes that a pod asks for and that are not there, where one that is is spelt nearly so."""

from collections.abc import Iterator
from difflib import get_close_matches

from scheduler.model.pod import Pod
from scheduler.model.selectors import Requirement
from scheduler.state.cluster import Cluster

_VALUES = 2000
"""Values of one label that are compared."""
_REQUIREMENTS = 32
_CLASSES = 8


def misspelt(pod: Pod, cluster: Cluster) -> Iterator[str]:
    """A note for each requirement on labels that no node meets by its key or by its values."""
    yield from _classes(pod, cluster)
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


def _classes(pod: Pod, cluster: Cluster) -> Iterator[str]:
    """Of the claims of a pod."""
    devices, made = cluster.devices, dict(pod.made_claims)
    names = [one.claim if one.template is None else made.get(one.name) for one in pod.shape.claims]
    claims = [claim for name in names if name and (claim := devices.claim((pod.namespace, name))) is not None]
    requests = [request for claim in claims for request in claim.spec.requests]
    asked = [one.device_class for request in requests for one in request.alternatives]
    for name in dict.fromkeys(name for name in asked if name not in devices.classes):
        known = sorted(devices.classes)
        near = get_close_matches(name, known, n=1)
        there = f"there are {', '.join(known[:_CLASSES])}" if known else "there is none"
        yield f"there is no DeviceClass {name}; " + (f"did you mean {near[0]}?" if near else there)


def _asked(pod: Pod) -> Iterator[Requirement]:
    yield from pod.shape.node_selector
    affinity = pod.shape.required_node_affinity
    for term in () if affinity is None else affinity.terms:
        yield from (r for r in term.labels if r.operator in ("In", "Exists", "Gt", "Lt"))
