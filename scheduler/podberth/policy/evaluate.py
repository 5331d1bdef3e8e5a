"""Evaluates all policies of a namespace for one object, and returns the verdict.

The story of a request: exempt, or not; a pod gets its QoS stamp; every rule is asked about that one snapshot; rejects
first, all reasons named; else all writes merged into one patch; then, for a pod being created, the annotation that
names a scheduler becomes `spec.schedulerName`. The validating pass asks the rejects again about the final object.
The seed's promise (any reject: rejected and not mutated; order unspecified) holds as nothing is written in between.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Literal, NamedTuple

from msgspec import Struct, structs

from podberth.model.mistakes import as_json
from podberth.model.quantity import QuantityError
from podberth.model.selectors import LabelSelector
from podberth.policy import keys, objects
from podberth.policy.exempt import exemption
from podberth.policy.keys import RESERVED, Reserved
from podberth.policy.objects import JsonObject, Snapshot
from podberth.policy.options import NO_OPTIONS, Options
from podberth.policy.qos import CLASSES, QosClass, qos_class
from podberth.policy.spec import Field, Policies, Policy, Rule, Write, cut, warning

Operation = Literal["CREATE", "UPDATE", "DELETE", "CONNECT"]
OPERATIONS: tuple[Operation, ...] = ("CREATE", "UPDATE", "DELETE", "CONNECT")
MOST_WARNINGS = 30
MOST_REASONS = 32
AUDIT_LENGTH = 1024


class Effect(Struct, frozen=True):
    """The effect of one policy, or in modes warn and observe the one that it would have; the audit counts these."""

    policy: str
    rejected: bool
    mutated: bool


class Verdict(Struct, frozen=True):
    """The answer to one request. `object` is the object after the patch; the given one when denied or unchanged."""

    object: JsonObject | None
    allowed: bool = True
    message: str = ""
    patch: list[JsonObject] = []
    """The change as RFC 6902 operations."""
    warnings: list[str] = []
    audit: Mapping[str, str] = {}
    effects: tuple[Effect, ...] = ()
    """In the mutating pass an effect for each policy that matched, in the validating pass for each that rejects."""
    conflicts: tuple[str, ...] = ()
    """Names of the policies that disagreed about this object."""
    lost: tuple[Write, ...] = ()
    """Labels by which an owner of the object (`Options.owner_selectors`) does not find it any more."""
    exempt: str | None = None
    """Why no policy applied, when none did."""

    @property
    def code(self) -> int:
        """The HTTP status of the answer."""
        return 200 if self.allowed else 403


def evaluate(
    policies: Policies,
    operation: Operation,
    obj: JsonObject | None,
    old: JsonObject | None = None,
    options: Options = NO_OPTIONS,
) -> Verdict:
    """Return the answer to one admission request. Nothing given is changed; `object` shares what it can with what was
    given.
    """
    exempt = exemption(operation, obj, old, options)
    if exempt is not None or obj is None:
        return Verdict(obj, exempt=exempt, audit={"exempt": exempt or ""})
    here = policies.of(options.namespace or objects.namespace(obj))
    request = _Request(here, operation, obj, old, options)
    return request.validated() if options.pass_ == "validate" else request.mutated()


def admitted(
    policies: Policies,
    operation: Operation,
    obj: JsonObject | None,
    old: JsonObject | None = None,
    options: Options = NO_OPTIONS,
) -> Verdict:
    """Return the answer to a request as an API server comes to it: the mutating pass, then the validating one on its
    result. `options.pass_` has no effect.

    The second one may reject what the first one wrote; nothing is written then. Both may warn.
    """
    first = evaluate(policies, operation, obj, old, structs.replace(options, pass_="mutate"))
    if not first.patch:
        return first
    second = evaluate(policies, operation, first.object, old, structs.replace(options, pass_="validate"))
    said = warnings([*first.warnings, *second.warnings])
    if second.allowed:
        return structs.replace(first, warnings=said)
    rejecting = {effect.policy for effect in second.effects}
    others = (structs.replace(one, mutated=False) for one in first.effects if one.policy not in rejecting)
    return structs.replace(second, object=obj, warnings=said, effects=(*second.effects, *others))


class _Request:
    """One object that policies apply to, and their results for it."""

    def __init__(
        self, policies: Policies, operation: Operation, obj: JsonObject, old: JsonObject | None, options: Options
    ) -> None:
        self.object = obj
        self.options = options
        self.creates = operation == "CREATE"
        self.is_pod = objects.is_pod(obj)
        self.said: list[str] = []
        self.stamp = self._stamp(obj, old) if self.is_pod else None
        self.snapshot = _stamped(objects.snapshot(obj), self.stamp)
        self.reserved = options.reserved
        self.changes: dict[int, Sequence[str]] = {}
        self.lost: tuple[Write, ...] = ()
        kind, labels, annotations = objects.kind(obj), self.snapshot.labels, self.snapshot.annotations
        self.matched: list[tuple[Policy, list[Rule]]] = []
        for policy in policies.policies:
            holding = [rule for rule in policy.rules if rule.matches(kind, labels, annotations)]
            if holding:
                self.matched.append((policy, holding))
        self.deciding = [rule for policy, rules in self.matched if policy.mode == "enforce" for rule in rules]
        self.rejecting = [rule for rule in self.deciding if rule.action.reject]

    def mutated(self) -> Verdict:
        """Return the verdict of the mutating pass."""
        if self.rejecting:
            return self._denied(denial(self.rejecting), self._effects(set()))
        merged = merge(self.deciding, self.snapshot, self.is_pod, self.reserved)
        patch = Patch(self.object)
        annotations = {key: write.value for key, write in merged.annotations.items()}
        if self.stamp is not None and (self.options.stamp or self._brought is not None):
            annotations[keys.QOS] = self.stamp
        patch.merge("metadata", "labels", {key: write.value for key, write in merged.labels.items()})
        patch.merge("metadata", "annotations", annotations)
        scheduler = annotations.get(keys.SCHEDULER_NAME, self.snapshot.annotations.get(keys.SCHEDULER_NAME))
        if self.is_pod and self.creates and scheduler is not None:
            self._choose(scheduler, patch)
        self.said += map(conflict_told, merged.conflicts)
        self.said += (skipped_told(*found) for found in merged.skipped)
        found = (lost(owner, self.snapshot.labels, merged.labels) for owner in self.options.owner_selectors)
        self.lost = tuple({write.key: write for writes in found for write in writes}.values())
        self.said += map(lost_told, self.lost)
        effective = {write.rule.policy for write in (*merged.labels.values(), *merged.annotations.values())}
        return self._allowed(merged, patch, effective, self._effects(effective))

    def validated(self) -> Verdict:
        """Return the verdict of the validating pass, on the object as it will be stored."""
        found = self._brought
        if self.stamp is not None and found is None and self.options.stamp:
            self.said.append(f"annotation {keys.QOS} is missing: the mutating webhook did not see this pod")
        elif self.stamp is not None and found is not None and found != self.stamp:
            shown = f"metadata.annotations[{keys.QOS}]: Invalid value: {as_json(found[:40])}"
            return self._denied(f"{shown}: the class of this pod is {self.stamp}", ())
        if self.rejecting:
            rejecting = {rule.policy for rule in self.rejecting}
            effects = tuple(
                Effect(policy.name, rejected=True, mutated=False)
                for policy, _ in self.matched
                if policy.name in rejecting
            )
            return self._denied(denial(self.rejecting), effects)
        return self._allowed(Merged({}, {}, [], []), Patch(self.object), set(), ())

    @property
    def _brought(self) -> str | None:
        """The stamp that the object has already, whoever wrote it."""
        return objects.snapshot(self.object).annotations.get(keys.QOS)

    def _stamp(self, obj: JsonObject, old: JsonObject | None) -> QosClass:
        """Return the class as it is, or will be, in `status.qosClass`: computed when the pod is created, then kept."""
        if self.options.pass_ == "mutate":
            # Whoever writes the pod writes any status too, at this point; only the stored pod's own is the server's.
            return (None if self.creates else _stored_class(old)) or self._computed(obj)
        stored, computed = _stored_class(obj), self._computed(obj)
        # An API server of another release may see pod-level resources differently; its users must not pay for that.
        return computed if objects.snapshot(obj).annotations.get(keys.QOS) == computed else stored or computed

    def _computed(self, obj: JsonObject) -> QosClass:
        try:
            return qos_class(obj)
        except QuantityError as error:
            self.said.append(f"QoS class Burstable assumed: {error}")
            return "Burstable"

    def _choose(self, scheduler: str, patch: Patch) -> None:
        """Move the scheduler name from the seed era's annotation to its field. The API server does not check the name,
        so it is checked here.
        """
        if not keys.is_subdomain(scheduler):
            self.said.append(f'annotation {keys.SCHEDULER_NAME} ignored: "{scheduler[:30]}" is not a scheduler\'s name')
            return
        patch.set("spec", "schedulerName", scheduler)
        live = self.options.live_schedulers
        if live is not None and scheduler not in live and scheduler != keys.DEFAULT_SCHEDULER:
            self.said.append(f'no live scheduler "{scheduler}": the pod will wait until there is one')

    def _allowed(self, merged: Merged, patch: Patch, effective: set[str], effects: tuple[Effect, ...]) -> Verdict:
        conflicting = {write.rule.policy for writes in merged.conflicts for write in writes}
        return Verdict(
            object=patch.object,
            patch=patch.operations,
            warnings=warnings(self.said, self._would()),
            audit=self._audit({"applied": _joined(sorted(effective))}),
            effects=effects,
            conflicts=tuple(sorted(conflicting)),
            lost=self.lost,
        )

    def _denied(self, message: str, effects: tuple[Effect, ...]) -> Verdict:
        return Verdict(
            object=self.object,
            allowed=False,
            message=message,
            warnings=warnings(self.said, self._would()),
            audit=self._audit({"rejected-by": _joined(rule.place for rule in self.rejecting)}),
            effects=effects,
        )

    def _would(self) -> Iterator[str]:
        """Yield what policies in mode warn would do, as warnings."""
        for policy, rules in self.matched:
            if policy.mode != "warn":
                continue
            for rule in rules:
                if rule.action.reject:
                    yield rule.would_reject
                yield from self._changes(rule)

    def _changes(self, rule: Rule) -> Sequence[str]:
        """Return the warnings about a rule's writes that would change something, were it the only rule."""
        found = self.changes.get(id(rule))
        if found is None:
            held = {"label": self.snapshot.labels, "annotation": self.snapshot.annotations}
            found = self.changes[id(rule)] = [
                told
                for write, told in rule.announced
                if held[write.field].get(write.key) != write.value
                and forbidden(write, self.is_pod, self.reserved) is None
            ]
        return found

    def _effects(self, effective: set[str]) -> tuple[Effect, ...]:
        """Return an effect for each policy that matched. An object that is rejected is mutated by no policy."""
        found = []
        for policy, rules in self.matched:
            rejected = any(rule.action.reject for rule in rules)
            if policy.mode == "enforce":
                mutated = policy.name in effective
            else:
                mutated = not rejected and any(self._changes(rule) for rule in rules)
            found.append(Effect(policy.name, rejected, mutated))
        return tuple(found)

    def _audit(self, more: dict[str, str]) -> dict[str, str]:
        found = {"matched": _joined(rule.place for _, rules in self.matched for rule in rules), **more}
        for mode in ("warn", "observe"):
            found[mode] = _joined(
                f"{rule.place}:{'reject' if rule.action.reject else 'write'}"
                for policy, rules in self.matched
                if policy.mode == mode
                for rule in rules
                if rule.action.reject or self._changes(rule)
            )
        if self.stamp is not None:
            found["qos"] = self.stamp
        return {key: value for key, value in found.items() if value}


def _stamped(snapshot: Snapshot, stamp: QosClass | None) -> Snapshot:
    if stamp is None:
        return snapshot
    return Snapshot(snapshot.labels, {**snapshot.annotations, keys.QOS: stamp})


def _stored_class(obj: JsonObject | None) -> QosClass | None:
    status = (obj or {}).get("status")
    stored = status.get("qosClass") if isinstance(status, dict) else None
    return next((found for found in CLASSES if found == stored), None)


def _joined(places: Iterable[str]) -> str:
    """Return places as an audit annotation holds them; the iteration stops when no more fit."""
    found: list[str] = []
    length = -1
    for place in places:
        found.append(place)
        length += len(place) + 1
        if length > AUDIT_LENGTH:
            break
    return cut(",".join(found), AUDIT_LENGTH)


# -- merging ----------------------------------------------------------------------------------------------------------


class Merged(NamedTuple):
    """What is written, and what there is to say about it."""

    labels: Mapping[str, Write]
    annotations: Mapping[str, Write]
    conflicts: list[tuple[Write, ...]]
    """Writes that differ on a key, in order; the last wins."""
    skipped: list[tuple[Write, str]]
    """Writes that are kept back, each with the reason."""


def forbidden(write: Write, is_pod: bool, reserved: Reserved) -> str | None:
    """Return the reason for which no policy may write this key, whatever its value; None: policies may."""
    if is_pod and write.key == keys.QOS and write.field == "annotation":
        return "the QoS stamp is no policy's to write"
    if not (write.reserved_for or reserved.more):
        return None
    why = reserved.why(write.key, write.reserved_for)
    return None if why is None else f"the key is reserved ({why})"


def merge(rules: Iterable[Rule], snapshot: Snapshot, is_pod: bool, reserved: Reserved = RESERVED) -> Merged:
    """Return the merged writes of rules that matched, given in order: by policy name and rule index.

    Of two that differ on a key the later wins. Two are kept back: the QoS stamp of a pod is nobody's to write, and keys
    that are reserved are no policy's. Each write is looked at once.
    """
    wished: dict[tuple[Field, str], list[Write]] = {}
    for rule in rules:
        for write in rule.writes:
            wished.setdefault((write.field, write.key), []).append(write)
    labels: dict[str, Write] = {}
    annotations: dict[str, Write] = {}
    conflicts: list[tuple[Write, ...]] = []
    skipped: list[tuple[Write, str]] = []
    for (field, key), writes in sorted(wished.items(), key=lambda item: item[0]):
        last = writes[-1]
        old = (snapshot.labels if field == "label" else snapshot.annotations).get(key)
        if (why := forbidden(last, is_pod, reserved)) is not None:
            if old != last.value or last.key == keys.QOS:
                skipped.append((last, why))
            continue
        if len(writes) > 1 and any(write.value != last.value for write in writes):
            conflicts.append(tuple(writes))
        if old != last.value:
            (labels if field == "label" else annotations)[key] = last
    return Merged(labels, annotations, conflicts, skipped)


def lost(owner: LabelSelector, labels: Mapping[str, str], written: Mapping[str, Write]) -> list[Write]:
    """Return the writes by which an owner's selector, which finds an object by these labels, finds it no more."""
    if not owner.matches(labels):
        return []
    asked = ((written.get(one.key), one) for one in owner.requirements)
    return [write for write, one in asked if write is not None and not one.accepts(write.value)]


# -- the patch --------------------------------------------------------------------------------------------------------


@lru_cache(4096)  # of keys that policies write, which are few and always the same
def pointer(*parts: str) -> str:
    """Return a JSON pointer (RFC 6901)."""
    return "".join("/" + part.replace("~", "~0").replace("/", "~1") for part in parts)


class Patch:
    """Collects RFC 6902 operations while it applies them to a copy, of which only maps on the way are new."""

    def __init__(self, obj: JsonObject) -> None:
        self.object = obj
        self.operations: list[JsonObject] = []

    def merge(self, above: str, field: str, writes: Mapping[str, str]) -> None:
        """Write into a map two levels down, as metadata.labels; a map that is absent or null is added whole."""
        held: Mapping[str, str] | None = (self.object.get(above) or {}).get(field)
        changed = {key: writes[key] for key in sorted(writes) if (held or {}).get(key) != writes[key]}
        if not changed:
            return
        if held is None:
            self.set(above, field, changed)
        else:
            self.operations += [
                {"op": "replace" if key in held else "add", "path": pointer(above, field, key), "value": value}
                for key, value in changed.items()
            ]
            self._put(above, field, {**held, **changed})

    def set(self, above: str, field: str, value: str | dict[str, str]) -> None:
        """Set what is two levels down, as spec.schedulerName."""
        holder = self.object.get(above)
        if (holder or {}).get(field) == value:
            return
        if holder is None:
            self.operations.append({"op": "add", "path": pointer(above), "value": {field: value}})
        else:
            known = "add" if holder.get(field) is None else "replace"
            self.operations.append({"op": known, "path": pointer(above, field), "value": value})
        self._put(above, field, value)

    def _put(self, above: str, field: str, value: str | dict[str, str]) -> None:
        self.object = {**self.object, above: {**(self.object.get(above) or {}), field: value}}


# -- words ------------------------------------------------------------------------------------------------------------


def warnings(texts: Iterable[str], short: Iterable[str] = ()) -> list[str]:
    """Return warnings as a response can carry them: short, each once, not too many. `short`: those that are already."""
    found = list(dict.fromkeys((*map(warning, texts), *short)))
    if len(found) <= MOST_WARNINGS:
        return found
    return [*found[: MOST_WARNINGS - 1], f"and {len(found) - MOST_WARNINGS + 1} more warnings about metadata policies"]


def denial(rules: list[Rule]) -> str:
    """Return all reasons, one after the other."""
    said = "; ".join(rule.rejection for rule in rules[:MOST_REASONS])
    return said if len(rules) <= MOST_REASONS else f"{said}; and {len(rules) - MOST_REASONS} more rules"


def conflict_told(writes: tuple[Write, ...]) -> str:
    """Return the text about rules that differ, and the one that wins."""
    wins = writes[-1]
    loses = next(write for write in writes if write.value != wins.value)
    return (
        f'{wins.field} {cut(wins.key, 40)}: {loses.rule.short_place} writes "{cut(loses.value, 16)}", '
        f'{wins.rule.short_place} writes "{cut(wins.value, 16)}" and wins'
    )


def skipped_told(write: Write, why: str) -> str:
    """Return the text about a write that was kept back."""
    return f"{write.field} {cut(write.key, 40)} not written for {write.rule.short_place}: {why}"


def lost_told(write: Write) -> str:
    """Return which label takes an object away from its owner."""
    return (
        f'label {cut(write.key, 40)}: {write.rule.short_place} writes "{cut(write.value, 16)}", '
        "and the object's owner does not find it any more"
    )
