"""Labels, nodes and device classes that a pod asks for and that are not there, where one that is is spelt nearly so."""

from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from itertools import islice

from podberth.cache.cluster import Cluster
from podberth.framework.spelling import VALUES, label_values, near_labels, near_names
from podberth.model.pod import Pod
from podberth.model.selectors import Requirement

_REQUIREMENTS = 32
_CLASSES = 8


def misspelt(pod: Pod, cluster: Cluster) -> Iterator[str]:
    """A note for each requirement on labels that no node meets by its key or by its values."""
    yield from _classes(pod, cluster)
    yield from _nodes(pod, cluster)
    yield from _of_pods(pod, cluster)
    asked = list(_asked(pod))[:_REQUIREMENTS]
    known = label_values(cluster.nodes) if asked else {}
    for requirement in asked:
        key = requirement.key
        for value, near in near_labels(requirement, known):
            if key not in known:
                yield f"no node has the label {key}; did you mean {near}?"
            else:
                yield f"no node has {key}={value}; did you mean {near}?"


def _nodes(pod: Pod, cluster: Cluster) -> Iterator[str]:
    """Nodes that the pod's affinity names and that are not there, where it allows no other."""
    affinity = pod.shape.required_node_affinity
    terms = () if affinity is None else affinity.terms
    wanted = [{one.name for one in term.fields if one.names_node and one.operator == "In"} for term in terms]
    if not wanted or not all(wanted):
        return
    names = sorted({name for one in wanted for name in one})
    if any(cluster.nodes.live_row(name) is not None for name in names):
        return
    for name in names[:_CLASSES]:
        near = near_names(name, (node.name for _, node in cluster.nodes.live()), 1)
        yield f"there is no node {name}" + (f"; did you mean {near[0]}?" if near else "")


def _of_pods(pod: Pod, cluster: Cluster) -> Iterator[str]:
    """Labels of pods that this one wants to be near, and that no pod has."""
    terms = [("", term.selector.requirements) for term in islice(pod.shape.affinity_terms, _REQUIREMENTS)]
    for _, label, near in _of_no_pod(terms, pod, cluster):
        yield f"no pod has {label}; did you mean {near}?"


def counts_nobody(pod: Pod, cluster: Cluster) -> Iterator[str]:
    """A note for anti-affinity and spread that mean no pod, where some pod has a label that is spelt nearly so."""
    apart = [
        (f"the anti-affinity per {_last(term.topology_key)} keeps it apart from no pod", term.selector.requirements)
        for term in islice(pod.shape.anti_affinity_terms, _REQUIREMENTS)
    ]
    spread = [
        (f"the spread over {_last(constraint.topology_key)} counts no pod", constraint.selector.requirements)
        for constraint in pod.shape.spread[:_REQUIREMENTS]
        if constraint.hard
    ]
    for what, label, near in _of_no_pod([*apart, *spread], pod, cluster):
        yield f"{what}: none has {label}; did you mean {near}?"


def _of_no_pod(
    asking: Sequence[tuple[str, Sequence[Requirement]]], pod: Pod, cluster: Cluster
) -> Iterator[tuple[str, str, str]]:
    """(who asks, the label that it asks for and no pod has, the value that is spelt nearly so)."""
    asked = [
        (what, requirement)
        for what, requirements in asking
        for requirement in requirements
        if requirement.operator == "In" and not requirement.accepts(pod.labels.get(requirement.key))
    ][:_REQUIREMENTS]
    if not asked:
        return
    values: dict[str, dict[str, None]] = {requirement.key: {} for _, requirement in asked}
    for placement in cluster.placements():
        for key, known in values.items():
            value = placement.pod.labels.get(key)
            if value is not None:
                known[value] = None
    for what, requirement in asked:
        known = values[requirement.key]
        if not any(value in known for value in requirement.values):
            for value in sorted(requirement.values):
                near = get_close_matches(value, list(known)[:VALUES], n=1)
                if near:
                    yield what, f"{requirement.key}={value}", near[0]


def _last(key: str) -> str:
    return key.rpartition("/")[2]


def _classes(pod: Pod, cluster: Cluster) -> Iterator[str]:
    """A note for each DeviceClass that a claim of the pod asks for and that is not there."""
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
