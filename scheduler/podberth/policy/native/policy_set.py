"""The policies of one namespace as data that the API server's own admission policies read: one MetadataPolicySet.

The CEL of `admission_policies` is the same for every namespace; everything that differs is in the set, in the form
that costs the API server least. Each distinct criterion has a number, and a rule holds where all numbers of its `all`
and none of its `none` are among those of the criteria that an object meets:

- a criterion that asks for a key, or for one of some values, is met through the object's own value: `labelKeys` and
  `labelValues` say which numbers a key, or a key's value, stands for. NotIn and DoesNotExist are the same in `none`;
- the QoS class of a pod stands in `classes`, since the annotation that holds it is written at the same time;
- `kinds` are the kinds that a rule asks for, Pod or Deployment.apps.

What modes warn and observe tell of a write that would change nothing is left out by one more number in `none`: the
write itself as a criterion. Writes to reserved keys are left out here. Pure; next stage: the operator writes the set.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import sha256

import msgspec
from msgspec import Struct

from podberth.model.selectors import Requirement
from podberth.policy import keys
from podberth.policy.objects import JsonObject
from podberth.policy.patch import pointer
from podberth.policy.powers import Reserved
from podberth.policy.qos import CLASSES
from podberth.policy.spec import GROUP, KIND, VERSION, Field, Mode, Policy, Rule, Write

SET_KIND, SET_PLURAL = "MetadataPolicySet", "metadatapolicysets"
SET_NAME = "in-force"
"""Each namespace has one set, of this name."""
RELEASE_LABEL = f"{GROUP}/release"
TELLS_LABEL: Mapping[Mode, str] = {"warn": f"{GROUP}/warns", "observe": f"{GROUP}/observes"}
"""On a set that has rules of this mode; no other set is read by the admission policy that tells of them."""
LABELS = {"app.kubernetes.io/managed-by": "berth", "app.kubernetes.io/component": "policy"}


class Source(Struct, frozen=True):
    """A policy, and which version of which object it is."""

    policy: Policy
    uid: str
    generation: int


class PolicySet(Struct, frozen=True):
    """The set of a namespace. `document` is None where there is nothing to enforce."""

    document: JsonObject | None
    version: str = ""
    """Of the document; the answer to the dry run has it twice, once for each half."""
    enforced: tuple[str, ...] = ()
    """Names of the policies that the document holds."""
    left: Mapping[str, str] = {}
    """Names of the policies that do not fit, and the reason of each."""
    closed: str = ""
    """Why nothing is let into the namespace; empty where it is open."""


def policy_set(
    sources: Sequence[Source], namespace: str, release: str, reserved: Reserved, *, closed: str = ""
) -> PolicySet:
    """Return the set of the policies of one namespace. `closed`: why nothing is let in, if that is known already."""
    ordered = sorted(sources, key=lambda one: one.policy.name)
    spec: JsonObject = {
        "policies": [{"name": one.policy.name, "uid": one.uid, "generation": one.generation} for one in ordered],
        "enforce": _enforced((one.policy for one in ordered), reserved),
    }
    if closed:
        spec["closed"] = closed
    labels = {**LABELS, RELEASE_LABEL: label_of(release)}
    for mode, label in TELLS_LABEL.items():
        told = _telling((one.policy for one in ordered), mode, reserved)
        if told["rules"]:
            spec[mode] = told
            labels[label] = "true"
    if not sources and not closed:
        return PolicySet(None)
    version = sha256(msgspec.json.encode(spec, order="deterministic")).hexdigest()[:32]
    owners = [
        {"apiVersion": f"{GROUP}/{VERSION}", "kind": KIND, "name": one.policy.name, "uid": one.uid} for one in ordered
    ]
    document = {
        "apiVersion": f"{GROUP}/{VERSION}",
        "kind": SET_KIND,
        "metadata": {"name": SET_NAME, "namespace": namespace, "labels": labels, "ownerReferences": owners},
        "spec": {"version": version, **spec},
    }
    return PolicySet(document, version, tuple(one.policy.name for one in ordered), {}, closed)


def label_of(release: str) -> str:
    """The release as a label's value, which has 63 characters at most."""
    return release if len(release) <= 63 else f"{release[:46]}-{sha256(release.encode()).hexdigest()[:16]}"


class _Criteria:
    """The criteria of some rules, and the numbers that they have got."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[str, Requirement], int] = {}
        self.tables: JsonObject = {}

    def of(self, rule: Rule) -> tuple[list[int], list[int]]:
        """Return the numbers of the criteria that must be met, and of those that must not be."""
        there: list[int] = []
        absent: list[int] = []
        for field, criteria in (("label", rule.predicate.labels), ("annotation", rule.predicate.annotations)):
            for one in criteria:
                match one.operator:
                    case "In" | "Exists":
                        there.append(self.number(field, one))
                    case "NotIn":
                        absent.append(self.number(field, Requirement(one.key, "In", one.values)))
                    case "DoesNotExist":
                        absent.append(self.number(field, Requirement(one.key, "Exists")))
        return _once(there), _once(absent)

    def number(self, field: str, criterion: Requirement) -> int:
        """Return the number of a criterion, whose operator is In or Exists; of a kind, the key is empty."""
        known = self._numbers.get((field, criterion))
        if known is not None:
            return known
        number = self._numbers[field, criterion] = len(self._numbers)
        if field == "kind":
            for kind in sorted(criterion.values):
                self._at("kinds").setdefault(kind, []).append(number)
        elif (field, criterion.key) == ("annotation", keys.QOS):
            for found in CLASSES:
                if criterion.operator == "Exists" or found in criterion.values:
                    self._at("classes").setdefault(found, []).append(number)
            self._put("stamp", criterion, number)
        else:
            self._put(field, criterion, number)
        return number

    def _put(self, field: str, criterion: Requirement, number: int) -> None:
        if criterion.operator == "Exists":
            self._at(f"{field}Keys").setdefault(criterion.key, []).append(number)
            return
        values = self._at(f"{field}Values").setdefault(criterion.key, {})
        for value in sorted(criterion.values):
            values.setdefault(value, []).append(number)

    def _at(self, table: str) -> JsonObject:
        found: JsonObject = self.tables.setdefault(table, {})
        return found


def _enforced(policies: Iterable[Policy], reserved: Reserved) -> JsonObject:
    criteria = _Criteria()
    rejects: list[JsonObject] = []
    writes: list[JsonObject] = []
    for rule in _rules(policies, "enforce"):
        there, absent = criteria.of(rule)
        if rule.action.reject:
            rejects.append({"all": there, "none": absent, "says": _line(rule.rejection)})
            continue
        written = [write for write in rule.writes if _is_made(write, reserved)]
        if free := [write for write in written if not _is_stamp(write)]:
            writes.append({"all": there, "none": absent, **_written(free)})
        if stamps := [write for write in written if _is_stamp(write)]:
            writes.append({"all": there, "none": _once([*absent, _pod(criteria)]), **_written(stamps)})
    return {**criteria.tables, "rejects": rejects, "writes": writes}


def _written(writes: Iterable[Write]) -> JsonObject:
    """Return what a rule writes, as pairs of a path and a value, and the scheduler that it chooses."""
    found: JsonObject = {}
    for write in writes:
        pair = [pointer("metadata", f"{write.field}s", write.key), write.value]
        found.setdefault(f"{write.field}s", []).append(pair)
        if (write.field, write.key) == ("annotation", keys.SCHEDULER_NAME):
            found["scheduler"] = write.value
    return found


def _telling(policies: Iterable[Policy], mode: Mode, reserved: Reserved) -> JsonObject:
    criteria = _Criteria()
    rules = []
    for rule in _rules(policies, mode):
        there, absent = criteria.of(rule)
        if rule.action.reject:
            said = _line(rule.would_reject) if mode == "warn" else f"{rule.place}:reject"
            rules.append({"all": there, "none": absent, "says": said})
            continue
        for write, announced in rule.announced:
            if _is_made(write, reserved):
                as_it_is = criteria.number(write.field, Requirement(write.key, "In", frozenset([write.value])))
                less = [*absent, as_it_is, *([_pod(criteria)] if _is_stamp(write) else [])]
                said = _line(announced) if mode == "warn" else f"{rule.place}:write"
                rules.append({"all": there, "none": _once(less), "says": said})
    return {**criteria.tables, "rules": rules}


def _rules(policies: Iterable[Policy], mode: Mode) -> Iterator[Rule]:
    return (rule for policy in policies if policy.mode == mode for rule in policy.rules)


def _is_made(write: Write, reserved: Reserved) -> bool:
    return reserved.why(write.key, write.power) is None


def _is_stamp(write: Write) -> bool:
    """Return whether a write is the QoS class of a pod, which is no rule's; on other objects it is like any other."""
    key: tuple[Field, str] = (write.field, write.key)
    return key == ("annotation", keys.QOS)


def _pod(criteria: _Criteria) -> int:
    return criteria.number("kind", Requirement("", "In", frozenset(["Pod"])))


def _once(numbers: Iterable[int]) -> list[int]:
    return list(dict.fromkeys(numbers))


def _line(said: str) -> str:
    return " ".join(said.split("\n"))
