"""Lists, events and a small typed object, as the API server would spell them, for the kube room's tests."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from podberth.kube.objects import Partial


class _Spec(msgspec.Struct):
    size: int = 0


class Thing(Partial, gc=False):
    """The type that the tests decode into; a `size` that is no number makes it malformed."""

    spec: _Spec = msgspec.field(default_factory=_Spec)


decode = msgspec.json.Decoder(Thing).decode


def thing(name: str, version: int | str, *, uid: str = "", size: Any = 0, namespace: str = "ns") -> dict[str, Any]:
    """An object as a plain dict."""
    meta = {"name": name, "namespace": namespace, "uid": uid or f"uid-{name}", "resourceVersion": str(version)}
    return {"metadata": meta, "spec": {"size": size}}


def listing(version: int | str, *items: dict[str, Any], go_on: str = "") -> bytes:
    """A page of a list."""
    return json.dumps(
        {
            "kind": "PodList",
            "apiVersion": "v1",
            "metadata": {"resourceVersion": str(version), "continue": go_on},
            "items": list(items),
        }
    ).encode()


DONE = b'{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Success","code":201}\n'
"""The answer to a Binding, to an eviction, and to a deletion that is over at once."""


def stored(kind: str, name: str, api_version: str = "v1") -> bytes:
    """The answer to a read or a write of an object."""
    meta = {"name": name, "uid": "u-1", "resourceVersion": "7"}
    return msgspec.json.encode({"kind": kind, "apiVersion": api_version, "metadata": meta})


def event(word: str, body: dict[str, Any]) -> bytes:
    """A line of a watch, with its newline, as kube-apiserver writes it: with no space between its parts."""
    return json.dumps({"type": word, "object": body}, separators=(",", ":")).encode() + b"\n"


def bookmark(version: int | str) -> bytes:
    """A BOOKMARK line."""
    return event("BOOKMARK", {"kind": "Thing", "metadata": {"resourceVersion": str(version)}})


def status(code: int, reason: str = "", message: str = "", **details: Any) -> dict[str, Any]:
    """A Status object."""
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "code": code,
        "reason": reason,
        "message": message,
        "details": details,
    }
