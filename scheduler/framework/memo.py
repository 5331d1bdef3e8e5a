"""Per kind of pod: which nodes pass the filters that look at one node at a time, and what such plugins score.

Kept from pod to pod and repaired for the rows that changed since, once a kind is seen again. What depends on other
pods (affinity, spread) is not in here. A kind is what the plugins read of a shape: pods that differ in their claims,
labels or terms towards other pods share a memo, and pods that differ in size share its `Ground`.
"""

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scheduler.framework.parts import ONE_BY_ONE, Ground, Scorer, Usage, every_row, key_of, rows_of
from scheduler.model.pod import Pod
from scheduler.model.shape import PodShape
from scheduler.state.cluster import Cluster
from scheduler.state.column import Bools, Ints

_KEPT_BYTES = 16 << 20
_BYTES_A_ROW = 40
"""What a memo and its parts take: masks, sums, ranks and the rows that pass."""
_SEEN = 10_000
"""How many things asked once are remembered."""
_KNOWN_SHAPES = 1024
"""Shapes whose kind need not be worked out again."""

_POINTS = ("pre_filter", "filter", "score")

NOWHERE = -(1 << 62)
"""The rank of rows that do not pass."""

Speaking = tuple[tuple[bool, ...], tuple[tuple[str, ...], ...]]
"""Which of the choosy plugins are concerned, and the points at which each of those speaks that are silent at some."""
Kind = tuple[Hashable, Hashable, Speaking]
"""What `Ground` and `Usage` read, and which of the other plugins have to be asked."""


@dataclass(slots=True)
class Stretched:
    """A scorer whose normalisation depends on the lowest and highest raw score only."""

    scorer: Scorer
    raw: Ints
    weighted: Ints = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    extremes: tuple[int, int] | None = None
    """Of the rows for which `weighted` holds; None: nothing is known."""


@dataclass(slots=True)
class Concerned:
    """The plugins that have to be asked each time for some kind of pod."""

    pre_filters: tuple[Any, ...]
    filters: tuple[Any, ...]
    scorers: tuple[Scorer, ...]


@dataclass(slots=True)
class Memo:
    """One kind's answers, by row."""

    kind: Kind
    ground: Ground
    usage: Usage
    pre_filters: tuple[Any, ...]
    filters: tuple[Any, ...]
    scorers: tuple[Scorer, ...]
    """Those that have to be asked each time."""
    passes: Bools = field(default_factory=lambda: np.zeros(0, dtype=np.bool_))
    """Rows that exist and pass the filters that look at one node at a time."""
    stretched: list[Stretched] = field(default_factory=list)
    """Scores that are the same for all rows are left out: they are no reason to choose one."""
    version: int = -1
    epochs: tuple[int, int] = (-1, -1)
    moves: int = -1
    ranks: Ints | None = None
    """Total scores, `NOWHERE` where rows do not pass; None: to be computed."""
    feasible: NDArray[np.intp] | None = None
    """The rows that pass; None: to be found."""


class Memos:
    """The memos of one profile.

    `filters` and `scorers` ((plugin, weight, normalize) triples) are the profile's; `ask(plugin, point, …)` runs one.
    """

    def __init__(
        self, pre_filters: Iterable[Any], filters: Iterable[Any], scorers: Iterable[Scorer], ask: Callable[..., Any]
    ) -> None:
        pre_filters, filters, scorers = tuple(pre_filters), tuple(filters), tuple(scorers)
        by_shape = [plugin for plugin in filters if getattr(plugin, "by_shape", False)]
        kept = [scorer for scorer in scorers if _keeps(*scorer)]
        self._blind = tuple(plugin for plugin in by_shape if getattr(plugin, "ignores_usage", False))
        self._seeing = tuple(plugin for plugin in by_shape if plugin not in self._blind)
        self._stretching = tuple(scorer for scorer in kept if scorer[2] is not None)
        self._adding = tuple(scorer for scorer in kept if scorer[2] is None)
        self._ground_readers = _readers(self._blind, self._stretching)
        self._usage_readers = _readers(self._seeing, self._adding)
        self._others = Concerned(
            pre_filters,
            tuple(plugin for plugin in filters if plugin not in by_shape),
            tuple(scorer for scorer in scorers if scorer not in kept),
        )
        asked = (*self._others.pre_filters, *self._others.filters, *(plugin for plugin, _, _ in self._others.scorers))
        self._choosy = [plugin for plugin in dict.fromkeys(asked) if hasattr(plugin, "concerns")]
        self._silent = [plugin for plugin in dict.fromkeys(asked) if hasattr(plugin, "speaks_at")]
        self._concerned: dict[Speaking, Concerned] = {}
        self.ask = ask
        self.computed = 0
        """How often all rows were looked at anew, for want of a memo or of one that could be repaired."""
        self._memos: dict[Kind, Memo] = {}
        self._grounds: dict[Hashable, Ground] = {}
        self._usages: dict[Hashable, Usage] = {}
        self._seen: set[int] = set()
        """Hashes of what was asked once. Two that collide are kept a time too early, no more."""
        self._by_shape: dict[PodShape, Memo] = {}

    def get(self, pod: Pod, cluster: Cluster) -> Memo:
        """What is known of a pod's kind, up to date."""
        shape = pod.shape
        memo = self._by_shape.get(shape)
        if memo is None:
            memo = self._of_kind(shape, cluster.nodes.rows)
        elif len(self._memos) > 1:
            del self._memos[memo.kind]
            self._memos[memo.kind] = memo
        self._renew(memo, pod, cluster)
        return memo

    def ranks(self, memo: Memo, pod: Pod, cluster: Cluster, alive: Bools) -> Ints:
        """int64[rows]: what the kept scorers give in total, right for the rows of `alive`; do not change it."""
        if memo.ranks is not None and (alive is memo.passes or not memo.stretched):
            return memo.ranks
        total = memo.usage.sums
        for one in memo.stretched:
            self._stretch(memo, one, pod, cluster, alive)
            total = total + one.weighted
        if alive is not memo.passes and memo.stretched:
            return total
        if total is memo.usage.sums:
            total = total.copy()
        total[~memo.passes] = NOWHERE
        memo.ranks = total
        return memo.ranks

    def _stretch(self, memo: Memo, one: Stretched, pod: Pod, cluster: Cluster, alive: Bools) -> None:
        """Have the normalised scores fit the extremes of the rows of `alive`."""
        there = one.raw[alive]
        extremes = (int(there.min()), int(there.max())) if len(there) else (0, 0)
        if one.extremes == extremes:
            return
        plugin, weight, normalize = one.scorer
        # Beyond the extremes are only rows outside `alive`. With them clipped, each row's score is as it would be
        # among any rows of these extremes.
        scores = np.minimum(np.maximum(one.raw, extremes[0]), extremes[1])
        one.weighted = self.ask(plugin, normalize, scores, pod, cluster, every_row(len(scores))) * weight
        one.extremes = extremes
        memo.ranks = None

    # -- one kind ------------------------------------------------------------------------------------------------

    def _of_kind(self, shape: PodShape, rows: int) -> Memo:
        """The memo of a shape's kind; kept from the second time on that the kind is seen."""
        ask = self.ask
        if shape.heavy:
            return self._passing(shape)
        speaking = self._speaking(shape)
        kind = (key_of(self._ground_readers, shape, ask), key_of(self._usage_readers, shape, ask), speaking)
        memo = self._memos.get(kind)
        if memo is not None:
            self._know(shape, memo)
            return memo
        concerned = self._concerned.get(speaking)
        if concerned is None:
            concerned = self._concerned[speaking] = self._concerned_by(speaking)
        room = max(1, _KEPT_BYTES // (_BYTES_A_ROW * max(rows, 1)))
        again = self._again((0, kind[0])), self._again((1, kind[1]))
        ground, usage = self._grounds.get(kind[0]), self._usages.get(kind[1])
        if ground is None:
            ground = Ground(_concerned(self._blind, shape), self._stretching, ask)
            if again[0]:
                _keep(self._grounds, kind[0], ground, room)
        if usage is None:
            usage = Usage(_concerned(self._seeing, shape), self._adding, ask)
            if again[1]:
                _keep(self._usages, kind[1], usage, room)
        memo = Memo(kind, ground, usage, concerned.pre_filters, concerned.filters, concerned.scorers)
        if all(again):
            if _keep(self._memos, kind, memo, room):
                self._by_shape.clear()
            self._know(shape, memo)
        return memo

    def _passing(self, shape: PodShape) -> Memo:
        """A memo that is not kept, for a shape that takes too much room itself."""
        speaking = self._speaking(shape)
        concerned = self._concerned_by(speaking)
        ground = Ground(_concerned(self._blind, shape), self._stretching, self.ask)
        usage = Usage(_concerned(self._seeing, shape), self._adding, self.ask)
        return Memo((None, None, speaking), ground, usage, concerned.pre_filters, concerned.filters, concerned.scorers)

    def _know(self, shape: PodShape, memo: Memo) -> None:
        if len(self._by_shape) >= _KNOWN_SHAPES:
            self._by_shape.clear()
        self._by_shape[shape] = memo

    def _again(self, key: Hashable) -> bool:
        """Whether this was asked before."""
        seen = hash(key)
        if seen in self._seen:
            return True
        if len(self._seen) >= _SEEN:
            self._seen.clear()
        self._seen.add(seen)
        return False

    def _speaking(self, shape: PodShape) -> Speaking:
        return (
            tuple([bool(plugin.concerns(shape)) for plugin in self._choosy]),
            tuple([tuple(plugin.speaks_at(shape)) for plugin in self._silent]),
        )

    def _concerned_by(self, speaking: Speaking) -> Concerned:
        concerned, speaks = speaking
        asked_at: list[tuple[Any, tuple[str, ...]]] = [*zip(self._silent, speaks, strict=True)]
        asked_at += [(plugin, _POINTS if asked else ()) for plugin, asked in zip(self._choosy, concerned, strict=True)]
        left_out = {(id(plugin), point) for plugin, points in asked_at for point in _POINTS if point not in points}
        return Concerned(
            tuple(plugin for plugin in self._others.pre_filters if (id(plugin), "pre_filter") not in left_out),
            tuple(plugin for plugin in self._others.filters if (id(plugin), "filter") not in left_out),
            tuple(scorer for scorer in self._others.scorers if (id(scorer[0]), "score") not in left_out),
        )

    def _renew(self, memo: Memo, pod: Pod, cluster: Cluster) -> None:
        """Bring a memo and its parts up to date."""
        ground, usage, log = memo.ground, memo.usage, cluster.nodes.log
        if memo.version == log.version and usage.nodes is cluster.nodes:
            return
        ground.renew(pod, cluster)
        before = usage.epoch
        usage.renew(pod, cluster)
        self.computed += usage.epoch != before
        changed = log.since(memo.version) if memo.epochs == (ground.epoch, usage.epoch) else None
        if changed is None:
            memo.passes = ground.allowed & usage.fits
            memo.feasible = memo.ranks = None
            memo.epochs = (ground.epoch, usage.epoch)
        elif len(changed) <= ONE_BY_ONE:
            self._move_each(memo, changed)
        else:
            rows = rows_of(changed)
            memo.passes[rows] = ground.allowed[rows] & usage.fits[rows]
            memo.feasible = memo.ranks = None
        if memo.moves != ground.moves:
            memo.stretched = [Stretched(scorer, raw) for scorer, raw in ground.raw if not isinstance(raw, int)]
            memo.moves = ground.moves
            memo.ranks = None
        memo.version = log.version

    def _move_each(self, memo: Memo, changed: set[int]) -> None:
        ground, usage = memo.ground, memo.usage
        moved = False
        for row in changed:
            passes = bool(ground.allowed[row]) and bool(usage.fits[row])
            if passes != memo.passes[row]:
                memo.passes[row] = passes
                memo.feasible = None
                moved = True
            if memo.ranks is not None:
                total = int(usage.sums[row])
                for one in memo.stretched:
                    total += int(one.weighted[row])
                memo.ranks[row] = total if passes else NOWHERE
        if moved and memo.stretched:
            # Other rows pass now: the extremes may have moved with them.
            memo.ranks = None


def _keep(kept: dict[Any, Any], key: Hashable, thing: Any, room: int) -> bool:
    """Keep a thing, and no more than `room`: whether the oldest had to go."""
    full = len(kept) >= room
    while len(kept) >= room:
        del kept[next(iter(kept))]
    kept[key] = thing
    return full


def _concerned(filters: tuple[Any, ...], shape: PodShape) -> tuple[Any, ...]:
    """Those of the filters that may have anything against a pod of this shape."""
    return tuple([plugin for plugin in filters if not hasattr(plugin, "concerns") or plugin.concerns(shape)])


def _readers(filters: tuple[Any, ...], scorers: tuple[Scorer, ...]) -> tuple[Any, ...]:
    return tuple(dict.fromkeys((*filters, *(plugin for plugin, _, _ in scorers))))


def _keeps(plugin: Any, _weight: int, normalize: Any) -> bool:
    """Whether a scorer's answers can be kept by row."""
    if not getattr(plugin, "scores_by_shape", False):
        return False
    return normalize is None or (
        getattr(plugin, "normalizes_by_extremes", False) and getattr(plugin, "ignores_usage", False)
    )
