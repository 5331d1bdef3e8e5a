"""Which disruption budgets of a namespace match a pod: as their selectors say, however they are looked up."""

import gc
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.model import wire
from scheduler.model.kinds import Decoder
from scheduler.model.namespaced import SelectingObject
from scheduler.plugins.default_preemption.budgets import Budgets
from scheduler.plugins.default_preemption.namespace_budgets import FEW, NamespaceBudgets
from scheduler.state.effort import Effort
from tests.builders import pod
from tests.unit.plugins.small import a_pod, cluster
from tests.unit.work import lines

from .preempting import a_budget

MANY = 500
KEYS, VALUES = ("app", "tier", "one"), ("a", "b", "c")
_labels = st.dictionaries(st.sampled_from(KEYS), st.sampled_from(VALUES))


@st.composite
def _requirement(draw: st.DrawFn) -> dict[str, Any]:
    operator = draw(st.sampled_from(("NotIn", "NotIn", "DoesNotExist", "In", "Exists")))
    found: dict[str, Any] = {"key": draw(st.sampled_from(KEYS)), "operator": operator}
    if operator in ("In", "NotIn"):
        found["values"] = draw(st.lists(st.sampled_from(VALUES), min_size=1, max_size=3))
        if draw(st.integers(0, 9)) == 0:
            found["values"] += [f"x{i}" for i in range(100)]  # more than is kept by what it bars
    return found


_selector = st.fixed_dictionaries({"matchExpressions": st.lists(_requirement(), max_size=3)})
_step = st.one_of(
    st.tuples(st.just("put"), st.integers(0, 9), _selector),
    st.tuples(st.just("drop"), st.integers(0, 9), st.none()),
    st.tuples(st.just("ask"), st.none(), st.none()),
)


@given(pods=st.lists(_labels, min_size=1, max_size=4), steps=st.lists(_step, max_size=20))
def test_they_are_those_whose_selectors_match(pods: list[dict[str, str]], steps: list[Any]) -> None:
    """In the order in which they came, whatever was asked before and whatever changes; those that went may stay."""
    namespace, written = NamespaceBudgets(()), dict[str, SelectingObject]()
    for what, number, selector in [*steps, ("ask", None, None)]:
        name = f"b{number}"
        if what == "put":
            written[name] = a_budget(name, 1, selector)
            namespace.put(written[name])
        elif what == "drop":
            written.pop(name, None)
            namespace.drop(name)
        else:
            for labels in filter(None, pods):
                match = namespace.matching(labels, Effort())
                assert match.found == sorted(set(match.found))
                found = {namespace.budgets[n].name for n in match.found if namespace.allowed[n] == 1}
                # An empty selector is no concern of an eviction here, as upstream has it.
                expected = (one for one in written.values() if not one.selector.is_everything)
                assert found == {one.name for one in expected if one.selector.matches(labels)}


def test_budgets_that_bar_a_few_labels_are_not_asked_one_by_one() -> None:
    """However many there are, a pod costs hardly more. A tenant may change them all the time."""
    namespace = NamespaceBudgets(())
    for i in range(MANY):
        one = {"key": "one", "operator": "NotIn", "values": [f"x{i}-{k}" for k in range(50)]}
        namespace.put(a_budget(f"b{i}", 1, {"matchExpressions": [one]}))
    effort = Effort()
    cost, match = lines(lambda: namespace.matching({"one": "x3-4", "app": "a"}, effort))
    assert match.found == [n for n in range(MANY) if n != 3]
    assert cost < 3 * MANY  # one of them asked takes more than ten lines
    assert MANY // 4 < effort.spent < MANY


@pytest.mark.skipif(sys.version_info >= (3, 14), reason="the collector looks through all dicts from Python 3.14 on")
def test_the_collector_does_not_look_through_names_of_disrupted_pods() -> None:
    """There may be 20,000 in a budget that is written all the time: that made turns of 25 ms."""
    times = {f"p{i}": "2026-11-26T00:00:00Z" for i in range(100)}
    document = {"metadata": {"name": "b", "namespace": "n"}, "status": {"disruptedPods": times}}
    budget = Decoder().of_kind("PodDisruptionBudget")(wire.encode(document))
    assert isinstance(budget, SelectingObject)
    assert "p99" in budget.disrupted
    assert not gc.is_tracked(budget.disrupted)


@pytest.mark.parametrize("more", [0, FEW])
def test_an_eviction_draws_until_a_budget_is_overdrawn(more: int) -> None:
    """One budget after the other, up to the first that is: FilterVictimsWithPDBViolation in preemption/util.go.

    So the first pod draws on b0, then overdraws b1, and leaves b2 alone; b0 has nothing left for the second one.
    """
    there, budgets = cluster(), Budgets()
    for i, allowed in enumerate([1, 0, 1, *[0] * more]):
        there.put_selecting(a_budget(f"b{i}", allowed, {"matchLabels": {f"b{i}": "y"}}))
    chosen = ("b0", "b1", "b2"), ("b0",), ("b2",), ("b2",), ("other",)
    victims = [a_pod(pod(f"p{i}", labels=dict.fromkeys(keys, "y"))) for i, keys in enumerate(chosen)]
    budgets.renew(there)
    assert budgets.overdrawing(victims, there) == [True, True, False, True, False]


@pytest.mark.parametrize("more", [0, FEW])
def test_an_eviction_that_was_counted_already_draws_nothing(more: int) -> None:
    """A budget's disruptedPods are passed over, as in FilterVictimsWithPDBViolation; others of its pods draw on it."""
    there, budgets = cluster(), Budgets()
    there.put_selecting(a_budget("b", 0, {"matchLabels": {"app": "a"}}, "p0"))
    for i in range(more):
        there.put_selecting(a_budget(f"c{i}", 0, {"matchLabels": {"app": f"c{i}"}}))
    budgets.renew(there)
    victims = [a_pod(pod(name, labels={"app": "a"})) for name in ("p0", "p1")]
    assert budgets.overdrawing(victims, there) == [False, True]
