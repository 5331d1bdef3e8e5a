"""The policies of one namespace as this server knows them, in the order in which they count. Pure; `cache` fills it."""

from __future__ import annotations

from collections.abc import Collection
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

    `closed`: one that rejects is left out, or not read again yet, so nothing may come in.
    """

    specs: tuple[Policy, ...] = ()
    refused: tuple[str, ...] = ()
    left_out: int = 0
    closed: bool = False
    units: int = 0
    counts: tuple[int, int] = (0, 0)
    """The number of policies that apply, and that are not accepted."""

    @cached_property
    def policies(self) -> Policies:
        """The policies, to be asked."""
        return Policies(self.specs)

    @cached_property
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


def known(stored: Collection[Stored]) -> tuple[KnownPolicies, list[Stored]]:
    """Return what applies of the policies of a namespace, and those of them that have to be read again.

    Of those that do not apply only the price is kept. Until one that rejects is read again, nothing may come in.
    """
    accepted = sorted((one for one in stored if not one.problem), key=lambda one: one.place)
    refused = [one.name for one in stored if one.problem]
    found = bounds.bound((one.place, one.units) for one in accepted)
    applied, left_out = accepted[: len(found.applied)], accepted[len(found.applied) :]
    for one in left_out:
        one.policy = None
    missing = [one for one in applied if one.policy is None]
    held = KnownPolicies(
        specs=tuple(one.policy for one in applied if one.policy is not None),
        refused=tuple(nsmallest(MOST_NAMED, refused)),
        left_out=len(left_out),
        closed=found.closed or any(one.place.rejects for one in missing),
        units=found.units,
        counts=(len(applied), len(refused)),
    )
    return held, missing
