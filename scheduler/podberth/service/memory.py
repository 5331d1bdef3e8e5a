"""What the C library does with memory that is freed: it gives more of it back to the system, for some more page faults.

By default it keeps what was freed, up to 32 MB once a large block was. A process stays as large as it was in its
busiest moment then, and long-lived blocks between large ones that have gone leave holes.
"""

from __future__ import annotations

import asyncio
import ctypes

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
"""`mallopt`'s names for them (malloc.h of glibc)."""
FREE_BYTES = 2 << 20
"""Kept at the end of the heap; with less, each piece of a large body would be asked for anew."""
TRIM_SECONDS = 60.0


def give_back(large: int) -> None:
    """Have blocks of `large` bytes and more be mappings of their own; does nothing where it is not glibc.

    Not for `berth run`: arrays over all nodes are that large, and each would be mapped and cleared anew.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_MMAP_THRESHOLD, large)
        mallopt(_TRIM_THRESHOLD, FREE_BYTES)


def trim() -> None:
    """Give back the pages in which nothing is in use any more, wherever they lie; does nothing where it is not glibc.

    Takes 0.3 to 0.5 ms for each MB that is free, in which nothing else in the process can allocate.
    """
    malloc_trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if malloc_trim is not None:
        malloc_trim(0)


async def trim_each_minute() -> None:
    """For a service that nobody waits for: pieces of requests and of lists leave holes that no threshold prevents."""
    while True:
        await asyncio.sleep(TRIM_SECONDS)
        trim()
