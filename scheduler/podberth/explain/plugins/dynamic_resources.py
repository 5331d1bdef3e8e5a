"""Explains DynamicResources' rejections: device by device, why it can't be given, and what would help.

Another pod may give its devices away, which is tried later. Changes of a claim are not offered, as its spec can't be
changed; what is said of each device tells what would do.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from podberth.cache.cluster import Cluster
from podberth.cache.devices import AllocatedDevices, Devices
from podberth.explain.changes import Fix, MovePod, Request
from podberth.framework.explaining import Detail, Explainer, Inquiry
from podberth.framework.status import Reason
from podberth.model.devices import DeviceID, DeviceTraits, ResourceClaim
from podberth.model.node import Node
from podberth.model.pod import Pod
from podberth.model.shape import may_be_devices
from podberth.plugins.dynamic_resources.plugin import DynamicResources
from podberth.plugins.dynamic_resources.pools import Pool, PoolDevice, available_counters, tolerates_all, uses
from podberth.plugins.dynamic_resources.requested import AllocationError, Alternative, CapacityError, RequestedClaim
from podberth.plugins.dynamic_resources.results import PodDevices, named
from podberth.plugins.dynamic_resources.search import Selects

_SHOWN = 8
"""The largest number of devices that are named with one reason."""
_REASONS = 4
"""The largest number of reasons that are given against devices of a request."""
_PODS = 3
"""The largest number of pods that are named for a claim."""
_HOLDERS = 4
"""The number of claims of a node each of which is offered to be freed."""
_AT_ONCE = 3
"""The largest number of claims that are offered to be freed together."""
_REFERENCE = re.compile(
    r"""device\.(?P<kind>attributes|capacity)\[\??(?P<quote>["'])(?P<domain>[^"']+)(?P=quote)\]"""
    r"""(?:\.\??(?P<name>[A-Za-z_]\w*)|\[\??["'](?P<quoted>[^"']+)["']\])"""
)
_VALUES = 3
"""Values of one expression that are told."""


class DynamicResourcesExplainer(Explainer):
    """Says of a node that DynamicResources rejects: device by device, why it can't be given, and what would help."""

    plugin: DynamicResources

    def explain(self, inquiry: Inquiry, row: int, reason: Reason) -> Detail:
        """Say device by device why none can be given; or which claim can't be used on the node."""
        plugin, node, wants = self.plugin, inquiry.node(row), self._wants(inquiry)
        if wants is None:
            return reason.text, {}
        if reason == plugin.unavailable:
            names = [str(claim) for claim in self._unusable_on(row, wants, inquiry.cluster)]
            return f"{', '.join(names)}: the devices that it was given can't be used there", {"claims": names}
        if reason == plugin.refused:
            asked = (name for name in inquiry.pod.shape.requests if may_be_devices(name))
            lacking = sorted(name for name in asked if name not in node.allocatable and name not in wants.resources)
            return f"has no {', '.join(lacking)}, neither as devices nor otherwise", {"lacking": lacking}
        unallocatable = reason in (plugin.unallocatable, plugin.invalid, plugin.no_other, plugin.given_up)
        if unallocatable and wants.results is not None:
            pools = plugin.requests.pools(row, node, inquiry.cluster.devices)
            wanted = wants.results.request.claims_on(node) or ()
            return _unallocatable(inquiry, node, wants, pools, wanted, plugin.programs.selects)
        return reason.text, {}

    def fixes(self, inquiry: Inquiry, row: int, reasons: Sequence[Reason]) -> Sequence[Fix]:
        """Ask for less of an extended resource, or have pods leave that have such devices."""
        plugin, node, wants = self.plugin, inquiry.node(row), self._wants(inquiry)
        if wants is None:
            return ()
        found: list[Fix] = []
        for reason in reasons:
            if reason == plugin.unavailable:
                found.append(_leave(self._unusable_on(row, wants, inquiry.cluster), inquiry.cluster))
            elif reason in (plugin.unallocatable, plugin.no_other, plugin.given_up) and wants.results is not None:
                pools = plugin.requests.pools(row, node, inquiry.cluster.devices)
                asking = _Asking(inquiry, pools, plugin.programs.selects)
                wanted = wants.results.request.claims_on(node) or ()
                found += [*_less(asking, wants, wanted, inquiry.pod), *_freed(asking, wanted, inquiry.cluster)]
        return [fix for fix in found if fix]

    def _wants(self, inquiry: Inquiry) -> PodDevices | None:
        return inquiry.once((self.plugin.name, "wants"), lambda: self.plugin.wants(inquiry.pod, inquiry.cluster))

    def _unusable_on(self, row: int, wants: PodDevices, cluster: Cluster) -> list[ResourceClaim]:
        """Return the pod's claims with devices that can't be used on a node."""
        return [c for c in wants.claims if (where := self.plugin.unusable(c, cluster)) is not None and where[row]]


class Holders:
    """Finds the claims and pods that hold devices."""

    def __init__(self, devices: Devices) -> None:
        self._allocated = devices.allocated
        self._claims = {claim.uid: claim for claim in devices.claims.values()}

    @staticmethod
    def of(inquiry: Inquiry) -> "Holders":
        """Return the answer, found once for all nodes that are asked about."""
        return inquiry.once(("DynamicResources", "holders"), lambda: Holders(inquiry.cluster.devices))

    def claims(self, device: DeviceID) -> list[ResourceClaim | None]:
        """Return the claims that have a device, or a share of it; None for one that is not there yet."""
        return [self._claims.get(uid) for uid in self._allocated.claims_holding(device)]

    def said(self, device: DeviceID) -> str:
        """Return the claims that hold a device, in words."""
        return ", ".join(map(_said, self.claims(device))) or "a claim"


def _said(claim: ResourceClaim | None) -> str:
    if claim is None:
        return "a claim that is being made"
    pods = _users(claim)
    of = f" of {' and '.join(pods[:_PODS])}" if pods else ", which no pod uses"
    return f"claim {claim}{of}" + (f" and {len(pods) - _PODS} more" if len(pods) > _PODS else "")


def _users(claim: ResourceClaim) -> list[str]:
    """Return `pod namespace/name` of each pod that a claim is reserved for; of others, resource and name."""
    found = []
    for raw in claim.raw_reserved_for:
        said = msgspec.json.decode(raw)
        resource = said.get("resource", "pods")
        found.append(f"{'pod' if resource == 'pods' else resource} {claim.namespace}/{said.get('name', '?')}")
    return found


def _unallocatable(
    inquiry: Inquiry,
    node: Node,
    wants: PodDevices,
    pools: Sequence[Pool],
    wanted: Sequence[RequestedClaim],
    selects: Selects,
) -> Detail:
    """Return the first request for which there are too few devices, and what is wrong with each of them."""
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
    """The question about one node: its devices, and the claims to allocate there."""

    def __init__(self, inquiry: Inquiry, pools: Sequence[Pool], selects: Selects) -> None:
        self.devices = inquiry.cluster.devices
        self.holders = Holders.of(inquiry)
        self.pools = [pool for pool in pools if pool.usable]
        self.selects = selects

    def against(self, one: Alternative) -> dict[PoolDevice, "_Verdict"]:
        """Return device → why it can't be given, of those that are of its class."""
        found: dict[PoolDevice, _Verdict] = {}
        for pool in self.pools:
            left = available_counters(pool, self.devices.allocated)
            for entry in pool.devices:
                why = _against(one, entry, self.devices, left, self.selects, self.holders)
                if why is not None:
                    found[entry] = why
        return found


def _less(asking: _Asking, wants: PodDevices, wanted: Sequence[RequestedClaim], pod: Pod) -> Iterator[Fix]:
    """Yield smaller requests for extended resources, for which the scheduler makes the claim."""
    for number, claim in enumerate(wanted):
        for one, *_ in claim.requests if number >= len(wants.unallocated) else ():
            short, _, _ = _request(asking, wants, number, one)
            for resource, of in wants.resources.items():
                asked = pod.shape.requests[resource]
                if of.name == one.of.name and 0 < short < asked:
                    yield (Request({resource: asked - short}, {resource: asked}),)


def _freed(asking: _Asking, wanted: Sequence[RequestedClaim], cluster: Cluster) -> Iterator[Fix]:
    """Yield moves of pods that hold devices of the classes that are asked for, or parts of such: those that have one
    claim, and those that have several.

    Whether that helps is tried later. Claims that have most devices come first.
    """
    every = (one for claim in wanted for alternatives in claim.requests for one in alternatives)
    devices = {entry.id for one in every for entry in asking.against(one)}
    devices |= {entry.id for pool in asking.pools for entry in pool.consumers}
    held: dict[str, tuple[ResourceClaim, int]] = {}
    for device in devices:
        for claim in filter(None, asking.holders.claims(device)):
            held[claim.uid] = claim, held.get(claim.uid, (claim, 0))[1] + 1
    most = [claim for claim, _ in sorted(held.values(), key=lambda each: (-each[1], str(each[0])))][:_HOLDERS]
    yield from (_leave([claim], cluster) for claim in most)
    yield from (_leave(most[:number], cluster) for number in range(2, min(len(most), _AT_ONCE) + 1))


_Told = tuple[int, str, dict[str, Any]]
"""The number of devices that are missing, and the same in words and as data."""


def _nearest(asking: _Asking, wants: PodDevices, wanted: Sequence[RequestedClaim]) -> _Told | None:
    """Say why the first request that can't be served is not; of its alternatives, the one that lacks least."""
    for number, claim in enumerate(wanted):
        for alternatives in claim.requests:
            told = [_request(asking, wants, number, one) for one in alternatives]
            if all(short > 0 for short, _, _ in told):
                return min(told, key=lambda one: one[0])
    return None


def _together(asking: _Asking, wants: PodDevices, wanted: Sequence[RequestedClaim]) -> _Told:
    """Say why the requests, each of which could be served alone, can't be served together."""
    why = []
    for number, claim in enumerate(wanted):
        free: dict[DeviceID, PoolDevice] = {}
        for one in (each for alternatives in claim.requests for each in alternatives):
            free |= {entry.id: entry for entry, verdict in asking.against(one).items() if verdict == _FREE}
        for constraint in claim.spec.constraints:
            name = constraint.match or constraint.distinct or ""
            has = {str(each): _attribute(name, entry.device.traits) or "none" for each, entry in free.items()}
            of = f"{_claim(wants, number)} has the constraint {constraint}"
            why.append(f"{of} ({_grouped({device: f'has {value}' for device, value in has.items()})})")
    said = "; ".join(why) or "requests want the same devices, or their counters"
    return 0, f"each request alone could be served, but not all of them together: {said}", {}


def _claim(wants: PodDevices, number: int) -> str:
    """Return the name of what asks for devices: a claim, or the extended resources for which one would be made."""
    return (
        f"claim {wants.unallocated[number]}" if number < len(wants.unallocated) else ", ".join(sorted(wants.resources))
    )


def _request(asking: _Asking, wants: PodDevices, number: int, alternative: Alternative) -> _Told:
    against = asking.against(alternative)
    why = {str(entry.id): verdict.said for entry, verdict in against.items()}
    free = sum(verdict == _FREE for verdict in against.values())
    suiting = sum(verdict.suits for verdict in against.values())
    needed = max(suiting, 1) if alternative.wants_all else alternative.asked.count
    told = {str(entry.id): verdict.said for entry, verdict in against.items() if verdict != _FREE}
    extended = number >= len(wants.unallocated)
    who = _claim(wants, number) + ("" if extended else f", request {alternative.name}")
    text = f"{who} needs {needed} of class {alternative.of.name}, {free or 'none'} free"
    if not why:
        text = f"{who} needs {needed} of class {alternative.of.name}, of which the node reaches none"
    elif told:
        text += f" ({_grouped(told)})"
    claim = "its extended resources" if extended else str(wants.unallocated[number])
    data = {"claim": claim, "request": alternative.name, "needed": needed, "free": free, "devices": why}
    return needed - free, text, data


def _grouped(told: Mapping[str, str]) -> str:
    """Return the devices with the same reason together: `gpu.test/n/d0, d1: tainted`."""
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


class _Verdict(NamedTuple):
    """Why a device can't be given. `suits`: it would do if it were free, so that "all devices" has it among them."""

    said: str
    suits: bool = True


_FREE = _Verdict("free")


def _against(
    alternative: Alternative,
    entry: PoolDevice,
    devices: Devices,
    left: Mapping[tuple[str, str], int],
    selects: Selects,
    holders: Holders,
) -> _Verdict | None:
    """Return the reason for which a device can't be given; None for one of another class."""
    traits, asked, allocated = entry.device.traits, alternative.asked, devices.allocated
    is_taken = not asked.admin_access and allocated.is_taken(entry.id)
    for number, (expression, whose) in enumerate(alternative.selectors):
        of_class = number < len(alternative.of.selectors)
        if is_taken and not of_class and not alternative.wants_all:
            break
        try:
            selected = selects(expression, whose, traits, entry.id)
        except AllocationError as error:
            return _Verdict(str(error))
        if not selected and of_class:
            return None
        if not selected:
            has = _values_named(expression, traits)
            return _Verdict(f"not selected by {expression}" + (f", as {has}" if has else ""), suits=False)
    if not entry.reached:
        return _Verdict("reached from other nodes only", suits=False)
    if is_taken:
        return _Verdict(f"allocated to {holders.said(entry.id)}")
    if entry.taints and not tolerates_all(alternative, entry.taints):
        return _Verdict(f"tainted {', '.join(f'{taint.key}:{taint.effect}' for taint in entry.taints)}")
    return _short(alternative, entry, allocated, left) or _FREE


def _values_named(expression: str, traits: DeviceTraits) -> str:
    """Return the attributes and capacities that an expression names, as the device has them; empty: it names none."""
    return ", ".join(list(dict.fromkeys(_each_value(expression, traits)))[:_VALUES])


def _attribute(name: str, traits: DeviceTraits) -> str:
    """Return the value of a fully qualified attribute; empty: the device has none."""
    found = traits.attribute(name)
    return "" if found is None else _text(found[1])


def _each_value(expression: str, traits: DeviceTraits) -> Iterator[str]:
    if "device.driver" in expression:
        yield f"driver is {_text(traits.driver)}"
    for found in _REFERENCE.finditer(expression):
        name = found["name"] or found["quoted"]
        whole = f"{found['domain']}/{name}"
        if found["kind"] == "attributes":
            value = _attribute(whole, traits)
        else:
            capacity = traits.capacity.get(whole)
            if capacity is None and found["domain"] == traits.driver:
                capacity = traits.capacity.get(name)
            value = "" if capacity is None else capacity.text
        yield f"{name} is {value}" if value else f"it has no {name}"


def _text(value: object) -> str:
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str | bool | int) else str(value)


def _short(
    alternative: Alternative, entry: PoolDevice, holders: AllocatedDevices, left: Mapping[tuple[str, str], int]
) -> _Verdict | None:
    """Return the capacity, or the counter of its pool, of which a device has too little."""
    capacity = entry.device.traits.capacity
    try:
        takes = alternative.takes(capacity)
    except CapacityError as error:
        return _Verdict(str(error))
    if takes is None:
        return _Verdict("does not offer the capacity that is asked for", suits=False)
    used = holders.used(entry.id)
    for name, amount in takes.items():
        has = capacity[name].value.nano
        free = has - used.get(name, 0)
        if amount.nano > free:
            said = f"needs {amount} {name}, {type(amount)(free, amount.notation)} free"
            return _Verdict(said, suits=amount.nano <= has)
    if holders.is_shared(entry.id):
        return None
    for (counter_set, counter), nano in uses(entry.device):
        missing = nano - left.get((counter_set, counter), 0)
        if missing > 0:
            return _Verdict(f"counter {counter_set}/{counter} is short by {missing / 1e9:g}")
    return None


def _leave(claims: Sequence[ResourceClaim], cluster: Cluster) -> tuple[MovePod, ...]:
    """Return the moves of all pods that use these claims; none if something else uses one of them, or nothing does."""
    found: dict[MovePod, None] = {}
    for claim in claims:
        users = [cluster.placement(uid) for uid in claim.reserved_for]
        if not users:
            return ()
        for user in users:
            if user is None:
                return ()
            found[MovePod(user.pod.key, cluster.nodes.names[user.row] or "")] = None
    return tuple(found)
