"""What policies cost, and which of a namespace's policies apply when they cost too much together."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from podberth.model.selectors import Requirement
from podberth.policy.analyse import left_out
from podberth.policy.bounds import MOST, Place, bound, price
from podberth.policy.parse import parse
from podberth.policy.spec import Action, Policy, Predicate, Rule
from tests.unit.policy.build import needs, policies, policy, rule

places = st.builds(
    Place,
    st.integers(0, 3),
    st.sampled_from(["2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z", "2026-01-03T00:00:00Z"]),
    st.text("abcdef", min_size=1, max_size=4),
)
namespaces = st.dictionaries(places, st.integers(5, 5_000), max_size=12)


def test_price() -> None:
    """A policy counts four, a rule one, a write two; criteria, texts and values little, and the mode nothing."""
    small = policy("p", rule(needs("a", "Exists"), set_labels={"b": "c", "d": "e"}))
    assert price(parse(small)).units == 4 + 1 + 4 + 1 + 1
    assert price(parse({**small, "spec": {**small["spec"], "mode": "warn"}})).units == price(parse(small)).units


def test_price_of_long_texts() -> None:
    """256 characters of keys, values and messages are a unit, and so are four criteria and sixteen values; a part of
    one counts whole.
    """
    criterion = Requirement("k" * 200, "In", frozenset({"a" * 50, "b" * 50}))
    action = Action(False, "m" * 257, {"x": "y" * 211}, {})
    long = Policy("p", rules=(Rule("p", 0, Predicate((criterion,), ()), action),))
    # A policy, a rule, a write; a criterion; two values; 200 + 100 + 257 + 212 = 769 characters: three units and one.
    assert price(long).units == 4 + 1 + 2 + 1 + 1 + 4


def test_names_and_kinds_count_as_texts() -> None:
    """Three characters of a kind, ten of a name and 243 of a message are a unit; with one more, there are two."""
    for more in (0, 1):
        made = rule(reject=True, message="m" * (243 + more), name="r" * 10, kinds=["Pod"])
        assert price(parse(policy("p", made))).units == 4 + 1 + 1 + 1 + more


def test_kinds() -> None:
    """What rejects comes before what writes, mode warn, mode observe."""
    rejects, writes = rule(reject=True), rule(set_labels={"a": "b"})
    kinds = [
        price(parse(policy("p", *rules, mode=mode))).kind
        for rules, mode in (((writes, rejects), None), ((writes,), None), ((rejects,), "warn"), ((rejects,), "observe"))
    ]
    assert kinds == [0, 1, 2, 3]


@given(namespaces)
def test_applied_is_what_fits_from_the_first_on(stored: dict[Place, int]) -> None:
    """The policies that apply are the first ones in order, never above the bound, and as many as fit."""
    ordered = sorted(stored.items())
    found = bound(ordered)
    assert list(found.applied) == [place for place, _ in ordered][: len(found.applied)]
    assert found.units == sum(stored[place] for place in found.applied) <= MOST
    if len(found.applied) < len(ordered):
        next_place, units = ordered[len(found.applied)]
        assert found.units + units > MOST
        assert found.closed == (next_place.kind == 0)
    else:
        assert not found.closed


@given(namespaces, places, st.integers(5, 5_000))
def test_newcomers_push_out_nothing_that_matters_as_much(stored: dict[Place, int], new: Place, units: int) -> None:
    """A policy that is added costs none of those before it their place: older ones of its kind, and stronger kinds."""
    before = bound(sorted(stored.items())).applied
    after = bound(sorted({**stored, new: units}.items())).applied
    assert {place for place in before if place < new} <= set(after)


def test_lint_says_who_is_left_out() -> None:
    """Lint names the policies that would not apply, and says what they cost."""
    writes = [rule(set_labels={f"k{i}": "v" for i in range(32)}) for _ in range(64)]
    many = policies(*(policy(f"p{i:02}", *writes, mode="warn") for i in range(20)), policy("no", rule(reject=True)))
    *found, beyond = left_out(many)
    assert beyond.kind == "not-native"
    assert [one.policies for one in found] == [(f"p{i:02}",) for i in range(20 - len(found), 20)] and found
    assert "cost more than 8192 units" in found[0].message
    assert left_out(policies(policy("no", rule(reject=True)))) == []


def test_lint_finds_what_the_api_server_can_not_afford() -> None:
    """Of rules that are within every other bound; one that rejects and does not fit closes the namespace."""
    writes = [rule(set_labels={f"k{i}": "v" for i in range(32)}) for _ in range(6)]
    [found] = left_out(policies(*(policy(f"p{i}", *writes) for i in range(4)), policy("no", rule(reject=True))))
    assert (found.kind, found.policies) == ("not-native", ("p2", "p3"))
    assert "and so is 1 other:" in found.message and "nothing is let" not in found.message
    [found] = left_out(policies(*(policy(f"p{i}", *writes, rule(reject=True)) for i in range(3))))
    assert (found.policies, "nothing is let into the namespace" in found.message) == (("p2",), True)


def test_no_more_is_looked_at_than_fits() -> None:
    """Ten thousand policies beyond the bound are not walked through."""
    looked = 0

    def endless() -> object:
        nonlocal looked
        for i in range(10_000):
            looked += 1
            yield Place(2, "", f"{i:05}"), 1024

    bound(endless())  # type: ignore[arg-type]
    assert looked == MOST // 1024 + 1
