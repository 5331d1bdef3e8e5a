"""All writes of all matching rules as one: who wins where two differ, and what is not written at all.

Rules come in their one order (policy name, rule index); of two that differ on a key the later wins. Three guards: a
label that the object's owner finds it by is not overwritten, the QoS stamp of a pod is nobody's to write, and keys
that are reserved (`powers`) are no policy's. Each write is looked at once, and each guard looks up its key.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from podberth.model.selectors import LabelSelector, Requirement
from podberth.policy import keys
from podberth.policy.objects import Snapshot
from podberth.policy.powers import Reserved
from podberth.policy.spec import Field, Rule, Write

RESERVED = Reserved()


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


class Guards:
    """What owners and the cluster's admin keep policies from writing, looked up by key."""

    def __init__(self, owners: Iterable[LabelSelector] = (), reserved: Reserved = RESERVED) -> None:
        self._reserved = reserved
        self._all = bool(reserved.more)
        self._asked: dict[str, list[Requirement]] = {}
        for owner in owners:
            for requirement in owner.requirements:
                self._asked.setdefault(requirement.key, []).append(requirement)

    def withholds(self, write: Write, is_pod: bool) -> str | None:
        """Return why no policy may write this key, whatever is there; None when policies may."""
        if is_pod and (write.field, write.key) == ("annotation", keys.QOS):
            return "the QoS stamp is no policy's to write"
        why = self._reserved.why(write.key, write.power) if self._all or write.power else None
        return None if why is None else f"the key is reserved ({why})"

    def may_write(self, key: str, old: str | None, new: str) -> bool:
        """Return whether a label may change from one value (None: absent) to another under the owner guard.

        An existing label that an owner's selector uses is never overwritten; an absent one is not added where the
        selector wants it absent (it would not find the object any more).
        """
        asked = self._asked.get(key, ())
        if old is not None:
            return not asked and key not in keys.OWNERS_OWN
        return all(requirement.accepts(new) for requirement in asked)

    def changes(self, rule: Rule, snapshot: Snapshot, is_pod: bool) -> Iterator[tuple[Write, str]]:
        """A rule's writes that would change something, were it alone, and what mode warn says of them."""
        for announced in rule.announced:
            write = announced[0]
            old = (snapshot.labels if write.field == "label" else snapshot.annotations).get(write.key)
            if old == write.value or self.withholds(write, is_pod) is not None:
                continue
            if write.field == "annotation" or self.may_write(write.key, old, write.value):
                yield announced


def merge(rules: Iterable[Rule], snapshot: Snapshot, is_pod: bool, guards: Guards | None = None) -> Merged:
    """The writes of rules that matched, given in order."""
    guards = guards or Guards()
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
        if (why := guards.withholds(last, is_pod)) is not None:
            if old != last.value or last.key == keys.QOS:
                skipped.append(Skipped(last, why))
            continue
        if len(writes) > 1 and any(write.value != last.value for write in writes):
            conflicts.append(Conflict(tuple(writes)))
        if old == last.value:
            continue
        if field == "annotation":
            annotations[key] = last
        elif guards.may_write(key, old, last.value):
            labels[key] = last
        else:
            skipped.append(Skipped(last, "the object's owner finds it by this label"))
    return Merged(labels, annotations, conflicts, skipped)
