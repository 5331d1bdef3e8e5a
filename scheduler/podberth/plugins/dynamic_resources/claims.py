"""The claims of a pod, and what keeps it from using them (upstream: `dynamicresources.go`, foreachPodResourceClaim)."""

from collections.abc import Iterator, Sequence
from datetime import datetime

from msgspec import Struct

from podberth.cache.devices import MOST, Devices
from podberth.model.devices import ClaimKey, DeviceClass, DeviceID, ResourceClaim
from podberth.model.pod import Pod
from podberth.model.pod_devices import PodClaim, may_be_devices
from podberth.model.pod_group import PodGroup
from podberth.plugins.dynamic_resources.group_claims import is_of_group


class ClaimError(Exception):
    """Why a pod can't be scheduled as long as its claims are as they are."""


class RequestError(Exception):
    """A request of a kind that is not known: it fails the pod's attempt."""


def keys_of(pod: Pod) -> Iterator[tuple[ClaimKey, bool]]:
    """(key, made of a template) of each claim that the pod uses, as far as they are known by name.

    Raises ClaimError.
    """
    for one in pod.shape.claims:
        if one.claim is not None:
            yield (pod.namespace, one.claim), False
        elif one.template is None:
            where = f'pod "{pod.key}", spec.resourceClaim "{one.name}"'
            raise ClaimError(f"{where}: none of the supported fields are set")
        else:
            made = next((name for made, name in pod.made_claims if made == one.name), "")
            if made == "":
                raise ClaimError(f'pod "{pod.key}": ResourceClaim not created yet')
            if made is not None:  # else the template's controller has found that none is needed
                yield (pod.namespace, made), True


def named_claims(pod: Pod) -> list[PodClaim]:
    """Return what the spec says of each claim that `keys_of` has."""
    made = dict(pod.made_claims)
    return [one for one in pod.shape.claims if one.claim is not None or made.get(one.name) is not None]


def claims_of(pod: Pod, devices: Devices, group: PodGroup | None = None) -> list[ResourceClaim]:
    """The claims that the pod names, or that were made for it; with what pods of its group were promised.

    `group`: claims may have been made for it as well. Raises ClaimError.
    """
    found = []
    for key, made in keys_of(pod):
        claim = devices.claim(key, pod.scheduling_group)
        if claim is None:
            raise ClaimError(f'could not find ResourceClaim "{key[0]}/{key[1]}"')
        if claim.terminating:
            raise ClaimError(f'resourceclaim "{claim.name}" is being deleted')
        if made and claim.controller != pod.uid and (group is None or claim.controller != group.uid):
            neither = "Pod is not owner" if group is None else f"neither Pod nor PodGroup {group.name} is the owner"
            raise ClaimError(f"ResourceClaim {claim} was not created for Pod {pod.key} ({neither})")
        found.append(claim)
    return found


def problem_of(
    pod: Pod, claims: Sequence[ResourceClaim], devices: Devices, group: PodGroup | None = None
) -> str | None:
    """Return what keeps a pod from using its claims, or any from having them allocated, on whatever node (PreFilter).

    Raises RequestError.
    """
    for claim, said in zip(claims, named_claims(pod), strict=True):
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
    return len(claim.reserved_for) + len(coming) >= MOST and pod.uid not in coming.union(claim.reserved_for)


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
    """Whether the devices of an allocated claim are ready for a pod to be bound (isClaimReadyForBinding)."""

    ready: bool
    failed: str = ""
    """Why they will not be."""


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


READY = Readiness(True)
NOT_YET = Readiness(False)


def readiness(claim: ResourceClaim) -> Readiness:
    """By the binding conditions of the devices, and those that say that binding failed."""
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
