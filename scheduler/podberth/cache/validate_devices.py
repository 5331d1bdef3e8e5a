"""Recompute who holds which devices, and the indexes of claims and slices, from the objects, the slow way.

Part of `podberth.cache.validate`.
"""

from collections.abc import Iterator
from typing import Any

from podberth.cache.allocated_devices import held
from podberth.cache.cluster import Cluster
from podberth.cache.devices import Devices
from podberth.model.devices import IMPLICIT_PREFIX, Allocation, DeviceID


def validate_devices(cluster: Cluster) -> Iterator[str]:
    """One line for each thing that differs from what the objects say."""
    devices = cluster.devices
    yield from _indexes(devices)
    yield from _holders(devices)
    served = {f"{IMPLICIT_PREFIX}{name}" for name in devices.classes}
    served |= {one.extended_resource for one in devices.classes.values() if one.extended_resource is not None}
    yield from _differ("resources that classes serve", devices.served, served)
    yield from _differ("those that nodes know of", cluster.nodes.served, served)


def _differ(what: str, has: Any, should: Any) -> Iterator[str]:
    if has != should:
        yield f"devices: {what} is {has}, should be {should}"


def _indexes(devices: Devices) -> Iterator[str]:
    pools: dict[Any, set[str]] = {}
    on_node: dict[str, set[str]] = {}
    shared = set()
    for one in devices.slices.values():
        pools.setdefault(one.pool_id, set()).add(one.name)
        if one.place.node:
            on_node.setdefault(one.place.node, set()).add(one.name)
        else:
            shared.add(one.name)
    yield from _differ("slices by pool", {pool: set(found) for pool, found in devices._pools.items()}, pools)
    yield from _differ("slices by node", {node: set(found) for node, found in devices._on_node.items()}, on_node)
    yield from _differ("slices of no node", set(devices._shared), shared)
    made: dict[Any, set[Any]] = {}
    for claim in devices.claims.values():
        if claim.owner is not None:
            made.setdefault(claim.owner, set()).add(claim.key)
    yield from _differ("claims made for pods", {owner: set(keys) for owner, keys in devices._made.items()}, made)
    serving: dict[str, set[str]] = {}
    for kind in devices.classes.values():
        if kind.extended_resource is not None:
            serving.setdefault(kind.extended_resource, set()).add(kind.name)
    by_resource = {resource: set(found) for resource, found in devices._by_resource.items()}
    yield from _differ("classes by resource", by_resource, serving)
    coming = {flight.key: uid for uid, flight in devices.in_flight.items() if flight.key and uid.startswith("\0")}
    yield from _differ("claims that are being made", devices._to_be_made, coming)


def _holders(devices: Devices) -> Iterator[str]:
    should: dict[str, Allocation] = {
        claim.uid: claim.allocation for claim in devices.claims.values() if claim.allocation is not None
    }
    should |= {uid: flight.allocation for uid, flight in devices.in_flight.items()}
    has = devices.allocated.claims
    yield from _differ("who holds devices", set(has), set(should))
    counted, real = ({uid: one.devices for uid, one in those.items()} for those in (has, should))
    yield from _differ("what they hold", counted, real)
    exclusive: set[tuple[DeviceID, str]] = set()
    used: dict[DeviceID, dict[str, int]] = {}
    shares: dict[DeviceID, dict[str, int]] = {}
    for uid, allocation in should.items():
        for device in held(allocation.devices):
            if device.share is None:
                exclusive.add((device.id, uid))
            else:
                number = shares.setdefault(device.id, {})
                number[uid] = number.get(uid, 0) + 1
                amounts = used.setdefault(device.id, {})
                for name, amount in (device.consumed or {}).items():
                    amounts[name] = amounts.get(name, 0) + amount.nano
    taken = {(device, uid) for device, uids in devices.allocated._exclusive.items() for uid in uids}
    yield from _differ("devices that are taken", taken, exclusive)
    yield from _differ("shares of devices", devices.allocated._shares, shares)
    sums = {device: {name: amount for name, amount in amounts.items() if amount} for device, amounts in used.items()}
    sums = {device: amounts for device, amounts in sums.items() if amounts}
    yield from _differ("what is used of shared devices", devices.allocated._used, sums)
