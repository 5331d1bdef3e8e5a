"""Reads and checks what a plugin's class declares, and checks the answers of third-party plugins.

Whatever is wrong with a class is an error at start that names the attribute. A mask of the wrong length or a score
above 100 would break, or silently distort, the work of all other plugins. In-tree plugins are checked by tests instead,
and cost nothing here.
"""

import inspect
from collections.abc import Callable, Collection, Sequence
from difflib import get_close_matches
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from msgspec import Struct

from podberth.framework.binding import ASYNC_POINTS, LONGEST_LIMIT
from podberth.framework.events import NODE_EVENTS, OTHER_EVENTS, POD_EVENTS, ClusterEvent
from podberth.framework.explaining import Explainer
from podberth.framework.guard import Guard
from podberth.framework.interface import (
    MAX_SCORE,
    NODE,
    OWN_STATE,
    PODS_ELSEWHERE,
    PODS_HERE,
    POINTS,
    SKIPPABLE,
    SOURCES,
    DependsOn,
    GroupPostFilterResult,
    Normalizer,
    Plugin,
    PostFilterResult,
    Reads,
    Reservation,
)
from podberth.framework.status import Narrow, Reason, Reject, shown
from podberth.model.annotated import MODES

_NEAR = 0.85
"""Attributes whose names are this close to a known one are taken for misspellings of it."""
HINTS = {"node_hint": NODE_EVENTS, "pod_hint": POD_EVENTS, "object_hint": OTHER_EVENTS}
"""Queueing hint → the events for which it is asked."""
_COUNTING = ("needs", "free", "takes")
_ONE = {"filter_one": "filter", "score_one": "score"}
_EXPLAINING = ("explain", "fixes", "explain_pod")
"""Methods of an `Explainer`, which a plugin names."""
_ARGUMENTS = {
    "pre_enqueue": ("pod",),
    "permit": ("assumed", "cluster"),
    "pre_bind": ("assumed", "cluster"),
    "bind": ("assumed", "cluster"),
    "post_bind": ("assumed", "cluster"),
    "normalize": ("scores", "pod", "cluster", "feasible"),
}
"""Methods whose arguments can't be read from the base class. Coroutines take the first one alone."""
_METHODS = (
    *(point for point in POINTS if point != "pre_score"),
    "unreserve",
    "post_filter_group",
    "normalize_placements",
    "skips",
    "idle",
    "signature",
    "looks_elsewhere",
    "affected_by",
    "filter_removed",
    *_ONE,
    *_COUNTING,
    "counted",
    *HINTS,
)
_OPTIONS = (
    *("reads", "reservation", "annotated_affinity"),
    "required_during_execution",
)
"""Attributes that a plugin may also set in `__init__`, by its arguments."""
_DATA = (
    *("name", "Args", "depends_on", "normalize", "events", "time_limit", "for_groups", "only_preempts", "explainer"),
    *_OPTIONS,
)
KNOWN = (*_METHODS, *_DATA, "check")
"""Every attribute that means something to Berth."""


class Declaration(Struct, frozen=True):
    """The declaration of one class, in the form in which the pipeline reads it."""

    points: frozenset[str]
    """The points that it overrides."""
    methods: frozenset[str]
    """All methods that it overrides."""
    depends_on: DependsOn
    normalizes: bool
    """It has `normalize`, as a Normalizer or as its own method."""
    static: bool
    """Its answers about a node depend on the pod's signature and the node object only."""
    on_node: bool
    """Its answers about a node depend on the pod's signature, the node object and the pods on it only."""
    may_look_elsewhere: bool
    """True if something that happens on one node may change the verdict on another."""
    on_node_unless_elsewhere: bool
    """`on_node` is true of it for each pod for which it does not look elsewhere."""
    static_unless_elsewhere: bool
    """`static` is true of it for each pod for which it does not look elsewhere."""
    keeps_scores: bool
    """Its normalised scores can be kept by node."""
    counts: bool
    """It has `needs`, `free` and `takes`: preemption finds victims by these amounts."""
    enqueues_by_cluster: bool
    """Its `pre_enqueue` looks at the cluster too."""


_KNOWN_CLASSES: WeakKeyDictionary[type[Plugin], Declaration] = WeakKeyDictionary()


def declaration_of(plugin_class: type[Plugin]) -> Declaration:
    """Return what a class declares. It was checked when it was registered (`problems_of`)."""
    found = _KNOWN_CLASSES.get(plugin_class)
    if found is not None:
        return found
    methods = frozenset(name for name in _METHODS if _overrides(plugin_class, name))
    normalize = plugin_class.normalize
    depends_on = plugin_class.depends_on or DependsOn(0)
    static = bool(depends_on) and not depends_on & ~NODE
    on_node = bool(depends_on) and not depends_on & ~(NODE | PODS_HERE)
    found = _KNOWN_CLASSES[plugin_class] = Declaration(
        points=methods & frozenset(POINTS),
        methods=methods,
        depends_on=depends_on,
        normalizes=normalize is not None,
        static=static,
        on_node=on_node,
        may_look_elsewhere=bool(depends_on & (PODS_ELSEWHERE | OWN_STATE)),
        on_node_unless_elsewhere=bool(depends_on) and not depends_on & ~(NODE | PODS_HERE | PODS_ELSEWHERE),
        static_unless_elsewhere=bool(depends_on) and not depends_on & ~(NODE | PODS_ELSEWHERE),
        keeps_scores=on_node and (normalize is None or (static and isinstance(normalize, Normalizer))),
        counts="takes" in methods,
        enqueues_by_cluster=_takes_cluster(getattr(plugin_class, "pre_enqueue", None)),
    )
    return found


def _overrides(plugin_class: type, name: str) -> bool:
    return getattr(plugin_class, name, None) is not getattr(Plugin, name, None)


def problems_of(plugin_class: Any, name: str) -> list[str]:
    """Return what keeps a class from being the plugin of this name, a line each."""
    if not isinstance(plugin_class, type):
        return [f"want a class, got {shown(plugin_class)}"]
    if not issubclass(plugin_class, Plugin):
        return ["it does not derive from podberth.kit.Plugin"]
    problems = []
    if plugin_class.name != name:
        problems.append(f"its attribute name is {shown(plugin_class.name)}, should be {shown(name)}")
    problems += _unknown(plugin_class)
    if _overrides(plugin_class, "pre_score"):
        problems.append("pre_score is no point of its own here: what it prepares belongs in score")
    methods = [method for method in _METHODS if _overrides(plugin_class, method)]
    if not set(methods) & set(POINTS) and not hasattr(plugin_class, "pre_score"):
        problems.append(f"it has none of the extension points {', '.join(p for p in POINTS if p != 'pre_score')}")
    own_normalize = not isinstance(plugin_class.normalize, Normalizer | None)
    for method in ("__init__", *methods, *(("normalize",) if own_normalize else ())):
        problems += _signature_problems(plugin_class, method)
    problems += _explainer_problems(plugin_class.explainer)
    return problems + _data_problems(plugin_class, own_normalize) + _missing(plugin_class, frozenset(methods))


def problems_of_options(plugin: Any) -> list[str]:
    """Return what is wrong with the options that a plugin has set, a line each."""
    reservation, reads = plugin.reservation, plugin.reads
    wanted = {
        "reads": (isinstance(reads, Reads), "a Reads"),
        "reservation": (isinstance(reservation, Reservation | None), "a Reservation or None"),
        "annotated_affinity": (plugin.annotated_affinity in (None, *MODES), f"{' or '.join(MODES)}, or None"),
        "required_during_execution": (isinstance(plugin.required_during_execution, bool), "True or False"),
    }
    problems = [
        f"its {name} is {shown(getattr(plugin, name))}, should be {want}"
        for name, (right, want) in wanted.items()
        if not right
    ]
    if isinstance(reads, Reads):
        problems += reads.problems()
        if reads.sources and plugin.depends_on and not plugin.depends_on & SOURCES:
            problems.append("it reads sources, and depends_on does not name SOURCES: old results would be used")
    return problems + (reservation.check("its reservation") if isinstance(reservation, Reservation) else [])


def _unknown(plugin_class: type[Plugin]) -> list[str]:
    """Attributes that are misspelt, or belong in an explainer."""
    own = _own(plugin_class, Plugin) - {*KNOWN, "pre_score"}
    explaining = [name for name in _EXPLAINING if name in own]
    problems = _misspelt(own.difference(_EXPLAINING), KNOWN, "it")
    if explaining:
        there = "which is for a class of its own that derives from Explainer"
        problems.append(f"it has {' and '.join(explaining)}, {there}: name it, explainer = … (docs/plugins.md)")
    return problems


def _own(some_class: type, base: type) -> set[str]:
    """Return the public attributes that a class adds to a base class, or overrides."""
    names = {name for each in some_class.__mro__ if each not in base.__mro__ for name in vars(each)}
    return {name for name in names if not name.startswith("_")}


def _misspelt(names: set[str], known: Sequence[str], whose: str) -> list[str]:
    near = [(name, get_close_matches(name, known, n=1, cutoff=_NEAR)) for name in sorted(names - {*known})]
    return [
        f"{whose} has {name}, which means nothing: did you mean {meant[0]}? (else begin it with _)"
        for name, meant in near
        if meant
    ]


def _signature_problems(some_class: type, method: str, base: type = Plugin, whose: str = "its") -> list[str]:
    """Return the reasons for which a method can't be called as it will be."""
    found: Any = getattr(some_class, method)
    if not callable(found):
        return [f"{whose} {method} is {shown(found)}, should be a method"]
    coroutine = inspect.iscoroutinefunction(found)
    if coroutine and method not in ASYNC_POINTS:
        return [f"{method} can't be a coroutine function, only {', '.join(ASYNC_POINTS)} can"]
    arguments = _ARGUMENTS.get(method) or tuple(inspect.signature(getattr(base, method)).parameters)[1:]
    if coroutine:
        arguments = arguments[:1]
    if method == "pre_enqueue" and _takes_cluster(found):
        arguments = ("pod", "cluster")
    try:
        signature = inspect.signature(found)
    except (TypeError, ValueError):
        return []  # not written in Python, so its signature can't be read
    is_static = isinstance(inspect.getattr_static(some_class, method), staticmethod)
    given = arguments if is_static else ("self", *arguments)
    try:
        signature.bind(*given)
    except TypeError:
        has = ", ".join(name for i, name in enumerate(signature.parameters) if i or is_static)
        return [f"{whose} {method} takes ({has}), should take ({', '.join(arguments)})"]
    return []


def _explainer_problems(explainer: Any) -> list[str]:
    if explainer is None:
        return []
    if not (isinstance(explainer, type) and issubclass(explainer, Explainer)):
        return [f"its explainer is {shown(explainer)}, should be a class that derives from Explainer"]
    problems = _misspelt(_own(explainer, Explainer), _EXPLAINING, "its explainer")
    for method in ("__init__", *_EXPLAINING):
        problems += _signature_problems(explainer, method, Explainer, "its explainer's")
    return problems


def _takes_cluster(method: Any) -> bool:
    """Return whether a method has a parameter of this name."""
    try:
        return "cluster" in inspect.signature(method).parameters
    except (TypeError, ValueError):
        return False  # not written in Python: nothing can be said of it


def _data_problems(plugin_class: type[Plugin], own_normalize: bool) -> list[str]:
    problems = []

    def wrong(name: str, wanted: str) -> None:
        problems.append(f"its {name} is {shown(getattr(plugin_class, name))}, should be {wanted}")

    args: Any = plugin_class.Args
    if not (isinstance(args, type) and issubclass(args, Struct)):
        wrong("Args", "a msgspec.Struct class")
    depends_on: Any = plugin_class.depends_on
    if depends_on is not None and not isinstance(depends_on, DependsOn):
        wrong("depends_on", f"of {', '.join(flag.name or '' for flag in DependsOn)} or ANYTHING")
    normalize: Any = plugin_class.normalize
    if own_normalize and not callable(normalize):
        wrong("normalize", "MAXIMUM, MAXIMUM_REVERSED, MIN_MAX or a method")
    events: Any = plugin_class.events
    if not isinstance(events, ClusterEvent):
        wrong("events", "a ClusterEvent")
    limit: Any = plugin_class.time_limit
    if isinstance(limit, bool) or not isinstance(limit, int | float) or not 0 < limit <= LONGEST_LIMIT:
        wrong("time_limit", f"seconds, more than 0 and at most {LONGEST_LIMIT:.0f}")
    only_preempts: Any = plugin_class.only_preempts
    if not isinstance(only_preempts, bool):
        wrong("only_preempts", "True or False")
    return problems


def _missing(plugin_class: type[Plugin], methods: frozenset[str]) -> list[str]:
    """Attributes that have no effect, since another one is missing."""
    problems = []
    asked = sorted(methods & {"filter", "score"})
    depends_on = plugin_class.depends_on
    if asked and not depends_on:
        problems.append(
            f"it has {' and '.join(asked)}, and depends_on does not say what the answers depend on: "
            "NODE, PODS_HERE, PODS_ELSEWHERE, OTHER_NODES, VOLUMES, DEVICES, OWN_STATE, SOURCES, several of them, or "
            "ANYTHING"
        )
    if not asked and depends_on:
        problems.append("it has depends_on, and neither filter nor score")
    if plugin_class.normalize is not None and "score" not in methods:
        problems.append("it has normalize, and no score")
    for one, whole in (*_ONE.items(), ("filter_removed", "filter")):
        if one in methods and whole not in methods:
            problems.append(f"it has {one}, and no {whole}")
    on_node = isinstance(depends_on, DependsOn) and depends_on and not depends_on & ~(NODE | PODS_HERE)
    if not on_node:
        problems += (
            f"it has {method}, which is for plugins that depend on NODE and PODS_HERE only"
            for method in ("signature", *_ONE, *_COUNTING)
            if method in methods
        )
    else:
        problems += (
            f"it has {method}, and depends_on says that it never looks elsewhere"
            for method in ("idle", "looks_elsewhere", "affected_by", "filter_removed")
            if method in methods
        )
    if plugin_class.explainer is not None and not methods & {"pre_filter", "filter"}:
        problems.append("it has explainer, and neither pre_filter nor filter: it rejects no node")
    if 0 < len(methods & set(_COUNTING)) < len(_COUNTING):
        problems.append(f"of needs, free and takes it has only {', '.join(sorted(methods & set(_COUNTING)))}")
    if "counted" in methods and "takes" not in methods:
        problems.append("it has counted, and no takes: it counts nothing")
    if "unreserve" in methods and "reserve" not in methods:
        problems.append("it has unreserve, and no reserve: only a plugin that reserves is asked to unreserve")
    events = plugin_class.events
    if isinstance(events, ClusterEvent):
        problems += (
            f"it has {hint}, and events names no change for which it would be asked"
            for hint, those in HINTS.items()
            if hint in methods and not events & those
        )
    return problems


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
    """Return a method that is named like the point, and raises TypeError for an answer that the check refuses."""

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
        return "" if isinstance(answer, types) else f"want {wanted}, got {shown(answer)}"

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
    "idle": _points,
    "signature": _hashable,
    "looks_elsewhere": _one_of(bool, np.bool_),
    "affected_by": _one_of(bool, np.bool_),
}
"""Answers from Reserve on are checked where plugins are asked (`BindingPlugins`)."""
