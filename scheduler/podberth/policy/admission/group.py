"""The policies of one namespace as this server knows them, in the order in which they count. Pure; `cache` fills it."""

from __future__ import annotations

from bisect import bisect_left, insort
from heapq import nsmallest
from math import inf

import msgspec

from podberth.policy import bounds
from podberth.policy.admission.jobs import Parsed
from podberth.policy.admission.judging import MOST_NAMED, KnownPolicies
from podberth.policy.bounds import Place

LATE_SECONDS = 10.0
"""Seconds within which the operator writes how a policy is enforced. After that the webhook is asked about it."""
MOST_KEPT = 64


class Stored(msgspec.Struct):
    """A policy object: what was read of it, or the problem with it.

    One that is accepted and has no `spec` is left out of its namespace's bound, and only its price is kept.
    """

    namespace: str
    name: str
    uid: str
    resource_version: str
    generation: int = 0
    created: str = ""
    spec: bytes = b""
    problem: str = ""
    units: int = 0
    kind: int = 0
    native: bool = False
    """True if the status of this generation says that the API server enforces it."""
    left: bool = False
    """True if it is not judged here: the API server enforces it, or the status says that nothing does."""
    ours: bool = False
    """True if the status of this generation says that the webhook enforces it."""
    seen: float = 0.0
    """The time at which this generation was first seen."""

    @property
    def place(self) -> Place:
        """Return its place in the order of its namespace's policies."""
        return Place(self.kind, self.created, self.name)

    def learn(self, parsed: Parsed) -> None:
        """Take over what was read of it."""
        self.spec, self.problem = parsed.spec, parsed.problem
        self.units, self.kind = parsed.units, parsed.kind


class Group:
    """The policies of a namespace by name. Call `put` and `remove`, then `settle`."""

    def __init__(self) -> None:
        self.stored: dict[str, Stored] = {}
        self.refused: set[str] = set()
        self.kept: set[str] = set()
        """The policies that are not left to the API server."""
        self.natives: set[str] = set()
        """Those that the API server enforces."""
        self._order: list[tuple[Place, int]] = []
        self._applied: tuple[Place, ...] = ()
        self._new: list[Stored] = []

    def put(self, stored: Stored) -> None:
        """Add a policy that is new or has changed."""
        self.remove(stored.name)
        self.stored[stored.name] = stored
        if not stored.left:
            self.kept.add(stored.name)
        elif stored.native:
            self.natives.add(stored.name)
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
        self.kept.discard(name)
        self.natives.discard(name)
        if not stored.problem:
            del self._order[bisect_left(self._order, (stored.place, stored.units))]

    def settle(self, version: int) -> tuple[KnownPolicies, list[Stored]]:
        """Return the policies that apply now, and those of them that have to be read again.

        Looks at those that apply and at those that did, however many there are besides.
        """
        found = bounds.bound(self._order)
        within = set(found.applied)
        for stored in (*self._new, *filter(None, (self.stored.get(place.name) for place in self._applied))):
            if stored.place not in within:
                stored.spec = b""
        self._new.clear()
        self._applied = found.applied
        applied = [self.stored[place.name] for place in found.applied]
        held = KnownPolicies(
            specs=tuple(one.spec for one in applied if one.spec and not one.left),
            refused=tuple(nsmallest(MOST_NAMED, self.refused)),
            uids={one.name: one.uid for one in applied},
            left_out=len(self._order) - len(applied),
            closed=found.closed,
            units=found.units,
            version=version,
        )
        return held, [one for one in applied if not one.spec]

    def left_until(self, before: bool) -> float:
        """Return the time until which the webhook need not be asked about this namespace; 0: it has to be asked.

        `before`: whether it is not asked now. Then a policy that has just been written changes nothing, since who
        enforces it is about to be said; unless that is the webhook, or it is late, or it is not so. Where the API
        server enforces nothing the webhook is asked, as where there are no policies: each namespace that is left stands
        in the webhook configurations, anybody may have thousands with a policy that is not accepted, and the operator
        bounds only those with objects of its own.
        """
        if not self.natives:
            return 0.0
        if not self.kept:
            return inf
        if not before or len(self.kept) > MOST_KEPT:
            return 0.0
        kept = [self.stored[name] for name in self.kept]
        return 0.0 if any(one.ours or one.native for one in kept) else min(one.seen for one in kept) + LATE_SECONDS

    @property
    def counts(self) -> tuple[int, int, int]:
        """Return the number of policies that apply, are refused, and are left out."""
        return len(self._applied), len(self.refused), len(self._order) - len(self._applied)
