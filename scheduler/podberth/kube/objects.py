"""Objects as list and watch send them, and the changes that a reflector delivers.

Lists and events are decoded to their outer shells; what is inside stays raw for the caller's decoder. Items of a typed
list have no kind and apiVersion, and a big list is decoded without touching its items.
"""

from __future__ import annotations

from typing import Generic, Protocol, TypeAlias, TypeVar

import msgspec

MALFORMED = (msgspec.MsgspecError, ValueError, ArithmeticError, RecursionError)
"""Exceptions that a decoder may raise for a bad object; anything else is a bug and stops the reflector loudly."""

Version: TypeAlias = int | str


class ListMeta(msgspec.Struct, gc=False, rename={"resource_version": "resourceVersion", "next": "continue"}):
    """A list's metadata; `next` is the continue token, "" on the last page."""

    resource_version: str = ""
    next: str = ""


class ListPage(msgspec.Struct):
    """One page of a LIST."""

    metadata: ListMeta
    items: list[msgspec.Raw] | None = None


class WatchEvent(msgspec.Struct, gc=False):
    """One line of a WATCH."""

    type: str
    object: msgspec.Raw


class Meta(msgspec.Struct, gc=False, rename="camel"):
    """The part of an object's metadata that says which one it is."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""


class MarkedMeta(Meta):
    """An object's metadata with its labels and annotations."""

    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None


class Partial(msgspec.Struct, gc=False):
    """An object of which only the metadata is read; with more fields, one of which only those are."""

    metadata: Meta

    @property
    def namespace(self) -> str:
        return self.metadata.namespace

    @property
    def name(self) -> str:
        return self.metadata.name

    @property
    def uid(self) -> str:
        return self.metadata.uid

    @property
    def resource_version(self) -> str:
        return self.metadata.resource_version


_CHANGE_HEADS = (b'{"type":"MODIFIED","object":', b'{"type":"ADDED","object":')


def changed_object(line: bytes) -> msgspec.Raw | None:
    """Return the object of a line that adds or changes one, told by how kube-apiserver begins such lines.

    Reading the line to find out where its object ends takes as long as decoding the object. If what comes before the
    last brace is JSON, it is the object, and the line is such an event; whoever decodes it sees whether it is. None:
    the line is another one, or is written in another way.
    """
    for head in _CHANGE_HEADS:
        if line.startswith(head) and line.endswith(b"}"):
            return msgspec.Raw(line[len(head) : -1])
    return None


list_page = msgspec.json.Decoder(ListPage)
watch_event = msgspec.json.Decoder(WatchEvent)
partial = msgspec.json.Decoder(Partial)


def read_version(text: str) -> Version:
    """Return a resourceVersion as a number where it is one (it is for every kind that kube-apiserver stores)."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 20 else text


def older(version: Version, than: Version) -> bool:
    """Return whether both are numbers and the first is smaller; others can only be equal or not."""
    return isinstance(version, int) and isinstance(than, int) and version < than


class Named(Protocol):
    """The fields that list/watch asks of a decoded object; `namespace` is "" for cluster-scoped kinds."""

    @property
    def namespace(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def uid(self) -> str: ...
    @property
    def resource_version(self) -> str: ...


T = TypeVar("T", bound=Named)
Key: TypeAlias = tuple[str, str]  # namespace, name: the object's own strings, so that a key costs one tuple


class Added(msgspec.Struct, Generic[T], frozen=True, gc=False):
    """An object not known before."""

    object: T


class Updated(msgspec.Struct, Generic[T], frozen=True, gc=False):
    """A newer version of a known object (same uid)."""

    object: T


class Deleted(msgspec.Struct, frozen=True, gc=False):
    """A known object is gone; `uid` is the one that was delivered as Added."""

    namespace: str
    name: str
    uid: str


Change: TypeAlias = Added[T] | Updated[T] | Deleted
