"""Every Nth decision, taken again on a cluster made anew by plugins that know nothing yet, and held against the first.

What is kept from pod to pod (results by node, plugins' own, and the columns and counts under them) can't be wrong in
both. Where they differ, the second decision counts, and the cluster made anew takes the place of the other.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np

from scheduler.framework.consistency import contradictions
from scheduler.framework.decision import Decision, Rows, fit_error
from scheduler.framework.foreign import Foreign
from scheduler.framework.runtime import Framework
from scheduler.framework.sampling import Rotation
from scheduler.framework.status import PluginError
from scheduler.model.pod import Pod
from scheduler.state.anew import Twin, differing, made_anew
from scheduler.state.cluster import Cluster
from scheduler.state.nodes import Nodes

MOST_NODES = 10
"""Nodes that an answer names, and that a dump describes."""
KEPT = "what is kept for equal pods"
COLUMNS = "the columns and counts of the cluster"


@dataclass(frozen=True, slots=True)
class Answer:
    """One of two decisions, as far as both have it. `best`: the first nodes of `count` that share the best total."""

    count: int
    best: tuple[str, ...]
    total: int | None
    message: str
    plugins: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Difference:
    """A decision that came out otherwise on a cluster made anew."""

    what: tuple[str, ...]
    kept: Answer
    anew: Answer
    blame: str
    """Where the fault is: COLUMNS, the plugins that it may be in by name, or KEPT."""
    nodes: tuple[str, ...]
    """Nodes about which the two decisions differ."""
    numbers: tuple[str, ...]
    """Numbers of these nodes that were kept otherwise than the objects have them."""
    dump: Mapping[str, Any]
    """The pod, these nodes and what the plugins make of them, as plain data."""


ROWS = 250
"""Rows of the cluster that are made anew with each decision until it is there: so that none takes long."""


class Verifier:
    """Verifies every `every`th decision of these profiles, or the first one after it once a cluster is made anew."""

    def __init__(self, frameworks: Mapping[str, Framework], every: int) -> None:
        self._every = every
        self._decided = 0
        self._twin: Twin | None = None
        self.follow(frameworks)

    def follow(self, frameworks: Mapping[str, Framework]) -> None:
        """Verify decisions of these profiles from now on."""
        self._frameworks = frameworks

    def due(self, cluster: Cluster) -> bool:
        """Whether the decision at hand is to be verified; makes some more of the cluster anew if one is to be soon."""
        self._decided += 1
        twin = self._twin
        if twin is None and self._decided % self._every:
            return False
        if twin is None or twin.lost:
            twin = self._twin = Twin(cluster)
        # A cluster that is made anew knows of terms that wait to be indexed in the one that has decided.
        return twin.go_on(ROWS) and not cluster.incidence.terms.sets.behind

    def verify(self, decided: Decision, cluster: Cluster, rotation: Rotation) -> tuple[Decision, Difference | None]:
        """The decision that counts, and how it differs from the one that was `decided`; repairs the cluster if so.

        For one that is due. `rotation`: as it was before the decision. Raises PluginError when a plugin fails.
        """
        pod, twin = decided.pod, self._twin
        framework = self._frameworks[pod.scheduler_name]
        self._twin = None
        made = made_anew(cluster) if twin is None else twin.made()
        anew = framework.apart().decide(pod, made, Rotation(rotation.start))
        what = differences(decided, anew)
        if not what:
            return decided, None
        with_nothing_kept = framework.apart().decide(pod, cluster, Rotation(rotation.start))
        rows = _rows_concerned(decided, anew)
        names = made.nodes.names
        difference = Difference(
            what,
            _answer(decided, cluster.nodes),
            _answer(anew, made.nodes),
            COLUMNS if differences(with_nothing_kept, anew) else _blame(framework, pod, cluster, rows),
            tuple(names[row] or "" for row in rows),
            tuple(differing(cluster.nodes, made.nodes, rows)),
            _dump(anew, made, rows),
        )
        cluster.adopt(made)
        return anew, difference


def _blame(framework: Framework, pod: Pod, cluster: Cluster, rows: Rows) -> str:
    """Who has kept, or made others keep, what is wrong: plugins that contradict themselves, else those from outside."""
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
    """What differs between two decisions for one pod; totals and all feasible nodes only where both have them."""
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
    """The first rows about which they differ, best ones before others; the best ones if that says nothing."""
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


def _answer(decision: Decision, nodes: Nodes) -> Answer:
    best = decision.best()
    fits = bool(len(best))
    return Answer(
        len(best),
        tuple(nodes.names[row] or "" for row in best[:MOST_NODES]),
        int(decision.totals.max()) if decision.totals is not None and fits else None,
        "" if fits else fit_error(decision),
        () if fits else tuple(sorted(decision.unschedulable_plugins())),
    )


def _dump(anew: Decision, cluster: Cluster, rows: Rows) -> dict[str, Any]:
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
                **_verdict(anew, row),
            }
        )
    return {"pod": _plain(anew.pod), "nodes": described}


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
