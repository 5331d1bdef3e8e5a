"""Computes the conditions of the policies of one namespace. Pure; `status` says what is written."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Literal

import msgspec
from msgspec import structs

from podberth.policy import bounds, keys
from podberth.policy.analyse import Finding, Kind, Report, analyse
from podberth.policy.keys import RESERVED, Reserved
from podberth.policy.parse import PolicyError, parse
from podberth.policy.spec import Policies, Policy, cut

MESSAGE_LENGTH = 2000
MOST_FINDINGS = 5
Truth = Literal["True", "False", "Unknown"]
JsonObject = dict[str, Any]
Revision = frozenset[tuple[str, int]]
"""The specs of a namespace: uid and generation of each policy."""
TOTAL, EACH = 5_000_000, 1_000_000
"""Steps of the analysis of a namespace, and of one question: some seconds of a core."""

CONFLICT: tuple[Kind, ...] = ("conflicting-writes",)
INCONSISTENT: tuple[Kind, ...] = ("self-poison", "not-idempotent")
REMARKS: tuple[Kind, ...] = ("dead-rule", "no-action", "void-writes", "stamp-written", "reserved-key", "unknown-kind")


_WRONG = {
    "Accepted": "False",
    "Conflict": "True",
    "SelfConsistent": "False",
    "SchedulerAvailable": "False",
    "OwnersIntact": "False",
}
"""Type of a condition → the status that is a problem. Who enforces a policy has a column of its own."""


def is_warning(type_: str, status: str, reason: str) -> bool:
    """Return whether the column WARNINGS has such a condition."""
    return status == _WRONG.get(type_) or reason == "AcceptedWithRemarks"


class Condition(msgspec.Struct, frozen=True):
    """One condition, without its times."""

    type: str
    status: Truth
    reason: str
    message: str

    @property
    def is_problem(self) -> bool:
        """Return whether somebody should be told by an Event."""
        if self.type == "Enforced":
            return self.reason == "Refused" or (self.status == "False" and self.reason != "Starting")
        return is_warning(self.type, self.status, self.reason)


class Stored(msgspec.Struct, frozen=True):
    """A policy object as it was read, and the policy in it, or what is wrong with it."""

    name: str
    namespace: str
    uid: str
    resource_version: str
    generation: int
    rules: int
    status: Mapping[str, Any]
    policy: Policy | None = None
    problems: tuple[str, ...] = ()
    created: str = ""
    over: int = 0
    """Its cost, when it is left out because the policies of its namespace cost too much."""
    closes: bool = False
    """Nothing is let into the namespace, since a policy that rejects is left out."""
    unread: str = ""
    """Why nobody looked at the spec."""

    @property
    def schedulers(self) -> frozenset[str]:
        """The schedulers that it sends pods to."""
        rules = () if self.policy is None else self.policy.rules
        return frozenset(rule.scheduler for rule in rules if rule.scheduler is not None)


def read(document: JsonObject, allowed_prefixes: tuple[str, ...] = ()) -> Stored:
    """Return a policy object from the API server, and the policy in it or what is wrong with it."""
    metadata, spec = document["metadata"], document.get("spec")
    rules = spec.get("rules") if isinstance(spec, dict) else None
    policy: Policy | None = None
    problems: tuple[str, ...] = ()
    try:
        policy = parse(document, allowed_prefixes)
    except PolicyError as error:
        problems = error.problems
    status = document.get("status")
    return Stored(
        name=metadata["name"],
        namespace=metadata.get("namespace", ""),
        uid=metadata.get("uid", ""),
        resource_version=metadata.get("resourceVersion", ""),
        generation=metadata.get("generation", 0),
        rules=len(rules) if isinstance(rules, list) else 0,
        status=status if isinstance(status, dict) else {},
        policy=policy,
        problems=problems,
        created=str(metadata.get("creationTimestamp") or ""),
    )


def bounded(stored: Iterable[Stored]) -> list[Stored]:
    """Return the policies of a namespace. Those that cost too much are left out: they have no `policy`.

    The admission server leaves them out by the same rule.
    """
    found = list(stored)
    priced = [(one, bounds.price(one.policy)) for one in found if one.policy is not None]
    places = {one.name: bounds.Place(price.kind, one.created, one.name) for one, price in priced}
    ordered = sorted((places[one.name], price.units) for one, price in priced)
    kept = bounds.bound(ordered)
    applied = set(kept.applied)
    units = {place.name: cost for place, cost in ordered if place not in applied}
    return [
        structs.replace(one, policy=None, over=units[one.name], closes=kept.closed) if one.name in units else one
        for one in found
    ]


def revision_of(stored: Iterable[Stored]) -> Revision:
    """Return which specs these are."""
    return frozenset((one.uid, one.generation) for one in stored)


class Unread(msgspec.Struct):
    """A policy whose spec is not decoded."""

    metadata: JsonObject
    status: Any = None


def unread(document: Unread, why: str) -> Stored:
    """Return a policy object whose spec nobody looks at, and `why`."""
    known = read({"metadata": document.metadata, "status": document.status})
    return structs.replace(known, policy=None, problems=(), unread=why)


class Told(msgspec.Struct, frozen=True):
    """The analysis of a policy, as its conditions tell it: a few lines, however much was found."""

    remarks: str = ""
    conflicts: str = ""
    inconsistent: str = ""
    reason: str = ""
    """The reason of the condition SelfConsistent, where `inconsistent` says something."""
    undecided: str = ""


class Judged(msgspec.Struct, frozen=True):
    """The analysis of a namespace's policies, by name; the steps that it took; whether every question was answered."""

    told: Mapping[str, Told] = {}
    steps: int = 0
    decided: bool = True


NOTHING_TOLD = Told()
WAITING = Told(undecided="the analysis of this namespace's policies takes long and is under way")


def findings(stored: Iterable[Stored], reserved: Reserved = RESERVED, total: int = TOTAL, each: int = EACH) -> Judged:
    """Return what the analysis says of each accepted policy of a namespace. `total` and `each`: as for `analyse`.

    A policy that enforces is looked at among those that do; one in mode warn or observe as if all of them enforced,
    which is what its author wants to know.
    """
    policies = Policies(one.policy for one in stored if one.policy is not None)
    now = analyse(policies, total=total, each=each, reserved=reserved)
    enforcing = all(policy.mode == "enforce" for policy in policies.policies)
    then = now if enforcing else analyse(policies.enforced(), total=total, each=each, reserved=reserved)
    reports = (now,) if then is now else (now, then)
    by_name = {id(report): _by_name(report) for report in reports}
    told = {
        policy.name: in_words(by_name[id(now if policy.mode == "enforce" else then)].get(policy.name, ()))
        for policy in policies.policies
    }
    return Judged(told, sum(report.steps for report in reports), all(report.decided for report in reports))


def _by_name(report: Report) -> Mapping[str, list[Finding]]:
    found: dict[str, list[Finding]] = {}
    for finding in report.findings:
        for name in finding.policies:
            found.setdefault(name, []).append(finding)
    return found


def in_words(found: Sequence[Finding]) -> Told:
    """Put the findings about one policy into words."""
    wrong = [finding for finding in found if finding.kind in INCONSISTENT]
    return Told(
        remarks=_told([finding for finding in found if finding.kind in REMARKS]),
        conflicts=_told([finding for finding in found if finding.kind in CONFLICT]),
        inconsistent=_told(wrong),
        reason="SelfPoison" if any(finding.kind == "self-poison" for finding in wrong) else "NotIdempotent",
        undecided=_told([finding for finding in found if finding.kind == "undecided"]),
    )


def conditions(
    one: Stored, told: Told, live: frozenset[str] | None, exempt: Collection[str] = frozenset()
) -> tuple[Condition, ...]:
    """Return the four conditions of a policy. `live`: schedulers with a live Lease; None: not known."""
    if one.unread:
        return _unknown("NotLookedAt", one.unread)
    if one.over:
        return _unjudged("NamespaceOverBound", bounds.left_out(one.over))
    if one.policy is None:
        return _unjudged("Invalid", f"not applied: {_lines(one.problems)}")
    return (
        _accepted(one, one.policy, told, exempt),
        _conflict(told),
        _self_consistent(told),
        _scheduler_available(one, live),
    )


def _unjudged(reason: str, told: str) -> tuple[Condition, ...]:
    """Return the conditions of a policy that does not apply."""
    return (Condition("Accepted", "False", reason, told), *_unknown("NotAccepted", "the policy is not accepted")[1:])


def _unknown(reason: str, message: str) -> tuple[Condition, ...]:
    types = ("Accepted", "Conflict", "SelfConsistent", "SchedulerAvailable")
    return tuple(Condition(kind, "Unknown", reason, message) for kind in types)


def _accepted(one: Stored, policy: Policy, told: Told, exempt: Collection[str]) -> Condition:
    if one.namespace in exempt:
        return Condition(
            "Accepted", "False", "ExemptNamespace", f"not applied: no policy applies in namespace {one.namespace}"
        )
    modes = {"warn": "nothing is rejected or written, users get warnings", "observe": "nothing is rejected or written"}
    said = f"valid, in mode {policy.mode}" + (f": {modes[policy.mode]}" if policy.mode in modes else "")
    if not told.remarks:
        return Condition("Accepted", "True", "Accepted", said)
    return Condition("Accepted", "True", "AcceptedWithRemarks", f"{said}; {told.remarks}")


def _conflict(told: Told) -> Condition:
    if told.conflicts:
        return Condition("Conflict", "True", "ConflictingWrites", told.conflicts)
    if told.undecided:
        return Condition("Conflict", "Unknown", "Undecided", told.undecided)
    return Condition("Conflict", "False", "NoConflict", "no two rules can write different values to one key")


def _self_consistent(told: Told) -> Condition:
    if told.inconsistent:
        return Condition("SelfConsistent", "False", told.reason, told.inconsistent)
    if told.undecided:
        return Condition("SelfConsistent", "Unknown", "Undecided", told.undecided)
    return Condition("SelfConsistent", "True", "Consistent", "a second pass changes nothing and rejects nothing")


def _scheduler_available(one: Stored, live: frozenset[str] | None) -> Condition:
    named = one.schedulers - {keys.DEFAULT_SCHEDULER}
    if not named:
        return Condition("SchedulerAvailable", "True", "NoneNamed", "the policy sends pods to no other scheduler")
    if live is None:
        return Condition("SchedulerAvailable", "Unknown", "LeasesUnknown", "the schedulers' Leases can't be read")
    missing = sorted(named - live)
    if missing:
        names = ", ".join(f'"{name}"' for name in missing)
        message = f"no live scheduler serves {names}: pods that are sent there stay pending"
        return Condition("SchedulerAvailable", "False", "NoLiveLease", cut(message, MESSAGE_LENGTH))
    names = ", ".join(f'"{name}"' for name in sorted(named))
    return Condition("SchedulerAvailable", "True", "Live", cut(f"a live scheduler serves {names}", MESSAGE_LENGTH))


def owners_intact(lost: Sequence[str], problems: Sequence[str]) -> Condition:
    """Return the condition that an audit decides: whether owners still find what they make."""
    if lost:
        told = f"owners would not find what they make any more, and make more without end: {_lines(lost)}"
        return Condition("OwnersIntact", "False", "OwnerSelector", cut(told, MESSAGE_LENGTH))
    if problems:
        told = f"the audit did not look at everything: {_lines(problems)}"
        return Condition("OwnersIntact", "Unknown", "AuditIncomplete", cut(told, MESSAGE_LENGTH))
    return Condition("OwnersIntact", "True", "NoneLosesObjects", "every owner finds what it makes")


def _line(finding: Finding) -> str:
    if finding.example is None:
        return finding.message
    return f"{finding.message}; for example {msgspec.json.encode(finding.example, order='sorted').decode()}"


def _told(found: Sequence[Finding]) -> str:
    return _lines([_line(finding) for finding in found[:MOST_FINDINGS]], len(found))


def _lines(lines: Sequence[str], number: int = 0) -> str:
    """Return the first few lines, and how many more there are."""
    left = max(number, len(lines)) - MOST_FINDINGS
    more = f"; and {left} more" if left > 0 else ""
    return cut("; ".join(lines[:MOST_FINDINGS]), MESSAGE_LENGTH - len(more)) + more
