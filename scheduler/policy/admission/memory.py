"""Memory for large bodies, which the system has back as soon as nobody uses it.

The C library keeps what was freed, up to 32 MB once a large block was. A server that was sent forty large reviews at
once would stay as large as it was then.
"""

from __future__ import annotations

import ctypes
import mmap

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
"""`mallopt`'s names for them (malloc.h of glibc)."""
LARGE_BYTES = 32 << 10
"""Blocks of so many bytes are mappings of their own. TLS has buffers of 32 to 64 KiB for each connection that sends a
large body; in the heap they would leave holes, of which some 7 MB stayed after forty such connections."""
FREE_BYTES = 2 << 20
"""Kept at the end of the heap; with less, each piece of a body would be asked for anew."""


def give_back() -> None:
    """Tell the C library to keep little of what is freed; does nothing where it is not glibc."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_MMAP_THRESHOLD, LARGE_BYTES)
        mallopt(_TRIM_THRESHOLD, FREE_BYTES)


def block(length: int) -> memoryview:
    """So many bytes, as a mapping of their own. Nothing is used of it before something is written there."""
    return memoryview(mmap.mmap(-1, max(length, 1), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS))[:length]
