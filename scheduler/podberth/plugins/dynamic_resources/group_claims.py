"""Claims of pod groups: spec.resourceClaims of a PodGroup, which are reserved for the group and not for its pods.

Behind `featureGates: {DRAWorkloadResourceClaims: true}` of the plugin, as upstream's gate of this name. Upstream:
`dynamic-resource-allocation/resourceclaim` (BindTo, IsForPod), `plugins/dynamicresources` (deallocatePodGroupClaims).
"""

from collections.abc import Collection, Iterator
from typing import Any

import msgspec

from podberth.cache.cluster import Cluster
from podberth.cache.devices import Devices
from podberth.framework.binding import Patch
from podberth.model.devices import CLAIM, ResourceClaim
from podberth.model.pod import Pod
from podberth.model.pod_devices import PodClaim
from podberth.model.pod_group import NATIVE, NATIVE_KIND, PodGroup


def group_of(pod: Pod, cluster: Cluster) -> PodGroup | None:
    """The group whose claims the pod may use; None: it has none."""
    key = cluster.pod_groups.of(pod)
    group = None if key is None or key.api != NATIVE else cluster.pod_groups.get(key)
    return group if group is not None and group.resource_claims else None


def is_of_group(one: PodClaim, group: PodGroup | None) -> bool:
    """Return whether a claim of a pod is one of its group: all that both say of it is the same."""
    return group is not None and one in group.resource_claims


def consumer(group: PodGroup) -> dict[str, Any]:
    """The group in `reservedFor`."""
    return {"apiGroup": NATIVE, "resource": "podgroups", "name": group.name, "uid": group.uid}


def confirmed(group: PodGroup) -> Patch:
    """Change nothing of the group, which is refused if the group of its name is another one by now.

    The watch of groups may be behind. A claim that is reserved for a group that is gone loses its devices, and pods
    that are bound by then have none. While a pod names a group, it stays; so what is confirmed holds until the pod is
    bound or gone.
    """
    return Patch((NATIVE_KIND, group.namespace, group.name), group.uid, "", {}, "status")


def is_idle(group: PodGroup, cluster: Cluster) -> bool:
    """Return whether no pod of the group has a node."""
    return cluster.pod_groups.scheduled(group.key) == 0


def peers_of(pod: Pod, claiming: PodGroup | None, cluster: Cluster) -> Collection[str]:
    """UIDs of the pods of the pod's group that are assumed, and of the group, if none of its pods is bound.

    `claiming`: the group, if it has claims that are heeded.
    """
    key = cluster.pod_groups.of(pod)
    state = None if key is None else cluster.pod_groups.state(key)
    if state is None:
        return ()
    return state.assumed if claiming is None or state.assigned else {*state.assumed, claiming.uid}


def claims_of_group(group: PodGroup, devices: Devices) -> Iterator[ResourceClaim]:
    """The group's claims that are there: by name, and those that were made for it."""
    made = dict(group.made_claims)
    for one in group.resource_claims:
        name = one.claim or made.get(one.name)
        claim = None if name is None else devices.claims.get((group.namespace, name))
        if claim is not None and (one.claim is not None or claim.controller == group.uid):
            yield claim


def unreserved(group: PodGroup, devices: Devices) -> Patch | None:
    """Take a group none of whose pods has a node out of one of its claims, so that others may have it freed."""
    for claim in claims_of_group(group, devices):
        if claim.allocation is not None and group.uid in claim.reserved_for and not devices.is_unseen(claim.uid):
            users = zip(claim.reserved_for, claim.raw_reserved_for, strict=True)
            others = [msgspec.json.decode(raw) for uid, raw in users if uid != group.uid]
            change = {"status": {"reservedFor": others or None}}
            return Patch((CLAIM, *claim.key), claim.uid, claim.resource_version, change, "status")
    return None
