"""Which victims would overdraw a PodDisruptionBudget (upstream: framework/preemption, FilterVictimsWithPDBViolation).

A tenant may write thousands of budgets with selectors that match nearly everything, and change them all the time. So a
budget is matched once with each set of labels instead of each pod, only budgets that may match are looked at, a change
affects only what it changed, and the attempt is charged for all of it.
"""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from scheduler.model.namespaced import SelectingObject
from scheduler.model.pod import Pod
from scheduler.plugins.default_preemption.namespace_budgets import FEW, Match, NamespaceBudgets
from scheduler.state.cluster import Cluster, Placement
from scheduler.state.effort import Effort

_KIND = "PodDisruptionBudget"
_IN_PARTS = 64
"""How many pods that go together draw between two charges."""
_STATES, _LONG_STATES = 8, 2
"""After so many states of the budgets it is kept what pods that go together draw; and where there are many budgets."""


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
        """How many of the pods are counted."""


class DrawnTogether:
    """What pods that go together draw on the budgets of their namespace, after different states of these."""

    __slots__ = ("_after", "_namespace", "_version")

    def __init__(self) -> None:
        self._namespace: NamespaceBudgets | None = None
        self._version = 0
        self._after: dict[object, _Drawing] = {}

    def after(self, name: str, namespace: NamespaceBudgets, before: Drawn) -> _Drawing:
        """What they draw after others have; it may not be counted yet."""
        if self._namespace is not namespace or self._version != namespace.version:
            self._namespace, self._version = namespace, namespace.version
            self._after.clear()
        times, left = before.times.get(name), before.left.get(name)
        state = frozenset((times or {}).items()), None if left is None else left.tobytes()
        found = self._after.get(state)
        if found is None:
            if len(self._after) >= (_STATES if len(namespace.budgets) <= FEW else _LONG_STATES):
                self._after.clear()
            found = self._after[state] = _Drawing()
            found.drawn.take(name, before)
        return found


class Budgets:
    """The budgets of one cluster, and what is left of them while victims are counted."""

    def __init__(self) -> None:
        self._version = 0
        self._namespaces: dict[str, NamespaceBudgets] = {}
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
            there = written.get(where, {})
            budget = there.get(name)
            if namespace.worn or not there:
                del self._namespaces[where]
            elif budget is None:
                namespace.drop(name)
            else:
                cluster.effort.count(namespace.put(budget))

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

    def _namespace(self, name: str, written: Mapping[str, SelectingObject], effort: Effort) -> NamespaceBudgets:
        """What is known of a namespace with these budgets."""
        namespace = self._namespaces.get(name)
        if namespace is None:
            namespace = self._namespaces[name] = NamespaceBudgets(written)
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
            if len(namespace.budgets) <= FEW:
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


def _draw(pod: Pod, namespace: NamespaceBudgets, matching: list[int], drawn: dict[int, int]) -> bool:
    """Draw on a pod's budgets until one is overdrawn; `drawn`: how often that was done, by budget."""
    for number in matching:
        if number in namespace.disrupting and pod.name in namespace.budgets[number].disrupted:
            continue
        times = drawn[number] = drawn.get(number, 0) + 1
        if times > namespace.allowed.item(number):
            return True
    return False


def _draw_many(pod: Pod, namespace: NamespaceBudgets, match: Match, left: NDArray[np.int64]) -> bool:
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
