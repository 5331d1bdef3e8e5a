"""What DynamicResources says of a node that it rejects: device by device, why it can't be given."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from scheduler.framework.explaining import Detail, Inquiry
from scheduler.model.devices import DeviceID, ResourceClaim
from scheduler.model.node import Node
from scheduler.plugins.dynamic_resources.capacities import CapacityError, taken
from scheduler.plugins.dynamic_resources.pools import Pool, PoolDevice
from scheduler.plugins.dynamic_resources.requested import AllocationError, Alternative, RequestedClaim
from scheduler.plugins.dynamic_resources.requests import PodDevices, named
from scheduler.plugins.dynamic_resources.search import Selects, available_counters, tolerates_all, uses
from scheduler.state.allocated_devices import AllocatedDevices
from scheduler.state.devices import Devices

_SHOWN = 8
"""Devices of a request that are told one by one."""
_FREE = "free"


def unallocatable(
    inquiry: Inquiry,
    node: Node,
    wants: PodDevices,
    pools: Sequence[Pool],
    wanted: Sequence[RequestedClaim],
    selects: Selects,
) -> Detail:
    """The first request for which there are too few devices, and what is wrong with each of them."""
    devices = inquiry.cluster.devices
    names = [str(claim) for claim in wants.open] + ["its extended resources"]
    broken = [
        f"pool {pool}: {pool.invalid or 'its driver is still publishing it'}" for pool in pools if not pool.usable
    ]
    nearest: tuple[int, str, dict[str, Any]] | None = None
    for name, claim in zip(names, wanted, strict=False):
        for alternatives in claim.requests:
            told = [_request(name, one, pools, devices, selects) for one in alternatives]
            if all(short > 0 for short, _, _ in told):
                found = min(told, key=lambda one: one[0])
                if nearest is None:
                    nearest = found
    if nearest is None:
        why = "constraints, counters, or several requests for one device"
        nearest = (0, f"each request alone could be served, and all of them together can't: {why}", {})
    _, text, data = nearest
    if "devices" in data:
        data["devices"] = {device: named(reason, wants, inquiry.pod) for device, reason in data["devices"].items()}
    if broken:
        data["pools"] = broken
    return named("; ".join((text, *broken)), wants, inquiry.pod), data


def _request(
    claim: str, alternative: Alternative, pools: Sequence[Pool], devices: Devices, selects: Selects
) -> tuple[int, str, dict[str, Any]]:
    """How many devices are missing, and the same in words and as data."""
    why: dict[str, str] = {}
    for pool in pools:
        if not pool.usable:
            continue
        left = available_counters(pool, devices.allocated)
        for entry in pool.devices:
            found = _against(alternative, entry, devices, left, selects)
            if found is not None:
                why[str(entry.id)] = found
    free = sum(reason == _FREE for reason in why.values())
    needed = max(len(why), 1) if alternative.wants_all else alternative.asked.count
    told = [f"{device}: {reason}" for device, reason in why.items() if reason != _FREE]
    of = f"{needed} of class {alternative.of.name}"
    text = f"claim {claim}, request {alternative.name} needs {of}, {free or 'none'} free"
    if not why:
        text = f"claim {claim}, request {alternative.name} needs {of}, and the node reaches none that are selected"
    elif told:
        more = f", and {len(told) - _SHOWN} more" if len(told) > _SHOWN else ""
        text += f" ({'; '.join(told[:_SHOWN])}{more})"
    data = {"claim": claim, "request": alternative.name, "needed": needed, "free": free, "devices": why}
    return needed - free, text, data


def _against(
    alternative: Alternative,
    entry: PoolDevice,
    devices: Devices,
    left: Mapping[tuple[str, str], int],
    selects: Selects,
) -> str | None:
    """Why a device can't be given; None for one that is of another class."""
    traits, asked = entry.device.traits, alternative.asked
    for number, (expression, whose) in enumerate(alternative.selectors):
        try:
            selected = selects(expression, whose, traits, entry.id)
        except AllocationError as error:
            return str(error)
        if not selected:
            return None if number < len(alternative.of.selectors) else f"not selected by {expression}"
    if not entry.reached:
        return "reached from other nodes only"
    holders = devices.allocated
    if not asked.admin_access and holders.is_taken(entry.id):
        return f"allocated to {', '.join(_users(entry.id, holders, devices)) or 'a claim'}"
    if entry.taints and not tolerates_all(alternative, entry.taints):
        return f"tainted {', '.join(f'{taint.key}:{taint.effect}' for taint in entry.taints)}"
    return _short(alternative, entry, holders, left) or _FREE


def _short(
    alternative: Alternative, entry: PoolDevice, holders: AllocatedDevices, left: Mapping[tuple[str, str], int]
) -> str | None:
    """What a device has too little of."""
    capacity = entry.device.traits.capacity
    try:
        takes = taken(alternative.asked.capacity, capacity)
    except CapacityError as error:
        return str(error)
    if takes is None:
        return "does not offer the capacity that is asked for"
    used = holders.used(entry.id)
    for name, amount in takes.items():
        free = capacity[name].value.nano - used.get(name, 0)
        if amount.nano > free:
            return f"needs {amount} {name}, {type(amount)(free, amount.notation)} free"
    if holders.is_shared(entry.id):
        return None
    for (counter_set, counter), nano in uses(entry.device):
        missing = nano - left.get((counter_set, counter), 0)
        if missing > 0:
            return f"counter {counter_set}/{counter} is short by {missing / 1e9:g}"
    return None


def _users(device: DeviceID, holders: AllocatedDevices, devices: Devices) -> Iterator[str]:
    """The claims that have a device."""
    by_uid: dict[str, ResourceClaim] = {claim.uid: claim for claim in devices.claims.values()}
    for uid in holders.claims_holding(device):
        claim = by_uid.get(uid)
        if claim is not None:
            pods = f", reserved for {len(claim.reserved_for)} pods" if claim.reserved_for else ""
            yield f"claim {claim}{pods}"
        else:
            yield "a claim that is being made"
