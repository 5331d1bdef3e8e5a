"""What is said of policies: the four conditions, from the real analysis."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from podberth.policy.analyse import Finding, Report
from podberth.policy.operator import judge
from podberth.policy.operator.judge import MESSAGE_LENGTH, Condition, Stored
from podberth.policy.spec import Policies
from tests.unit.policy.build import NAME, has, needs, rule
from tests.unit.policy.operator.conftest import stored, stored_object

RULE_A = rule(set_labels={"team": "a"})
RULE_B = rule(set_labels={"team": "b"})
POISON = (rule(set_labels={"tier": "gold"}), rule(has(tier="gold"), reject=True))
CHAIN = (rule(set_labels={"one": "x"}), rule(has(one="x"), set_labels={"two": "y"}))


def judged(
    *all_stored: Stored, live: frozenset[str] | None = frozenset(), exempt: frozenset[str] = frozenset()
) -> Mapping[str, Mapping[str, Condition]]:
    """Conditions by policy and type."""
    found = judge.findings(all_stored).told
    return {
        one.name: {c.type: c for c in judge.conditions(one, found.get(one.name, judge.NOTHING_TOLD), live, exempt)}
        for one in all_stored
    }


def told(found: Mapping[str, Condition]) -> dict[str, tuple[str, str]]:
    """(status, reason) by type."""
    return {kind: (condition.status, condition.reason) for kind, condition in found.items()}


def test_good() -> None:
    """A policy with nothing wrong has four conditions that say so, and none is a problem."""
    found = judged(stored("good", rule(needs("owner", "DoesNotExist"), reject=True)))["good"]
    assert told(found) == {
        "Accepted": ("True", "Accepted"),
        "Conflict": ("False", "NoConflict"),
        "SelfConsistent": ("True", "Consistent"),
        "SchedulerAvailable": ("True", "NoneNamed"),
    }
    assert not any(condition.is_problem for condition in found.values())


def test_bad_spec() -> None:
    """A spec that can't be accepted is named with its path, and nothing else is claimed about it."""
    found = judged(stored("bad", rule(set_labels={"no key!": "x"})), stored("good", RULE_A))
    assert told(found["bad"]) == {
        "Accepted": ("False", "Invalid"),
        "Conflict": ("Unknown", "NotAccepted"),
        "SelfConsistent": ("Unknown", "NotAccepted"),
        "SchedulerAvailable": ("Unknown", "NotAccepted"),
    }
    assert "spec.rules[0].policyAction.updatedLabels[no key!]" in found["bad"]["Accepted"].message
    assert told(found["good"])["Accepted"] == ("True", "Accepted")


@pytest.mark.parametrize(
    ("spec", "status"),
    [(None, "True"), ([], "True"), ("x", "False"), ({"rules": {}}, "False"), ({"rules": [None]}, "False")],
)
def test_nonsense_specs(spec: object, status: str) -> None:
    """Whatever a laxer schema let in is read without an exception; what is empty has no rules."""
    document = {**stored_object("odd"), "spec": spec, "status": None}
    one = judge.read(document)
    assert judged(one)["odd"]["Accepted"].status == status


def test_conflict_is_told_of_both() -> None:
    """Two policies that write different values to one key are both told, with the other's name and an example."""
    found = judged(stored("left", RULE_A), stored("right", RULE_B), stored("third", rule(set_labels={"x": "y"})))
    for one, other in (("left", "right"), ("right", "left")):
        assert told(found[one])["Conflict"] == ("True", "ConflictingWrites")
        assert other in found[one]["Conflict"].message
        assert "for example {" in found[one]["Conflict"].message
    assert told(found["third"])["Conflict"] == ("False", "NoConflict")


@pytest.mark.parametrize(("rules", "reason"), [(POISON, "SelfPoison"), (CHAIN, "NotIdempotent")])
def test_inconsistent(rules: tuple[judge.JsonObject, ...], reason: str) -> None:
    """A policy whose own writes make a second pass reject or change is SelfConsistent=False."""
    assert told(judged(stored("p", *rules))["p"])["SelfConsistent"] == ("False", reason)


def test_observing_policies_do_not_disturb_others() -> None:
    """A policy that does not enforce is told what would be; one that enforces is not blamed for it."""
    found = judged(stored("left", RULE_A), stored("right", RULE_B, mode="observe"))
    assert told(found["left"])["Conflict"] == ("False", "NoConflict")
    assert told(found["right"])["Conflict"] == ("True", "ConflictingWrites")
    assert "mode observe" in found["right"]["Accepted"].message


def test_remarks() -> None:
    """What is odd but does no harm is a remark on Accepted."""
    dead = rule(
        {
            "matchExpressions": [
                needs("a", "Exists")["matchExpressions"][0],
                needs("a", "DoesNotExist")["matchExpressions"][0],
            ]
        },
        set_labels={"x": "y"},
    )
    found = judged(stored("p", dead, RULE_A))["p"]["Accepted"]
    assert (found.status, found.reason, found.is_problem) == ("True", "AcceptedWithRemarks", True)
    assert "never matches" in found.message


@pytest.mark.parametrize(
    ("scheduler", "live", "want"),
    [
        ("packed", frozenset({"packed"}), ("True", "Live")),
        ("packed", frozenset({"other"}), ("False", "NoLiveLease")),
        ("packed", None, ("Unknown", "LeasesUnknown")),
        ("default-scheduler", frozenset(), ("True", "NoneNamed")),
        ("default-scheduler", None, ("True", "NoneNamed")),
    ],
)
def test_scheduler_available(scheduler: str, live: frozenset[str] | None, want: tuple[str, str]) -> None:
    """A policy that names a scheduler is told whether it lives; the default one always does."""
    one = stored("p", rule(set_annotations={NAME: scheduler}))
    assert told(judged(one, live=live)["p"])["SchedulerAvailable"] == want


def test_only_pods_are_sent_to_a_scheduler() -> None:
    """On an object of another kind the annotation means nothing."""
    one = stored("p", rule(set_annotations={NAME: "gone"}, kinds=["Deployment.apps"]))
    assert told(judged(one, live=frozenset())["p"])["SchedulerAvailable"] == ("True", "NoneNamed")


def test_rejecting_rules_send_nobody() -> None:
    """The writes of a rule that rejects are void, so the scheduler in them need not live."""
    one = stored("p", rule(reject=True, set_annotations={NAME: "nobody"}))
    assert one.schedulers == frozenset()


def test_exempt_namespace() -> None:
    """Where no policy applies, a policy is not accepted, however good it is."""
    found = judged(stored("p", RULE_A), exempt=frozenset({"team"}))["p"]
    assert told(found)["Accepted"] == ("False", "ExemptNamespace")


def test_undecided(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the analysis could not decide is Unknown, not fine."""
    one = stored("p", RULE_A)
    report = Report((Finding("undecided", ("p",), ("p/rules[0]",), "too complex"),))
    monkeypatch.setattr(judge, "analyse", lambda *_, **__: report)
    found = judge.findings([one])
    assert not found.decided
    conditions = {c.type: c for c in judge.conditions(one, found.told["p"], frozenset())}
    assert conditions["Conflict"].message == "too complex"
    assert told(conditions)["Conflict"] == ("Unknown", "Undecided")
    assert told(conditions)["SelfConsistent"] == ("Unknown", "Undecided")


def test_messages_are_bounded() -> None:
    """However much there is to say, a message stays short and says how much is left out."""
    one = stored("p", RULE_A)
    many = tuple(Finding("conflicting-writes", ("p",), (), "x" * 900) for _ in range(40))
    condition = judge.conditions(one, judge.in_words(many), frozenset())[1]
    assert len(condition.message) <= MESSAGE_LENGTH
    assert condition.message.endswith("; and 35 more")


def test_analysis_is_asked_once_when_all_enforce(monkeypatch: pytest.MonkeyPatch) -> None:
    """The analysis can take seconds; it runs a second time only for policies that do not enforce."""
    asked: list[Policies] = []

    def ask(policies: Policies, **_: Any) -> Report:
        asked.append(policies)
        return Report()

    monkeypatch.setattr(judge, "analyse", ask)
    judge.findings([stored("a", RULE_A), stored("b", RULE_B)])
    assert len(asked) == 1
    judge.findings([stored("a", RULE_A), stored("b", RULE_B, mode="warn")])
    assert len(asked) == 3


def test_only_what_is_told_is_put_into_words() -> None:
    """Of a thousand findings with examples, those that a condition has room for are written out, and no others."""
    many = [Finding("conflicting-writes", ("p",), (), "x", {"a": i}) for i in range(1000)]
    told = judge.in_words(many)
    assert told.conflicts.count("for example") == judge.MOST_FINDINGS
    assert told.conflicts.endswith("; and 995 more")


def test_the_budget_is_kept_and_its_end_is_told() -> None:
    """A namespace that takes more than its budget is Unknown, and each of its policies says why."""
    rules = [rule(set_labels={"team": f"t{i % 2}"}) for i in range(64)]
    all_stored = [stored(f"p{i}", *rules) for i in range(32)]
    found = judge.findings(all_stored, total=50_000, each=50_000)
    assert not found.decided
    assert found.steps < 150_000
    last = {c.type: c for c in judge.conditions(all_stored[-1], found.told["p31"], frozenset())}
    assert told(last)["SelfConsistent"] == ("Unknown", "Undecided")
    assert "take more than 50000 steps" in last["SelfConsistent"].message


def test_unread() -> None:
    """A policy that nobody looked into says so in every condition, and claims nothing."""
    document = judge.Unread({"name": "p", "namespace": "team", "uid": "u", "generation": 3}, None)
    found = judge.conditions(judge.unread(document, "too large"), judge.NOTHING_TOLD, frozenset())
    assert {(c.status, c.reason, c.message) for c in found} == {("Unknown", "NotLookedAt", "too large")}


def test_over_the_bound() -> None:
    """Of a namespace whose policies cost too much, those after the bound say so, and nothing is claimed about them."""
    writes = [rule(set_labels={f"k{i}": "v" for i in range(32)}) for _ in range(64)]
    many = [stored(f"p{i:02}", *writes, mode="warn") for i in range(30)]
    rejects = stored("rejects", rule(has(bad="yes"), reject=True), rule(set_labels={"a": "b"}))
    bounded = judge.bounded([*many, rejects])
    over = [one.name for one in bounded if one.over]
    assert over == [f"p{i:02}" for i in range(len(many) - len(over), len(many))] and over
    found = judge.conditions(next(one for one in bounded if one.over), judge.NOTHING_TOLD, None)
    assert told({one.type: one for one in found})["Accepted"] == ("False", "NamespaceOverBound")
    assert all(one.status == "Unknown" for one in found[1:])
    assert "cost more than 8192 units" in found[0].message and found[0].is_problem
    assert next(one for one in bounded if one.name == "rejects").policy is not None


def test_reserved_keys_are_remarked() -> None:
    """A policy that writes a key that gives rights is applied without that write, and its condition says so."""
    found = judged(stored("gives", rule(set_annotations={"iam.amazonaws.com/role": "admin"})))["gives"]
    assert told(found)["Accepted"] == ("True", "AcceptedWithRemarks")
    assert "iam.amazonaws.com/role, which is reserved" in found["Accepted"].message
