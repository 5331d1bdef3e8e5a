"""What a plugin reads besides labels, specs and counts: annotations, which others don't pay for, and outside data.

A plugin says it in one declaration, `Plugin.reads`. Annotations are kept only where a plugin of some profile names
their keys (`framework.profiles.annotated`). A source is refreshed beside the scheduling loop by a shell
(`podberth.app.calls`); `filter` and `score` read its last value, and never wait.
"""

import inspect
from collections.abc import Callable, Coroutine
from typing import Any, Generic, TypeVar

from msgspec import Struct

from podberth.framework.status import shown

Value = TypeVar("Value")

LONGEST_TIMEOUT = 60.0
"""A start waits for the first answer of each source for at most so many seconds."""


class Source(Generic[Value]):
    """One value from outside the cluster: the last one that `fetch` returned."""

    def __init__(
        self,
        name: str,
        fetch: Callable[[], Coroutine[Any, Any, Value]],
        default: Value,
        *,
        interval: float = 30.0,
        timeout: float = 5.0,
    ) -> None:
        """`fetch`: a coroutine function without arguments, which may do I/O; it is cancelled after `timeout` seconds.

        `default`: the value before the first answer, and wherever nothing is fetched (`berth explain`, `simulate`).
        `interval`: seconds from one answer to the next question. Raises TypeError.
        """
        if not (isinstance(name, str) and name):
            raise TypeError(f"a Source wants a name, got {shown(name)}")
        if not inspect.iscoroutinefunction(fetch):
            raise TypeError(f"source {name}: fetch is {shown(fetch)}, should be a coroutine function")
        for what, seconds, most in (("interval", interval, float("inf")), ("timeout", timeout, LONGEST_TIMEOUT)):
            if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 < seconds <= most:
                limit = f" and at most {most:.0f}" if what == "timeout" else ""
                raise TypeError(f"source {name}: {what} is {shown(seconds)}, should be seconds, more than 0{limit}")
        self.name = name
        self.fetch = fetch
        self.default = default
        self.interval = interval
        self.timeout = timeout
        self.clock: Callable[[], float] = _stopped
        """Seconds; a shell that refreshes the source gives it its own."""
        self.version = 0
        """Another one for each other value: for what is kept under a question (`Column.map`)."""
        self._value = default
        self._since: float | None = None

    @property
    def value(self) -> Value:
        """The last value, however old."""
        return self._value

    @property
    def age(self) -> float | None:
        """Return how many seconds ago the value came; None: it is the default."""
        return None if self._since is None else self.clock() - self._since

    def set(self, value: Value, age: float = 0.0) -> bool:
        """Have this value, which came so many seconds ago; whether it is another one than before."""
        before, came = self._value, self._since is not None
        self._value, self._since = value, self.clock() - age
        try:
            other = not came or bool(before != value)
        except ValueError:  # arrays have no truth value
            other = True
        self.version += other
        return other


def _stopped() -> float:
    return 0.0


class Reads(Struct, frozen=True):
    """What a plugin reads that is not kept or fetched for everybody."""

    node_annotations: tuple[str, ...] = ()
    pod_annotations: tuple[str, ...] = ()
    """Keys of annotations. A plugin sees these and no others, in `node.annotations` and `pod.annotations`."""
    sources: tuple[Source[Any], ...] = ()

    def problems(self) -> list[str]:
        """Return what is wrong with it, a line each."""
        found = []
        for what in ("node_annotations", "pod_annotations"):
            keys = getattr(self, what)
            if not (isinstance(keys, tuple) and all(isinstance(key, str) and key for key in keys)):
                found.append(f"its reads.{what} is {shown(keys)}, should be a tuple of annotation keys")
        if not (isinstance(self.sources, tuple) and all(isinstance(one, Source) for one in self.sources)):
            found.append(f"its reads.sources is {shown(self.sources)}, should be a tuple of Sources")
        elif len({one.name for one in self.sources}) < len(self.sources):
            found.append("its reads.sources has two sources of one name")
        return found


NOTHING = Reads()
