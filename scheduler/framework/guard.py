"""How plugins are asked: whatever one raises fails its pod under the plugin's name, and who is being asked can be seen.

A pure room has no clock, so nothing here ends a plugin that does not come back. A shell can: its watchdog looks at
`Guard.running` from another thread and raises `Overdue` in the thread that is held.
"""

from collections.abc import Callable
from typing import Any, Protocol

from scheduler.framework.status import PluginError
from scheduler.state.effort import Effort, SliceOver


class Overdue(BaseException):
    """Raised by a shell inside a plugin that holds the loop too long; no `except Exception` in there stops it."""


Asked = Callable[..., Any]
Reached = Callable[[str, str], None]
"""Hears of each extension point of a decision that is done: (point, status)."""
Question = tuple[Any, Callable[..., Any]]
"""(plugin, point): one call of a plugin, told apart by identity. A tuple, since one is made for every call."""


class Spans(Protocol):
    """Measures an extension point that is no part of a decision. Spans never overlap."""

    def begin(self) -> None:
        """The plugins of a point are about to be asked."""

    def end(self, point: str, status: str) -> None:
        """They have been."""


def point_name(question: Question) -> str:
    """The extension point as kube-scheduler spells it: PreBind."""
    return spelled(getattr(question[1], "__name__", ""))


class Guard:
    """Asks the plugins of one profile, one at a time; a plugin may ask others in turn (preemption the filters)."""

    __slots__ = ("effort", "running", "spans", "timed", "uninterrupted")

    def __init__(self) -> None:
        self.effort = Effort()
        """Of the cluster that is decided about: what a plugin raises in place of SliceOver is not its failure."""
        self.uninterrupted = False
        """The shell hears of signals between stimuli: a KeyboardInterrupt is the plugin's, and nobody's key."""
        self.timed: Asked | None = None
        """Makes the call, when somebody measures: `timed(plugin, point, …)` returns what `point(…)` does."""
        self.spans: Spans | None = None
        """Hears of PreEnqueue, Permit and PostBind, when somebody measures."""
        self.running: Question | None = None
        """What is being asked at this moment."""

    def __call__(self, plugin: Any, point: Callable[..., Any], *args: Any) -> Any:
        """The plugin's answer.

        Raises PluginError for whatever the plugin raises, SystemExit too; SliceOver once the slice is used up.
        """
        before = self.running
        asked = self.running = (plugin, point)
        try:
            return point(*args) if self.timed is None else self.timed(plugin, point, *args)
        except (PluginError, SliceOver):
            raise
        except BaseException as error:
            if self.effort.over:
                raise SliceOver from error
            if isinstance(error, KeyboardInterrupt) and not self.uninterrupted:
                raise
            if isinstance(error, Overdue):
                raise PluginError(plugin.name, str(error), point_name(asked)) from None
            raise PluginError(plugin.name, described(error), point_name(asked)) from error
        finally:
            self.running = before


def described(error: BaseException) -> str:
    """What a plugin raised: its class and its text, which the plugin has made as well."""
    try:
        return f"{type(error).__name__}: {error}"
    except BaseException as again:  # noqa: BLE001 (SystemExit too: a plugin does not end the process)
        return f"{type(error).__name__}, the text of which can't be had: {type(again).__name__}"


def spelled(point: str) -> str:
    """A method's name as kube-scheduler spells the extension point: pre_bind → PreBind."""
    return "".join(word.capitalize() for word in point.split("_"))
