"""Some of many numbered things, as bytes: to be kept, compared and looked up at a small price."""

import numpy as np
from numpy.typing import NDArray

from scheduler.state.column import Bools, Codes

NONE = b""
_FEW, _MANY = b"n", b"b"


def pack(which: Bools) -> bytes:
    """The things that are marked; the same bytes for the same things, however many others there are."""
    count = int(np.count_nonzero(which))
    if not count:
        return NONE
    end = len(which) - int(which[::-1].argmax())
    if 32 * count < end:
        return _FEW + np.flatnonzero(which).astype(np.int32).tobytes()
    return _MANY + np.packbits(which[:end], bitorder="little").tobytes()


def unpack(packed: bytes, size: int) -> Bools:
    """bool[size]: which things are marked, `size` of which there are at least."""
    which = np.zeros(size, dtype=np.bool_)
    if packed[:1] == _MANY:
        bits = _bits(packed)[:size]
        which[: len(bits)] = bits
    elif packed:
        which[np.frombuffer(packed, dtype=np.int32, offset=1)] = True
    return which


def numbers(packed: bytes) -> Codes:
    """The numbers of the things, ascending."""
    if packed[:1] == _MANY:
        return np.flatnonzero(_bits(packed)).astype(np.int32)
    return np.frombuffer(packed, dtype=np.int32, offset=1) if packed else np.zeros(0, dtype=np.int32)


def _bits(packed: bytes) -> NDArray[np.uint8]:
    return np.unpackbits(np.frombuffer(packed, dtype=np.uint8, offset=1), bitorder="little")
