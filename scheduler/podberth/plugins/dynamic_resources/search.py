"""The allocator: the first solution for some claims on one node, looked for depth-first in kube-scheduler's order.

Upstream: `structured/internal/incubating`, allocator_incubating.go (allocateOne, allocateDevice,
CmpRequestOverCapacity, checkAvailableCounters) and constraint.go (matchAttributeConstraint). Where it recurses,
generators are stacked here: a pod may claim more devices than Python's own stack has room for.
"""

from collections.abc import Callable, Generator, Sequence
from enum import Enum, auto

from msgspec import Struct

from podberth.cache.devices import NOTHING_USED, AllocatedDevices
from podberth.cache.search_steps import CappedSearch
from podberth.model.devices import MOST_DEVICES, Attribute, Constraint, Device, DeviceID, DeviceTraits, PoolID
from podberth.model.quantity import Quantity
from podberth.plugins.dynamic_resources.pools import (
    Pool,
    PoolDevice,
    TakenPlaces,
    available_counters,
    tolerates_all,
    uses,
)
from podberth.plugins.dynamic_resources.requested import AllocationError, Alternative, CapacityError, RequestedClaim
from podberth.plugins.dynamic_resources.selecting import known

Selects = Callable[[str, str, DeviceTraits, DeviceID], bool]
"""(CEL expression, whose it is, traits, device) → whether it selects the device.

Raises AllocationError, and SearchCapError.
"""
PlacesOf = Callable[[Pool], TakenPlaces | None]
"""The places of a large pool that need not be looked at; None: all have to be."""
_STEPS = 3
"""Steps of going on with one generator, roughly."""
_CHOICE, _CONSTRAINT, _CAPACITY = 4, 2, 4
"""Steps of choosing a device, and for each constraint of its claim and each of its own capacities."""


class Tracked:
    """One constraint of a claim, with the values of the devices that were chosen so far."""

    __slots__ = ("_attribute", "_distinct", "_requests", "_values")

    def __init__(self, constraint: Constraint) -> None:
        self._requests = constraint.requests
        self._distinct = constraint.match is None
        self._attribute = constraint.match or constraint.distinct or ""
        self._values: list[Attribute] = []

    def _concerns(self, request: str, alternative: str) -> bool:
        if not self._requests or request in self._requests:
            return True
        return bool(alternative) and f"{request}/{alternative}" in self._requests

    def add(self, request: str, alternative: str, traits: DeviceTraits) -> bool:
        """Count a device; False if it can't be chosen beside the others, and then it is not counted."""
        if not self._concerns(request, alternative):
            return True
        value = traits.attribute(self._attribute)
        if value is None:
            return False
        if self._values and not value[0]:
            return False  # of a kind that can't be compared
        if self._values and (value in self._values if self._distinct else value != self._values[0]):
            return False
        self._values.append(value)
        return True

    def remove(self, request: str, alternative: str) -> None:
        """No longer count the device that was added last."""
        if self._concerns(request, alternative):
            self._values.pop()


class Chosen(Struct, gc=False, eq=False):
    """A device that was chosen for a request, and what has to be undone if it is not to be."""

    entry: PoolDevice
    alternative: Alternative
    consumed: dict[str, Quantity] | None = None
    """The amounts that are taken of its capacities, if the device may be shared."""
    counters: bool = False
    """Its counters are counted."""
    constraints: int = 0
    """So many constraints of the claim count it."""
    marked: bool = False
    """It is noted as taken."""

    @property
    def is_shared(self) -> bool:
        """Return whether others may have a share of the device."""
        return self.consumed is not None


class Choices:
    """The devices of each claim, in `result`."""

    def __init__(self, claims: Sequence[RequestedClaim], holders: AllocatedDevices, *, further: bool) -> None:
        """`further`: a device of "all" that a constraint speaks against does not fail the pod."""
        self._claims = claims
        self._holders = holders
        self._further = further
        self.result: list[list[Chosen]] = [[] for _ in claims]
        self._constraints: list[list[Tracked]] = [list(map(Tracked, claim.spec.constraints)) for claim in claims]
        self._taken: dict[DeviceID, list[int]] = {}
        """Devices that were chosen, and for which of the claims."""
        self._shares: dict[DeviceID, dict[str, int]] = {}
        """Capacity that was chosen of devices, in nano-units."""
        self._counted: dict[PoolID, dict[tuple[str, str], int]] = {}
        self._available: dict[PoolID, dict[tuple[str, str], int]] = {}

    def is_free(self, number: int, alternative: Alternative, entry: PoolDevice) -> bool:
        """Return whether no other claim has the device, nor another request of this one."""
        device = entry.id
        if alternative.asked.admin_access:
            return number not in self._taken.get(device, ())
        return not (self._holders.is_taken(device) or self._taken.get(device))

    def is_large_enough(self, claim: RequestedClaim, alternative: Alternative, entry: PoolDevice) -> bool:
        """Return whether a device has the capacity that is asked for, if nobody had a share of it."""
        capacity = entry.device.traits.capacity
        takes = self._takes(claim, alternative, entry, entry.id.device, "checking")
        return takes is not None and all(amount.nano <= capacity[key].value.nano for key, amount in takes.items())

    def _has_room(self, claim: RequestedClaim, alternative: Alternative, entry: PoolDevice, doing: str) -> bool:
        """Return whether a device has it beside the shares of others (CmpRequestOverCapacity)."""
        capacity = entry.device.traits.capacity
        takes = self._takes(claim, alternative, entry, entry.id, doing)
        if not takes:
            return takes is not None
        used, chosen = self._holders.used(entry.id), self._shares.get(entry.id, NOTHING_USED)
        return all(
            amount.nano + used.get(key, 0) + chosen.get(key, 0) <= capacity[key].value.nano
            for key, amount in takes.items()
        )

    def _takes(
        self, claim: RequestedClaim, alternative: Alternative, entry: PoolDevice, device: DeviceID | str, doing: str
    ) -> dict[str, Quantity] | None:
        """Capacity → what would be taken of it; None: the device does not offer that. Raises AllocationError."""
        capacity = entry.device.traits.capacity
        if not capacity:
            return None if alternative.asked.capacity else {}
        try:
            return alternative.takes(capacity)
        except CapacityError as error:
            where = f"claim {claim.name}, request {alternative.asked.name}"
            raise AllocationError(f"{where}: {doing} capacity for device {device}: {error}") from None

    def choose(
        self, number: int, alternative: Alternative, entry: PoolDevice, pool: Pool, *, must: bool = False
    ) -> Chosen | None:
        """Choose a free device if it has room and nothing speaks against it (allocateDevice).

        `must`: no other would do. A constraint that speaks against it is an error then, even if it has no room either.
        """
        claim, device, traits = self._claims[number], entry.device, entry.device.traits
        shared = bool(traits.shared)
        if not must and not self._has_room(claim, alternative, entry, "checking"):
            return None
        one = Chosen(entry, alternative)
        in_use = shared and (self._holders.is_shared(entry.id) or entry.id in self._shares)
        if device.consumes and not in_use:  # further shares of a device use no more counters
            if not self._count(entry, pool):
                return None
            one.counters = True
        if entry.taints and not tolerates_all(alternative, entry.taints):
            self.undo(number, one)
            return None
        for constraint in self._constraints[number]:
            if not constraint.add(alternative.base, alternative.sub, traits):
                self.undo(number, one)
                if must and not self._further:
                    raise AllocationError(
                        f"claim {claim.name}, request {alternative.asked.name}: cannot add device {entry.id} "
                        "because a claim constraint would not be satisfied"
                    )
                return None
            one.constraints += 1
        if not shared:
            self._taken.setdefault(entry.id, []).append(number)
            one.marked = True
        if must and not self._has_room(claim, alternative, entry, "rechecking"):
            self.undo(number, one)
            return None
        if shared:
            one.consumed = self._takes(claim, alternative, entry, entry.id, "computing consumed") or {}
            chosen = self._shares.setdefault(entry.id, {})
            for key, amount in one.consumed.items():
                chosen[key] = chosen.get(key, 0) + amount.nano
        self.result[number].append(one)
        return one

    def undo(self, number: int, one: Chosen, *, chosen: bool = False) -> None:
        """Take back what choosing a device changed; `chosen`: all of it was done."""
        entry = one.entry
        if chosen:
            self.result[number].pop()
        if one.consumed is not None:
            used = self._shares[entry.id]
            for key, amount in one.consumed.items():
                used[key] -= amount.nano
            if not any(other.entry.id == entry.id for claim in self.result for other in claim):
                del self._shares[entry.id]
        if one.marked:
            self._taken[entry.id].pop()
        for constraint in reversed(self._constraints[number][: one.constraints]):
            constraint.remove(one.alternative.base, one.alternative.sub)
        if one.counters:
            self._add(self._counted[entry.id.pool_id], entry.device, -1)

    # -- counters ------------------------------------------------------------------------------------------------------

    def _count(self, entry: PoolDevice, pool: Pool) -> bool:
        """Count what a device uses of its pool; False if there is too little left (checkAvailableCounters)."""
        available = self._available.get(pool.id)
        if available is None:
            available = self._available[pool.id] = available_counters(pool, self._holders)
        counted = self._counted.setdefault(pool.id, {})
        self._add(counted, entry.device, 1)
        if all(amount >= counted.get(counter, 0) for counter, amount in available.items()):
            return True
        self._add(counted, entry.device, -1)
        return False

    @staticmethod
    def _add(counted: dict[tuple[str, str], int], device: Device, sign: int) -> None:
        for counter, amount in uses(device):
            counted[counter] = counted.get(counter, 0) + sign * amount


class Found(Enum):
    """The outcome of a part of a search."""

    YES = auto()
    NO = auto()
    TOO_MANY = auto()
    """It would take more devices than a claim may have: what comes before it need not be tried otherwise."""


_Part = Generator["_Part", Found, Found]
"""Part of a search. It yields each part whose outcome it needs, and is sent that."""


class Search:
    """One search. After it has ended well, `result` has the devices of each claim."""

    def __init__(
        self,
        claims: Sequence[RequestedClaim],
        pools: Sequence[Pool],
        holders: AllocatedDevices,
        selects: Selects,
        steps: CappedSearch,
        *,
        further: int = 0,
        places_of: PlacesOf = lambda pool: None,
    ) -> None:
        """`pools`: those of the node. `further`: look further than kube-scheduler, for so many steps.

        kube-scheduler fails the pod where an alternative or a device can't be judged. Looking further, such an
        alternative is passed over, and such a device is not taken.
        """
        self._claims = claims
        self._pools = pools
        self._selects = selects
        self._all_steps = steps
        self._places_of = places_of
        self.choices = Choices(claims, holders, further=bool(further))
        self.result = self.choices.result
        self._all: dict[int, list[tuple[PoolDevice, Pool]]] = {}
        """Alternative that asks for all devices, by identity → these devices."""
        self._further = further
        self._steps = 0
        self.given_up = False
        """It took too many steps to look further."""
        self._choices_take = [_CHOICE + _CONSTRAINT * len(claim.spec.constraints) for claim in claims]
        """Steps of choosing a device without capacities, by claim."""
        self._impossible: set[int] = set()
        """Alternatives, by identity, that are passed over."""

    def run(self) -> bool:
        """Search until the end; return whether there is a solution. To be called once.

        Raises AllocationError, and SearchCapError.
        """
        stack = [self._whole()]
        heard: Found | None = None
        while stack:
            before = self._steps
            try:
                part, heard = next(stack[-1]) if heard is None else stack[-1].send(heard), None
            except StopIteration as ended:
                stack.pop()
                heard = ended.value
            else:
                stack.append(part)
            self._steps += _STEPS
            self._all_steps.take(self._steps - before)
            if self._further and self._steps > self._further and stack:
                self.given_up = True
                return False
        return heard is Found.YES

    # -- before the search -------------------------------------------------------------------------------------------

    def _whole(self) -> _Part:
        for claim in self._claims:
            least = 0
            for alternatives in claim.requests:
                for one in alternatives:
                    if one.wants_all and not self._find_all(claim, one):
                        self._impossible.add(id(one))
                possible = [one for one in alternatives if id(one) not in self._impossible]
                if not possible:
                    return Found.NO
                least += min(map(self._number, possible))
            if least > MOST_DEVICES:
                if self._further:
                    return Found.NO
                raise AllocationError(
                    f"claim {claim.name}: number of requested devices {least} exceeds the claim limit of {MOST_DEVICES}"
                )
        return (yield self._request(0, 0))

    def _find_all(self, claim: RequestedClaim, alternative: Alternative) -> bool:
        """Find out which devices "all" are: those that are selected and would be large enough if nobody had a share.

        False: that can't be told. Looking no further, that is an AllocationError.
        """
        where = f"claim {claim.name}, request {alternative.asked.name}"
        found = self._all[id(alternative)] = []
        for pool in self._pools:
            if not pool.usable and self._further:
                return False
            if not pool.usable:
                state = "being updated" if pool.incomplete else "invalid"
                raise AllocationError(f"{where}: asks for all devices, but resource pool {pool} is currently {state}")
            for entry in pool.devices:
                try:
                    self._steps += 1
                    selected = self._is_selected(alternative, entry)
                    if selected and self.choices.is_large_enough(claim, alternative, entry):
                        found.append((entry, pool))
                except AllocationError:
                    if not self._further:
                        raise
                    return False
        return True

    def _number(self, alternative: Alternative) -> int:
        """Return how many devices it takes."""
        return len(self._all[id(alternative)]) if alternative.wants_all else alternative.asked.count

    # -- the search ----------------------------------------------------------------------------------------------------

    def _request(self, number: int, place: int) -> _Part:
        """From one request of one claim on."""
        if number == len(self._claims):
            return Found.YES
        claim = self._claims[number]
        if place == len(claim.requests):
            # That a later claim would have too many devices says nothing of what this one has.
            found = yield self._request(number + 1, 0)
            return Found.YES if found is Found.YES else Found.NO
        alternatives = claim.requests[place]
        all_too_many = True
        for one in alternatives:
            if id(one) in self._impossible:
                continue
            found = yield self._devices(number, place, one, 0, (0, 0))
            if not one.parent:
                return found
            if found is Found.YES:
                return Found.YES
            all_too_many &= found is Found.TOO_MANY
        return Found.TOO_MANY if all_too_many else Found.NO

    def _devices(self, number: int, place: int, alternative: Alternative, index: int, begin: tuple[int, int]) -> _Part:
        """From one device of an alternative on. Devices before `begin` (pool, place there) are not tried.

        So the devices of one request are chosen in one order only: another one would not be another solution.
        """
        count = self._number(alternative)
        if alternative.wants_all and not count:
            return Found.NO
        if index >= count:
            return (yield self._request(number, place + 1))
        if len(self.result[number]) + count - index > MOST_DEVICES:
            return Found.TOO_MANY
        if alternative.wants_all:
            return (yield from self._next_of_all(number, place, alternative, index))
        return (yield from self._any(number, place, alternative, index, begin))

    def _next_of_all(self, number: int, place: int, alternative: Alternative, index: int) -> _Part:
        """From one of "all" devices on: if it can't be chosen, there is no solution."""
        entry, pool = self._all[id(alternative)][index]
        self._steps += self._choice_takes(number, entry)
        if not self.choices.is_free(number, alternative, entry):
            return Found.NO
        one = self.choices.choose(number, alternative, entry, pool, must=True)
        if one is None:
            return Found.NO
        found = yield self._devices(number, place, alternative, index + 1, (0, 0))
        if found is not Found.YES:
            self.choices.undo(number, one, chosen=True)
        return found

    def _any(self, number: int, place: int, alternative: Alternative, index: int, begin: tuple[int, int]) -> _Part:
        """Try one device after the other, each with all that comes after it."""
        first, begin_there = begin
        for i in range(first, len(self._pools)):
            pool = self._pools[i]
            if not pool.usable:
                continue
            places = None if alternative.asked.admin_access else self._places_of(pool)
            start, devices = begin_there if i == first else 0, pool.devices
            left = range(start, len(devices)) if places is None else places.left(alternative.selectors, start)
            for j in left:
                self._steps += 1
                entry = devices[j]
                if not self.choices.is_free(number, alternative, entry):
                    continue
                try:
                    selected = self._is_selected(alternative, entry)
                    if not selected and places is not None:
                        places.note_not_selected(alternative.selectors, j)
                    if selected:
                        self._steps += self._choice_takes(number, entry)
                    one = self.choices.choose(number, alternative, entry, pool) if selected else None
                except AllocationError:
                    if not self._further:
                        raise
                    one = None
                if one is None:
                    continue
                found = yield self._devices(number, place, alternative, index + 1, (i, j + 1))
                if found is Found.YES:
                    return Found.YES
                self.choices.undo(number, one, chosen=True)
                if found is Found.TOO_MANY:
                    return Found.TOO_MANY
        return Found.NO

    # -- one device ----------------------------------------------------------------------------------------------------

    def _choice_takes(self, number: int, entry: PoolDevice) -> int:
        return self._choices_take[number] + _CAPACITY * len(entry.device.traits.capacity)

    def _is_selected(self, alternative: Alternative, entry: PoolDevice) -> bool:
        """Return whether all selectors hold for a device, and the node reaches it."""
        traits = entry.device.traits
        for expression, whose in alternative.selectors:
            selected = known(expression, traits)
            if selected is None:
                selected = self._selects(expression, whose, traits, entry.id)
            if not selected:
                return False
        return entry.reached
