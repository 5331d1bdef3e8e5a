"""The order in which pods become victims: their importance, and which of them would overdraw a disruption budget.

Upstream: framework/preemption (util.go: MoreImportantVictim, FilterVictimsWithPDBViolation).
"""

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from podberth.cache.cluster import Cluster, Placement
from podberth.cache.column import Bools
from podberth.cache.groups import PodGroups
from podberth.cache.kept_results import ChangeLog, KeptResult, SeveralLogs
from podberth.framework.decision import Rows
from podberth.model.namespaced import SelectingObject
from podberth.model.pod import Pod
from podberth.model.pod_group import NATIVE
from podberth.model.selectors import LabelSelector

_NOT_STARTED = "9999-99-99T99:99:99Z"
"""Sorts after every RFC 3339 time: a pod that has not started starts now (GetPodStartTime)."""
_NOT_KNOWN, _NONE = -(1 << 62), 1 << 62
"""In place of a row's lowest priority: not known, no pod. Either is beyond every priority."""
_NOBODY: dict[str, Placement] = {}
_FORM = "0000-00-00T00:00:00Z"
_ZERO = np.frombuffer(_FORM.encode(), dtype=np.uint8)
_HIGHEST = np.array([9 if of == "0" else 0 for of in _FORM], dtype=np.uint8)
_WEIGHTS = np.array([10 ** _FORM.count("0", i + 1) if of == "0" else 0 for i, of in enumerate(_FORM)])
"""The form of the times that the API server writes; of each character, what is beyond `_ZERO` at most, and what a digit
counts there."""


def started(pod: Pod) -> str:
    """Return when a pod started, as text that sorts as time."""
    return pod.started or _NOT_STARTED


def importance(pod: Pod) -> tuple[int, str]:
    """Return the sort key of a pod, the most important first: higher priority, then the longer running."""
    return -pod.priority, pod.started or _NOT_STARTED


def rank_of(pod: Pod) -> int:
    """Return 1 for a pod of a group, which is more important than others of its priority, 0 for those (victimRank)."""
    return int(pod.scheduling_group is not None and pod.scheduling_group.api == NATIVE)


def rows_of_groups(cluster: Cluster, version: int) -> set[int] | None:
    """Return the rows with pods of groups whose objects have changed since a version of the log; None: all rows."""
    groups = cluster.pod_groups
    if version == groups.log.version:
        return set()
    changed = groups.log.since(version)
    if changed is None:
        return None
    placements = (cluster.placement(pod.uid) for key in changed for pod in groups.with_node_in(key))
    return {placement.row for placement in placements if placement is not None}


class Priorities(KeptResult[set[int]]):
    """Finds the pods of lower priority on some rows, and remembers the lowest priority on each."""

    def __init__(self) -> None:
        self._lowest: NDArray[np.int64] = np.zeros(0, dtype=np.int64)
        """The lowest priority on each row, where it is known."""

    def follow(self, cluster: Cluster) -> None:
        """Forget the rows that changed."""
        nodes = cluster.nodes
        if len(self._lowest) < nodes.rows:
            more = np.full(nodes.rows - len(self._lowest), _NOT_KNOWN, dtype=np.int64)
            self._lowest = np.concatenate((self._lowest, more))
        self.renew((nodes,), SeveralLogs(nodes.log, cluster.pod_groups.log), cluster)

    def changes(self, log: SeveralLogs, asked: Any) -> set[int] | None:
        """Return the rows that changed, and those with pods of groups that did."""
        cluster: Cluster = asked
        nodes_version, groups_version = self.version
        changed, of_groups = cluster.nodes.log.since(nodes_version), rows_of_groups(cluster, groups_version)
        return None if changed is None or of_groups is None else changed | of_groups

    def apply(self, changes: set[int], asked: Any) -> None:
        """Forget these rows."""
        self._lowest[list(changes)] = _NOT_KNOWN

    def compute(self, asked: Any) -> None:
        """Forget all rows."""
        cluster: Cluster = asked
        self._lowest = np.full(cluster.nodes.rows, _NOT_KNOWN, dtype=np.int64)

    def none_below(self, rows: Rows, priority: int, cluster: Cluster) -> Bools:
        """Return for each of these rows whether it is known that no pod on it has a priority below the given one.

        What counts for a pod of a group is its group's priority.
        """
        if not (len(cluster.pod_groups) or cluster.has_below(priority)):
            return np.ones(len(rows), dtype=np.bool_)
        known: Bools = self._lowest[rows] >= priority
        return known

    def below(self, rows: Rows, priority: int, cluster: Cluster) -> tuple[list[int], list[int], list[Placement]]:
        """Return those of these rows that have pods with a priority below the given one, for each how many, and their
        placements: row after row, on each the most important first. Equal ones stay in their order.

        What counts for a pod of a group is its group's priority.
        """
        groups, on_row = cluster.pod_groups, cluster.on_row
        there = [on_row.get(row, _NOBODY) for row in rows.tolist()]
        placements = list(chain.from_iterable([some.values() for some in there]))
        pods = [placement.pod for placement in placements]
        priorities = np.fromiter([pod.priority for pod in pods], np.int64, len(pods))
        for i, pod in enumerate(pods if len(groups) else ()):
            if pod.scheduling_group is not None:
                priorities[i] = groups.priority_of(pod)
        owners = np.repeat(np.arange(len(rows)), [len(some) for some in there])
        lowest = np.full(len(rows), _NONE)
        np.minimum.at(lowest, owners, priorities)
        self._lowest[rows] = lowest
        lower = np.flatnonzero(priorities < priority)
        if len(lower) < len(pods):
            placements, pods = [placements[i] for i in lower.tolist()], [pods[i] for i in lower.tolist()]
            owners, priorities = owners[lower], priorities[lower]
        order = _by_importance(pods, owners, priorities, groups)
        numbers = np.bincount(owners, minlength=len(rows))
        some = numbers > 0
        return rows[some].tolist(), numbers[some].tolist(), [placements[i] for i in order.tolist()]


def _by_importance(
    pods: Sequence[Pod], owners: NDArray[np.intp], priorities: NDArray[np.int64], groups: PodGroups
) -> NDArray[np.intp]:
    """Return the order of pods that lie together by owner already.

    It is that of `Victim.importance`, for a pod of a group the one of the victim that it belongs to.
    """
    of_groups = np.zeros(len(pods), dtype=np.int64)
    starts = [pod.started or _NOT_STARTED for pod in pods]
    for i, pod in enumerate(pods if len(groups) else ()):
        if pod.scheduling_group is not None:
            whole = groups.whole(pod)
            count, start = (1, starts[i]) if whole is None else whole.size
            of_groups[i], starts[i] = rank_of(pod) * count, start or _NOT_STARTED
    order = np.arange(len(pods))
    for values in (_as_numbers(starts), -of_groups, -priorities):  # the last decides first
        values -= values.min(initial=_NONE)
        order = order[(owners * (values.max(initial=0) + 1) + values)[order].argsort(kind="stable")]
    return order


def _as_numbers(starts: list[str]) -> NDArray[np.int64]:
    """Return numbers that sort as these texts do. Those of the API server have one form, `_FORM`."""
    text = "".join(starts)
    if text.isascii() and len(text) == len(starts) * len(_FORM):
        digits = np.frombuffer(text.encode(), dtype=np.uint8).reshape(len(starts), len(_FORM)) - _ZERO
        if (digits <= _HIGHEST).all():
            numbers: NDArray[np.int64] = digits.astype(np.int64) @ _WEIGHTS
            return numbers
    places = {start: place for place, start in enumerate(sorted(set(starts)))}
    return np.array([places[start] for start in starts], dtype=np.int64)


_KIND = "PodDisruptionBudget"
_REMEMBERED = 1 << 20
"""The number of pairs of labels and budgets that are remembered of a namespace. With one more, all are forgotten."""

Drawn = dict[str, dict[str, int]]
"""Namespace → name of a budget → how often victims have drawn on it."""


class _Selectors:
    """The selectors of the budgets of one namespace, by a label that a pod must have to be selected, if any."""

    def __init__(self, written: Mapping[str, SelectingObject]) -> None:
        self.by_name = {name: budget.selector for name, budget in written.items()}
        self._by_label: dict[tuple[str, str], list[tuple[int, str]]] = {}
        self._others: list[tuple[int, str]] = []
        self._matches: dict[int, tuple[Mapping[str, str], list[str]]] = {}
        """By the identity of labels, which equal pods share: those labels, and the budgets that select them."""
        self._remembered = 0
        for place, (name, selector) in enumerate(self.by_name.items()):
            if selector.nothing or selector.is_everything:
                continue
            named = [one for one in selector.requirements if one.operator == "In"]
            if not named:
                self._others.append((place, name))
                continue
            fewest = min(named, key=lambda one: len(one.values))
            for value in fewest.values:
                self._by_label.setdefault((fewest.key, value), []).append((place, name))

    def matching(self, labels: Mapping[str, str]) -> tuple[list[str], int]:
        """Return the budgets that select a set of labels, in their order, and how many requirements were looked at."""
        known = self._matches.get(id(labels))
        if known is not None and known[0] is labels:
            return known[1], 0
        maybe = list(self._others)
        for pair in labels.items():
            maybe += self._by_label.get(pair, ())
        found = [name for _, name in sorted(maybe) if self.by_name[name].matches(labels)]
        self._remembered += 1 + len(found)
        if self._remembered > _REMEMBERED:
            self._matches.clear()
            self._remembered = 1 + len(found)
        self._matches[id(labels)] = labels, found
        return found, sum(1 + len(self.by_name[name].requirements) for _, name in maybe)


class Budgets(KeptResult[set[tuple[str, str]]]):
    """Knows the disruption budgets of one cluster. What their selectors match is kept until a selector changes."""

    def __init__(self) -> None:
        self._selectors: dict[str, _Selectors] = {}
        """By namespace."""
        self.any = False
        """There are budgets."""
        self.steps = 0
        """Steps that `overdrawing` has taken, about a microsecond each."""

    def follow(self, cluster: Cluster) -> None:
        """Forget the selectors that changed."""
        self.renew((cluster,), cluster.budget_log, cluster)

    def changes(self, log: ChangeLog[tuple[str, str]], asked: Any) -> set[tuple[str, str]] | None:
        """Return (namespace, name) of the budgets that changed."""
        return log.since(self.version)

    def apply(self, changes: set[tuple[str, str]], asked: Any) -> None:
        """Forget the namespaces in which a selector changed."""
        cluster: Cluster = asked
        written = cluster.selecting.get(_KIND, {})
        self.any = any(written.values())
        for where, name in changes:
            known, budget = self._selectors.get(where), written.get(where, {}).get(name)
            if known is not None and known.by_name.get(name) != _selector(budget):
                del self._selectors[where]

    def compute(self, asked: Any) -> None:
        """Forget all selectors."""
        cluster: Cluster = asked
        self.any = any(cluster.selecting.get(_KIND, {}).values())
        self._selectors.clear()

    def overdrawing(self, pods: Sequence[Pod], cluster: Cluster, drawn: Drawn | None = None) -> list[bool] | None:
        """Return for each victim, the most important first, if its eviction would overdraw one; None: nobody's would.

        `drawn`: what victims that are more important have drawn already; these are added.
        """
        budgets = cluster.selecting.get(_KIND, {})
        drawn = {} if drawn is None else drawn
        flags: list[bool] | None = None
        for i, pod in enumerate(pods):
            written = budgets.get(pod.namespace)
            if not written or not pod.labels:
                continue
            selectors = self._selectors.get(pod.namespace)
            if selectors is None:
                selectors = self._selectors[pod.namespace] = _Selectors(written)
                self.steps += 2 * len(written)
            found, looked_at = selectors.matching(pod.labels)
            self.steps += 1 + looked_at + len(found) // 4
            if found and _overdraws(pod, found, written, drawn.setdefault(pod.namespace, {})):
                flags = flags or [False] * len(pods)
                flags[i] = True
        return flags


def _overdraws(pod: Pod, names: Sequence[str], written: Mapping[str, SelectingObject], drawn: dict[str, int]) -> bool:
    """Draw on a pod's budgets, one after the other until one is overdrawn."""
    mine = pod.name
    for name in names:
        budget = written[name]
        if mine in budget.disrupted:
            continue
        times = drawn[name] = drawn.get(name, 0) + 1
        if times > budget.allowed:
            return True
    return False


def _selector(budget: SelectingObject | None) -> LabelSelector | None:
    return None if budget is None else budget.selector
