"""What the analysis of legal policies costs, in steps and bytes: nothing that is legal costs more than its bounds."""

from __future__ import annotations

import json
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings, target
from hypothesis import strategies as st

from bench.hostile_policies import SHAPES, Object, one, policy, rejects, rule, values, writers
from podberth.cli.main import run
from podberth.model.selectors import LabelSelector, Requirement
from podberth.policy.analyse import TOO_COMPLEX, Report, analyse
from podberth.policy.parse import parse
from podberth.policy.questions import Questions, TooComplexError
from podberth.policy.space import Space, weigh
from podberth.policy.spec import Policies

MEGABYTE = 2**20
TOTAL = 100_000


def accepted(documents: list[Object]) -> Policies:
    """What the analysis is asked about."""
    return Policies(parse(document) for document in documents)


def peak(documents: list[Object], total: int = TOTAL) -> tuple[float, Report]:
    """The most memory that an analysis takes, in MB, and its report."""
    policies = accepted(documents)
    tracemalloc.start()
    try:
        report = analyse(policies, total=total, each=total // 10)
        return tracemalloc.get_traced_memory()[1] / MEGABYTE, report
    finally:
        tracemalloc.stop()


def test_many_values_are_linear() -> None:
    """Four times as many values of one key take four times as much, and the analysis decides them all (S4)."""
    few, first = peak(values(1000))
    many, second = peak(values(4000))
    assert first.decided
    assert second.decided
    assert many < 5 * few + 1
    assert many < 4


@pytest.mark.parametrize("name", SHAPES)
def test_every_shape_is_bounded(name: str) -> None:
    """The most expensive shapes stay within the budget of steps, and in some megabytes."""
    documents = SHAPES[name]()
    megabytes, report = peak(documents)
    assert report.steps < 1.5 * TOTAL + weigh(accepted(documents).enforcing)
    assert megabytes < 24
    for finding in report.of("undecided"):
        assert finding.message.startswith(TOO_COMPLEX)


def test_pairs_are_charged() -> None:
    """Rules that write one key come in pairs; when the budget is gone no pair is looked at any more, which is said."""
    report = analyse(accepted(writers(2048, 2)), total=TOTAL)
    (undecided,) = report.of("undecided")
    assert "which rules can disagree" in undecided.message
    assert f"{TOTAL} steps" in undecided.message
    assert len(undecided.policies) == 32
    assert len(report.findings) < TOTAL / 1000 + 2


def test_no_room() -> None:
    """Rules that mention more than there is room for are not looked at, but for what each says of itself."""
    crowd = [policy(f"p{i}", [rule([one(f"k{i}-{x}", "Exists") for x in range(16)], writes={})]) for i in range(400)]
    megabytes, report = peak(crowd)
    assert megabytes < 3
    assert {finding.kind for finding in report.findings} == {"no-action", "undecided"}
    (undecided,) = report.of("undecided")
    assert "mention too many keys and values" in undecided.message
    assert len(undecided.policies) == 400


def test_what_matters_most_comes_first() -> None:
    """What comes to a question for each rule is answered though what comes to one for each pair is not."""
    poisoned = policy("a", [rule(writes={"k": "v0"})])
    report = analyse(accepted([*rejects(400), poisoned]), total=5 * TOTAL)
    assert [finding.policies[0] for finding in report.of("self-poison")] == ["a"]
    *_, undecided = report.of("undecided")
    assert undecided.message.endswith("not known in full: which rules never make a difference")


@pytest.mark.parametrize("output", ["table", "json"])
def test_lint_says_why(output: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Both forms of lint's answer say what is not decided, and why; a table names few of many policies."""
    crowd = [policy(f"p{i}", [rule([one(f"k{i}-{x}", "Exists") for x in range(16)])]) for i in range(400)]
    file = tmp_path / "crowd.json"
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": crowd}))
    assert run(["policy", "lint", str(file), "-o", output]) == 1
    said = capsys.readouterr().out
    if output == "json":
        not_native, found = json.loads(said)["findings"]
        assert (not_native["kind"], found["kind"]) == ("not-native", "undecided")
        assert "mention too many keys and values" in found["message"]
        assert len(found["policies"]) == 400
    else:
        assert "mention too many keys and values" in " ".join(said.split())
        assert len(said) < 3000


some_rules = st.lists(
    st.builds(
        lambda criteria, writes: rule([one(f"k{k}", op, *vs) for k, op, vs in criteria], writes=writes),
        st.lists(
            st.tuples(
                st.integers(0, 11),
                st.sampled_from(("In", "NotIn")),
                st.lists(st.sampled_from([f"v{i}" for i in range(12)]), min_size=1, max_size=6, unique=True),
            ),
            max_size=4,
        ),
        st.none() | st.dictionaries(st.sampled_from([f"k{i}" for i in range(12)]), st.sampled_from(["v0", "v1", "w"])),
    ),
    min_size=1,
    max_size=64,
)


@settings(
    max_examples=40,
    deadline=None,
    phases=(Phase.explicit, Phase.reuse, Phase.generate, Phase.target),
    suppress_health_check=[HealthCheck.too_slow],
)
@given(some_rules)
def test_nothing_found_by_climbing_costs_more(rules: list[Object]) -> None:
    """A search that climbs towards steps and bytes for each byte of a policy finds none beyond the budget."""
    document = policy("p", rules)
    megabytes, report = peak([document])
    target(report.steps / len(json.dumps(document)), label="steps for each byte")
    target(megabytes, label="megabytes")
    assert report.steps < 1.5 * TOTAL + weigh(accepted([document]).enforcing)
    assert megabytes < 24


def test_owners_are_charged_by_what_they_require() -> None:
    """For each write by which it may lose its objects. One that selects nothing is read to its end, and counts."""
    many = 500
    never = (Requirement("a", "In", frozenset({value})) for value in "xy")
    requires = (*(Requirement(f"k{i}", "Exists") for i in range(many)), *never)
    loses, keeps = (
        analyse(accepted([policy("p", [rule(writes={key: "v"})])]), [LabelSelector(requires)]).steps for key in "ab"
    )
    assert loses - keeps > many // 2


def test_a_space_without_room_is_asked_nothing() -> None:
    """What is kept is charged before: where there is no room, no question has an answer, and none is guessed."""
    space = Space(accepted(rejects(100)).enforcing)
    small, large = (Questions(space, total=10**9, each=10**9, room=room) for room in (100, 10**6))
    assert small.exhausted
    with pytest.raises(TooComplexError):
        small.ask(small.accepted)
    assert not large.exhausted
    assert large.ask(large.accepted) is not None


@pytest.mark.parametrize(("room", "answers"), [(20, True), (19, False)])
def test_room_that_is_just_enough(room: int, answers: bool) -> None:
    """Without rules: three facts of 4 literals each (true, a pod, another kind), a clause of one literal and two of two
    literals, where a clause counts 1 beside its literals.
    """
    questions = Questions(Space([]), total=10**9, each=10**9, room=room)
    assert questions.exhausted != answers
    if answers:
        assert (questions.ask() or {})["kind"] == "Pod"
