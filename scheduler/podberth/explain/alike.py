"""Says which pods that wait a decision treats alike, so that what is found of one holds for the others."""

from collections.abc import Hashable, Iterator

from msgspec.structs import replace

from podberth.cache.cluster import Cluster
from podberth.explain.objects.resource_claims import claims_of
from podberth.framework.runtime import Framework
from podberth.model.pod import Pod
from podberth.plugins.pod_topology_spread import PodTopologySpread
from podberth.plugins.service_affinity import ServiceAffinity


def likeness(pod: Pod, framework: Framework, cluster: Cluster) -> Hashable:
    """Return a key that pods share which find the same nodes, at one priority.

    They ask for the same, and their labels, names and claims differ only in what nothing here goes by: each pod of an
    Indexed Job has a label, and each of a StatefulSet a name, of its own. A plugin from outside may go by more.
    """
    affinity, shape = cluster.affinity, pod.shape
    spread, home = framework.plugin(PodTopologySpread.name), framework.plugin(ServiceAffinity.name)
    # A pod that its own terms select may be the first of its kind.
    first = bool(shape.affinity_terms) and all(affinity.selects(term, pod) for term in shape.affinity_terms)
    uneven = spread.constraints(pod, cluster, hard=True) if isinstance(spread, PodTopologySpread) else ()
    return (
        shape,
        first,
        frozenset(affinity.repelling(pod)),
        tuple((constraint, constraint.selector.matches(pod.labels)) for constraint in uneven),
        frozenset(home.wanted(pod, cluster).items()) if isinstance(home, ServiceAffinity) else None,
        tuple(claims_made(pod, cluster)),
    )


def claims_made(pod: Pod, cluster: Cluster) -> Iterator[Hashable]:
    """Yield what there is to know of the claims that were made for a pod, but for their names."""
    if pod.shape.claims:
        yield len(pod.made_claims)
        for made in claims_of(pod, cluster.devices):
            others = frozenset(made.reserved_for) - {pod.uid}
            yield made.spec, id(made.allocation), made.terminating, made.controller == pod.uid, others
    for used in pod.shape.volumes.claims:
        if used.ephemeral:
            claim = cluster.storage.claims.get((pod.namespace, used.claim(pod.name)))
            if claim is not None:
                claim = replace(claim, name="", uid="", resource_version="", owner=str(claim.owner == pod.uid))
            yield claim
