"""Token bucket, shares, gate and backoff in virtual time."""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from podberth.kube.flow import API, BIND, CONFIRM, EVICT, STATUS, WATCH, Backoff, Bucket, Gate, Lane, Places, Throttle


class VirtualTime:
    """A clock that jumps from one planned call to the next."""

    def __init__(self) -> None:
        self.now = 0.0
        self._calls: list[tuple[float, int, Callable[[], None]]] = []

    def clock(self) -> float:
        return self.now

    def later(self, seconds: float, call: Callable[[], None]) -> None:
        heapq.heappush(self._calls, (self.now + seconds, len(self._calls), call))

    async def run(self) -> None:
        """Let tasks go as far as they can, then jump, until nothing is planned."""
        while True:
            for _ in range(5):
                await asyncio.sleep(0)
            if not self._calls:
                return
            self.now, _, call = heapq.heappop(self._calls)
            call()


def test_a_bucket_gives_its_burst_and_then_its_rate() -> None:
    """Ten tokens a second with a burst of three: three at once, then one each tenth of a second."""
    bucket = Bucket(10, 3)
    assert [bucket.take(0.0) for _ in range(3)] == [0.0, 0.0, 0.0]
    assert bucket.take(0.0) == pytest.approx(0.1)
    assert bucket.take(0.05) == pytest.approx(0.05)
    assert bucket.take(0.1) == 0.0
    assert bucket.take(0.1) == pytest.approx(0.1)


@given(st.floats(0.5, 500), st.integers(1, 50), st.lists(st.floats(0, 2), max_size=100))
def test_a_bucket_never_gives_more_than_burst_plus_rate(rate: float, burst: int, gaps: list[float]) -> None:
    """Whenever it is asked, the tokens given up to a moment are at most burst + rate × time."""
    bucket = Bucket(rate, burst)
    now, given_out = 0.0, 0
    for gap in gaps:
        now += gap
        while bucket.take(now) == 0.0:
            given_out += 1
        assert given_out <= burst + rate * now + 1e-6


def test_a_negative_rate_is_no_limit_and_a_zero_rate_is_refused() -> None:
    """qps < 0 turns the limiter off as in client-go; 0 would send nothing and is refused."""
    assert all(Bucket(-1, 0).take(0.0) == 0.0 for _ in range(1000))
    with pytest.raises(ValueError, match="lets nothing through"):
        Bucket(0, 10)
    with pytest.raises(ValueError, match="lets nothing through"):
        Bucket(5, 0)


async def served(throttle: Throttle, time: VirtualTime, *crowds: tuple[Lane, int]) -> list[str]:
    """Lanes in the order in which their requests were let through; crowds come one after the other."""
    order: list[str] = []

    async def ask(lane: Lane) -> None:
        await throttle.wait(lane)
        order.append(lane.name)

    tasks = []
    for lane, many in crowds:
        tasks += [asyncio.create_task(ask(lane)) for _ in range(many)]
        await asyncio.sleep(0)
    await time.run()
    await asyncio.gather(*tasks)
    return order


@pytest.mark.parametrize("late", [WATCH, EVICT, API, CONFIRM, STATUS], ids=lambda lane: lane.name)
async def test_nobody_waits_behind_ten_thousand_binds(late: Lane) -> None:
    """A watch that reopens, an eviction, a list: each is let through after at most one more bind."""
    time = VirtualTime()
    order = await served(Throttle(Bucket(50, 100), time.clock, time.later), time, (BIND, 10_000), (late, 1))
    assert order.index(late.name) <= 101
    assert time.now == pytest.approx((10_001 - 100) / 50)


async def test_crowds_share_by_their_lanes_shares() -> None:
    """While all of them wait, binds get sixteen tokens for four of statuses; in a lane, who came first goes first."""
    time = VirtualTime()
    order = await served(Throttle(Bucket(10, 1), time.clock, time.later), time, (STATUS, 300), (BIND, 300))
    while_both = order[: order.index("bind") + 200]
    assert while_both.count("bind") == pytest.approx(160, abs=2)
    assert (order.count("bind"), order.count("status")) == (300, 300)


async def test_who_was_away_saves_nothing_up() -> None:
    """A lane that sent nothing for long gets its share from now on, not all that it did not use."""
    time = VirtualTime()
    throttle = Throttle(Bucket(10, 1), time.clock, time.later)
    await served(throttle, time, (BIND, 500))
    order = await served(throttle, time, (BIND, 100), (STATUS, 100))
    assert order[:100].count("status") == pytest.approx(20, abs=2)


async def test_a_lane_is_served_in_its_order_at_the_rate() -> None:
    """First come, first served; a tenth of a second between two."""
    time = VirtualTime()
    throttle = Throttle(Bucket(10, 1), time.clock, time.later)
    found: list[tuple[int, float]] = []

    async def ask(number: int) -> None:
        await throttle.wait(BIND)
        found.append((number, time.now))

    tasks = [asyncio.create_task(ask(i)) for i in range(6)]
    await time.run()
    await asyncio.gather(*tasks)
    assert [number for number, _ in found] == list(range(6))
    assert all(b - a == pytest.approx(0.1, abs=0.002) for (_, a), (_, b) in pairwise(found))


async def test_a_request_that_gives_up_costs_no_token() -> None:
    """A cancelled waiter is skipped and the next one gets its turn at the same moment."""
    time = VirtualTime()
    throttle = Throttle(Bucket(10, 1), time.clock, time.later)
    await throttle.wait(BIND)
    gone = asyncio.create_task(throttle.wait(BIND))
    stays = asyncio.create_task(throttle.wait(BIND))
    await asyncio.sleep(0)
    gone.cancel()
    await time.run()
    await stays
    assert time.now == pytest.approx(0.1)
    assert throttle.waiting == 0


def test_a_gate_holds_everyone_for_the_asked_time_and_spreads_them() -> None:
    """After Retry-After: 2 nobody passes before 2 s, and each waiter adds its own jitter of at most half of it."""
    draws = iter([0.0, 0.5, 1.0])
    gate = Gate(lambda: next(draws))
    assert gate.delay(100.0) == 0.0
    gate.shut(100.0, 2.0)
    gate.shut(100.0, 1.0)  # a shorter one does not open it early
    assert [gate.delay(100.0) for _ in range(3)] == pytest.approx([2.0, 2.5, 3.0])
    assert gate.delay(102.0) == 0.0
    gate.shut(200.0, 0.0)
    assert Gate.delay(gate, 200.2) == 0.0  # Retry-After: 0 still pauses a tenth of a second, no more


@pytest.mark.parametrize(
    ("draw", "want"),
    [(1.0, [0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 30.0, 30.0]), (0.5, [0.4, 0.8, 1.6, 3.2]), (0.0, [0.1, 0.1])],
)
def test_backoff_doubles_to_its_cap_with_full_jitter(draw: float, want: list[float]) -> None:
    """800 ms doubling to 30 s, multiplied by the draw, never under a tenth of a second."""
    backoff = Backoff(lambda: draw)
    assert [backoff.failed(float(i)) for i in range(len(want))] == pytest.approx(want)


def test_backoff_forgets_after_a_quiet_time_and_obeys_the_server() -> None:
    """Two minutes without a failure start over; a Retry-After is never undercut."""
    backoff = Backoff(lambda: 1.0)
    for now in range(5):
        backoff.failed(float(now))
    assert backoff.failed(4 + 121.0) == pytest.approx(0.8)
    assert 7.0 <= backoff.failed(126.0, at_least=7.0) <= 10.6


async def test_what_began_first_goes_first() -> None:
    """The second write of the first pod goes before the first write of the others, however long those wait."""
    places, began = Places(1), list[str]()

    async def write(name: str, since: float) -> None:
        await places.take(since)
        began.append(name)
        await asyncio.sleep(0)
        places.give_back()

    await places.take(0.0)
    waiting = [asyncio.create_task(write(f"first write of {i}", float(i))) for i in (3, 1, 2, 1)]
    await asyncio.sleep(0)
    waiting.append(asyncio.create_task(write("second write of 0", 0.0)))
    await asyncio.sleep(0)
    places.give_back()
    await asyncio.gather(*waiting)
    assert began == ["second write of 0", *(f"first write of {i}" for i in (1, 1, 2, 3))]
    assert places.free == 1


@given(st.integers(1, 3), st.lists(st.tuples(st.booleans(), st.floats(0, 9)), max_size=20))
def test_no_place_is_lost(width: int, requests: list[tuple[bool, float]]) -> None:
    """Whoever is cancelled, while it waits or when it has just been given a place: all places are free in the end."""

    async def run() -> int:
        places = Places(width)

        async def work(since: float) -> None:
            await places.take(since)
            try:
                await asyncio.sleep(0)
            finally:
                places.give_back()

        tasks = [asyncio.create_task(work(since)) for _, since in requests]
        for task, (cancelled, _) in zip(tasks, requests, strict=True):
            await asyncio.sleep(0)
            if cancelled:
                task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        return places.free

    assert asyncio.run(run()) == width
