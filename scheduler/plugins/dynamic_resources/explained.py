"""What DynamicResources says of a node that it rejects: device by device, why it can't be given."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from scheduler.framework.explaining import Detail, Inquiry
from scheduler.model.devices import DeviceID, ResourceClaim
from scheduler.model.node import Node
from scheduler.plugins.dynamic_resources.capacities import CapacityError
from scheduler.plugins.dynamic_resources.counters import available_counters, tolerates_all, uses
from scheduler.plugins.dynamic_resources.pools import Pool, PoolDevice
from scheduler.plugins.dynamic_resources.requested import AllocationError, Alternative, RequestedClaim
from scheduler.plugins.dynamic_resources.requests import PodDevices, named
from scheduler.plugins.dynamic_resources.search import Selects
from scheduler.plugins.dynamic_resources.values import attribute, values
from scheduler.state.allocated_devices import AllocatedDevices
from scheduler.state.devices import Devices

_SHOWN = 8
"""Devices of which the same is said that are named."""
_REASONS = 4
"""Reasons against devices of a request that are told."""
_PODS = 3
"""Pods of a claim that are named."""
_FREE = "free"


class Holders:
    """Who has which device."""

    def __init__(self, devices: Devices) -> None:
        self._allocated = devices.allocated
        self._claims = {claim.uid: claim for claim in devices.claims.values()}

    @staticmethod
    def of(inquiry: Inquiry) -> "Holders":
        """Found once for all nodes that are asked about."""
        return inquiry.once(("DynamicResources", "holders"), lambda: Holders(inquiry.cluster.devices))

    def claims(self, device: DeviceID) -> list[ResourceClaim | None]:
        """The claims that have a device, or a share of it; None for one that is not there yet."""
        return [self._claims.get(uid) for uid in self._allocated.claims_holding(device)]

    def said(self, device: DeviceID) -> str:
        """The claims that hold a device, in words."""
        return ", ".join(map(_said, self.claims(device))) or "a claim"


def _said(claim: ResourceClaim | None) -> str:
    if claim is None:
        return "a claim that is being made"
    pods = users(claim)
    of = f" of {' and '.join(pods[:_PODS])}" if pods else ", which no pod uses"
    return f"claim {claim}{of}" + (f" and {len(pods) - _PODS} more" if len(pods) > _PODS else "")


def users(claim: ResourceClaim) -> list[str]:
    """`pod namespace/name` of each pod that a claim is reserved for; of what is no pod, its resource and name."""
    found = []
    for raw in claim.raw_reserved_for:
        said = msgspec.json.decode(raw)
        resource = said.get("resource", "pods")
        found.append(f"{'pod' if resource == 'pods' else resource} {claim.namespace}/{said.get('name', '?')}")
    return found


def unallocatable(
    inquiry: Inquiry,
    node: Node,
    wants: PodDevices,
    pools: Sequence[Pool],
    wanted: Sequence[RequestedClaim],
    selects: Selects,
) -> Detail:
    """The first request for which there are too few devices, and what is wrong with each of them."""
    asking = _Asking(inquiry, pools, selects)
    broken = [
        f"pool {pool}: {pool.invalid or 'its driver is still publishing it'}" for pool in pools if not pool.usable
    ]
    found = _nearest(asking, wants, wanted) or _together(asking, wants, wanted)
    _, text, data = found
    if "devices" in data:
        data["devices"] = {device: named(reason, wants, inquiry.pod) for device, reason in data["devices"].items()}
    if broken:
        data["pools"] = broken
    return named("; ".join((text, *broken)), wants, inquiry.pod), data


class _Asking:
    """What is asked of one node."""

    def __init__(self, inquiry: Inquiry, pools: Sequence[Pool], selects: Selects) -> None:
        self.devices = inquiry.cluster.devices
        self.holders = Holders.of(inquiry)
        self.pools = [pool for pool in pools if pool.usable]
        self.selects = selects

    def against(self, one: Alternative) -> dict[PoolDevice, str]:
        """Device → why it can't be given, of those that are of its class."""
        found: dict[PoolDevice, str] = {}
        for pool in self.pools:
            left = available_counters(pool, self.devices.allocated)
            for entry in pool.devices:
                why = _against(one, entry, self.devices, left, self.selects, self.holders)
                if why is not None:
                    found[entry] = why
        return found


_Told = tuple[int, str, dict[str, Any]]
"""How many devices are missing, and the same in words and as data."""


def _nearest(asking: _Asking, wants: PodDevices, wanted: Sequence[RequestedClaim]) -> _Told | None:
    """About the first request that can't be served; of its alternatives, the one that lacks least."""
    for number, claim in enumerate(wanted):
        for alternatives in claim.requests:
            told = [_request(asking, wants, number, one) for one in alternatives]
            if all(short > 0 for short, _, _ in told):
                return min(told, key=lambda one: one[0])
    return None


def _together(asking: _Asking, wants: PodDevices, wanted: Sequence[RequestedClaim]) -> _Told:
    """Each request alone could be served."""
    why = []
    for number, claim in enumerate(wanted):
        free: dict[DeviceID, PoolDevice] = {}
        for one in (each for alternatives in claim.requests for each in alternatives):
            free |= {entry.id: entry for entry, reason in asking.against(one).items() if reason == _FREE}
        for constraint in claim.spec.constraints:
            name = constraint.match or constraint.distinct or ""
            has = {str(each): attribute(name, entry.device.traits) or "none" for each, entry in free.items()}
            of = f"{_claim(wants, number)} has the constraint {constraint}"
            why.append(f"{of} ({_grouped({device: f'has {value}' for device, value in has.items()})})")
    said = "; ".join(why) or "requests want the same devices, or their counters"
    return 0, f"each request alone could be served, but not all of them together: {said}", {}


def _claim(wants: PodDevices, number: int) -> str:
    """What asks for devices: a claim, or the extended resources for which one would be made."""
    return f"claim {wants.open[number]}" if number < len(wants.open) else ", ".join(sorted(wants.resources))


def _request(asking: _Asking, wants: PodDevices, number: int, alternative: Alternative) -> _Told:
    against = asking.against(alternative)
    why = {str(entry.id): reason for entry, reason in against.items()}
    free = sum(reason == _FREE for reason in why.values())
    needed = max(len(why), 1) if alternative.wants_all else alternative.asked.count
    told = {device: reason for device, reason in why.items() if reason != _FREE}
    extended = number >= len(wants.open)
    who = _claim(wants, number) + ("" if extended else f", request {alternative.name}")
    text = f"{who} needs {needed} of class {alternative.of.name}, {free or 'none'} free"
    if not why:
        text = f"{who} needs {needed} of class {alternative.of.name}, of which the node reaches none"
    elif told:
        text += f" ({_grouped(told)})"
    claim = "its extended resources" if extended else str(wants.open[number])
    data = {"claim": claim, "request": alternative.name, "needed": needed, "free": free, "devices": why}
    return needed - free, text, data


def _grouped(told: Mapping[str, str]) -> str:
    """Devices of which the same is said, together: `gpu.test/n/d0, d1: tainted`."""
    groups: dict[str, list[str]] = {}
    for device, reason in told.items():
        groups.setdefault(reason, []).append(device)
    said = [f"{_devices(devices)}: {reason}" for reason, devices in list(groups.items())[:_REASONS]]
    rest = sum(len(devices) for devices in list(groups.values())[_REASONS:])
    return "; ".join(said) + (f"; and {rest} more devices" if rest else "")


def _devices(devices: Sequence[str]) -> str:
    pool = devices[0].rpartition("/")[0]
    shown = [devices[0]]
    for each in devices[1:_SHOWN]:
        of, _, name = each.rpartition("/")
        shown.append(name if of == pool else each)
        pool = of
    more = len(devices) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more > 0 else "")


def _against(
    alternative: Alternative,
    entry: PoolDevice,
    devices: Devices,
    left: Mapping[tuple[str, str], int],
    selects: Selects,
    holders: Holders,
) -> str | None:
    """Why a device can't be given; None for one that is of another class."""
    traits, asked, allocated = entry.device.traits, alternative.asked, devices.allocated
    is_taken = not asked.admin_access and allocated.is_taken(entry.id)
    for number, (expression, whose) in enumerate(alternative.selectors):
        of_class = number < len(alternative.of.selectors)
        if is_taken and not of_class:
            break
        try:
            selected = selects(expression, whose, traits, entry.id)
        except AllocationError as error:
            return str(error)
        if not selected and of_class:
            return None
        if not selected:
            has = values(expression, traits)
            return f"not selected by {expression}" + (f", as {has}" if has else "")
    if not entry.reached:
        return "reached from other nodes only"
    if is_taken:
        return f"allocated to {holders.said(entry.id)}"
    if entry.taints and not tolerates_all(alternative, entry.taints):
        return f"tainted {', '.join(f'{taint.key}:{taint.effect}' for taint in entry.taints)}"
    return _short(alternative, entry, allocated, left) or _FREE


def _short(
    alternative: Alternative, entry: PoolDevice, holders: AllocatedDevices, left: Mapping[tuple[str, str], int]
) -> str | None:
    """What a device has too little of."""
    capacity = entry.device.traits.capacity
    try:
        takes = alternative.takes(capacity)
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
