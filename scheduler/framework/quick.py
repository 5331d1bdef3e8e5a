"""A decision for a pod whose shape has a memo: only what can't be kept is asked of the plugins."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from scheduler.framework.decision import Decision, Rows
from scheduler.framework.memo import Memo, Memos
from scheduler.framework.parts import every_row
from scheduler.model.pod import Pod
from scheduler.state.cluster import Cluster
from scheduler.state.column import Bools

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
            if np.count_nonzero(rejected):
                alive = np.greater(alive, rejected)
    if kept is not None and alive[kept]:
        reached("Filter", SUCCESS)
        return Decision(pod, cluster.nodes.count, np.array([kept], dtype=np.intp), quick=True, passing=1)
    left = int(np.count_nonzero(alive))
    if not left:
        return None
    reached("Filter", SUCCESS)
    if left == 1:
        return Decision(pod, cluster.nodes.count, np.flatnonzero(alive), quick=True, passing=1)
    feasible = _rows(memo, alive, left)
    others: Any = None
    for plugin, weight, normalize in memo.scorers:
        raw = ask(plugin, plugin.score, pod, cluster, feasible)
        if raw is None or isinstance(raw, int):
            continue  # the same for all nodes: no reason to choose one
        if normalize is not None:
            raw = ask(plugin, normalize, raw, pod, cluster, feasible)
        weighted = raw if weight == 1 else raw * weight
        others = weighted if others is None else others + weighted
    totals = memos.ranks(memo, pod, cluster, alive)
    # By themselves, ranks leave out the rows that do not pass.
    some = left != len(alive) and (others is not None or alive is not memo.passes)
    if some:
        totals = totals[feasible]
    if others is not None:
        totals = totals + others
    (best,) = (totals == totals[totals.argmax()]).nonzero()
    if some:
        best = feasible[best]
    reached("Score", SUCCESS)
    return Decision(pod, cluster.nodes.count, best, quick=True, passing=left)


def _rows(memo: Memo, alive: Bools, left: int) -> Rows:
    """The rows of `alive`, of which there are `left`."""
    if left == len(alive):
        return every_row(left)
    if alive is not memo.passes:
        return alive.nonzero()[0]
    if memo.feasible is None:
        memo.feasible = alive.nonzero()[0]
    return memo.feasible
