"""Third-party plugins: their answers are checked before they are used.

A mask of the wrong length or a score above 100 would break, or silently distort, the work of all other plugins. In-tree
plugins are checked by tests instead, and cost nothing here.
"""

from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np

from podberth.framework.declaration import Declaration, declaration_of
from podberth.framework.guard import Guard
from podberth.framework.normalize import MAX_SCORE, Normalizer
from podberth.framework.plugin import SKIPPABLE, GroupPostFilterResult, PostFilterResult
from podberth.framework.status import Narrow, Reason, Reject, shown

Check = Callable[[Any, tuple[Any, ...]], str]
"""(answer, arguments) → what is wrong with the answer; empty: nothing."""


class Foreign:
    """A third-party plugin. Its points are checked; everything else is the plugin's own."""

    foreign = True
    """Its exceptions are told with file and line."""

    def __init__(self, plugin: Any) -> None:
        self.name: str = plugin.name
        self.declaration = declaration_of(type(plugin))
        self.guard = Guard()
        """The guard of its profile, which sets it."""
        self.own = plugin
        checks = dict(_CHECKS)
        if self.declaration.normalizes:
            checks["score"] = _raw
            if not isinstance(plugin.normalize, Normalizer):
                self.normalize = checked("normalize", plugin.normalize, _normalized)
        for point in self.declaration.methods & checks.keys():
            ask = checked(point, getattr(plugin, point), checks[point])
            setattr(self, point, self._guarded(ask) if point in _ABOUT_SHAPES else ask)

    def _guarded(self, ask: Callable[..., Any]) -> Callable[..., Any]:
        """Ask under the guard. Callers ask without one, since in-tree plugins answer this at once."""
        return lambda *args: self.guard(self, ask, *args)

    def __getattr__(self, attribute: str) -> Any:
        return getattr(self.own, attribute)


def checked(point: str, method: Callable[..., Any], check: Check) -> Callable[..., Any]:
    """A method that is named like the point, and raises TypeError for an answer that the check refuses."""

    def ask(*args: Any) -> Any:
        answer = method(*args)
        problem = check(answer, args)
        if problem:
            raise TypeError(problem)
        return answer

    ask.__name__ = point
    # The line that is told when an answer is refused.
    ask.__wrapped__ = method  # type: ignore[attr-defined]
    return ask


def declared(plugin: Any) -> Declaration:
    """Return what the class of a plugin declares."""
    return plugin.declaration if isinstance(plugin, Foreign) else declaration_of(type(plugin))


def is_foreign(plugin_class: Any) -> bool:
    """Return whether a plugin comes from outside this package."""
    return not getattr(plugin_class, "__module__", "").startswith("podberth.")


def _one_of(*types: type) -> Check:
    wanted = " or ".join("None" if kind is type(None) else kind.__name__ for kind in types)

    def check(answer: Any, args: tuple[Any, ...]) -> str:
        if not isinstance(answer, types):
            return f"want {wanted}, got {shown(answer)}"
        reason: Any = answer.reason if isinstance(answer, Reject) else None
        if reason is not None and not isinstance(reason, Reason):
            return f"want a Reason in the Reject, got {shown(reason)}"
        return ""

    return check


def _sort_key(answer: Any, args: tuple[Any, ...]) -> str:
    fits = isinstance(answer, tuple) and all(isinstance(part, int | float | str) for part in answer)
    return "" if fits else f"want a tuple of numbers and texts, got {shown(answer)}"


def _points(answer: Any, args: tuple[Any, ...]) -> str:
    if isinstance(answer, Collection) and not isinstance(answer, str) and SKIPPABLE.issuperset(answer):
        return ""
    return f"want some of {', '.join(sorted(SKIPPABLE))}, got {shown(answer)}"


def _rejections(answer: Any, args: tuple[Any, ...]) -> str:
    rows = args[1].nodes.rows
    wanted = f"want (Reason, bool[{rows}]) pairs"
    if not isinstance(answer, Sequence):
        return f"{wanted}, got {shown(answer)}"
    for pair in answer:
        if not (isinstance(pair, tuple) and len(pair) == 2 and isinstance(pair[0], Reason)):
            return f"{wanted}, got {shown(pair)}"
        mask = pair[1]
        if not isinstance(mask, np.ndarray) or mask.dtype != np.bool_ or mask.shape != (rows,):
            return f"{wanted}, got {_array(mask)} for {shown(pair[0].text)}"
    return ""


def _hashable(answer: Any, args: tuple[Any, ...]) -> str:
    hash(answer)
    return ""


def _raw(answer: Any, args: tuple[Any, ...]) -> str:
    if answer is None or (isinstance(answer, int) and not isinstance(answer, bool)):
        return ""
    return _one_each(answer, args[2])


def _scores(answer: Any, args: tuple[Any, ...]) -> str:
    return _raw(answer, args) or _in_range(np.array([answer]) if isinstance(answer, int) else answer)


def _normalized(answer: Any, args: tuple[Any, ...]) -> str:
    return _one_each(answer, args[3]) or _in_range(answer)


def _one_each(answer: Any, feasible: Any) -> str:
    wanted = len(feasible)
    if isinstance(answer, np.ndarray) and answer.dtype == np.int64 and answer.shape == (wanted,):
        return ""
    return f"want int64[{wanted}], one score for each feasible node, got {_array(answer)}"


def _in_range(scores: Any) -> str:
    if scores is None or not len(scores):
        return ""
    worst = int(scores.min()) if scores.min() < 0 else int(scores.max())
    if 0 <= worst <= MAX_SCORE:
        return ""
    return f"returns an invalid score {worst}, it should in the range of [0, {MAX_SCORE}] after normalizing"


def _array(value: Any) -> str:
    return f"{value.dtype}{list(value.shape)}" if isinstance(value, np.ndarray) else shown(value)


_ABOUT_SHAPES = ("skips", "signature")
_CHECKS: dict[str, Check] = {
    "pre_enqueue": _one_of(Reason, type(None)),
    "queue_sort": _sort_key,
    "pre_filter": _one_of(Reject, Narrow, type(None)),
    "filter": _rejections,
    "filter_removed": _rejections,
    "filter_one": _one_of(bool, np.bool_),
    "post_filter": _one_of(PostFilterResult),
    "post_filter_group": _one_of(GroupPostFilterResult),
    "score": _scores,
    "score_one": _one_of(int, np.integer),
    "skips": _points,
    "signature": _hashable,
    "looks_elsewhere": _one_of(bool, np.bool_),
    "affected_by": _one_of(bool, np.bool_),
}
"""Answers from Reserve on are checked where plugins are asked (`BindingPlugins`)."""
