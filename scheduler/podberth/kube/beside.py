"""Large objects are decoded beside the event loop, in one thread for all kinds.

A tenant may write an object that takes 100 ms to decode. The interpreter lets one thread work at a time and changes
over every 5 ms (`sys.getswitchinterval`), so the loop goes on meanwhile, in turns with that thread. One thread and
not one for each kind: the loop then has to share with one at most, however many large objects come at a time.
`reflector` sends them here; what is read without one goes through `decoded`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from concurrent.futures import Executor
from functools import cache
from typing import TypeVar

Given = TypeVar("Given")
Found = TypeVar("Found")

LARGE_BYTES = 64 << 10
"""An object of more bytes is large: the dearest legal one of this size takes some 10 ms, of 128 KiB more than 20."""


def beside(work: Callable[[Given], Found], given: Given) -> asyncio.Future[Found]:
    """Do this in the thread, after what was given to it before. Cancelled after it began, it ends without a result."""
    return asyncio.get_running_loop().run_in_executor(_thread(), work, given)


async def decoded(
    raws: Iterable[bytes], decode: Callable[[bytes], Found], decode_large: Callable[[bytes], Found]
) -> AsyncIterator[Found]:
    """Decode each object, large ones in the thread. After some bytes of small ones, let the event loop have a turn."""
    seen = 0
    for raw in raws:
        size = len(memoryview(raw))
        if size > LARGE_BYTES:
            yield await beside(decode_large, raw)
            continue
        seen += size
        if seen > LARGE_BYTES:
            await asyncio.sleep(0)
            seen = size
        yield decode(raw)


@cache
def _thread() -> Executor:
    from concurrent.futures import ThreadPoolExecutor  # most processes never see a large object

    return ThreadPoolExecutor(1, thread_name_prefix="decode")
