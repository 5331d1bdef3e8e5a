"""What is written and what is not: the diff of a status, its times, and the Events that go with it."""

from __future__ import annotations

import json
from typing import Any

from podberth.policy.operator import status
from podberth.policy.operator.judge import NOTHING_TOLD, Condition, Stored, conditions, read
from podberth.policy.operator.status import Change, Counts, Enforcement, change
from tests.unit.policy.build import rule
from tests.unit.policy.operator.conftest import stored_object

NOON, LATER = "2026-01-01T12:00:00Z", "2026-01-01T13:00:00Z"
OBJECT = stored_object("p", rule(set_labels={"team": "a"}), generation=3)


def with_status(found: dict[str, Any] | None, **metadata: Any) -> Stored:
    """The policy as it would be read back."""
    return read({**OBJECT, "metadata": {**OBJECT["metadata"], **metadata}, "status": found})


def good(one: Stored) -> tuple[Condition, ...]:
    """Its conditions when nothing is wrong."""
    return conditions(one, NOTHING_TOLD, frozenset())


def written(one: Stored, counts: Counts | None = None, now: str = NOON) -> Change:
    """A change that there has to be."""
    found = change(one, good(one), counts, now)
    assert found is not None
    return found


def test_first_write() -> None:
    """A policy without a status gets generation, rules and four dated conditions."""
    found = written(with_status(None)).status
    assert (found["observedGeneration"], found["rules"]) == (3, 1)
    assert [one["type"] for one in found["conditions"]] == [
        "Accepted",
        "Conflict",
        "SelfConsistent",
        "SchedulerAvailable",
    ]
    assert {one["lastTransitionTime"] for one in found["conditions"]} == {NOON}
    assert {one["observedGeneration"] for one in found["conditions"]} == {3}
    assert "audit" not in found


def test_nothing_to_write() -> None:
    """The same conditions at a later time are no change."""
    one = with_status(written(with_status(None), Counts(objects=3)).status)
    assert change(one, good(one), Counts(objects=3), LATER) is None
    assert change(one, good(one), None, LATER) is None


def test_new_generation_keeps_times() -> None:
    """A new spec with the same outcome is acknowledged without a transition."""
    one = with_status(written(with_status(None)).status, generation=4)
    found = written(one, now=LATER).status
    assert found["observedGeneration"] == 4
    assert {c["lastTransitionTime"] for c in found["conditions"]} == {NOON}


def test_transition() -> None:
    """Only the condition whose status changed gets a new time; a new message alone does not."""
    one = with_status(written(with_status(None)).status)
    accepted, _, consistent, scheduler = good(one)
    conflict = Condition("Conflict", "True", "ConflictingWrites", "left and right")
    reworded = Condition("SelfConsistent", consistent.status, consistent.reason, "other words")
    found = change(one, (accepted, conflict, reworded, scheduler), None, LATER)
    assert found is not None
    times = {c["type"]: c["lastTransitionTime"] for c in found.status["conditions"]}
    assert times == {"Accepted": NOON, "Conflict": LATER, "SelfConsistent": NOON, "SchedulerAvailable": NOON}
    assert found.told == [conflict]


def test_problems_are_told_once() -> None:
    """An Event goes with a problem when it is new or says something else, not as long as the status says it already."""
    one = with_status(written(with_status(None)).status)
    bad = Condition("SchedulerAvailable", "False", "NoLiveLease", "packed")
    first = change(one, (*good(one)[:3], bad), None, NOON)
    assert first is not None
    assert first.told == [bad]
    again = with_status(first.status, generation=9)
    second = change(again, (*good(again)[:3], bad), None, LATER)
    assert second is not None
    assert second.told == []
    other = Condition("SchedulerAvailable", "False", "NoLiveLease", "packed, spread")
    third = change(again, (*good(again)[:3], other), None, LATER)
    assert third is not None
    assert third.told == [other]


def test_the_printed_columns_show_what_is_wrong() -> None:
    """In one word each, and none once all is well; who enforces it has a column of its own."""
    one = with_status(None)
    poison = Condition("SelfConsistent", "False", "SelfPoison", "rejects its own changes")
    nobody = Condition("SchedulerAvailable", "False", "NoLiveLease", "no live scheduler serves it")
    nobody_enforces = Enforcement("None", "KindsMissing", "not enforced: no such kinds")
    found = change(one, (*good(one)[:2], poison, nobody), None, NOON, nobody_enforces)
    assert found is not None
    assert found.status["warnings"] == "SelfPoison, NoLiveLease"
    assert found.status["enforcement"]["way"] == "None"
    assert "applied" not in found.status["conditions"][0]["message"]
    well = change(with_status(found.status), good(one), None, NOON)
    assert well is not None
    assert well.status["warnings"] == ""
    assert "warnings" not in written(with_status(None)).status


def test_what_was_not_looked_at_anew_is_still_wrong() -> None:
    """While an audit or a long analysis is under way, the column says what the conditions say that stay; of an older
    spec they say nothing.
    """
    one = with_status(None)
    lost = Condition("OwnersIntact", "False", "OwnerSelector", "owners lose what they make")
    poison = Condition("SelfConsistent", "False", "SelfPoison", "rejects its own changes")
    found = change(one, (*good(one)[:2], poison, good(one)[3], lost), None, NOON)
    assert found is not None
    assert found.status["warnings"] == "SelfPoison, OwnerSelector"
    assert change(with_status(found.status), (), None, LATER) is None
    edited = with_status(found.status, generation=4)
    assert written(edited).status["warnings"] == ""


def test_others_conditions_stay() -> None:
    """Conditions of other writers are kept, and their presence is no difference."""
    foreign = {"type": "Blessed", "status": "True", "reason": "R", "message": "", "lastTransitionTime": NOON}
    found = written(with_status({"conditions": [foreign]})).status
    assert found["conditions"][-1] == foreign
    one = with_status({**found, "matched": {"count": 1}})
    assert change(one, good(one), None, LATER) is None


def test_audit_time_is_of_the_last_change() -> None:
    """An audit that counts the same again writes nothing; one that counts otherwise has a new time."""
    one = with_status(written(with_status(None), Counts(5, 1, 0, ["Pod team/x"])).status)
    assert one.status["audit"] == {"objects": 5, "rejected": 1, "mutated": 0, "examples": ["Pod team/x"], "time": NOON}
    assert change(one, good(one), Counts(5, 1, 0, ["Pod team/x"]), LATER) is None
    found = written(one, Counts(5, 2, 0, ["Pod team/x", "Pod team/y"]), LATER).status
    assert found["audit"]["time"] == LATER


def test_patch_is_of_this_very_object() -> None:
    """The patch goes to the status subresource, and fails for a namesake or a version that was not looked at."""
    path, body = status.patch(with_status(None, resourceVersion="77"), {"rules": 1})
    assert path == "/apis/podberth.dev/v1alpha1/namespaces/team/metadatapolicies/p/status"
    assert json.loads(body) == {"metadata": {"uid": "uid-p", "resourceVersion": "77"}, "status": {"rules": 1}}


def test_event_fits() -> None:
    """An Event regards the policy and its note fits, however long the message is."""
    long = Condition("Conflict", "True", "ConflictingWrites", "ü" * 2000)
    path, body = status.event(with_status(None), long, "instance", 0.0)
    found = json.loads(body)
    assert path == "/apis/events.k8s.io/v1/namespaces/team/events"
    assert found["regarding"]["kind"] == "MetadataPolicy"
    assert len(found["note"].encode()) <= 1024
    assert found["type"] == "Warning"
