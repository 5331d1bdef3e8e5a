"""Long text, kept compressed while nobody needs it."""

import zlib

from msgspec import Struct

_LONG = 32 << 10
"""Longer text is compressed. That takes about a millisecond for 100 KB, and less than a fifth of it to undo."""


class _Packed(Struct, frozen=True):
    """Text that is compressed."""

    text: bytes


Text = bytes | _Packed


def packed(text: bytes) -> Text:
    """The text as it is to be kept."""
    return _Packed(zlib.compress(text, 1)) if len(text) > _LONG else text


def unpacked(text: Text) -> bytes:
    """The text that is kept."""
    return zlib.decompress(text.text) if isinstance(text, _Packed) else text
