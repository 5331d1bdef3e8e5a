"""Upstream: plugins/helper/spread.go (DefaultSelector): the pods that belong with a pod, by Service and owner."""

from podberth.cache.cluster import Cluster
from podberth.model.pod import Pod
from podberth.model.selectors import LabelSelector, Requirement

_OWNERS = frozenset(("ReplicaSet", "StatefulSet"))


def default_selector(pod: Pod, cluster: Cluster) -> LabelSelector | None:
    """The merged selectors of the Services that select the pod and of its controller; None when there are none."""
    owner = None
    if pod.owner is not None:
        kind, name, _ = pod.owner
        owner = cluster.selecting.get(kind, {}).get(pod.namespace, {}).get(name)
        if owner is not None and owner.selector.nothing:
            owner = None
    services = cluster.services.selecting(pod.namespace, pod.labels)
    if not services:
        # One selector as it is, which has been hashed.
        return owner.selector if owner is not None and owner.kind in _MERGED and owner.selector.requirements else None
    if len(services) == 1 and (owner is None or owner.kind not in _MERGED):
        return services[0].selector
    pairs: dict[str, Requirement] = {}
    for service in services:
        for requirement in service.selector.requirements:
            pairs[requirement.key] = requirement
    found = list(pairs.values())
    if owner is not None:
        if owner.kind == "ReplicationController":
            pairs |= {requirement.key: requirement for requirement in owner.selector.requirements}
            found = list(pairs.values())
        elif owner.kind in _OWNERS:
            return LabelSelector((*found, *owner.selector.requirements))
    return LabelSelector(tuple(found)) if found else None


_MERGED = _OWNERS | {"ReplicationController"}
