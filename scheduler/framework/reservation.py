"""A pod's way from a chosen node to its Binding: what plugins hold for it, write for it and wait for.

Mirrors kube-scheduler `framework/runtime/framework.go` (RunReservePlugins…, RunPreBindPlugins) without its waiting:
a plugin that is not done says what has to be written or happen, and is asked again when it did.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from scheduler.framework.status import PluginError, Reason, Reject
from scheduler.model.pod import Pod
from scheduler.state.cluster import Cluster

ObjectKey = tuple[str, str, str]
"""(kind, namespace, name); the namespace is empty for cluster-scoped kinds."""
Versions = Mapping[ObjectKey, str]
"""Objects that were written, with their new resourceVersions."""


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


Ask = Callable[..., Any]
"""(plugin, point, arguments…): whatever the point raises fails the pod under the plugin's name."""


class Reservation:
    """The Reserve and PreBind plugins of one pod's way."""

    def __init__(self, reservers: Iterable[Any], binders: Iterable[Any], ask: Ask, pod: Pod, node: tuple[int, str]):
        self._reservers = tuple(reservers)
        self._binders = list(binders)
        self._ask = ask
        self._pod = pod
        self._row, self._node = node
        self._held: dict[str, Held] = {}
        self._undo: list[Any] = []

    @property
    def plugin(self) -> str:
        """Whose PreBind is under way; empty: all are done."""
        name: str = self._binders[0].name if self._binders else ""
        return name

    def take(self, cluster: Cluster) -> tuple[str, Reason] | None:
        """Run Reserve; (plugin, reason) if one refuses, and then nothing is held.

        Raises PluginError, and then nothing is held either.
        """
        for plugin in self._reservers:
            try:
                memory = self._ask(plugin, plugin.reserve, self._pod, cluster, self._row)
            except PluginError:
                self.release(cluster)
                raise
            if isinstance(memory, Reject):
                self.release(cluster)
                return plugin.name, memory.reason
            self._of(plugin).memory = memory
            self._undo.append(plugin)
        return None

    def advance(self, cluster: Cluster) -> Wait | None:
        """Run PreBind as far as it goes: what it waits for, None when the pod can be bound.

        Raises PluginError.
        """
        while self._binders:
            plugin = self._binders[0]
            step = self._ask(plugin, plugin.pre_bind, self._of(plugin), cluster)
            if isinstance(step, Reject):
                raise PluginError(plugin.name, step.reason.text, "PreBind")
            if step is not None:
                waits: Wait = step
                return waits
            del self._binders[0]
        return None

    def note(self, written: Versions) -> None:
        """What the plugin under way asked for was written."""
        if self._binders:
            self._of(self._binders[0]).written.update(written)

    def release(self, cluster: Cluster) -> None:
        """Let go of all that is held, the last first."""
        while self._undo:
            plugin = self._undo.pop()
            if hasattr(plugin, "unreserve"):
                self._ask(plugin, plugin.unreserve, self._of(plugin), cluster)

    def _of(self, plugin: Any) -> Held:
        return self._held.setdefault(plugin.name, Held(self._pod, self._row, self._node))
