"""The policies of a namespace that the API server enforces: those that it can afford, the ones that reject first.

The API server evaluates them in every create and update of the namespace, with CPU time that all tenants share. What
does not fit is enforced by nobody, and its status has the number.
"""

from collections.abc import Mapping

from msgspec import Struct

from podberth.policy import bounds
from podberth.policy.native import expressions
from podberth.policy.spec import Policies, Policy, Rule

LARGEST = 128 * 1024
"""Bytes of the texts that one namespace's policies hold together; etcd takes objects of 1.5 MB."""
MOST_UNITS = 512
"""The policies of a namespace may cost so much together (`bounds`)."""
CLOSED = (
    "a policy of this namespace that rejects costs more than the API server may spend on it, and is not enforced: "
    "nothing is let in until policies are deleted or made smaller (kubectl get mdp shows which are enforced by nobody)"
)
"""The answer to whoever creates something in a namespace that is closed."""


class Fitted(Struct, frozen=True):
    """The policies of a namespace that fit, in their order, and why each of the others does not."""

    native: Policies
    left: Mapping[str, str]
    closed: bool = False
    """One that rejects does not fit: nobody knows what it would have rejected, so nothing may be let in."""


def fit(policies: Policies, refused: Mapping[str, str] | None = None) -> Fitted:
    """Fit the policies of one namespace. `refused`: those whose objects the API server does not take, and why."""
    left = dict(refused or {})
    closed = False
    size = units = 0
    prices = {policy.name: bounds.price(policy) for policy in policies.policies}
    for policy in sorted(policies.policies, key=lambda one: prices[one.name].kind):
        if policy.name in left:
            continue
        price, more = prices[policy.name], _size(policy)
        why = _too_long(policy)
        if not why and size + more > LARGEST:
            why = f"with its {more} bytes the policies of this namespace hold more than {LARGEST} bytes together"
        if not why and units + price.units > MOST_UNITS:
            why = (
                f"with its {price.units} units the policies of this namespace cost more than {MOST_UNITS} units "
                "together, which is too much work for the API server"
            )
        if why:
            left[policy.name] = why
            closed = closed or price.kind == 0
        else:
            size, units = size + more, units + price.units
    native = Policies(policy for policy in policies.policies if policy.name not in left)
    return Fitted(native, {name: left[name] for name in sorted(left)}, closed)


def _too_long(policy: Policy) -> str:
    """Return which rule is longer than an expression may be; "" when none is."""
    for rule in policy.rules:
        texts = [rule.rejection, *(write.value for write in rule.writes)]
        for criterion in (*rule.predicate.labels, *rule.predicate.annotations):
            texts.append(criterion.key)
            texts += criterion.values
        length = 2 * sum(map(_length, texts))
        if length > expressions.LONGEST:
            most = expressions.LONGEST
            return f"{_short(rule)} is too long for an expression of the API server: {length} bytes, {most} at most"
    return ""


def _size(policy: Policy) -> int:
    found = 0
    for rule in policy.rules:
        found += 200 + _length(rule.rejection)
        found += sum(_length(write.key) + _length(write.value) for write in rule.writes)
        for criterion in (*rule.predicate.labels, *rule.predicate.annotations):
            found += _length(criterion.key) * 3 + sum(map(_length, criterion.values))
    return found


def _length(value: str) -> int:
    """Bytes of a text as CEL spells it: a character that can't be printed takes six or more."""
    return len(expressions.text(value).encode())


def _short(rule: Rule) -> str:
    return f'rule "{rule.name}"' if rule.name else f"rules[{rule.index}]"
