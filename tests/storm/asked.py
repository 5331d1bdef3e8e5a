"""A request, what goes wrong with it, and the line that it leaves in the audit log."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Any

from msgspec import json

from podberth.apiserver import resources

OURS = ("berth", "evictor", "admission", "operator")
"""How the names of our own processes begin."""


@dataclass(slots=True)
class Asked:
    """One request."""

    at: float
    user: str
    method: str
    info: resources.RequestInfo
    query: dict[str, str]
    content: str
    body: bytes
    orphan: bool = False
    """Whoever asked has no way to hear what comes of it."""

    @property
    def what(self) -> str:
        """`create pods/binding`."""
        return f"{self.info.verb} {self.info.resource}"


@dataclass(slots=True)
class Entry:
    """A line of the audit log."""

    at: float
    user: str
    verb: str
    resource: str
    namespace: str
    name: str
    code: int
    uid: str = ""
    node: str = ""
    body: bytes = b""

    def __str__(self) -> str:
        where = f"{self.namespace}/{self.name}" if self.namespace else self.name
        to = f" → {self.node} ({self.uid})" if self.node else ""
        return f"{self.at:.4f} {self.user} {self.verb} {self.resource} {where}{to} {self.code}"


@dataclass(frozen=True, slots=True)
class Effect:
    """What goes wrong with a request: an answer in place of the right one, or none, before or after it is acted on."""

    code: int = 0
    """0: the connection ends without an answer; -1: nothing comes, and the connection stays."""
    acted: bool = False
    after: float = 0.0
    """Seconds until it is acted on."""
    late: float = 0.0
    """Seconds until the answer leaves."""
    retry_after: int = 0
    orphan: float = 0.0
    """The connection ends at once, and it is acted on so many seconds later: it waited in a proxy."""
    right: bool = False
    """The right answer, only late."""
    page: bool = False
    """The answer is a page for people, from a proxy that is in the way."""
    strange: bool = False
    """The answer is JSON, and none that the API server gives, each time another one (`strange_body`); every second
    time where it may be a page as well."""
    body: bytes = b""
    """The answer that was chosen so."""
    mistyped: bool = False
    """The right answer, but for one field of the object that is of another type (`mistyped`)."""


@dataclass
class Trouble:
    """What is asked before things go right; the faults put their functions here."""

    requests: list[Callable[[Asked], Effect | None]] = field(default_factory=list)
    lines: list[Callable[[str, bytes], list[bytes] | None]] = field(default_factory=list)
    """Kind and line of a watch → the lines that are sent in its place; None: this one has nothing against it."""


def strange_body(asked: Asked, rng: Random) -> bytes:
    """What no API server says with a code of success to this request."""
    info = asked.info
    meta = {"name": info.name or "x", "namespace": info.namespace, "uid": "u", "resourceVersion": "7"}
    version = f"{info.group}/{info.version}" if info.group else info.version
    found: Any = rng.choice(
        (
            {},
            {"status": "ok"},
            {"error": "no healthy upstream", "code": 503},
            [],
            "ok",
            {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "code": 503},
            {"kind": "ComponentStatus", "apiVersion": "v1", "metadata": meta},
            {"kind": "ComponentStatusList", "apiVersion": "v1", "metadata": {"resourceVersion": "7"}, "items": []},
            {"kind": "List", "apiVersion": version, "metadata": {"resourceVersion": "7"}, "items": []},
            {"metadata": {}, "items": []},
            {"apiVersion": version, "metadata": 3, "items": {}},
            {"apiVersion": version, "metadata": {**meta, "name": "another"}, "spec": {}, "status": {}},
        )
    )
    return json.encode(found)


def mistyped(body: bytes, rng: Random) -> bytes:
    """An object with one field of another type; what it is, and which one, stays as it was."""
    found = json.decode(body)
    meta = found.get("metadata", {})
    places = [(meta, key) for key in ("labels", "annotations", "ownerReferences", "finalizers") if key in meta]
    for key in sorted(found.keys() - {"kind", "apiVersion", "metadata"}):
        places += [(found, key), *(_places(found[key]) if isinstance(found[key], dict | list) else ())]
    if places:
        within, key = rng.choice(places)
        others: list[Any] = [["x"], {"was": 1}]
        if isinstance(within[key], dict | list):
            others += ["x", 7]
        within[key] = rng.choice([one for one in others if type(one) is not type(within[key])])
    return json.encode(found)


def _places(within: Any) -> Iterator[tuple[Any, Any]]:
    """Where the values of a document stand: the object or list that each is in, and its name or number there."""
    for key, one in within.items() if isinstance(within, dict) else enumerate(within):
        yield within, key
        if isinstance(one, dict | list):
            yield from _places(one)
