"""Memory for large bodies, which the system has back as soon as nobody uses it.

A server that was sent forty large reviews at once would stay as large as it was then (`podberth.service.loop`).
"""

from __future__ import annotations

import mmap

from podberth.service.loop import give_memory_back

LARGE_BYTES = 32 << 10
"""Blocks of so many bytes are mappings of their own. TLS has buffers of 32 to 64 KiB for each connection that sends a
large body; in the heap they would leave holes, of which some 7 MB stayed after forty such connections."""


def give_back() -> None:
    """Tell the C library to keep little of what is freed."""
    give_memory_back(LARGE_BYTES)


def block(length: int) -> memoryview:
    """Return a buffer of this many bytes as a mapping of its own, whose pages take no memory until they are written."""
    return memoryview(mmap.mmap(-1, max(length, 1), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS))[:length]
