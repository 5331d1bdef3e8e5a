"""A pod's way from a chosen node to its Binding: what plugins hold for it, write for it and wait for.

Mirrors kube-scheduler `framework/runtime/framework.go` (RunReservePlugins…, RunPermitPlugins, RunPreBindPlugins,
RunBindPlugins, RunPostBindPlugins) without its waiting: a plugin that is not done says what has to be written or
happen, or is a coroutine function that a shell runs (`Call`), and is heard again when that is done.
"""

import inspect
from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any

from scheduler.framework.guard import Guard, spelled
from scheduler.framework.permit import LONGEST_HOLD, Hold, WaitingPods
from scheduler.framework.status import PluginError, Reason, Reject
from scheduler.model.pod import Pod
from scheduler.model.shape import PodShape
from scheduler.state.cluster import Cluster

ObjectKey = tuple[str, str, str]
"""(kind, namespace, name); the namespace is empty for cluster-scoped kinds."""
Versions = Mapping[ObjectKey, str]
"""Objects that were written, with their new resourceVersions."""

ASYNC_POINTS = ("permit", "pre_bind", "bind", "post_bind")
"""Points at which a plugin may be a coroutine function, and then does its own I/O."""
_SUCCESS, _REFUSED = "Success", "Unschedulable"
TIME_LIMIT = 30.0
"""Seconds that such a coroutine has, unless the plugin says otherwise (`time_limit`)."""
LONGEST_LIMIT = 900.0
"""Seconds that a plugin may give its coroutines at most."""


@dataclass(frozen=True, slots=True)
class Patch:
    """Change an object by a JSON merge patch; refused (409) if it has changed since `resource_version`."""

    key: ObjectKey
    uid: str
    resource_version: str
    change: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Wait:
    """PreBind is not done: write first, in this order, then ask again when an object changes; not for ever."""

    seconds: float
    """Counted from the end of the plugin's last write."""
    writes: tuple[Patch, ...] = ()
    on: frozenset[ObjectKey] = frozenset()
    """The objects whose change may end the waiting; empty: any change may."""
    expired: str = "timed out"
    """What to say when the time is over."""


class Binding(Enum):
    """What a Bind plugin makes of a pod."""

    SKIP = auto()
    """Nothing: the next one is asked."""
    POST = auto()
    """The Binding is to be posted to the API server."""
    DONE = auto()
    """The plugin has bound the pod itself."""


@dataclass(slots=True)
class Held:
    """A pod on its way to a node, as one plugin sees it."""

    pod: Pod
    row: int
    node: str
    memory: Any = None
    """What the plugin's `reserve` returned."""
    written: dict[ObjectKey, str] = field(default_factory=dict)
    """What was written for the plugin's `Wait`, with the new resourceVersions."""
    waiting: WaitingPods = field(default_factory=WaitingPods)
    """Pods that wait for a Permit: any plugin may allow or reject them."""


@dataclass(frozen=True, slots=True, eq=False)
class Call:
    """A plugin's coroutine, to be run by a shell for at most `seconds`. Each is told apart by identity."""

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
        """What is said when it comes to nothing."""
        return PluginError(self.name, message, spelled(self.point))


@dataclass(frozen=True, slots=True)
class Refused:
    """A Permit plugin keeps the pod from its node."""

    plugin: str
    reason: Reason


@dataclass(frozen=True, slots=True)
class Holds:
    """All Permit plugins were asked, and these want the pod to wait: plugin → seconds."""

    seconds: dict[str, float]


Step = Wait | Call | Refused | Holds | Binding
"""What a pod's way needs next; a Binding (POST or DONE) is its end."""


@dataclass(frozen=True, slots=True)
class Stop:
    """One plugin at one point on the way."""

    point: str
    plugin: Any
    method: Callable[..., Any]
    asynchronous: bool
    skips: Callable[[PodShape], Collection[str]] | None
    """The points that it skips for pods of a shape, as far as it is asked before binding; None: none."""


@dataclass(frozen=True, slots=True)
class Way:
    """What lies on the way of all pods of a profile."""

    reservers: tuple[Stop, ...]
    stops: tuple[Stop, ...]
    after: tuple[Stop, ...]
    permits: int
    """How many of the stops are Permit plugins; 0 when one is a coroutine, which takes its own time."""
    tells: bool
    """Whether there are PostBind plugins, and no coroutine among them."""


def way(points: Mapping[str, Iterable[Any]]) -> Way:
    """The way that these plugins make, by point."""

    def stops(*names: str) -> tuple[Stop, ...]:
        return tuple(_stop(name, plugin) for name in names for plugin in points.get(name, ()))

    permits, after = stops("permit"), stops("post_bind")
    return Way(
        stops("reserve"),
        stops("permit", "pre_bind", "bind"),
        after,
        permits=0 if any(stop.asynchronous for stop in permits) else len(permits),
        tells=bool(after) and not any(stop.asynchronous for stop in after),
    )


def _stop(point: str, plugin: Any) -> Stop:
    method = getattr(plugin, point)
    skips = plugin.skips if point in ("reserve", "pre_bind") else None
    return Stop(point, plugin, method, is_async(method), skips)


class Reservation:
    """The plugins' part in one pod's way: Reserve at once, then Permit, PreBind and Bind step by step."""

    def __init__(self, way: Way, guard: Guard, pod: Pod, node: tuple[int, str], waiting: WaitingPods) -> None:
        self._way = way
        self._next = 0
        self._guard = guard
        self._pod = pod
        self._row, self._node = node
        self._waiting = waiting
        self._held: dict[str, Held] = {}
        self._undo: list[Any] = []
        self._holds: dict[str, float] = {}
        self._answers: list[Any] = []

    @property
    def plugin(self) -> str:
        """Who is being asked, or was asked last."""
        name: str = self._stop.plugin.name
        return name

    @property
    def _stop(self) -> Stop:
        return self._way.stops[min(self._next, len(self._way.stops) - 1)]

    def take(self, cluster: Cluster) -> tuple[str, Reason] | None:
        """Run Reserve; (plugin, reason) if one refuses, and then it holds nothing.

        Raises PluginError. In both cases the caller has to `release` what the others hold.
        """
        for stop in self._way.reservers:
            if stop.skips is not None and stop.point in stop.skips(self._pod.shape):
                continue
            plugin = stop.plugin
            memory = self._guard(plugin, stop.method, self._pod, cluster, self._row)
            if isinstance(memory, Reject):
                return plugin.name, memory.reason
            self._of(plugin).memory = memory
            self._undo.append(plugin)
        return None

    def advance(self, cluster: Cluster) -> Step:
        """Run Permit, PreBind and Bind as far as they go.

        Raises PluginError.
        """
        step = self._permitted(cluster) if self._next == 0 and self._way.permits else None
        if step is None:
            step = self._ask_up_to(len(self._way.stops), cluster)
        if step is None:
            raise self.error("skips the pod, and no other Bind plugin is left")
        return step

    def _permitted(self, cluster: Cluster) -> Step | None:
        """What the Permit plugins say, all at once; None: go on."""
        spans = self._guard.spans
        if spans is None:
            return None
        spans.begin()
        status = "Error"
        try:
            step = self._ask_up_to(self._way.permits, cluster)
            status = _REFUSED if isinstance(step, Refused) else "Wait" if self._holds else _SUCCESS
        finally:
            spans.end("Permit", status)
        return step

    def _ask_up_to(self, end: int, cluster: Cluster) -> Step | None:
        stops = self._way.stops
        while self._next < end:
            stop = stops[self._next]
            if stop.skips is not None and stop.point in stop.skips(self._pod.shape):
                self._next += 1
                continue
            if self._holds and stop.point != "permit":
                holds, self._holds = Holds(self._holds), {}
                return holds
            answer = self._ask(stop, cluster)
            if isinstance(answer, Call):
                return answer
            step = _STEPS[stop.point](self, stop.plugin, answer)
            if step is not None:
                return step
            self._next += 1
        return None

    def heard(self, answer: Any) -> None:
        """The `Call` under way gave this answer."""
        self._answers.append(answer)

    def note(self, written: Versions) -> None:
        """What the plugin under way asked for was written."""
        self._of(self._stop.plugin).written.update(written)

    def error(self, message: str) -> PluginError:
        """What is said when the plugin under way comes to nothing."""
        return PluginError(self.plugin, message, spelled(self._stop.point))

    def release(self, cluster: Cluster) -> list[PluginError]:
        """Let go of all that is held, the last first; what went wrong with it."""
        errors = []
        while self._undo:
            plugin = self._undo.pop()
            try:
                self._guard(plugin, plugin.unreserve, self._of(plugin), cluster)
            except PluginError as error:
                errors.append(error)
        return errors

    def arrived(self, cluster: Cluster) -> tuple[list[Call], list[PluginError]]:
        """The pod is bound: run PostBind. What is to be run by the shell, and what went wrong."""
        spans = self._guard.spans
        if spans is None or not self._way.tells:
            return self._tell(cluster)
        spans.begin()
        told = self._tell(cluster)
        spans.end("PostBind", _SUCCESS)
        return told

    def _tell(self, cluster: Cluster) -> tuple[list[Call], list[PluginError]]:
        calls, errors = [], []
        for stop in self._way.after:
            try:
                answer = self._ask(stop, cluster)
            except PluginError as error:
                errors.append(error)
            else:
                if isinstance(answer, Call):
                    calls.append(answer)
        return calls, errors

    def _ask(self, stop: Stop, cluster: Cluster) -> Any:
        """The plugin's answer, or the Call that will bring it."""
        plugin, held = stop.plugin, self._of(stop.plugin)
        if not stop.asynchronous:
            return self._guard(plugin, stop.method, held, cluster)
        if self._answers:
            return self._answers.pop()
        seconds = float(plugin.time_limit)
        return Call(self._pod, self._node, plugin, stop.point, seconds, lambda: stop.method(held), self._guard)

    def _permit(self, plugin: Any, answer: Any) -> Step | None:
        match answer:
            case None:
                return None
            case Hold(seconds):
                self._holds[plugin.name] = min(seconds, LONGEST_HOLD)
                return None
            case Reject(reason):
                return Refused(plugin.name, reason)
        raise self.error(f"want None, a Hold or a Reject, got {answer!r}")

    def _pre_bind(self, plugin: Any, answer: Any) -> Step | None:
        match answer:
            case None:
                return None
            case Wait():
                return answer
            case Reject(reason):
                raise self.error(reason.text)
        raise self.error(f"want None, a Wait or a Reject, got {answer!r}")

    def _bind(self, plugin: Any, answer: Any) -> Step | None:
        match answer:
            case Binding.SKIP:
                return None
            case Binding():
                return answer
            case Reject(reason):
                raise self.error(reason.text)
        raise self.error(f"want a Binding or a Reject, got {answer!r}")

    def _of(self, plugin: Any) -> Held:
        found = self._held.get(plugin.name)
        if found is None:
            found = self._held[plugin.name] = Held(self._pod, self._row, self._node, waiting=self._waiting)
        return found


_STEPS = {"permit": Reservation._permit, "pre_bind": Reservation._pre_bind, "bind": Reservation._bind}


def is_async(method: Any) -> bool:
    """Whether a point is a coroutine function."""
    return inspect.iscoroutinefunction(method)
