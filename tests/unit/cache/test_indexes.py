"""Indexes of labels and of selectors find what a look at each thing finds, whatever came and went before."""

from array import array
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from podberth.cache import label_index
from podberth.cache.label_index import LabelIndex, SelectorIndex, Services, TermIndex
from podberth.model.namespaced import SelectingObject
from podberth.model.selectors import NOTHING, Condition, Kind, LabelSelector, Requirement, conditions_of
from podberth.model.terms import AffinityTerm

if TYPE_CHECKING:
    Integers = array[int]
else:
    Integers = array  # Python 3.11 takes no parameter

KEYS = ["a", "b", "c"]
VALUES = ["1", "2", "3"]
LABELS = st.dictionaries(st.sampled_from(KEYS), st.sampled_from(VALUES))
REQUIREMENTS = st.builds(
    lambda key, operator, values: Requirement(key, operator, frozenset(values if "In" in operator else ())),
    st.sampled_from(KEYS),
    st.sampled_from(["In", "NotIn", "Exists", "DoesNotExist"]),
    st.lists(st.sampled_from(VALUES), min_size=1, max_size=2),
)
SELECTORS = st.one_of(
    st.just(NOTHING), st.builds(lambda found: LabelSelector(tuple(found)), st.lists(REQUIREMENTS, max_size=3))
)
PLACES = st.sampled_from(["x", "y", "z"])
TERMS = st.builds(
    lambda selector, names, namespaces: AffinityTerm(selector, frozenset(names), namespaces, "zone"),
    SELECTORS,
    st.lists(PLACES, max_size=2),
    SELECTORS,
)
STEPS = st.lists(st.tuples(st.sampled_from(["add", "add", "remove", "reuse"]), st.integers(0, 99)), max_size=30)


@given(SELECTORS, LABELS)
def test_conditions_mean_what_requirements_do(selector: LabelSelector, labels: dict[str, str]) -> None:
    """One condition for each key, however the requirements on a key are mixed."""
    conditions = selector.conditions
    held = conditions is not None and all(one.accepts(labels.get(one.key)) for one in conditions)
    assert held == selector.matches(labels)
    assert conditions is None or len({one.key for one in conditions}) == len(conditions)


def test_an_operator_that_no_label_selector_has_is_refused() -> None:
    """Gt is for node labels."""
    with pytest.raises(ValueError, match="Gt is no operator of a label selector"):
        conditions_of([Requirement("a", "Gt", number=1)])


class Kept:
    """Things under the numbers that an index gave them."""

    def __init__(
        self, add: Callable[[Any], int], remove: Callable[[int, Any], None], reuse: Callable[[], None]
    ) -> None:
        self.things: dict[int, Any] = {}
        self._add, self._remove, self._reuse = add, remove, reuse
        self._dead: set[int] = set()

    def take(self, step: tuple[str, int], made: list[Any]) -> None:
        what, which = step
        if what == "add" and made:
            thing = made[which % len(made)]
            number = self._add(thing)
            assert number not in self.things
            assert number not in self._dead
            self.things[number] = thing
        elif what == "remove" and self.things:
            number = sorted(self.things)[which % len(self.things)]
            self._remove(number, self.things.pop(number))
            self._dead.add(number)
        elif what == "reuse":
            self._reuse()
            self._dead.clear()


@settings(deadline=None)
@given(
    st.sampled_from([0, 1, 64]),
    st.lists(st.tuples(LABELS, PLACES), min_size=1),
    STEPS,
    st.lists(st.tuples(SELECTORS, st.none() | st.frozensets(PLACES)), min_size=1, max_size=4),
)
def test_labels(
    few: int,
    made: list[tuple[dict[str, str], str]],
    steps: list[tuple[str, int]],
    asked: list[tuple[LabelSelector, frozenset[str] | None]],
) -> None:
    """Found one by one or as bits, in some places or in all."""
    index = LabelIndex()
    kept = Kept(lambda one: index.add(*one), lambda number, _: index.remove(number), index.reuse)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(label_index, "FEW", few)
        for step in steps:
            kept.take(step, made)
            for selector, places in asked:
                if selector.conditions is None:
                    continue
                found = index.select(selector.conditions, places)
                numbers = sorted(found) if isinstance(found, list) else found.nonzero()[0].tolist()
                assert numbers == sorted(
                    number
                    for number, (labels, place) in kept.things.items()
                    if selector.matches(labels) and (places is None or place in places)
                )
            assert index.alive == len(kept.things)


@settings(deadline=None)
@given(st.lists(SELECTORS, min_size=1), STEPS, st.lists(LABELS, min_size=1, max_size=4), st.sampled_from([0, 1, 2, 64]))
def test_selectors(
    made: list[LabelSelector], steps: list[tuple[str, int]], asked: list[dict[str, str]], short: int
) -> None:
    """Whichever lists are long."""
    index = SelectorIndex()
    kept = Kept(index.add, index.remove, index.reuse)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(label_index, "FEW", short)
        for step in steps:
            kept.take(step, made)
            for labels in asked:
                wanted = [number for number, selector in kept.things.items() if selector.matches(labels)]
                assert index.select(labels).nonzero()[0].tolist() == sorted(wanted)
        assert index.alive == len(kept.things)


@settings(deadline=None, max_examples=300)
@given(
    st.lists(TERMS, min_size=1),
    STEPS,
    st.lists(st.tuples(PLACES, LABELS, LABELS), min_size=1, max_size=4),
)
def test_terms(
    made: list[AffinityTerm],
    steps: list[tuple[str, int]],
    asked: list[tuple[str, dict[str, str], dict[str, str]]],
) -> None:
    """Namespaces by name and by label."""
    index = TermIndex()
    kept = Kept(index.add, lambda number, _: index.remove(number), index.reuse)
    for step in steps:
        kept.take(step, made)
        for place, of_place, labels in asked:
            found = index.select(place, of_place, labels).nonzero()[0].tolist()
            assert found == sorted(
                number
                for number, term in kept.things.items()
                if term.selector.matches(labels)
                and (place in term.namespaces or term.namespace_selector.matches(of_place))
            )
    assert index.alive == len(kept.things)


def test_services_of_a_namespace() -> None:
    """Those that select the pod, by name, whatever came, changed and went before."""
    services = Services()

    def put(name: str, selector: LabelSelector) -> None:
        services.put(SelectingObject("Service", "x", name, name, "1", selector))

    web = LabelSelector((Requirement("app", "In", frozenset(("web",))),))
    put("b", web)
    put("a", web)
    put("nothing", NOTHING)
    put("other", LabelSelector((Requirement("app", "In", frozenset(("other",))),)))
    assert [one.name for one in services.selecting("x", {"app": "web"})] == ["a", "b"]
    put("b", NOTHING)
    for i in range(200):
        put("a", web)
        put(f"gone-{i}", web)
        services.drop("x", f"gone-{i}")
    assert [one.name for one in services.selecting("x", {"app": "web"})] == ["a"]
    assert services.selecting("y", {"app": "web"}) == []


def test_selectors_are_taken_out_of_long_lists_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """Thousands that name one key and value may go at once: nobody looks for each of them in the list."""
    looked_through = 0

    class Counted(Integers):
        def remove(self, value: int, /) -> None:
            nonlocal looked_through
            looked_through += len(self)
            super().remove(value)

    monkeypatch.setattr(label_index, "array", Counted)
    index = SelectorIndex()
    selectors = [
        LabelSelector((Requirement("app", "Exists", frozenset()), Requirement(f"k{i}", "Exists", frozenset())))
        for i in range(2_000)
    ]
    numbers = [index.add(selector) for selector in selectors]
    for number, selector in zip(numbers, selectors[:-1], strict=False):
        index.remove(number, selector)
    assert looked_through < 10_000
    assert not index.select({"app": "x", "k7": "x"}).any()
    assert np.flatnonzero(index.select({"app": "x", "k1999": "x"})).tolist() == [1_999]
    index.reuse()
    again = index.add(selectors[7])
    assert again < 2_000
    assert np.flatnonzero(index.select({"app": "x", "k7": "x"})).tolist() == [again]
    assert np.flatnonzero(index.select({"app": "x", "k1999": "x"})).tolist() == [1_999]


def test_keys_of_one_tenant_do_not_displace_what_everybody_asks_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hundreds of keys that some things have, each asked for by a value: the key of all things is not learnt again."""
    index, few = LabelIndex(), label_index.FEW + 1
    for i in range(2_000):
        index.add({"app": f"a{i}"} | ({f"k{k}": "v" for k in range(300)} if i < few else {}))
    everybody = [Condition("app", Kind.IN, frozenset(("a7",)))]
    assert index.select(everybody) == [7]
    for k in range(300):
        assert len(index.select([Condition(f"k{k}", Kind.IN, frozenset(("v",)))])) == len(index)
    learnt = []
    monkeypatch.setattr(label_index, "append_to", lambda *given: learnt.append(given))
    assert index.select(everybody) == [7]
    assert learnt == []
