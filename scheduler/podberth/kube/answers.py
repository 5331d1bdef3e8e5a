"""Whether an answer whose code says yes was written by an API server, told by what was asked for.

A proxy or a load balancer between us and the API server may answer 200 with a page of its own, or with a JSON object
that is none of the API's: `{}`, `{"status":"ok"}`, a Status that tells of a failure. The code is its own then, and
whether the server has acted is not known. The client asks here once for every answer, so that whoever decodes one
finds the shell that the API promises: kind, apiVersion, metadata, and for lists their items
(k8s.io/apimachinery pkg/apis/meta/v1/types.go).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, TypeVar
from urllib.parse import unquote

import msgspec

from podberth.kube import resources
from podberth.kube.errors import Unreachable, one_line
from podberth.kube.objects import MALFORMED
from podberth.kube.resources import Resource

T = TypeVar("T")

_SHOWN: Final = 200
"""Bytes of such an answer that are shown."""
_TAIL: Final = 4096
"""Bytes at the end of a list in which its metadata stand, if they come last."""

_PATH = re.compile(
    r"/(?:api|apis/([^/]+))/([^/]+)"
    r"(?:/namespaces/[^/]+(?=/)(?!/(?:status|finalize)(?:/|$)))?"
    r"(?:/([^/]+)(?:/([^/]+)(?:/(.+))?)?)?"
)
"""Group, version, plural, name and subresource of a path of the API."""
_TYPED_LIST = re.compile(
    rb'\{"kind":"(\w+)List","apiVersion":"([^"]+)",'
    rb'"metadata":\{[^{}]{0,4000}?"resourceVersion":"[^"]+"[^{}]{0,4000}\},"items":(?:\[|null\})'
)
"""How kube-apiserver begins a list of one of its own kinds."""
_CUSTOM_LIST = re.compile(rb'\{"apiVersion":"([^"]+)","items":\[')
_CUSTOM_LIST_ENDS = re.compile(
    rb'\],"kind":"(\w+)List","metadata":\{[^{}]*"resourceVersion":"[^"]+"[^{}]*\}\}\s*\Z',
)
"""How it begins and ends a list of custom resources, whose fields it sorts by name."""

_KINDS = {(one.api_version, one.plural): one.kind for one in vars(resources).values() if isinstance(one, Resource)}
_NOT_STORED = frozenset(("authentication.k8s.io", "authorization.k8s.io"))
"""API groups whose objects are questions: the answer is in the status, and there is no version."""
_METADATA_ONLY = ("PartialObjectMetadata", "meta.k8s.io/v1")


class _Object(msgspec.Struct):
    """Any JSON object."""


class _Meta(msgspec.Struct, rename="camel"):
    name: str = ""
    uid: str = ""
    resource_version: str = ""
    deletion_timestamp: str | None = None


class _Shell(msgspec.Struct, rename="camel"):
    """What every object has. A Status has a word for its status."""

    kind: str
    api_version: str
    metadata: _Meta
    spec: _Object | None = None
    status: _Object | str | None = None


class _ListMeta(msgspec.Struct, rename={"resource_version": "resourceVersion", "next": "continue"}):
    resource_version: str
    next: str = ""


class _ListShell(msgspec.Struct, rename="camel"):
    kind: str
    api_version: str
    metadata: _ListMeta
    items: list[msgspec.Raw] | None


class _Kinds(msgspec.Struct, rename="camel"):
    """The kinds of an API group. Those of the core group come without an apiVersion."""

    kind: str
    group_version: str
    resources: list[_Object]


_shell = msgspec.json.Decoder(_Shell)
_list_shell = msgspec.json.Decoder(_ListShell)
_kinds = msgspec.json.Decoder(_Kinds)


def of_an_api_server(verb: str, path: str, query: str, body: bytes) -> bytes:
    """The body of an answer whose code says yes, if it is one to this request. Raises Unreachable if not.

    What is not known here is not compared: the kind of a resource that is not in `resources`, and the fields inside
    spec and status (`read_answer`). Paths outside the API may answer anything.
    """
    asked = _PATH.fullmatch(path)
    if asked is None:
        return body
    group, version, plural, name, subresource = asked.groups()
    api_version = f"{group}/{version}" if group else version
    try:
        if plural is None:
            said = _kinds.decode(body)
            fits = said.kind == "APIResourceList" and said.group_version == api_version
        elif name is None and verb == "GET":
            fits = _is_list(api_version, plural, body)
        elif name is None and verb == "DELETE":
            fits = _is_done(body) or _is_list(api_version, plural, body)
        elif subresource is not None and verb == "POST":
            fits = _is_done(body)
        else:
            fits = _is_object(verb, api_version, plural, name, body, dry_run="dryRun=" in query)
    except MALFORMED:
        fits = False
    if not fits:
        raise Unreachable(f"the answer is none of an API server's: {_shown(plural, body)}")
    return body


def read_answer(body: bytes, decode: Callable[[bytes], T]) -> T:
    """Return what an answer says, by a decoder that knows the fields inside spec and status.

    Raises Unreachable where one is of another type than the API promises: whoever wrote that is no API server.
    """
    try:
        return decode(body)
    except MALFORMED as error:
        raise Unreachable(f"the answer is none of an API server's: {one_line(str(error))[:_SHOWN]}") from error


def _is_object(verb: str, api_version: str, plural: str, name: str | None, body: bytes, *, dry_run: bool) -> bool:
    """Return whether it is the object that was read or written; of what was deleted the server may say only that."""
    said = _shell.decode(body)
    if verb == "DELETE" and said.kind == "Status":
        return said.status == "Success"
    if said.api_version != api_version or said.kind != _KINDS.get((api_version, plural), said.kind or None):
        return False
    if name is None and api_version.partition("/")[0] in _NOT_STORED:
        return isinstance(said.status, _Object)
    if isinstance(said.status, str) or not (said.metadata.resource_version or dry_run):
        return False
    return name is None or said.metadata.name == (unquote(name) if "%" in name else name)


def _is_done(body: bytes) -> bool:
    """Return whether it is a Status that says so."""
    said = _shell.decode(body)
    return said.kind == "Status" and said.status == "Success"


def _is_list(api_version: str, plural: str, body: bytes) -> bool:
    """Return whether it is a list of that kind, with a version.

    A page may have megabytes, and whoever asked for it reads it to the end anyway. So as a rule only the ends are
    looked at, which is where kube-apiserver says what a list is.
    """
    if (head := _TYPED_LIST.match(body)) is not None and body[-8:].rstrip().endswith((b"]}", b":null}")):
        kind, version = head.group(1).decode(), head.group(2).decode()
    elif (head := _CUSTOM_LIST.match(body)) is not None and (
        tail := _CUSTOM_LIST_ENDS.search(body, max(len(body) - _TAIL, 0))
    ) is not None:
        kind, version = tail.group(1).decode(), head.group(1).decode()
    else:
        said = _list_shell.decode(body)
        kind, version = said.kind.removesuffix("List"), said.api_version
        if not said.metadata.resource_version or kind == said.kind:
            return False
    if (kind, version) == _METADATA_ONLY:
        return True
    return bool(kind) and version == api_version and kind == _KINDS.get((api_version, plural), kind)


def _shown(plural: str | None, body: bytes) -> str:
    """The beginning of an answer, on one line; of what may be a secret nothing."""
    if plural == "secrets":
        return f"{len(body)} bytes that are no Secret that was asked for"
    return one_line(body[:_SHOWN].decode("utf-8", "replace")) or "it is empty"
