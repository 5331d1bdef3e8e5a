"""Third-party plugins at the edge: their answers are checked before they are believed.

A mask of the wrong length or a score above 100 would break, or silently bend, the work of all other plugins. In-tree
plugins are held to the same by tests instead, and cost nothing here.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from msgspec import Struct

from scheduler.framework.events import ClusterEvent
from scheduler.framework.guard import Guard
from scheduler.framework.plugin import MAX_SCORE, POINTS, PostFilterResult
from scheduler.framework.reservation import ASYNC_POINTS, is_async
from scheduler.framework.status import Narrow, PluginError, Reason, Reject
from scheduler.state.effort import SliceOver

LONGEST_LIMIT = 900.0
"""Seconds that a plugin may give its coroutines at most."""

Check = Callable[[Any, tuple[Any, ...]], str]
"""(answer, arguments) → what is wrong with the answer; empty: nothing."""


class Foreign:
    """A third-party plugin. Has the points that the plugin has, and all else of it."""

    def __init__(self, plugin: Any) -> None:
        self.name: str = plugin.name
        self.guard = Guard()
        """Who asks the plugin; set by its profile."""
        self._plugin = plugin
        for point, check in _CHECKS.items():
            method = getattr(plugin, point, None)
            if method is not None:
                setattr(self, point, self._checked(point, method, check))
        if hasattr(plugin, "concerns"):
            self.concerns = self._concerns
        if hasattr(plugin, "speaks_at"):
            self.speaks_at = self._speaks_at
        if hasattr(plugin, "score"):
            check = _raw if hasattr(plugin, "normalize") else _scores
            self.score = self._checked("score", plugin.score, check)

    def _checked(self, point: str, method: Callable[..., Any], check: Check) -> Callable[..., Any]:
        def ask(*args: Any) -> Any:
            answer = method(*args)
            if self.guard.effort.over:
                raise SliceOver  # which the plugin has swallowed: its answer may be wrong, and nobody may keep it
            problem = check(answer, args)
            if problem:
                raise TypeError(problem)
            return answer

        ask.__name__ = point
        return ask

    def _concerns(self, shape: Any) -> bool:
        """Asked without a guard, since in-tree plugins answer it at once."""
        try:
            return bool(self._plugin.concerns(shape))
        except BaseException as error:  # SystemExit too: a plugin does not end the process
            raise PluginError(self.name, f"{type(error).__name__}: {error}", "Concerns") from error

    def _speaks_at(self, shape: Any) -> frozenset[str]:
        """As `_concerns`."""
        try:
            return frozenset(self._plugin.speaks_at(shape))
        except BaseException as error:
            raise PluginError(self.name, f"{type(error).__name__}: {error}", "SpeaksAt") from error

    def __getattr__(self, attribute: str) -> Any:
        return getattr(self._plugin, attribute)


def is_foreign(plugin_class: Any) -> bool:
    """Whether a plugin comes from outside this package."""
    return not getattr(plugin_class, "__module__", "").startswith("scheduler.")


def examine(plugin_class: Any, name: str) -> list[str]:
    """What keeps a class from being a plugin of this name."""
    if not isinstance(plugin_class, type):
        return [f"want a class, got {plugin_class!r}"]
    problems = []
    has = getattr(plugin_class, "name", None)
    if has != name:
        problems.append(f"its attribute name is {has!r}, should be {name!r}")
    points = [point for point in POINTS if hasattr(plugin_class, point)]
    if not points:
        problems.append(f"it has none of the extension points {', '.join(POINTS)}")
    if "pre_score" in points:
        problems.append("pre_score is no point of its own here: what it prepares belongs in score")
    problems += (
        f"{point} can't be a coroutine function, only {', '.join(ASYNC_POINTS)} can"
        for point in (*points, "normalize", "unreserve")
        if point not in ASYNC_POINTS and is_async(getattr(plugin_class, point, None))
    )
    args = getattr(plugin_class, "Args", None)
    if args is not None and not (isinstance(args, type) and issubclass(args, Struct)):
        problems.append(f"its Args is {args!r}, should be a msgspec.Struct class")
    wakes_on = getattr(plugin_class, "wakes_on", ClusterEvent.NOTHING)
    if not isinstance(wakes_on, ClusterEvent):
        problems.append(f"its wakes_on is {wakes_on!r}, should be a ClusterEvent")
    limit = getattr(plugin_class, "time_limit", LONGEST_LIMIT)
    if not isinstance(limit, int | float) or not 0 < limit <= LONGEST_LIMIT:
        problems.append(f"its time_limit is {limit!r}, should be seconds, more than 0 and at most {LONGEST_LIMIT:.0f}")
    return problems


def _one_of(*types: type) -> Check:
    wanted = " or ".join("None" if kind is type(None) else kind.__name__ for kind in types)

    def check(answer: Any, args: tuple[Any, ...]) -> str:
        if not isinstance(answer, types):
            return f"want {wanted}, got {answer!r}"
        reason: Any = answer.reason if isinstance(answer, Reject) else None
        if reason is not None and not isinstance(reason, Reason):
            return f"want a Reason in the Reject, got {reason!r}"
        return ""

    return check


def _sort_key(answer: Any, args: tuple[Any, ...]) -> str:
    fits = isinstance(answer, tuple) and all(isinstance(part, int | float | str) for part in answer)
    return "" if fits else f"want a tuple of numbers and texts, got {answer!r}"


def _rejections(answer: Any, args: tuple[Any, ...]) -> str:
    rows = args[1].nodes.rows
    wanted = f"want (Reason, bool[{rows}]) pairs"
    if not isinstance(answer, Sequence):
        return f"{wanted}, got {answer!r}"
    for pair in answer:
        if not (isinstance(pair, tuple) and len(pair) == 2 and isinstance(pair[0], Reason)):
            return f"{wanted}, got {pair!r}"
        mask = pair[1]
        if not isinstance(mask, np.ndarray) or mask.dtype != np.bool_ or mask.shape != (rows,):
            return f"{wanted}, got {_array(mask)} for {pair[0].text!r}"
    return ""


def _mask(answer: Any, args: tuple[Any, ...]) -> str:
    rows = args[1].rows
    if isinstance(answer, np.ndarray) and answer.dtype == np.bool_ and answer.shape == (rows,):
        return ""
    return f"want bool[{rows}], got {_array(answer)}"


def _hashable(answer: Any, args: tuple[Any, ...]) -> str:
    hash(answer)
    return ""


def _raw(answer: Any, args: tuple[Any, ...]) -> str:
    if answer is None or (isinstance(answer, int) and not isinstance(answer, bool)):
        return ""
    wanted = len(args[2])
    if not isinstance(answer, np.ndarray) or answer.dtype != np.int64 or answer.shape != (wanted,):
        return f"want int64[{wanted}], one score for each feasible node, got {_array(answer)}"
    return ""


def _scores(answer: Any, args: tuple[Any, ...]) -> str:
    return _raw(answer, args) or _in_range(np.array([answer]) if isinstance(answer, int) else answer)


def _normalized(answer: Any, args: tuple[Any, ...]) -> str:
    wanted = len(args[3])
    if not isinstance(answer, np.ndarray) or answer.dtype != np.int64 or answer.shape != (wanted,):
        return f"want int64[{wanted}], one score for each feasible node, got {_array(answer)}"
    return _in_range(answer)


def _in_range(scores: Any) -> str:
    if scores is None or not len(scores):
        return ""
    worst = int(scores.min()) if scores.min() < 0 else int(scores.max())
    if 0 <= worst <= MAX_SCORE:
        return ""
    return f"returns an invalid score {worst}, it should in the range of [0, {MAX_SCORE}] after normalizing"


def _array(value: Any) -> str:
    return f"{value.dtype}{list(value.shape)}" if isinstance(value, np.ndarray) else repr(value)


_CHECKS: dict[str, Check] = {
    "pre_enqueue": _one_of(Reason, type(None)),
    "queue_sort": _sort_key,
    "pre_filter": _one_of(Reject, Narrow, type(None)),
    "filter": _rejections,
    "post_filter": _one_of(PostFilterResult),
    "normalize": _normalized,
    "reads": _hashable,
    "passes": _mask,
    "passes_on": _one_of(bool, np.bool_),
    "score_on": _one_of(int, np.integer),
}
"""What the points after the decision answer is checked where it is used (`Reservation`)."""
