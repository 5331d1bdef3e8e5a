"""Checks that a plugin answers the same about some rows as about all: kept results are repaired by asking about some.

`berth run --verify` uses it to name the plugin that is at fault, and so does the test kit for plugins.
"""

from collections.abc import Iterable
from typing import Any

import numpy as np

from podberth.cache.cluster import Cluster
from podberth.cache.view import some_rows
from podberth.framework.decision import Rows, every_row
from podberth.framework.foreign import declared
from podberth.framework.guard import Guard
from podberth.framework.result_cache import passing
from podberth.model.pod import Pod


def contradictions(plugin: Any, pod: Pod, cluster: Cluster, rows: Rows, guard: Guard) -> list[str]:
    """One text for each way in which a plugin contradicts itself.

    Only plugins that depend on NODE and PODS_HERE alone are checked. Raises PluginError.
    """
    its = declared(plugin)
    if not its.on_node or not len(rows):
        return []
    found = []
    some, names = some_rows(cluster, rows), [cluster.nodes.names[row] or "" for row in rows]
    if "filter" in its.points:
        whole = passing((plugin,), pod, cluster, None, guard)[rows]
        found += _differ("filter", names, whole, "a view of this row", passing((plugin,), pod, some, None, guard))
        if "filter_one" in its.methods:
            passes = [bool(guard(plugin, plugin.filter_one, pod, cluster.nodes, int(row))) for row in rows]
            found += _differ("filter", names, whole, "filter_one", passes)
    if "score" in its.points:
        scores = _scores(plugin, pod, cluster, every_row(cluster.nodes.rows), guard)
        if scores is not None:
            alone = _scores(plugin, pod, some, every_row(len(rows)), guard)
            found += _differ("score", names, scores[rows], "a view of this row", [] if alone is None else alone)
            if "score_one" in its.methods:
                one = [int(guard(plugin, plugin.score_one, pod, cluster.nodes, int(row))) for row in rows]
                found += _differ("score", names, scores[rows], "score_one", one)
    return found


def _scores(plugin: Any, pod: Pod, cluster: Cluster, rows: Rows, guard: Guard) -> Any:
    raw = guard(plugin, plugin.score, pod, cluster, rows)
    return np.full(len(rows), raw, dtype=np.int64) if isinstance(raw, int) else raw


def _differ(point: str, names: list[str], whole: Any, how: str, others: Iterable[Any]) -> list[str]:
    others = list(others)
    if not others:
        return [f"{point} answers for all nodes, and takes no part for some of them ({how})"]
    what = {"filter": {True: "passes", False: "rejects"}}.get(point)
    for name, said, otherwise in zip(names, whole.tolist(), others, strict=True):
        if said != otherwise:
            one, other = (what[bool(said)], what[bool(otherwise)]) if what else (f"gives {said}", f"gives {otherwise}")
            return [f"{point} {one} node {name} when it is asked about all, and {other} it by {how}"]
    return []
