"""Which victims would overdraw a disruption budget (upstream: framework/preemption, FilterVictimsWithPDBViolation)."""

from collections.abc import Mapping, Sequence

from podberth.cache.cluster import Cluster
from podberth.model.namespaced import SelectingObject
from podberth.model.pod import Pod
from podberth.model.selectors import LabelSelector

_KIND = "PodDisruptionBudget"
_REMEMBERED = 1 << 20
"""How many pairs of label sets and budgets are remembered of one namespace. With one more, all are forgotten."""

Drawn = dict[tuple[str, str], int]
"""(namespace, name) of a budget → how often victims have drawn on it."""


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


class Budgets:
    """The budgets of one cluster. What their selectors match is kept until a selector changes."""

    def __init__(self) -> None:
        self._version = 0
        self._cluster: Cluster | None = None
        self._selectors: dict[str, _Selectors] = {}
        """By namespace."""
        self.any = False
        """Whether there are any."""
        self.steps = 0
        """Steps that `overdrawing` has taken, about a microsecond each."""

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
            self._selectors.clear()
        for where, name in changed or ():
            known, budget = self._selectors.get(where), written.get(where, {}).get(name)
            if known is not None and known.by_name.get(name) != _selector(budget):
                del self._selectors[where]

    def overdrawing(self, pods: Sequence[Pod], cluster: Cluster, drawn: Drawn | None = None) -> list[bool] | None:
        """For each victim, the most important first, whether its eviction would overdraw one; None: nobody's would.

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
            if found and _overdraws(pod, found, written, drawn):
                flags = flags or [False] * len(pods)
                flags[i] = True
        return flags


def _overdraws(pod: Pod, names: Sequence[str], written: Mapping[str, SelectingObject], drawn: Drawn) -> bool:
    """Draw on a pod's budgets, one after the other until one is overdrawn."""
    for name in names:
        budget = written[name]
        if pod.name in budget.disrupted:
            continue
        key = pod.namespace, name
        times = drawn[key] = drawn.get(key, 0) + 1
        if times > budget.allowed:
            return True
    return False


def _selector(budget: SelectingObject | None) -> LabelSelector | None:
    return None if budget is None else budget.selector
