"""Results of selectors are kept by who asks for them: what one tenant asks displaces nothing of others."""

import gc
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from podberth.cel.owned import MOST_OWNERS, Owned
from podberth.model.devices import DeviceID, DeviceTraits
from podberth.plugins.dynamic_resources.requested import AllocationError
from podberth.plugins.dynamic_resources.selecting import Programs, SelectorResults

DEVICES = 200
MOST = 64 << 10
"""Bytes for some hundred expressions."""


def of_devices() -> list[DeviceTraits]:
    return [DeviceTraits("gpu.test", {"number": ("int", i)}, {}, shared=None) for i in range(DEVICES)]


class Asked:
    """Evaluates an expression that is the number up to which devices are selected, and counts how often."""

    def __init__(self) -> None:
        self.times = 0

    def __call__(self, expression: str, traits: DeviceTraits) -> bool:
        self.times += 1
        return bool(traits.attributes["number"][1] < int(expression))


def test_a_tenant_with_many_expressions_displaces_its_own() -> None:
    """A thousand of them, where 64 used to be enough to have everybody's evaluated again."""
    results, devices, asked = SelectorResults(MOST), of_devices(), Asked()
    for traits in devices:
        assert results.holds("100", traits, "good", asked) == (traits.attributes["number"][1] < 100)
    assert asked.times == DEVICES
    for i in range(1_000):
        for traits in devices[:3]:
            results.holds(str(1_000 + i), traits, "evil", asked)
    asked.times = 0
    assert [results.holds("100", traits, "good", asked) for traits in devices] == [i < 100 for i in range(DEVICES)]
    assert asked.times == 0
    assert [results.known("100", traits) for traits in devices] == [i < 100 for i in range(DEVICES)]


def test_what_two_tenants_ask_is_evaluated_once_and_stays_for_the_second() -> None:
    """One of them displaces it for itself only."""
    results, devices, asked = SelectorResults(MOST), of_devices(), Asked()
    for owner in ("good", "evil"):
        for traits in devices:
            results.holds("100", traits, owner, asked)
    assert asked.times == DEVICES
    for i in range(1_000):
        results.holds(str(1_000 + i), devices[0], "evil", asked)
    assert all(results.known("100", traits) is not None for traits in devices)


def test_devices_of_before_are_not_taken_for_others() -> None:
    """When numbers begin afresh, those that had one get another."""
    results, asked, devices = SelectorResults(MOST, numbers=2), Asked(), of_devices()
    for number in (1, 2, 150, 1, 199, 150):
        assert results.holds("100", devices[number], "good", asked) == (number < 100)


def test_numbers_begin_afresh_when_devices_come_and_go() -> None:
    """Then everything is evaluated again, and nothing is mixed up."""
    results, asked = SelectorResults(MOST, numbers=50), Asked()
    for _ in range(2):
        for i, traits in enumerate(of_devices()):
            assert results.holds("100", traits, "good", asked) == (i < 100)
            assert results.known("100", traits) == (i < 100)


def test_a_selector_that_can_not_be_compiled_keeps_nothing_of_who_asks() -> None:
    """Each attempt asks it once more, on thousands of nodes."""
    (traits, *_), device = of_devices(), DeviceID("gpu.test", "p", "d")
    before = sys.getrefcount(traits)
    for _ in range(3):
        with pytest.raises(AllocationError, match="class c: CEL compile error") as failed:
            Programs().selects("(", "class c", traits, device)
        del failed
    gc.collect()
    assert sys.getrefcount(traits) == before


@settings(deadline=None)
@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 9), st.integers(1, 8), st.booleans()), max_size=60))
def test_an_owner_within_its_share_loses_nothing(steps: list[tuple[str, int, int, bool]]) -> None:
    """Whoever never had more than a third of the room keeps all of it, whatever the others do; the sizes add up."""
    most = 30
    kept: Owned[int] = Owned(most)
    sizes: dict[str, int] = {}
    modest = set("abc")
    for owner, number, size, grows in steps:
        name = f"{owner}{number}"
        if kept.get(name, owner) is None:
            sizes[name] = size
            kept.put(name, number, size, owner)
        elif grows:
            sizes[name] += 1
            kept.grow(name, 1)
        there = {one for one in sizes if kept.peek(one) is not None}
        assert len(kept) == len(there)
        assert kept.size == sum(sizes[one] for one in there)
        assert kept.size <= most or len([one for one in there if one[0] == owner]) == 1
        modest -= {who for who in modest if sum(size for one, size in sizes.items() if one[0] == who) > most // 3}
        assert {one for one in sizes if one[0] in modest} <= there


def test_an_owner_that_asks_no_more_loses_what_it_has_when_many_others_come() -> None:
    """Namespaces come and go, and all of them may ask for one thing, which takes no more room for that."""
    kept: Owned[int] = Owned(10)
    for name, owner in (("own", "gone"), ("its", "there")):
        kept.put(name, 0, 1, owner)
    kept.put("common", 0, 1, "")
    for number in range(MOST_OWNERS):
        kept.get("common", f"namespace {number}")
        kept.get("its", "there")
    assert kept.peek("own") is None
    assert (kept.peek("its"), kept.peek("common")) == (0, 0)


def test_owners_that_each_add_one_thing_more_than_the_last_stay_within_the_bound() -> None:
    """What each of them has is larger than what all before have, and is the only thing that it has."""
    kept: Owned[int] = Owned(10)
    for size in range(4, 14):
        kept.put(str(size), size, size, f"owner {size}")
        assert kept.size - size <= 10
