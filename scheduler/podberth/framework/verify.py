"""Takes every Nth decision a second time, with fresh plugins on a cluster that is rebuilt from its objects.

If something that is kept from pod to pod is wrong (results by node, a plugin's own, columns, counts), the two decisions
differ. Then the second one counts, and the rebuilt cluster takes the place of the other.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
import numpy as np
from msgspec import Struct

from podberth.cache.cluster import Cluster
from podberth.cache.column import Bools
from podberth.cache.nodes import Nodes
from podberth.cache.rebuild import Rebuild, differing, rebuilt
from podberth.cache.view import some_rows
from podberth.framework.decision import Decision, Rows, every_row, fit_error
from podberth.framework.declaration import Foreign, declared
from podberth.framework.guard import Guard
from podberth.framework.result_cache import rows_passing
from podberth.framework.runtime import Framework, Rotation
from podberth.framework.status import PluginError
from podberth.model.pod import Pod

MOST_NODES = 10
"""Nodes that a summary names, and that a dump describes."""
ROWS = 250
"""Rows that are rebuilt with each decision, until the cluster is complete: so no decision waits long for it."""
KEPT = "what is kept for equal pods"
COLUMNS = "the columns and counts of the cluster"


class Summary(Struct, frozen=True):
    """The part that both decisions have. `best`: the first of the `count` nodes that share the best total."""

    count: int
    best: tuple[str, ...]
    total: int | None
    message: str
    plugins: tuple[str, ...]


class Difference(Struct, frozen=True):
    """A decision that was different on the rebuilt cluster."""

    what: tuple[str, ...]
    kept: Summary
    rebuilt: Summary
    blame: str
    """The place of the fault: COLUMNS, the plugins that it may be in by name, or KEPT."""
    nodes: tuple[str, ...]
    """Nodes about which the two decisions differ."""
    numbers: tuple[str, ...]
    """Numbers of these nodes that differ between the kept columns and the objects."""
    dump: Mapping[str, Any]
    """The pod, these nodes and the plugins' verdicts on them, as plain data."""


class Verifier:
    """Verifies every `every`th decision of these profiles, or the first one after it once a cluster is rebuilt."""

    def __init__(self, frameworks: Mapping[str, Framework], every: int) -> None:
        self._every = every
        self._decided = 0
        self._rebuild: Rebuild | None = None
        self.follow(frameworks)

    def follow(self, frameworks: Mapping[str, Framework]) -> None:
        """Verify decisions of these profiles from now on."""
        self._frameworks = frameworks

    def due(self, cluster: Cluster) -> bool:
        """Return whether this decision is to be verified. If one soon is, some more rows of the cluster are rebuilt."""
        self._decided += 1
        rebuild = self._rebuild
        if rebuild is None and self._decided % self._every:
            return False
        if rebuild is None or rebuild.lost:
            rebuild = self._rebuild = Rebuild(cluster)
        # The rebuilt cluster has indexed all terms. The one that has decided may still have some to index.
        return rebuild.go_on(ROWS)

    def verify(
        self, decided: Decision, cluster: Cluster, rotation: Rotation, within: Bools | None = None
    ) -> tuple[Decision, Difference | None]:
        """Return the decision that counts, and how it differs from what was `decided`; if so, the cluster is repaired.

        To be called if `due` says so. `rotation`: as it was before the decision. `within`: bool[rows], the only
        nodes that counted. Raises PluginError.
        """
        pod, rebuild = decided.pod, self._rebuild
        framework = self._frameworks[pod.scheduler_name]
        self._rebuild = None
        made = rebuilt(cluster) if rebuild is None else rebuild.cluster()
        again = framework.apart().decide(pod, made, Rotation(rotation.start), within=within)
        what = differences(decided, again)
        if not what:
            return decided, None
        with_nothing_kept = framework.apart().decide(pod, cluster, Rotation(rotation.start), within=within)
        rows = _rows_concerned(decided, again)
        names = made.nodes.names
        difference = Difference(
            what,
            _summary(decided, cluster.nodes),
            _summary(again, made.nodes),
            COLUMNS if differences(with_nothing_kept, again) else _blame(framework, pod, cluster, rows),
            tuple(names[row] or "" for row in rows),
            tuple(differing(cluster.nodes, made.nodes, rows)),
            _dump(again, made, rows),
        )
        cluster.adopt(made)
        return again, difference


def _blame(framework: Framework, pod: Pod, cluster: Cluster, rows: Rows) -> str:
    """Return which plugins are at fault: those that contradict themselves, otherwise all third-party plugins."""
    plugins = {plugin.name: plugin for point in ("filter", "score") for plugin in framework.profile.plugins(point)}
    faulty = []
    for name, plugin in plugins.items():
        try:
            contradicts = bool(contradictions(plugin, pod, cluster, rows, framework.guard))
        except PluginError:
            contradicts = True
        if contradicts:
            faulty.append(name)
    faulty = faulty or [name for name, plugin in plugins.items() if isinstance(plugin, Foreign)]
    return ", ".join(f"plugin {name}" for name in faulty) or KEPT


def differences(one: Decision, other: Decision) -> tuple[str, ...]:
    """Return what differs between two decisions for one pod. Totals and feasible nodes are compared
    if both have them.
    """
    found = []
    if one.nodes != other.nodes:
        found.append("number of nodes")
    if not np.array_equal(one.best(), other.best()):
        found.append("best nodes")
    if not one.quick and not other.quick:
        if not np.array_equal(one.feasible, other.feasible):
            found.append("feasible nodes")
        elif one.totals is not None and other.totals is not None and (one.totals != other.totals).any():
            found.append("totals")
    if not len(one.feasible) and not len(other.feasible):
        if fit_error(one) != fit_error(other):
            found.append("message")
        if one.unschedulable_plugins() != other.unschedulable_plugins():
            found.append("unschedulable plugins")
    return tuple(found)


def _rows_concerned(one: Decision, other: Decision) -> Rows:
    """Return the first rows in which they differ, best ones before others; the best rows if no row differs."""
    best = np.setxor1d(one.best(), other.best())
    if len(best):
        return best[:MOST_NODES]
    if not one.quick and not other.quick:
        feasible = np.setxor1d(one.feasible, other.feasible)
        if len(feasible):
            return feasible[:MOST_NODES]
        if one.totals is not None and other.totals is not None:
            return np.asarray(one.feasible[one.totals != other.totals][:MOST_NODES], dtype=np.intp)
    return other.best()[:MOST_NODES]


def _summary(decision: Decision, nodes: Nodes) -> Summary:
    best = decision.best()
    fits = bool(len(best))
    return Summary(
        len(best),
        tuple(nodes.names[row] or "" for row in best[:MOST_NODES]),
        int(decision.totals.max()) if decision.totals is not None and fits else None,
        "" if fits else fit_error(decision),
        () if fits else tuple(sorted(decision.unschedulable_plugins())),
    )


def _dump(decision: Decision, cluster: Cluster, rows: Rows) -> dict[str, Any]:
    nodes = cluster.nodes
    described = []
    for row in map(int, rows):
        node = nodes.objects[row]
        described.append(
            {
                "name": nodes.names[row],
                "labels": dict(node.labels) if node is not None else None,
                "taints": _plain(node.taints) if node is not None else None,
                "unschedulable": bool(nodes.unschedulable[row]),
                "allocatable": {name: int(nodes.allocatable[i, row]) for name, i in nodes.resources.items()},
                "requested": {name: int(nodes.requested[i, row]) for name, i in nodes.resources.items()},
                "pods": f"{int(nodes.pods[row])} of {int(nodes.allowed_pods[row])}",
                **_verdict(decision, row),
            }
        )
    return {"pod": _plain(decision.pod), "nodes": described}


def _verdict(decision: Decision, row: int) -> dict[str, Any]:
    found = np.flatnonzero(decision.feasible == row)
    if len(found):
        return {
            "scores": {one.plugin: [int(one.raw[found[0]]), int(one.weighted[found[0]])] for one in decision.scores}
        }
    return {
        "rejected": [
            f"{one.plugin}: {reason.text}" for one in decision.rejected for reason, where in one.reasons if where[row]
        ]
    }


def _plain(thing: Any) -> Any:
    return msgspec.to_builtins(thing, enc_hook=_by_slots, str_keys=True)


def _by_slots(thing: Any) -> Any:
    slots = getattr(type(thing), "__slots__", ())
    return {name: getattr(thing, name) for name in slots if hasattr(thing, name)} if slots else str(thing)


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
        whole = rows_passing((plugin,), pod, cluster, None, guard)[rows]
        found += _differ("filter", names, whole, "a view of this row", rows_passing((plugin,), pod, some, None, guard))
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
