"""The policies of one namespace as data that the API server's own admission policies read: one object, their set.

The CEL of `admission_policies` is the same for every namespace; everything that differs is in the set, in the form that
costs the API server least. It is a LimitRange without limits, and its annotations are the data: the API server reads
kinds of its own where they are, while it copies an object of any other kind for each expression, all of it. It has all
LimitRanges in memory for itself, and no role for tenants may write them (docs/decisions/0032).

An object comes to *facts*: `app` and `app=web` for a label, `@note` and `@note=text` for an annotation, `#Pod` or
`#Deployment.apps` for its kind; the QoS class of a pod is its annotation. A rule is a line of fields: facts that have
to hold, facts that must not, sets of facts of which one has to hold, and what it says or writes. One fact of each rule
is its trigger: where it does not hold as the rule needs it, the rule's line is not looked at.

Lists of text are joined by the separators that ASCII has for that; `policy.parse` lets none of these in. A policy that
is too large is left out, and then, if it rejects, the namespace is closed. What modes warn and observe tell of a
write that would change nothing is left out by one more fact that must not hold: what the write makes. Writes to
reserved keys are left out here. Pure; next stage: the operator writes the set.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import sha256

import msgspec
from msgspec import Struct

from podberth.model.selectors import Requirement
from podberth.policy import bounds, keys
from podberth.policy.evaluate import pointer
from podberth.policy.exempt import SET
from podberth.policy.keys import Reserved
from podberth.policy.objects import JsonObject
from podberth.policy.spec import GROUP, KIND, VERSION, Mode, Policy, Rule, Write

API_VERSION, SET_KIND, SET_PLURAL = "v1", "LimitRange", "limitranges"
SET_NAME = SET
"""Each namespace has one set, of this name."""
RELEASE_LABEL = f"{GROUP}/release"
TELLS_LABEL = f"{GROUP}/tells"
"""On a set that has rules of modes warn and observe; no other set is read by the admission policy that tells of them.
"""
LABELS = {"app.kubernetes.io/managed-by": "berth", "app.kubernetes.io/component": "policy"}

VERSION_KEY, POLICIES_KEY, CLOSED_KEY = f"{GROUP}/version", f"{GROUP}/policies", f"{GROUP}/closed"
"""Annotations: the digest of the rest, what the set was made of (JSON), and why nothing is let in."""
BY_CLASS_KEY = f"{GROUP}/by-class"
"""The annotation of a set in which some rule that enforces asks for the QoS class of pods."""
RULES = ("rejects", "writes", "warns", "observes")
"""Annotations of this group that hold rules; `if-any`, `unless-all` and `triggers` are there for each."""
READERS: Mapping[str, Sequence[str]] = {
    "mutating": ("rejects", "writes"),
    "rejects": ("rejects",),
    "tells": ("warns", "observes"),
}
"""Who asks for facts, and about which rules; `labels` and `annotations` of each are the keys of these facts."""
ITEM, FIELD, RECORD, PAIR = "\x1c", "\x1d", "\x1e", "\x1f"
NEVER = "="
"""No object comes to this fact, and every object to the fact that is empty. What is never triggered has it."""
LONGEST_TRIGGER = 128
"""Characters of a trigger, which the set holds three times."""
LARGEST = 224 * 1024
"""Bytes of a set; the annotations of an object may have 256 KiB together."""
MOST_WORK = 50_000
"""Comparisons of facts, at most, that one expression makes for one object. The API server would allow 1,000,000."""
_FACT, _LINE, _WRITE = 8, 150, 100
"""The cost of reading a fact, of looking at a line, and of making a write, in comparisons (docs/decisions/0032)."""
CLOSED = (
    "a policy of this namespace that rejects is more than the API server may spend on it, and is not enforced: "
    "nothing is let in until policies are deleted or made smaller (kubectl get mdp shows which are enforced by nobody)"
)
"""The answer to whoever creates something in a namespace that is closed."""


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
    tells: bool = False
    """Some policy that the document holds is in a mode that changes nothing."""


def policy_set(
    sources: Sequence[Source], namespace: str, release: str, reserved: Reserved, *, closed: str = ""
) -> PolicySet:
    """Return the set of the policies of one namespace. `closed`: why nothing is let in, if that is known already.

    Policies without a UID, as those of files, do not own the set.
    """
    ordered = sorted(sources, key=lambda one: one.policy.name)
    fitted, left = _fit([one.policy for one in ordered], reserved)
    if any(bounds.price(one.policy).kind == 0 for one in ordered if one.policy.name in left):
        closed = closed or CLOSED
    if not fitted and not closed:
        return PolicySet(None, left=left)
    made = [
        {"name": one.policy.name, "uid": one.uid, "generation": one.generation}
        for one in ordered
        if one.policy.name not in left  # which may be many more than an object has room for
    ]
    data = {POLICIES_KEY: msgspec.json.encode(made).decode(), **_data(fitted)}
    if closed:
        data[CLOSED_KEY] = closed
    version = sha256(msgspec.json.encode(data, order="deterministic")).hexdigest()[:32]
    tells = any(one.tells for one in fitted)
    owners = [
        {"apiVersion": f"{GROUP}/{VERSION}", "kind": KIND, "name": one.policy.name, "uid": one.uid}
        for one in ordered
        if one.uid
    ]
    document = {
        "apiVersion": API_VERSION,
        "kind": SET_KIND,
        "metadata": {
            "name": SET_NAME,
            "namespace": namespace,
            "labels": {**LABELS, RELEASE_LABEL: label_of(release), **({TELLS_LABEL: "true"} if tells else {})},
            "annotations": {VERSION_KEY: version, **data},
            "ownerReferences": owners,
        },
        "spec": {"limits": []},
    }
    return PolicySet(document, version, tuple(one.name for one in fitted), left, closed, tells)


def label_of(release: str) -> str:
    """Return the release as a label's value, which has 63 characters at most."""
    return release if len(release) <= 63 else f"{release[:46]}-{sha256(release.encode()).hexdigest()[:16]}"


def key_of(name: str) -> str:
    """Return the annotation that holds a part of the set."""
    return f"{GROUP}/{name}"


class _Line(Struct, frozen=True):
    """One rule: the facts that it is about, and the other fields of its line."""

    there: tuple[str, ...]
    absent: tuple[str, ...]
    one_of: tuple[tuple[str, ...], ...]
    rest: tuple[str, ...]

    @property
    def trigger(self) -> str:
        """The fact without which the rule never holds; with ! before it, the one with which it never does."""
        certain = [fact for fact in self.there if len(fact) <= LONGEST_TRIGGER]
        if certain:
            return max(certain, key=lambda fact: "=" in fact)
        for fact in (*self.there, *(facts[0] for facts in self.one_of if not facts[0].startswith("#"))):
            return fact.partition("=")[0]
        return next((f"!{fact}" for fact in self.absent if len(fact) <= LONGEST_TRIGGER), "")

    def __str__(self) -> str:
        """Return the line. That the trigger holds, or does not, is known when the line is looked at."""
        trigger = self.trigger
        there = ITEM.join(fact for fact in self.there if fact != trigger)
        absent = ITEM.join(fact for fact in self.absent if f"!{fact}" != trigger)
        groups = ITEM.join(PAIR.join(facts) for facts in self.one_of)
        return FIELD.join([there, absent, groups, *self.rest])


class _Lines(Struct, frozen=True):
    """A policy as lines, by the rules that they belong to."""

    name: str
    lines: Mapping[str, Sequence[_Line]]

    @property
    def tells(self) -> bool:
        """Return whether it has something to tell of in a mode that changes nothing."""
        return any(lines for name, lines in self.lines.items() if name in READERS["tells"])

    def all(self) -> Iterator[_Line]:
        """Yield all its lines."""
        for lines in self.lines.values():
            yield from lines


def _fit(policies: Sequence[Policy], reserved: Reserved) -> tuple[list[_Lines], dict[str, str]]:
    """Return the policies that fit, in their order, and why each of the others does not. Those that reject go first."""
    fitted: dict[str, _Lines] = {}
    left: dict[str, str] = {}
    held = _Weight()
    for policy in sorted(policies, key=lambda one: bounds.price(one).kind):
        lines = _policy(policy, reserved)
        alone = _weight(lines)
        together = held.plus(alone)
        if together.size > LARGEST:
            left[policy.name] = (
                f"with its {alone.size} bytes the policies of this namespace have more than {LARGEST} bytes together"
            )
        elif together.work > MOST_WORK:
            left[policy.name] = (
                f"with its work of {alone.work} units the policies of this namespace take up to {together.work} units "
                f"for one object, {MOST_WORK} at most, which is too much work for the API server"
            )
        else:
            fitted[policy.name] = lines
            held = together
    return [fitted[one.name] for one in policies if one.name in fitted], dict(sorted(left.items()))


class _Weight(Struct, frozen=True):
    """What some policies take: bytes, keys of which an object may have facts, facts in lines, and the units of rest."""

    bytes: int = 600
    keys: frozenset[str] = frozenset()
    facts: int = 0
    rest: int = 0

    def plus(self, other: "_Weight") -> "_Weight":
        """Return the weight of both together."""
        both = self.bytes + other.bytes, self.keys | other.keys, self.facts + other.facts, self.rest + other.rest
        return _Weight(*both)

    @property
    def size(self) -> int:
        """Bytes of all texts."""
        return self.bytes + 2 * sum(len(key.encode()) + 1 for key in self.keys)

    @property
    def work(self) -> int:
        """Units for an object that has all the keys: it comes to two facts for each, and to four others."""
        return (2 * len(self.keys) + 4 + _FACT) * self.facts + self.rest


def _weight(policy: _Lines) -> _Weight:
    lines = list(policy.all())
    size = sum(len(str(line).encode()) + 3 * len(line.trigger.encode()) + 4 for line in lines)
    facts = [fact for line in lines for fact in _facts(line)]
    writes = sum(part.count(PAIR) for line in policy.lines.get("writes", ()) for part in line.rest)
    made_of = 100 + len(policy.name)  # the place among the policies that the set was made of
    return _Weight(
        size + made_of,
        frozenset(fact.partition("=")[0] for fact in facts),
        len(facts) + len(lines),
        _LINE * len(lines) + _WRITE * writes,
    )


def _policy(policy: Policy, reserved: Reserved) -> _Lines:
    found: dict[str, list[_Line]] = {}
    for rule in policy.rules:
        for name, line in _lines(rule, policy.mode, reserved):
            found.setdefault(name, []).append(line)
    return _Lines(policy.name, found)


def _data(policies: Sequence[_Lines]) -> dict[str, str]:
    found = {name: [line for policy in policies for line in policy.lines.get(name, ())] for name in RULES}
    tells = any(policy.tells for policy in policies)
    data: dict[str, str] = {}
    for reader, names in READERS.items():
        if tells or reader != "tells":
            data |= _asked(reader, [line for name in names for line in found[name]])
            for name in names:
                data |= _rules(name, found[name])
    if any(keys.QOS in fact for name in READERS["mutating"] for line in found[name] for fact in _facts(line)):
        data[BY_CLASS_KEY] = "true"
    return data


def _rules(name: str, lines: Sequence[_Line]) -> dict[str, str]:
    triggers = [line.trigger for line in lines]
    positive = dict.fromkeys(one for one in triggers if not one.startswith("!"))
    negative = dict.fromkeys(one[1:] for one in triggers if one.startswith("!"))
    return {
        key_of(name): RECORD.join(map(str, lines)),
        key_of(f"{name}.triggers"): RECORD.join(triggers),
        key_of(f"{name}.if-any"): RECORD.join(positive) if positive else NEVER,
        key_of(f"{name}.unless-all"): RECORD.join(negative),
    }


def _asked(reader: str, lines: Iterable[_Line]) -> dict[str, str]:
    """Return the keys whose facts are needed, but for those that every object comes to."""
    found: dict[str, set[str]] = {"labels": set(), "annotations": set()}
    for line in lines:
        for fact in _facts(line):
            key = fact.partition("=")[0]
            if key and not key.startswith("#") and key != f"@{keys.QOS}":
                found["annotations" if key.startswith("@") else "labels"].add(key.removeprefix("@"))
    return {key_of(f"{reader}.{field}"): RECORD.join(sorted(asked)) for field, asked in found.items()}


def _facts(line: _Line) -> Iterator[str]:
    yield from line.there
    yield from line.absent
    for facts in line.one_of:
        yield from facts


def _lines(rule: Rule, mode: Mode, reserved: Reserved) -> Iterator[tuple[str, _Line]]:
    """Yield the lines of a rule, and which rules they belong to."""
    there: list[str] = []
    absent: list[str] = []
    one_of: list[tuple[str, ...]] = []
    if rule.applies_to:
        kinds = tuple(f"#{kind}" for kind in rule.applies_to)
        one_of.append(kinds) if len(kinds) > 1 else there.extend(kinds)
    for prefix, criteria in (("", rule.predicate.labels), ("@", rule.predicate.annotations)):
        for one in criteria:
            facts = _facts_of(prefix, one)
            if one.operator in ("NotIn", "DoesNotExist"):
                absent += facts
            elif len(facts) == 1:
                there += facts
            else:
                one_of.append(facts)

    def line(*rest: str, but_for: Sequence[str] = ()) -> _Line:
        return _Line(_once(there), _once([*absent, *but_for]), tuple(dict.fromkeys(one_of)), rest)

    section = {"enforce": "rejects", "warn": "warns", "observe": "observes"}[mode]
    if rule.action.reject:
        said = {"enforce": rule.rejection, "warn": rule.would_reject, "observe": f"{rule.place}:reject"}[mode]
        yield section, line(_on_one_line(said))
        return
    made = [(write, told) for write, told in rule.announced if reserved.why(write.key, write.reserved_for) is None]
    if mode == "enforce":
        # A pod's QoS class is no rule's to write; on other objects the annotation is like any other.
        for but_for, writes in (
            ((), [write for write, _ in made if not _is_stamp(write)]),
            (("#Pod",), [write for write, _ in made if _is_stamp(write)]),
        ):
            if writes:
                yield "writes", line(*_written(writes), but_for=but_for)
        return
    for write, told in made:
        unless = [f"{'@' if write.field == 'annotation' else ''}{write.key}={write.value}"]
        if _is_stamp(write):
            unless.append("#Pod")
        yield section, line(told if mode == "warn" else f"{rule.place}:write", but_for=unless)


def _facts_of(prefix: str, criterion: Requirement) -> tuple[str, ...]:
    if criterion.operator in ("In", "NotIn"):
        return tuple(f"{prefix}{criterion.key}={value}" for value in sorted(criterion.values))
    return (f"{prefix}{criterion.key}",)


def _written(writes: Sequence[Write]) -> tuple[str, str, str]:
    """Return the scheduler that a rule chooses, whether it writes labels, and JSON pointers with their values."""
    named = [one.value for one in writes if (one.field, one.key) == ("annotation", keys.SCHEDULER_NAME)]
    pairs = [f"{pointer('metadata', f'{one.field}s', one.key)}{PAIR}{one.value}" for one in writes]
    return "".join(named), "labels" if any(one.field == "label" for one in writes) else "", ITEM.join(pairs)


def _is_stamp(write: Write) -> bool:
    return (write.field, write.key) == ("annotation", keys.QOS)


def _once(facts: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(facts))


def _on_one_line(said: str) -> str:
    return " ".join(said.split("\n"))
