"""The policies of one namespace as this server knows them, in the order in which they count. Pure; `cache` fills it."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Mapping
from functools import cached_property
from heapq import nsmallest

import msgspec

from podberth.policy import bounds
from podberth.policy.bounds import Place
from podberth.policy.parse import PolicyError, parse
from podberth.policy.spec import Policies, Policy

MOST_NAMED = 256
"""The largest number of refused policies of a namespace that warnings name."""


class KnownPolicies(msgspec.Struct, frozen=True, dict=True):
    """The policies that apply in a namespace, and the names of those that should and can't.

    `closed`: one that rejects is left out, so nothing may come in.
    """

    specs: tuple[Policy, ...] = ()
    refused: tuple[str, ...] = ()
    uids: Mapping[str, str] = {}
    """Policy name → UID: counts belong to this object, and not to a later one of that name."""
    left_out: int = 0
    closed: bool = False
    units: int = 0

    @cached_property
    def policies(self) -> Policies:
        """The policies, to be asked."""
        return Policies(self.specs)

    @property
    def said(self) -> list[str]:
        """Return the warnings about policies that do not apply, which every answer has."""
        found = [f'MetadataPolicy "{name}" is not accepted, and not applied' for name in self.refused]
        if self.left_out:
            found.append(
                f"{self.left_out} MetadataPolicies of this namespace are not applied: together they cost too much"
            )
        return found


class Stored(msgspec.Struct):
    """A policy object: what was read of it, or the problem with it.

    One that is accepted and has no `policy` is left out of its namespace's bound, and only its price is kept.
    """

    namespace: str
    name: str
    uid: str
    resource_version: str
    generation: int = 0
    created: str = ""
    policy: Policy | None = None
    problem: str = ""
    units: int = 0
    kind: int = 0

    @property
    def place(self) -> Place:
        """Return its place in the order of its namespace's policies."""
        return Place(self.kind, self.created, self.name)

    def learn(self, found: Policy | str) -> None:
        """Take over what was read of it: the policy, or the problem with it."""
        if isinstance(found, str):
            self.problem = found
        else:
            self.policy = found
            self.units, self.kind = bounds.price(found)


def parsed(raw: bytes | msgspec.Raw, allowed_prefixes: tuple[str, ...]) -> Policy | str:
    """Return the policy in an object's bytes, or the problem with it."""
    try:
        return parse(msgspec.json.decode(raw), allowed_prefixes)
    except PolicyError as error:
        return error.line


class Group:
    """The policies of a namespace by name. Call `put` and `remove`, then `settle`."""

    def __init__(self) -> None:
        self.stored: dict[str, Stored] = {}
        self.refused: set[str] = set()
        self._order: list[tuple[Place, int]] = []
        self._applied: tuple[Place, ...] = ()
        self._new: list[Stored] = []

    def put(self, stored: Stored) -> None:
        """Add a policy that is new or has changed."""
        self.remove(stored.name)
        self.stored[stored.name] = stored
        if stored.problem:
            self.refused.add(stored.name)
        else:
            insort(self._order, (stored.place, stored.units))
            self._new.append(stored)

    def remove(self, name: str) -> None:
        """Remove a policy that was deleted."""
        stored = self.stored.pop(name, None)
        if stored is None:
            return
        self.refused.discard(name)
        if not stored.problem:
            del self._order[bisect_left(self._order, (stored.place, stored.units))]

    def settle(self) -> tuple[KnownPolicies, list[Stored]]:
        """Return the policies that apply now, and those of them that have to be read again.

        Looks at those that apply and at those that did, however many there are besides.
        """
        found = bounds.bound(self._order)
        within = set(found.applied)
        for stored in (*self._new, *filter(None, (self.stored.get(place.name) for place in self._applied))):
            if stored.place not in within:
                stored.policy = None
        self._new.clear()
        self._applied = found.applied
        applied = [self.stored[place.name] for place in found.applied]
        held = KnownPolicies(
            specs=tuple(one.policy for one in applied if one.policy is not None),
            refused=tuple(nsmallest(MOST_NAMED, self.refused)),
            uids={one.name: one.uid for one in applied},
            left_out=len(self._order) - len(applied),
            closed=found.closed,
            units=found.units,
        )
        return held, [one for one in applied if one.policy is None]

    @property
    def counts(self) -> tuple[int, int, int]:
        """Return the number of policies that apply, are refused, and are left out."""
        return len(self._applied), len(self.refused), len(self._order) - len(self._applied)
