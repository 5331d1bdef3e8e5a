"""The log of a recording: a directory of segments, each a zstd stream in frames with checksums.

A frame is its length, the CRC-32 of what follows, and a part of the stream that ends at a flush. So a frame can be read
as soon as it is written, and a process that is killed leaves at most one frame that is cut off: a reader stops before
it, and the next process cuts it off. Each segment begins with what was known then, and can be read without the ones
before it.
"""

import os
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import zstandard
from msgspec import Struct

MAGIC = b"berth recording 3\n"
_ANY_MAGIC = b"berth recording "
SUFFIX = ".log"
MOST = 4 << 20
"""Bytes that a frame may be of before more is added to it. The API server takes objects of up to 3 MB."""
_MOST_READ = 4 * MOST
"""Bytes of a frame as it was and as it is packed; a longer one is damage."""
_PIECE = 1 << 10
"""Bytes that are unpacked at once: they may hold 2,000 times as many, and a crafted file must not fill the memory."""
_FRAME = struct.Struct("<II")
_LEVEL = 1
_WINDOW = 8 << 20
"""Bytes that may be kept of a stream to unpack it; ours need a sixteenth of that."""
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

    @property
    def seconds(self) -> float:
        """Return the seconds of a segment."""
        return self.age / _PARTS


def segments(directory: Path) -> list[Path]:
    """Return the segments of a recording in their order. Raises LogError where there are none."""
    try:
        paths = [path for path in directory.iterdir() if path.suffix == SUFFIX and path.stem.isdecimal()]
    except OSError as error:
        raise LogError((error.strerror or type(error).__name__).lower()) from None
    if not paths:
        raise LogError("expected a directory that berth run --record or berth shadow --record has written")
    return sorted(paths, key=lambda path: int(path.stem))


def is_segment(path: Path) -> bool:
    """Return whether a process has begun this file as a segment, of whatever version, or was killed before it could.

    Old segments are deleted by their names, so nothing else may be beside them. Raises OSError.
    """
    if path.suffix != SUFFIX or not path.is_file():
        return False
    with path.open("rb") as file:
        begin = file.read(len(MAGIC))
    return begin.startswith(_ANY_MAGIC) or MAGIC.startswith(begin)


def frames(path: Path) -> Iterator[bytes]:
    """Yield what each frame holds, up to the first that is cut off or damaged. Raises LogError."""
    unpack = zstandard.ZstdDecompressor(max_window_size=_WINDOW).decompressobj()
    try:
        with path.open("rb") as file:
            magic = file.read(len(MAGIC))
            if magic != MAGIC:
                if magic.startswith(_ANY_MAGIC) and len(magic) == len(MAGIC):
                    raise LogError(f"{path.name}: another version of Berth has written it")
                return  # a process was killed before it had written so much
            for payload, _ in _whole(file):
                yield _unpacked(unpack, payload, path)
    except OSError as error:
        raise LogError(f"{path.name}: {(error.strerror or type(error).__name__).lower()}") from None
    except zstandard.ZstdError as error:
        raise LogError(f"{path.name}: is damaged: {error}") from None


def _unpacked(unpack: "zstandard.ZstdDecompressionObj", payload: bytes, path: Path) -> bytes:
    found = bytearray()
    for at in range(0, len(payload), _PIECE):
        found += unpack.decompress(payload[at : at + _PIECE])
        if len(found) > _MOST_READ:
            raise LogError(f"{path.name}: is damaged: a frame holds more than {_MOST_READ >> 20} MiB")
    return bytes(found)


def _whole(file: BinaryIO) -> Iterator[tuple[bytes, int]]:
    """Yield the packed frames that are whole, each with the place in the file at which it ends."""
    while len(head := file.read(_FRAME.size)) == _FRAME.size:
        length, checksum = _FRAME.unpack(head)
        payload = file.read(length) if length <= _MOST_READ else b""
        if len(payload) != length or zlib.crc32(payload) != checksum:
            return
        yield payload, file.tell()


def repair(path: Path) -> int:
    """Cut off what follows the last whole frame; return how many bytes that was. Raises OSError.

    A file that this version has not begun stays as it is: another version can read it, or it is somebody else's.
    """
    with path.open("r+b") as file:
        begin = file.read(len(MAGIC))
        if not MAGIC.startswith(begin):
            return 0
        end = max((ends for _, ends in _whole(file)), default=len(MAGIC)) if begin == MAGIC else 0
        size = file.seek(0, os.SEEK_END)
        file.truncate(end)
    return size - end


class File:
    """A segment that is written frame by frame, for its owner only. Methods raise OSError."""

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


def drop(directory: Path, limits: Limits, keep: Path, now: float) -> None:
    """Drop the oldest segments, up to the first that has to stay (`keep`), while there is too much. `now`: seconds
    since the epoch. Raises OSError, LogError.
    """
    held = segments(directory)
    total = sum(path.stat().st_size for path in held)
    for path in held:
        stat = path.stat()
        if path == keep or (total <= limits.size and stat.st_mtime >= now - limits.age):
            return
        total -= stat.st_size
        path.unlink()
