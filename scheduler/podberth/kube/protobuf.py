"""Kubernetes' protobuf encoding, as far as a scheduler's writes need it.

Messages are put together field by field; the numbers are the callers' business (generated.proto of k8s.io/api and
k8s.io/apimachinery). On the wire every object is in an envelope: four bytes and a runtime.Unknown that names its kind.
`writes` speaks it; answers are JSON.
"""

from __future__ import annotations

from functools import lru_cache

MEDIA_TYPE = "application/vnd.kubernetes.protobuf"
MAGIC = b"k8s\x00"
_VARINT, _BYTES = 0, 2


def varint(number: int) -> bytes:
    """A number from 0 on, seven bits a byte, the least first."""
    found = bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    found.append(number)
    return bytes(found)


_LENGTHS = tuple(varint(length) for length in range(2048))
_KEYS = tuple(bytes((field << 3 | _BYTES,)) for field in range(16))
"""The keys of fields that are bytes. Keys and lengths are looked up, since a pod's two bodies have forty of both."""


def integer(field: int, number: int) -> bytes:
    """A field that holds a number from 0 on. `field` is at most 15, here and below: its key is one byte."""
    return bytes((field << 3 | _VARINT,)) + varint(number)


def message(field: int, body: bytes) -> bytes:
    """A field that holds a message, or bytes."""
    length = len(body)
    return _KEYS[field] + (_LENGTHS[length] if length < 2048 else varint(length)) + body


def text(field: int, value: str) -> bytes:
    """A field that holds a string; nothing for an empty one, which is what its absence means."""
    if not value:
        return b""
    body = value.encode()
    length = len(body)
    return _KEYS[field] + (_LENGTHS[length] if length < 2048 else varint(length)) + body


kept_text = lru_cache(1024)(text)
kept_integer = lru_cache(1024)(integer)
"""For texts and numbers that come again and again: their bytes are kept."""


def envelope(api_version: str, kind: str, body: bytes) -> bytes:
    """An object as a request's body (runtime.Unknown: typeMeta 1, raw 2)."""
    return _head(api_version, kind) + message(2, body)


@lru_cache(16)
def _head(api_version: str, kind: str) -> bytes:
    return MAGIC + message(1, text(1, api_version) + text(2, kind))
