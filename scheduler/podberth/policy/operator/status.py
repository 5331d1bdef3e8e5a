"""Writes that make a policy's conditions and counts true in the API, and the Events that go with them.

Pure: times are given. Nothing is written when nothing differs, and what others keep in the status stays.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import msgspec

from podberth.kube import writes
from podberth.kube.resources import EVENTS, METADATA_POLICIES
from podberth.kube.writes import Regarding, object_patch
from podberth.policy.operator.judge import Condition, Stored, is_warning

CONTROLLER = "podberth.dev/operator"
MOST_EXAMPLES = 10

JsonObject = dict[str, Any]


class Counts(msgspec.Struct):
    """Counts of what a policy would do to the objects that exist."""

    objects: int = 0
    rejected: int = 0
    mutated: int = 0
    examples: list[str] = msgspec.field(default_factory=list)
    lost: list[str] = msgspec.field(default_factory=list)
    """Owners that would not find what they make any more, each with the label and the rule."""
    problems: list[str] = msgspec.field(default_factory=list)
    """What the audit did not look at, and why; the same for all policies of a namespace."""


Way = Literal["Native", "Webhook", "None"]


class Enforcement(msgspec.Struct, frozen=True):
    """The one who enforces a policy, the reason in one word, and a sentence."""

    way: Way
    reason: str
    message: str
    older: bool = False
    """An older version of the policy is in force."""

    @property
    def condition(self) -> Condition:
        """As a condition of the policy."""
        if self.reason in ("NotAccepted", "ExemptNamespace"):
            return Condition("Enforced", "Unknown", self.reason, self.message)
        return Condition("Enforced", "False" if self.way == "None" else "True", self.reason, self.message)


NATIVE = Enforcement("Native", "Native", "the API server enforces the policy by itself")
OLDER = Enforcement("Native", "Native", "the API server enforces an older version of the policy for now", older=True)
NOT_ACCEPTED = Enforcement("None", "NotAccepted", "not enforced: the policy is not accepted")


def way_of(status: Mapping[str, Any]) -> str:
    """Return who enforces a policy, as its status says."""
    held = status.get("enforcement")
    return str(held.get("way", "")) if isinstance(held, dict) else ""


class Change(msgspec.Struct, frozen=True):
    """A status to write, and the conditions that deserve an Event."""

    status: JsonObject
    told: Sequence[Condition]


def change(
    stored: Stored,
    found: Sequence[Condition],
    counts: Counts | None,
    now: str,
    enforcement: Enforcement | None = None,
) -> Change | None:
    """Return what to write; None when the stored status says it all. `now`: RFC 3339, seconds.

    `counts` and `enforcement` None: as they are.
    """
    if enforcement is not None:
        found = (*found, enforcement.condition)
    listed = [one for one in stored.status.get("conditions") or [] if isinstance(one, dict)]
    before = {str(one.get("type")): one for one in listed}
    ours = [_dated(condition, before.get(condition.type), stored.generation, now) for condition in found]
    types = {condition.type for condition in found}
    kept = [one for one in listed if one.get("type") not in types]
    place = {str(one.get("type")): number for number, one in enumerate(listed)}
    # In the order that they have: which of ours are found anew may differ from look to look.
    conditions = sorted([*ours, *kept], key=lambda one: place.get(str(one.get("type")), -1))
    wanted: JsonObject = {
        "observedGeneration": stored.generation,
        "rules": stored.rules,
        "conditions": conditions,
    }
    warnings = ", ".join(str(one.get("reason")) for one in conditions if _warns(one, stored.generation))
    if warnings or stored.status.get("warnings"):
        wanted["warnings"] = warnings
    if counts is not None:
        wanted["audit"] = _audit(counts, stored.status.get("audit"), now)
    if enforcement is not None:
        wanted["enforcement"] = _block(enforcement, stored, now)
    if all(stored.status.get(field) == value for field, value in wanted.items()):
        return None
    told = [one for one in found if one.is_problem and not _says(before.get(one.type), one)]
    return Change(wanted, told)


def patch(stored: Stored, status: JsonObject) -> tuple[str, bytes]:
    """Return path and body of the PATCH (merge) of a status, of this very object in this very version."""
    return object_patch(
        METADATA_POLICIES,
        stored.namespace,
        stored.name,
        uid=stored.uid,
        resource_version=stored.resource_version,
        change={"status": status},
        subresource="status",
    )


def event(stored: Stored, condition: Condition, instance: str, moment: float) -> tuple[str, bytes]:
    """Return path and body of the POST of an Event about a policy."""
    kind = METADATA_POLICIES
    made = writes.event(
        Regarding(kind.api_version, kind.kind, stored.namespace, stored.name, stored.uid),
        kind="Warning",
        reason=condition.reason,
        action="Reconcile",
        note=condition.message,
        controller=CONTROLLER,
        instance=instance,
        moment=moment,
    )
    return EVENTS.path(stored.namespace), made.json()


def _warns(condition: Mapping[str, Any], generation: int) -> bool:
    """Return whether a condition as the API holds it is a problem of this spec."""
    said = (str(condition.get(field)) for field in ("type", "status", "reason"))
    return condition.get("observedGeneration") == generation and is_warning(*said)


def _block(found: Enforcement, stored: Stored, now: str) -> JsonObject:
    """`status.enforcement`: the time is kept while the way stays, the generation while an older version is in force."""
    before = stored.status.get("enforcement")
    kept = before if isinstance(before, dict) and before.get("way") == found.way else {}
    generation = kept.get("generation", 0) if found.older else stored.generation
    return {"way": found.way, "since": kept.get("since") or now, "generation": generation}


def _dated(condition: Condition, before: Mapping[str, Any] | None, generation: int, now: str) -> JsonObject:
    """Return the condition as the API holds it; the time of its last transition is kept while its status stays."""
    kept = before.get("lastTransitionTime") if before and before.get("status") == condition.status else None
    return {
        "type": condition.type,
        "status": condition.status,
        "reason": condition.reason,
        "message": condition.message,
        "lastTransitionTime": kept or now,
        "observedGeneration": generation,
    }


def _audit(counts: Counts, before: Any, now: str) -> JsonObject:
    """Return the counts with the time when they last changed: finding the same again is no reason to write."""
    found: JsonObject = {
        "objects": counts.objects,
        "rejected": counts.rejected,
        "mutated": counts.mutated,
        "examples": counts.examples[:MOST_EXAMPLES],
    }
    same = isinstance(before, dict) and all(before.get(field) == value for field, value in found.items())
    return {**found, "time": before.get("time") or now if same else now}


def _says(before: Mapping[str, Any] | None, condition: Condition) -> bool:
    """Return whether the stored condition says the same already: then it was told."""
    return before is not None and all(
        before.get(field) == getattr(condition, field) for field in ("status", "reason", "message")
    )
