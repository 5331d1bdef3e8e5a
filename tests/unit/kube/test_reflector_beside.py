"""Large objects are decoded beside the loop, few bytes of small ones between two of its turns."""

from __future__ import annotations

import asyncio
import threading
from itertools import pairwise

import pytest

from podberth.kube.reflector import LARGE_BYTES, beside, decoded


async def test_large_ones_in_the_thread_small_ones_on_the_loop() -> None:
    """In order, whichever way; the thread is always the same one."""

    def where(raw: bytes) -> tuple[int, str]:
        return len(raw), threading.current_thread().name

    loop = threading.current_thread().name
    raws = [b"", b"x" * LARGE_BYTES, b"x" * (LARGE_BYTES + 1), b"x", b"x" * (2 * LARGE_BYTES)]
    found = [one async for one in decoded(raws, where, where)]
    assert [size for size, _ in found] == [len(raw) for raw in raws]
    names = [name for _, name in found]
    assert names[:2] == [loop, loop]
    assert names[3] == loop
    assert names[2] == names[4] != loop


async def test_the_loop_has_a_turn_after_some_bytes() -> None:
    """Between two turns no more bytes are decoded than the largest small object has."""
    done = 0
    turns = [0]

    def decode(raw: bytes) -> None:
        nonlocal done
        done += len(raw)

    async def bystander() -> None:
        while True:
            turns.append(done)
            await asyncio.sleep(0)

    task = asyncio.create_task(bystander())
    async for _ in decoded([b"x" * 20_000] * 50, decode, decode):
        pass
    turns.append(done)
    task.cancel()
    assert done == 1_000_000
    assert max(b - a for a, b in pairwise(turns)) <= LARGE_BYTES


async def test_one_at_a_time_in_order_and_errors_come_out() -> None:
    """However many ask at a time, the loop shares with one thread."""
    at_once = most = 0
    order = []

    def work(number: int) -> int:
        nonlocal at_once, most
        at_once += 1
        most = max(most, at_once)
        order.append(number)
        at_once -= 1
        return 1 // number

    found = await asyncio.gather(*(beside(work, number) for number in (3, 2, 0, 1)), return_exceptions=True)
    assert order == [3, 2, 0, 1]
    assert most == 1
    assert found[:2] == [0, 0]
    assert isinstance(found[2], ZeroDivisionError)
    with pytest.raises(ZeroDivisionError):
        await beside(work, 0)
