"""All writes of all matching rules as one: who wins where two differ, and what is not written at all.

Rules come in their one order (policy name, rule index); of two that differ on a key the later wins. Two guards: a
label that the object's owner finds it by is not overwritten, and the QoS stamp of a pod is nobody's to write.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from scheduler.model.selectors import LabelSelector
from scheduler.policy import keys
from scheduler.policy.objects import Snapshot
from scheduler.policy.spec import Field, Rule, Write


class Conflict(NamedTuple):
    """Rules that differ on a key, in order; the last wins."""

    writes: tuple[Write, ...]


class Skipped(NamedTuple):
    """A write that a guard kept back."""

    write: Write
    reason: str


class Merged(NamedTuple):
    """The outcome: what is written, and what there is to say about it."""

    labels: Mapping[str, Write]
    annotations: Mapping[str, Write]
    conflicts: list[Conflict]
    skipped: list[Skipped]


def merge(rules: Iterable[Rule], snapshot: Snapshot, is_pod: bool, owners: tuple[LabelSelector, ...] = ()) -> Merged:
    """The writes of rules that matched, given in order."""
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
        if is_pod and (field, key) == ("annotation", keys.QOS):
            skipped.append(Skipped(last, "the QoS stamp is no policy's to write"))
            continue
        if len(writes) > 1 and any(write.value != last.value for write in writes):
            conflicts.append(Conflict(tuple(writes)))
        old = (snapshot.labels if field == "label" else snapshot.annotations).get(key)
        if old == last.value:
            continue
        if field == "annotation":
            annotations[key] = last
        elif may_write(key, old, last.value, owners):
            labels[key] = last
        else:
            skipped.append(Skipped(last, "the object's owner finds it by this label"))
    return Merged(labels, annotations, conflicts, skipped)


def may_write(key: str, old: str | None, new: str, owners: tuple[LabelSelector, ...]) -> bool:
    """Whether a label may change from one value (None: absent) to another under the owner guard.

    An existing label that an owner's selector uses is never overwritten; an absent one is not added where the selector
    wants it absent (it would not find the object any more).
    """
    if old is not None and key in keys.OWNERS_OWN:
        return False
    for owner in owners:
        for requirement in owner.requirements:
            if requirement.key == key and (old is not None or not requirement.accepts(new)):
                return False
    return True
