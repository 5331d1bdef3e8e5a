"""Makes and changes ResourceClaims where no API server is.

Templates become claims as kube-controller-manager's claim controller makes them; the scheduler's writes change claims,
and so does the end of the pods that use them.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace

from podberth.cache.cluster import Cluster
from podberth.cache.devices import Devices
from podberth.framework.binding import Create, Delete, Patch, Write, next_version
from podberth.model.devices import AllocatedDevice, ResourceClaim
from podberth.model.kinds import Decoder
from podberth.model.pod import Pod

Object = Mapping[str, Any]
TEMPLATE_KIND = "ResourceClaimTemplate"
_POD_CLAIM_NAME = "resource.kubernetes.io/pod-claim-name"
_LONGEST = 63


class Templated(NamedTuple):
    """One of a pod's `resourceClaims` that a claim is to be made for: what the pod calls it, and its template."""

    name: str
    template: str


def templated(spec: Object) -> Iterator[Templated]:
    """Yield the claims that a pod's spec has from templates, as far as it is well-typed."""
    claims = spec.get("resourceClaims")
    for each in claims if isinstance(claims, list) else ():
        template = each.get("resourceClaimTemplateName") if isinstance(each, dict) else None
        if isinstance(template, str) and template:
            yield Templated(str(each.get("name", "")), template)


def claim_name(pod: str, name: str) -> str:
    """Return the name of a claim for a pod. Long names are cut, each by its share, as the controller does."""
    whole = f"{pod}-{name}"
    if len(whole) <= _LONGEST:
        return whole
    return f"{pod[: len(pod) * (_LONGEST - 1) // len(whole)]}-{name[: len(name) * (_LONGEST - 1) // len(whole)]}"


def claim(
    template: Object, asked: Templated, *, owner: str, namespace: str, uid: str, of_group: bool = False
) -> dict[str, Any]:
    """Return the ResourceClaim for a pod or pod group. `template`: the whole ResourceClaimTemplate."""
    spec = template.get("spec") or {}
    given = spec.get("metadata") or {}
    api_version, kind = ("scheduling.k8s.io/v1beta1", "PodGroup") if of_group else ("v1", "Pod")
    metadata: dict[str, Any] = {
        "name": claim_name(owner, asked.name),
        "namespace": namespace,
        "annotations": {**(given.get("annotations") or {}), _POD_CLAIM_NAME: asked.name},
        "ownerReferences": [{"apiVersion": api_version, "kind": kind, "name": owner, "uid": uid, "controller": True}],
    }
    if given.get("labels"):
        metadata["labels"] = dict(given["labels"])
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": metadata,
        "spec": spec.get("spec") or {},
    }


def status(pod: str, spec: Object) -> list[dict[str, str]]:
    """Return `status.resourceClaimStatuses` of the pod once all its claims are made."""
    return [named(pod, each) for each in templated(spec)]


def named(owner: str, asked: Templated) -> dict[str, str]:
    """Return the entry of `status.resourceClaimStatuses` for a claim that was made for this pod or pod group."""
    return {"name": asked.name, "resourceClaimName": claim_name(owner, asked.name)}


def described(template: Object) -> str:
    """Return the devices that a template claims, in a few words: `2 of class gpu`."""
    spec = (template.get("spec") or {}).get("spec") or {}
    requests = (spec.get("devices") or {}).get("requests") or ()
    return " and ".join(_described(each) for each in requests) or "nothing"


def _described(request: Object) -> str:
    if request.get("firstAvailable"):
        return " or ".join(_devices(each) for each in request["firstAvailable"])
    return _devices(request.get("exactly") or {})


def _devices(asked: Object) -> str:
    number = "all" if asked.get("allocationMode") == "All" else asked.get("count") or 1
    return f"{number} of class {asked.get('deviceClassName', '?')}"


KIND = "ResourceClaim"


class ClaimWrites:
    """Applies writes of claims to a cluster."""

    def __init__(self) -> None:
        self._decode = Decoder().of_kind(KIND)

    def after(self, write: Write, devices: Devices) -> ResourceClaim | None:
        """Return the claim as a watch would show it after a write; None: it is about no claim that is there."""
        kind, namespace, name = write.key
        if kind != KIND or isinstance(write, Delete):
            return None
        if isinstance(write, Create):
            metadata = {**write.document["metadata"], "namespace": namespace, "name": name}
            metadata |= {"uid": f"new/{namespace}/{name}", "resourceVersion": next_version(write)}
            return self._decoded({**write.document, "metadata": metadata})
        found = devices.claims.get((namespace, name))
        return None if found is None else self._patched(found, write)

    def _patched(self, found: ResourceClaim, write: Patch) -> ResourceClaim:
        found = replace(found, resource_version=next_version(write))
        finalizers = write.change.get("metadata", {}).get("finalizers")
        if finalizers is not None:
            found = replace(found, finalizers=tuple(finalizers))
        status = write.change.get("status")
        if status is None:
            return found
        said = self._decoded({"metadata": {"name": found.name}, "status": status})
        if "allocation" in status:
            found = replace(found, allocation=said.allocation)
        if "reservedFor" in status:
            found = replace(found, reserved_for=said.reserved_for, raw_reserved_for=said.raw_reserved_for)
        return replace(found, raw_status=msgspec.json.encode(status))

    def _decoded(self, document: dict[str, Any]) -> ResourceClaim:
        found = self._decode(msgspec.json.encode(document))
        assert isinstance(found, ResourceClaim)
        return found


def left_by(pod: Pod, devices: Devices, *, comes_again: bool = False) -> Iterator[tuple[ResourceClaim, bool]]:
    """Yield (claim, whether it is there still) for each claim that changes when a pod goes.

    `comes_again`: another pod of the same name and UID takes its place, and finds its claims without devices.
    """
    for claim in claims_of(pod, devices):
        if claim.controller == pod.uid:
            yield (freed(claim), True) if comes_again else (claim, False)
        elif pod.uid in claim.reserved_for:
            yield _without(claim, pod.uid), True
    extended = devices.made_for(pod.name, pod.uid)
    if extended is not None:
        yield extended, False


@contextmanager
def without(pods: Sequence[Pod], cluster: Cluster) -> Iterator[None]:
    """Remove placed pods, and what their claims hold, from the cluster while the block runs."""
    freed: list[ResourceClaim] = []
    placements = []
    for pod in pods:
        for claim, there in left_by(pod, cluster.devices, comes_again=True):
            held = cluster.devices.claims[claim.key]
            freed.append(held)
            if there:
                cluster.put_device(replace(claim, resource_version=held.resource_version))  # as it is taken back
            else:
                cluster.drop_device(KIND, *claim.key)
        placements.append(cluster.drop_pod(pod.uid))
    try:
        yield
    finally:
        for pod, placement in zip(pods, placements, strict=True):
            if placement is not None and placement.assumed:
                cluster.assume(pod, placement.row)
            else:
                cluster.put_pod(pod)
        for claim in reversed(freed):
            cluster.put_device(claim)


def claims_of(pod: Pod, devices: Devices) -> list[ResourceClaim]:
    """Return the claims of a pod that are there; those for extended resources are not among them."""
    made = dict(pod.made_claims)
    names = (one.claim if one.template is None else made.get(one.name) for one in pod.shape.claims)
    return [claim for name in names if name and (claim := devices.claim((pod.namespace, name))) is not None]


def given(pod: Pod, devices: Devices) -> dict[str, tuple[AllocatedDevice, ...]]:
    """Return claim → its devices, of all claims of a pod that have some; extended resources have a claim, too."""
    claims = claims_of(pod, devices)
    if pod.shape.containers and (extended := devices.made_for(pod.name, pod.uid)) is not None:
        claims.append(extended)
    return {claim.name: claim.allocation.devices for claim in claims if claim.allocation is not None}


def _without(claim: ResourceClaim, uid: str) -> ResourceClaim:
    rest = [(user, raw) for user, raw in zip(claim.reserved_for, claim.raw_reserved_for, strict=True) if user != uid]
    if not rest:
        return freed(claim)
    users, raws = zip(*rest, strict=True)
    return replace(claim, resource_version=_later(claim), reserved_for=users, raw_reserved_for=raws)


def freed(claim: ResourceClaim) -> ResourceClaim:
    """Return the claim without its devices."""
    return replace(
        claim,
        resource_version=_later(claim),
        allocation=None,
        reserved_for=(),
        raw_reserved_for=(),
        conditions={},
        raw_status=b"",
    )


def _later(claim: ResourceClaim) -> str:
    version = claim.resource_version
    return str(int(version) + 1) if version.isdigit() else version
