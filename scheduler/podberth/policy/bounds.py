"""The cost of a namespace's policies, known when they are read, and the choice of those that apply when it is too high.

A unit is about a microsecond of a review for which every rule matches and every write changes something, so no review
costs more than some five milliseconds; texts and values count for the memory that they take. Where the policies of a
namespace together cost too much, they count in one order, and from the first that no longer fits on they are left out:
policies that reject come first, then those that write, then mode warn, then mode observe, and of each kind the older
ones. If a policy that rejects is left out, nothing that policies apply to is let into the namespace, as nobody can tell
what that policy would reject.
"""

from collections.abc import Iterable
from typing import NamedTuple

from podberth.policy.spec import Policy

MOST = 8192
"""The largest price of the policies of one namespace, in units."""
_POLICY, _RULE, _WRITE = 4, 1, 2
_CRITERIA_A_UNIT, _VALUES_A_UNIT, _CHARACTERS_A_UNIT = 4, 16, 256


class Price(NamedTuple):
    """The cost of one policy, and its kind: 0 rejects, 1 writes, 2 warns, 3 observes."""

    units: int
    kind: int


class Place(NamedTuple):
    """A policy's place in the order of its namespace. `created` is RFC 3339, as the API server writes it."""

    kind: int
    created: str
    name: str

    @property
    def rejects(self) -> bool:
        """Return whether the policy rejects something."""
        return self.kind == 0


class Bounded(NamedTuple):
    """The policies of a namespace that apply, their price, and whether a policy that rejects does not apply."""

    applied: tuple[Place, ...]
    units: int
    closed: bool


def price(policy: Policy) -> Price:
    """Return the price of a policy, which every review of its namespace costs."""
    units, asked, values, characters = _POLICY, 0, 0, 0
    for rule in policy.rules:
        criteria = (*rule.predicate.labels, *rule.predicate.annotations)
        writes = (*rule.action.labels.items(), *rule.action.annotations.items())
        units += _RULE + _WRITE * len(writes)
        asked += len(criteria)
        values += len(rule.applies_to)
        characters += sum(map(len, rule.applies_to)) + len(rule.name) + len(rule.action.message)
        for criterion in criteria:
            values += len(criterion.values)
            characters += len(criterion.key) + sum(map(len, criterion.values))
        characters += sum(len(key) + len(value) for key, value in writes)
    units += -(-asked // _CRITERIA_A_UNIT) - (-values // _VALUES_A_UNIT) - (-characters // _CHARACTERS_A_UNIT)
    if policy.mode != "enforce":
        return Price(units, 2 if policy.mode == "warn" else 3)
    return Price(units, 0 if any(rule.action.reject for rule in policy.rules) else 1)


def bound(ordered: Iterable[tuple[Place, int]], most: int = MOST) -> Bounded:
    """Return the policies that apply, of those given in order, each with its units. It looks at one more than fit."""
    applied: list[Place] = []
    units = 0
    for place, more in ordered:
        if units + more > most:
            return Bounded(tuple(applied), units, place.rejects)
        units += more
        applied.append(place)
    return Bounded(tuple(applied), units, closed=False)


def left_out(units: int) -> str:
    """Return the status message of a policy that is left out."""
    return (
        f"not applied: the policies of this namespace cost more than {MOST} units, and this one ({units} units) comes "
        "after the bound. Policies that reject come first, then those that write, mode warn, mode observe; of each "
        "kind the older ones"
    )


CLOSED = (
    f"the policies of this namespace cost more than {MOST} units, and one that rejects is not applied: nothing is let "
    "in until policies are deleted or made smaller (kubectl get mdp shows which are not accepted)"
)
"""The denial of every object in a namespace that is closed."""
