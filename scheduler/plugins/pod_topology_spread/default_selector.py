"""Upstream: plugins/helper/spread.go (DefaultSelector): the pods that belong with a pod, by Service and owner."""

from scheduler.model.namespaced import SelectingObject
from scheduler.model.pod import Pod
from scheduler.model.selectors import LabelSelector, Requirement
from scheduler.state.cluster import Cluster

_OWNERS = frozenset(("ReplicaSet", "StatefulSet"))
_MANY = 64
"""From so many labels of a pod on, what was merged for it is kept: thousands of Services may select it."""


def default_selector(pod: Pod, cluster: Cluster) -> LabelSelector | None:
    """The merged selectors of the Services that select the pod and of its controller; None when there are none.

    Raises SliceOver; asked again, it goes on where it stopped.
    """
    owner = None
    if pod.owner is not None:
        kind, name, _ = pod.owner
        owner = cluster.selecting.get(kind, {}).get(pod.namespace, {}).get(name)
        if owner is not None and owner.selector.nothing:
            owner = None
    if len(pod.labels) <= _MANY:
        selector, looked_at = _merged(pod, owner, cluster)
        cluster.effort.count(looked_at // 2)
        return selector
    kept = cluster.services.merged
    changes = cluster.selecting_changes.get(pod.namespace, 0)
    found = kept.get(pod.labels, (pod.namespace, pod.owner, changes))
    if found is None:
        selector, looked_at = _merged(pod, owner, cluster)
        kept.put(pod.labels, (pod.namespace, pod.owner, changes), selector)
        cluster.effort.charge(2 * looked_at)
        found = kept.get(pod.labels, (pod.namespace, pod.owner, changes)) or (selector, iter(()))
    selector, rest = found
    for steps in rest:
        cluster.effort.charge(steps)
    return selector


def _merged(pod: Pod, owner: SelectingObject | None, cluster: Cluster) -> tuple[LabelSelector | None, int]:
    """The selector, and how many requirements it was made of."""
    services = cluster.services.selecting(pod.namespace, pod.labels)
    if not services:
        # One selector as it is: it has been hashed, and may be large.
        own = owner.selector if owner is not None and (owner.kind in _MERGED) and owner.selector.requirements else None
        return own, 1
    if len(services) == 1 and (owner is None or owner.kind not in _MERGED):
        return services[0].selector, 1
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
            size = len(owner.selector.requirements)
            return owner.selector.beside(tuple(found)), len(services) + len(found) + size // 8
    return (LabelSelector(tuple(found)) if found else None), len(services) + len(found)


_MERGED = _OWNERS | {"ReplicationController"}
