"""Disruption budgets: which of them select a pod, and what an eviction draws on them."""

import gc
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from podberth.cache.cluster import Cluster
from podberth.model import wire
from podberth.model.kinds import Decoder
from podberth.model.namespaced import SelectingObject
from podberth.model.pod import Pod
from podberth.model.selectors import LabelSelector
from podberth.plugins.default_preemption import victims
from podberth.plugins.default_preemption.victims import Budgets
from tests.builders import pod
from tests.unit.plugins.small import a_pod, cluster
from tests.unit.work import calls

from .preempting import a_budget

KEYS, VALUES = ("app", "tier", "one"), ("a", "b", "c")
_labels = st.dictionaries(st.sampled_from(KEYS), st.sampled_from(VALUES))


@st.composite
def _requirement(draw: st.DrawFn) -> dict[str, Any]:
    operator = draw(st.sampled_from(("NotIn", "NotIn", "DoesNotExist", "In", "Exists")))
    found: dict[str, Any] = {"key": draw(st.sampled_from(KEYS)), "operator": operator}
    if operator in ("In", "NotIn"):
        found["values"] = draw(st.lists(st.sampled_from(VALUES), min_size=1, max_size=3))
        if draw(st.integers(0, 9)) == 0:
            found["values"] += [f"x{i}" for i in range(100)]
    return found


_selector = st.fixed_dictionaries({"matchExpressions": st.lists(_requirement(), max_size=3)})
_step = st.one_of(
    st.tuples(st.just("put"), st.integers(0, 9), _selector),
    st.tuples(st.just("drop"), st.integers(0, 9), st.none()),
    st.tuples(st.just("ask"), st.none(), st.none()),
)


@given(labels=st.lists(_labels, min_size=1, max_size=4), steps=st.lists(_step, max_size=20))
def test_they_are_those_whose_selectors_match(labels: list[dict[str, str]], steps: list[Any]) -> None:
    """Whatever was asked before and whatever changes, selectors and what budgets allow."""
    there, budgets = Cluster(), Budgets()
    pods = [a_pod(pod(f"p{i}", labels=some)) for i, some in enumerate(labels)]
    for turn, (what, number, selector) in enumerate([*steps, ("ask", None, None)]):
        name = f"b{number}"
        if what == "put":
            there.put_selecting(a_budget(name, turn % 2, selector))
        elif what == "drop":
            there.drop_selecting("PodDisruptionBudget", "default", name)
        else:
            budgets.follow(there)
            written = there.selecting.get("PodDisruptionBudget", {}).get("default", {}).values()
            # An empty selector is no concern of an eviction here, as upstream has it.
            exhausted = [one for one in written if not one.selector.is_everything and not one.allowed]
            for one in pods:
                expected = any(budget.selector.matches(one.labels) for budget in exhausted) and bool(one.labels)
                assert (budgets.overdrawing([one], there) or [False]) == [expected]


def test_what_budgets_select_is_remembered_within_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each set of labels counts one, and one for each budget that selects it; beyond ten, all are forgotten."""
    monkeypatch.setattr(victims, "_REMEMBERED", 10)
    there, budgets = cluster(), Budgets()
    there.put_selecting(a_budget("b", 1, {"matchExpressions": [{"key": "app", "operator": "Exists"}]}))
    budgets.follow(there)
    asked = calls(monkeypatch, (LabelSelector, "matches"))
    selected, others = ([a_pod(pod(f"p{i}", labels={key: str(i)})) for i in range(13)] for key in ("app", "other"))

    def asks(*pods: Pod) -> int:
        """How often a selector is asked about these."""
        before = asked["matches"]
        for one in pods:
            budgets.overdrawing([one], there)
        return asked["matches"] - before

    assert asks(*selected[:5]) == 5
    assert asks(*selected[:5]) == 0, "that makes ten"
    assert asks(selected[5]) == 1
    assert asks(*selected[5:10]) == 4, "the sixth is remembered, and the first of the next ten"
    assert asks(selected[5], selected[10]) == 1
    assert asks(selected[10], selected[9]) == 1, "the eleventh was too much"
    assert asks(*others[:6]) == 6
    assert asks(others[0]) == 0
    assert asks(others[6], others[7], selected[9]) == 3


@pytest.mark.skipif(sys.version_info >= (3, 14), reason="the collector looks through all dicts from Python 3.14 on")
def test_the_collector_does_not_look_through_names_of_disrupted_pods() -> None:
    """There may be 20,000 in a budget that is written all the time: that made turns of 25 ms."""
    times = {f"p{i}": "2026-11-26T00:00:00Z" for i in range(100)}
    document = {"metadata": {"name": "b", "namespace": "n"}, "status": {"disruptedPods": times}}
    budget = Decoder().of_kind("PodDisruptionBudget")(wire.encode(document))
    assert isinstance(budget, SelectingObject)
    assert "p99" in budget.disrupted
    assert not gc.is_tracked(budget.disrupted)


def test_an_eviction_draws_until_a_budget_is_overdrawn() -> None:
    """One budget after the other, up to the first that is: FilterVictimsWithPDBViolation in preemption/util.go.

    So the first pod draws on b0, then overdraws b1, and leaves b2 alone; b0 has nothing left for the second one.
    """
    there, budgets = cluster(), Budgets()
    for i, allowed in enumerate([1, 0, 1]):
        there.put_selecting(a_budget(f"b{i}", allowed, {"matchLabels": {f"b{i}": "y"}}))
    chosen = ("b0", "b1", "b2"), ("b0",), ("b2",), ("b2",), ("other",)
    victims = [a_pod(pod(f"p{i}", labels=dict.fromkeys(keys, "y"))) for i, keys in enumerate(chosen)]
    budgets.follow(there)
    assert budgets.overdrawing(victims, there) == [True, True, False, True, False]


def test_a_budget_that_selects_everything_selects_nobody() -> None:
    """`{}`, as in FilterVictimsWithPDBViolation, which passes over selectors that are empty."""
    there, budgets, victim = cluster(), Budgets(), a_pod(pod("p", labels={"app": "a"}))
    there.put_selecting(a_budget("b", 0, {}))
    budgets.follow(there)
    assert budgets.overdrawing([victim], there) is None
    for app, overdrawn in (("a", [True]), ("b", None), ("a", [True])):
        there.put_selecting(a_budget("b", 0, {"matchLabels": {"app": app}}))
        budgets.follow(there)
        assert budgets.overdrawing([victim], there) == overdrawn


def test_an_eviction_that_was_counted_already_draws_nothing() -> None:
    """A budget's disruptedPods are passed over, as in FilterVictimsWithPDBViolation; others of its pods draw on it."""
    there, budgets = cluster(), Budgets()
    there.put_selecting(a_budget("b", 0, {"matchLabels": {"app": "a"}}, "p0"))
    budgets.follow(there)
    victims = [a_pod(pod(name, labels={"app": "a"})) for name in ("p0", "p1")]
    assert budgets.overdrawing(victims, there) == [False, True]
