"""Merges the writes of all matching rules: where two differ the later wins, and some are kept back.

Rules come in their one order (policy name, rule index); of two that differ on a key the later wins. Two writes are kept
back: the QoS stamp of a pod is nobody's to write, and keys that are reserved (`powers`) are no policy's. Each write is
looked at once.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from podberth.model.selectors import LabelSelector
from podberth.policy import keys
from podberth.policy.objects import Snapshot
from podberth.policy.powers import Reserved
from podberth.policy.spec import Field, Rule, Write

RESERVED = Reserved()


class Conflict(NamedTuple):
    """Rules that differ on a key, in order; the last wins."""

    writes: tuple[Write, ...]


class Skipped(NamedTuple):
    """A write that is kept back."""

    write: Write
    reason: str


class Merged(NamedTuple):
    """The outcome: what is written, and what there is to say about it."""

    labels: Mapping[str, Write]
    annotations: Mapping[str, Write]
    conflicts: list[Conflict]
    skipped: list[Skipped]


def withholds(write: Write, is_pod: bool, reserved: Reserved) -> str | None:
    """Return the reason for which no policy may write this key, whatever its value; None: policies may."""
    if is_pod and (write.field, write.key) == ("annotation", keys.QOS):
        return "the QoS stamp is no policy's to write"
    why = reserved.why(write.key, write.power) if reserved.more or write.power else None
    return None if why is None else f"the key is reserved ({why})"


def changes(rule: Rule, snapshot: Snapshot, is_pod: bool, reserved: Reserved) -> Iterator[tuple[Write, str]]:
    """Yield a rule's writes that would change something, were it the only rule, and the warning about each."""
    for announced in rule.announced:
        write = announced[0]
        old = (snapshot.labels if write.field == "label" else snapshot.annotations).get(write.key)
        if old != write.value and withholds(write, is_pod, reserved) is None:
            yield announced


def merge(rules: Iterable[Rule], snapshot: Snapshot, is_pod: bool, reserved: Reserved = RESERVED) -> Merged:
    """Return the merged writes of rules that matched, given in order."""
    wished: dict[tuple[Field, str], list[Write]] = {}
    for rule in rules:
        for write in rule.writes:
            wished.setdefault((write.field, write.key), []).append(write)
    labels: dict[str, Write] = {}
    annotations: dict[str, Write] = {}
    conflicts: list[Conflict] = []
    skipped: list[Skipped] = []
    for (field, key), writes in sorted(wished.items(), key=lambda item: item[0]):
        last = writes[-1]
        old = (snapshot.labels if field == "label" else snapshot.annotations).get(key)
        if (why := withholds(last, is_pod, reserved)) is not None:
            if old != last.value or last.key == keys.QOS:
                skipped.append(Skipped(last, why))
            continue
        if len(writes) > 1 and any(write.value != last.value for write in writes):
            conflicts.append(Conflict(tuple(writes)))
        if old != last.value:
            (labels if field == "label" else annotations)[key] = last
    return Merged(labels, annotations, conflicts, skipped)


def lost(owner: LabelSelector, labels: Mapping[str, str], written: Mapping[str, Write]) -> list[Write]:
    """Return the writes by which an owner's selector, which finds an object by these labels, finds it no more."""
    if not owner.matches(labels):
        return []
    asked = ((written.get(one.key), one) for one in owner.requirements)
    return [write for write, one in asked if write is not None and not one.accepts(write.value)]
