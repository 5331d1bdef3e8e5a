"""What a reflector delivers: three kinds of change, and the few fields that it reads of an object.

`listwatch` makes them, `reflector` delivers them in batches, the controller turns them into the engine's stimuli.
They are short-lived and many, so the cycle collector does not track them.
"""

from __future__ import annotations

from typing import Generic, Protocol, TypeAlias, TypeVar

import msgspec
from msgspec import Struct


class Named(Protocol):
    """All that list/watch asks of a decoded object; `namespace` is "" for cluster-scoped kinds."""

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


class Counts(Struct):
    """How often a list or watch had which problem since the start, for metrics."""

    lists: int = 0  # complete ones
    relists: int = 0  # complete ones after the first
    watches: int = 0  # streams opened
    reconnects: int = 0  # streams that ended, whatever the reason
    events: int = 0  # lines applied, bookmarks included
    bookmarks: int = 0
    errors: int = 0  # ERROR events, refused requests, lost connections
    expired: int = 0  # 410, in whichever form it came
    stalls: int = 0  # streams given up because no byte came: dead paths, but quiet kinds too (see reflector)
    cut: int = 0  # streams that ended within a line
    garbled: int = 0  # lines or pages that were no JSON of the expected shape
    malformed: int = 0  # objects that the caller's decoder refused
    unknown: int = 0  # events of a type that we do not know
    duplicates: int = 0  # events that repeat what is known
    older: int = 0  # events that are older than what is known
    missed_deletes: int = 0  # deletions that only a relist showed
    checks: int = 0  # cross-checks that were made to the end
    lost: int = 0  # objects that a cross-check found to differ, and no event came
    went_back: int = 0  # times that the server was at an earlier version than before: its data is a backup's
