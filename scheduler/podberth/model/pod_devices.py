"""What a pod's spec says of devices, and of features that its node has to declare.

Upstream: component-helpers `nodedeclaredfeatures/features`, `dynamic-resource-allocation/resourceclaim`.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from podberth.model import wire
from podberth.model.devices import IMPLICIT_PREFIX
from podberth.model.limits import Count
from podberth.model.quantity import NANO
from podberth.model.resources import PodResources, is_extended

_NO_FEATURES: frozenset[str] = frozenset()
_RESTART_ALL = "RestartAllContainersOnContainerExits"
_USER_NAMESPACES = "UserNamespacesHostNetworkSupport"
_MOUNT_OPTIONS = "VolumeBindMountOptions"
_claims_decoder = msgspec.json.Decoder(list[wire.PodClaim])
_rules_decoder = msgspec.json.Decoder(list[wire.RestartRule])
_mounts_decoder = msgspec.json.Decoder(list[wire.VolumeMount])


class PodClaim(NamedTuple):
    """One of spec.resourceClaims: a claim by name, or one that is made for the pod from a template."""

    name: str
    claim: str | None
    template: str | None


class DeviceContainer(NamedTuple):
    """A container's requests, by name of the resource in nano-units."""

    name: str
    short_lived: bool
    """An init container that ends before others start."""
    requests: Mapping[str, int]


def pod_claims(spec: wire.PodSpec, count: Count) -> tuple[PodClaim, ...]:
    """Return the claims for devices that are within the limits."""
    text = wire.present(spec.resource_claims)
    if not text:
        return ()
    claims, most = claims_of(_claims_decoder.decode(text)), count.limits.resource_claims
    return claims if count.allows(len(claims), "resource_claims", "resource claims") else claims[:most]


def claims_of(written: Iterable[wire.PodClaim]) -> tuple[PodClaim, ...]:
    """The claims for devices as the spec of a pod or of a pod group names them."""
    return tuple([PodClaim(one.name, one.resource_claim_name, one.resource_claim_template_name) for one in written])


def may_be_devices(resource: str) -> bool:
    """Return whether a device class may serve requests for a resource (IsDRAExtendedResourceName)."""
    return is_extended(resource) or resource.startswith(IMPLICIT_PREFIX)


def device_containers(resources: PodResources, spec: wire.PodSpec) -> tuple[DeviceContainer, ...]:
    """The containers, init containers first, if any asks for a resource that devices may serve."""
    asked = (*resources.init_containers, *resources.containers)
    if not any(may_be_devices(name) for container in asked for name in container.spec):
        return ()
    initial = len(resources.init_containers)
    named = (*(spec.init_containers or ()), *spec.containers)
    return tuple(
        [
            DeviceContainer(one.name, i < initial and not container.sidecar, container.spec)
            for i, (one, container) in enumerate(zip(named, asked, strict=True))
        ]
    )


def fewer(containers: Sequence[DeviceContainer], amounts: Mapping[str, int]) -> tuple[DeviceContainer, ...]:
    """The containers when they ask for so much in all: the last ones ask for less. Amounts in whole units."""
    left = {name: amount * NANO for name, amount in amounts.items()}
    found = []
    for one in containers:
        asked = dict(one.requests)
        for name in asked.keys() & left.keys():
            asked[name] = min(asked[name], left[name])
            if not one.short_lived:
                left[name] -= asked[name]
        found.append(one._replace(requests=asked))
    return tuple(found)


def required_features(spec: wire.PodSpec) -> frozenset[str]:
    """Return what a node has to declare to run the pod (InferForScheduling)."""
    found: list[str] = []
    containers = (*spec.containers, *(spec.init_containers or ()))
    if any(map(_restarts_all, containers)):
        found.append(_RESTART_ALL)
    if spec.host_network and spec.host_users is False:
        found.append(_USER_NAMESPACES)
    if any(map(_has_mount_options, containers)):
        found.append(_MOUNT_OPTIONS)
    return frozenset(found) if found else _NO_FEATURES


def _restarts_all(container: wire.Container) -> bool:
    rules = wire.present(container.restart_policy_rules)
    return bool(rules) and any(rule.action == "RestartAllContainers" for rule in _rules_decoder.decode(rules))


def _has_mount_options(container: wire.Container) -> bool:
    mounts = bytes(container.volume_mounts)
    if not wire.mentions(mounts, b"bindMountOptions"):
        return False
    return any(mount.bind_mount_options for mount in _mounts_decoder.decode(mounts))
