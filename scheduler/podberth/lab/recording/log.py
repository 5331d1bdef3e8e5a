"""The log of a recording: a directory of segments, each a zstd stream in frames with checksums.

A frame is its length, the CRC-32 of what follows, and a part of the stream that ends at a flush. So a frame can be read
as soon as it is written, and a process that is killed leaves at most one frame that is cut off: a reader stops before
it, and the next process cuts it off. Each segment can be read for itself. `N.log` has what happened, `N.state` what was
known when it began; a segment may be dropped once the next one has its state.

One thread packs and writes. It gets its work by a queue with a bound: who can't write ends, and nobody waits for it.
"""

import contextlib
import os
import queue
import struct
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from enum import Enum, auto
from itertools import pairwise
from pathlib import Path
from typing import BinaryIO

import zstandard
from msgspec import Struct

MAGIC = b"berth recording 1\n"
LOG, STATE, PART = ".log", ".state", ".part"
_FRAME = struct.Struct("<II")
_LEVEL = 3
_MOST = 64 << 20
"""Bytes of a frame; a longer one is damage."""
_WAITING = 256
"""Frames that may wait for the thread."""
_SMALLEST, _LARGEST, _PARTS = 256 << 10, 64 << 20, 12
"""A segment has a twelfth of the limits, in bytes and in seconds, so that little goes at once."""


class LogError(Exception):
    """A directory that holds no recording, or can't have one; one line without its name."""


class Limits(Struct, frozen=True):
    """The bytes that a recording may take, and the seconds for which it is kept."""

    size: int = 1 << 30
    age: float = 7 * 86400.0

    @property
    def segment(self) -> int:
        """Return the bytes of a segment."""
        return min(max(self.size // _PARTS, _SMALLEST), _LARGEST)


class Segment(Struct, frozen=True, order=True):
    """A segment by its number."""

    number: int
    path: Path

    @property
    def state(self) -> Path:
        """Return the file of what was known when it began; the first one of a process has none."""
        return self.path.with_suffix(STATE)

    def frames(self) -> Iterator[bytes]:
        """Yield what its frames hold."""
        return frames(self.path)

    def known(self) -> Iterator[bytes]:
        """Yield what the frames of its state hold."""
        return frames(self.state)


def segments(directory: Path) -> list[Segment]:
    """Return the segments of a recording in their order. Raises LogError where there are none."""
    try:
        paths = [path for path in directory.iterdir() if path.suffix == LOG and path.stem.isdecimal()]
    except OSError as error:
        raise LogError((error.strerror or type(error).__name__).lower()) from None
    if not paths:
        raise LogError("expected a directory that berth run --record or berth shadow --record has written")
    return sorted(Segment(int(path.stem), path) for path in paths)


def frames(path: Path) -> Iterator[bytes]:
    """Yield what each frame holds, up to the first that is cut off or damaged. Raises LogError."""
    unpack = zstandard.ZstdDecompressor().decompressobj()
    try:
        with path.open("rb") as file:
            if file.read(len(MAGIC)) != MAGIC:
                return  # a process was killed before it had written so much
            for payload, _ in _whole(file):
                yield unpack.decompress(payload)
    except OSError as error:
        raise LogError(f"{path.name}: {(error.strerror or type(error).__name__).lower()}") from None
    except zstandard.ZstdError as error:
        raise LogError(f"{path.name}: is damaged: {error}") from None


def _whole(file: BinaryIO) -> Iterator[tuple[bytes, int]]:
    """Yield the packed frames that are whole, each with the place in the file at which it ends."""
    while len(head := file.read(_FRAME.size)) == _FRAME.size:
        length, checksum = _FRAME.unpack(head)
        payload = file.read(length) if length <= _MOST else b""
        if len(payload) != length or zlib.crc32(payload) != checksum:
            return
        yield payload, file.tell()


def repair(path: Path) -> int:
    """Cut off what follows the last whole frame; return how many bytes that was. Raises OSError."""
    with path.open("r+b") as file:
        end = 0
        if file.read(len(MAGIC)) == MAGIC:
            end = max((ends for _, ends in _whole(file)), default=len(MAGIC))
        size = file.seek(0, os.SEEK_END)
        file.truncate(end)
    return size - end


class _File:
    """A file that is written frame by frame. Raises OSError."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.size = len(MAGIC)
        self._file = os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb", buffering=0)
        self._pack = zstandard.ZstdCompressor(level=_LEVEL).compressobj()
        self._file.write(MAGIC)

    def write(self, content: bytes) -> None:
        """Append a frame."""
        payload = self._pack.compress(content) + self._pack.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK)
        frame = _FRAME.pack(len(payload), zlib.crc32(payload)) + payload
        if self._file.write(frame) != len(frame):
            raise OSError(0, "the disk is full")
        self.size += len(frame)

    def close(self) -> None:
        """Close it."""
        self._file.close()


class To(Enum):
    """The file that a frame is for, or what is to be done with it."""

    LOG = auto()
    STATE = auto()
    STATE_ENDS = auto()
    NEXT_SEGMENT = auto()
    END = auto()


class Log:
    """Appends to a recording, in a thread of its own. All methods are for one other thread.

    `error` says why it has ended, None while it goes on; `due` is true once the segment is as long as it may be; `file`
    is the segment that is written.
    """

    def __init__(
        self, directory: Path, limits: Limits, *, wall: Callable[[], float] = time.time, patience: float = 0.0
    ) -> None:
        """`patience`: seconds for which `put` may wait for the thread. Raises OSError, LogError."""
        self._patience = patience
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        with contextlib.suppress(LogError):
            repair(segments(directory)[-1].path)
        for path in directory.glob(f"*{PART}"):
            path.unlink()
        self.error: str | None = None
        self.due = False
        self.written = 0
        """Bytes, of all that this process has written."""
        self._directory, self._limits, self._wall = directory, limits, wall
        self._number = max((int(path.stem) for path in directory.glob(f"*{LOG}") if path.stem.isdecimal()), default=0)
        self._state: _File | None = None
        self._queue: queue.Queue[tuple[To, bytes]] = queue.Queue(_WAITING)
        self._first = self._number + 1
        """The segment with which this process begins: it needs no state."""
        self._next()
        self._thread = threading.Thread(target=self._run, name="recording", daemon=True)
        self._thread.start()

    def put(self, to: To, content: bytes = b"") -> None:
        """Have a frame written; if the thread is far behind, the recording ends."""
        try:
            self._queue.put((to, content), bool(self._patience), self._patience or None)
        except queue.Full:
            self.error = self.error or "the disk is too slow"

    @property
    def waiting(self) -> int:
        """Return how many frames the thread has not taken yet."""
        return self._queue.qsize()

    def close(self, seconds: float = 5.0) -> None:
        """Write what waits, for so long at most."""
        if self.error is None:
            with contextlib.suppress(queue.Full):
                self._queue.put((To.END, b""), timeout=seconds)
        self._thread.join(seconds)

    def _run(self) -> None:
        try:
            while self.error is None:
                to, content = self._queue.get()
                if to is To.END:
                    break
                self._do(to, content)
        except OSError as error:
            self.error = (error.strerror or type(error).__name__).lower()
        finally:
            for file in filter(None, (self.file, self._state)):
                with contextlib.suppress(OSError):
                    file.close()

    def _do(self, to: To, content: bytes) -> None:
        match to:
            case To.LOG:
                before = self.file.size
                self.file.write(content)
                self.written += self.file.size - before
                old = self._wall() - self._began > self._limits.age / _PARTS
                self.due = self.due or old or self.file.size >= self._limits.segment
            case To.STATE:
                if self._state is None:
                    self._state = _File(self.file.path.with_suffix(f"{STATE}{PART}"))
                self._state.write(content)
            case To.STATE_ENDS:
                if self._state is not None:
                    self._state.close()
                    self.written += self._state.size
                    self._state.path.replace(self.file.path.with_suffix(STATE))
                    self._state = None
                self._drop()
            case To.NEXT_SEGMENT:
                self.file.close()
                self._next()

    def _next(self) -> None:
        self._number += 1
        self.file = _File(self._directory / f"{self._number:08}{LOG}")
        self._began = self._wall()
        self.due = False

    def _drop(self) -> None:
        """Drop the oldest segments, while there is too much, up to one that can be read without them."""
        held = segments(self._directory)
        total, oldest = sum(map(_size, held)), self._wall() - self._limits.age
        going: list[Segment] = []
        for each, following in pairwise(held):
            going.append(each)
            if total <= self._limits.size and going[0].path.stat().st_mtime >= oldest:
                return
            if following.state.exists() or following.number == self._first:
                for one in going:
                    total -= _size(one)
                    one.path.unlink()
                    one.state.unlink(missing_ok=True)
                going.clear()


def _size(segment: Segment) -> int:
    return sum(path.stat().st_size for path in (segment.path, segment.state) if path.exists())
