"""Order never counts, and evaluating changes nothing that it was given."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from podberth.policy.evaluate import evaluate
from podberth.policy.parse import parse
from podberth.policy.spec import Policies
from tests.unit.policy.build import Object, policy
from tests.unit.policy.test_analysis_properties import UNIVERSE, a_rule

a_policy = st.lists(a_rule(), min_size=1, max_size=4)
some = st.lists(a_policy, min_size=1, max_size=4)


def documents(found: list[list[Object]], mode: str) -> list[Object]:
    """Policies of these rules, all in one mode."""
    return [policy(f"p{i}", *rules, mode=mode) for i, rules in enumerate(found)]


@settings(max_examples=150, deadline=None)
@given(some, st.sampled_from(("enforce", "warn", "observe")), st.data())
def test_order_of_policies(found: list[list[Object]], mode: str, data: st.DataObject) -> None:
    """Any permutation of the policies gives the very same verdict."""
    given_order = documents(found, mode)
    other_order = data.draw(st.permutations(given_order))
    obj = data.draw(st.sampled_from(UNIVERSE))
    one, other = (Policies(map(parse, order)) for order in (given_order, other_order))
    assert evaluate(one, "CREATE", obj) == evaluate(other, "CREATE", obj)


@settings(max_examples=120, deadline=None)
@given(some, st.data())
def test_order_of_rules(found: list[list[Object]], data: st.DataObject) -> None:
    """A permutation of rules gives the same outcome, unless two of one policy disagree (the later index wins)."""
    other = [data.draw(st.permutations(rules)) for rules in found]
    obj = data.draw(st.sampled_from(UNIVERSE))
    one = evaluate(Policies(map(parse, documents(found, "enforce"))), "CREATE", obj)
    two = evaluate(Policies(map(parse, documents(other, "enforce"))), "CREATE", obj)
    assert (one.allowed, one.conflicts) == (two.allowed, two.conflicts)
    if not one.conflicts:
        assert one.object == two.object


@settings(max_examples=100, deadline=None)
@given(some, st.data())
def test_same_name_twice(found: list[list[Object]], data: st.DataObject) -> None:
    """Even policies of one name (only files can hold them) have one order."""
    twins = [policy("twin", *rules) for rules in found]
    obj = data.draw(st.sampled_from(UNIVERSE))
    one, other = (Policies(map(parse, order)) for order in (twins, data.draw(st.permutations(twins))))
    assert evaluate(one, "CREATE", obj) == evaluate(other, "CREATE", obj)
