"""Says what a person may have meant, or left out: names that are nearly those of something that is there, schedulers
that nobody seems to run, and kinds of which a dump holds no object.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice

from podberth.cache.cluster import Cluster
from podberth.explain.changes import last_word
from podberth.explain.explanation import GATED, UNSCHEDULABLE, Explanation
from podberth.explain.objects import resource_claims
from podberth.explain.objects.world import World
from podberth.explain.spelling import VALUES, label_values, near_labels, nearest_name, similar
from podberth.framework.runtime import Framework
from podberth.model.pod import Pod
from podberth.model.pod_group import NATIVE
from podberth.model.selectors import Requirement

_REQUIREMENTS = 32
_CLASSES = 8


def misspelt(pod: Pod, cluster: Cluster) -> Iterator[str]:
    """Yield a note for each requirement on labels that no node meets by its key or by its values."""
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
    """Yield a note for each node that the pod's affinity requires by name and that does not exist."""
    affinity = pod.shape.required_node_affinity
    terms = () if affinity is None else affinity.terms
    wanted = [{one.name for one in term.fields if one.names_node and one.operator == "In"} for term in terms]
    if not wanted or not all(wanted):
        return
    names = sorted({name for one in wanted for name in one})
    if any(cluster.nodes.live_row(name) is not None for name in names):
        return
    for name in names[:_CLASSES]:
        near = nearest_name(name, (node.name for _, node in cluster.nodes.live()))
        yield f"there is no node {name}" + (f"; did you mean {near}?" if near else "")


def _of_pods(pod: Pod, cluster: Cluster) -> Iterator[str]:
    """Yield a note for each label of pods that this one must be near and that no pod has."""
    terms = [("", term.selector.requirements) for term in islice(pod.shape.affinity_terms, _REQUIREMENTS)]
    for _, label, near in _of_no_pod(terms, pod, cluster):
        yield f"no pod has {label}; did you mean {near}?"


def counts_nobody(pod: Pod, cluster: Cluster) -> Iterator[str]:
    """Yield a note for each anti-affinity or spread term that selects no pod, and nearly selects some."""
    apart = [
        (f"the anti-affinity per {last_word(term.topology_key)} keeps it apart from no pod", term.selector.requirements)
        for term in islice(pod.shape.anti_affinity_terms, _REQUIREMENTS)
    ]
    spread = [
        (f"the spread over {last_word(constraint.topology_key)} counts no pod", constraint.selector.requirements)
        for constraint in pod.shape.spread[:_REQUIREMENTS]
        if constraint.hard
    ]
    for what, label, near in _of_no_pod([*apart, *spread], pod, cluster):
        yield f"{what}: none has {label}; did you mean {near}?"


def _of_no_pod(
    asking: Sequence[tuple[str, Sequence[Requirement]]], pod: Pod, cluster: Cluster
) -> Iterator[tuple[str, str, str]]:
    """Yield (term, the label that it asks for and no pod has, a value that is spelt nearly so)."""
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
                near = similar(value, list(known)[:VALUES])
                if near:
                    yield what, f"{requirement.key}={value}", near[0]


def _classes(pod: Pod, cluster: Cluster) -> Iterator[str]:
    """Yield a note for each DeviceClass that a claim of the pod asks for and that is not there."""
    devices = cluster.devices
    requests = [request for claim in resource_claims.claims_of(pod, devices) for request in claim.spec.requests]
    asked = [one.device_class for request in requests for one in request.alternatives]
    for name in dict.fromkeys(name for name in asked if name not in devices.classes):
        known = sorted(devices.classes)
        near = similar(name, known)
        there = f"there are {', '.join(known[:_CLASSES])}" if known else "there is none"
        yield f"there is no DeviceClass {name}; " + (f"did you mean {near[0]}?" if near else there)


def _asked(pod: Pod) -> Iterator[Requirement]:
    yield from pod.shape.node_selector
    affinity = pod.shape.required_node_affinity
    for term in () if affinity is None else affinity.terms:
        yield from (r for r in term.labels if r.operator in ("In", "Exists", "Gt", "Lt"))


_ALWAYS = "default-scheduler"
"""The scheduler that every cluster has."""


def running(placed: Iterable[Pod]) -> Counter[str]:
    """Return scheduler → how many of the placed pods name it."""
    found = Counter({_ALWAYS: 0})
    found.update(pod.scheduler_name for pod in placed)
    return found


def instead_of(name: str, profiles: Iterable[str], ran: Mapping[str, int]) -> list[str]:
    """Return schedulers that a pod could name, if none seems to run that has the name it gives; else none.

    The one that was perhaps meant comes first, then those that placed most. `profiles`: of the configuration.
    """
    known = {*profiles, *ran} - {""}
    if not name or name in known:
        return []
    ordered = sorted(known, key=lambda each: (-ran.get(each, 0), each))
    return list(dict.fromkeys([*similar(name, ordered), *ordered]))


def seen_by(pod: Pod, frameworks: Mapping[str, Framework], ran: Mapping[str, int]) -> tuple[Framework, list[str]]:
    """Return the framework by which a pod is looked at, and the schedulers of this view that it could name instead of
    its own.

    That is the profile that the pod names, else the one that it could name, else the first.
    """
    usual = next(iter(frameworks.values()))
    names = instead_of(pod.scheduler_name, frameworks, ran)
    found = frameworks.get(names[0] if names else pod.scheduler_name, usual)
    return found, [name for name in names if frameworks.get(name, usual) is found]


LIMITS = "CSINode"
"""Says how many volumes a node can attach: without it no node is full, and all else is decided rightly."""


def unheld(pod: Pod, world: World) -> list[str]:
    """Return these kinds; none for a live cluster, whose lists are complete."""
    return [kind for kind in dict.fromkeys(_deciding(pod, world)) if world.dump and not world.holds(kind)]


def lack(kinds: Iterable[str]) -> str:
    """Return the note about kinds that the dump does not hold."""
    return "this dump holds no " + " or ".join(", ".join(kinds).rsplit(", ", 1))


def undecided(answer: Explanation) -> str:
    """Return the reason for which it is unknown what keeps a pod; empty: it fits, or the dump holds what decides."""
    kinds = [kind for kind in answer.unheld if kind != LIMITS]
    return lack(kinds) if kinds and answer.outcome in (GATED, UNSCHEDULABLE) else ""


def note(pods: Iterable[Pod], world: World) -> Iterator[str]:
    """Yield a line about all kinds that these pods lack, if any."""
    kinds = dict.fromkeys(kind for pod in pods for kind in unheld(pod, world))
    if kinds:
        yield f"{lack(kinds)}, and the cluster may have some: berth dump writes all that counts"


def _deciding(pod: Pod, world: World) -> Iterator[str]:
    cluster = world.cluster
    if pod.scheduling_group is not None and pod.scheduling_group.api == NATIVE:
        yield "PodGroup"
    made = dict(pod.made_claims)
    for one in pod.shape.claims:
        name = one.claim or made.get(one.name)
        if name is None and pod.key in world.waiting:
            continue  # its status says that no claim has been made yet
        of_pod = None if name is None else cluster.devices.claims.get((pod.namespace, name))
        if of_pod is None and (pod.namespace, one.template or "") not in world.claim_templates:
            yield "ResourceClaim" if name is not None else resource_claims.TEMPLATE_KIND
        if of_pod is None or of_pod.allocation is None:
            yield from ("DeviceClass", "ResourceSlice")
    for used in pod.shape.volumes.claims:
        claim = cluster.storage.claims.stored((pod.namespace, used.claim(pod.name)))
        if claim is None:
            yield "PersistentVolumeClaim"
        yield LIMITS
        if claim is not None:
            yield "PersistentVolume" if claim.volume_name else "StorageClass"
