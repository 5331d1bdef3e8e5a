"""Asks a profile's plugins from Reserve to PostBind, for one pod at a time.

Mirrors kube-scheduler `framework/runtime/framework.go` (RunReservePlugins…, RunPermitPlugins, RunPreBindPlugins,
RunBindPlugins, RunPostBindPlugins), but never waits. A plugin that is not done says what has to be written or has to
happen, or is a coroutine function that a shell runs (`Call`). It is asked again when that is done.
"""

import inspect
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from msgspec import Struct

from podberth.cache.cluster import Cluster
from podberth.framework.binding import LONGEST_HOLD, AssumedPod, BindResult, Call, Hold, Versions, Wait, Write
from podberth.framework.guard import Guard, spelled
from podberth.framework.status import SUCCESS, UNSCHEDULABLE, Narrow, PluginError, Reason, Reject, shown
from podberth.framework.waiting_pods import WaitingPods
from podberth.model.pod import Pod
from podberth.model.shape import PodShape

FROM_RESERVE = ("reserve", "permit", "pre_bind", "bind", "post_bind")
ASYNC_POINTS = FROM_RESERVE[1:]
"""Points at which a plugin may be a coroutine function, which does its own I/O."""
TIME_LIMIT = 30.0
"""Seconds that such a coroutine has, unless the plugin says otherwise (`time_limit`)."""
LONGEST_LIMIT = 900.0
"""Seconds that a plugin may give its coroutines at most."""
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
    """All Permit plugins were asked, and these want the pod to wait: plugin → seconds."""

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
    """A profile's plugins from Reserve on, each at its points."""
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
    """The plugins that pods of a shape concern."""
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
        """What the `Call` of the plugin that is asked has returned, until it is read."""

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
        if point != self._point:
            self._point, self._next = point, 0
        if not plugins and point != "bind":
            return None
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
        """What the plugin that was asked last waits for has not come in time."""
        self._assumed_by(self._plugins[self._point][self._next].plugin).expired = True

    def error(self, message: str) -> PluginError:
        """The error to report when the plugin that was asked last fails."""
        return PluginError(self.plugin, message, spelled(self._point))

    def unreserve(self, cluster: Cluster, *, leaves: bool = False) -> tuple[list[Write], list[PluginError]]:
        """Have the plugins give back what they reserved, the last one first; what is to be written, what went wrong.

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
        """The plugin's answer, or the Call that will return it.

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
    """The message about an answer of the wrong type."""
    if inspect.iscoroutine(answer):
        answer.close()  # nobody will await it
    return f"want {wanted}, got {shown(answer)}"


def not_none(call: Call, answer: Any) -> PluginError | None:
    """The error for a PostBind coroutine that returned something: nothing would read it."""
    return None if answer is None else call.error(_wanted("None", answer))
