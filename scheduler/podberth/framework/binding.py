"""What plugins get, and what they may answer, from Reserve until the pod is bound (upstream: `framework/interface.go`).

Next stage: `podberth.framework.binding_plugins` asks them, `podberth.engine.binding_cycle` follows their answers.
"""

from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from math import isnan
from typing import Any

from podberth.framework.guard import Guard, spelled
from podberth.framework.status import PluginError, shown
from podberth.framework.waiting_pods import WaitingPods
from podberth.model.pod import Pod

ObjectKey = tuple[str, str, str]
"""(kind, namespace, name); the namespace is empty for cluster-scoped kinds."""
Versions = Mapping[ObjectKey, str]
"""Objects that were written, with their new resourceVersions."""

LONGEST_HOLD = 900.0
"""Seconds that a Permit plugin may make a pod wait at most (maxTimeout)."""


@dataclass(slots=True)
class AssumedPod:
    """A pod that already counts as placed on its node and is about to be bound, as one plugin sees it."""

    pod: Pod
    row: int
    node: str
    waiting_pods: WaitingPods = field(default_factory=WaitingPods)
    """Pods that wait on Permit: any plugin may allow or reject them."""
    reserved: Any = None
    """What the plugin's `reserve` returned."""
    written: dict[ObjectKey, str] = field(default_factory=dict)
    """What was written for the plugin's `Wait`, with the new resourceVersions."""
    expired: bool = False
    """The time of the plugin's `Wait` is over."""
    refused: int | None = None
    """The HTTP status with which a write for the plugin was refused, the last thing that happens; 0: none came."""
    leaves: bool = False
    """The pod is gone, or is being deleted: it will not be tried again."""


@dataclass(frozen=True, slots=True)
class Hold:
    """Permit's answer: not yet. Unless `WaitingPod.allow` is called within `seconds`, the pod is rejected."""

    seconds: float

    def __post_init__(self) -> None:
        _check_seconds("Hold", self.seconds)
        if self.seconds <= 0:
            raise ValueError(f"Hold wants more than 0 seconds, got {self.seconds:g}")


@dataclass(frozen=True, slots=True)
class Patch:
    """Change an object by a JSON merge patch; refused (409) if it has changed since `resource_version`.

    An empty `resource_version` or `uid` is not compared. `NOW` in the change stands for the time of writing.
    """

    key: ObjectKey
    uid: str
    resource_version: str
    change: Mapping[str, Any]
    subresource: str = ""
    strategic: bool = False
    """Whether this is a strategic merge patch, which can take one entry out of a list by its key.

    If the object has changed since `resource_version`, it is made over the newest version: what it says is the same
    over any. The version keeps one that comes late from being carried out again.
    """
    purpose: str = ""
    """What it is for; said before the API server's words if that refuses it."""

    def __post_init__(self) -> None:
        _check_key("Patch", self.key)
        if not isinstance(self.change, Mapping):
            raise TypeError(f"Patch wants a mapping as its change, got {shown(self.change)}")


@dataclass(frozen=True, slots=True)
class Create:
    """Create an object; `document` is all of it but its kind and name."""

    key: ObjectKey
    document: Mapping[str, Any]

    def __post_init__(self) -> None:
        _check_key("Create", self.key)
        if not isinstance(self.document, Mapping):
            raise TypeError(f"Create wants a mapping as its document, got {shown(self.document)}")


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete an object, if it is still the one of this UID."""

    key: ObjectKey
    uid: str

    def __post_init__(self) -> None:
        _check_key("Delete", self.key)


Write = Patch | Create | Delete
NOW = "\0now"


def next_version(write: Write) -> str:
    """The resourceVersion that an object may have after a write, for shells without an API server."""
    before = write.resource_version if isinstance(write, Patch) else ""
    return f"{before}0" if before else "1"


@dataclass(frozen=True, slots=True)
class Wait:
    """PreBind's answer: not done. Berth makes the writes in this order, and asks again when an object changes."""

    seconds: float
    """How long to wait at most, counted from the plugin's last write."""
    writes: tuple[Write, ...] = ()
    on: frozenset[ObjectKey] = frozenset()
    """The objects whose change may end the waiting; empty: any change may."""
    expired: str = "timed out"
    """The error message when the time is over."""
    event: tuple[str, str] | None = None
    """(reason, note) of an event that says what the pod waits for; posted when the waiting begins."""
    pause: bool = False
    """When the time is over, the plugin is asked again, with `expired` set. It counts from now, not from a write."""
    note: str = ""
    """What the pod's story says of the writes besides which they are."""

    def __post_init__(self) -> None:
        _check_seconds("Wait", self.seconds)
        if self.seconds < 0:
            raise ValueError(f"Wait wants 0 seconds or more, got {self.seconds:g}")
        if not isinstance(self.writes, tuple) or not all(isinstance(write, Write) for write in self.writes):
            raise TypeError(f"Wait wants a tuple of Patch, Create or Delete as its writes, got {shown(self.writes)}")
        if not isinstance(self.note, str):
            raise TypeError(f"Wait wants a text as its note, got {shown(self.note)}")
        if not isinstance(self.on, frozenset):
            raise TypeError(f"Wait wants a frozenset of (kind, namespace, name) as its on, got {shown(self.on)}")
        for key in self.on:
            _check_key("Wait", key)


class BindResult(Enum):
    """The answer of a Bind plugin."""

    SKIP = auto()
    """It does not bind this pod: the next plugin is asked."""
    POST = auto()
    """The Binding is to be posted to the API server."""
    DONE = auto()
    """The plugin has bound the pod itself."""


@dataclass(frozen=True, slots=True, eq=False)
class Call:
    """A plugin's coroutine, to be run by a shell for at most `seconds`. Calls are compared by identity."""

    pod: Pod
    node: str
    plugin: Any
    point: str
    seconds: float
    start: Callable[[], Coroutine[Any, Any, Any]]
    guard: Guard

    @property
    def name(self) -> str:
        """The plugin's name."""
        name: str = self.plugin.name
        return name

    def error(self, message: str) -> PluginError:
        """The error to report when the call fails."""
        return PluginError(self.name, message, spelled(self.point))


def _check_seconds(what: str, seconds: Any) -> None:
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or isnan(seconds):
        raise TypeError(f"{what} wants a number of seconds, got {shown(seconds)}")


def _check_key(what: str, key: Any) -> None:
    if not (isinstance(key, tuple) and len(key) == 3 and all(isinstance(part, str) for part in key)):
        raise TypeError(f"{what} wants (kind, namespace, name) for an object, got {shown(key)}")
