"""One profile at work: its plugins, and the pipeline filter → score over all nodes at once.

Mirrors kube-scheduler `schedule_one.go` (schedulePod, findNodesThatFitPod, prioritizeNodes) and
`framework/runtime/framework.go`, with every node scored. A sample of nodes, where a configuration asks for one, saves
scoring only (decision 4): filters look at all nodes at once.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from msgspec import Struct

from podberth.cache.cluster import Cluster
from podberth.cache.column import Bools
from podberth.framework.binding import BindingPlugins, PluginsByPoint, WaitingPods, Write, by_point, for_shape
from podberth.framework.decision import AGAIN, Decision, PluginScores, Rows
from podberth.framework.declaration import Foreign, declared
from podberth.framework.events import ANY, ClusterEvent
from podberth.framework.filters import FilterPlugins
from podberth.framework.guard import Asked, Guard, Reached, Spans
from podberth.framework.interface import (
    ALL_NODES,
    MAX_SCORE,
    Assignment,
    FailedGroup,
    GroupPostFilterResult,
    Placement,
    Plugin,
    PostFilterResult,
    Profile,
    Running,
)
from podberth.framework.result_cache import EquivalenceClasses, KeptResults
from podberth.framework.status import SUCCESS, UNRESOLVABLE, UNSCHEDULABLE, Narrow, PluginError, Reason, Reject, shown
from podberth.model.limits import TOO_LARGE
from podberth.model.pod import Pod
from podberth.model.pod_group import PodGroup
from podberth.model.shape import PodShape

AT_LEAST = 100
"""Never fewer feasible nodes than that, if there are so many (minFeasibleNodesToFind)."""
_SHAPES = 1024
"""For how many shapes we remember which plugins they concern."""
_NO_ROWS: Rows = np.zeros(0, dtype=np.intp)


Enqueues = tuple[tuple[Any, bool], ...]
"""PreEnqueue plugins, each with whether it looks at the cluster."""


class _Concerned(Struct, frozen=True):
    """The plugins that pods of a shape concern."""

    enqueues: Enqueues
    from_reserve: PluginsByPoint


class Rotation(Struct):
    """The row at which the next search begins, so that all nodes get their turn."""

    start: int = 0


def nodes_to_find(percentage: int, nodes: int) -> int:
    """Return how many feasible nodes end a search among this many."""
    if percentage == ALL_NODES or nodes < AT_LEAST:
        return nodes
    return max(nodes * percentage // 100, AT_LEAST)


def sample(feasible: Rows, candidates: Bools, wanted: int, nodes: int, rotation: Rotation) -> Rows:
    """Return the first `wanted` feasible rows that a search among `candidates` (bool[rows]) finds, in row order.

    Moves the rotation on by as many nodes as the search looked at, of the `nodes` that exist.
    """
    rows = np.flatnonzero(candidates)
    places = np.searchsorted(rows, feasible)
    order = (places - rotation.start % len(rows)) % len(rows)
    if len(feasible) <= wanted:
        looked_at, chosen = len(rows), feasible
    else:
        nearest = np.argsort(order)[:wanted]
        looked_at, chosen = int(order[nearest[-1]]) + 1, np.sort(feasible[nearest])
    rotation.start = (rotation.start + looked_at) % nodes
    return chosen


class Framework:
    """Runs one profile's plugins. From pod to pod it keeps results by node (`EquivalenceClasses`)."""

    def __init__(self, profile: Profile, guard: Guard | None = None) -> None:
        self.profile = profile
        self.guard = Guard() if guard is None else guard
        self._reached: Reached = _unheard
        self._pre_filters: tuple[Any, ...] = profile.plugins("pre_filter")
        enqueues = profile.plugins("pre_enqueue")
        looking = [(plugin, declared(plugin).enqueues_by_cluster) for plugin in enqueues]
        self._enqueues: Enqueues = tuple(sorted(looking, key=lambda one: one[0].for_groups))
        """PreEnqueue plugins, those about groups last."""
        self._queue_sort: Any = next(iter(profile.plugins("queue_sort")), None)
        self._scorers = [
            (plugin, profile.weights.get(plugin.name, 1), plugin.normalize) for plugin in profile.plugins("score")
        ]
        self.filters = FilterPlugins(profile, self.guard)
        self.classes = EquivalenceClasses(self._pre_filters, self.filters.plugins, self._scorers, self.guard)
        """Results that are kept from pod to pod."""
        self._narrowing = [(plugin, declared(plugin)) for plugin in self._pre_filters]
        self._from_reserve = by_point(profile.points)
        self._by_shape: dict[PodShape, _Concerned] = {}
        self.placements = PlacementPlugins(profile, self.guard)
        self._by_name = profile.by_name
        self._methods = {name: declared(plugin).methods for name, plugin in self._by_name.items()}
        self._events: dict[str, ClusterEvent] = {name: plugin.events for name, plugin in self._by_name.items()}
        self._events[TOO_LARGE] = ClusterEvent.NOTHING
        for plugin in self._by_name.values():
            if isinstance(plugin, Foreign):
                plugin.guard = self.guard
        self._on_node = _on_node(profile, self.filters)
        self.goes_by_anything = bool(profile.percentage) or any(
            isinstance(plugin, Foreign) for plugin in self._by_name.values()
        )
        """Equal pods may find different nodes on the same cluster: third-party plugins may go by whatever they like,
        and a share of the nodes is another one each time."""

    def apart(self) -> "Framework":
        """Return the same profile under the same guard, with no kept results."""
        return Framework(self.profile.apart(), self.guard)

    def listen(self, timed: Asked | None, reached: Reached, spans: Spans) -> None:
        """Have `timed` make each call of a plugin (None: call it directly), and report extension points that are done.

        This is how time is measured: nothing here has a clock, the listener may have one.
        """
        self.guard.timed = timed
        self.guard.spans = spans
        self._reached = reached

    @property
    def computed(self) -> int:
        """Return how many decisions computed results for all nodes, since none were kept or too
        many nodes had changed.
        """
        return self.classes.computed

    def kept(self) -> KeptResults:
        """Return how many results are kept from pod to pod."""
        return self.classes.kept()

    def plugin(self, name: str) -> Plugin | None:
        """Return a plugin of this profile by name."""
        return self._by_name.get(name)

    def events(self, plugin: str) -> ClusterEvent:
        """Return the events that may reverse a plugin's rejection."""
        return self._events.get(plugin, ANY)

    def hint(self, plugin: Plugin, hint: str, *args: Any) -> bool:
        """Return the answer of a plugin's queueing hint; True if it does not have this hint. Raises PluginError."""
        return hint not in self._methods[plugin.name] or bool(self.guard(plugin, getattr(plugin, hint), *args))

    def looks_at_one_node(self, plugin: str) -> bool:
        """Return whether a plugin rejects a pod only by its filter, node by node, by the pod's shape and that node
        alone.

        False for all plugins if a PostFilter plugin helps in other ways than by removing pods of lower priority.
        """
        return plugin in self._on_node

    def pre_enqueue(self, pod: Pod, cluster: Cluster) -> tuple[str, Reason] | None:
        """Return what `held_by` does, measured: the pod is about to enter the queue."""
        spans = self.guard.spans
        if spans is None:
            return self.held_by(pod, cluster)
        spans.begin()
        held = self.held_by(pod, cluster)
        spans.end("PreEnqueue", SUCCESS if held is None else UNRESOLVABLE)
        return held

    def held_by(self, pod: Pod, cluster: Cluster) -> tuple[str, Reason] | None:
        """Return (plugin, reason) of the first that holds the pod out of the queue: a plugin, or a limit."""
        if pod.too_large is not None:
            return TOO_LARGE, Reason(pod.too_large.text)
        concerned = self._by_shape.get(pod.shape) or self._find_concerned(pod.shape)
        for plugin, looks in concerned.enqueues:
            if plugin.for_groups and pod.scheduling_group is None:
                continue
            given = (pod, cluster) if looks else (pod,)
            reason = self.guard(plugin, plugin.pre_enqueue, *given)
            if reason is not None:
                return plugin.name, reason
        return None

    def sort_key(self, pod: Pod, queued_at: float) -> tuple[Any, ...]:
        """Return the sort key of a pod in the active queue, smallest first."""
        plugin = self._queue_sort
        key: tuple[Any, ...] = self.guard(plugin, plugin.queue_sort, pod, queued_at)
        return key

    def decide_quickly(
        self, pod: Pod, cluster: Cluster, rotation: Rotation | None = None, within: Bools | None = None
    ) -> Decision:
        """Decide as `decide` does, from results kept for the pod's equivalence class, and without scores by plugin.

        A pod that fits no node is decided in full, for its message. Raises PluginError when a plugin fails.
        """
        sampled = rotation is not None and self.profile.percentage
        if not (pod.node_name or pod.shape.preferred_error is not None or sampled) and cluster.nodes.count:
            decision = self._decide_by_class(pod, cluster, within)
            if decision is not None:
                return decision
            self._reached(AGAIN, "")
        return self.decide(pod, cluster, rotation, within=within)

    def _decide_by_class(self, pod: Pod, cluster: Cluster, within: Bools | None) -> Decision | None:
        """Return the best rows for a pod; None: the decision has to be taken in full, as when no node is left."""
        ask, nodes = self.guard, cluster.nodes
        yields = bool(cluster.nominations.node_of and cluster.nominations)
        if within is None and not yields and pod.shape not in self.classes.by_shape:
            named = self._on_named_node(pod, cluster)
            if named is not None:
                return named
        kept = self.classes.of(pod, cluster)
        asked = kept.asked_about(pod, cluster, ask)
        count = nodes.count if within is None else int(np.count_nonzero(within))
        left = kept.passes if within is None else kept.passes & within
        if yields:
            yielding = self.filters.yielding(pod, cluster, left)
            if yielding is None:
                return None
            if yielding:
                left = left.copy()
                left[yielding] = False
        names: frozenset[str] | None = None
        for plugin in asked.pre_filters:
            outcome = ask(plugin, plugin.pre_filter, pod, cluster)
            if isinstance(outcome, Narrow):
                names = outcome.names if names is None else names & outcome.names
            elif outcome is not None:
                return None
        if names is not None:
            # A pod of a DaemonSet names its node: the kept results have the rest about that node.
            left = left & nodes.named(names)
        self._reached("PreFilter", SUCCESS)
        for plugin in asked.filters:
            for reason, rejected in ask(plugin, plugin.filter, pod, cluster):
                if np.count_nonzero(rejected):
                    if reason.broken:
                        return None
                    left = np.greater(left, rejected)
        nominated = self._nominated_row(pod, cluster)
        if nominated is not None and left[nominated]:
            self._reached("Filter", SUCCESS)
            return Decision(pod, count, np.array([nominated], dtype=np.intp), quick=True, passing=1)
        feasible = kept.rows_of(left)
        passing = len(feasible)
        if not passing:
            return None
        self._reached("Filter", SUCCESS)
        if passing == 1:
            return Decision(pod, count, feasible, quick=True, passing=1)
        others: Any = None
        for plugin, weight, normalize in asked.scorers:
            raw = ask(plugin, plugin.score, pod, cluster, feasible)
            if raw is None or isinstance(raw, int):
                continue  # the same for all nodes, so it does not change which one is best
            if normalize is not None:
                raw = ask(plugin, normalize, raw, pod, cluster, feasible)
            weighted = raw if weight == 1 else raw * weight
            others = weighted if others is None else others + weighted
        if others is None and left is kept.passes:
            best = kept.best(pod, cluster, ask)
        else:
            totals = kept.totals(pod, cluster, left, ask)
            if passing != len(left):
                totals = totals[feasible]
            if others is not None:
                totals = totals + others
            (best,) = (totals == totals[totals.argmax()]).nonzero()
            if passing != len(left):
                best = feasible[best]
        self._reached("Score", SUCCESS)
        return Decision(pod, count, best, quick=True, passing=passing)

    def _on_named_node(self, pod: Pod, cluster: Cluster) -> Decision | None:
        """Return the decision for a pod that asks for one node by its name, if that node takes it.

        The pods of a DaemonSet do. Each of them has a shape of its own: what is kept for equal pods is of no use to
        them, and to compute it for all nodes costs more the more nodes there are.
        """
        row = self._named_row(pod, cluster)
        if row is None:
            return None
        self._reached("PreFilter", SUCCESS)
        if not self.filters.takes(pod, cluster, row):
            self._reached(AGAIN, "")
            return None
        self._reached("Filter", SUCCESS)
        return Decision(pod, cluster.nodes.count, np.array([row], dtype=np.intp), quick=True, passing=1)

    def _named_row(self, pod: Pod, cluster: Cluster) -> int | None:
        """Return the row of the only node that PreFilter leaves; None: it leaves more, or none. Raises PluginError."""
        only: int | None = None
        # Those that go by the shape alone narrow the nodes, where any does; the others are asked only if they did.
        for by_shape in (True, False):
            for plugin, its in self._narrowing:
                if its.on_node is not by_shape or (not by_shape and "pre_filter" in plugin.skips(pod.shape)):
                    continue
                outcome = self.guard(plugin, plugin.pre_filter, pod, cluster)
                if isinstance(outcome, Narrow) and len(outcome.names) == 1:
                    (name,) = outcome.names
                    row = cluster.nodes.live_row(name)
                    if row is None or only not in (None, row):
                        return None
                    only = row
                elif outcome is not None:
                    return None
            if only is None:
                return None
        return only

    def decide(
        self,
        pod: Pod,
        cluster: Cluster,
        rotation: Rotation | None = None,
        *,
        score_always: bool = False,
        within: Bools | None = None,
    ) -> Decision:
        """Filter and score all nodes for one pod. A single feasible node is not scored unless asked for.

        `rotation`: with it, no more nodes are scored than the profile's percentage asks for. `within`: bool[rows], the
        only nodes that count. Raises PluginError when a plugin fails.
        """
        decision = self.find(pod, cluster, rotation, nominated=not score_always, within=within)
        if len(decision.feasible) > 1 or (score_always and len(decision.feasible)):
            self.rank(decision, cluster)
        return decision

    def find(
        self,
        pod: Pod,
        cluster: Cluster,
        rotation: Rotation | None = None,
        *,
        nominated: bool = True,
        within: Bools | None = None,
    ) -> Decision:
        """Filter all nodes for one pod; the feasible ones are not scored yet.

        `nominated`: a node that was kept for the pod is the only feasible one if it fits. `within`: as for `decide`.
        Raises PluginError when a plugin fails.
        """
        nodes = cluster.nodes
        alive: Bools = nodes.alive[: nodes.rows].copy() if within is None else nodes.alive[: nodes.rows] & within
        decision = Decision(pod, nodes.count if within is None else int(np.count_nonzero(alive)), _NO_ROWS)
        if not decision.nodes:
            return decision
        if not self._pre_filter(pod, cluster, decision, alive):
            self._reached("PreFilter", _rejection(decision))
            return decision
        self._reached("PreFilter", SUCCESS)
        candidates = alive
        alive, decision.rejected = self.filters.passing(pod, cluster, alive)
        self._reached("Filter", SUCCESS)
        kept = self._nominated_row(pod, cluster) if nominated else None
        if kept is not None and alive[kept]:
            # Room was made for the pod there: it takes the node if it fits (evaluateNominatedNode).
            decision.feasible = np.array([kept], dtype=np.intp)
            return decision
        decision.feasible = np.flatnonzero(alive)
        if rotation is not None and self.profile.percentage and candidates.any():
            decision.feasible = self._sampled(decision.feasible, candidates, cluster, rotation)
        return decision

    def _sampled(self, feasible: Rows, candidates: Bools, cluster: Cluster, rotation: Rotation) -> Rows:
        wanted = nodes_to_find(self.profile.percentage, int(np.count_nonzero(candidates))) if self._scorers else 1
        return sample(feasible, candidates, wanted, cluster.nodes.count, rotation)

    def post_filter_result(self, pod: Pod, cluster: Cluster, decision: Decision) -> PostFilterResult:
        """Asks the PostFilter plugins about a pod that found no node. The first that offers a node wins."""
        texts: list[str] = []
        writes: tuple[Write, ...] = ()
        in_the_way: frozenset[str] = frozenset()
        for plugin in self.profile.plugins("post_filter"):
            result: PostFilterResult = self.guard(plugin, plugin.post_filter, pod, cluster, decision, self.filters)
            if result.node is not None:
                self._reached("PostFilter", SUCCESS if result.node else UNSCHEDULABLE)
                if not (writes or any(texts)):
                    return result
                text = ", ".join(text for text in (*texts, result.text) if text)
                return replace(result, text=text, writes=writes + result.writes)
            texts.append(result.text)
            writes += result.writes
            in_the_way |= result.in_the_way
        self._reached("PostFilter", UNSCHEDULABLE)
        return PostFilterResult(", ".join(text for text in texts if text), writes=writes, in_the_way=in_the_way)

    def post_filter_group(
        self, failed: FailedGroup, cluster: Cluster
    ) -> Iterator[tuple[str, GroupPostFilterResult | PluginError]]:
        """Return (plugin, what it can do for a pod group that did not fit), one after the other."""
        for plugin in self.profile.plugins("post_filter"):
            if "post_filter_group" in declared(plugin).methods:
                result: GroupPostFilterResult | PluginError
                try:
                    result = self.guard(plugin, plugin.post_filter_group, failed, cluster)
                except PluginError as error:
                    result = error
                yield plugin.name, result

    def binding_plugins(
        self, pod: Pod, row: int, node: str, waiting_pods: WaitingPods, binders: tuple[Any, ...] = ()
    ) -> BindingPlugins:
        """Return the plugins from Reserve on, for a pod that is assumed on a node.

        `binders`: plugins that are asked to bind it before the profile's Bind plugins.
        """
        concerned = self._by_shape.get(pod.shape) or self._find_concerned(pod.shape)
        plugins = concerned.from_reserve
        if binders:
            plugins = {**plugins, **by_point({"bind": (*binders, *self.profile.plugins("bind"))}, ("bind",))}
        return BindingPlugins(plugins, self.guard, self._reached, pod, row, node, waiting_pods)

    def _find_concerned(self, shape: PodShape) -> "_Concerned":
        """Return the plugins that pods of a shape concern before and after their decision."""
        enqueues = tuple([one for one in self._enqueues if "pre_enqueue" not in one[0].skips(shape)])
        found = _Concerned(enqueues, for_shape(self._from_reserve, shape))
        if not shape.heavy:
            if len(self._by_shape) >= _SHAPES:
                self._by_shape.clear()
            self._by_shape[shape] = found
        return found

    def _nominated_row(self, pod: Pod, cluster: Cluster) -> int | None:
        name = cluster.nominations.node_of.get(pod.uid) or pod.nominated_node_name
        return cluster.nodes.live_row(name) if name else None

    def _pre_filter(self, pod: Pod, cluster: Cluster, decision: Decision, alive: Bools) -> bool:
        """Run PreFilter; False when the pod is rejected as a whole. Clears `alive` where nodes are left out."""
        names: frozenset[str] | None = None
        narrowed_by: tuple[str, ...] = ()
        for plugin in self._pre_filters:
            outcome = self.guard(plugin, plugin.pre_filter, pod, cluster)
            if outcome is None:
                continue
            if isinstance(outcome, Reject):
                decision.verdict = (plugin.name, outcome.reason)
                return False
            narrowed_by += (plugin.name,)
            names = outcome.names if names is None else names & outcome.names
            decision.narrowed_by = narrowed_by
            if not names:
                text = f"node(s) didn't satisfy plugin(s) [{' '.join(sorted(narrowed_by))}] simultaneously"
                if len(narrowed_by) == 1:
                    text = f"node(s) didn't satisfy plugin {narrowed_by[0]}"
                decision.verdict = ("", Reason(text, unresolvable=True))
                return False
        if names is None:
            return True
        decision.narrowed = names
        only = cluster.nodes.named(names)
        decision.left_out = alive & ~only
        alive &= only
        return True

    def rank(self, decision: Decision, cluster: Cluster) -> None:
        """Score the feasible nodes. Raises PluginError when a plugin fails."""
        pod, feasible = decision.pod, decision.feasible
        totals = np.zeros(len(feasible), dtype=np.int64)
        for plugin, weight, normalize in self._scorers:
            raw = self.guard(plugin, plugin.score, pod, cluster, feasible)
            if raw is None:
                continue
            if isinstance(raw, int):
                raw = np.full(len(feasible), raw, dtype=np.int64)
            weighted = (
                raw if normalize is None else self.guard(plugin, normalize, raw, pod, cluster, feasible)
            ) * weight
            totals += weighted
            decision.scores.append(PluginScores(plugin.name, weight, raw, weighted))
        decision.totals = totals
        self._reached("Score", SUCCESS)


def _on_node(profile: Profile, filters: FilterPlugins) -> frozenset[str]:
    """Return the filters for which `Framework.looks_at_one_node` is true."""
    if not all(plugin.only_preempts for plugin in profile.plugins("post_filter")):
        return frozenset()
    points = ("pre_enqueue", "pre_filter", "reserve", "permit")
    return filters.on_node() - {plugin.name for point in points for plugin in profile.plugins(point)}


def _rejection(decision: Decision) -> str:
    resolvable = decision.verdict is None or not decision.verdict[1].unresolvable
    return UNSCHEDULABLE if resolvable else UNRESOLVABLE


def _unheard(point: str, status: str) -> None:
    """Do nothing: nobody listens to the framework."""


class PlacementPlugins:
    """The plugins that say on which nodes a pod group may be, and which of these placements is the best.

    Mirrors kube-scheduler `framework/runtime/framework.go` (RunPlacementGeneratePlugins, RunPlacementScorePlugins).
    """

    def __init__(self, profile: Profile, guard: Guard) -> None:
        self._generator = next(iter(profile.plugins("placement_generate")), None)
        weights = profile.placement_weights
        self._scorers = [(plugin, weights.get(plugin.name, 1)) for plugin in profile.plugins("placement_score")]
        self._ask = guard

    @property
    def wanted(self) -> bool:
        """Return whether groups are scheduled placement by placement. Otherwise the whole cluster is tried at once."""
        return self._generator is not None

    def generate(self, group: PodGroup, running: Sequence[Running], cluster: Cluster) -> list[Placement]:
        """Return the placements in the order in which they are tried, each with nodes.

        Raises PluginError.
        """
        plugin, nodes = self._generator, cluster.nodes
        found: Any = plugin and self._ask(plugin, plugin.placement_generate, group, running, cluster)
        if plugin is None or found is None:
            return [Placement("", np.flatnonzero(nodes.alive[: nodes.rows]))]
        for one in found:
            if not isinstance(one, Placement):
                raise PluginError(plugin.name, f"want placements, got {shown(one)}", "PlacementGenerate")
        return [one for one in found if len(one.rows)]

    def scores(self, assignment: Assignment, cluster: Cluster) -> tuple[int, ...]:
        """Each plugin's score of one placement, not normalized.

        Raises PluginError.
        """
        return tuple(int(self._ask(plugin, plugin.placement_score, assignment, cluster)) for plugin, _ in self._scorers)

    def totals(self, scores: Sequence[tuple[int, ...]]) -> list[int]:
        """Return the total of each placement, by what `scores` has said of each.

        Raises PluginError.
        """
        totals = [0] * len(scores)
        for (plugin, weight), said in zip(self._scorers, zip(*scores, strict=True), strict=True):
            normalized = self._ask(plugin, plugin.normalize_placements, said)
            for i, score in enumerate(normalized):
                if not 0 <= score <= MAX_SCORE:
                    wanted = f"want scores from 0 to {MAX_SCORE}, got {score}"
                    raise PluginError(plugin.name, wanted, "PlacementScore")
                totals[i] += score * weight
        return totals
