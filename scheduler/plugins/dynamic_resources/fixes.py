"""What may give a pod its devices on a node: changes of what it claims, and of who has devices. Each is tried later."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice, product
from typing import Any, NamedTuple

from scheduler.framework.changes import Change, Fix, Request
from scheduler.framework.device_changes import (
    DropConstraint,
    DropDeviceSelector,
    FewerDevices,
    FreeDevices,
    LessCapacity,
    RemoveTaintRule,
    TolerateDeviceTaint,
    UseDeviceClass,
)
from scheduler.framework.explaining import Inquiry
from scheduler.model.devices import DeviceClass, DeviceTaint, ResourceClaim
from scheduler.model.taints import taint_text
from scheduler.plugins.dynamic_resources.capacities import CapacityError
from scheduler.plugins.dynamic_resources.counters import available_counters, tolerates_all, uses
from scheduler.plugins.dynamic_resources.explained import Holders, users
from scheduler.plugins.dynamic_resources.pools import Pool, PoolDevice
from scheduler.plugins.dynamic_resources.requested import AllocationError, Alternative, RequestedClaim
from scheduler.plugins.dynamic_resources.requests import PodDevices
from scheduler.plugins.dynamic_resources.search import Selects
from scheduler.state.devices import Devices

_HOLDERS = 4
"""Claims of a node of which each is offered to be freed."""
_AT_ONCE = 3
"""Claims that are offered to be freed together."""
_COMBINATIONS = 24


class _Against(NamedTuple):
    """What keeps a request from a device of its class."""

    selectors: tuple[str, ...] = ()
    taints: tuple[DeviceTaint, ...] = ()
    capacity: tuple[str, ...] = ()
    """What it has too little of."""
    counters: tuple[tuple[str, str], ...] = ()
    """The counters of its pool that are used up."""
    taken: bool = False

    @property
    def nothing(self) -> bool:
        """Whether the device can be given."""
        return self == _NOTHING


_NOTHING = _Against()
_TAKEN = _Against(taken=True)


class Fixes:
    """The changes of one node that may help. `pools`: the ones that it reaches."""

    def __init__(self, inquiry: Inquiry, wants: PodDevices, pools: Sequence[Pool], selects: Selects) -> None:
        self._devices: Devices = inquiry.cluster.devices
        self._holders = Holders.of(inquiry)
        self._inquiry = inquiry
        self._wants = wants
        self._specs = {str(claim): claim.spec for claim in wants.open}
        self._selects = selects
        self._pools = [pool for pool in pools if pool.usable]
        self._left: Mapping[int, Mapping[tuple[str, str], int]] = {
            id(pool): available_counters(pool, self._devices.allocated) for pool in self._pools
        }

    def found(self, wanted: Sequence[RequestedClaim]) -> Iterator[Fix]:
        """Alternatives. `wanted`: the claims to allocate there."""
        claims = list(self._wants.open)
        choices: list[list[Fix]] = []
        for i, claim in enumerate(wanted):
            name = str(claims[i]) if i < len(claims) else ""
            for alternatives in claim.requests:
                served = [self._free(one) >= self._needed(one) for one in alternatives]
                if not any(served):
                    choices.append([fix for one in alternatives for fix in self._for_request(name, one)])
        if choices:
            for combined in islice(product(*choices), _COMBINATIONS):
                yield tuple(dict.fromkeys(change for fix in combined for change in fix))
        else:
            yield from self._together(wanted)

    def _together(self, wanted: Sequence[RequestedClaim]) -> Iterator[Fix]:
        """Each request alone could be served."""
        claims = list(self._wants.open)
        for i, claim in enumerate(wanted[: len(claims)]):
            name = str(claims[i])
            for place, constraint in enumerate(claim.spec.constraints):
                patch = [{"op": "remove", "path": f"/devices/constraints/{place}"}]
                yield (DropConstraint(name, str(constraint), patch),)
            for alternatives in claim.requests:
                for one in alternatives:
                    if not one.wants_all:
                        yield from self._fewer(name, one, one.asked.count - 1)
        every = [one for claim in wanted for alternatives in claim.requests for one in alternatives]
        yield from self._freed({id(e): e for one in every for e in self._selected(one)}.values(), 1)

    # -- one request ---------------------------------------------------------------------------------------------------

    def _needed(self, one: Alternative) -> int:
        return max(sum(1 for _ in self._selected(one)), 1) if one.wants_all else one.asked.count

    def _free(self, one: Alternative) -> int:
        return self._free_of(one.of, one)

    def _for_request(self, claim: str, one: Alternative) -> Iterator[Fix]:
        free = self._free(one)
        missing = self._needed(one) - free
        blocked = [
            (entry, pool, against)
            for entry, pool in self._of_class(one.of)
            if not (against := self._against(one, entry, pool)).nothing
        ]
        if not one.wants_all:
            yield from self._fewer(claim, one, free)
        counted: dict[Fix, int] = {}
        for _, _, against in blocked:
            for fix in self._without(claim, one, against):
                counted[fix] = counted.get(fix, 0) + 1
        yield from (fix for fix, number in counted.items() if number >= missing or one.wants_all)
        yield from self._freed([entry for entry, _, against in blocked if against == _TAKEN], missing)
        for entry, pool, against in blocked:
            if against.counters and against == _Against(counters=against.counters):
                yield from self._freed(_competitors(pool, against.counters), 1)
            elif against.capacity and against == _Against(capacity=against.capacity):
                yield from self._freed([entry], 1)
        if claim:
            for of in self._devices.classes.values():
                if of is not one.of and self._free_of(of, one) >= one.asked.count:
                    patch = [{"op": "replace", "path": f"{self._at(claim, one)}/deviceClassName", "value": of.name}]
                    yield (UseDeviceClass(claim, one.name, of.name, one.of.name, patch),)

    def _without(self, claim: str, one: Alternative, against: _Against) -> Iterator[Fix]:
        """What the claim could do without, so that it could have a device."""
        if against.taken or against.counters:
            return
        selectors, taints, capacity = against.selectors, against.taints, against.capacity
        if claim:
            at = self._at(claim, one)
            yield (
                *[
                    DropDeviceSelector(claim, one.name, each, _remove(at, "selectors", one.asked.selectors.index(each)))
                    for each in selectors
                ],
                *[
                    TolerateDeviceTaint(claim, one.name, *taint, _tolerated(at, taint, len(one.asked.tolerations) + i))
                    for i, taint in enumerate(taints)
                ],
                *[
                    LessCapacity(claim, one.name, name, _remove(at, "capacity", "requests", _pointer(name)))
                    for name in capacity
                ],
            )
        rules = [rule for rule in self._devices.rules.values() if rule.taint in taints]
        if not selectors and not capacity and {rule.taint for rule in rules} == set(taints):
            yield tuple(RemoveTaintRule(rule.name, taint_text(*rule.taint)) for rule in rules)

    def _fewer(self, claim: str, one: Alternative, count: int) -> Iterator[Fix]:
        if 0 < count < one.asked.count:
            if claim:
                patch = [{"op": "replace", "path": f"{self._at(claim, one)}/count", "value": count}]
                yield (FewerDevices(claim, one.name, count, one.asked.count, patch),)
            else:
                yield from self._less_of_resource(one, one.asked.count - count)

    def _less_of_resource(self, one: Alternative, less: int) -> Iterator[Fix]:
        """What helps if the pod asks for less of an extended resource, for which the scheduler makes the claim."""
        requests = self._inquiry.pod.shape.requests
        for resource, of in self._wants.resources.items():
            if of.name == one.of.name and requests.get(resource, 0) > less:
                yield (Request({resource: requests[resource] - less}, {resource: requests[resource]}),)

    def _freed(self, entries: Iterable[PoolDevice], missing: int) -> Iterator[Fix]:
        """Claims that have devices: those that have most of them come first."""
        held: dict[str, tuple[ResourceClaim, list[str]]] = {}
        for entry in entries:
            for claim in self._holders.claims(entry.id):
                if claim is not None:
                    held.setdefault(claim.uid, (claim, []))[1].append(str(entry.id))
        most = sorted(held.values(), key=lambda each: (-len(each[1]), str(each[0])))
        if missing > 1 and most and len(most[0][1]) < missing:
            together: list[Change] = []
            for claim, devices in most[:_AT_ONCE]:
                together.append(free(claim, devices))
                missing -= len(devices)
            if missing <= 0:
                yield tuple(together)
            return
        for claim, devices in most[:_HOLDERS]:
            if len(devices) >= missing:
                yield (free(claim, devices),)

    def _at(self, claim: str, one: Alternative) -> str:
        """Where a claim's spec has a request."""
        place = next(i for i, each in enumerate(self._specs[claim].requests) if each.name == one.base)
        return f"/devices/requests/{place}/{f'firstAvailable/{one.place}' if one.parent else 'exactly'}"

    # -- devices -------------------------------------------------------------------------------------------------------

    def _selected(self, one: Alternative) -> Iterator[PoolDevice]:
        return (entry for entry, _ in self._of_class(one.of) if not self._unselected(one, entry))

    def _of_class(self, of: DeviceClass) -> Iterator[tuple[PoolDevice, Pool]]:
        for pool in self._pools:
            for entry in pool.devices:
                if entry.reached and all(self._selects_(each, entry) for each in of.selectors):
                    yield entry, pool

    def _free_of(self, of: DeviceClass, one: Alternative) -> int:
        return sum(self._against(one, entry, pool).nothing for entry, pool in self._of_class(of))

    def _selects_(self, expression: str | None, entry: PoolDevice) -> bool:
        if expression is None:
            return False
        try:
            return self._selects(expression, "", entry.device.traits, entry.id)
        except AllocationError:
            return False

    def _unselected(self, one: Alternative, entry: PoolDevice) -> list[str]:
        return [each for each in one.asked.selectors if each is not None and not self._selects_(each, entry)]

    def _against(self, one: Alternative, entry: PoolDevice, pool: Pool) -> _Against:
        allocated, short = self._devices.allocated, tuple[tuple[str, str], ...]()
        is_taken = not one.asked.admin_access and allocated.is_taken(entry.id)
        if not is_taken and not allocated.is_shared(entry.id):
            left = self._left[id(pool)]
            short = tuple([counter for counter, nano in uses(entry.device) if nano > left.get(counter, 0)])
        return _Against(
            tuple(self._unselected(one, entry)),
            tuple([taint for taint in entry.taints if not tolerates_all(one, [taint])]),
            tuple(self._lacks(one, entry)),
            short,
            is_taken,
        )

    def _lacks(self, one: Alternative, entry: PoolDevice) -> Iterator[str]:
        """What a device has too little of that is asked for."""
        asked, capacity = one.asked.capacity or {}, entry.device.traits.capacity
        used = self._devices.allocated.used(entry.id)
        yield from (name for name in asked if name not in capacity)
        try:
            takes = one.takes(capacity) or {}
        except CapacityError:
            takes = {}
        for name, amount in takes.items():
            if amount.nano + used.get(name, 0) > capacity[name].value.nano and name in asked:
                yield name


def free(claim: ResourceClaim, devices: Sequence[str]) -> FreeDevices:
    """Take a claim's devices from it."""
    return FreeDevices(str(claim), [user.removeprefix("pod ") for user in users(claim)], list(devices))


def named_devices(claim: ResourceClaim) -> list[str]:
    """What a claim has."""
    return [] if claim.allocation is None else [str(device.id) for device in claim.allocation.devices]


def _remove(*path: object) -> list[dict[str, Any]]:
    return [{"op": "remove", "path": "/".join(map(str, path))}]


def _tolerated(at: str, taint: DeviceTaint, there: int) -> list[dict[str, Any]]:
    """`there`: how many tolerations come before it."""
    made = {"key": taint.key, "operator": "Equal", "value": taint.value, "effect": taint.effect}
    path = f"{at}/tolerations"
    return [
        {"op": "add", "path": f"{path}/-", "value": made} if there else {"op": "add", "path": path, "value": [made]}
    ]


def _pointer(key: str) -> str:
    """A key in a JSON pointer (RFC 6901)."""
    return key.replace("~", "~0").replace("/", "~1")


def _competitors(pool: Pool, counters: Sequence[tuple[str, str]]) -> list[PoolDevice]:
    """Devices that use any of these counters of their pool."""
    return [one for one in pool.consumers if any(counter in counters for counter, _ in uses(one.device))]
