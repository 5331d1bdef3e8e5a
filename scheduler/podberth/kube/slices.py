"""Objects of lists and streams are decoded in slices, so that nothing else in the process waits for long.

In each turn of the event loop decoding takes at most 4 ms and one object more. Large objects are decoded in a thread
(`beside`), and what comes after one waits for it, so that the order stays.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

import msgspec

from podberth.kube.beside import LARGE_BYTES, beside
from podberth.kube.changes import T
from podberth.kube.wire import MALFORMED

Bytes = TypeVar("Bytes", bytes, msgspec.Raw)

SECONDS = 0.004
OBJECTS = 32
"""The clock is looked at after so many objects,"""
BYTES = 16 << 10
"""or after so many bytes of them."""


class Slices(Generic[T]):
    """How the objects of one kind are decoded. `decode_large`: in the thread; None: large ones like all others."""

    def __init__(self, decode_large: Callable[[msgspec.Raw], T] | None, clock: Callable[[], float]) -> None:
        self._decode_large = decode_large
        self._clock = clock
        self._doubts = 0

    def doubt(self) -> None:
        """Objects are read by other rules from now on: what is being decoded in the thread is decoded again."""
        self._doubts += 1

    async def each(
        self,
        things: Iterable[Bytes],
        object_in: Callable[[Bytes], msgspec.Raw | None],
        do: Callable[[Bytes, Callable[[msgspec.Raw], T] | None], None],
        flush: Callable[[], None] = lambda: None,
    ) -> None:
        """Do each thing, giving the event loop a turn after every slice; `flush` is called before each turn.

        `do` is given how to decode the object when that was done in the thread, else None.
        """
        started = self._clock()
        count = seen = 0
        for thing in things:
            size = len(thing) if isinstance(thing, bytes) else len(memoryview(thing))
            count += 1
            seen += size
            if size > LARGE_BYTES and self._decode_large is not None and (raw := object_in(thing)) is not None:
                flush()
                do(thing, await self._decoded(raw, self._decode_large))
            else:
                do(thing, None)
            if count < OBJECTS and seen < BYTES:
                continue
            count = seen = 0
            if self._clock() - started > SECONDS:
                flush()
                await asyncio.sleep(0)
                started = self._clock()
        flush()

    async def _decoded(self, raw: msgspec.Raw, decode: Callable[[msgspec.Raw], T]) -> Callable[[msgspec.Raw], T]:
        """Decode an object in the thread. What comes back gives the object, or raises what made it malformed."""
        while True:
            doubts = self._doubts
            done = beside(decode, raw)
            with contextlib.suppress(*MALFORMED):
                await done
            if doubts == self._doubts:  # else it may have been read by rules that no longer hold
                return lambda _: done.result()
