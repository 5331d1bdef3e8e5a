"""The protobuf bodies that schedulers send, turned into the objects that the rest of this server works on.

Bindings and events only; whatever else comes in protobuf is answered 415, as kube-apiserver answers it for custom
resources. Field numbers are those of generated.proto (k8s.io/api/core/v1, events/v1, apimachinery/pkg/apis/meta/v1,
pkg/runtime). Answers are JSON.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from podberth.apiserver.rules.status import JsonObject

MEDIA_TYPE = "application/vnd.kubernetes.protobuf"
_PREFIX = b"k8s\x00"
_LENGTH_DELIMITED = 2

Fields = Mapping[int, tuple[str, Any]]
"""Field number → (name in JSON, fields of the message there; None for a string, _MICRO_TIME for a moment)."""

_MICRO_TIME = object()
_META: Fields = {1: ("name", None), 2: ("generateName", None), 3: ("namespace", None), 5: ("uid", None)}
_REFERENCE: Fields = {
    1: ("kind", None),
    2: ("namespace", None),
    3: ("name", None),
    4: ("uid", None),
    5: ("apiVersion", None),
    6: ("resourceVersion", None),
    7: ("fieldPath", None),
}
_KINDS: Mapping[tuple[str, str], Fields] = {
    ("v1", "Binding"): {1: ("metadata", _META), 2: ("target", _REFERENCE)},
    ("events.k8s.io/v1", "Event"): {
        1: ("metadata", _META),
        2: ("eventTime", _MICRO_TIME),
        4: ("reportingController", None),
        5: ("reportingInstance", None),
        6: ("action", None),
        7: ("reason", None),
        8: ("regarding", _REFERENCE),
        9: ("related", _REFERENCE),
        10: ("note", None),
        11: ("type", None),
    },
}


class NotUnderstoodError(Exception):
    """A kind, or a field of it, that is not read here, or no message at all."""


def read(body: bytes) -> JsonObject:
    """Return the object in a request's body.

    Raises NotUnderstoodError.
    """
    if not body.startswith(_PREFIX):
        raise NotUnderstoodError("no envelope")
    outer = dict(_walk(body[len(_PREFIX) :]))
    head, raw = outer.get(1, b""), outer.get(2, b"")
    if not isinstance(head, bytes) or not isinstance(raw, bytes):
        raise NotUnderstoodError("no envelope")
    named = _object(head, {1: ("apiVersion", None), 2: ("kind", None)})
    known = _KINDS.get((named.get("apiVersion", ""), named.get("kind", "")))
    if known is None:
        raise NotUnderstoodError(f"no {named.get('kind')} of {named.get('apiVersion')}")
    return {**named, **_object(raw, known)}


def _object(body: bytes, known: Fields) -> JsonObject:
    found: JsonObject = {}
    for number, value in _walk(body):
        if number not in known or not isinstance(value, bytes):
            raise NotUnderstoodError(f"field {number}")
        name, inner = known[number]
        if inner is None:
            try:
                found[name] = value.decode()
            except UnicodeDecodeError as error:
                raise NotUnderstoodError(f"{name} is no text") from error
        elif inner is _MICRO_TIME:
            parts = dict(_walk(value))
            found[name] = _moment(parts.get(1, 0), parts.get(2, 0))
        else:
            found[name] = _object(value, inner)
    return found


def _moment(seconds: int | bytes, nanos: int | bytes) -> str:
    if isinstance(seconds, bytes) or isinstance(nanos, bytes) or seconds >= 1 << 37:
        raise NotUnderstoodError("no moment")
    when = datetime.fromtimestamp(seconds, UTC).replace(microsecond=nanos // 1000 % 1_000_000)
    return when.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _walk(body: bytes) -> Iterator[tuple[int, int | bytes]]:
    at, end = 0, len(body)
    while at < end:
        key, at = _varint(body, at)
        number, kind = key >> 3, key & 7
        value, at = _varint(body, at)
        if kind == _LENGTH_DELIMITED:
            if value > end - at:
                raise NotUnderstoodError("cut off")
            yield number, body[at : at + value]
            at += value
        elif kind == 0:
            yield number, value
        else:
            raise NotUnderstoodError(f"wire type {kind}")


def _varint(body: bytes, at: int) -> tuple[int, int]:
    """Return a number, and where it ends."""
    if at < len(body) and body[at] < 0x80:
        return body[at], at + 1  # as most are
    found = 0
    for shift, byte in zip(range(0, 70, 7), body[at : at + 10], strict=False):
        found |= (byte & 0x7F) << shift
        if byte < 0x80:
            return found, at + shift // 7 + 1
    raise NotUnderstoodError("cut off")
