"""What a tenant does: objects written one after the other, beside pods of other tenants that come all the while."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from bench.hostile.town import Object, encoded

ONE = {"turn_ms": 20.0, "others_ms": 100.0}
"""The bounds of one object: CPU of one turn of the loop, and how long anybody else's pod waits."""
CROWD = {"turn_ms": 20.0, "p99_times": 2.0}
"""The bounds of a thousand in a row: others' 99th percentile from creation to binding, to that with nothing hostile."""


@dataclass(frozen=True, slots=True)
class Write:
    """One object as the watch brings it; without `raw`, it is deleted. `after`: milliseconds since the one before."""

    kind: str
    raw: bytes
    after: float = 0.0
    key: tuple[str, str, str] | None = None
    """Namespace, name and UID of what is deleted."""


def put(document: Object, after: float = 0.0) -> Write:
    """A write of a document."""
    return Write(document["kind"], encoded(document), after)


def gone(document: Object, after: float = 0.0) -> Write:
    """The deletion of a document."""
    metadata = document["metadata"]
    key = metadata.get("namespace", ""), metadata["name"], metadata["uid"]
    return Write(document["kind"], b"", after, key)


@dataclass(frozen=True, slots=True)
class Scenario:
    """One row to be measured."""

    name: str
    kind: str
    shape: str
    writes: Callable[[int], Iterator[Write]]
    """Of the number of nodes. Made one by one as they are needed: a thousand of them may be a gigabyte."""
    objects: int = 1
    seconds: float = 1.0
    """For how long pods of others keep coming."""
    every: float = 0.005
    """Seconds between them."""
    bounds: dict[str, float] = field(default_factory=lambda: dict(ONE))


def one(make: Callable[[], Object]) -> Callable[[int], Iterator[Write]]:
    """The writes of a single object, whatever the size of the cluster."""
    return lambda _nodes: iter((put(make()),))


def many(make: Callable[[int], Object], count: int, after: float = 0.0) -> Callable[[int], Iterator[Write]]:
    """The writes of so many objects, `after` milliseconds one after the other."""
    return lambda _nodes: (put(make(i), after) for i in range(count))
