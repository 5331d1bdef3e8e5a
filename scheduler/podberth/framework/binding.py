"""From Reserve until the pod is bound: what plugins get, what they may answer, and how they are asked.

Mirrors kube-scheduler `framework/interface.go`, `framework/runtime/framework.go` (RunReservePlugins…,
RunPermitPlugins, RunPreBindPlugins, RunBindPlugins, RunPostBindPlugins) and `waiting_pods_map.go`, but never waits. A
plugin that is not done says what has to be written or has to happen, or is a coroutine function that a shell runs
(`Call`). It is asked again when that is done: `podberth.engine.binding_cycle` follows the answers.
"""

import inspect
from collections import deque
from collections.abc import Callable, Collection, Coroutine, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from math import isnan
from typing import Any

import msgspec
from msgspec import Struct

from podberth.cache.cluster import Cluster
from podberth.framework.config import duration_text
from podberth.framework.guard import Guard, spelled
from podberth.framework.status import SUCCESS, UNSCHEDULABLE, Narrow, PluginError, Reason, Reject, shown
from podberth.model.pod import Pod
from podberth.model.shape import PodShape

ObjectKey = tuple[str, str, str]
"""(kind, namespace, name); the namespace is empty for cluster-scoped kinds."""
Versions = Mapping[ObjectKey, str]
"""Objects that were written, with their new resourceVersions."""

LONGEST_HOLD = 900.0
"""Seconds that a Permit plugin may make a pod wait at most (maxTimeout)."""
FROM_RESERVE = ("reserve", "permit", "pre_bind", "bind", "post_bind")
ASYNC_POINTS = FROM_RESERVE[1:]
"""Points at which a plugin may be a coroutine function, which does its own I/O."""
TIME_LIMIT = 30.0
"""Seconds that such a coroutine has, unless the plugin says otherwise (`time_limit`)."""
LONGEST_LIMIT = 900.0
"""Seconds that a plugin may give its coroutines at most."""
_AT_ONCE = 64
"""The number of pods that go on, or back to the queue, in one turn, once plugins have allowed or rejected them."""


@dataclass(slots=True, eq=False)
class WaitingPod:
    """A pod that is assumed on its node and waits for Permit plugins."""

    pod: Pod
    node: str
    pending: dict[str, tuple[float, float]]
    """Plugin that has not allowed the pod yet → (engine time at which it is rejected, seconds it may wait)."""
    since: float
    """Engine time."""
    _spoken_for: "deque[WaitingPod]" = field(repr=False)
    rejected: tuple[str, str] | None = None
    """(plugin, message) once it was rejected."""

    def allow(self, plugin: str) -> None:
        """This plugin allows the pod. The pod goes on once all plugins that made it wait have allowed it."""
        if self.pending.pop(plugin, None) is not None:
            self._spoken_for.append(self)

    def reject(self, plugin: str, message: str) -> None:
        """Reject the pod. The first rejection counts; once all plugins have allowed the pod, none does."""
        if self.rejected is None and self.pending:
            self.rejected = (plugin, message)
            self._spoken_for.append(self)

    def earliest(self) -> tuple[float, str]:
        """Return (engine time, plugin) of the next timeout."""
        return min((deadline, plugin) for plugin, (deadline, _) in self.pending.items())

    def timed_out(self) -> tuple[str, str] | None:
        """Return (plugin, message) for the time that is over; None: the pod was rejected, or all have allowed it."""
        if self.rejected is not None or not self.pending:
            return None
        plugin = self.earliest()[1]
        return plugin, timeout_text(self.pending[plugin][1], plugin)


class WaitingPods:
    """The pods of all profiles that wait for Permit plugins, in the order in which they began to wait.

    Plugins reach them by `AssumedPod.waiting_pods`.
    """

    def __init__(self) -> None:
        self._pods: dict[str, WaitingPod] = {}
        self.spoken_for: deque[WaitingPod] = deque()
        """Pods that a plugin has allowed or rejected, and that `settled` has not returned yet."""

    def __iter__(self) -> Iterator[WaitingPod]:
        return iter(tuple(self._pods.values()))

    def __len__(self) -> int:
        return len(self._pods)

    def get(self, uid: str) -> WaitingPod | None:
        return self._pods.get(uid)

    def add(self, pod: Pod, node: str, holds: Mapping[str, float], now: float) -> WaitingPod:
        """Have a pod wait for these plugins, for this many seconds each."""
        pending = {plugin: (now + seconds, seconds) for plugin, seconds in holds.items()}
        waiting = self._pods[pod.uid] = WaitingPod(pod, node, pending, now, self.spoken_for)
        return waiting

    def remove(self, uid: str) -> WaitingPod:
        """Have a pod wait no longer."""
        return self._pods.pop(uid)

    def settled(self) -> Iterator[WaitingPod]:
        """Yield the pods that a plugin has allowed or rejected since the last call, without those that are gone.

        If there are many, the others follow with the next calls.
        """
        left = _AT_ONCE
        while self.spoken_for and left:
            waiting = self.spoken_for.popleft()
            if self._pods.get(waiting.pod.uid) is waiting:
                left -= 1
                yield waiting


def timeout_text(seconds: float, plugin: str) -> str:
    """Return what is said of a pod for which a plugin has waited in vain."""
    return f"rejected due to timeout after waiting {duration_text(seconds)} at plugin {plugin}"


class AssumedPod(Struct):
    """A pod that already counts as placed on its node and is about to be bound, as one plugin sees it."""

    pod: Pod
    row: int
    node: str
    waiting_pods: WaitingPods = msgspec.field(default_factory=WaitingPods)
    """Pods that wait on Permit: any plugin may allow or reject them."""
    reserved: Any = None
    """The answer of the plugin's `reserve`."""
    written: dict[ObjectKey, str] = {}
    """The objects that were written for the plugin's `Wait`, with the new resourceVersions."""
    expired: bool = False
    """The time of the plugin's last `Wait` is over."""
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
    """True if this is a strategic merge patch, which can take one entry out of a list by its key.

    If the object has changed since `resource_version`, it is made over the newest version: what it says is the same
    over any. The version keeps one that comes late from being carried out again.
    """
    purpose: str = ""
    """The purpose of the write; said before the API server's words if that refuses it."""

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
    """Return a resourceVersion that an object may have after a write, for shells without an API server."""
    before = write.resource_version if isinstance(write, Patch) else ""
    return f"{before}0" if before else "1"


@dataclass(frozen=True, slots=True)
class Wait:
    """PreBind's answer: not done. Berth makes the writes in this order, and asks again when an object changes."""

    seconds: float
    """Seconds to wait at most, counted from the plugin's last write."""
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
    """A text that the pod's story adds to the writes."""

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
        """Return the error to report when the call fails."""
        return PluginError(self.name, message, spelled(self.point))


def _check_seconds(what: str, seconds: Any) -> None:
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or isnan(seconds):
        raise TypeError(f"{what} wants a number of seconds, got {shown(seconds)}")


def _check_key(what: str, key: Any) -> None:
    if not (isinstance(key, tuple) and len(key) == 3 and all(isinstance(part, str) for part in key)):
        raise TypeError(f"{what} wants (kind, namespace, name) for an object, got {shown(key)}")


_SKIPPABLE = ("reserve", "pre_bind")
_NONE = type(None)
_ANSWERS: dict[str, tuple[tuple[type, ...], str]] = {
    "permit": ((_NONE, Hold, Reject), "None, a Hold or a Reject"),
    "pre_bind": ((_NONE, Wait, Reject), "None, a Wait or a Reject"),
    "bind": ((BindResult, Reject), "a BindResult or a Reject"),
    "post_bind": ((_NONE,), "None"),
}
"""Point → what a plugin may answer there, as types and in words."""
_SKIP = BindResult.SKIP
_OF_OTHER_POINTS = (Hold, Wait, BindResult, Narrow, Reason)


class Refusal(Struct, frozen=True):
    """A plugin keeps the pod from its node."""

    plugin: str
    reason: Reason


class Holds(Struct, frozen=True):
    """The Permit plugins that want the pod to wait, once all were asked: plugin → seconds."""

    seconds: dict[str, float]


PointAnswer = Refusal | Holds | Wait | Call | BindResult | None
"""The answer of the plugins of a point; None: they are done, and the pod may go on."""


class PluginAtPoint(Struct, frozen=True):
    """One plugin at one of its points."""

    point: str
    plugin: Any
    method: Callable[..., Any]
    asynchronous: bool
    skips: Callable[[PodShape], Collection[str]] | None
    """The plugin's `skips`, at points where it is asked before the pod is bound; None: it skips nothing here."""

    def asked_about(self, shape: PodShape) -> bool:
        """Return whether pods of this shape concern it here."""
        return self.skips is None or self.point not in self.skips(shape)


PluginsByPoint = Mapping[str, tuple[PluginAtPoint, ...]]


def by_point(points: Mapping[str, Iterable[Any]], which: Iterable[str] = FROM_RESERVE) -> PluginsByPoint:
    """Return a profile's plugins from Reserve on, each at its points."""
    return {
        point: tuple(
            PluginAtPoint(
                point,
                plugin,
                method := getattr(plugin, point),
                inspect.iscoroutinefunction(method),
                plugin.skips if point in _SKIPPABLE else None,
            )
            for plugin in points.get(point, ())
        )
        for point in which
    }


def for_shape(plugins: PluginsByPoint, shape: PodShape) -> PluginsByPoint:
    """Return the plugins that pods of a shape concern."""
    return {point: tuple([at for at in there if at.asked_about(shape)]) for point, there in plugins.items()}


class BindingPlugins:
    """Asks the plugins in one pod's binding cycle, and keeps what they reserved for the pod."""

    def __init__(
        self,
        plugins: PluginsByPoint,
        guard: Guard,
        reached: Callable[[str, str], None],
        pod: Pod,
        row: int,
        node: str,
        waiting_pods: WaitingPods,
    ) -> None:
        """`plugins`: those that the pod concerns. `reached` is called when the Reserve plugins are done."""
        self._plugins = plugins
        self._guard = guard
        self._reached = reached
        self._where = (pod, row, node)
        self._waiting = waiting_pods
        self._assumed: dict[str, AssumedPod] = {}
        self._reserved: list[Any] = []
        self._point, self._next = "reserve", 0
        self._holds: dict[str, float] | None = None
        self._returned: tuple[Any] | None = None
        """The answer of the `Call` of the plugin that is asked, until it is read."""

    @property
    def plugin(self) -> str:
        """The plugin that is being asked, or was asked last."""
        plugins = self._plugins[self._point]
        name: str = plugins[min(self._next, len(plugins) - 1)].plugin.name if plugins else ""
        return name

    def ask(self, point: str, cluster: Cluster) -> PointAnswer:
        """Ask the plugins of a point, beginning with the one that was asked last, until one returns something.

        Raises PluginError. After that, and after a rejection, the caller has to `unreserve`.
        """
        plugins = self._plugins[point]
        if point == "reserve":
            said = self._reserve(plugins, cluster) if plugins else None
            self._reached("Reserve", SUCCESS if said is None else UNSCHEDULABLE)
            return said
        if not plugins and point != "bind":
            return None
        if point != self._point:
            self._point, self._next = point, 0
        spans = self._guard.spans
        if spans is None or point != "permit" or any(at.asynchronous for at in plugins):
            return self._ask(plugins, cluster)
        spans.begin()
        status = "Error"
        try:
            said = self._ask(plugins, cluster)
            status = SUCCESS if said is None else "Wait" if isinstance(said, Holds) else UNSCHEDULABLE
        finally:
            spans.end("Permit", status)
        return said

    def _reserve(self, plugins: tuple[PluginAtPoint, ...], cluster: Cluster) -> PointAnswer:
        pod, row, _ = self._where
        for number, at in enumerate(plugins):
            self._next = number
            answer = self._guard(at.plugin, at.method, pod, cluster, row)
            if isinstance(answer, Reject):
                return Refusal(at.plugin.name, answer.reason)
            self._assumed_by(at.plugin).reserved = answer
            self._reserved.append(at.plugin)
            if isinstance(answer, _OF_OTHER_POINTS) or inspect.iscoroutine(answer):
                raise self._wrong("a Reject, or what the plugin has to remember of the pod", answer)
        return None

    def _ask(self, plugins: tuple[PluginAtPoint, ...], cluster: Cluster) -> PointAnswer:
        while self._next < len(plugins):
            at = plugins[self._next]
            answer = self._answer(at, cluster)
            if isinstance(answer, Reject):
                return Refusal(at.plugin.name, answer.reason)
            if isinstance(answer, Hold):
                self._holds = self._holds or {}
                self._holds[at.plugin.name] = min(float(answer.seconds), LONGEST_HOLD)
            elif answer is not None and answer is not _SKIP:
                said: PointAnswer = answer
                return said
            self._next += 1
        if self._holds:
            holds, self._holds = Holds(self._holds), None
            return holds
        if self._point == "bind":
            raise self.error("skips the pod, and no other Bind plugin is left")
        return None

    def call_ended(self, answer: Any) -> None:
        """The `Call` that was under way has returned this answer."""
        self._returned = (answer,)

    def wrote(self, written: Versions, refused: int | None = None) -> None:
        """Tell the plugin that was asked last which objects were written. `refused`: the status of a failed write."""
        assumed = self._assumed_by(self._plugins[self._point][self._next].plugin)
        assumed.written.update(written)
        assumed.refused = refused

    def time_over(self) -> None:
        """Note that what the plugin that was asked last waits for has not come in time."""
        self._assumed_by(self._plugins[self._point][self._next].plugin).expired = True

    def error(self, message: str) -> PluginError:
        """Return the error to report when the plugin that was asked last fails."""
        return PluginError(self.plugin, message, spelled(self._point))

    def unreserve(self, cluster: Cluster, *, leaves: bool = False) -> tuple[list[Write], list[PluginError]]:
        """Have the plugins give back what they reserved, the last one first; return what to write, and what went wrong.

        `leaves`: the pod is gone, or is being deleted.
        """
        writes: list[Write] = []
        errors = []
        while self._reserved:
            plugin = self._reserved.pop()
            assumed = self._assumed_by(plugin)
            assumed.leaves = leaves
            try:
                answer = self._guard(plugin, plugin.unreserve, assumed, cluster)
                if isinstance(answer, tuple) and all(isinstance(write, Write) for write in answer):
                    writes += answer
                elif answer is not None:
                    raise PluginError(plugin.name, _wanted("None, or a tuple of writes", answer), "Unreserve")
            except PluginError as error:
                errors.append(error)
        return writes, errors

    def post_bind(self, cluster: Cluster) -> tuple[list[Call], list[PluginError]]:
        """The pod is bound: run the PostBind plugins. Returns the calls for the shell to run, and what went wrong."""
        self._point = "post_bind"
        plugins = self._plugins["post_bind"]
        if not plugins:
            return [], []
        spans = self._guard.spans if not any(at.asynchronous for at in plugins) else None
        if spans is not None:
            spans.begin()
        calls, errors = [], []
        for number, at in enumerate(plugins):
            self._next = number
            try:
                answer = self._answer(at, cluster)
            except PluginError as error:
                errors.append(error)
            else:
                if isinstance(answer, Call):
                    calls.append(answer)
        if spans is not None:
            spans.end("PostBind", SUCCESS)
        return calls, errors

    def _answer(self, at: PluginAtPoint, cluster: Cluster) -> Any:
        """Return the plugin's answer, or the Call that will return it.

        Raises PluginError, also for an answer of the wrong type.
        """
        assumed = self._assumed_by(at.plugin)
        if not at.asynchronous:
            answer = self._guard(at.plugin, at.method, assumed, cluster)
        elif self._returned is not None:
            (answer,), self._returned = self._returned, None
        else:
            seconds = float(at.plugin.time_limit)
            pod, _, node = self._where
            return Call(pod, node, at.plugin, at.point, seconds, lambda: at.method(assumed), self._guard)
        assumed.expired = False  # what it waits for next has a time of its own
        types, words = _ANSWERS[at.point]
        if not isinstance(answer, types):
            raise self._wrong(words, answer)
        return answer

    def _wrong(self, wanted: str, answer: Any) -> PluginError:
        return self.error(_wanted(wanted, answer))

    def _assumed_by(self, plugin: Any) -> AssumedPod:
        assumed = self._assumed.get(plugin.name)
        if assumed is None:
            assumed = self._assumed[plugin.name] = AssumedPod(*self._where, self._waiting)
        return assumed


def _wanted(wanted: str, answer: Any) -> str:
    """Return the message about an answer of the wrong type."""
    if inspect.iscoroutine(answer):
        answer.close()  # nobody will await it
    return f"want {wanted}, got {shown(answer)}"


def not_none(call: Call, answer: Any) -> PluginError | None:
    """Return the error for a PostBind coroutine that returned something: nothing would read it."""
    return None if answer is None else call.error(_wanted("None", answer))
