"""Kubernetes' protobuf encoding, as far as a scheduler's writes and the answers to them need it.

Messages are put together and taken apart field by field; the numbers are the callers' business (generated.proto of
k8s.io/api and k8s.io/apimachinery). On the wire every object is in an envelope: four bytes and a runtime.Unknown that
names its kind. `writes` speaks it, `errors` reads a Status.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

MEDIA_TYPE = "application/vnd.kubernetes.protobuf"
MAGIC = b"k8s\x00"
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


class MalformedError(ValueError):
    """Bytes that are no protobuf message."""


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
"""Of bytes. Looked up, since a pod's two bodies have forty of both."""


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
"""The same for what is said again and again."""


def envelope(api_version: str, kind: str, body: bytes) -> bytes:
    """An object as a request's body (runtime.Unknown: typeMeta 1, raw 2)."""
    return _head(api_version, kind) + message(2, body)


@lru_cache(16)
def _head(api_version: str, kind: str) -> bytes:
    return MAGIC + message(1, text(1, api_version) + text(2, kind))


def opened(body: bytes) -> tuple[str, bytes]:
    """The kind of the object in an envelope, and the object.

    Raises MalformedError.
    """
    if not body.startswith(MAGIC):
        raise MalformedError("not in an envelope")
    kind, raw = "", b""
    for field, value in fields(body[len(MAGIC) :]):
        if isinstance(value, bytes):
            if field == 1:
                kind = next((string(name) for number, name in fields(value) if number == 2), "")
            elif field == 2:
                raw = value
    return kind, raw


def string(value: int | bytes) -> str:
    """The text of a field; "" when it is a number. What is no UTF-8 is replaced: it is shown, never compared."""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else ""


def fields(body: bytes) -> Iterator[tuple[int, int | bytes]]:
    """The fields of a message in their order: (number, a number or bytes).

    Raises MalformedError.
    """
    at, end = 0, len(body)
    while at < end:
        key, at = _number(body, at)
        kind = key & 7
        if kind == _VARINT:
            number, at = _number(body, at)
            yield key >> 3, number
            continue
        if kind == _BYTES:
            length, at = _number(body, at)
        elif kind in (_FIXED32, _FIXED64):
            length = 4 if kind == _FIXED32 else 8
        else:
            raise MalformedError(f"wire type {kind} at byte {at}")
        if at + length > end:
            raise MalformedError(f"cut off at byte {end}")
        yield key >> 3, body[at : at + length]
        at += length


def _number(body: bytes, at: int) -> tuple[int, int]:
    """A varint, and where it ends."""
    found = 0
    for i in range(10):
        if at + i >= len(body):
            break
        byte = body[at + i]
        found |= (byte & 0x7F) << 7 * i
        if byte < 0x80:
            return found, at + i + 1
    raise MalformedError(f"no number at byte {at}")
