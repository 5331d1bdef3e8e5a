"""Which victims would overdraw a PodDisruptionBudget (upstream: framework/preemption, FilterVictimsWithPDBViolation).

A tenant may write thousands of budgets with selectors that match nearly everything, and change them all the time. So a
budget is matched once with each set of labels instead of each pod, only budgets that may match are looked at, a change
affects only what it changed, and the attempt is charged for all of it.
"""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from scheduler.model.namespaced import SelectingObject
from scheduler.model.pod import Pod
from scheduler.state.cluster import Cluster, Placement
from scheduler.state.effort import Effort

_KIND = "PodDisruptionBudget"
_FEW = 24
"""In a namespace with up to so many budgets, plain integers are quicker than arrays."""
_REMEMBERED = 1 << 22
"""So many pairs of label sets and budgets are remembered of one namespace."""
_TOGETHER = 512
"""So many requirements are looked at between two charges."""
_IN_PARTS = 64
"""So many pods that go together draw between two charges."""
_STATES, _LONG_STATES = 8, 2
"""After so many states of the budgets it is kept what pods that go together draw; and where there are many budgets."""
_NEVER_OVERDRAWN = 1 << 60
"""What a budget that went allows."""


class _Match:
    """The budgets that match one set of labels, as far as they were looked at."""

    __slots__ = ("found", "labels", "maybe", "numbers", "upto")

    def __init__(self, labels: Mapping[str, str], maybe: list[int], upto: int) -> None:
        self.labels = labels
        """Kept, so that its identity stays what it is."""
        self.maybe = maybe
        """Budgets still to look at, the next one last."""
        self.upto = upto
        """Budgets from this number on are not among them yet."""
        self.found: list[int] = []
        self.numbers: NDArray[np.intp] | None = None
        """`found` as an array, once it is wanted."""


class _Namespace:
    """The budgets of one namespace, each with a number, by what of its labels a pod must have to be matched."""

    def __init__(self, names: Iterable[str]) -> None:
        self.budgets: list[SelectingObject] = []
        self.allowed: NDArray[np.int64] = np.zeros(16, dtype=np.int64)
        self.disrupting: set[int] = set()
        """Those that have accounted for somebody's eviction already."""
        self.version = 0
        """Another one after each change."""
        self.looked = 0
        """How often a budget was held against a set of labels."""
        self._coming = list(names)
        self._coming.reverse()
        self._number: dict[str, int] = {}
        self._by_label: dict[tuple[str, str], list[int]] = {}
        self._by_key: dict[str, list[int]] = {}
        self._others: list[int] = []
        self._matches: dict[int, _Match] = {}
        self._remembered = 0

    def read(self, budgets: Mapping[str, SelectingObject], effort: Effort) -> None:
        """Read those that were named at first; goes on where it was interrupted."""
        while self._coming:
            steps = 0
            while self._coming and steps < _TOGETHER:
                budget = budgets.get(self._coming.pop())
                steps += 1 if budget is None else self.put(budget)
            effort.charge(steps)

    @property
    def worn(self) -> bool:
        """Whether most numbers stand for budgets that went: better read anew."""
        return len(self.budgets) > 2 * len(self._number) + _FEW

    def put(self, budget: SelectingObject) -> int:
        """Add or update one; returns the steps that it took."""
        self.version += 1
        number = self._number.get(budget.name)
        if number is not None and self.budgets[number].selector == budget.selector:
            self._write(number, budget)
            return 1
        self.drop(budget.name)
        selector = budget.selector
        if selector.nothing or selector.is_everything:
            return 1
        number = self._number[budget.name] = len(self.budgets)
        self.budgets.append(budget)
        if number == len(self.allowed):
            self.allowed = np.concatenate((self.allowed, np.zeros_like(self.allowed)))
        self._write(number, budget)
        named = [r for r in selector.requirements if r.operator == "In"]
        if named:
            fewest = min(named, key=lambda r: len(r.values))
            for value in fewest.values:
                self._by_label.setdefault((fewest.key, value), []).append(number)
            return 2 + len(fewest.values)
        key = next((r.key for r in selector.requirements if r.operator == "Exists"), None)
        (self._others if key is None else self._by_key.setdefault(key, [])).append(number)
        return 2

    def drop(self, name: str) -> None:
        """Remove one, if it is there. Its number stays in use, as a budget that is never overdrawn."""
        self.version += 1
        number = self._number.pop(name, None)
        if number is not None:
            self.allowed[number] = _NEVER_OVERDRAWN
            self.disrupting.discard(number)

    def _write(self, number: int, budget: SelectingObject) -> None:
        self.budgets[number] = budget
        self.allowed[number] = budget.allowed
        (self.disrupting.add if budget.disrupted else self.disrupting.discard)(number)

    def matching(self, labels: Mapping[str, str], effort: Effort) -> _Match:
        """The budgets that match a set of labels, in their order."""
        match = self._matches.get(id(labels))
        if match is None or match.labels is not labels:
            maybe = list(self._others)
            for pair in labels.items():
                maybe += self._by_label.get(pair, ())
                maybe += self._by_key.get(pair[0], ())
            maybe.sort(reverse=True)
            if self._remembered + len(maybe) > _REMEMBERED:
                self._matches.clear()
                self._remembered = 0
            self._remembered += len(maybe) + 1
            match = self._matches[id(labels)] = _Match(labels, maybe, len(self.budgets))
        if match.upto < len(self.budgets):
            match.maybe[:0] = range(len(self.budgets) - 1, match.upto - 1, -1)
            match.upto = len(self.budgets)
        while match.maybe:
            self._look(match, effort)
        return match

    def _look(self, match: _Match, effort: Effort) -> None:
        labels, budgets, maybe = match.labels, self.budgets, match.maybe
        match.numbers = None
        steps = 0
        while maybe and steps < _TOGETHER:
            selector = budgets[maybe[-1]].selector
            if selector.matches(labels):
                match.found.append(maybe[-1])
            maybe.pop()
            steps += 1 + len(selector.requirements)
            self.looked += 1
        effort.charge(steps // 2)


class Drawn:
    """What victims have drawn so far, by namespace."""

    def __init__(self) -> None:
        self.times: dict[str, dict[int, int]] = {}
        """How often each budget was drawn on, where there are few."""
        self.left: dict[str, NDArray[np.int64]] = {}
        """What is left of each budget, where there are many."""

    def take(self, namespace: str, other: "Drawn") -> None:
        """In this namespace, the same is drawn."""
        if namespace in other.times:
            self.times[namespace] = dict(other.times[namespace])
        if namespace in other.left:
            self.left[namespace] = other.left[namespace].copy()


class _Drawing:
    """What pods that go together draw after a state of the budgets, as far as it is counted."""

    __slots__ = ("drawn", "over", "upto")

    def __init__(self) -> None:
        self.drawn = Drawn()
        """What is drawn by now in their namespace, by them and before."""
        self.over = 0
        """How many of them overdraw a budget."""
        self.upto = 0
        """So many of the pods are counted."""


class DrawnTogether:
    """What pods that go together draw on the budgets of their namespace, after different states of these."""

    __slots__ = ("_after", "_namespace", "_version")

    def __init__(self) -> None:
        self._namespace: _Namespace | None = None
        self._version = 0
        self._after: dict[object, _Drawing] = {}

    def after(self, name: str, namespace: _Namespace, before: Drawn) -> _Drawing:
        """What they draw after others have; it may not be counted yet."""
        if self._namespace is not namespace or self._version != namespace.version:
            self._namespace, self._version = namespace, namespace.version
            self._after.clear()
        times, left = before.times.get(name), before.left.get(name)
        state = frozenset((times or {}).items()), None if left is None else left.tobytes()
        found = self._after.get(state)
        if found is None:
            if len(self._after) >= (_STATES if len(namespace.budgets) <= _FEW else _LONG_STATES):
                self._after.clear()
            found = self._after[state] = _Drawing()
            found.drawn.take(name, before)
        return found


class Budgets:
    """The budgets of one cluster, and what is left of them while victims are counted."""

    def __init__(self) -> None:
        self._version = 0
        self._namespaces: dict[str, _Namespace] = {}
        self._cluster: Cluster | None = None
        self.any = False
        """Whether there are any."""
        self.steps = 0
        """What counting took so far, besides what was charged."""

    @property
    def looked(self) -> int:
        """How often a budget was held against a set of labels, by what is known now."""
        return sum(namespace.looked for namespace in self._namespaces.values())

    def renew(self, cluster: Cluster) -> None:
        """Be right for the cluster as it is."""
        log = cluster.budget_log
        if self._version == log.version and self._cluster is cluster:
            return
        changed = log.since(self._version) if self._cluster is cluster else None
        self._cluster, self._version = cluster, log.version
        written = cluster.selecting.get(_KIND, {})
        self.any = any(written.values())
        if changed is None:
            self._namespaces.clear()
            return
        for where, name in changed:
            namespace = self._namespaces.get(where)
            if namespace is None:
                continue
            budget = written.get(where, {}).get(name)
            if namespace.worn:
                del self._namespaces[where]
            elif budget is None:
                namespace.drop(name)
            else:
                namespace.put(budget)

    def overdrawing(self, pods: Sequence[Pod], cluster: Cluster, before: Drawn | None = None) -> list[bool] | None:
        """For each victim, the most important first, whether its eviction would overdraw one; None: nobody's would.

        `before`: what victims that are more important have drawn already. Raises SliceOver; `before` is as it was then.
        """
        effort = cluster.effort
        if before is None:
            return self._drawing(pods, cluster, Drawn())
        self._read_about(pods, cluster.selecting.get(_KIND, {}), effort)
        end = effort.pause()
        try:
            return self._drawing(pods, cluster, before)
        finally:
            effort.resume(end)

    def together(self, placements: Sequence[Placement], known: DrawnTogether, cluster: Cluster, drawn: Drawn) -> int:
        """How many of these would overdraw one, if they go together; all are of one namespace.

        `known`: what is known of these pods. `drawn`: what victims that are more important have drawn, and then these,
        too. Raises SliceOver; `drawn` is as it was then.
        """
        name, effort = placements[0].pod.namespace, cluster.effort
        written = cluster.selecting.get(_KIND, {}).get(name)
        if not written:
            return 0
        found = known.after(name, self._namespace(name, written, effort), drawn)
        while found.upto < len(placements):
            some = [placement.pod for placement in placements[found.upto : found.upto + _IN_PARTS]]
            before = self.steps
            flags = self.overdrawing(some, cluster, found.drawn)
            found.over += sum(flags or ())
            found.upto += len(some)
            taken, self.steps = self.steps - before, before
            effort.charge(len(some) + taken)
        drawn.take(name, found.drawn)
        return found.over

    def _namespace(self, name: str, written: Mapping[str, SelectingObject], effort: Effort) -> _Namespace:
        """What is known of a namespace with these budgets."""
        namespace = self._namespaces.get(name)
        if namespace is None:
            namespace = self._namespaces[name] = _Namespace(written)
        namespace.read(written, effort)
        return namespace

    def _drawing(self, pods: Sequence[Pod], cluster: Cluster, before: Drawn) -> list[bool] | None:
        budgets = cluster.selecting.get(_KIND, {})
        effort = cluster.effort
        drawn, left = before.times, before.left
        flags: list[bool] | None = None
        for i, pod in enumerate(pods):
            written = budgets.get(pod.namespace)
            if not written or not pod.labels:
                continue
            namespace = self._namespace(pod.namespace, written, effort)
            match = namespace.matching(pod.labels, effort)
            if not match.found:
                continue
            if len(namespace.budgets) <= _FEW:
                over = _draw(pod, namespace, match.found, drawn.setdefault(pod.namespace, {}))
                self.steps += 1
            else:
                if pod.namespace not in left:
                    left[pod.namespace] = namespace.allowed.copy()
                over = _draw_many(pod, namespace, match, left[pod.namespace])
                self.steps += 8 + len(match.found) // 100
            if over:
                flags = flags or [False] * len(pods)
                flags[i] = True
        return flags

    def _read_about(
        self, pods: Sequence[Pod], budgets: Mapping[str, Mapping[str, SelectingObject]], effort: Effort
    ) -> None:
        """Find the budgets of all these pods, so that nothing interrupts who draws on them."""
        for pod in pods:
            written = budgets.get(pod.namespace)
            if written and pod.labels:
                namespace = self._namespace(pod.namespace, written, effort)
                namespace.matching(pod.labels, effort)


def _draw(pod: Pod, namespace: _Namespace, matching: list[int], drawn: dict[int, int]) -> bool:
    """Draw on a pod's budgets until one is overdrawn; `drawn`: how often that was done, by budget."""
    for number in matching:
        if number in namespace.disrupting and pod.name in namespace.budgets[number].disrupted:
            continue
        times = drawn[number] = drawn.get(number, 0) + 1
        if times > namespace.allowed.item(number):
            return True
    return False


def _draw_many(pod: Pod, namespace: _Namespace, match: _Match, left: NDArray[np.int64]) -> bool:
    """As `_draw`, for a namespace of many budgets; `left`: what they still allow."""
    if match.numbers is None:
        match.numbers = np.array(match.found, dtype=np.intp)
    found = match.numbers
    passed_over = [number for number in namespace.disrupting if pod.name in namespace.budgets[number].disrupted]
    if passed_over:
        found = found[~np.isin(found, passed_over)]
    after = left[found] - 1
    over = np.flatnonzero(after < 0)
    if len(over):
        last = int(over[0]) + 1
        left[found[:last]] = after[:last]
        return True
    left[found] = after
    return False
