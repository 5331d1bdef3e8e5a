"""Which running pods would have to end for a gang to start: a small set, found by a bounded search, and then tried.

From each node pods are taken in a dry run, those first that hold most of what the gang asks for, and it is counted how
many more of the gang fit there after each. The cheapest choice of nodes is then tried with the whole gang, and
pods that are not needed are spared.
"""

from collections.abc import Sequence

import numpy as np

from podberth.cache.column import Ints
from podberth.explain.claims import without
from podberth.explain.gangs import answer as shown
from podberth.explain.gangs.fitting import Fitting
from podberth.explain.gangs.gang import Domain, Gang
from podberth.model.pod import Pod

_NODES = 2_000
"""Nodes on which pods are taken away in a dry run."""
_TAKEN = 10_000
"""Pods that are taken away to count what that brings."""
_A_NODE = 8
"""Pods of one node that are taken away at most."""
_DOMAINS = 4
_SPARED = 64
"""Pods for which it is tried whether they may stay."""
_SHOWN = 2


def endings(gang: Gang, fitting: Fitting, where: Sequence[Domain]) -> tuple[list[shown.Ending], str]:
    """The sets that were found, the smallest first, and what to say of the search. Raises PluginError."""
    search = _Search(gang, fitting)
    found: list[shown.Ending] = []
    fits = fitting.most(gang.waiting, where)
    ordered = sorted(
        (one for one, number in zip(where, fits, strict=True) if number is not None),
        key=lambda one: -(fits[where.index(one)] or 0),
    )
    for domain in ordered[:_DOMAINS]:
        pods = search.in_domain(domain)
        if pods:
            nodes = list(dict.fromkeys(pod.node_name for pod in pods))
            found.append(shown.Ending([pod.key for pod in pods], nodes, domain.name))
    found.sort(key=lambda each: len(each.pods))
    note = ""
    if not found:
        note = "no set of running pods was found whose end would start it; not every set was tried"
    return found[:_SHOWN], note


class _Search:
    def __init__(self, gang: Gang, fitting: Fitting) -> None:
        self._gang = gang
        self._fitting = fitting
        self._cluster = fitting.cluster
        self._own = {pod.uid for pod in gang.running}

    def in_domain(self, domain: Domain) -> list[Pod]:
        """Pods of one domain whose end is enough; empty: none were found."""
        candidates = self._candidates(domain)
        missing = self._gang.lacking - self._fits(domain)
        chosen = self._choose(candidates, missing) if missing > 0 else []
        if not chosen or not self._starts(chosen, domain):
            return []
        return self._spare(chosen, domain)

    def _fits(self, domain: Domain) -> int:
        return self._fitting.most(self._gang.waiting, [domain])[0] or 0

    def _candidates(self, domain: Domain) -> dict[int, list[Pod]]:
        """Row → its pods that may be taken away, in this order; the nodes with the fewest pods first."""
        nodes = self._cluster.nodes
        asked = self._gang.waiting[0].shape.requests
        whole = {name: int(nodes.allocatable[nodes.resources[name]].max()) for name in asked if name in nodes.resources}

        def share(pod: Pod) -> float:
            found = [pod.shape.requests.get(name, 0) / most for name, most in whole.items() if most and asked[name]]
            return max(found, default=0.0)

        found: dict[int, list[Pod]] = {}
        for row in domain.rows.tolist():
            pods = [pod for pod in self._cluster.pods_on(row) if not pod.belongs_to_node and pod.uid not in self._own]
            if pods:
                found[row] = sorted(pods, key=lambda pod: (-share(pod), pod.priority, pod.key))[:_A_NODE]
        ordered = sorted(found, key=lambda row: (len(found[row]), nodes.names[row] or ""))[:_NODES]
        return {row: found[row] for row in ordered}

    def _choose(self, candidates: dict[int, list[Pod]], missing: int) -> list[Pod]:
        """The fewest pods that make room for so many more, if each node is a question by itself."""
        rows, before = list(candidates), self._counts()
        gains = np.zeros((_A_NODE + 1, len(rows)), dtype=np.int64)
        left = _TAKEN
        for number in range(1, _A_NODE + 1):
            if all(len(candidates[row]) < number for row in rows) or left <= 0:
                break
            some = [pod for row in rows for pod in candidates[row][:number]]
            left -= len(some)
            with without(some, self._cluster):
                after = self._counts()
            gains[number] = [int(after[row] - before[row]) if len(candidates[row]) >= number else 0 for row in rows]
        levels = cheapest(gains, missing)
        return [pod for row, number in zip(rows, levels, strict=True) for pod in candidates[row][:number]]

    def _counts(self) -> Ints:
        """int64[rows]: how many pods of the gang each node takes; where sums do not say, whether it takes any."""
        found = self._fitting.room(self._gang.waiting)
        if found is not None:
            return found.counts
        counts = np.zeros(self._cluster.nodes.rows, dtype=np.int64)
        for pod in {id(pod.shape): pod for pod in self._gang.waiting}.values():
            counts[self._fitting.framework.find(pod, self._cluster).feasible] += 1
        return counts

    def _starts(self, pods: Sequence[Pod], domain: Domain) -> bool:
        with without(pods, self._cluster):
            return not self._gang.gap(self._cluster) and self._fitting.starts(
                self._gang.waiting, [domain], self._gang.lacking
            )

    def _spare(self, chosen: Sequence[Pod], domain: Domain) -> list[Pod]:
        """The pods that really have to end; it is tried first whether those of the highest priority may stay."""
        kept = list(chosen)
        for pod in sorted(chosen, key=lambda pod: (-pod.priority, pod.key))[:_SPARED]:
            rest = [one for one in kept if one is not pod]
            if rest and not self._fitting.spent and self._starts(rest, domain):
                kept = rest
        return sorted(kept, key=lambda pod: (pod.node_name, pod.key))


def cheapest(gains: Ints, missing: int) -> list[int]:
    """Return how many pods to take from each node, so that the gains add up to what is missing and the pods are the
    fewest.

    `gains`: int64[number, node], what taking so many pods from a node brings. All zeros: nothing is enough. What goes
    beyond what is missing counts as just that.
    """
    numbers, nodes = gains.shape
    too_many = np.iinfo(np.int64).max // 2
    costs = np.full(missing + 1, too_many, dtype=np.int64)
    costs[0] = 0
    taken = np.zeros((nodes, missing + 1), dtype=np.int8)
    # [node, gained]: what was gained by the nodes before this one.
    before = np.tile(np.arange(missing + 1, dtype=np.int32), (nodes, 1))
    for node in range(nodes):
        after = costs.copy()
        for number in range(1, numbers):
            gain = min(int(gains[number, node]), missing)
            if gain <= min(int(gains[number - 1, node]), missing):
                continue
            source = np.arange(missing + 1, dtype=np.int32) - gain
            last = missing - gain + int(costs[missing - gain :].argmin())
            source[missing] = last
            reached = np.where(source >= 0, costs[np.maximum(source, 0)] + number, too_many)
            better = reached < after
            after[better], taken[node, better], before[node, better] = reached[better], number, source[better]
        costs = after
    found = [0] * nodes
    gained = missing if costs[missing] < too_many else 0
    for node in reversed(range(nodes)):
        found[node] = int(taken[node, gained])
        gained = int(before[node, gained])
    return found
