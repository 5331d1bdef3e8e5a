"""One piece of dear work of a namespace at a time, namespaces in line, and nothing kept of those that are gone."""

from __future__ import annotations

import asyncio
import gc

import pytest

from podberth.policy.admission.turns import NamespaceTurns, OverloadedError


async def test_one_of_each_namespace_in_line() -> None:
    """A namespace with five pieces of work does not keep another's, which comes last, waiting behind all of them."""
    turns, done = NamespaceTurns(1), list[str]()

    async def work(namespace: str) -> None:
        async with turns.turn(namespace, 10.0):
            done.append(namespace)

    await asyncio.gather(*(work("evil") for _ in range(5)), work("team"), work("shop"))
    assert sorted(done[:3]) == ["evil", "shop", "team"]
    assert done[3:] == ["evil"] * 4


async def test_no_more_than_there_are_turns() -> None:
    """Of many namespaces as many have their turn at a time as there are, and of one namespace one."""
    turns, under_way, most = NamespaceTurns(2), list[str](), 0

    async def work(namespace: str) -> None:
        nonlocal most
        async with turns.turn(namespace, 10.0):
            assert namespace not in under_way
            under_way.append(namespace)
            most = max(most, len(under_way))
            await asyncio.sleep(0)
            under_way.remove(namespace)

    await asyncio.gather(*(work(f"n{i % 5}") for i in range(50)))
    assert (most, turns.waiting) == (2, 0)


async def test_small_work_goes_first() -> None:
    """Whose turn has come lets what is ready meanwhile go before it."""
    turns, done = NamespaceTurns(1), list[str]()

    async def dear() -> None:
        async with turns.turn("evil", 10.0):
            done.append("dear")

    async def small() -> None:
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        done.append("small")

    await asyncio.gather(dear(), small())
    assert done == ["small", "dear"]


@pytest.mark.parametrize(("holder", "own"), [("evil", True), ("team", False)])
async def test_whose_turn_does_not_come(holder: str, own: bool) -> None:
    """It is told whether its own namespace is in the way; who gave up holds nothing."""
    turns = NamespaceTurns(1)
    async with turns.turn(holder, 10.0):
        with pytest.raises(OverloadedError) as error:
            async with turns.turn("evil", 0.01):
                raise AssertionError("it has no turn")
        assert error.value.own is own
    async with turns.turn("evil", 10.0):
        assert turns.waiting == 0


async def test_who_goes_away_leaves_the_line() -> None:
    """A piece of work that is cancelled while it waits holds nothing."""
    turns = NamespaceTurns(1)
    async with turns.turn("team", 10.0):
        waiting = asyncio.create_task(turns.turn("evil", 10.0).__aenter__())
        while not turns.waiting:  # noqa: ASYNC110 - a turn of the loop or two
            await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
    async with turns.turn("evil", 10.0):
        assert turns.waiting == 0


async def test_nothing_is_kept_of_a_namespace_without_work() -> None:
    """Tenants name namespaces: ten thousand that were seen once leave nothing behind."""
    turns = NamespaceTurns(1)
    for i in range(100):
        async with turns.turn(f"n{i}", 10.0):
            pass
    gc.collect()
    assert turns.known == 0
