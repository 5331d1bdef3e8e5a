"""A decision for a pod whose shape has a memo: only what can't be kept is asked of the plugins."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from scheduler.framework.decision import Decision
from scheduler.framework.memo import Memo, Memos
from scheduler.model.pod import Pod
from scheduler.state.cluster import Cluster

Reached = Callable[[str, str], None]
SUCCESS = "Success"


def decide_by(
    memo: Memo,
    memos: Memos,
    pod: Pod,
    cluster: Cluster,
    ask: Callable[..., Any],
    reached: Reached,
    *,
    kept: int | None = None,
    shut: Sequence[int] = (),
) -> Decision | None:
    """The best rows for a pod; None where only the plain way can tell, as when no node is left.

    `memo` is up to date, `reached` hears of each extension point that is done. `kept`: the row that is kept for the
    pod, and the only one if it fits there; `shut`: rows where it does not fit beside the pods that they are kept for.
    Raises PluginError when a plugin fails.
    """
    for plugin in memo.pre_filters:
        if ask(plugin, plugin.pre_filter, pod, cluster) is not None:
            return None
    reached("PreFilter", SUCCESS)
    alive = memo.passes
    if shut:
        alive = alive.copy()
        alive[shut] = False
    for plugin in memo.filters:
        for _, rejected in ask(plugin, plugin.filter, pod, cluster):
            if rejected.any():
                alive = alive & ~rejected
    if kept is not None and alive[kept]:
        reached("Filter", SUCCESS)
        return Decision(pod, cluster.nodes.count, np.array([kept], dtype=np.intp), quick=True, passing=1)
    if alive is not memo.passes:
        feasible = np.flatnonzero(alive)
    elif memo.feasible is None:
        feasible = memo.feasible = np.flatnonzero(alive)
    else:
        feasible = memo.feasible
    if not len(feasible):
        return None
    reached("Filter", SUCCESS)
    if len(feasible) == 1:
        return Decision(pod, cluster.nodes.count, feasible, quick=True, passing=1)
    others: Any = None
    for plugin, weight, normalize in memo.scorers:
        raw = ask(plugin, plugin.score, pod, cluster, feasible)
        if raw is None or isinstance(raw, int):
            continue  # the same for all nodes: no reason to choose one
        if normalize is not None:
            raw = ask(plugin, normalize, raw, pod, cluster, feasible)
        weighted = raw if weight == 1 else raw * weight
        others = weighted if others is None else others + weighted
    ranks = memos.ranks(memo, pod, cluster, alive)
    if others is None and alive is memo.passes:
        best = np.flatnonzero(ranks == ranks.max())
    else:
        totals = ranks if len(feasible) == len(ranks) else ranks[feasible]
        if others is not None:
            totals = totals + others
        best = feasible[totals == totals.max()]
    reached("Score", SUCCESS)
    return Decision(pod, cluster.nodes.count, best, quick=True, passing=len(feasible))
