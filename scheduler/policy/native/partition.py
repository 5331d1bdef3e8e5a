"""Which policies of a namespace the API server can enforce by itself, and why the others need the webhook.

The two halves must not see each other's work: the webhook is asked after the API server's own policies have written.
So a policy that reads or writes what one of the other half writes goes with it, and so do all that reject when one
of them does, as a refusal names every reason.
"""

from collections.abc import Iterable, Iterator

from msgspec import Struct

from scheduler.policy import keys
from scheduler.policy.native import expressions
from scheduler.policy.powers import Reserved
from scheduler.policy.spec import Field, Policies, Policy, Rule

LARGEST = 256 * 1024
"""Characters of the texts that one namespace's policies hold together; etcd takes objects of 1.5 MB."""

Touched = tuple[Field, str]


class Stays(Struct, frozen=True):
    """A policy that the webhook has to enforce, and why."""

    policy: str
    reason: str


class Partition(Struct, frozen=True):
    """The policies of one namespace in their order: those that compile, and what is said of the rest."""

    native: Policies
    webhook: tuple[Stays, ...]


def partition(policies: Policies, reserved: Reserved) -> Partition:
    """Split the policies of one namespace."""
    reasons: dict[str, str] = {}
    size = 0
    for policy in policies.policies:
        own = _by_itself(policy, reserved)
        if not own and size + (more := _size(policy)) > LARGEST:
            own = f"the policies of this namespace hold more than {LARGEST} characters together"
        elif not own:
            size += more
        if own:
            reasons[policy.name] = own
    reasons |= dict(_drawn_along(policies, reserved, reasons.copy()))
    native = Policies(policy for policy in policies.policies if policy.name not in reasons)
    return Partition(native, tuple(Stays(name, reasons[name]) for name in sorted(reasons)))


def written(rule: Rule, reserved: Reserved) -> Iterator[Touched]:
    """What a rule writes where policies may write it."""
    for write in rule.writes:
        if reserved.why(write.key, write.power) is None:
            yield write.field, write.key


def _by_itself(policy: Policy, reserved: Reserved) -> str:
    """Why this policy needs the webhook, whatever the others are; "" when it does not."""
    if policy.mode != "observe":
        for rule in policy.rules:
            for field, key in written(rule, reserved):
                if field == "label":
                    return (
                        f"{_short(rule)} writes label {key}: whether the object's owner needs the label as it is, "
                        "only the webhook can look up"
                    )
    for rule in policy.rules:
        texts = [rule.rejection, *(write.value for write in rule.writes)]
        for criterion in (*rule.predicate.labels, *rule.predicate.annotations):
            texts.append(criterion.key)
            texts += criterion.values
        if 2 * sum(map(len, texts)) > expressions.LONGEST:
            return f"{_short(rule)} is too long for an expression of the API server"
    return ""


def _drawn_along(policies: Policies, reserved: Reserved, reasons: dict[str, str]) -> Iterator[tuple[str, str]]:
    """Policies that share something with one that needs the webhook, and those that share with these."""
    left = [policy for policy in policies.policies if policy.name not in reasons]
    elsewhere = [policy for policy in policies.policies if policy.name in reasons]
    while elsewhere:
        other = elsewhere.pop()
        for policy in list(left):
            why = _shared(policy, other, reserved)
            if why:
                left.remove(policy)
                elsewhere.append(policy)
                yield policy.name, why
    writes = {touched: policy for policy in left if policy.mode == "enforce" for touched in _writes(policy, reserved)}
    for policy in left:
        if policy.mode == "warn":
            for touched in _reads(policy):
                if touched in writes:
                    yield (
                        policy.name,
                        f"it warns by {touched[0]} {touched[1]}, which policy {writes[touched].name} writes: "
                        "the API server warns of the object as it is stored",
                    )
                    break


def _shared(policy: Policy, other: Policy, reserved: Reserved) -> str:
    """What two policies have to be asked about at the same time for; "" for nothing."""
    ours, theirs = _writes(policy, reserved), _writes(other, reserved)
    for field, key in sorted(ours & (theirs | _reads(other)) | (theirs & _reads(policy))):
        return f"it shares {field} {key} with policy {other.name}, which needs the webhook"
    if _rejects(policy) and _rejects(other):
        return f"it rejects, as policy {other.name} does, which needs the webhook: a refusal names all reasons"
    return ""


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
        found += 200 + len(rule.rejection) + sum(len(write.key) + len(write.value) for write in rule.writes)
        for criterion in (*rule.predicate.labels, *rule.predicate.annotations):
            found += len(criterion.key) * 3 + sum(map(len, criterion.values))
    return found


def _short(rule: Rule) -> str:
    return f'rule "{rule.name}"' if rule.name else f"rules[{rule.index}]"
