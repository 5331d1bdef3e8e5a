"""Which placed pods a term selects, and which terms placed pods carry, counted per topology value.

Counts are kept up to date with every pod that comes or goes. Equal terms share one count,
whoever asks; pods with equal namespace and labels form one class, matched against a term once.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from scheduler.model.affinity import AffinityTerm
from scheduler.model.pod import NO_LABELS, Pod
from scheduler.model.selectors import LabelSelector
from scheduler.model.shape import PodShape
from scheduler.state.column import Bools, Codes, Column, Ints
from scheduler.state.nodes import Nodes

Terms = tuple[AffinityTerm, ...]
ClassKey = tuple[str, frozenset[tuple[str, str]], bool]

_COUNTS = 2048
_ON_ROWS = 512
_CHANGES = 4096
"""Changes that an `OnRows` remembers, and up to twice as many."""
_IDLE_CLASSES = 4096
_CARRIED_TERMS = 256
"""From this many on, terms that nobody carries any more are dropped once they are the majority."""


class ByTopology:
    """A number per value of one node label. The last slot stays 0: rows without the label read it."""

    __slots__ = ("column", "counts", "total")

    def __init__(self, column: Column[str]) -> None:
        self.column = column
        self.counts: Codes = _room_for(len(column.values))
        """Small integers: there may be a count for each app, each as long as there are nodes."""
        self.total = 0

    def add(self, row: int, amount: int) -> None:
        """Count `amount` on the topology value of a row; nothing where the row has none."""
        code = int(self.column.codes[row])
        if code < 0:
            return
        if code >= len(self.counts) - 1:
            self._grow(code + 1)
        self.counts[code] += amount
        self.total += amount

    def add_all(self, by_row: Mapping[int, int]) -> None:
        """As `add`, for row → amount."""
        counts = self._with_room()
        codes = self.column.codes[list(by_row)]
        has = codes >= 0
        amounts = np.array(list(by_row.values()), dtype=np.int64)[has]
        np.add.at(counts, codes[has], amounts)
        self.total += int(amounts.sum())

    def by_row(self, rows: int) -> Codes:
        """int32[rows]: the count of each row's topology value, 0 where the row has none."""
        return self.column.gather(self.by_code(), rows)

    def anywhere(self, rows: int) -> Bools:
        """bool[rows]: whether the count of each row's topology value is above 0."""
        return self.column.gather(self.by_code() > 0, rows)

    def by_code(self) -> Codes:
        """int32[values of the column + 1]; the last is 0, as no value has that code. Do not change it."""
        return self._with_room()[: len(self.column.values) + 1]

    def _with_room(self) -> Codes:
        values = len(self.column.values)
        if values > len(self.counts) - 1:
            self._grow(values)
        return self.counts

    def _grow(self, values: int) -> None:
        grown = _room_for(values)
        grown[: len(self.counts) - 1] = self.counts[:-1]
        self.counts = grown


def _room_for(values: int) -> Codes:
    """Zeros for so many values, some more, and one for rows that have none."""
    return np.zeros(values + values // 4 + 2, dtype=np.int32)


def weighted(counts: Iterable[tuple[ByTopology, int]], rows: int) -> Ints | None:
    """int64[rows]: the sum of each row's counts, each times its weight; None where there is nothing to sum."""
    by_column: dict[int, tuple[Column[str], Ints]] = {}
    for count, weight in counts:
        times: Ints = np.multiply(count.by_code(), weight, dtype=np.int64)
        found = by_column.setdefault(id(count.column), (count.column, times))[1]
        if found is not times:
            found += times
    total: Ints | None = None
    for column, times in by_column.values():
        by_row = column.gather(times, rows)
        total = by_row if total is None else total + by_row
    return total


class Selected(ByTopology):
    """Placed pods that every one of `terms` selects."""

    __slots__ = ("terms",)

    def __init__(self, column: Column[str], terms: Terms) -> None:
        super().__init__(column)
        column.users += 1
        self.terms = terms


class Carried(ByTopology):
    """Placed pods that carry one term, of required anti-affinity or for scoring (`weight`)."""

    __slots__ = ("carriers", "term", "weight")

    def __init__(self, column: Column[str], term: AffinityTerm, weight: int) -> None:
        super().__init__(column)
        column.users += 1
        self.term = term
        self.weight = weight
        self.carriers = 0


class OnRows:
    """Placed pods of one namespace that a selector selects, by node row; pods on their way out only if `leaving`."""

    __slots__ = ("_base", "_changes", "counts", "leaving", "namespace", "selector")

    def __init__(self, namespace: str, selector: LabelSelector, leaving: bool) -> None:
        self.namespace = namespace
        self.selector = selector
        self.leaving = leaving
        self.counts: Ints = np.zeros(64, dtype=np.int64)
        self._changes: list[tuple[int, int]] = []
        self._base = 0

    @property
    def version(self) -> int:
        """Counts every change ever."""
        return self._base + len(self._changes)

    def since(self, version: int) -> list[tuple[int, int]] | None:
        """(row, amount) of what changed after a version; None when that is too long ago to know."""
        return None if version < self._base else self._changes[version - self._base :]

    def add(self, row: int, amount: int) -> None:
        """Count `amount` pods on a row."""
        self._changes.append((row, amount))
        if len(self._changes) > 2 * _CHANGES:
            del self._changes[:_CHANGES]
            self._base += _CHANGES
        if row >= len(self.counts):
            self._grow(row + 1)
        self.counts[row] += amount

    def add_all(self, by_row: Mapping[int, int]) -> None:
        """As `add`, for row → amount, and too many to remember."""
        if by_row:
            self._base += len(self._changes) + 1
            self._changes = []
            self.by_row(max(by_row) + 1)
            self.counts[list(by_row)] += list(by_row.values())

    def by_row(self, rows: int) -> Ints:
        """int64[rows]; do not change it."""
        if rows > len(self.counts):
            self._grow(rows)
        return self.counts[:rows]

    def counts_class(self, pods: "PodClass") -> bool:
        """Whether pods of a class are counted."""
        there = self.leaving or not pods.terminating
        return there and pods.namespace == self.namespace and self.selector.matches(pods.labels)

    def _grow(self, rows: int) -> None:
        grown = np.zeros(2 * rows, dtype=np.int64)
        grown[: len(self.counts)] = self.counts
        self.counts = grown


REPELS = 0
"""`Carried.weight` of required anti-affinity."""
HARD = 1 << 20
"""`Carried.weight` of required affinity, which scores with the plugin's hardPodAffinityWeight."""


@dataclass(slots=True, eq=False)
class PodClass:
    """Pods of one namespace with the same labels, on their way out or not."""

    namespace: str
    labels: Mapping[str, str]
    terminating: bool = False
    rows: dict[int, int] = field(default_factory=dict)
    selected: list[Selected] = field(default_factory=list)
    on_rows: list[OnRows] = field(default_factory=list)
    carried_seen: int = 0
    repelled_by: list[Carried] = field(default_factory=list)
    preferred_by: list[Carried] = field(default_factory=list)


class Incidence:
    """All counts of one cluster."""

    def __init__(self, nodes: Nodes, namespaces: Mapping[str, Mapping[str, str]]) -> None:
        self._nodes = nodes
        self._namespaces = namespaces
        self._classes: dict[ClassKey, PodClass] = {}
        self._idle = 0
        self._went = 0
        """Terms that pods took with them since terms without carriers were last looked for."""
        self._selected: dict[tuple[Terms, str], Selected] = {}
        self._on_rows: dict[tuple[str, LabelSelector, bool], OnRows] = {}
        self._carried: dict[tuple[AffinityTerm, int], Carried] = {}
        self._carried_log: list[Carried] = []
        self._carried_by_shape: dict[PodShape, tuple[Carried, ...]] = {}

    def add(self, pod: Pod, row: int) -> None:
        """Count a pod that was placed on a row."""
        self._count(pod, row, 1)

    def add_many(self, pod: Pod, rows: Mapping[int, int]) -> None:
        """Count placed pods that are all like this one in shape and labels: row → how many."""
        pods = self.class_of(pod)
        self._idle -= not pods.rows
        for row, amount in rows.items():
            pods.rows[row] = pods.rows.get(row, 0) + amount
            for count in pods.selected:
                count.add(row, amount)
            for counted in pods.on_rows:
                counted.add(row, amount)
        for carried in self._carried_of(pod.shape):
            carried.carriers += sum(rows.values())
            for row, amount in rows.items():
                carried.add(row, amount)

    def remove(self, pod: Pod, row: int) -> None:
        """Take a placed pod back."""
        self._count(pod, row, -1)

    def move(self, pods: Iterable[Pod], row: int, sign: int) -> None:
        """Take pods off the topology counts of a row before its labels change (-1), put them back after (1)."""
        for pod in pods:
            for count in self.class_of(pod).selected:
                count.add(row, sign)
            for carried in self._carried_of(pod.shape):
                carried.add(row, sign)

    def class_of(self, pod: Pod) -> PodClass:
        """The class of a pod, placed or not."""
        key = (pod.namespace, frozenset(pod.labels.items()), pod.terminating)
        found = self._classes.get(key)
        if found is None:
            if self._idle > _IDLE_CLASSES + len(self._classes) // 2:
                self._drop_idle()
            self._idle += 1
            found = self._classes[key] = PodClass(pod.namespace, pod.labels, pod.terminating)
            found.on_rows = [count for count in self._on_rows.values() if count.counts_class(found)]
            found.selected = [s for s in self._selected.values() if self._all_select(s.terms, found)]
        return found

    def selected(self, terms: Terms, topology_key: str) -> Selected:
        """Placed pods that all of the terms select, per value of the topology key."""
        key = (terms, topology_key)
        found = self._selected.get(key)
        if found is None:
            if len(self._selected) >= _COUNTS:
                self._drop_selected([next(iter(self._selected))])
            found = self._selected[key] = Selected(self._nodes.label(topology_key), terms)
            for pods in self._classes.values():
                if self._all_select(terms, pods):
                    pods.selected.append(found)
                    found.add_all(pods.rows)
        elif len(self._selected) > _COUNTS // 2:
            self._selected[key] = self._selected.pop(key)
        return found

    def on_rows(self, namespace: str, selector: LabelSelector, *, leaving: bool = False) -> OnRows:
        """Placed pods of a namespace that a selector selects, by node row; with `leaving`, terminating ones too."""
        key = (namespace, selector, leaving)
        found = self._on_rows.get(key)
        if found is None:
            if len(self._on_rows) >= _ON_ROWS:
                self._drop_on_rows(next(iter(self._on_rows)))
            found = self._on_rows[key] = OnRows(namespace, selector, leaving)
            for pods in self._classes.values():
                if found.counts_class(pods):
                    pods.on_rows.append(found)
                    found.add_all(pods.rows)
        elif len(self._on_rows) > _ON_ROWS // 2:
            self._on_rows[key] = self._on_rows.pop(key)
        return found

    def repelling(self, pod: Pod) -> list[Carried]:
        """Required anti-affinity terms of placed pods that select this pod."""
        return self._seen(pod).repelled_by

    def repulsion(self, other: Pod, row: int, repelling: list[Carried]) -> int:
        """How many of the `repelling` terms a pod carries that count on a row."""
        carried = self._carried_of(other.shape)
        return sum(one in repelling and int(one.column.codes[row]) >= 0 for one in carried)

    def preferring(self, pod: Pod) -> list[Carried]:
        """Terms of placed pods that score for or against this pod."""
        return self._seen(pod).preferred_by

    def namespace_changed(self, name: str) -> None:
        """Match anew whatever depends on the labels of a namespace."""
        self._drop_selected(
            [key for key in self._selected if any(not term.namespace_selector.nothing for term in key[0])]
        )
        for pods in self._classes.values():
            if pods.namespace == name:
                pods.carried_seen = 0
                pods.repelled_by = []
                pods.preferred_by = []

    def sweep(self, shape: PodShape) -> None:
        """A pod of this shape has gone for good: from time to time, forget what only such pods had brought.

        Pods may name any topology key. Counts by keys that no node has are all 0, and quickly made again.
        """
        terms = len(shape.anti_affinity_terms) + len(shape.affinity_terms) + len(shape.preferred_pod_terms)
        self._went += terms
        if not terms or 2 * self._went <= len(self._carried_log) + _CARRIED_TERMS:
            return
        self._went = 0
        if self._mostly_idle():
            self._drop_carried()
            self._drop_selected([key for key, count in self._selected.items() if count.column.blank])
            self._nodes.sweep()

    def selects(self, term: AffinityTerm, pod: Pod) -> bool:
        """Whether a term of an incoming pod selects a pod; an unknown namespace meets no selector but `{}`."""
        return self._selects(term, pod.namespace, pod.labels)

    def _selects(self, term: AffinityTerm, namespace: str, labels: Mapping[str, str]) -> bool:
        if namespace not in term.namespaces and not term.namespace_selector.is_everything:
            known = self._namespaces.get(namespace)
            if known is None or not term.namespace_selector.matches(known):
                return False
        return term.selector.matches(labels)

    def _all_select(self, terms: Terms, pods: PodClass) -> bool:
        return all(self._selects(term, pods.namespace, pods.labels) for term in terms)

    def _count(self, pod: Pod, row: int, sign: int) -> None:
        pods = self.class_of(pod)
        before = pods.rows.get(row, 0)
        if not pods.rows:
            self._idle -= 1
        if before + sign:
            pods.rows[row] = before + sign
        else:
            del pods.rows[row]
        if not pods.rows:
            self._idle += 1
        for count in pods.selected:
            count.add(row, sign)
        for counted in pods.on_rows:
            counted.add(row, sign)
        for carried in self._carried_of(pod.shape):
            carried.carriers += sign
            carried.add(row, sign)

    def _carried_of(self, shape: PodShape) -> tuple[Carried, ...]:
        if not (shape.anti_affinity_terms or shape.affinity_terms or shape.preferred_pod_terms):
            return ()
        found = self._carried_by_shape.get(shape)
        if found is None:
            if len(self._carried_by_shape) > _IDLE_CLASSES:
                self._carried_by_shape.clear()
            terms = [(term, REPELS) for term in shape.anti_affinity_terms]
            terms += [(term, HARD) for term in shape.affinity_terms]
            terms += [(preferred.term, preferred.weight) for preferred in shape.preferred_pod_terms]
            found = self._carried_by_shape[shape] = tuple(self._carried_for(term, weight) for term, weight in terms)
        return found

    def _carried_for(self, term: AffinityTerm, weight: int) -> Carried:
        found = self._carried.get((term, weight))
        if found is None:
            found = self._carried[(term, weight)] = Carried(self._nodes.label(term.topology_key), term, weight)
            self._carried_log.append(found)
        return found

    def _seen(self, pod: Pod) -> PodClass:
        """The pod's class, matched against the terms that appeared since it was last asked about."""
        pods = self.class_of(pod)
        log = self._carried_log
        if pods.carried_seen < len(log):
            if self._mostly_idle():
                self._drop_carried()
                log = self._carried_log
            labels = self._namespaces.get(pods.namespace, NO_LABELS)
            for carried in log[pods.carried_seen :]:
                if carried.term.selects(pods.namespace, labels, pods.labels):
                    (pods.repelled_by if carried.weight == REPELS else pods.preferred_by).append(carried)
            pods.carried_seen = len(log)
        return pods

    def _mostly_idle(self) -> bool:
        log = self._carried_log
        return len(log) > _CARRIED_TERMS and sum(carried.carriers > 0 for carried in log) * 2 < len(log)

    def _drop_selected(self, keys: list[tuple[Terms, str]]) -> None:
        dropped = [self._selected.pop(key) for key in keys]
        gone = set(map(id, dropped))
        for count in dropped:
            count.column.users -= 1
        if gone:
            for pods in self._classes.values():
                pods.selected = [count for count in pods.selected if id(count) not in gone]

    def _drop_on_rows(self, key: tuple[str, LabelSelector, bool]) -> None:
        gone = self._on_rows.pop(key)
        for pods in self._classes.values():
            pods.on_rows = [count for count in pods.on_rows if count is not gone]

    def _drop_carried(self) -> None:
        """Forget terms that no placed pod carries any more."""
        for carried in self._carried_log:
            carried.column.users -= not carried.carriers
        self._carried = {key: carried for key, carried in self._carried.items() if carried.carriers}
        self._carried_log = list(self._carried.values())
        self._carried_by_shape.clear()
        for pods in self._classes.values():
            pods.carried_seen = 0
            pods.repelled_by = []
            pods.preferred_by = []

    def _drop_idle(self) -> None:
        """Forget classes without placed pods."""
        self._classes = {key: pods for key, pods in self._classes.items() if pods.rows}
        self._idle = 0
