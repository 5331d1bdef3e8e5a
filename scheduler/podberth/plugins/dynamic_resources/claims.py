"""The claims of a pod: those that it names, its group's, and the one that is made for extended resources.

Claims of spec.resourceClaims of a PodGroup are reserved for the group and not for its pods. They are behind
`featureGates: {DRAWorkloadResourceClaims: true}` of the plugin, as upstream's gate of this name.

Upstream: `dynamicresources.go` (foreachPodResourceClaim, deallocatePodGroupClaims), `extendeddynamicresources.go`
(createRequestsAndMappings, createResourceRequestAndMappings), `dynamic-resource-allocation/resourceclaim` (BindTo,
IsForPod).
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

import msgspec
from msgspec import Struct

from podberth.cache.cluster import Cluster
from podberth.cache.devices import MOST_USERS, Devices
from podberth.framework.binding import Patch
from podberth.model.devices import (
    CLAIM,
    EXACT_COUNT,
    ClaimKey,
    ClaimSpec,
    DeviceClass,
    DeviceID,
    DeviceRequest,
    Request,
    ResourceClaim,
)
from podberth.model.pod import Pod
from podberth.model.pod_group import NATIVE, PodGroup
from podberth.model.quantity import NANO
from podberth.model.shape import DeviceContainer, PodClaim, may_be_devices


class ClaimError(Exception):
    """A pod can't be scheduled as long as its claims are as they are; the text says why."""


class RequestError(Exception):
    """A request of a kind that is not known: it fails the pod's attempt."""


class Served(NamedTuple):
    """A request of the claim that serves a container's request for a resource."""

    container: str
    resource: str
    request: str


class ExtendedClaim(NamedTuple):
    """The claim that is to be made for a pod's extended resources, and the containers that it serves."""

    spec: ClaimSpec
    mappings: tuple[Served, ...]


class _Asked(NamedTuple):
    name: str
    number: int


def extended_claim(containers: Sequence[DeviceContainer], classes: Mapping[str, DeviceClass]) -> ExtendedClaim:
    """The claim for these resources. Init containers that end may use what later containers will have."""
    found: list[tuple[_Asked, str]] = []
    mappings: list[Served] = []
    for resource in sorted(classes):
        of = classes[resource].name
        lasting: list[_Asked | None] = [None] * len(containers)
        for i, container in enumerate(containers):
            if not container.short_lived:
                lasting[i], some = _ask(i, container, resource, ())
                mappings += some
        most: _Asked | None = None
        others: set[str] = set()
        short: list[Served] = []
        for i, container in enumerate(containers):
            if not container.short_lived:
                continue
            asked, some = _ask(i, container, resource, [one for one in lasting[i:] if one is not None])
            short += some
            if asked is not None:
                others.add(asked.name)
                if most is None or most.number < asked.number:
                    most = asked
        if most is not None:
            others.discard(most.name)
            short = [one._replace(request=most.name) if one.request in others else one for one in short]
            found.append((most, of))
        found += [(one, of) for one in lasting if one is not None]
        mappings += short
    found.sort(key=lambda one: one[0].name)
    return ExtendedClaim(ClaimSpec(tuple([_request(one, of) for one, of in found]), (), ()), tuple(mappings))


def _ask(
    number: int, container: DeviceContainer, resource: str, reusable: Sequence[_Asked]
) -> tuple[_Asked | None, list[Served]]:
    """Return what a container needs besides what it may use of others, and whose requests serve it."""
    nano = container.requests.get(resource, 0)
    if not nano or nano % NANO:
        return None, []
    wanted, there = nano // NANO, 0
    mappings = []
    for one in reusable:
        there += one.number
        mappings.append(Served(container.name, resource, one.name))
        if there >= wanted:
            return None, mappings
    name = f"container-{number}-request-{sorted(container.requests).index(resource)}"
    return _Asked(name, wanted - there), [*mappings, Served(container.name, resource, name)]


def _request(asked: _Asked, of: str) -> Request:
    exactly = DeviceRequest(asked.name, of, (), EXACT_COUNT, asked.number, False, (), (), None, False)
    return Request(asked.name, exactly, ())


def group_of(pod: Pod, cluster: Cluster) -> PodGroup | None:
    """The group whose claims the pod may use; None: it has none."""
    key = cluster.pod_groups.of(pod)
    group = None if key is None or key.api != NATIVE else cluster.pod_groups.get(key)
    return group if group is not None and group.resource_claims else None


def is_of_group(one: PodClaim, group: PodGroup | None) -> bool:
    """Return whether a claim of a pod is one of its group: all that both say of it is the same."""
    return group is not None and one in group.resource_claims


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


def keys_of(pod: Pod) -> Iterator[tuple[ClaimKey, PodClaim]]:
    """The key of each claim that the pod uses, as far as they are known by name, with what its spec says of it.

    A spec may name one claim several times. Raises ClaimError.
    """
    for one in pod.shape.claims:
        if one.claim is not None:
            yield (pod.namespace, one.claim), one
        elif one.template is None:
            where = f'pod "{pod.key}", spec.resourceClaim "{one.name}"'
            raise ClaimError(f"{where}: none of the supported fields are set")
        else:
            made = next((name for made, name in pod.made_claims if made == one.name), "")
            if made == "":
                raise ClaimError(f'pod "{pod.key}": ResourceClaim not created yet')
            if made is not None:  # else the template's controller has found that none is needed
                yield (pod.namespace, made), one


def claims_of(pod: Pod, devices: Devices, group: PodGroup | None = None) -> list[ResourceClaim]:
    """The claims that the pod names, or that were made for it, each once; with what pods of its group were promised.

    `group`: claims may have been made for it as well. Raises ClaimError.
    """
    found: dict[ClaimKey, ResourceClaim] = {}
    for key, said in keys_of(pod):
        claim = devices.claim(key, pod.scheduling_group)
        if claim is None:
            raise ClaimError(f'could not find ResourceClaim "{key[0]}/{key[1]}"')
        if claim.terminating:
            raise ClaimError(f'resourceclaim "{claim.name}" is being deleted')
        made = said.claim is None
        if made and claim.controller != pod.uid and (group is None or claim.controller != group.uid):
            neither = "Pod is not owner" if group is None else f"neither Pod nor PodGroup {group.name} is the owner"
            raise ClaimError(f"ResourceClaim {claim} was not created for Pod {pod.key} ({neither})")
        found[key] = claim
    return list(found.values())


def problem_of(
    pod: Pod, claims: Sequence[ResourceClaim], devices: Devices, group: PodGroup | None = None
) -> str | None:
    """Return what keeps a pod from using its claims, or any from having them allocated, on whatever node (PreFilter).

    Raises RequestError.
    """
    by_key = {claim.key: claim for claim in claims}
    for key, said in keys_of(pod):
        claim = by_key[key]
        if claim.allocation is not None:
            counted = pod.scheduling_group is not None and not is_of_group(said, group)
            if counted and _is_full(claim, pod, devices):
                return "resourceclaim in use"
            continue
        if devices.is_pending(claim.uid):
            return f"resource claim {claim} is in the process of being allocated"
        for request in claim.spec.requests:
            if request.exactly is not None:
                asked = [(request.name, request.exactly.device_class)]
            else:
                asked = [(f"{request.name}/{one.name}", one.device_class) for one in request.first_available]
            if not asked:
                return f"resource claim {claim}, request {request.name}: unknown request type"
            for name, of in asked:
                if not of:
                    raise RequestError(f"request {name}: unsupported request type")
                if of not in devices.classes:
                    return f"request {name}: device class {of} does not exist"
    return None


def _is_full(claim: ResourceClaim, pod: Pod, devices: Devices) -> bool:
    """Return whether the claim is reserved for so many pods, or is about to be, that the API would
    take no other one.
    """
    coming = devices.users.uids(claim.uid)
    return len(claim.reserved_for) + len(coming) >= MOST_USERS and pod.uid not in coming.union(claim.reserved_for)


def device_resources(pod: Pod, devices: Devices) -> dict[str, DeviceClass]:
    """The extended resources that the pod asks for and a class serves."""
    requests = pod.shape.requests
    if not pod.shape.containers or devices.served.isdisjoint(requests):
        return {}
    found = {}
    for name, amount in requests.items():
        if amount and name in devices.served and may_be_devices(name):
            of = devices.class_of(name)
            if of is not None:
                found[name] = of
    return found


class Readiness(Struct, frozen=True):
    """The state of an allocated claim's devices: are they ready for a pod to be bound? (isClaimReadyForBinding)"""

    ready: bool
    failed: str = ""
    """Why they will not be."""


READY = Readiness(True)
NOT_YET = Readiness(False)


def late_at(claim: ResourceClaim, seconds: float) -> float | None:
    """Return when the devices of an allocated claim should have been ready, in seconds since the epoch
    (isClaimTimeout).

    None: nobody says when they were allocated, or none of them has to get ready.
    """
    allocation = claim.allocation
    if allocation is None or allocation.timestamp is None or not allocation.binds_later:
        return None
    try:
        return datetime.fromisoformat(allocation.timestamp).timestamp() + seconds
    except ValueError:
        return None


def readiness(claim: ResourceClaim) -> Readiness:
    """Tell by the conditions of the devices, those of binding and those of failure."""
    if claim.allocation is None:
        return NOT_YET
    for device in claim.allocation.devices:
        if not device.binding_conditions:
            continue
        conditions = claim.conditions.get(DeviceID(*device.id))
        if conditions is None:
            return NOT_YET
        by_type = {condition.type: condition for condition in reversed(conditions)}
        for name in device.binding_failure_conditions:
            failed = by_type.get(name)
            if failed is not None and failed.status == "True":
                why = f'claim={claim.name}, reason={failed.reason}, message="{failed.message}"'
                return Readiness(False, f"device binding failed: {why}")
        if any(name not in by_type or by_type[name].status != "True" for name in device.binding_conditions):
            return NOT_YET
    return READY
