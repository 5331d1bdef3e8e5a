"""The claim that is made for extended resources that a node has as devices.

Upstream: `extendeddynamicresources.go` (createRequestsAndMappings, createResourceRequestAndMappings).
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from podberth.model.devices import EXACT_COUNT, ClaimSpec, DeviceClass, DeviceRequest, Request
from podberth.model.pod_devices import DeviceContainer
from podberth.model.quantity import NANO


class Served(NamedTuple):
    """Which request of the claim serves which container's request for which resource."""

    container: str
    resource: str
    request: str


class ExtendedClaim(NamedTuple):
    """What the claim asks for, and for whom."""

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
