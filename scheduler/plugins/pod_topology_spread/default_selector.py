"""Upstream: plugins/helper/spread.go (DefaultSelector): the pods that belong with a pod, by Service and owner."""

from scheduler.model.pod import Pod
from scheduler.model.selectors import LabelSelector, Requirement
from scheduler.state.cluster import Cluster

_OWNERS = frozenset(("ReplicaSet", "StatefulSet"))


def default_selector(pod: Pod, cluster: Cluster) -> LabelSelector | None:
    """The merged selectors of the Services that select the pod and of its controller; None when there are none."""
    pairs: dict[str, Requirement] = {}
    for service in cluster.services.selecting(pod.namespace, pod.labels):
        pairs |= {requirement.key: requirement for requirement in service.selector.requirements}
    found = list(pairs.values())
    if pod.owner is not None:
        kind, name, _ = pod.owner
        owner = cluster.selecting.get(kind, {}).get(pod.namespace, {}).get(name)
        if owner is not None and not owner.selector.nothing:
            if kind == "ReplicationController":
                pairs |= {requirement.key: requirement for requirement in owner.selector.requirements}
                found = list(pairs.values())
            elif kind in _OWNERS:
                found.extend(owner.selector.requirements)
    return LabelSelector(tuple(found)) if found else None
