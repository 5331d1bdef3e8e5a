"""What the analysis finds, case by case; test_analysis_properties.py holds it against brute force."""

from __future__ import annotations

import itertools
import random
import re
from typing import Any

import pytest

from podberth.model.selectors import LabelSelector
from podberth.policy import analyse as analysing
from podberth.policy.analyse import FINDING, MOST_PASSES, Finding, analyse, left_out, passes
from podberth.policy.keys import Reserved
from podberth.policy.options import selector
from podberth.policy.questions import Questions
from podberth.policy.space import AXIS, Among, weigh
from tests.unit.policy.build import NAME, QOS, Object, has, needs, policies, policy, rule


def findings(*documents: Object, **known: Any) -> list[Finding]:
    """The findings about these policies."""
    return list(analyse(policies(*documents), **known).findings)


def only(*documents: Object, **known: Any) -> Finding:
    """The one finding about these policies."""
    found = findings(*documents, **known)
    assert len(found) == 1, found
    return found[0]


def test_nothing_to_find() -> None:
    """The seed's four example rules, and routing by QoS class, are fine together."""
    documents = [
        policy("require-owner", rule(needs("owner", "DoesNotExist"), reject=True)),
        policy("forbid-debug", rule(needs("debug", "Exists"), reject=True)),
        policy("default-team", rule(needs("team", "DoesNotExist"), set_labels={"team": "none"})),
        policy("add", rule(annotations=needs("c", "In", "d"), set_annotations={"a": "b"})),
        policy("route", rule(annotations=needs(QOS, "In", "BestEffort"), set_annotations={NAME: "berth"})),
    ]
    assert findings(*documents) == []


def test_contradiction() -> None:
    """A rule that nothing can match is dead, and the criteria are named."""
    one = {"matchLabels": {"a": "x"}, "matchExpressions": [{"key": "a", "operator": "DoesNotExist"}]}
    found = only(policy("p", rule(one, reject=True)))
    assert (found.kind, found.rules, found.example) == ("dead-rule", ("p/rules[0]",), None)
    assert found.message == 'MetadataPolicy "p" rules[0] never matches: label a in (x) and label a does not exist'


def test_impossible_class() -> None:
    """A pod's stamp has three values, but another kind's annotation of that name may hold any: not dead."""
    assert findings(policy("p", rule(annotations=needs(QOS, "In", "Fast"), reject=True))) == []
    pods_only = {"matchLabels": {QOS: "Fast"}, "matchExpressions": [{"key": QOS, "operator": "In", "values": ["Slow"]}]}
    assert only(policy("p", rule(annotations=pods_only, reject=True))).kind == "dead-rule"


def test_a_write_that_repeats_the_one_before_it_is_dead() -> None:
    """Whatever was written before that: the last of the earlier writes counts, and it gives the same value."""
    first, again = rule(set_labels={"k": "x"}), rule(has(a="1"), set_labels={"k": "v"})
    for key, dead in (("a", ["p/rules[2]"]), ("b", [])):
        found = findings(policy("p", first, rule(needs(key, "Exists"), set_labels={"k": "v"}), again))
        assert [name for one in found if one.kind == "dead-rule" for name in one.rules] == dead


def test_covered_by_several() -> None:
    """A reject that only several others together cover is dead; of two equal ones, one is."""
    documents = [
        policy("a", rule(needs("x", "Exists"), reject=True)),
        policy("b", rule(needs("x", "DoesNotExist"), reject=True)),
        policy("c", rule(has(y="1"), reject=True)),
    ]
    assert only(*documents).rules == ("c/rules[0]",)
    assert only(*documents).message == (
        'MetadataPolicy "c" rules[0] rejects nothing that other rules do not reject already'
    )
    twice = rule(has(y="1"), reject=True)
    assert only(policy("p", twice, twice)).rules == ("p/rules[1]",)


@pytest.mark.parametrize(
    "other",
    [
        rule(has(a="1"), reject=True),
        rule(set_labels={"team": "y"}, name="later"),
        rule(needs("a", "Exists"), set_labels={"team": "x"}, name="same"),
    ],
    ids=["rejected", "overwritten", "said already"],
)
def test_dead_writes(other: Object) -> None:
    """A write is dead when what it matches is rejected, always overwritten, or gets the same value anyway."""
    found = findings(policy("p", rule(has(a="1"), set_labels={"team": "x"}), other))
    (dead,) = [finding for finding in found if finding.kind == "dead-rule"]
    assert dead.rules == ("p/rules[0]",)
    assert dead.message.startswith('MetadataPolicy "p" rules[0] changes nothing: what it matches is rejected, ')


def test_conflict() -> None:
    """Two rules that can match one object and differ; not where a reject stands before every such object."""
    one, other = rule(has(a="1"), set_labels={"t": "x"}), rule(has(b="1"), set_labels={"t": "y"})
    found = only(policy("p", one), policy("q", other))
    assert (found.kind, found.policies) == ("conflicting-writes", ("p", "q"))
    assert found.example is not None
    assert found.example["metadata"]["labels"] == {"a": "1", "b": "1"}
    both = rule({"matchLabels": {"a": "1", "b": "1"}}, reject=True)
    assert findings(policy("p", one), policy("q", other), policy("r", both)) == []


def test_self_poison() -> None:
    """What one policy writes another rejects: nothing that it wrote to can ever be updated."""
    found = findings(
        policy("tag", rule(has(app="web"), set_labels={"tier": "front"})),
        policy("ban", rule(has(tier="front"), reject=True, name="no-front")),
    )
    assert [finding.kind for finding in found] == ["self-poison"]
    assert found[0].message == (
        'MetadataPolicy "tag" rules[0] writes label tier="front"; '
        'then MetadataPolicy "ban" rule "no-front" rejects every later update'
    )


def test_allowed_keys_are_part_of_the_story() -> None:
    """What comes of a key that is reserved elsewhere is told of the policy that writes it here."""
    revision = {"istio.io/rev": "x"}
    documents = [
        policy("tag", rule(has(app="web"), set_labels=revision)),
        policy("more", rule(has(**revision), set_labels={"zone": "dmz"})),
        policy("ban", rule(has(**revision, app="api"), reject=True)),
    ]
    found = only(*documents[:2], reserved=Reserved(allowed=("istio.io/",)))
    assert found.policies == ("tag", "more")
    assert found.message == (
        'MetadataPolicy "tag" rules[0] writes label istio.io/rev="x"; in a second pass '
        'MetadataPolicy "more" rules[0] writes label zone="dmz"; it rests after 2 passes'
    )
    tags = policy("tag", rule(has(app="api"), set_labels=revision))
    assert only(tags, documents[2], reserved=Reserved(known=False)).policies == ("tag", "ban")


def test_chain() -> None:
    """A write that makes another rule match in the next pass is named, with where it ends."""
    documents = [
        policy("a", rule(has(app="web"), set_labels={"tier": "front"})),
        policy("b", rule(has(tier="front"), set_labels={"zone": "dmz"})),
    ]
    found = only(*documents)
    assert found.kind == "not-idempotent"
    assert found.message == (
        'MetadataPolicy "a" rules[0] writes label tier="front"; in a second pass '
        'MetadataPolicy "b" rules[0] writes label zone="dmz"; it rests after 2 passes'
    )
    assert found.rules == ("a/rules[0]", "b/rules[0]")
    assert len(passes(policies(*documents), found.example or {})) == 3


def test_oscillation() -> None:
    """A rule that undoes another for ever is found out."""
    found = findings(policy("p", rule(has(a="x"), set_labels={"a": "y"}), rule(has(a="y"), set_labels={"a": "x"})))
    assert {finding.kind for finding in found} == {"not-idempotent"}
    assert all(finding.message.endswith("it never rests") for finding in found)


def test_owner_selector() -> None:
    """A write to a label that owners find objects by takes them away, unless it only fills the label in."""
    owners: list[LabelSelector] = [selector({"matchLabels": {"app": "web"}}, "selector")]
    found = only(policy("p", rule(set_labels={"app": "api"})), owner_selectors=owners)
    assert (found.kind, found.example) == (
        "owner-selector",
        {**(found.example or {}), "metadata": {"name": "example", "namespace": "default", "labels": {"app": "web"}}},
    )
    default = policy("p", rule(needs("app", "DoesNotExist"), set_labels={"app": "api"}))
    assert findings(default, owner_selectors=owners) == []


def test_schedulers() -> None:
    """A scheduler without a live Lease is reported, when it is known which live."""
    route = policy("p", rule(set_annotations={NAME: "gone"}))
    assert findings(route) == []
    found = only(route, live_schedulers=frozenset({"berth"}))
    assert (found.kind, found.example is not None) == ("no-live-scheduler", True)
    assert findings(route, live_schedulers=frozenset({"gone"})) == []
    of_deployments = policy("p", rule(set_annotations={NAME: "gone"}, kinds=["Deployment.apps"]))
    assert findings(of_deployments, live_schedulers=frozenset({"berth"})) == []


@pytest.mark.parametrize(
    ("predicate", "kinds", "kind", "labels"),
    [
        (has(app="web"), None, "Pod", {"app": "web"}),
        (needs("app", "In", "b", "a"), None, "Pod", {"app": "a"}),
        (needs("app", "DoesNotExist"), None, "Pod", None),
        (needs("app", "In", "b"), ["Secret"], "Secret", {"app": "b"}),
    ],
)
def test_an_example_is_the_least_that_matches(
    predicate: Object, kinds: list[str] | None, kind: str, labels: Object | None
) -> None:
    """A pod where the rule takes pods, with no label that the rule does not ask for, and the first value that it
    takes.
    """
    wrong = rule(predicate, reject=True, kinds=kinds)
    example = only(policy("p", wrong, wrong)).example or {}
    assert (example["kind"], example["metadata"].get("labels")) == (kind, labels)


def test_a_class_that_pods_can_have() -> None:
    """One is enough for a rule about pods alone."""
    route = rule(annotations=needs(QOS, "In", "Burstable"), set_annotations={NAME: "gone"}, kinds=["Pod"])
    example = only(policy("p", route), live_schedulers=frozenset()).example or {}
    (container,) = example["spec"]["containers"]
    assert container["resources"] == {"requests": {"cpu": "100m", "memory": "64Mi"}}


def test_reserved_keys_of_policies_that_do_nothing() -> None:
    """A write that is never made is a finding only where it would be made else."""
    writes = rule(set_annotations={"eks.amazonaws.com/role-arn": "arn"})
    assert findings(policy("p", writes, mode="warn")) == []
    assert only(policy("p", writes)).kind == "reserved-key"


def test_a_rule_with_one_write_that_matters() -> None:
    """Another one, which is always overwritten, does not make the rule dead."""
    first = rule(set_labels={"a": "x", "b": "x"})
    found = findings(policy("p", first, rule(set_labels={"a": "y"})))
    assert [finding.kind for finding in found] == ["conflicting-writes"]


def test_plain_mistakes() -> None:
    """Updates beside reject, rules without action, and writes to the stamp are mentioned."""
    found = findings(
        policy("p", rule(has(a="1"), reject=True, set_labels={"x": "y"}), rule(), rule(set_annotations={QOS: "x"}))
    )
    assert [finding.kind for finding in found] == ["void-writes", "no-action", "stamp-written"]


def test_modes() -> None:
    """Policies that do not enforce have no part, unless asked what would be if they did."""
    one = policy("p", rule(set_labels={"t": "x"}), rule(set_labels={"t": "y"}), mode="observe")
    assert findings(one) == []
    kinds = {finding.kind for finding in analyse(policies(one).enforced()).findings}
    assert kinds == {"dead-rule", "conflicting-writes"}


@pytest.mark.parametrize(("writes", "told"), [(1, "its update is"), (2, "its 2 updates are"), (3, "its 3 updates are")])
def test_updates_beside_a_reject(writes: int, told: str) -> None:
    found = only(policy("p", rule(has(a="1"), reject=True, set_labels={f"k{i}": "v" for i in range(writes)})))
    assert found.message == f'MetadataPolicy "p" rules[0] rejects, so {told} never written'


@pytest.mark.parametrize("length", [80, 81])
def test_long_names_are_shown_in_part(length: int) -> None:
    """Of a reserved key, and of a policy that is left out."""
    key = f"{'a' * (length - 78)}.amazonaws.com/{'s' * 63}"
    name = f"{'z' * 40}.{'z' * (length - 41)}"
    writes = [rule(set_labels={f"k{i}": "v" for i in range(32)}) for _ in range(6)]
    [beyond] = left_out(policies(*(policy(f"p{i}", *writes) for i in range(2)), policy(name, *writes)))
    reserved = only(policy("p", rule(set_annotations={key: "arn"})))
    for text, message in ((key, reserved.message), (name, beyond.message)):
        assert len(text) == length
        shown = text if length == 80 else f"{text[:77]}..."
        assert re.search(f" {re.escape(shown)}(,| is left)", message)


def owed(monkeypatch: pytest.MonkeyPatch, *documents: Object, **known: Any) -> list[int]:
    """The steps that are charged beside what the solver counts."""
    found: list[int] = []
    owe = Questions.owe

    def charge(questions: Questions, steps: int) -> None:
        found.append(steps)
        owe(questions, steps)

    monkeypatch.setattr(Questions, "owe", charge)
    analyse(policies(*documents), **known)
    return found


def test_the_story_of_a_finding_is_charged(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pass asks each rule, its criteria and its writes: one each. A poisoned object takes two passes, a chain all."""
    tag = policy("tag", rule(has(app="web"), set_labels={"tier": "front"}))
    ban = policy("ban", rule(has(tier="front"), reject=True))
    found = owed(monkeypatch, tag, ban)
    assert found[found.index(FINDING) - 1] == 2 * (3 + 2)
    zone = policy("zone", rule(has(tier="front"), set_labels={"zone": "dmz"}))
    found = owed(monkeypatch, tag, zone)
    assert found[found.index(FINDING) - 1] == (MOST_PASSES + 2) * (3 + 3)


def test_what_rules_and_owners_are_compared_with_is_charged(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each write with those of its key that come after it, and with what each owner requires."""
    writers = [policy(f"p{i}", rule(has(**{f"a{i}": "1"}), set_labels={"t": "y"})) for i in range(7)]
    assert ", 7, 6, 5, 4, 3, 2, 1" in str(owed(monkeypatch, *writers))
    asked = selector({"matchLabels": {"t": "x", **{f"l{i}": "y" for i in range(20)}}}, "selector")
    assert 1 + 21 in owed(monkeypatch, writers[0], owner_selectors=[asked])


def test_findings_share_an_example() -> None:
    """It is kept once, where many findings have it."""
    rules = [rule(set_labels={"t": value}) for value in "xyz"]
    found = [one for one in findings(policy("p", *rules)) if one.kind == "conflicting-writes"]
    assert len(found) == 3
    assert found[0].example is found[1].example is found[2].example
    assert findings(policy("p", rule()))[0].example is None


def test_a_rule_that_never_matches_takes_nothing_away_from_an_owner() -> None:
    never = {"matchLabels": {"a": "x"}, "matchExpressions": [{"key": "a", "operator": "DoesNotExist"}]}
    owner = selector({"matchLabels": {"app": "web"}}, "selector")
    found = findings(policy("p", rule(never, set_labels={"app": "api"})), owner_selectors=[owner])
    assert [one.kind for one in found] == ["dead-rule"]


@pytest.mark.parametrize("more", [0, 1])
def test_as_much_as_is_looked_at(monkeypatch: pytest.MonkeyPatch, more: int) -> None:
    one = policies(policy("p", rule(has(a="1"), reject=True)))
    monkeypatch.setattr(analysing, "MOST_WEIGHT", weigh(one.enforcing) - more)
    assert analyse(one).decided == (more == 0)


def test_undecided() -> None:
    """A question beyond the bound is said to be undecided, never answered wrongly."""
    report = analyse(policies(*_crowd(random.Random(2), 30, 12)), total=2000, each=300)
    assert not report.decided
    assert all(finding.message.startswith("too complex") for finding in report.of("undecided"))


def test_questions_beyond_their_own_bound_are_named() -> None:
    """Where there is time for all questions, and for each of them too little."""
    report = analyse(policies(*_crowd(random.Random(2), 30, 12)), each=200)
    assert any(" can disagree on label " in finding.message for finding in report.of("undecided"))


def test_many_rules() -> None:
    """Sixty rules over twenty keys are decided in full, and examples hold there too."""
    all_policies = policies(*_crowd(random.Random(1), 60, 20))
    report = analyse(all_policies)
    assert report.decided
    assert {"self-poison", "not-idempotent", "conflicting-writes"} <= {finding.kind for finding in report.findings}
    for finding in report.of("self-poison", "not-idempotent"):
        first, second, *_ = passes(all_policies, finding.example or {})
        assert first.allowed
        assert second.allowed == (finding.kind == "not-idempotent")


def _crowd(chance: random.Random, number: int, keys: int) -> list[Object]:
    """Random rules, a quarter of which reject."""

    def expression() -> Object:
        operator = chance.choice(("In", "In", "NotIn", "Exists", "DoesNotExist"))
        found: Object = {"key": f"k{chance.randrange(keys)}", "operator": operator}
        if operator in ("In", "NotIn"):
            found["values"] = [f"v{chance.randrange(4)}" for _ in range(chance.randint(1, 3))]
        return found

    def one() -> Object:
        predicate = {"matchExpressions": [expression() for _ in range(chance.randint(2, 4))]}
        if chance.random() < 0.25:
            return rule(predicate, reject=True)
        return rule(predicate, set_labels={f"k{chance.randrange(keys)}": f"v{chance.randrange(4)}"})

    return [policy(f"p{i}", *(one() for _ in range(4))) for i in range(number // 4)]


def test_kinds_are_told_apart() -> None:
    """Rules about different kinds never meet; those that do show it by an object of their kind."""
    one = rule(set_labels={"t": "x"}, kinds=["Pod", "Job.batch"])
    assert findings(policy("p", one), policy("q", rule(set_labels={"t": "y"}, kinds=["Secret"]))) == []
    found = only(policy("p", one), policy("q", rule(has(a="1"), set_labels={"t": "y"}, kinds=["Secret", "Job.batch"])))
    assert (found.kind, found.example) == (
        "conflicting-writes",
        {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": "example", "namespace": "default", "labels": {"a": "1"}},
        },
    )


@pytest.mark.parametrize(
    ("kinds", "annotations", "why"),
    [
        (["Lease.coordination.k8s.io"], None, "policies apply to no Lease.coordination.k8s.io"),
        (["Pod"], needs(QOS, "In", "Fast"), f"annotation {QOS} in (Fast)"),
        (["Pod"], needs("kubernetes.io/config.mirror", "Exists"), "annotation kubernetes.io/config.mirror exists"),
    ],
)
def test_kinds_that_no_rule_can_match(kinds: list[str], annotations: Object | None, why: str) -> None:
    """Because policies never apply to them, or because no such pod exists."""
    found = only(policy("p", rule(annotations=annotations, reject=True, kinds=kinds)))
    assert (found.kind, found.example) == ("dead-rule", None)
    assert found.message == f'MetadataPolicy "p" rules[0] never matches: {why}'


def test_a_kind_that_no_rule_names_stands_for_all_others() -> None:
    """A rule about everything matters for them, though others cover every kind that is named."""
    kinds = ["ConfigMap", "Pod", "Secret"]
    dead = findings(policy("p", *(rule(reject=True, kinds=[kind]) for kind in kinds), rule(reject=True)))
    assert [finding.rules for finding in dead] == [(f"p/rules[{i}]",) for i in range(3)]
    assert findings(policy("p", *(rule(reject=True, kinds=[kind]) for kind in kinds))) == []


def test_an_example_that_is_no_pod_has_no_class() -> None:
    """Though other rules ask for it."""
    asks = rule(annotations=needs(QOS, "NotIn", "BestEffort"), set_labels={"a": "1"})
    one, other = (rule(set_labels={"t": value}, kinds=["Secret"]) for value in "xy")
    (found,) = [finding for finding in findings(policy("p", asks, one, other)) if finding.kind == "conflicting-writes"]
    assert found.example == {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "example", "namespace": "default"},
    }


def test_values_that_two_criteria_take() -> None:
    """Some values, or all but some, with and without an absent key."""
    values: list[str | None] = ["a", "b", None]
    some = [frozenset(chosen) for number in range(4) for chosen in itertools.combinations(values, number)]
    for one, other in itertools.product([Among(each, but) for each in some for but in (False, True)], repeat=2):
        both = one.also(other)
        assert [both.holds(value) for value in [*values, "c"]] == [
            one.holds(value) and other.holds(value) for value in [*values, "c"]
        ]
        assert both.empty == (not any(both.holds(value) for value in [*values, "c"]))


def test_a_value_that_only_some_rules_list() -> None:
    """The larger list rejects more."""
    small, large = rule(needs("a", "In", "v"), reject=True), rule(needs("a", "In", "v", "w"), reject=True)
    for documents, dead in (((small, large), "p/rules[0]"), ((large, small), "p/rules[1]")):
        assert only(policy("p", *documents)).rules == (dead,)


def test_a_value_that_no_rule_lists() -> None:
    """Whatever they list."""
    listed = ["other", *(f"other-{i}" for i in range(1, 5))]
    criteria = [{"key": "a", "operator": "Exists"}, {"key": "a", "operator": "NotIn", "values": listed}]
    route = rule({"matchExpressions": criteria}, set_annotations={NAME: "gone"})
    example = only(policy("p", route), live_schedulers=frozenset()).example or {}
    assert example["metadata"]["labels"] == {"a": "other-5"}


def test_values_have_a_weight() -> None:
    """A value that is asked for, a criterion, a write and a kind weigh one each, a key as much as many of them."""
    one = policies(policy("p", rule(needs("a", "In", "x", "y"), set_labels={"b": "1"}, kinds=["Pod"]))).enforcing
    assert weigh(one) == 2 * AXIS + 2 + 1 + 1 + 1
    owner = selector({"matchLabels": {"c": "1"}}, "selector")
    assert weigh(one, [owner]) == weigh(one) + AXIS + 2
