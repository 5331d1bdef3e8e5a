"""Slots by namespace: nobody has more than their own, who used least is next, and who goes away takes nothing along."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from podberth.policy.admission.lanes import MOST_IDLE, Lanes, OverloadedError

FOREVER = float("inf")


async def turns() -> None:
    """Let everybody who can run do so."""
    for _ in range(5):
        await asyncio.sleep(0)


def entering(lanes: Lanes, namespace: str, cost: float = 1.0, weight: int = 1) -> asyncio.Task[None]:
    """Somebody who waits for a slot."""
    return asyncio.create_task(lanes.enter(namespace, cost=cost, until=FOREVER, weight=weight))


async def test_one_namespace_leaves_room() -> None:
    """However many of one namespace wait, another's turn comes at once."""
    lanes = Lanes(2, 1, 64)
    crowd = [entering(lanes, "evil") for _ in range(40)]
    await turns()
    assert (sum(task.done() for task in crowd), lanes.busy, lanes.waiting) == (1, 1, 39)
    await lanes.enter("team", cost=1.0, until=FOREVER)
    lanes.leave("team")
    for task in crowd:
        task.cancel()
    await asyncio.gather(*crowd, return_exceptions=True)
    assert lanes.waiting == 0


async def test_who_used_less_is_next() -> None:
    """Turns go by what work costs: of ten units each, one has ten turns and the other one."""
    lanes = Lanes(1, 1, 64)
    order: list[str] = []

    async def work(namespace: str, cost: float) -> None:
        async with lanes.slot(namespace, cost=cost, until=FOREVER):
            order.append(namespace)
            await asyncio.sleep(0)

    await asyncio.gather(*(work("dear", 10.0) for _ in range(3)), *(work("cheap", 1.0) for _ in range(30)))
    assert Counter(order[:22]) == {"dear": 2, "cheap": 20}


async def test_nobody_saves_up() -> None:
    """A namespace that was away for long has no more turns in a row than one that was there."""
    lanes = Lanes(1, 1, 64)
    for _ in range(100):
        async with lanes.slot("busy", cost=1.0, until=FOREVER):
            pass
    order: list[str] = []

    async def work(namespace: str) -> None:
        async with lanes.slot(namespace, cost=1.0, until=FOREVER):
            order.append(namespace)
            await asyncio.sleep(0)

    await asyncio.gather(*(work("fresh") for _ in range(6)), *(work("busy") for _ in range(6)))
    assert Counter(order[:6])["busy"] >= 2


async def test_large_ones_get_in() -> None:
    """Small ones of others do not pass by a large one for ever: it is next when there is room for it."""
    lanes = Lanes(4, 4, 64)
    await lanes.enter("a", cost=1.0, until=FOREVER, weight=3)
    large = entering(lanes, "b", weight=4)
    await turns()
    small = entering(lanes, "c", cost=100.0)
    await turns()
    assert not large.done() and not small.done()
    lanes.leave("a", weight=3)
    await turns()
    assert large.done() and not small.done()
    lanes.leave("b", weight=4)
    await small


async def test_weight_beyond_the_share() -> None:
    """A piece of work larger than a namespace's share has the whole share, and gives it back."""
    lanes = Lanes(10, 4, 64)
    async with lanes.slot("a", cost=1.0, until=FOREVER, weight=99):
        assert lanes.busy == 4
    assert lanes.busy == 0


@pytest.mark.parametrize("granted", [True, False])
async def test_who_goes_away(granted: bool) -> None:
    """Who is cancelled while waiting leaves the line; who was just given the slot gives it back."""
    lanes = Lanes(1, 1, 64)
    await lanes.enter("a", cost=1.0, until=FOREVER)
    waits = entering(lanes, "a")
    await turns()
    if granted:
        lanes.leave("a")  # the slot is theirs now, and they do not know yet
    waits.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waits
    if not granted:
        lanes.leave("a")
    assert (lanes.busy, lanes.waiting) == (0, 0)


async def test_too_long() -> None:
    """Whose turn does not come in time is told whether their own work stood in the way, or others'."""
    lanes = Lanes(1, 1, 64)
    now = asyncio.get_running_loop().time()
    async with lanes.slot("evil", cost=1.0, until=FOREVER):
        for namespace, own in (("evil", True), ("team", False)):
            with pytest.raises(OverloadedError) as error:
                await lanes.enter(namespace, cost=1.0, until=now)
            assert error.value.own == own
    assert (lanes.busy, lanes.waiting) == (0, 0)


async def test_line_is_bounded() -> None:
    """No more of one namespace may wait than are allowed; another's line is its own."""
    lanes = Lanes(1, 1, 2)
    waiting = [entering(lanes, "evil") for _ in range(3)]
    await turns()
    with pytest.raises(OverloadedError) as error:
        await lanes.enter("evil", cost=1.0, until=FOREVER)
    assert error.value.own
    other = entering(lanes, "team")
    await turns()
    assert lanes.waiting == 3
    for task in (*waiting, other):
        task.cancel()
    await asyncio.gather(*waiting, other, return_exceptions=True)


async def test_line_is_bounded_by_weight() -> None:
    """What waits of one namespace together may not weigh more than it may; one that fits is let in the line."""
    lanes = Lanes(4, 4, 64, 6)
    await lanes.enter("evil", cost=1.0, until=FOREVER, weight=4)
    waiting = [entering(lanes, "evil", weight=weight) for weight in (4, 2)]
    await turns()
    with pytest.raises(OverloadedError):
        await lanes.enter("evil", cost=1.0, until=FOREVER, weight=1)
    assert lanes.waiting == 2
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)


async def test_idle_namespaces_are_forgotten() -> None:
    """Ten thousand namespaces that were here once are not kept."""
    lanes = Lanes(1, 1, 64)
    for i in range(10_000):
        async with lanes.slot(f"ns-{i}", cost=1.0, until=FOREVER):
            pass
    assert lanes.kept <= MOST_IDLE


works = st.lists(st.tuples(st.sampled_from("abcd"), st.integers(1, 5), st.integers(0, 9), st.booleans()), max_size=30)


@settings(max_examples=60, deadline=None)
@given(works, st.integers(1, 6), st.integers(1, 6))
def test_always(work: list[tuple[str, int, int, bool]], slots: int, each: int) -> None:
    """Shares hold at every moment, everybody who stays gets a turn, and nothing is left in use at the end."""
    each = min(each, slots)

    async def run() -> None:
        lanes = Lanes(slots, each, 64)
        held: Counter[str] = Counter()

        async def one(namespace: str, weight: int, steps: int) -> None:
            async with lanes.slot(namespace, cost=float(weight), until=FOREVER, weight=weight):
                held[namespace] += min(weight, each)
                assert held[namespace] <= each and held.total() <= slots
                for _ in range(steps):
                    await asyncio.sleep(0)
                held[namespace] -= min(weight, each)

        tasks = [(asyncio.create_task(one(name, weight, steps)), goes) for name, weight, steps, goes in work]
        await asyncio.sleep(0)
        for task, goes in tasks:
            if goes and not task.done() and not held.total():
                task.cancel()
        await asyncio.gather(*(task for task, _ in tasks), return_exceptions=True)
        for task, _ in tasks:
            assert task.cancelled() or task.exception() is None
        assert (lanes.busy, lanes.waiting) == (0, 0)

    asyncio.run(run())
