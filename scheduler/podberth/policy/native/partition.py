"""Which policies of a namespace the API server can enforce by itself, and why the others need the webhook.

The two halves must not see each other's work: the webhook is asked after the API server's own policies have written.
So a policy that reads or writes what one of the other half writes goes with it, and so do all that reject when one
of them does, as a refusal names every reason.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping

from msgspec import Struct

from podberth.policy import bounds, keys
from podberth.policy.native import expressions
from podberth.policy.powers import Reserved
from podberth.policy.spec import Field, Policies, Policy, Rule

LARGEST = 128 * 1024
"""Bytes of the texts that one namespace's policies hold together; etcd takes objects of 1.5 MB."""
MOST_UNITS = 512
"""What the policies of a namespace may cost (`bounds`). The API server evaluates them in every create and update there,
with CPU time that all tenants share; what costs more is the webhook's, where each namespace waits for itself."""
CLOSED = (
    "a policy of this namespace that rejects costs more than the API server may spend on it, and is not enforced: "
    "nothing is let in until policies are deleted or made smaller (kubectl get mdp shows which are enforced by nobody)"
)
"""The answer to whoever creates something in a namespace that is closed."""

Touched = tuple[Field, str]


class Stays(Struct, frozen=True):
    """A policy that the webhook has to enforce, and why."""

    policy: str
    reason: str


class Partition(Struct, frozen=True):
    """The policies of one namespace in their order: those that compile, and what is said of the rest."""

    native: Policies
    webhook: tuple[Stays, ...]
    closed: bool = False
    """Whether one that rejects is enforced by nobody, so that nothing may be let into the namespace."""


def partition(
    policies: Policies, reserved: Reserved, elsewhere: Mapping[str, str] | None = None, *, webhook: bool = True
) -> Partition:
    """Split the policies of one namespace.

    `elsewhere` are policies that need the webhook for a reason that is not in them: the API server refuses them, say.
    `webhook`: whether there is one. Without it what can't be native is enforced by nobody, and takes nothing along.
    """
    reasons: dict[str, str] = {}
    size = units = 0
    prices = {policy.name: bounds.price(policy) for policy in policies.policies}
    # Who rejects comes first, so that no policy that writes has one left out that rejects.
    for policy in sorted(policies.policies, key=lambda one: prices[one.name].kind):
        own = (elsewhere or {}).get(policy.name) or _by_itself(policy)
        if not own:
            more, price = _size(policy), prices[policy.name].units
            if size + more > LARGEST:
                own = f"the policies of this namespace hold more than {LARGEST} bytes together"
            elif units + price > MOST_UNITS:
                own = (
                    f"the policies of this namespace cost more than {MOST_UNITS} units together, "
                    "which is too much work for the API server"
                )
            else:
                size, units = size + more, units + price
        if own:
            reasons[policy.name] = own
    reasons |= _drawn_along(policies, reserved, reasons, webhook)
    native = Policies(policy for policy in policies.policies if policy.name not in reasons)
    stays = tuple(Stays(name, reasons[name]) for name in sorted(reasons))
    refused = (elsewhere or {}).keys()
    closed = not webhook and any(_rejects(one) and one.name in reasons.keys() - refused for one in policies.policies)
    return Partition(native, stays, closed)


def written(rule: Rule, reserved: Reserved) -> Iterator[Touched]:
    """Yield what a rule writes where policies may write it."""
    for write in rule.writes:
        if reserved.why(write.key, write.power) is None:
            yield write.field, write.key


def _by_itself(policy: Policy) -> str:
    """Return why this policy needs the webhook, whatever the others are; "" when it does not."""
    for rule in policy.rules:
        texts = [rule.rejection, *(write.value for write in rule.writes)]
        for criterion in (*rule.predicate.labels, *rule.predicate.annotations):
            texts.append(criterion.key)
            texts += criterion.values
        if 2 * sum(map(_length, texts)) > expressions.LONGEST:
            return f"{_short(rule)} is too long for an expression of the API server"
    return ""


def _drawn_along(policies: Policies, reserved: Reserved, reasons: Mapping[str, str], webhook: bool) -> dict[str, str]:
    """Policies that share something with one that needs the webhook, and those that share with these.

    Each key is looked at once, so that thousands of policies cost thousands of steps and not millions.
    """
    writes = {policy.name: _writes(policy, reserved) for policy in policies.policies}
    readers, writers = defaultdict[Touched, list[str]](list), defaultdict[Touched, list[str]](list)
    touched: dict[str, set[Touched]] = {}
    for policy in policies.policies:
        reads = _reads(policy)
        touched[policy.name] = reads | writes[policy.name]
        for key in reads:
            readers[key].append(policy.name)
        for key in writes[policy.name]:
            writers[key].append(policy.name)
    rejects = [policy.name for policy in policies.policies if _rejects(policy)]
    found: dict[str, str] = {}
    waiting = sorted(reasons) if webhook else []
    seen: set[Touched] = set()
    while waiting:
        other = waiting.pop()
        along = []
        for key in sorted(touched[other] - seen):
            if key in writers:
                seen.add(key)
                why = f"it shares {key[0]} {key[1]} with policy {other}, which needs the webhook"
                along += [(name, why) for name in (*writers[key], *readers[key])]
        if other in rejects:
            why = f"it rejects, as policy {other} does, which needs the webhook: a refusal names all reasons"
            along += [(name, why) for name in rejects]
            rejects = []
        for name, why in along:
            if name not in reasons and name not in found:
                found[name] = why
                waiting.append(name)
    return found


def _writes(policy: Policy, reserved: Reserved) -> set[Touched]:
    """Only what is written in truth: other modes write nothing that others could see."""
    if policy.mode != "enforce":
        return set()
    found = {touched for rule in policy.rules for touched in written(rule, reserved)}
    return found - {("annotation", keys.QOS)}


def _reads(policy: Policy) -> set[Touched]:
    labels: Iterable[Touched] = (("label", one.key) for rule in policy.rules for one in rule.predicate.labels)
    annotations: Iterable[Touched] = (
        ("annotation", one.key) for rule in policy.rules for one in rule.predicate.annotations
    )
    return {*labels, *annotations}


def _rejects(policy: Policy) -> bool:
    return policy.mode == "enforce" and any(rule.action.reject for rule in policy.rules)


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
