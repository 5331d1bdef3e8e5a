"""Asks plugins. Whatever a plugin raises fails its pod under the plugin's name.

A pure room has no clock, so nothing here ends a plugin that does not return. A shell can: its watchdog reads
`Guard.running` from another thread and raises `Overdue` in the thread in which the plugin runs.
"""

import inspect
import sys
from collections.abc import Callable
from traceback import walk_tb
from types import ModuleType
from typing import Any, Protocol

from msgspec import MsgspecError

from podberth.cache.search_steps import SearchCapError
from podberth.framework.status import PluginError, shown
from podberth.model.mistakes import misfit


class Overdue(BaseException):
    """Raised by a shell inside a plugin that holds the loop too long. No `except Exception` in there stops it."""


Asked = Callable[..., Any]
Reached = Callable[[str, str], None]
"""Called with (point, status) when an extension point of a decision is done."""
PluginCall = tuple[Any, Callable[..., Any]]
"""(plugin, point): one call of a plugin, compared by identity. A tuple, since one is made for every call."""


class Spans(Protocol):
    """Measures an extension point outside of decisions. Spans never overlap."""

    def begin(self) -> None:
        """The plugins of a point are about to be asked."""

    def end(self, point: str, status: str) -> None:
        """The plugins of a point have answered."""


def point_name(call: PluginCall) -> str:
    """Return the extension point as kube-scheduler spells it: PreBind."""
    return spelled(getattr(call[1], "__name__", ""))


class Guard:
    """Asks the plugins of one profile, one at a time; a plugin may ask others in turn (preemption the filters)."""

    __slots__ = ("failed", "running", "spans", "timed", "uninterrupted")

    def __init__(self) -> None:
        self.uninterrupted = False
        """The shell handles signals between stimuli: a KeyboardInterrupt inside a plugin was raised by the plugin."""
        self.timed: Asked | None = None
        """Makes the calls while a shell measures: `timed(plugin, point, …)` returns what `point(…)` returns."""
        self.spans: Spans | None = None
        """Measures PreEnqueue, Permit and PostBind, if a shell wants that."""
        self.failed: Callable[[PluginError], None] | None = None
        """Hears of each exception of a third-party plugin, if a shell wants that."""
        self.running: PluginCall | None = None
        """The call that is being made."""

    def __call__(self, plugin: Any, point: Callable[..., Any], *args: Any) -> Any:
        """Return the plugin's answer.

        Raises PluginError for whatever the plugin raises, SystemExit too.
        """
        before = self.running
        asked = self.running = (plugin, point)
        try:
            return point(*args) if self.timed is None else self.timed(plugin, point, *args)
        except PluginError:
            raise
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt) and not self.uninterrupted:
                raise
            overdue = isinstance(error, Overdue)
            at = place_of(error, point) if getattr(plugin, "foreign", False) else ""
            told = PluginError(plugin.name, str(error) if overdue else described(error), point_name(asked), at)
            if at and self.failed is not None:
                self.failed(told)
            raise told from None if overdue else error
        finally:
            self.running = before


def place_of(error: BaseException, point: Callable[..., Any]) -> str:
    """file:line of a third-party plugin's own code that raised, or whose answer was refused; empty: not known."""
    frames = [
        (frame.f_globals.get("__name__", "").partition(".")[0], frame, line)
        for frame, line in walk_tb(error.__traceback__)
    ]
    package = next((name for name, _, _ in frames if name != "podberth" and name not in sys.stdlib_module_names), None)
    if package is not None:
        # What it calls may raise, in json or NumPy: the line that an author looks for is the plugin's.
        _, frame, line = next(one for one in reversed(frames) if one[0] == package)
        return f"{frame.f_code.co_filename}:{line}"
    code = getattr(inspect.unwrap(point), "__code__", None)
    return f"{code.co_filename}:{code.co_firstlineno}" if code is not None else ""


def described(error: BaseException) -> str:
    """Return what a plugin raised, in plain words: its text, after the name of its class if the plugin has defined
    that.
    """
    try:
        words = _words(error)
    except BaseException:  # noqa: BLE001 (SystemExit too: a plugin does not end the process)
        return "it failed with an error whose text can't be read"
    return words or "it failed without a message"


def _words(error: BaseException) -> str:
    text = str(error)
    match error:
        case SearchCapError():
            return text
        case SystemExit():
            return f"it tried to end the process ({text})"
        case KeyError(args=[key]):
            return f"there is no entry {shown(key)}"
        case ModuleNotFoundError(name=str(name)):
            return f'there is no module "{name}"'
        case AttributeError(name=str(name)) if error.__class__ is AttributeError:
            return f'it uses "{name}", which {_kind(error.obj)} does not have'
        case KeyboardInterrupt():
            return "it was interrupted"
        case RecursionError():
            return "its calls are nested too deeply"
        case MsgspecError():
            return misfit(error)
        case MemoryError():
            return "it ran out of memory"
        case NotImplementedError() if not text:
            return "it is not implemented"
        case BaseException() if type(error).__name__ == "CancelledError":  # asyncio's, which may not be imported here
            return "it was cancelled"
    package = type(error).__module__.partition(".")[0]
    own = package not in sys.stdlib_module_names and package != "numpy"
    return f"{type(error).__name__}: {text}" if own and text else type(error).__name__ if own else text


def _kind(thing: object) -> str:
    """Return what an object is, to people."""
    if isinstance(thing, ModuleType):
        return f'the module "{thing.__name__}"'
    return f"a value of the kind {type(thing).__name__}" if thing is not None else "None"


def spelled(point: str) -> str:
    """Return a method's name as kube-scheduler spells the extension point: pre_bind → PreBind."""
    return "".join(word.capitalize() for word in point.split("_"))
